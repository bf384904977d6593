package whatif

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/experiments/report"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/simulation"
)

// writeReport writes the page and the pictures, and returns the page's path.
func (o Result) writeReport(dir string, h cpuHistory, jobs []job) (string, error) {
	page := report.Page{
		Title: "What if mash2 had scaled it?",
		Intro: append([]string{"Replayed: " + o.Replayed() + "."}, o.History.Notes...),
	}
	if o.Gate != nil {
		verdict := "The gate is passed."
		if !o.Gate.Passed {
			verdict = "The gate is exceeded: " + o.Gate.Sentence() + "."
		}
		page.Intro = append(page.Intro, verdict)
	}
	var summaries []score.Summary
	for _, s := range o.Summary {
		summaries = append(summaries, s.Summary)
	}
	page.Sections = append(page.Sections, report.Section{
		Title: "Results", Text: o.Sentences(),
		Tables: []report.Table{{Header: o.Header(), Rows: o.Rows(),
			Note: "Each scaler has a cluster of its own with the same demand. Means over seeds; ± is half the 95 % interval of the mean (Student's t). Node cost counts from boot request to deletion. " +
				"static is sized for the highest demand, which it knows; the oracle is a lower bound on node cost without any violation, at which nothing was run."}},
		Figures: []report.Figure{score.Pareto(summaries)},
	})

	trust := report.Section{Title: "How far to trust it"}
	header, rows := o.KnownError.Table()
	trust.Tables = append(trust.Tables, report.Table{Title: "Known error of the simulation", Header: header, Rows: rows,
		Note: strings.TrimSuffix(o.KnownError.Sentence(), ":") + ". Error is of the means."})
	known := report.Table{Title: "Assumptions, because the history does not say", Header: []string{"what", "value", "source", "flag"}}
	for _, a := range o.Assumptions {
		known.Rows = append(known.Rows, []string{a.Name, a.Value, a.From, a.Flag})
	}
	trust.Tables = append(trust.Tables, known)
	page.Sections = append(page.Sections, trust)

	past := report.Series{Name: "used"}
	for i, v := range h.series.Values {
		past.X, past.Y = append(past.X, (float64(i)*h.series.Step.Hours()-float64(h.warm)*h.to.Sub(h.from).Hours())), append(past.Y, v)
	}
	over := report.Section{Title: "Over time", Figures: []report.Figure{{
		Title: "History", XLabel: "hours from " + o.History.From, YLabel: "cores", Series: []report.Series{past},
		Marks: []report.Mark{{X: 0, Name: "measured from here"}},
	}}}
	drawn, left := o.drawn(jobs)
	figures, _, err := score.Figures(drawn, nil)
	if err != nil {
		return "", err
	}
	over.Figures = append(over.Figures, figures...)
	if len(left) > 0 {
		over.Text = []string{"Left out, so that lines can be told apart: " + strings.Join(left, ", ") + "."}
	}
	page.Sections = append(page.Sections, over)
	for _, j := range jobs {
		if len(j.transcript) > 0 && j.scaler == "mash2" {
			page.Sections = append(page.Sections, report.Section{Title: "What mash2 did under " + j.policy, Lines: j.transcript})
		}
	}
	page.Sections = append(page.Sections, report.Section{Title: "Again", Text: []string{
		fmt.Sprintf("The demand and the scenario are beside this page: %s.", o.Again()),
	}})
	return report.WriteFolder(dir, page)
}

// drawn are the outcomes with the first seed that figures over time show: the
// policies, what they are compared with at equal service, then the others.
func (o Result) drawn(jobs []job) (first []score.Outcome, left []string) {
	rank := func(j job) int {
		switch {
		case j.scaler == "mash2":
			return 0
		case slices.ContainsFunc(o.AtEqualSLO, func(e EqualSLO) bool { return e.Rival == j.scaler }):
			return 1
		}
		return 2
	}
	order := slices.DeleteFunc(slices.Clone(jobs), func(j job) bool { return j.seed != o.Seed || j.outcome.BoundUSD != nil })
	slices.SortStableFunc(order, func(a, b job) int { return rank(a) - rank(b) })
	for _, j := range order {
		if len(first) < simulation.MaxLines {
			first = append(first, j.outcome)
		} else {
			left = append(left, j.name())
		}
	}
	return first, left
}
