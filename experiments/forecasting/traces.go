package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/forecasters"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/forecast/score"
	"github.com/mash2-io/mash2/forecast/seriesfile"
)

// trace is one file, or several of a kind, of a folder of the data.
type trace struct {
	folder, pattern string
	o               seriesfile.Options
}

// traces that last for days; those of an hour (autothrottle, data-connector) and
// those of an experiment under changing allocations (cilantro) have no 24 hours
// to look ahead.
var allTraces = []trace{
	{"crane-dsp", "*.csv.gz", seriesfile.Options{Step: 10 * time.Minute}},
	{"wc98", "*.csv.gz", seriesfile.Options{Step: 10 * time.Minute}},
	{"app-server-hourly", "*.csv.gz", seriesfile.Options{Step: time.Hour, Time: seriesfile.NoTime, Value: "requests"}},
	{"nab", "*/*.csv.gz", seriesfile.Options{}},
	{"datacenter-traces", "alibaba*300s.csv.gz", seriesfile.Options{Step: 5 * time.Minute, Time: seriesfile.NoTime, Value: "cpu_util_percent"}},
	{"datacenter-traces", "azure*.csv.gz", seriesfile.Options{Step: 5 * time.Minute, Time: "timestamp", Value: "cpu_usage"}},
	{"cluster-pools", "*.csv.gz", seriesfile.Options{Step: 10 * time.Minute, Time: "1", Value: "3", NoHeader: true}},
	{"alibaba-containers", "*.csv.gz", seriesfile.Options{Step: 10 * time.Minute}},
}

var horizons = []time.Duration{15 * time.Minute, time.Hour, 24 * time.Hour}

// longest history that a forecast is made from.
const longest = 28 * 24 * time.Hour

var traceLevels = []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95}

// cell collects one model on one series and horizon.
type cell struct {
	folder, series, model string
	horizon               time.Duration
	pinball               [3]float64 // at 0.5, 0.9 and 0.95, relative to the mean of the series
	wql, mase             float64
	cover90, cover95      float64
	under, over           float64 // of the window's peak, by its 0.95 quantile
}

// traceJob is one series of a folder.
type traceJob struct {
	trace  trace
	path   string
	series api.Series
}

func (o options) traceJobs() ([]traceJob, error) {
	var jobs []traceJob
	for _, t := range allTraces {
		paths, err := filepath.Glob(filepath.Join(o.data, t.folder, filepath.FromSlash(t.pattern)))
		if err != nil || len(paths) == 0 {
			return nil, fmt.Errorf("no data in %s: %w", t.folder, errors.Join(err, os.ErrNotExist))
		}
		slices.Sort(paths)
		for _, path := range paths {
			s, err := readTrace(path, t.o)
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, traceJob{t, path, s})
		}
	}
	return jobs, nil
}

// traces scores every model where all is learnt anew at each origin.
func (o options) traces(w io.Writer) error {
	return o.scoreTraces(w, "learnt anew at each origin", o.origins, o.roll)
}

// scoreTraces scores every model on every series at every horizon, and prints.
func (o options) scoreTraces(w io.Writer, how string, origins int, score func(s api.Series, name string, ahead time.Duration) (cell, error)) error {
	jobs, err := o.traceJobs()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var cells []cell
	begun := time.Now()
	err = parallel(jobs, runtime.GOMAXPROCS(0), func(j traceJob) error {
		for _, ahead := range horizons {
			if ahead < j.series.Step {
				continue
			}
			for _, name := range o.models {
				c, err := score(j.series, name, ahead)
				if err != nil {
					return fmt.Errorf("%s by %s: %w", j.path, name, err)
				}
				c.folder, c.series, c.model, c.horizon = j.trace.folder, filepath.Base(j.path), name, ahead
				mu.Lock()
				cells = append(cells, c)
				mu.Unlock()
			}
		}
		fmt.Fprintf(os.Stderr, "%s, %s %v\n", filepath.Base(j.path), how, time.Since(begun).Round(time.Second))
		return nil
	})
	if err != nil {
		return err
	}
	o.traceTables(w, how, origins, cells)
	return nil
}

func readTrace(path string, o seriesfile.Options) (api.Series, error) {
	o.Name = path
	file, err := os.Open(path)
	if err != nil {
		return api.Series{}, err
	}
	got, err := seriesfile.Parse(file, o)
	return got.Series, errors.Join(err, file.Close())
}

// upTo is what is known of s at sample end.
func upTo(s api.Series, end int) api.Series {
	from := max(0, end+1-int(longest/s.Step))
	s.Start, s.Values = s.Start.Add(time.Duration(from)*s.Step), s.Values[from:end+1:end+1]
	return s
}

// roll forecasts from origins spread over the last third of a series, learning all
// anew at each.
func (o options) roll(s api.Series, name string, ahead time.Duration) (cell, error) {
	f, err := forecasters.ByName(name)
	if err != nil {
		return cell{}, err
	}
	return o.rollBy(s, ahead, o.origins, func(past api.Series, horizon int) (api.Forecast, error) {
		return forecast.Predict(f, past, horizon, traceLevels)
	})
}

// rollBy scores what is said at origins spread over the last third of a series.
func (o options) rollBy(s api.Series, ahead time.Duration, origins int, said func(past api.Series, horizon int) (api.Forecast, error)) (cell, error) {
	h := int((ahead + s.Step - 1) / s.Step)
	n := len(s.Values)
	first, last := n*2/3, n-1-h
	if last <= first {
		return cell{}, fmt.Errorf("%d samples are too few", n)
	}
	windows := make([]forecast.Window, 0, origins)
	period := int(24 * time.Hour / s.Step)
	var mase []float64
	for i := range origins {
		end := first + (last-first)*(i+1)/origins
		past := upTo(s, end)
		fc, err := said(past, h)
		if err != nil {
			return cell{}, err
		}
		actual := s.Values[end+1 : end+1+h]
		windows = append(windows, forecast.Window{Origin: end, Forecast: fc, Actual: actual})
		mase = append(mase, score.MASE(actual, fc.Mean, past.Values, min(period, len(past.Values)/2)))
	}
	e := forecast.Evaluate(s, windows, period)
	c := cell{wql: e.WQL, mase: mean(mase)}
	level, count := 0.0, 0.0
	for _, v := range s.Values {
		if !math.IsNaN(v) {
			level += v
			count++
		}
	}
	at := func(q float64) int { return slices.Index(traceLevels, q) }
	for i, q := range []float64{0.5, 0.9, 0.95} {
		c.pinball[i] = e.Pinball[at(q)] / max(level/count, 1e-12)
	}
	c.cover90, c.cover95, c.under = e.Coverage[at(0.9)], e.Coverage[at(0.95)], e.PeakUnder[at(0.95)]
	for _, win := range windows {
		if top := peak(win.Actual); top > 0 {
			c.over += max(0, win.Forecast.PeakQuantiles[at(0.95)]-top) / top / float64(len(windows))
		}
	}
	return c, nil
}

// folders that cells are of, in order.
func folders(cells []cell) []string {
	var out []string
	for _, c := range cells {
		if !slices.Contains(out, c.folder) {
			out = append(out, c.folder)
		}
	}
	slices.Sort(out)
	return out
}

// meanOf a model's cells.
func meanOf(cells []cell, model string, keep func(cell) bool, value func(cell) float64) float64 {
	var xs []float64
	for _, c := range cells {
		if c.model == model && keep(c) {
			xs = append(xs, value(c))
		}
	}
	return mean(xs)
}

// beside prints what chooses for itself beside the best model alone and what the
// field has, by folder.
func (o options) beside(w io.Writer, how string, cells []cell) {
	singles := slices.DeleteFunc(slices.Clone(o.models), func(m string) bool { return !choosesNot(m) })
	pinball, wql := func(c cell) float64 { return c.pinball[1] }, func(c cell) float64 { return c.wql }
	for _, own := range o.models {
		if choosesNot(own) || len(singles) == 0 {
			continue
		}
		var rows [][]string
		var less []float64
		for _, f := range folders(cells) {
			of := func(model string, value func(cell) float64) float64 {
				return meanOf(cells, model, func(c cell) bool { return c.folder == f }, value)
			}
			row := []string{f}
			for _, value := range []func(cell) float64{pinball, wql} {
				best := ranked(singles, func(m string) float64 { return of(m, value) })[0]
				row = append(row, fmt.Sprintf("%.4f", of(own, value)), fmt.Sprintf("%.4f (%s)", of(best, value), best),
					fmt.Sprintf("%+.0f %%", 100*(of(own, value)/of(best, value)-1)))
			}
			row = append(row, fmt.Sprintf("%.3f", of(own, func(c cell) float64 { return c.cover90 })))
			dsp, autopilot := math.NaN(), math.NaN()
			if slices.Contains(singles, forecasters.DSPName) && slices.Contains(singles, forecasters.AutopilotName) {
				dsp, autopilot = of(forecasters.DSPName, pinball), of(forecasters.AutopilotName, pinball)
			}
			less = append(less, 100*(1-of(own, pinball)/math.Min(dsp, autopilot)))
			rows = append(rows, append(row, fmt.Sprintf("%.4f", dsp), fmt.Sprintf("%.4f", autopilot), fmt.Sprintf("%.0f %%", less[len(less)-1])))
		}
		table(w, fmt.Sprintf("Traces, %s: %s", how, own), []string{
			"folder", "pinball 0.9", "best single", "", "WQL", "best single", "", "cover 0.9", "dsp, pinball 0.9", "autopilot", "below the better of both",
		}, rows, fmt.Sprintf("Below the better of DSP and Autopilot in the mean over folders: %.0f %%.", mean(less)))
	}
}

// traceTables prints means by folder and model, and by model over all folders.
func (o options) traceTables(w io.Writer, how string, origins int, cells []cell) {
	o.beside(w, how, cells)
	header := []string{"model", "pinball 0.5", "0.9", "0.95", "WQL", "MASE", "cover 0.9", "0.95", "peak under", "peak over"}
	rows := func(keep func(cell) bool) [][]string {
		of := func(model string, value func(cell) float64) float64 { return meanOf(cells, model, keep, value) }
		var out [][]string
		for _, m := range ranked(o.models, func(m string) float64 { return of(m, func(c cell) float64 { return c.wql }) }) {
			row := []string{m}
			for _, value := range []func(cell) float64{
				func(c cell) float64 { return c.pinball[0] }, func(c cell) float64 { return c.pinball[1] },
				func(c cell) float64 { return c.pinball[2] }, func(c cell) float64 { return c.wql },
			} {
				row = append(row, fmt.Sprintf("%.4f", of(m, value)))
			}
			row = append(row, fmt.Sprintf("%.3f", of(m, func(c cell) float64 { return c.mase })))
			for _, value := range []func(cell) float64{
				func(c cell) float64 { return c.cover90 }, func(c cell) float64 { return c.cover95 },
				func(c cell) float64 { return c.under }, func(c cell) float64 { return c.over },
			} {
				row = append(row, fmt.Sprintf("%.2f", of(m, value)))
			}
			out = append(out, row)
		}
		return out
	}
	for _, f := range folders(cells) {
		table(w, f+", "+how, header, rows(func(c cell) bool { return c.folder == f }))
	}
	for _, h := range horizons {
		table(w, fmt.Sprintf("All folders, %v ahead, %s", h, how), header, rows(func(c cell) bool { return c.horizon == h }))
	}
	table(w, "All folders and horizons, "+how, header, rows(func(cell) bool { return true }),
		fmt.Sprintf("Means over series and horizons (15 min, 1 h, 24 h), %d origins each, spread over the last third of a series, from at most 28 days before each. Pinball is relative to the mean of the series; peak under is the share of windows whose peak was above its 0.95 quantile, peak over the mean excess relative to the peak.", origins))
}
