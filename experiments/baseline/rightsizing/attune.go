package rightsizing

import (
	"math"
	"slices"
	"time"
)

// Attune's defaults (docs/SPEC.md and docs/architecture/algorithm.md of attune-io/attune,
// read at 063dc93 and 000d99a).
const (
	cpuPercentile, memoryPercentile = 0.95, 0.99
	cpuOverhead, memoryOverhead     = 1.2, 1.3
	cpuMostChange, memoryMostChange = 0.5, 0.3
	attuneLeastChange               = 0.1
	attuneHistory                   = 7 * 24 * time.Hour
	attuneCooldown                  = time.Hour
	attuneSamples                   = 48
	burst                           = 3 // times the percentile
	burstBoost                      = 0.1
	leastCPU, leastMemory           = 0.05, 64 << 20 // minAllowed of its examples
)

// Attune sizes by the largest of 24 hourly percentiles and an overhead. Its confidence is that
// after the week in mode Recommend which its guide asks for, so nothing is widened. Memory is
// never lowered, as allowDecrease is false by default.
type Attune struct {
	window  window
	samples []sample // in order of time
	changed time.Time
}

type sample struct {
	at    time.Time
	usage Size
}

// Observe a pod's usage over the interval that ended at a time, which must not fall.
func (a *Attune) Observe(pod string, at time.Time, usage Size) {
	if mean, ok := a.window.add(pod, at, usage); ok {
		a.samples = append(a.samples, sample{at, mean})
	}
	old := 0
	for old < len(a.samples) && at.Sub(a.samples[old].at) > attuneHistory {
		old++
	}
	a.samples = a.samples[old:]
}

// Killed is told of a pod that was ended for its memory: nothing, as oomBump is off by default.
func (a *Attune) Killed(string, time.Time, float64) {}

// Forget a pod that is gone.
func (a *Attune) Forget(pod string) { a.window.forget(pod) }

// Next is what pods that request so much are to request, and whether it is another size: at most
// once an hour.
func (a *Attune) Next(now time.Time, request Size) (Size, bool) {
	if len(a.samples) < attuneSamples || !a.changed.IsZero() && now.Sub(a.changed) < attuneCooldown {
		return request, false
	}
	cpu := a.estimate(cpuPercentile, func(s Size) float64 { return s.CPU })
	memory := a.estimate(memoryPercentile, func(s Size) float64 { return s.Memory })
	next := Size{
		change(request.CPU, max(cpu*cpuOverhead, leastCPU), cpuMostChange),
		max(request.Memory, change(request.Memory, max(memory*memoryOverhead, leastMemory), memoryMostChange)),
	}
	if next == request {
		return request, false
	}
	a.changed = now
	return next, true
}

// change is Attune's filter: what differs by less than a tenth is none, and none is larger
// than most.
func change(now, next, most float64) float64 {
	if now <= 0 {
		return next
	}
	if math.Abs(next-now) < attuneLeastChange*now {
		return now
	}
	return min(max(next, now*(1-most)), now*(1+most))
}

// estimate is the percentile of all samples or that of the hour of day with the largest one,
// and more where there are bursts.
func (a *Attune) estimate(percentile float64, of func(Size) float64) float64 {
	var hours [24][]float64
	var all []float64
	for _, s := range a.samples {
		x := of(s.usage)
		all = append(all, x)
		hours[s.at.UTC().Hour()] = append(hours[s.at.UTC().Hour()], x)
	}
	most := nearestRank(all, percentile)
	boost := 1.0
	if peak := slices.Max(all); peak > burst*most && most > 0 {
		boost += burstBoost * math.Log2(peak/most)
	}
	for _, hour := range hours {
		if len(hour) > 0 {
			most = max(most, nearestRank(hour, percentile))
		}
	}
	return most * boost
}

// nearestRank percentile of numbers, which are sorted by it.
func nearestRank(x []float64, p float64) float64 {
	slices.Sort(x)
	return x[min(len(x)-1, max(0, int(math.Ceil(p*float64(len(x))))-1))]
}
