package rightsizing

import (
	"math"
	"time"
)

// Autopilot's moving windows (Rzadca et al. 2020, "Autopilot: workload autoscaling at Google",
// section 3.2.2): half-lives, the percentiles of services whose latency matters and of jobs that
// must hardly ever be killed, the margin and the hour over which the largest is taken.
const (
	cpuHalfLife, memoryHalfLife = 12 * time.Hour, 48 * time.Hour
	servingCPU, lowMemory       = 0.95, 0.98
	autopilotMargin             = 1.15
	autopilotHold               = time.Hour
	// The paper's buckets are not given; these are VPA's, which come from it.
	firstBucket, growth = 0.01, 1.05
	bucketsOf           = 400
	// Its changes are not free either: smaller ones are left, which is our choice.
	autopilotLeastChange = 0.1
)

// Autopilot sizes CPU by S_p95 and memory by S_p98 of load-adjusted histograms that decay.
type Autopilot struct {
	window      window
	cpu, memory decaying
	past        []sample // recommendations of the last hour
}

// decaying is a histogram of usage whose weights halve.
type decaying struct {
	weights [bucketsOf]float64
	since   time.Time
}

func (d *decaying) add(at time.Time, halfLife time.Duration, x float64) {
	if d.since.IsZero() {
		d.since = at
	}
	// Weights that grow instead of all others' fading; ratios are the same.
	d.weights[bucketOf(x)] += math.Exp2(at.Sub(d.since).Seconds() / halfLife.Seconds())
}

func bucketOf(x float64) int {
	if x <= firstBucket {
		return 0
	}
	return min(1+int(math.Log(x/firstBucket)/math.Log(growth)), bucketsOf-1)
}

// end of a bucket.
func end(k int) float64 { return firstBucket * math.Pow(growth, float64(k)) }

// percentile of the load-adjusted histogram: each bucket weighs as much as what was used in it.
func (d *decaying) percentile(p float64) float64 {
	var all, sum float64
	for k, w := range d.weights {
		all += end(k) * w
	}
	for k, w := range d.weights {
		if sum += end(k) * w; sum >= p*all && sum > 0 {
			return end(k)
		}
	}
	return 0
}

// mib of memory are the histogram's unit for bytes.
const mib = 1 << 20

// Observe a pod's usage over the interval that ended at a time, which must not fall.
func (a *Autopilot) Observe(pod string, at time.Time, usage Size) {
	if mean, ok := a.window.add(pod, at, usage); ok {
		a.cpu.add(at, cpuHalfLife, mean.CPU)
		a.memory.add(at, memoryHalfLife, mean.Memory/mib)
	}
}

// Killed is told of a pod that was ended for its memory at a limit of so many bytes: it used that.
func (a *Autopilot) Killed(_ string, at time.Time, limit float64) {
	a.memory.add(at, memoryHalfLife, limit/mib)
}

// Forget a pod that is gone.
func (a *Autopilot) Forget(pod string) { a.window.forget(pod) }

// Next is what pods that request so much are to request, and whether it is another size.
func (a *Autopilot) Next(now time.Time, request Size) (Size, bool) {
	if a.cpu.since.IsZero() {
		return request, false
	}
	a.past = append(a.past, sample{now, Size{a.cpu.percentile(servingCPU) * autopilotMargin, a.memory.percentile(lowMemory) * autopilotMargin * mib}})
	var next Size
	old := 0
	for i, s := range a.past {
		if now.Sub(s.at) > autopilotHold {
			old = i + 1
			continue
		}
		next = Size{max(next.CPU, s.usage.CPU), max(next.Memory, s.usage.Memory)}
	}
	a.past = a.past[old:]
	far := func(now, next float64) bool { return math.Abs(next-now) >= autopilotLeastChange*now }
	return next, far(request.CPU, next.CPU) || far(request.Memory, next.Memory)
}
