package planning_test

import (
	"testing"
	"time"
)

// ramp is demand that is level, rises for some minutes and is level again.
func ramp(low, high float64, from time.Time, lasts time.Duration) func(time.Time) float64 {
	return func(t time.Time) float64 {
		share := min(max(float64(t.Sub(from))/float64(lasts), 0), 1)
		return low + (high-low)*share
	}
}

// What a ramp asks for besides is there during it and is given up soon after its end,
// not after the five minutes for which what was needed is kept.
func TestWhatARiseAsksForGoesWithIt(t *testing.T) {
	w := newWorld(t, costSaving(), nil)
	from := w.now.Add(10 * time.Minute)
	w.add("shop", 4, 60, 20*time.Minute, ramp(600, 2400, from, time.Minute))
	most, ahead := int32(0), 0
	for w.now.Before(from.Add(75 * time.Second)) {
		plan := w.cycle().Workloads[0]
		if plan.Ramp > 0 {
			ahead++
		}
		if before := w.now.Before(from); before && plan.Ramp > 0 {
			t.Errorf("%s: %s", w.now.Format(time.TimeOnly), plan.Reason)
		}
		most = max(most, plan.Replicas)
	}
	if ahead < 2 {
		t.Errorf("ahead of usage in %d cycles of 4", ahead)
	}
	for range 4 { // what rose is kept for two
		w.cycle()
	}
	plan := w.lastPlan.Workloads[0]
	if plan.Ramp > 0 || plan.Replicas >= most || plan.Replicas > plan.Floor+1 {
		t.Errorf("%d replicas a minute later, %d at most before, floor %d: %s", plan.Replicas, most, plan.Floor, plan.Reason)
	}
	if len(w.memory.Workloads[0].Ramps) == 0 {
		t.Error("nothing is remembered of the ramp")
	}
	for _, r := range w.memory.Workloads[0].Recommendations {
		if got := r.Capacity; got > float64(plan.Floor+1)*0.5 { // of machines of speed 0.5
			t.Errorf("%v is remembered as needed", got)
		}
	}
}

// Neither the author's limit on scale-up nor maxReplicas is exceeded for a ramp.
func TestARiseStaysWithinLimits(t *testing.T) {
	w := newWorld(t, costSaving(), nil)
	from := w.now.Add(10 * time.Minute)
	w.add("shop", 4, 12, 20*time.Minute, ramp(600, 6000, from, 3*time.Minute))
	for w.now.Before(from.Add(5 * time.Minute)) {
		if plan := w.cycle().Workloads[0]; plan.Replicas > 12 || plan.NodeReplicas > 12 {
			t.Fatalf("%d replicas, nodes for %d: %s", plan.Replicas, plan.NodeReplicas, plan.Reason)
		}
	}
}
