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

// Fixed keeps every limit.
type Fixed struct{}

// Name implements Planner.
func (Fixed) Name() string { return "rule:fixed" }

// Propose implements Planner.
func (Fixed) Propose(v *View) float64 { return float64(v.Limit) }
