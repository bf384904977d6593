package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/experiments/score"
)

// The bounds of the marks: what is to be reached, and where it is to go.
const (
	maxCostRatio, goalCostRatio  = 1.25, 1.10
	maxViolating, goalViolating  = 0.005, 0.001
	maxUnscheduled, maxNodeHours = 1.0, 1.05 // seconds; relative to the HPA's
)

// mark is one thing that must be true, and whether it is.
type mark struct {
	what   string
	of     string // which set, and which mash2
	met    bool
	figure string
	limits string // what keeps it from being met
}

// group is a set of traces or scenarios with what was measured on them.
type group struct {
	title   string
	results []result
}

// per is a metric of a scaler relative to another's, mean over the seeds that both
// have, as a factor.
func (r result) per(scaler, to, metric string) score.Interval {
	i := score.Relative(r.Runs, scaler, to, score.MetricNamed(metric))
	for _, v := range []*float64{i.Mean, i.Low, i.High} {
		if v != nil {
			*v++
		}
	}
	return i
}

// violating is a scaler's share of minutes in violation, over seeds.
func (r result) violating(scaler string) score.Interval {
	return r.over(scaler, "sloViolationRatio")
}

// over is a metric of a scaler over seeds.
func (r result) over(scaler, metric string) score.Interval {
	m := score.MetricNamed(metric)
	var all []float64
	for _, run := range r.Runs {
		if run.Scaler == scaler && !run.Bound {
			all = append(all, m.Of(run))
		}
	}
	return score.IntervalOf(all)
}

// geometric is the geometric mean of factors and its interval over them.
func geometric(factors []float64) score.Interval {
	var logs []float64
	for _, f := range factors {
		logs = append(logs, math.Log(f))
	}
	i := score.IntervalOf(logs)
	for _, v := range []*float64{i.Mean, i.Low, i.High} {
		if v != nil {
			*v = math.Exp(*v)
		}
	}
	return i
}

// factor shows an interval of factors.
func factor(i score.Interval) string {
	switch {
	case i.Mean == nil:
		return "–"
	case i.Low == nil:
		return fmt.Sprintf("%.2f", *i.Mean)
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", *i.Mean, *i.Low, *i.High)
}

// excess is a scaler's cost beside the clairvoyant's on one trace, taken apart:
// node cost = pod cost × node cost per pod cost.
type excess struct {
	trace           string
	cost, pods      score.Interval // factors
	perPod          float64        // what nodes cost per pod, factor
	violating, best score.Interval // shares of minutes, own and the clairvoyant's
}

func (e excess) within(cost, violating float64) bool {
	return *e.cost.Mean <= cost && *e.violating.Mean <= violating
}

// besideClairvoyant is where a scaler and the clairvoyant were run.
func besideClairvoyant(g group, scaler string) []excess {
	var out []excess
	for _, r := range g.results {
		e := excess{trace: r.Scenario, cost: r.per(scaler, "clairvoyant", "costUsd"), pods: r.per(scaler, "clairvoyant", "podCostUsd"),
			violating: r.violating(scaler), best: r.violating("clairvoyant")}
		if e.cost.Mean == nil || e.pods.Mean == nil || e.violating.Mean == nil || e.best.Mean == nil {
			continue
		}
		e.perPod = *e.cost.Mean / *e.pods.Mean
		out = append(out, e)
	}
	return out
}

// clairvoyantMark judges cost and violations beside the clairvoyant.
func clairvoyantMark(g group, scaler string) (mark, bool) {
	all := besideClairvoyant(g, scaler)
	if len(all) == 0 {
		return mark{}, false
	}
	var factors []float64
	met, goal := 0, 0
	var dear, late []string
	pods, perPod := 0, 0
	for _, e := range all {
		factors = append(factors, *e.cost.Mean)
		if e.within(goalCostRatio, goalViolating) {
			goal++
		}
		if e.within(maxCostRatio, maxViolating) {
			met++
			continue
		}
		if *e.cost.Mean > maxCostRatio {
			dear = append(dear, fmt.Sprintf("%s (%.2f)", e.trace, *e.cost.Mean))
			if *e.pods.Mean > e.perPod {
				pods++
			} else {
				perPod++
			}
		}
		if *e.violating.Mean > maxViolating {
			late = append(late, fmt.Sprintf("%s (%.1f %%, the clairvoyant %.1f %%)", e.trace, 100**e.violating.Mean, 100**e.best.Mean))
		}
	}
	m := mark{
		what: fmt.Sprintf("cost ≤ %.2f × clairvoyant at ≤ %.1f %% violating", maxCostRatio, 100*maxViolating), of: g.title + ", " + scaler, met: met == len(all),
		figure: fmt.Sprintf("%d of %d; geometric mean %s; %d of %d at %.2f × and %.1f %%", met, len(all), factor(geometric(factors)), goal, len(all), goalCostRatio, 100*goalViolating),
	}
	var limits []string
	if len(dear) > 0 {
		limits = append(limits, fmt.Sprintf("dearer: %s: in %d of these more by what nodes cost per pod, in %d by the pods", strings.Join(dear, ", "), perPod, pods))
	}
	if len(late) > 0 {
		limits = append(limits, "violating: "+strings.Join(late, ", "))
	}
	m.limits = strings.Join(limits, "; ")
	return m, true
}

// dominating are the HPA's targets that have both lower cost and fewer violations
// than a scaler, in means over seeds.
func (r result) dominating(scaler string) []string {
	mine, ok := r.of(scaler)
	if !ok {
		return nil
	}
	var out []string
	for _, s := range r.scalers() {
		if f, _ := r.of(s); score.Kind(s) == "hpa" && f.cost < mine.cost && f.violating < mine.violating-1e-9 {
			out = append(out, s)
		}
	}
	return out
}

func dominationMark(g group, scaler string) (mark, bool) {
	var found []string
	n := 0
	for _, r := range g.results {
		mine, ok := r.of(scaler)
		if !ok {
			continue
		}
		n++
		better := r.dominating(scaler)
		if len(better) == 0 {
			continue
		}
		// The one that violates least, and of those the cheapest, stands for all.
		best := slices.MinFunc(better, func(a, b string) int {
			fa, _ := r.of(a)
			fb, _ := r.of(b)
			return cmp.Or(cmp.Compare(fa.violating, fb.violating), cmp.Compare(fa.cost, fb.cost))
		})
		other, _ := r.of(best)
		share := score.Metric{Format: "%.2f", Scale: 100}
		found = append(found, fmt.Sprintf("%s: %s, of which %s costs %.0f %% less and violates %s %% instead of %s %%", r.Scenario, strings.Join(better, ", "),
			best, 100*(1-other.cost/mine.cost), r.violating(best).Text(share), r.violating(scaler).Text(share)))
	}
	return mark{
		what: "no HPA target with both lower cost and fewer violations", of: g.title + ", " + scaler, met: len(found) == 0,
		figure: fmt.Sprintf("none on %d of %d", n-len(found), n), limits: strings.Join(found, "; "),
	}, n > 0
}

// policyMark judges whether the two policies are what they are called.
func policyMark(g group, performance map[string]result) (mark, bool) {
	n, met := 0, 0
	var costs, speeds []float64
	var not []string
	for _, r := range g.results {
		p, ok := performance[r.Scenario]
		if !ok {
			continue
		}
		n++
		cost, fast := *p.over("mash2", "costUsd").Mean / *r.seedOf(p, "costUsd"), *p.over("mash2", "p95Ms").Mean / *r.seedOf(p, "p95Ms")
		costs, speeds = append(costs, cost), append(speeds, fast)
		if cost > 1 && fast < 1 {
			met++
		} else {
			not = append(not, fmt.Sprintf("%s (cost × %.2f, p95 × %.2f)", r.Scenario, cost, fast))
		}
	}
	return mark{
		what: "COST_SAVING cheaper and PERFORMANCE faster", of: g.title, met: met == n,
		figure: fmt.Sprintf("%d of %d; PERFORMANCE's cost × %s, its p95 × %s", met, n, factor(geometric(costs)), factor(geometric(speeds))),
		limits: strings.Join(not, ", "),
	}, n > 0
}

// seedOf is a metric of mash2's with the seeds that another result has.
func (r result) seedOf(of result, metric string) *float64 {
	m := score.MetricNamed(metric)
	var all []float64
	for _, run := range r.Runs {
		if run.Scaler == "mash2" && slices.ContainsFunc(of.Runs, func(o score.Run) bool { return o.Seed == run.Seed }) {
			all = append(all, m.Of(run))
		}
	}
	return score.IntervalOf(all).Mean
}

// sawtoothMark judges the third tooth and what follows: how long pods are without a
// node, and the node-hours beside the HPA's.
func sawtoothMark(r result, scaler string) (mark, bool) {
	longest, seeds := 0.0, 0
	for _, run := range r.Runs {
		if run.Scaler == scaler && run.UnscheduledStretchSeconds != nil {
			longest, seeds = max(longest, *run.UnscheduledStretchSeconds), seeds+1
		}
	}
	hours := r.per(scaler, "hpa", "nodeHours")
	if seeds == 0 || hours.Mean == nil {
		return mark{}, false
	}
	m := mark{
		what: fmt.Sprintf("from the third tooth no pod without a node for more than %.0f s, at ≤ %.2f × HPA+CA's node-hours", maxUnscheduled, maxNodeHours),
		of:   "sawtooth, " + scaler, met: longest <= maxUnscheduled && *hours.Mean <= maxNodeHours,
		figure: fmt.Sprintf("longest %.1f s in %d seeds; node-hours × %s", longest, seeds, factor(hours)),
	}
	var limits []string
	if longest > maxUnscheduled {
		limits = append(limits, fmt.Sprintf("pods without a node: %s pod-seconds pending in three teeth, the HPA's %s",
			r.over(scaler, "pendingPodSeconds").Text(score.MetricNamed("pendingPodSeconds")), r.over("hpa", "pendingPodSeconds").Text(score.MetricNamed("pendingPodSeconds"))))
	}
	if *hours.Mean > maxNodeHours {
		limits = append(limits, fmt.Sprintf("node-hours: violating %s min, the HPA %s",
			r.over(scaler, "sloViolationMinutes").Text(score.MetricNamed("sloViolationMinutes")), r.over("hpa", "sloViolationMinutes").Text(score.MetricNamed("sloViolationMinutes"))))
	}
	m.limits = strings.Join(limits, "; ")
	return m, true
}

// markTable shows marks.
func markTable(all []mark) string {
	var b strings.Builder
	b.WriteString("| mark | on | met | figures | what it fails by |\n|---|---|---|---|---|\n")
	for _, m := range all {
		met := "**no**"
		if m.met {
			met = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", m.what, m.of, met, m.figure, m.limits)
	}
	return b.String() + "\n"
}
