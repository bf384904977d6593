package demand

import (
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// StartupLatencies are the newest measurements of a lead time. Limit is how many are kept.
type StartupLatencies struct {
	Limit  int
	values []time.Duration // oldest first
}

// Add a measurement; a negative one is none.
func (l *StartupLatencies) Add(d time.Duration) {
	if d < 0 {
		return
	}
	l.values = append(l.values, d)
	if over := len(l.values) - l.Limit; over > 0 {
		l.values = slices.Delete(l.values, 0, over)
	}
}

// Latency is the nearest-rank median and 90th percentile, or the prior, with no samples,
// when nothing was measured.
func (l *StartupLatencies) Latency(prior api.StartupLatency) api.StartupLatency {
	n := len(l.values)
	if n == 0 {
		return api.StartupLatency{P50: prior.P50, P90: prior.P90}
	}
	sorted := slices.Sorted(slices.Values(l.values))
	rank := func(percent int) time.Duration { return sorted[(n*percent+99)/100-1] }
	return api.StartupLatency{P50: rank(50), P90: rank(90), Samples: n}
}
