package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/report"
	"github.com/mash2-io/mash2/forecast"
)

// change is a demand that begins, and turns into another.
type change struct {
	name   string
	n      int // samples
	at     int // of the change
	demand func(i int) float64
}

const changeStep = 15 * time.Second

func changes() []change {
	beat := func(i, period int) float64 {
		if i%period < period*2/5 {
			return 400
		}
		return 60
	}
	return []change{
		{"the level doubles", 900, 500, func(i int) float64 {
			if i < 500 {
				return beat(i, 40)
			}
			return 300 + 2*beat(i, 40)
		}},
		{"the period changes from 10 to 7 minutes", 900, 500, func(i int) float64 {
			if i < 500 {
				return beat(i, 40)
			}
			return beat(i, 28)
		}},
		{"the phase jumps by half a period", 900, 500, func(i int) float64 {
			if i < 500 {
				return beat(i, 40)
			}
			return beat(i+20, 40)
		}},
		{"the season ends", 900, 500, func(i int) float64 {
			if i < 500 {
				return beat(i, 40)
			}
			return 200
		}},
		{"a deploy halves the cost of a request", 900, 500, func(i int) float64 {
			if i < 500 {
				return beat(i, 40)
			}
			return beat(i, 40) / 2
		}},
		{"traffic stops and comes back", 900, 500, func(i int) float64 {
			if i >= 500 && i < 600 {
				return 0
			}
			return beat(i, 40)
		}},
	}
}

// regimes runs the operator's forecaster from a cold start through changes.
func (o options) regimes(w io.Writer) error {
	const (
		horizon  = 63
		ahead    = 20  // samples that errors are over
		licensed = 0.1 // planning.DefaultConfig's MinSkill
	)
	f := forecast.Guarded(forecast.Auto{})
	var rows [][]string
	var figures []report.Figure
	for _, c := range changes() {
		r := rand.New(rand.NewPCG(1, 1))
		all := api.Series{Start: time.Unix(0, 0).UTC(), Step: changeStep, Values: make([]float64, c.n)}
		for i := range all.Values {
			all.Values[i] = max(0, c.demand(i)*(1+0.03*r.NormFloat64()))
		}
		s := forecast.NewState(c.name)
		first, demoted, back := -1, -1, -1
		errOf := func(from, to int, errs, naive []float64) string {
			return fmt.Sprintf("%.2f", mean(errs[from:to])/mean(naive[from:to]))
		}
		errs, naive, skills := make([]float64, c.n), make([]float64, c.n), make([]float64, c.n)
		line := report.Series{Name: "skill", Color: 1}
		median := report.Series{Name: "median, 2 min ahead", Dash: 1}
		for n := 8; n+ahead < c.n; n++ {
			past := all
			past.Values = all.Values[:n]
			var err error
			if s, err = f.Update(s, past, horizon); err != nil {
				return err
			}
			got, err := f.Forecast(s, past, horizon, []float64{0.1, 0.5, 0.9})
			if err != nil {
				return err
			}
			for k := range ahead {
				errs[n] += math.Abs(got.Mean[k] - all.Values[n+k])
				naive[n] += math.Abs(all.Values[n-1] - all.Values[n+k])
			}
			minute := float64(n) * changeStep.Minutes()
			skills[n] = got.Skill
			line.X, line.Y = append(line.X, minute), append(line.Y, max(-1, got.Skill))
			median.X, median.Y = append(median.X, minute+8*changeStep.Minutes()), append(median.Y, got.Quantiles[1][8])
			good := got.Skill >= licensed
			switch {
			case good && first < 0:
				first = n
			case !good && n > c.at && demoted < 0:
				demoted = n - c.at
			case good && demoted >= 0 && back < 0:
				back = n - c.at
			}
		}
		count := func(n int) string {
			if n < 0 {
				return "–"
			}
			return fmt.Sprint(n)
		}
		rows = append(rows, []string{
			c.name, count(first), errOf(c.at-100, c.at-ahead, errs, naive), count(demoted), count(back),
			errOf(c.at, c.at+80, errs, naive), errOf(c.n-ahead-100, c.n-ahead, errs, naive),
		})
		actual := report.Series{Name: "demand", Color: 6}
		for i, v := range all.Values {
			actual.X, actual.Y = append(actual.X, float64(i)*changeStep.Minutes()), append(actual.Y, v)
		}
		mark := []report.Mark{{X: float64(c.at) * changeStep.Minutes(), Name: "change"}}
		figures = append(figures,
			report.Figure{Title: "Demand where " + c.name, XLabel: "minutes", YLabel: "millicores", Series: []report.Series{actual, median}, Marks: mark},
			report.Figure{Title: "Skill where " + c.name, XLabel: "minutes", YLabel: "skill", Series: []report.Series{line}, Marks: mark})
	}
	table(w, "Cold start and changes of regime, operator's forecaster, samples of 15 s",
		[]string{"at sample 500", "first licensed after", "error before, of the last value's", "demoted after", "licensed again after", "error in the 80 samples after", "error at the end"}, rows,
		"Licensed is a skill of 0.1 or more, as the planner asks for. A dash: not within the run. Errors are of the mean over the next 20 samples.")
	if o.figures == "" {
		return nil
	}
	if err := os.MkdirAll(o.figures, 0o755); err != nil {
		return err
	}
	path, err := report.WriteFolder(filepath.Clean(o.figures), report.Page{
		Title:    "Forecasts through changes of regime",
		Sections: []report.Section{{Title: "Demand, forecasts and skill", Figures: figures}},
	})
	if err == nil {
		fmt.Fprintln(os.Stderr, "figures:", path)
	}
	return err
}
