package main

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/forecasters"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/forecast/score"
)

const (
	m4Horizon = 48
	m4Season  = 24
	// Naive2 on the 207 odd series, computed from the competition's files.
	naive2SMAPE, naive2MASE = 18.224, 2.432
)

func records(path string) ([][]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	r := csv.NewReader(z)
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	return rows, errors.Join(err, file.Close())
}

func numbers(cells []string) []float64 {
	var out []float64
	for _, c := range cells {
		if v, err := strconv.ParseFloat(c, 64); err == nil {
			out = append(out, v)
		}
	}
	return out
}

type m4Score struct{ smape, mase, cover50, cover90, cover95, peakUnder []float64 }

func (s *m4Score) owa() float64 {
	return (mean(s.smape)/naive2SMAPE + mean(s.mase)/naive2MASE) / 2
}

// m4 scores all models on the series whose test values are public here.
func (o options) m4(w io.Writer) error {
	train, err := records(filepath.Join(o.data, "m4", "Hourly-train.csv.gz"))
	if err != nil {
		return err
	}
	test, err := records(filepath.Join(o.data, "m4", "Hourly-test-odd.csv.gz"))
	if err != nil {
		return err
	}
	actual := map[string][]float64{}
	for _, row := range test {
		if v := numbers(row[1:]); len(v) >= m4Horizon {
			actual[row[0]] = v[:m4Horizon]
		}
	}
	type job struct {
		name            string
		history, actual []float64
	}
	var jobs []job
	for _, row := range train {
		if a, ok := actual[row[0]]; ok {
			jobs = append(jobs, job{row[0], numbers(row[1:]), a})
		}
	}
	var kept []job
	for i := 0; i < len(jobs); i += o.every {
		kept = append(kept, jobs[i])
	}
	scores := map[string]*m4Score{}
	for _, m := range o.models {
		scores[m] = &m4Score{}
	}
	var mu sync.Mutex
	begun := time.Now()
	err = parallel(kept, runtime.GOMAXPROCS(0), func(j job) error {
		series := api.Series{Start: time.Unix(0, 0).UTC(), Step: time.Hour, Values: j.history}
		for _, name := range o.models {
			f, err := forecasters.ByName(name)
			if err != nil {
				return err
			}
			got, err := forecast.Predict(f, series, m4Horizon, []float64{0.5, 0.9, 0.95})
			if err != nil {
				return fmt.Errorf("%s by %s: %w", j.name, name, err)
			}
			mu.Lock()
			s := scores[name]
			s.smape = append(s.smape, score.SMAPE(j.actual, got.Mean))
			s.mase = append(s.mase, score.MASE(j.actual, got.Mean, j.history, m4Season))
			s.cover50 = append(s.cover50, score.Coverage(j.actual, got.Quantiles[0]))
			s.cover90 = append(s.cover90, score.Coverage(j.actual, got.Quantiles[1]))
			s.cover95 = append(s.cover95, score.Coverage(j.actual, got.Quantiles[2]))
			s.peakUnder = append(s.peakUnder, score.PeakUnderRatio([]float64{peak(j.actual)}, got.PeakQuantiles[1:2]))
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return err
	}
	var rows [][]string
	for _, name := range ranked(o.models, func(n string) float64 { return scores[n].owa() }) {
		s := scores[name]
		rows = append(rows, []string{
			name, fmt.Sprintf("%.3f", mean(s.smape)), fmt.Sprintf("%.3f", mean(s.mase)), fmt.Sprintf("%.3f", s.owa()),
			fmt.Sprintf("%.2f", mean(s.cover50)), fmt.Sprintf("%.2f", mean(s.cover90)), fmt.Sprintf("%.2f", mean(s.cover95)),
			fmt.Sprintf("%.2f", mean(s.peakUnder)),
		})
	}
	table(w, fmt.Sprintf("M4 hourly, %d odd series, 48 hours ahead", len(kept)),
		[]string{"model", "sMAPE", "MASE", "OWA", "cover 0.5", "cover 0.9", "cover 0.95", "peak above its 0.9"}, rows,
		fmt.Sprintf("OWA relative to Naive2 on the 207 odd series (%.3f, %.3f). Weights and parameters are chosen inside the training part: parameters from what lies before the first of 17 origins in its last week or so, weights by what came after each of them.", naive2SMAPE, naive2MASE))
	fmt.Fprintf(os.Stderr, "M4: %v\n", time.Since(begun).Round(time.Second))
	return o.m4Published(w)
}

// m4Published are the competition's own rows, on all 414 series.
func (o options) m4Published(w io.Writer) error {
	file, err := os.Open(filepath.Join(o.data, "m4", "hourly_leaderboard.csv"))
	if err != nil {
		return err
	}
	rows, err := csv.NewReader(file).ReadAll()
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	var out [][]string
	for _, r := range rows[1:] {
		if len(r) >= 5 {
			out = append(out, []string{r[0], r[1], r[2], r[3], r[4]})
		}
	}
	table(w, "Published, on all 414 hourly series", []string{"method", "who", "sMAPE", "MASE", "OWA"}, out)
	return nil
}

func peak(xs []float64) float64 {
	top := 0.0
	for _, x := range xs {
		if x > top { // not for a gap
			top = x
		}
	}
	return top
}
