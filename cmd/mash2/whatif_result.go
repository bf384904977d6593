package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mash2-io/mash2/experiments/score"
)

// whatif is what -o json prints.
type whatif struct {
	History     historySummary `json:"history"`
	Assumptions []assumption   `json:"assumptions"`
	Policies    []string       `json:"policies"`
	Seed        uint64         `json:"seed"`
	Fidelity    string         `json:"fidelity"`
	Runs        []whatifRun    `json:"runs"`
	// Summary is by scaler over seeds.
	Summary []whatifSummary `json:"summary"`
	// AtEqualSLO compares each policy with the cheapest of the HPA's targets that
	// violates the SLO in no more minutes; those without such a target are left out.
	AtEqualSLO []equalSLO `json:"atEqualSlo"`
	// KnownError of the simulation, where it was compared with a real control plane.
	KnownError knownError `json:"knownError"`
	Gate       *gate      `json:"gate,omitempty"`
	// ScenarioFile is what mash2 simulate --scenario runs again.
	ScenarioFile string `json:"scenarioFile,omitempty"`
	Report       string `json:"report,omitempty"`
}

// whatifRun is a run, with the policy if it is mash2's.
type whatifRun struct {
	Policy string `json:"policy,omitempty"`
	// NodesBooted were requested within the stretch.
	NodesBooted int `json:"nodesBooted"`
	score.Run
}

// whatifSummary is a summary with the policy, and the cost of thirty such days.
type whatifSummary struct {
	Policy string `json:"policy,omitempty"`
	score.Summary
	// CostUSD30Days is the mean node cost scaled to thirty days, USD.
	CostUSD30Days float64        `json:"costUsd30Days"`
	NodesBooted   score.Interval `json:"nodesBooted"`
}

// equalSLO is a policy beside the HPA at equal service.
type equalSLO struct {
	Policy string `json:"policy"`
	Rival  string `json:"rival"`
	// Cost of nodes relative to the rival's, −0.1 is a tenth less, with its 95 %
	// interval over seeds.
	Cost score.Interval `json:"cost"`
}

// sumUp fills Summary and AtEqualSLO from Runs.
func (o *whatif) sumUp() {
	runs := make([]score.Run, len(o.Runs))
	for i, r := range o.Runs {
		runs[i] = r.Run
	}
	var swept []score.Summary
	for _, s := range score.Summarize(runs) {
		sum := whatifSummary{Summary: s}
		var booted []float64
		for _, r := range o.Runs {
			if r.Scaler == s.Scaler {
				sum.Policy = r.Policy
				booted = append(booted, float64(r.NodesBooted))
				sum.CostUSD30Days = s.Mean("costUsd") * 30 * 24 * 3600 / r.SimulatedSeconds
			}
		}
		if !s.Bound {
			sum.NodesBooted = score.IntervalOf(booted)
		}
		o.Summary = append(o.Summary, sum)
		if score.Kind(s.Scaler) == "hpa" {
			swept = append(swept, s)
		}
	}
	for _, p := range o.Policies {
		of := o.of(p)
		if best, ok := score.AtEqualSLO(of.Summary, swept); ok {
			o.AtEqualSLO = append(o.AtEqualSLO, equalSLO{p, best.Scaler, score.Relative(runs, of.Scaler, best.Scaler, score.MetricNamed("costUsd"))})
		}
	}
}

// of is the summary of a policy.
func (o *whatif) of(policy string) whatifSummary {
	return o.Summary[slices.IndexFunc(o.Summary, func(s whatifSummary) bool { return s.Scaler == job{scaler: "mash2", policy: policy}.name() })]
}

// gate bounds what every policy may cost and violate.
type gate struct {
	MaxCostUSD        *float64 `json:"maxCostUsd"`
	MaxViolationRatio *float64 `json:"maxViolationRatio"`
	Passed            bool     `json:"passed"`
	// Exceeded are sentences, one for each bound that a policy exceeds.
	Exceeded []string `json:"exceeded"`
}

func (g gate) sentence() string { return strings.Join(g.Exceeded, "; ") }

// judge the means over seeds.
func (g *gate) judge(o whatif) {
	g.Exceeded = []string{}
	for _, p := range o.Policies {
		s := o.of(p)
		if cost := s.Mean("costUsd"); g.MaxCostUSD != nil && cost > *g.MaxCostUSD {
			text := fmt.Sprintf("%s: its nodes cost %.4f USD, more than the %.4f of --max-cost", p, cost, *g.MaxCostUSD)
			if e, known := o.KnownError.of("mash2", "node cost"); known && cost <= *g.MaxCostUSD*(1+math.Abs(e)) {
				text += fmt.Sprintf(", by less than the %.1f %% that the simulation is known to be off", 100*math.Abs(e))
			}
			g.Exceeded = append(g.Exceeded, text)
		}
		if v := s.Mean("sloViolationRatio"); g.MaxViolationRatio != nil && v > *g.MaxViolationRatio {
			g.Exceeded = append(g.Exceeded, fmt.Sprintf("%s: %.4f of its minutes (%.1f) are in violation of the SLO, more than the %g of --max-violation",
				p, v, s.Mean("sloViolationMinutes"), *g.MaxViolationRatio))
		}
	}
	g.Passed = len(g.Exceeded) == 0
}

// whatifColumns are the metrics of the table.
func whatifColumns() []score.Metric {
	var out []score.Metric
	for _, name := range []string{
		"sloViolationMinutes", "sloViolationRatio", "nodeHours", "costUsd", "podCostUsd", "p95Ms", "failedRatio",
		"meanCpuUtilization", "maxReplicas", "pendingPodSeconds", "scaleActions",
	} {
		out = append(out, score.MetricNamed(name))
	}
	return out
}

func (o whatif) header() []string {
	out := []string{"scaler"}
	for _, m := range whatifColumns() {
		out = append(out, m.Title)
		if m.Name == "costUsd" {
			out = append(out, "of 30 days, $")
		}
	}
	return append(out, "nodes booted")
}

func (o whatif) rows() [][]string {
	var out [][]string
	for _, s := range o.Summary {
		row := []string{s.Scaler}
		for _, m := range whatifColumns() {
			row = append(row, s.Metrics[m.Name].Text(m))
			if m.Name == "costUsd" {
				row = append(row, fmt.Sprintf("%.2f", s.CostUSD30Days))
			}
		}
		out = append(out, append(row, s.NodesBooted.Text(score.Metric{Format: "%.0f", Scale: 1})))
	}
	return out
}

// replayed says what was replayed.
func (o whatif) replayed() string {
	h := o.History
	before := "and as long before it as history"
	switch {
	case h.WarmPasses == 0:
		before = "without any history before it"
	case h.WarmPasses > 1:
		before = fmt.Sprintf("and %d times as long before it as history", h.WarmPasses)
	}
	return fmt.Sprintf("%s to %s of %s, %s: %d samples, %v apart, %.1f %% of them filled in, %.2f cores on average, %.2f at the highest",
		h.From, h.To, h.Source, before, h.Samples, time.Duration(h.Step*float64(time.Second)), 100*h.GapRatio, h.MeanCores, h.PeakCores)
}

// sentences on the policies beside the HPA.
func (o whatif) sentences() []string {
	var out []string
	for _, p := range o.Policies {
		i := slices.IndexFunc(o.AtEqualSLO, func(e equalSLO) bool { return e.Policy == p })
		if i < 0 {
			if slices.ContainsFunc(o.Summary, func(s whatifSummary) bool { return score.Kind(s.Scaler) == "hpa" }) {
				out = append(out, p+": none of the HPA's targets violates the SLO in as few minutes")
			}
			continue
		}
		e := o.AtEqualSLO[i]
		out = append(out, fmt.Sprintf("%s: beside %s, the cheapest of the HPA's targets that violates the SLO in no more minutes, its nodes cost %s", p, e.Rival, e.Cost.Text(score.Percent)))
	}
	return out
}

func (o whatif) text() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	table := func(header []string, rows [][]string) {
		for _, row := range append([][]string{header}, rows...) {
			fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
		}
		_ = t.Flush() // into memory
	}
	fmt.Fprintln(&b, o.replayed())
	for _, n := range o.History.Notes {
		fmt.Fprintln(&b, "note:", n)
	}
	fmt.Fprintln(&b)
	table(o.header(), o.rows())
	fmt.Fprintln(&b)
	for _, line := range o.sentences() {
		fmt.Fprintln(&b, line)
	}
	fmt.Fprintln(&b, "\nthe history doesn't tell, and was taken for true:")
	for _, a := range o.Assumptions {
		fmt.Fprintln(&b, "  "+a.text())
	}
	fmt.Fprintln(&b, "\n"+o.KnownError.sentence())
	table(o.KnownError.table())
	if o.Gate != nil {
		if o.Gate.Passed {
			fmt.Fprintln(&b, "\ngate: passed")
		} else {
			fmt.Fprintln(&b, "\ngate: exceeded:", o.Gate.sentence())
		}
	}
	if o.Report != "" {
		fmt.Fprintf(&b, "\nreport: %s; the scenario alone: %s\n", o.Report, o.again())
	}
	return strings.TrimRight(b.String(), "\n")
}

func (a assumption) text() string {
	text := fmt.Sprintf("%s: %s (%s", a.Name, a.Value, a.From)
	if a.Flag != "" && a.From != fromFlag {
		text += "; " + a.Flag
	}
	return text + ")"
}

// again is the command that simulates the scenario once more.
func (o whatif) again() string { return "mash2 simulate --scenario " + o.ScenarioFile }
