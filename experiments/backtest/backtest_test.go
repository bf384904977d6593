package backtest

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
)

// daily is an hourly series of days with a gap.
func daily(days int) api.Series {
	s := api.Series{Start: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), Step: time.Hour}
	for i := range 24 * days {
		s.Values = append(s.Values, 100+50*math.Sin(2*math.Pi*float64(i)/24)+3*math.Sin(float64(i*i)))
	}
	s.Values[50] = math.NaN()
	return s
}

// One can look at what was drawn, and read the scores of each model beside it.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	options := Options{Windows: 6, Levels: []float64{0.5, 0.9}, Report: dir}
	for _, name := range []string{forecast.AutoName, forecast.NaiveName} {
		f, err := forecast.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		options.Models = append(options.Models, f)
	}
	got, err := options.Run([]Input{{"daily", daily(14), 12}}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Series) != 2 || len(got.Mean) != 2 {
		t.Fatalf("%d scores and %d means, want 2 and 2", len(got.Series), len(got.Mean))
	}
	if auto, naive := *got.Series[0].MASE, *got.Series[1].MASE; !(auto < naive/2) {
		t.Errorf("MASE %v, of the last value %v: a daily sine is not foreseen", auto, naive)
	}
	fans, err := filepath.Glob(filepath.Join(dir, "daily*by-auto.png"))
	if err != nil || len(fans) != 1 {
		t.Fatalf("fans %v, %v", fans, err)
	}
	for _, path := range append(fans, filepath.Join(dir, "calibration.png")) {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		drawn, err := png.Decode(file)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if colors := colorsOf(drawn); drawn.Bounds().Dx() < 200 || colors < 4 {
			t.Errorf("%s is of %v and %d colours", path, drawn.Bounds(), colors)
		}
	}
	page, err := os.ReadFile(got.Report)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range got.Series {
		row := fmt.Sprintf(`<td>%s</td><td>%.2f</td><td>%.3f</td>`, s.Model, *s.SMAPE, *s.MASE)
		if !strings.Contains(string(page), row) {
			t.Errorf("no row %s in the page", row)
		}
	}
}

// colorsOf counts the colours of a picture.
func colorsOf(m image.Image) int {
	seen := map[color.Color]bool{}
	for y := m.Bounds().Min.Y; y < m.Bounds().Max.Y; y++ {
		for x := m.Bounds().Min.X; x < m.Bounds().Max.X; x++ {
			seen[m.At(x, y)] = true
		}
	}
	return len(seen)
}

// Means are over the series that a score is defined for.
func TestMeansOfSeveralSeries(t *testing.T) {
	options := Options{Windows: 1, Levels: []float64{0.5}, Models: []forecast.Forecaster{forecast.Naive{}}}
	at := func(values ...float64) api.Series { return api.Series{Step: time.Minute, Values: values} }
	got, err := options.Run([]Input{
		{"rises", at(1, 1, 1, 3), 1},        // forecast 1, came 3: 200·2/4 = 100
		{"stays", at(2, 2, 2, 2), 1},        // 0
		{"gap", at(2, 2, 2, math.NaN()), 1}, // nothing came
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Series) != 3 || got.Series[2].SMAPE != nil || got.Mean[0].SMAPE == nil || *got.Mean[0].SMAPE != 50 {
		t.Errorf("%+v", got)
	}
	if rows := got.Rows(); len(rows) != 4 || rows[2][2] != "–" || rows[3][0] != "mean" || rows[3][2] != "50.00" {
		t.Errorf("rows %q", rows)
	}
}

func TestPeakOver(t *testing.T) {
	window := func(foreseen float64, actual ...float64) forecast.Window {
		return forecast.Window{Actual: actual, Forecast: api.Forecast{PeakQuantiles: []float64{0, foreseen}}}
	}
	// 3 above a peak of 2 is 1.5 of it, 1 below one of 4 is nothing; no peak, no word.
	got := peakOver([]forecast.Window{window(5, 1, math.NaN(), 2), window(3, 4, 1), window(9, math.NaN())}, 1)
	if got != 0.75 {
		t.Errorf("peak over %v, want 0.75", got)
	}
	if got := peakOver(nil, 1); !math.IsNaN(got) {
		t.Errorf("of no windows %v", got)
	}
}

func TestErrorsNameTheInput(t *testing.T) {
	options := Options{Windows: 9, Levels: []float64{0.5}, Models: []forecast.Forecaster{forecast.Naive{}}}
	_, err := options.Run([]Input{{"short", daily(3), 24}}, io.Discard)
	if !errors.Is(err, forecast.ErrBadRequest) || !strings.HasPrefix(err.Error(), "short: ") {
		t.Errorf("error %v", err)
	}
}
