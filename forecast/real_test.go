package forecast

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/score"
)

// dataFile opens a file of the real workload data, which is not part of the
// repository: MASH2_DATA, or shared/data beside the checkout.
func dataFile(t *testing.T, name string) [][]string {
	t.Helper()
	dir := os.Getenv("MASH2_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no real workload data at %s; set MASH2_DATA to the folder that has it", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	r := csv.NewReader(z)
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows[1:]
}

// column reads the newest n values of a column; n 0 is all.
func column(t *testing.T, rows [][]string, col, n int) []float64 {
	t.Helper()
	if n > 0 && len(rows) > n {
		rows = rows[len(rows)-n:]
	}
	out := make([]float64, len(rows))
	for i, row := range rows {
		v, err := strconv.ParseFloat(row[col], 64)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = v
	}
	return out
}

// TestRealSeries backtests an hour ahead on production series at one minute:
// the last 24 hours, hour by hour, from at most a week of history.
func TestRealSeries(t *testing.T) {
	const week, horizon, windows = 7 * 1440, 60, 24
	tests := map[string]struct {
		file string
		// wantBetter: the season is plain enough that forecasting by it must
		// beat the last value an hour ahead.
		wantBetter bool
	}{
		"crane 0, daily":         {file: "crane-dsp/input0.csv.gz", wantBetter: true},
		"crane 1, daily":         {file: "crane-dsp/input1.csv.gz", wantBetter: true},
		"crane 2, daily":         {file: "crane-dsp/input2.csv.gz", wantBetter: true},
		"crane 3, daily":         {file: "crane-dsp/input3.csv.gz"},
		"crane 4, daily":         {file: "crane-dsp/input4.csv.gz"},
		"crane 5, bursty":        {file: "crane-dsp/input5.csv.gz"},
		"crane 6, bursty":        {file: "crane-dsp/input6.csv.gz"},
		"crane 8, daily":         {file: "crane-dsp/input8.csv.gz"},
		"world cup 98, requests": {file: "wc98/requests_per_minute_first60d.csv.gz"},
		"alibaba, one container": {file: "alibaba-containers/c_12104.csv.gz"},
	}
	levels := []float64{0.5, 0.9, 0.95}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			series := api.Series{
				Start: time.Unix(0, 0).UTC(), Step: time.Minute,
				Values: column(t, dataFile(t, tc.file), 1, week+horizon*windows),
			}
			loss := map[string]float64{}
			for _, model := range []string{QuickName, SeasonalNaiveName, NaiveName} {
				f, err := ByName(model)
				if err != nil {
					t.Fatal(err)
				}
				got, err := Backtest(f, series, horizon, windows, levels)
				if err != nil {
					t.Fatal(err)
				}
				s := Evaluate(series, got, 1)
				loss[model] = s.WQL
				used := map[string]int{}
				for _, w := range got {
					used[w.Forecast.Model]++
				}
				t.Logf("%-14s wql %.4f smape %6.2f  coverage90 %.2f coverage95 %.2f peakUnder95 %.2f  %v %v", model, s.WQL, s.SMAPE,
					s.Coverage[1], s.Coverage[2], s.PeakUnder[2], used, got[windows-1].Forecast.Seasons)
			}
			if tc.wantBetter && !(loss[QuickName] < loss[NaiveName]) {
				t.Errorf("auto's loss %.4f is not below the last value's %.4f", loss[QuickName], loss[NaiveName])
			}
		})
	}
}

// TestM4Hourly forecasts the competition's 48 hours for a sample of its hourly
// series, whose test values are public, and compares with the competition's
// own seasonal naive (24), which reaches a MASE of 1.193 over all 414.
func TestM4Hourly(t *testing.T) {
	const horizon, period, every = 48, 24, 8
	train := dataFile(t, "m4/Hourly-train.csv.gz")
	test := map[string][]string{}
	for _, row := range dataFile(t, "m4/Hourly-test-odd.csv.gz") {
		test[row[0]] = row
	}
	var mase, smape, n float64
	var refMASE, refSMAPE float64
	for i := 0; i < len(train); i += every {
		row, ok := test[train[i][0]]
		if !ok {
			continue
		}
		var history, actual []float64
		for _, cell := range train[i][1:] {
			if v, err := strconv.ParseFloat(cell, 64); err == nil {
				history = append(history, v)
			}
		}
		for _, cell := range row[1 : 1+horizon] {
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				t.Fatal(err)
			}
			actual = append(actual, v)
		}
		series := api.Series{Start: time.Unix(0, 0).UTC(), Step: time.Hour, Values: history}
		f, err := Predict(Auto{}, series, horizon, []float64{0.5, 0.9})
		if err != nil {
			t.Fatal(err)
		}
		reference := make([]float64, horizon)
		for h := range reference {
			reference[h] = history[len(history)-period+h%period]
		}
		mase += score.MASE(actual, f.Mean, history, period)
		smape += score.SMAPE(actual, f.Mean)
		refMASE += score.MASE(actual, reference, history, period)
		refSMAPE += score.SMAPE(actual, reference)
		n++
	}
	if n == 0 || math.IsNaN(mase) {
		t.Fatalf("%v series, sum of MASE %v", n, mase)
	}
	t.Logf("%v series: auto sMAPE %.2f MASE %.3f; seasonal naive sMAPE %.2f MASE %.3f",
		n, smape/n, mase/n, refSMAPE/n, refMASE/n)
	if mase >= refMASE {
		t.Errorf("MASE %.3f is not below the seasonal naive's %.3f", mase/n, refMASE/n)
	}
}
