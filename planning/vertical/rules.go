package vertical

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
	// been lower before a limit falls; it falls for the largest of them.
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
	most := v.Usage
	for i := Window - min(p.Stabilization, Window); i < Window; i++ {
		most = max(most, float64(v.Window[i*Features+ofUsage])*float64(v.Budget))
	}
	return min(limit, most/p.Target)
}

// DefaultRule is what decides without a model. Its settings are round figures from the midst
// of a range in which they matter little (docs/explanation/learning.md).
func DefaultRule() Proportional { return Proportional{0.6, 0.2, 3} }

// Fixed keeps every limit.
type Fixed struct{}

// Name implements Planner.
func (Fixed) Name() string { return "rule:fixed" }

// Propose implements Planner.
func (Fixed) Propose(v *View) float64 { return float64(v.Limit) }
