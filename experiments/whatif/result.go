package whatif

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/experiments/score"
)

// Result is what -o json prints.
type Result struct {
	History     HistorySummary `json:"history"`
	Assumptions []Assumption   `json:"assumptions"`
	// Recorded is what was done meanwhile; nil unless the history is of records.
	Recorded *Recorded `json:"recorded,omitempty"`
	// RecordsError is how far the simulation is from these records; nil where that can't be told.
	RecordsError *RecordsError `json:"recordsError,omitempty"`
	Policies     []string      `json:"policies"`
	Seed         uint64        `json:"seed"`
	Fidelity     string        `json:"fidelity"`
	Runs         []Run         `json:"runs"`
	// Summary is by scaler over seeds.
	Summary []Summary `json:"summary"`
	// AtEqualSLO compares each policy with the cheapest of the HPA's targets that
	// violates the SLO in no more minutes; those without such a target are left out.
	AtEqualSLO []EqualSLO `json:"atEqualSlo"`
	// Spot is what each policy would save by spot machines; none if not asked for.
	Spot []SpotSaving `json:"spot,omitempty"`
	// KnownError of the simulation, where it was compared with a real control plane.
	KnownError KnownError `json:"knownError"`
	Gate       *Gate      `json:"gate,omitempty"`
	// ScenarioFile is what mash2 simulate --scenario runs again.
	ScenarioFile string `json:"scenarioFile,omitempty"`
	Report       string `json:"report,omitempty"`
}

// Run is a run, with the policy if it is mash2's.
type Run struct {
	Policy string `json:"policy,omitempty"`
	// NodesBooted were requested within the stretch.
	NodesBooted int `json:"nodesBooted"`
	score.Run
}

// Summary is a summary with the policy, and the cost of thirty such days.
type Summary struct {
	Policy string `json:"policy,omitempty"`
	score.Summary
	// CostUSD30Days is the mean node cost scaled to thirty days, USD.
	CostUSD30Days float64        `json:"costUsd30Days"`
	NodesBooted   score.Interval `json:"nodesBooted"`
}

// EqualSLO is a policy beside the HPA at equal service.
type EqualSLO struct {
	Policy string `json:"policy"`
	Rival  string `json:"rival"`
	// Cost of nodes relative to the rival's, −0.1 is a tenth less, with its 95 %
	// interval over seeds.
	Cost score.Interval `json:"cost"`
}

// sumUp fills Summary and AtEqualSLO from Runs, which it returns.
func (o *Result) sumUp() []score.Run {
	runs := make([]score.Run, len(o.Runs))
	for i, r := range o.Runs {
		runs[i] = r.Run
	}
	var swept []score.Summary
	for _, s := range score.Summarize(runs) {
		sum := Summary{Summary: s}
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
			o.AtEqualSLO = append(o.AtEqualSLO, EqualSLO{p, best.Scaler, score.Relative(runs, of.Scaler, best.Scaler, score.MetricNamed("costUsd"))})
		}
	}
	return runs
}

// of is the summary of a policy.
func (o *Result) of(policy string) Summary {
	return o.named(job{scaler: "mash2", policy: policy}.name())
}

// named is the summary of a scaler, which is there.
func (o *Result) named(scaler string) Summary {
	return o.Summary[slices.IndexFunc(o.Summary, func(s Summary) bool { return s.Scaler == scaler })]
}

// Gate bounds what every policy may cost and violate.
type Gate struct {
	MaxCostUSD        *float64 `json:"maxCostUsd"`
	MaxViolationRatio *float64 `json:"maxViolationRatio"`
	Passed            bool     `json:"passed"`
	// Exceeded are sentences, one for each bound that a policy exceeds.
	Exceeded []string `json:"exceeded"`
}

// Sentence names the limits that were exceeded; empty if none was.
func (g Gate) Sentence() string { return strings.Join(g.Exceeded, "; ") }

// judge the means over seeds.
func (g *Gate) judge(o Result) {
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

// columns are the metrics of the table.
func columns() []score.Metric {
	var out []score.Metric
	for _, name := range []string{
		"sloViolationMinutes", "sloViolationRatio", "nodeHours", "costUsd", "podCostUsd", "p95Ms", "failedRatio",
		"meanCpuUtilization", "maxReplicas", "pendingPodSeconds", "scaleActions",
	} {
		out = append(out, score.MetricNamed(name))
	}
	return out
}

// Header names the columns of Rows.
func (o Result) Header() []string {
	out := []string{"scaler"}
	for _, m := range columns() {
		out = append(out, m.Title)
		if m.Name == "costUsd" {
			out = append(out, "of 30 days, $")
		}
	}
	return append(out, "nodes booted")
}

// Rows are the means over seeds, a row for each policy and rival.
func (o Result) Rows() [][]string {
	var out [][]string
	for _, s := range o.Summary {
		row := []string{s.Scaler}
		for _, m := range columns() {
			row = append(row, s.Metrics[m.Name].Text(m))
			if m.Name == "costUsd" {
				row = append(row, fmt.Sprintf("%.2f", s.CostUSD30Days))
			}
		}
		out = append(out, append(row, s.NodesBooted.Text(score.Metric{Format: "%.0f", Scale: 1})))
	}
	return out
}

// Replayed says what was replayed.
func (o Result) Replayed() string {
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

// Sentences are on the policies beside the HPA, and on spot machines.
func (o Result) Sentences() []string {
	var out []string
	for _, p := range o.Policies {
		i := slices.IndexFunc(o.AtEqualSLO, func(e EqualSLO) bool { return e.Policy == p })
		if i < 0 {
			if slices.ContainsFunc(o.Summary, func(s Summary) bool { return score.Kind(s.Scaler) == "hpa" }) {
				out = append(out, p+": none of the HPA's targets violates the SLO in as few minutes")
			}
			continue
		}
		e := o.AtEqualSLO[i]
		out = append(out, fmt.Sprintf("%s: beside %s, the cheapest of the HPA's targets that violates the SLO in no more minutes, its nodes cost %s", p, e.Rival, e.Cost.Text(score.Percent)))
	}
	for _, s := range o.Spot {
		out = append(out, s.Sentence())
	}
	return out
}

// Text is the assumption as a line.
func (a Assumption) Text() string {
	text := fmt.Sprintf("%s: %s (%s", a.Name, a.Value, a.From)
	if a.Flag != "" && a.From != fromFlag {
		text += "; " + a.Flag
	}
	return text + ")"
}

// Again is the command that simulates the scenario once more.
func (o Result) Again() string { return "mash2 simulate --scenario " + o.ScenarioFile }
