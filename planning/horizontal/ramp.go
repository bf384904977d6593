package horizontal

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
)

// A ramp is seen in three readings: the newest is above the one before the last by
// more than so many standard deviations of what two steps changed before. With
// changes that are normal one cycle in a hundred takes noise for a ramp.
const (
	rampSteps = 2
	rampLevel = 2.326 // the normal distribution's quantile of 0.99
)

// rampKnown is of how many changes the scatter is taken at least.
const rampKnown = 8

// readingScatter is what two readings of metrics.k8s.io, each over a step, differ by
// relative to what samples differ by over rampSteps of them. A sample is a rate over a
// minute, of four steps: with readings that are independent and of the variance σ²,
// the difference of two has 2σ², that of two such averages with two of four in common
// 4σ²/4².
const readingScatter = 2 * math.Sqrt2

// ramp is what a ramp of demand that no forecast knows asks for if it goes on; false
// without one. All scales of time are alike to it: that a ramp which has lasted for a
// time τ lasts for another t has the chance τ/(τ+t) then (Gott 1993, "Implications of
// the Copernican principle"), so that it is expected, by the median, to last for τ
// more and with the policy's quantile q for no more than τ·q/(1−q). What it asks for
// is planned like a forecast of this: it is no part of the floor, waits for room as
// all growth beyond it does, and is the first to be given up.
func (p Planner) ramp(in planning.Input, c supply, cpu part) (part, bool) {
	if now, _ := freshDemand(in); in.Forecast != nil || in.Margins.Known() && !in.Margins.Beyond(now) {
		return part{}, false
	}
	f := goesOn(in, p.tolerance(in.Workload))
	if f == nil {
		return part{}, false
	}
	out := part{floor: cpu.floor, peak: -1, ramp: true}
	out.react(in)
	c.margins.Most = math.Inf(1) // that is what it is about to leave
	p.predict(&out, in, c, f, func(replicas int32, mean, high float64, at string, speed float64) string {
		return fmt.Sprintf("usage rises by more than noise: if that goes on it is %s at %s, %s at q=%.2f, and needs %d × %s: %s%s",
			cores(mean), at, cores(high), in.Policy.Quantile, replicas, c.near, p.countedFor(in.Workload, c), onSpeed(speed))
	})
	if out.binding == api.BindingForecast {
		out.binding = api.BindingRamp
	}
	return out, true
}

// goesOn is fresh demand if its ramp goes on, but not beyond what there is precedent for
// (forecast.Precedent); nil without a ramp by more than the tolerance.
func goesOn(in planning.Input, tolerance float64) *api.Forecast {
	now, fresh := freshDemand(in)
	d, q := in.Workload.Demand, in.Policy.Quantile
	if !fresh || d.Step <= 0 || !(q < 1) {
		return nil
	}
	slope, lasted, scatter := ramping(d.Values, int(in.Windows.Horizon/d.Step), tolerance)
	if r, u := in.Readings, in.Workload.Usage; slope > 0 && u != nil && len(r) == 2 && r[1].At.Equal(u.At) {
		slope = steepness(slope, now, scatter, r[0], r[1], float64(d.Step))
	}
	if !(slope > 0) {
		return nil
	}
	f := &api.Forecast{
		Model: "ramp", Start: d.End().Add(d.Step), Step: d.Step, Levels: []float64{q}, Quantiles: [][]float64{nil},
	}
	seen := forecast.PrecedentOf(d)
	for k := 1; time.Duration(k-1)*d.Step <= in.Windows.Horizon; k++ {
		most := math.Inf(1)
		if k <= seen.Steps(q) {
			most = math.Max(now, seen.Top)
		}
		rise := func(lasts float64) float64 { return math.Min(most, now+slope*math.Min(float64(k), lasts)) }
		f.Mean = append(f.Mean, rise(lasted))
		f.Quantiles[0] = append(f.Quantiles[0], rise(lasted*math.Max(1, q/(1-q))))
	}
	return f
}

// steepness is the slope of demand, by step, as the last two readings of metrics.k8s.io
// know it. Demand is an average over some time: it rises less than what is averaged where
// that rises ever faster, and still does when that rises no more. So it is no steeper than
// the readings, and no flatter than what is beyond their own scatter of what they rose by.
func steepness(slope, now, scatter float64, first, second api.Usage, step float64) float64 {
	rise, between := second.MilliCPU-first.MilliCPU, float64(second.At.Sub(first.At))/step
	least := rise
	if first.Pods < second.Pods {
		// While demand rises usage is above it: what the first reading lacks of it is
		// what new pods did that had none yet.
		least = second.MilliCPU - math.Max(first.MilliCPU, now)
	}
	return math.Min(math.Max(slope, (least-rampLevel*readingScatter*scatter)/between), rise/between)
}

// ramping is by how much samples rise in a step, as far as that stands out from the
// scatter of so many changes before, and for how many steps they have. What has risen
// by no more than the tolerance is nothing that an HPA would act on: noise within it
// buys no node.
func ramping(v []float64, window int, tolerance float64) (slope, lasted, scatter float64) {
	last := len(v) - 1
	scatter, known := scattered(v, window)
	if !known {
		return 0, 0, 0
	}
	for i := last; i > 0 && v[i] > v[i-1]; i-- {
		lasted++
	}
	slope = (v[last] - v[last-rampSteps] - rampLevel*scatter) / rampSteps
	if !(slope > 0) || lasted < rampSteps || !(v[last] > v[last-int(lasted)]*(1+tolerance)) {
		return 0, 0, scatter
	}
	return slope, lasted, scatter
}

// scattered is the standard deviation of what samples changed by over rampSteps of them,
// of so many such changes before the newest.
func scattered(v []float64, window int) (scatter float64, known bool) {
	last := len(v) - 1
	var before []float64
	for i := last - rampSteps; i >= rampSteps && len(before) < window; i-- {
		if change := math.Abs(v[i] - v[i-rampSteps]); finite(change) {
			before = append(before, change)
		}
	}
	if len(before) < rampKnown {
		return 0, false
	}
	// Of rises and falls that were no noise the median knows nothing.
	slices.Sort(before)
	return before[len(before)/2] / medianOfNormal, true
}

// medianOfNormal is the median of the absolute value of what is normal, in standard
// deviations.
const medianOfNormal = 0.6745
