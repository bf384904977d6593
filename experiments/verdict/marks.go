package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/sim"
)

// The bounds of the marks.
const (
	maxRival, maxRivalOnOne, maxClairvoyant, maxFleet = 0.95, 1.03, 1.15, 0.90
)

// rounding is what two equal shares or costs may differ by.
const rounding = 1e-9

// mark is one thing that must be true of a set of loads at a size.
type mark struct {
	Mark string  `json:"mark"`
	Size float64 `json:"size"`
	Set  string  `json:"set"`
	Met  bool    `json:"met"`
	// Figure is null where nothing was run that it could be of; it is not met then.
	Figure *float64 `json:"figure"`
	// Note says what it fails by, for people.
	Note string `json:"note,omitempty"`
}

// results are figures of one set at one size.
type results []figure

// of are those of a scaler on a trace, by seed.
func (r results) of(trace, scaler string) map[uint64]figure {
	out := map[uint64]figure{}
	for _, f := range r {
		if f.Trace == trace && f.Scaler == scaler {
			out[f.Seed] = f
		}
	}
	return out
}

// distinct values of a field, in the order in which they first come.
func (r results) distinct(field func(figure) string) []string {
	var out []string
	for _, f := range r {
		if v := field(f); !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

func (r results) traces() []string {
	out := r.distinct(func(f figure) string { return f.Trace })
	slices.Sort(out)
	return out
}

func (r results) scalers() []string { return r.distinct(func(f figure) string { return f.Scaler }) }

// mean is a scaler's cost and share of minutes in violation on a trace, over seeds.
func (r results) mean(trace, scaler string) (cost, violating float64, ok bool) {
	all := r.of(trace, scaler)
	violated, minutes := 0, 0
	for _, f := range all {
		cost += f.Cost / float64(len(all))
		violated, minutes = violated+f.Violated, minutes+f.Minutes
	}
	if minutes > 0 {
		violating = float64(violated) / float64(minutes)
	}
	return cost, violating, len(all) > 0
}

// apart is the share of minutes that a scaler violates on a trace and another does not,
// with the same seeds.
func (r results) apart(trace, scaler, from string) (share float64, ok bool) {
	others := r.of(trace, from)
	violated, minutes := 0, 0
	for seed, f := range r.of(trace, scaler) {
		other, known := others[seed]
		if !known {
			continue
		}
		minutes += f.Minutes
		for w, all := range f.Violating {
			for _, m := range all {
				if w >= len(other.Violating) || !slices.Contains(other.Violating[w], m) {
					violated++
				}
			}
		}
	}
	return float64(violated) / float64(max(1, minutes)), minutes > 0
}

// atEqualViolations is the cheapest of the rivals that violate no more than a scaler on
// a trace, and the scaler's cost relative to its.
func (r results) atEqualViolations(trace, scaler string, rivals []string) (best string, relative float64) {
	mine, violating, ok := r.mean(trace, scaler)
	if !ok {
		return "", math.NaN()
	}
	least := math.Inf(1)
	for _, rival := range rivals {
		cost, theirs, ok := r.mean(trace, rival)
		if ok && theirs <= violating+rounding && cost < least {
			best, least = rival, cost
		}
	}
	if best == "" {
		return "", math.NaN()
	}
	return best, mine / least
}

// atEqualMoney is the one of the rivals that costs no more than a scaler on a trace and
// violates least, and its share of minutes.
func (r results) atEqualMoney(trace, scaler string, rivals []string) (best string, violating float64) {
	mine, _, ok := r.mean(trace, scaler)
	violating = math.NaN()
	for _, rival := range rivals {
		cost, theirs, known := r.mean(trace, rival)
		if ok && known && cost <= mine*(1+rounding) && (best == "" || theirs < violating) {
			best, violating = rival, theirs
		}
	}
	return best, violating
}

// scalings of a scaler on a trace, and of that HPA, whatever its target and pool, whose
// cost is the nearest to its own; mean over seeds. Costs is the HPA's cost relative to it.
func (r results) scalings(trace, scaler string) (mine, theirs, costs float64, ok bool) {
	of := func(scaler string) (sum float64) {
		all := r.of(trace, scaler)
		for _, f := range all {
			sum += float64(f.Scalings) / float64(len(all))
		}
		return sum
	}
	own, _, known := r.mean(trace, scaler)
	near := math.Inf(1)
	for _, s := range r.scalers() {
		cost, _, run := r.mean(trace, s)
		if d := math.Abs(math.Log(cost / own)); known && run && strings.HasPrefix(s, sim.HPA) && d < near {
			near, theirs, costs, ok = d, of(s), cost/own, true
		}
	}
	return of(scaler), theirs, costs, ok
}

// dominates reports whether a is no worse than b in both cost and violations on a
// trace and better in one, beyond the noise of the seeds that both have: a difference
// counts when its 95 % interval is on one side of 0. With one seed every difference
// counts.
func (r results) dominates(trace, a, b string) bool {
	var cost, violated []float64
	others := r.of(trace, b)
	mine := r.of(trace, a)
	for seed, f := range mine {
		if o, ok := others[seed]; ok {
			cost = append(cost, f.Cost/o.Cost-1)
			violated = append(violated, float64(f.Violated-o.Violated))
		}
	}
	if len(cost) == 0 {
		return false
	}
	c, v := side(cost), side(violated)
	return c <= 0 && v <= 0 && c+v < 0
}

// side is −1, 0 or 1 as differences are below, about or above 0.
func side(differences []float64) int {
	i := score.IntervalOf(differences)
	low, high := *i.Mean, *i.Mean
	if i.Low != nil {
		low, high = *i.Low, *i.High
	}
	switch {
	case high < -rounding:
		return -1
	case low > rounding:
		return 1
	}
	return 0
}

// geometric mean; NaN of nothing.
func geometric(factors []float64) float64 {
	sum := 0.0
	for _, f := range factors {
		sum += math.Log(f)
	}
	return math.Exp(sum / float64(len(factors)))
}

// judge is every mark of one set at one size; rivals are those that are frozen, and
// the defaults. A fleet has a mark of its own for cost.
func judge(r results, size float64, set string, scaler, yardstick string, rivals []string, objective float64) []mark {
	make := func(name string, figure float64, met bool, note string) mark {
		m := mark{Mark: name, Size: size, Set: set, Note: note}
		if !math.IsNaN(figure) && !math.IsInf(figure, 0) {
			m.Figure, m.Met = &figure, met
		}
		return m
	}
	worst, worstOn := math.NaN(), ""
	var beside, clairvoyant []float64
	dearest, dearestOn, alone := math.NaN(), "", 0
	var dominated []string
	var mineScaled, theirsScaled float64
	var nearest []float64
	for _, t := range r.traces() {
		if mine, theirs, costs, ok := r.scalings(t, scaler); ok {
			mineScaled, theirsScaled, nearest = mineScaled+mine, theirsScaled+theirs, append(nearest, costs)
		}
		if share, ok := r.apart(t, scaler, yardstick); ok && !(share <= worst) {
			worst, worstOn = share, t
		}
		rival, relative := r.atEqualViolations(t, scaler, rivals)
		if rival == "" {
			alone++
		} else {
			beside = append(beside, relative)
			if !(relative <= dearest) {
				dearest, dearestOn = relative, t+" beside "+rival
			}
		}
		mine, _, ok := r.mean(t, scaler)
		if best, _, ok2 := r.mean(t, yardstick); ok && ok2 {
			clairvoyant = append(clairvoyant, mine/best)
		}
		for _, rival := range rivals {
			if r.dominates(t, rival, scaler) {
				dominated = append(dominated, t+": "+rival)
			}
		}
	}
	cheapest, limit := "cost beside the cheapest rival at no more violations", maxRival
	if set == fleets {
		limit = maxFleet
	}
	g := geometric(beside)
	out := []mark{
		make("objective kept on every trace", worst, worst <= 1-objective+rounding, worstOn),
		make(cheapest, g, g <= limit, fmt.Sprintf("on %d; on %d no rival violates no more", len(beside), alone)),
	}
	if set != fleets {
		out = append(out, make(cheapest+", worst trace", dearest, dearest <= maxRivalOnOne, dearestOn))
	}
	c := geometric(clairvoyant)
	count := float64(len(dominated))
	if len(r.of(first(r.traces()), scaler)) == 0 {
		count = math.NaN()
	}
	return append(out,
		make("cost beside the clairvoyant", c, c <= maxClairvoyant, ""),
		make("rivals that weakly dominate it", count, count == 0, fmt.Sprint(dominated)),
		make("scalings beside the HPA of the nearest cost", mineScaled/theirsScaled, mineScaled <= theirsScaled,
			fmt.Sprintf("%.0f and %.0f, whose cost is %.2f times as much", mineScaled, theirsScaled, geometric(nearest))))
}

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// choose is the config that its owner would keep after trying all on these traces: the
// cheapest, by the geometric mean, of those that keep the objective in the mean over
// traces; if none does, the one that violates least.
func choose(r results, tried []config, objective float64) (config, bool) {
	type outcome struct {
		config          config
		cost, violating float64
	}
	var all []outcome
	for _, c := range tried {
		var costs []float64
		sum := 0.0
		for _, t := range r.traces() {
			cost, violating, ok := r.mean(t, c.String())
			if !ok {
				costs = nil
				break
			}
			costs, sum = append(costs, cost), sum+violating
		}
		if len(costs) > 0 {
			all = append(all, outcome{c, geometric(costs), sum / float64(len(costs))})
		}
	}
	if len(all) == 0 {
		return config{}, false
	}
	excess := func(o outcome) float64 { return max(0, o.violating-(1-objective)-rounding) }
	best := slices.MinFunc(all, func(a, b outcome) int {
		return cmp.Or(cmp.Compare(excess(a), excess(b)), cmp.Compare(a.cost, b.cost))
	})
	return best.config, true
}
