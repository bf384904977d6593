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

const (
	changeHorizon = 63
	changeAhead   = 20  // samples that errors are over
	changeTrusted = 0.1 // planning.DefaultConfig's MinSkill
)

// regimes runs the operator's forecaster from a cold start through changes.
func (o options) regimes(w io.Writer) error {
	var rows [][]string
	var figures []report.Figure
	for _, c := range changes() {
		t, err := c.through(forecast.Guarded(forecast.Auto{}))
		if err != nil {
			return err
		}
		rows = append(rows, t.row())
		if len(figures) == 0 { // all begin alike
			figures = append(figures, t.begin()...)
		}
		figures = append(figures, t.turn()...)
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

// series is the demand with noise.
func (c change) series() api.Series {
	r := rand.New(rand.NewPCG(1, 1))
	all := api.Series{Start: time.Unix(0, 0).UTC(), Step: changeStep, Values: make([]float64, c.n)}
	for i := range all.Values {
		all.Values[i] = max(0, c.demand(i)*(1+0.03*r.NormFloat64()))
	}
	return all
}

// passage is what a forecaster made of a change.
type passage struct {
	change
	all api.Series
	// first is the sample at which it was trusted first; demoted and back are how many
	// after the change it was so no longer, and again; −1 for never.
	first, demoted, back int
	// errs are by sample, naive those of the last value.
	errs, naive []float64
	skill       report.Series
	said        []report.Series
}

// through forecasts at every sample.
func (c change) through(f forecast.Forecaster) (passage, error) {
	t := passage{
		change: c, all: c.series(), first: -1, demoted: -1, back: -1,
		errs: make([]float64, c.n), naive: make([]float64, c.n),
		skill: report.Series{Name: "skill", Color: 1},
		said:  []report.Series{{Name: "0.1, said 2 min before", Color: 2, Dash: 2}, {Name: "median", Color: 1, Dash: 1}, {Name: "0.9", Color: 3, Dash: 2}},
	}
	s := forecast.NewState(c.name)
	for n := 8; n+changeAhead < c.n; n++ {
		past := t.all
		past.Values = t.all.Values[:n]
		var err error
		if s, err = f.Update(s, past, changeHorizon); err != nil {
			return t, err
		}
		got, err := f.Forecast(s, past, changeHorizon, []float64{0.1, 0.5, 0.9})
		if err != nil {
			return t, err
		}
		t.note(n, got)
	}
	return t, nil
}

// note keeps what was said after n samples.
func (t *passage) note(n int, got api.Forecast) {
	for k := range changeAhead {
		t.errs[n] += math.Abs(got.Mean[k] - t.all.Values[n+k])
		t.naive[n] += math.Abs(t.all.Values[n-1] - t.all.Values[n+k])
	}
	minute := minutes(n)
	t.skill.X, t.skill.Y = append(t.skill.X, minute), append(t.skill.Y, max(-1, got.Skill))
	for i := range t.said {
		t.said[i].X, t.said[i].Y = append(t.said[i].X, minute+minutes(8)), append(t.said[i].Y, got.Quantiles[i][8])
	}
	good := got.Skill >= changeTrusted
	switch {
	case good && t.first < 0:
		t.first = n
	case !good && n > t.at && t.demoted < 0:
		t.demoted = n - t.at
	case good && t.demoted >= 0 && t.back < 0:
		t.back = n - t.at
	}
}

// row of the table.
func (t passage) row() []string {
	errOf := func(from, to int) string {
		return fmt.Sprintf("%.2f", mean(t.errs[from:to])/mean(t.naive[from:to]))
	}
	count := func(n int) string {
		if n < 0 {
			return "–"
		}
		return fmt.Sprint(n)
	}
	return []string{
		t.name, count(t.first), errOf(t.at-100, t.at-changeAhead), count(t.demoted), count(t.back),
		errOf(t.at, t.at+80), errOf(t.n-changeAhead-100, t.n-changeAhead),
	}
}

// shown are the demand and what was said of it.
func (t passage) shown() []report.Series {
	actual := report.Series{Name: "demand", Color: 6}
	for i, v := range t.all.Values {
		actual.X, actual.Y = append(actual.X, minutes(i)), append(actual.Y, v)
	}
	return append([]report.Series{actual}, t.said...)
}

// begin shows the cold start.
func (t passage) begin() []report.Figure {
	mark := []report.Mark{{X: minutes(t.first), Name: "trusted"}}
	return []report.Figure{
		{Title: "Cold start", XLabel: "minutes", YLabel: "millicores", Series: between(t.shown(), 0, 160), Marks: mark},
		{Title: "Skill after a cold start", XLabel: "minutes", YLabel: "skill", Series: between([]report.Series{t.skill}, 0, 160), Marks: mark},
	}
}

// turn shows the change.
func (t passage) turn() []report.Figure {
	mark := []report.Mark{{X: minutes(t.at), Name: "change"}}
	switch {
	case t.demoted >= 0 && t.demoted < 40: // too near for two names
		mark[0].Name = fmt.Sprintf("change, demoted %d samples later", t.demoted)
	case t.demoted >= 0:
		mark = append(mark, report.Mark{X: minutes(t.at + t.demoted), Name: "demoted"})
	}
	if t.back >= 0 {
		mark = append(mark, report.Mark{X: minutes(t.at + t.back), Name: "trusted"})
	}
	return []report.Figure{
		{Title: "Demand where " + t.name, XLabel: "minutes", YLabel: "millicores", Series: between(t.shown(), t.at-60, t.at+240), Marks: mark},
		{Title: "Skill where " + t.name, XLabel: "minutes", YLabel: "skill", Series: between([]report.Series{t.skill}, t.at-60, t.at+240), Marks: mark},
	}
}

// minutes that n samples take.
func minutes(n int) float64 { return float64(n) * changeStep.Minutes() }

// between is what lies between two samples.
func between(all []report.Series, from, to int) []report.Series {
	var out []report.Series
	for _, s := range all {
		cut := s
		cut.X, cut.Y = nil, nil
		for i, x := range s.X {
			if x >= minutes(from) && x <= minutes(to) {
				cut.X, cut.Y = append(cut.X, x), append(cut.Y, s.Y[i])
			}
		}
		out = append(out, cut)
	}
	return out
}
