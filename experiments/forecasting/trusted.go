package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
)

// judgedSamples of each series are judged at most, the newest, and never its first third.
const judgedSamples = 2000

// trusted is what of a series' forecasts held, and how long they were trusted.
type trusted struct {
	forecaster, folder string
	coverage           float64 // of the 90 % interval, over all steps ahead
	// Shares of the time in which skill alone would give full trust, in which it is
	// given, and in which it is not as the interval holds too seldom or too often.
	bySkill, full, seldom, often float64
}

// trust prints, for each folder of traces, how often the operator's own forecasts hold and
// what trust they earn: a state carried on, looking as far ahead as the operator does.
func (o options) trust(w io.Writer) error {
	jobs, err := o.traceJobs()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var all []trusted
	names := []string{forecast.QuickName, forecast.AutoName}
	if err := parallel(jobs, runtime.GOMAXPROCS(0), func(j traceJob) error {
		for _, name := range names {
			got, err := earn(j, name)
			if err != nil {
				return fmt.Errorf("%s: %w", j.path, err)
			}
			mu.Lock()
			all = append(all, got)
			if o.each {
				fmt.Fprintf(w, "%s/%s: %+v\n", j.trace.folder, filepath.Base(j.path), got)
			}
			mu.Unlock()
		}
		return nil
	}); err != nil {
		return err
	}
	var rows [][]string
	row := func(name string, of []trusted) {
		within := 0
		var coverage, bySkill, full, seldom, often []float64
		for _, t := range of {
			if t.coverage >= planning.LeastCoverage && t.coverage <= planning.MostCoverage {
				within++
			}
			coverage, bySkill, full = append(coverage, t.coverage), append(bySkill, t.bySkill), append(full, t.full)
			seldom, often = append(seldom, t.seldom), append(often, t.often)
		}
		slices.Sort(coverage)
		rows = append(rows, []string{
			name, fmt.Sprint(len(of)), fmt.Sprintf("%.2f–%.2f–%.2f", coverage[0], coverage[len(coverage)/2], coverage[len(coverage)-1]), fmt.Sprint(within),
			percent(mean(bySkill)), percent(mean(full)), percent(mean(seldom)), percent(mean(often)),
		})
	}
	for _, name := range names {
		by := slices.DeleteFunc(slices.Clone(all), func(x trusted) bool { return x.forecaster != name })
		row(name+", all", by)
		var of []string
		for _, x := range by {
			of = append(of, x.folder)
		}
		slices.Sort(of)
		for _, folder := range slices.Compact(of) {
			row(name+", "+folder, slices.DeleteFunc(slices.Clone(by), func(x trusted) bool { return x.folder != folder }))
		}
	}
	table(w, "What forecasts are trusted with", []string{"forecaster, series", "number", "coverage of the 90 % interval: least–median–most", "within 0.85–0.95", "time of full trust by skill alone", "of full trust", "lost: interval holds too seldom", "too often"}, rows)
	return nil
}

func percent(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }

// earn is what a forecaster earns on one series.
func earn(j traceJob, name string) (trusted, error) {
	out := trusted{forecaster: name, folder: j.trace.folder}
	f, err := forecast.ByName(name)
	if err != nil {
		return out, err
	}
	f = forecast.Guarded(f)
	config := planning.DefaultConfig()
	state := forecast.NewState(j.path)
	horizon := max(1, int(config.Horizon/j.series.Step))
	levels := []float64{0.05, 0.5, 0.9, 0.95}
	steps, inside, results := 0, 0.0, 0.0
	for end := max(len(j.series.Values)/3, len(j.series.Values)-judgedSamples); end < len(j.series.Values); end++ {
		past := upTo(j.series, end)
		if state, err = f.Update(state, past, horizon); err != nil {
			return out, err
		}
		said, err := f.Forecast(state, past, horizon, levels)
		if err != nil {
			return out, err
		}
		for h := range horizon {
			if at := end + 1 + h; at < len(j.series.Values) && !math.IsNaN(j.series.Values[at]) {
				results++
				if v := j.series.Values[at]; said.Quantiles[0][h] <= v && v <= said.Quantiles[3][h] {
					inside++
				}
			}
		}
		steps++
		if !(said.Skill >= config.MinSkill) {
			continue
		}
		out.bySkill++
		switch c := said.Coverage; {
		case c.TooSeldom(planning.LeastCoverage):
			out.seldom++
		case c.TooOften(planning.MostCoverage):
			out.often++
		default:
			out.full++
		}
	}
	n := float64(steps)
	out.coverage = inside / results
	out.bySkill, out.full, out.seldom, out.often = out.bySkill/n, out.full/n, out.seldom/n, out.often/n
	return out, nil
}
