package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
)

// carriedOrigins of each series and horizon: a forecast of a state that is carried
// on takes little, and coverage needs many.
const carriedOrigins = 96

// carried scores the forecasters that choose for themselves as the operator runs
// them: one state, updated at every sample of the last third of a series.
func (o options) carried(w io.Writer) error {
	jobs, err := o.traceJobs()
	if err != nil {
		return err
	}
	names := slices.DeleteFunc(slices.Clone(o.models), choosesNot)
	if len(names) == 0 {
		return nil
	}
	var mu sync.Mutex
	var cells []cell
	begun := time.Now()
	err = parallel(jobs, runtime.GOMAXPROCS(0), func(j traceJob) error {
		for _, ahead := range horizons {
			if ahead < j.series.Step {
				continue
			}
			for _, name := range names {
				c, err := o.carry(j.series, name, ahead)
				if err != nil {
					return fmt.Errorf("%s by %s: %w", j.path, name, err)
				}
				c.folder, c.series, c.model, c.horizon = j.trace.folder, filepath.Base(j.path), name, ahead
				mu.Lock()
				cells = append(cells, c)
				mu.Unlock()
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "carried on: %v\n", time.Since(begun).Round(time.Second))
	var rows [][]string
	row := func(name string, keep func(cell) bool) {
		for _, m := range names {
			var p90, wql, cover90, cover95 []float64
			for _, c := range cells {
				if c.model == m && keep(c) {
					p90, wql = append(p90, c.pinball[1]), append(wql, c.wql)
					cover90, cover95 = append(cover90, c.cover90), append(cover95, c.cover95)
				}
			}
			rows = append(rows, []string{
				name, m, fmt.Sprintf("%.4f", mean(p90)), fmt.Sprintf("%.4f", mean(wql)),
				fmt.Sprintf("%.3f", mean(cover90)), fmt.Sprintf("%.3f", mean(cover95)),
			})
		}
	}
	var folders []string
	for _, c := range cells {
		if !slices.Contains(folders, c.folder) {
			folders = append(folders, c.folder)
		}
	}
	slices.Sort(folders)
	for _, f := range folders {
		row(f, func(c cell) bool { return c.folder == f })
	}
	for _, h := range horizons {
		row(fmt.Sprint(h, " ahead"), func(c cell) bool { return c.horizon == h })
	}
	row("all", func(cell) bool { return true })
	table(w, "Traces, by a state that is carried on", []string{"folder", "model", "pinball 0.9", "WQL", "cover 0.9", "0.95"}, rows,
		fmt.Sprintf("One state, updated at every sample of the last third of a series; %d origins each.", carriedOrigins))
	return nil
}

func (o options) carry(s api.Series, name string, ahead time.Duration) (cell, error) {
	f, err := forecast.ByName(name)
	if err != nil {
		return cell{}, err
	}
	var state forecast.State
	next := len(s.Values) * 2 / 3
	return o.rollBy(s, ahead, carriedOrigins, func(past api.Series, horizon int) (api.Forecast, error) {
		for end := int(past.End().Sub(s.Start) / s.Step); next <= end; next++ {
			if state, err = f.Update(state, upTo(s, next), horizon); err != nil {
				return api.Forecast{}, err
			}
		}
		return f.Forecast(state, past, horizon, traceLevels)
	})
}

// choosesNot tells those of one model from those that choose for themselves.
func choosesNot(name string) bool { return name != forecast.AutoName && name != forecast.QuickName }
