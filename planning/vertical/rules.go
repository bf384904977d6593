package vertical

import (
	"fmt"
	"strings"
)

// Threshold is MARLISE's heuristic: above Upper of its limit a pod gets one increment if
// the budget has it, below Lower it gives one back.
type Threshold struct {
	// Upper and Lower are shares of the limit.
	Upper, Lower float64
	// Increment in millicores.
	Increment int64
}

// DefaultThreshold is MARLISE's: 60 %, 30 %, 25 millicores.
func DefaultThreshold() Threshold { return Threshold{0.6, 0.3, 25} }

// Name implements Planner.
func (Threshold) Name() string { return "rule:threshold" }

// Propose implements Planner.
func (t Threshold) Propose(v *View) float64 {
	switch u := v.Utilisation(); {
	case u > t.Upper && v.Available >= t.Increment:
		return float64(v.Limit + t.Increment)
	case u < t.Lower:
		return float64(v.Limit - t.Increment)
	}
	return float64(v.Limit)
}

// Proportional asks for the limit of which present usage is Target, as the HPA does with
// replicas. A pod that is held back by its limit shows no more usage than that: it grows by
// 1/Target a tick.
type Proportional struct {
	// Target is a share of the limit.
	Target float64
	// Tolerance is how far usage may be off the target, as a share of it, before a limit
	// changes.
	Tolerance float64
	// Stabilization is for how many of the last observations, up to Window, usage must have
	// been lower before a limit falls; it falls for the largest of them. A pod's first one
	// counts as all of them: where the budget is given out, who waits keeps it from others.
	Stabilization int
}

// Name implements Planner.
func (Proportional) Name() string { return "rule:proportional" }

// Propose implements Planner. Within the tolerance a limit stays.
func (p Proportional) Propose(v *View) float64 {
	limit := float64(v.Limit)
	off := v.Utilisation()/p.Target - 1
	if off >= -p.Tolerance && off <= p.Tolerance {
		return limit
	}
	if off > 0 {
		return v.Usage / p.Target
	}
	return min(limit, p.most(v)/p.Target)
}

// most usage of the last observations, millicores.
func (p Proportional) most(v *View) float64 {
	most := v.Usage
	for i := Window - min(p.Stabilization, Window); i < Window; i++ {
		most = max(most, float64(v.Window[i*Features+ofUsage])*float64(v.Budget))
	}
	return most
}

// Spread is Proportional, and gives out what that leaves of the budget: a part to all alike, so
// that who is busy has room for more, and the rest to those with the least, so that limits are
// nearly equal where nobody needs more, and who is idle has something when its load comes.
type Spread struct {
	Proportional
	// Levelled is the part, 0–1, that goes to those with the least.
	Levelled float64
}

// Name implements Planner.
func (Spread) Name() string { return "rule:spread" }

// Propose implements Planner. Within the tolerance a limit stays.
func (s Spread) Propose(v *View) float64 {
	all := float64(v.Budget - v.Blind)
	alike := (1 - s.Levelled) * max(0, all-v.Used/s.Target) / float64(max(1, len(v.Usages)))
	limit, level := float64(v.Limit), s.level(v.Usages, alike, all)
	gets := func(usage float64) float64 { return max(usage/s.Target+alike, level) }
	switch off := gets(v.Usage)/limit - 1; {
	case off >= -s.Tolerance && off <= s.Tolerance:
		return limit
	case off > 0:
		return gets(v.Usage)
	}
	return min(limit, gets(s.most(v)))
}

// level is how far the least limits can be raised with a budget: as water rises in vessels of
// different heights. Usages rise, and everybody has what it needs and so much more.
func (s Spread) level(usages []float64, alike, budget float64) float64 {
	for i := len(usages) - 1; i >= 0; i-- {
		has := usages[i]/s.Target + alike
		if level := budget / float64(i+1); has <= level {
			return level
		}
		budget -= has
	}
	return 0
}

// DefaultProportional has round figures from the midst of a range in which they matter
// little (docs/explanation/learning.md).
func DefaultProportional() Proportional { return Proportional{0.6, 0.2, 3} }

// DefaultRule is what decides without a model. Its target is what a pod gets in any case
// where CPU is short, and not all that it gets: so it may be nearer to its usage. Its figures
// are round ones from where they matter little (docs/explanation/learning.md).
func DefaultRule() Spread { return Spread{Proportional{0.8, 0.1, 2}, 0.5} }

// RuleByName is fixed, or threshold, proportional or spread with the settings of
// [DefaultThreshold], [DefaultProportional] or [DefaultRule], or one of these with others:
// threshold:UPPER:LOWER:INCREMENT, in percent of the limit and millicores, and
// proportional:TARGET:TOLERANCE:STABILIZATION or spread:…, in percent and observations.
func RuleByName(name string) (Planner, error) {
	kind, settings, set := strings.Cut(name, ":")
	var percent [2]float64
	var whole int64
	if set {
		if n, err := fmt.Sscanf(settings+"\n", "%g:%g:%d\n", &percent[0], &percent[1], &whole); err != nil || n != 3 {
			set = false
		}
	}
	target := percent[0] >= 1 && percent[0] <= 100 && percent[1] >= 0 && percent[1] < 100 && whole >= 0 && whole <= Window
	p := Proportional{percent[0] / 100, percent[1] / 100, int(whole)}
	switch want := kind + ":TARGET:TOLERANCE:STABILIZATION, in percent, percent and observations"; {
	case name == "fixed":
		return Fixed{}, nil
	case name == "threshold":
		return DefaultThreshold(), nil
	case name == "proportional":
		return DefaultProportional(), nil
	case name == "spread":
		return DefaultRule(), nil
	case kind == "threshold":
		if !set || !(percent[1] >= 0 && percent[1] < percent[0] && percent[0] <= 100) || whole < 1 {
			return nil, fmt.Errorf("rule %q: want threshold:UPPER:LOWER:INCREMENT, in percent, percent and millicores", name)
		}
		return Threshold{percent[0] / 100, percent[1] / 100, whole}, nil
	case (kind == "proportional" || kind == "spread") && (!set || !target):
		return nil, fmt.Errorf("rule %q: want %s", name, want)
	case kind == "proportional":
		return p, nil
	case kind == "spread":
		return Spread{p, DefaultRule().Levelled}, nil
	}
	return nil, fmt.Errorf("unknown rule %q: want spread, proportional, threshold or fixed, or one with settings, such as threshold:60:30:25", name)
}

// Fixed keeps every limit.
type Fixed struct{}

// Name implements Planner.
func (Fixed) Name() string { return "rule:fixed" }

// Propose implements Planner.
func (Fixed) Propose(v *View) float64 { return float64(v.Limit) }
