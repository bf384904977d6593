package simulation

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/experiments/report"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/forecast"
)

// MaxLines is how many scalers a figure over time shows.
const MaxLines = 4

// writeReport writes the page and the pictures, and returns the page's path.
func (o Options) writeReport(s Result, w World, all [2][]score.Outcome, recordings []score.Recording) (string, error) {
	outcomes := all[0]
	page := report.Page{
		Title: s.Scenario + ", simulated",
		Intro: []string{
			w.Scenario.Description,
			"Made by: " + o.command() + ". Each scaler has a cluster of its own, with the same load and the same bounds of replicas and nodes.",
		},
		Sections: []report.Section{s.section()},
	}
	if n := w.Scenario.Warmup.Passes; n > 0 {
		page.Intro = append(page.Intro, fmt.Sprintf("%d passes of warm-up come before what is measured, for every scaler.", n))
	}
	if len(recordings) > 0 {
		section, err := o.againstSection(s, outcomes, recordings)
		if err != nil {
			return "", err
		}
		page.Sections = append(page.Sections, section)
	}
	if len(s.Fidelities) > 0 {
		section, err := o.fidelitySection(s, all)
		if err != nil {
			return "", err
		}
		page.Sections = append(page.Sections, section)
	}
	sections, err := o.overTime(outcomes, w)
	if err != nil {
		return "", err
	}
	page.Sections = append(page.Sections, sections...)
	if len(w.Transcript) > 0 {
		title := "What mash2 did"
		if len(w.Transcript) == MaxTranscript {
			title += fmt.Sprintf(", its first %d actions", MaxTranscript)
		}
		page.Sections = append(page.Sections, report.Section{Title: title, Lines: w.Transcript})
	}
	return report.WriteFolder(o.Report, page)
}

// section is the table of results, and what it comes to.
func (s Result) section() report.Section {
	results := report.Section{
		Title: "Results", Text: s.EqualSLO(),
		Tables: []report.Table{{Header: s.Header(), Rows: s.Rows(),
			Note: "Means over seeds; ± is half the 95 % interval of the mean (Student's t). Node cost counts from boot request to deletion. A violating minute has its p95 or failed ratio beyond the scenario's SLO. " +
				"The oracle is a lower bound on node cost without any violation, at which nothing was run."}},
	}
	if len(s.Summary) > 1 {
		results.Figures = []report.Figure{score.Pareto(s.Summary)}
	}
	return results
}

// againstSection compares with what was recorded. It writes what was simulated beside
// the page, so that pictures of both can be made without simulating.
func (o Options) againstSection(s Result, outcomes []score.Outcome, recordings []score.Recording) (report.Section, error) {
	figures, err := score.ComparisonFigures(recordings[0].Outcomes, firstOf(outcomes, recordings[0].Outcomes), recordings[0].Switches, score.RealAndSimulated)
	if err != nil {
		return report.Section{}, err
	}
	simulated := score.Recording{Scenario: s.Scenario, Seed: s.Seed, Switches: recordings[0].Switches, Outcomes: outcomes}
	if err := os.MkdirAll(o.Report, 0o755); err != nil {
		return report.Section{}, err
	}
	if err := simulated.Write(filepath.Join(o.Report, score.RecordingFile)); err != nil {
		return report.Section{}, err
	}
	return report.Section{
		Title: "Against the real control plane", Tables: []report.Table{score.DifferenceTable(s.Against, score.RealAndSimulated)}, Figures: figures,
	}, nil
}

// fidelitySection compares the two fidelities.
func (o Options) fidelitySection(s Result, all [2][]score.Outcome) (report.Section, error) {
	exact, fluid := o.byFidelity(all)
	exact, _ = o.drawn(exact)
	figures, err := score.ComparisonFigures(exact, firstOf(fluid, exact), nil, score.Fidelities)
	if err != nil {
		return report.Section{}, err
	}
	for i := range figures {
		figures[i].Title += ", both fidelities"
	}
	return report.Section{
		Title: "Fluid beside every single request", Text: []string{fmt.Sprintf("Figures are of seed %d.", o.Seed)},
		Tables: []report.Table{score.DifferenceTable(Differences(s.Fidelities), score.Fidelities)}, Figures: figures,
	}, nil
}

// overTime shows the first seed.
func (o Options) overTime(outcomes []score.Outcome, w World) ([]report.Section, error) {
	first, left := o.drawn(outcomes)
	figures, pairs, err := score.Figures(first, w.marks())
	if err != nil || len(figures) == 0 {
		return nil, err
	}
	over := report.Section{Title: "Over time", Text: []string{fmt.Sprintf("Seed %d.", o.Seed)}, Figures: figures}
	if len(left) > 0 {
		over.Text[0] += " Left out, so that lines can be told apart: " + strings.Join(left, ", ") + "."
	}
	grid := report.Section{Title: "Pair plots", Text: []string{"A point for every ten seconds."}, Grid: pairs}
	for _, f := range first {
		grid.Legend = append(grid.Legend, f.Scaler)
	}
	return []report.Section{over, grid}, nil
}

// marks are the switches of the policy, those of the scenario in every pass.
func (w World) marks() []score.Event {
	var marks []score.Event
	for _, sw := range w.Switches {
		marks = append(marks, score.Event{At: sw.At.Seconds(), Name: sw.Policy})
	}
	for n := range w.Scenario.Warmup.Passes + w.Passes {
		for _, sw := range w.Scenario.Policy.Switches {
			marks = append(marks, score.Event{At: (sw.At.Duration).Seconds() + float64(n)*w.Scenario.PassDuration().Seconds(), Name: sw.Policy})
		}
	}
	return marks
}

// drawn are the outcomes with the first seed that figures over time show, those
// of a swept target last, and the scalers that are left out.
func (o Options) drawn(outcomes []score.Outcome) (first []score.Outcome, left []string) {
	order := slices.Clone(o.Scalers)
	slices.SortStableFunc(order, func(a, b string) int {
		return cmp.Compare(strings.Count(a, ":"), strings.Count(b, ":"))
	})
	for _, scaler := range order {
		outcome := only(outcomes, scaler)[0]
		switch {
		case outcome.BoundUSD != nil:
		case len(first) == MaxLines:
			left = append(left, scaler)
		default:
			first = append(first, outcome)
		}
	}
	return first, left
}

// firstOf are the first simulations of the scalers that were recorded, in their
// order, so that each has the same colour in both.
func firstOf(outcomes, recorded []score.Outcome) []score.Outcome {
	var out []score.Outcome
	for _, r := range recorded {
		if of := only(outcomes, r.Scaler); len(of) > 0 {
			out = append(out, of[0])
		}
	}
	return out
}

// command is the line that makes this report.
func (o Options) command() string {
	line := fmt.Sprintf("mash2 simulate --scenario %s --scaler %s --seed %d --seeds %d --fidelity %s", o.Scenario, strings.Join(o.Scalers, ","), o.Seed, o.Seeds, strings.Join(o.Fidelities, ","))
	if o.Trace != "" {
		line += " --trace " + o.Trace
	}
	if o.Model != "" {
		line += " --model " + o.Model
	}
	if o.Forecaster != "" && o.Forecaster != forecast.QuickName {
		line += " --forecaster " + o.Forecaster
	}
	if o.Warm >= 0 {
		line += fmt.Sprintf(" --warm-passes %d", o.Warm)
	}
	if len(o.Against) > 0 {
		line += " --against " + strings.Join(o.Against, ",")
	}
	return line
}
