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
		horizon = 63
		ahead   = 20  // samples that errors are over
		trusted = 0.1 // planning.DefaultConfig's MinSkill
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
		said := []report.Series{{Name: "0.1, said 2 min before", Color: 2, Dash: 2}, {Name: "median", Color: 1, Dash: 1}, {Name: "0.9", Color: 3, Dash: 2}}
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
			for i := range said {
				said[i].X, said[i].Y = append(said[i].X, minute+8*changeStep.Minutes()), append(said[i].Y, got.Quantiles[i][8])
			}
			good := got.Skill >= trusted
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
		switch {
		case demoted >= 0 && demoted < 40: // too near for two names
			mark[0].Name = fmt.Sprintf("change, demoted %d samples later", demoted)
		case demoted >= 0:
			mark = append(mark, report.Mark{X: float64(c.at+demoted) * changeStep.Minutes(), Name: "demoted"})
		}
		if back >= 0 {
			mark = append(mark, report.Mark{X: float64(c.at+back) * changeStep.Minutes(), Name: "trusted"})
		}
		shown := append([]report.Series{actual}, said...)
		if len(figures) == 0 { // all begin alike
			begin := []report.Mark{{X: float64(first) * changeStep.Minutes(), Name: "trusted"}}
			figures = append(figures,
				report.Figure{Title: "Cold start", XLabel: "minutes", YLabel: "millicores", Series: between(shown, 0, 160), Marks: begin},
				report.Figure{Title: "Skill after a cold start", XLabel: "minutes", YLabel: "skill", Series: between([]report.Series{line}, 0, 160), Marks: begin})
		}
		figures = append(figures,
			report.Figure{Title: "Demand where " + c.name, XLabel: "minutes", YLabel: "millicores", Series: between(shown, c.at-60, c.at+240), Marks: mark},
			report.Figure{Title: "Skill where " + c.name, XLabel: "minutes", YLabel: "skill", Series: between([]report.Series{line}, c.at-60, c.at+240), Marks: mark})
	}
	table(w, "Cold start and changes of regime, operator's forecaster, samples of 15 s",
		[]string{"at sample 500", "first trusted after", "error before, of the last value's", "demoted after", "trusted again after", "error in the 80 samples after", "error at the end"}, rows,
		"Trusted is a skill of 0.1 or more, as the planner asks for. A dash: not within the run. Errors are of the mean over the next 20 samples.")
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

// between is what lies between two samples.
func between(all []report.Series, from, to int) []report.Series {
	var out []report.Series
	for _, s := range all {
		cut := s
		cut.X, cut.Y = nil, nil
		for i, x := range s.X {
			if x >= float64(from)*changeStep.Minutes() && x <= float64(to)*changeStep.Minutes() {
				cut.X, cut.Y = append(cut.X, x), append(cut.Y, s.Y[i])
			}
		}
		out = append(out, cut)
	}
	return out
}
