package planning_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/forecast"
)

// TestRequestsDouble: when every replica asks for twice as much, half as many
// hold the same demand: they go there and stay, and demand does not change.
func TestRequestsDouble(t *testing.T) {
	const demand = 1400 // 8 × 250m at 70 %
	twice := shape("twice", 500, 128)
	for name, c := range map[string]struct {
		forecaster forecast.Forecaster
		change     func(*load, int) // at a cycle after the change
		want       int32
	}{
		"resized in place, the template left alone": {change: func(l *load, _ int) { l.there = twice }},
		"the template too":                          {change: func(l *load, _ int) { l.Shape, l.there = twice, nil }},
		"with a forecast":                           {forecaster: forecast.Auto{}, change: func(l *load, _ int) { l.Shape, l.there = twice, nil }},
		"by a rollout of six cycles": {change: func(l *load, i int) {
			if l.there == nil {
				l.there = l.Shape
			}
			if l.Shape, l.RollingOut = twice, i < 6; !l.RollingOut {
				l.there = nil
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, costSaving(), c.forecaster)
			w.policy.Weights.Performance = 0.01 // demand decides alone
			l := w.add("shop", 8, 40, 20*time.Minute, constant(demand))
			for range settled {
				w.cycle()
			}
			slow := w.pools[0].CPUSpeed
			before := l.Replicas
			if want := int32(math.Ceil(demand / (250 * 0.7 * slow) / 1.1)); before < want || before > want+2 {
				t.Fatalf("%d replicas before, want about %d", before, want)
			}
			peak := w.lastPlan.Workloads[0].PeakDemand
			var seen []int32
			at := -1
			l.change = func(l *load, _ time.Time) { at++; c.change(l, at) }
			for range 20 {
				w.cycle()
				if n := len(seen); n == 0 || seen[n-1] != l.Replicas {
					seen = append(seen, l.Replicas)
				}
				if now := w.lastPlan.Workloads[0].PeakDemand; math.Abs(now/peak-1) > 0.01 {
					t.Errorf("peak demand %v, before %v", now, peak)
				}
				// What is there holds the demand at every moment.
				one := l.Shape.Requests.MilliCPU
				if l.there != nil {
					one = l.there.Requests.MilliCPU
				}
				if have := float64(int64(l.Replicas)*one) * slow; have*0.7*1.1 < demand-1 {
					t.Errorf("%d replicas of %dm can't hold %v", l.Replicas, one, demand)
				}
			}
			if !slices.IsSortedFunc(seen, func(a, b int32) int { return int(b - a) }) {
				t.Errorf("replicas went to and fro: %v", seen)
			}
			if half := (before + 1) / 2; l.Replicas < half-1 || l.Replicas > half+1 {
				t.Errorf("%d replicas after %v, want half of %d: %s", l.Replicas, seen, before, w.lastPlan.Workloads[0].Reason)
			}
		})
	}
}

// TestRequestsHalve: when a rollout makes requests half as large, twice as many
// are there before the first of the small ones is: the demand fits at every
// moment, and nothing goes to and fro.
func TestRequestsHalve(t *testing.T) {
	const demand = 1400
	w := newWorld(t, costSaving(), nil)
	w.policy.Weights.Performance = 0.01
	l := w.add("shop", 8, 60, 20*time.Minute, constant(demand))
	for range settled {
		w.cycle()
	}
	before, slow := l.Replicas, w.pools[0].CPUSpeed
	old, half := l.Shape, shape("half", 125, 128)
	var seen []int32
	at := -1
	l.change = func(l *load, _ time.Time) {
		at++
		l.Shape, l.there, l.RollingOut = half, old, at < 6
		if at >= 2 { // the first small ones are Ready, all in this world
			l.there = half
		}
	}
	for range 20 {
		w.cycle()
		seen = append(seen, l.Replicas)
		if have := float64(int64(l.Replicas)*half.Requests.MilliCPU) * slow; have*0.7*1.1 < demand-1 {
			t.Errorf("%d replicas of %dm can't hold %v", l.Replicas, half.Requests.MilliCPU, demand)
		}
	}
	if !slices.IsSorted(seen) || l.Replicas < 2*before-2 || l.Replicas > 2*before+2 {
		t.Errorf("from %d replicas to %v, want twice as many at once", before, slices.Compact(seen))
	}
}

// TestWithAVerticalAutoscaler runs mash2 beside a rule like that of VPA: the
// request of every pod follows 1.15 times its usage. Planned from the requests
// that it sets, replicas and requests chase one another; planned from the
// template's, they meet.
func TestWithAVerticalAutoscaler(t *testing.T) {
	run := func(t *testing.T, basis int64, utilization float64) (replicas []int32, requests []int64) {
		w := newWorld(t, costSaving(), nil)
		w.policy.TargetUtilization = utilization
		w.policy.Weights.Performance = 0.01
		l := w.add("shop", 8, 60, 20*time.Minute, constant(1400))
		l.Behavior.ScaleDown.WindowStated = true // none
		l.Basis = basis
		slow := w.pools[0].CPUSpeed
		cycle := 0
		l.change = func(l *load, _ time.Time) {
			if cycle++; cycle%4 == 0 { // VPA looks once a minute
				r := int64(1.15 * 1400 / slow / float64(l.Replicas))
				l.Shape, l.there = shape(fmt.Sprint("shop-", r), max(r, 25), 128), nil
			}
		}
		for range 25 * 4 {
			w.cycle()
			replicas, requests = append(replicas, l.Replicas), append(requests, l.Shape.Requests.MilliCPU)
		}
		return replicas, requests
	}
	for _, u := range []float64{0.5, 0.7, 0.95} {
		t.Run(fmt.Sprintf("target %v", u), func(t *testing.T) {
			replicas, requests := run(t, 250, u)
			end := replicas[len(replicas)-1]
			want := int32(math.Ceil(1400 / (250 * u * 0.5)))
			if end < want-2 || end > want+1 {
				t.Errorf("%d replicas, want about %d", end, want)
			}
			for i, n := range replicas {
				if i >= settled && n != end {
					t.Fatalf("cycle %d: %d replicas, at the end %d: %v", i, n, end, replicas)
				}
				if i > 0 && (n-replicas[i-1])*(end-replicas[0]) < 0 {
					t.Fatalf("cycle %d: %d replicas after %d on the way from %d to %d", i, n, replicas[i-1], replicas[0], end)
				}
			}
			if a, b := requests[len(requests)/2], requests[len(requests)-1]; a != b {
				t.Errorf("requests still move: %dm, %dm", a, b)
			}
		})
	}
	// The control: without a basis they do run away. 1.15·0.5 < 1 leads to the
	// bound, in requests that shrink to nothing.
	replicas, requests := run(t, 0, 0.5)
	if replicas[len(replicas)-1] != 60 || requests[len(requests)-1] > 60 {
		t.Errorf("without a basis: %d replicas of %dm; this test shows nothing", replicas[len(replicas)-1], requests[len(requests)-1])
	}
}
