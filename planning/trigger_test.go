package planning_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
)

// consumer is a workload that works off a queue, 20 at a time per replica, and
// may have no replicas. Its CPU usage is no demand.
func (w *world) consumer(replicas int32, history time.Duration, length func(time.Time) float64) *load {
	l := w.load("consumer", replicas, 20, 0, func(time.Time) float64 { return math.NaN() })
	l.MinReplicas, l.IgnoreCPU, l.Cooldown = 0, true, 5*time.Minute
	n := int(history / w.period)
	queue := api.Trigger{Name: "queue", Target: 20, Activates: true, History: api.Series{
		Start: w.now.Add(-time.Duration(n) * w.period), Step: w.period,
	}}
	for i := range n {
		queue.History.Values = append(queue.History.Values, length(queue.History.Start.Add(time.Duration(i)*w.period)))
	}
	l.Triggers = []api.Trigger{queue}
	l.change = func(l *load, now time.Time) {
		s := l.Triggers[0]
		s.Value, s.At = length(now), now
		s.History.Values = append(slices.Clone(s.History.Values), s.Value)
		l.Triggers = []api.Trigger{s}
	}
	w.settle()
	return l
}

func zeroable(p api.Policy) api.Policy {
	p.ScaleToZero = true
	return p
}

// burst is a queue that has something from one time to another.
func burst(from, to time.Duration, length float64) func(time.Time) float64 {
	return func(now time.Time) float64 {
		if at := now.Sub(start); at >= from && at < to {
			return length
		}
		return 0
	}
}

// TestFromZeroAndBack: 0 → n → 0, pods and nodes, and nothing in between.
func TestFromZeroAndBack(t *testing.T) {
	w := newWorld(t, zeroable(costSaving()), nil)
	l := w.consumer(0, 0, burst(2*time.Minute, 10*time.Minute, 130))
	var seen []int32
	gone := time.Time{}
	for range 30 * 4 {
		now := w.now
		before := l.Replicas
		w.cycle()
		if before > 0 && l.Replicas == 0 {
			gone = now
		}
		if len(seen) == 0 || seen[len(seen)-1] != l.Replicas {
			seen = append(seen, l.Replicas)
		}
	}
	// 130/20 = 6.5, utility adds none under these weights; one of the replicas
	// stays while the queue has been empty for less than the cooldown.
	if want := []int32{0, 7, 1, 0}; !slices.Equal(seen, want) && !slices.Equal(seen, []int32{0, 7, 0}) {
		t.Errorf("replicas went %v, want %v", seen, want)
	}
	if want := start.Add(15 * time.Minute); gone.Before(want) || gone.After(want.Add(w.period)) {
		t.Errorf("the last replica went at %v, want the cooldown of 5 m after 10 m", gone.Sub(start))
	}
	if n := len(w.nodes); n != 0 {
		t.Errorf("%d nodes are left for nothing", n)
	}
}

func TestScaleToZero(t *testing.T) {
	missing := func(after time.Duration) func(*load) {
		return func(l *load) {
			next := l.change
			l.change = func(l *load, now time.Time) {
				next(l, now)
				if now.Sub(start) >= after {
					l.Triggers[0].Missing = "the server is currently unable to handle the request"
				}
			}
		}
	}
	for name, c := range map[string]struct {
		policy   api.Policy
		replicas int32
		length   func(time.Time) float64
		change   func(*load)
		want     int32 // after half an hour
	}{
		"nothing to do": {policy: zeroable(costSaving()), replicas: 3, length: constant(0)},
		"a policy that keeps replicas ready": {
			policy: performance(), replicas: 3, length: constant(0), want: 2,
		},
		"a policy that keeps replicas ready, from zero": {
			policy: performance(), length: constant(0), want: 2,
		},
		"a policy without a word on it keeps one": {policy: costSaving(), replicas: 3, length: constant(0), want: 1},
		"a missing metric keeps what is there": {
			policy: zeroable(costSaving()), replicas: 3, length: constant(0), change: missing(0), want: 3,
		},
		"a metric that goes missing within the cooldown": {
			policy: zeroable(costSaving()), replicas: 3, length: constant(50), change: missing(2 * time.Minute), want: 3,
		},
		"a missing metric starts nothing": {
			policy: zeroable(costSaving()), length: constant(100), change: missing(0),
		},
		"below the threshold is nothing": {
			policy: zeroable(costSaving()), replicas: 3, length: constant(50),
			change: func(l *load) { l.Triggers[0].Activation = 50 },
		},
		"a workload whose author wants one": {
			policy: zeroable(costSaving()), replicas: 3, length: constant(0),
			change: func(l *load) { l.MinReplicas = 1 }, want: 1,
		},
		"the scale-up limits don't keep the first replica away": {
			policy: zeroable(costSaving()), length: constant(50), want: 3,
			change: func(l *load) {
				l.Behavior.ScaleUp.Policies = []api.ScalingPolicy{{Type: "Percent", Value: 100, Period: 15 * time.Second}}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.policy, nil)
			l := w.consumer(c.replicas, 0, c.length)
			if c.change != nil {
				c.change(l)
			}
			for range 30 * 4 {
				w.cycle()
			}
			if l.Replicas != c.want {
				t.Errorf("%d replicas, want %d: %s", l.Replicas, c.want, w.lastPlan.Workloads[0].Reason)
			}
		})
	}
}

// TestNodesBeforeTheBurst: a queue that fills every 20 minutes is foreseen: the
// nodes are asked for before it fills, by as much as their boot takes, and pods
// too; without a forecast neither is.
func TestNodesBeforeTheBurst(t *testing.T) {
	length := func(now time.Time) float64 {
		if at := now.Sub(start) % (20 * time.Minute); at >= 10*time.Minute && at < 14*time.Minute || at < -6*time.Minute && at >= -10*time.Minute {
			return 130
		}
		return 0
	}
	ahead := func(f forecast.Forecaster) (nodes, pods time.Duration) {
		w := newWorld(t, zeroable(costSaving()), f)
		l := w.consumer(0, 5*time.Hour, length)
		fills := start.Add(10 * time.Minute)
		nodes, pods = -1, -1
		for range 44 {
			now := w.now
			w.cycle()
			if nodes < 0 && len(w.nodes) > 0 {
				nodes = fills.Sub(now)
			}
			if pods < 0 && l.Replicas > 0 {
				pods = fills.Sub(now)
			}
		}
		return nodes, pods
	}
	// Boot at the 90th percentile takes 75 s in this world, a pod 8 s.
	if nodes, pods := ahead(forecast.Auto{}); nodes < 75*time.Second || nodes > 5*time.Minute || pods < 8*time.Second || pods > nodes {
		t.Errorf("nodes are asked for %v before the queue fills, pods %v", nodes, pods)
	}
	if nodes, pods := ahead(nil); nodes > 0 || pods > 0 {
		t.Errorf("without a forecast nodes are asked for %v before, pods %v", nodes, pods)
	}
}
