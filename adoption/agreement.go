package adoption

import "math"

// Agreement is how near mash2's plan in Shadow is to what the other autoscaler
// has wanted, over a number of looks.
type Agreement struct {
	// Samples is the number of looks at which both wanted something.
	Samples int `json:"samples"`
	// Same is the share of them at which both wanted the same within one replica
	// or a tenth, whichever is more, 0–1; NaN without samples.
	Same float64 `json:"same"`
	// Mean and Largest are of mash2's replicas less the other's; Largest is the
	// one farthest from 0.
	Mean    float64 `json:"meanDifference"`
	Largest int32   `json:"largestDifference"`
	// Planned and Desired are the latest.
	Planned int32 `json:"planned"`
	Desired int32 `json:"desired"`

	same, sum int64
}

// tolerated is the relative difference that counts as the same: the HPA's own
// tolerance.
const tolerated = 0.1

// Add counts one look.
func (a *Agreement) Add(planned, desired int32) {
	a.Planned, a.Desired = planned, desired
	d := int64(planned) - int64(desired)
	a.Samples++
	a.sum += d
	if math.Abs(float64(d)) <= max(1, tolerated*float64(desired)) {
		a.same++
	}
	if magnitude(d) > magnitude(int64(a.Largest)) {
		a.Largest = int32(max(min(d, math.MaxInt32), math.MinInt32))
	}
	a.Same = float64(a.same) / float64(a.Samples)
	a.Mean = float64(a.sum) / float64(a.Samples)
}

func magnitude(d int64) int64 { return max(d, -d) }
