package horizontal_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/horizontal"
)

// climbing is an input whose demand was level and then rose by so much in each of so
// many steps, up to 700: what 4 replicas may use.
func climbing(slope float64, steps int) planning.Input {
	in := input(700)
	d := &in.Workload.Demand
	d.Values = nil
	for range 30 {
		d.Values = append(d.Values, 700-slope*float64(steps))
	}
	for i := range steps {
		d.Values = append(d.Values, 700-slope*float64(steps-1-i))
	}
	d.Start = now.Add(-time.Duration(len(d.Values)-1) * d.Step)
	return in
}

// readings gives an input the newest two of metrics.k8s.io.
func readings(in *planning.Input, before, newest float64) {
	for i, v := range []float64{before, newest} {
		at := now.Add(time.Duration(i-1) * 15 * time.Second)
		in.Readings = append(in.Readings, api.Usage{At: at, Window: 15 * time.Second, MilliCPU: v, Pods: 4})
	}
	in.Workload.Usage = &in.Readings[1]
}

func TestARiseGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		slope    float64
		steps    int
		change   func(*planning.Input)
		replicas int32
		nodes    int32
		rise     int32
	}{
		// Two steps have passed, so that two more are expected: 800, which 5 of 175
		// are needed for beyond the tolerance. The quantile of 0.9 lasts for 18 steps
		// more, of which the pod lead has 2 and the node lead 6: 1000/250.
		"for as long as it has lasted": {slope: 50, steps: 2, replicas: 5, nodes: 5, rise: 1},
		"longer after longer": {
			slope: 50, steps: 6, replicas: 5, // as far as the pod lead
			nodes: 6, // 1000/175/1.1 = 5.2
			rise:  1,
		},
		"a steep one at the quantile": {
			slope: 200, steps: 2, replicas: 6, // 1100/175/1.1 = 5.7
			nodes: 8, // 700 + 6 · 200 = 1900, of 250 each
			rise:  2,
		},
		"to no more than there ever was": {slope: 200, steps: 2, change: func(in *planning.Input) {
			// 63 samples speak for the next 7.
			d := &in.Workload.Demand
			d.Values = append([]float64{800}, append(slices.Repeat([]float64{300}, 30), d.Values...)...)
			d.Start = now.Add(-time.Duration(len(d.Values)-1) * d.Step)
		}, replicas: 5, nodes: 5, rise: 1}, // 880/175/1.1 = 4.6
		"nothing rises":         {slope: 0, steps: 2, replicas: 4, nodes: 4},
		"a single step":         {slope: 200, steps: 1, replicas: 4, nodes: 4},
		"it has ended by usage": {slope: 200, steps: 4, change: func(in *planning.Input) { readings(in, 700, 700) }, replicas: 4, nodes: 4},
		"it goes on by usage":   {slope: 200, steps: 2, change: func(in *planning.Input) { readings(in, 500, 700) }, replicas: 6, nodes: 8, rise: 2},
		"it is slower by usage": {slope: 200, steps: 2, change: func(in *planning.Input) { readings(in, 650, 700) }, replicas: 5, nodes: 5, rise: 1},
		"it is faster by usage": {slope: 50, steps: 2, change: func(in *planning.Input) { readings(in, 500, 700) }, replicas: 6, nodes: 8, rise: 2},
		"faster within scatter": {slope: 50, steps: 2, change: func(in *planning.Input) {
			// Changes of 5 over two steps: a scatter of 7.4, and 21 of readings. What
			// they rose by is 80, and 31 beyond 2.33 times that; demand rose by 41.
			d := in.Workload.Demand.Values
			for i := range 30 {
				d[i] = 600 - 5*float64(i/2%2)
			}
			readings(in, 620, 700)
		}, replicas: 5, nodes: 5, rise: 1},
		"a reading that is lost": {slope: 200, steps: 4, change: func(in *planning.Input) { readings(in, 700, 700); in.Workload.Usage = nil }, replicas: 6, nodes: 8, rise: 2},
		"a forecast knows better": {
			slope: 200, steps: 4, change: func(in *planning.Input) { in.Forecast = forecast(700, 700, 700, 700, 700, 700, 700) }, replicas: 4, nodes: 4,
		},
		"demand is stale": {slope: 200, steps: 4, change: func(in *planning.Input) { readings(in, 500, 700); in.Workload.DemandStale = true }, replicas: 4, nodes: 4},
		"a policy that covers more": {
			slope: 200, steps: 2, change: func(in *planning.Input) { in.Windows.Node = 9 * time.Minute; in.Policy.Quantile = 0.97 },
			replicas: 6, nodes: 32, rise: 2, // 36 steps of 200
		},
		"a policy that covers less": {
			slope: 200, steps: 2, change: func(in *planning.Input) { in.Windows.Node = 9 * time.Minute; in.Policy.Quantile = 0.5 },
			replicas: 6, nodes: 6, rise: 2, // two steps
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := climbing(c.slope, c.steps)
			if c.change != nil {
				c.change(&in)
			}
			got, err := horizontal.Planner{}.PlanWorkload(in)
			if err != nil {
				t.Fatal(err)
			}
			if got.Replicas != c.replicas || got.NodeReplicas != c.nodes || got.Ramp != c.rise || got.Floor != 4 {
				t.Errorf("%d replicas, nodes for %d, %d of them for the ramp, floor %d; want %d, %d, %d and 4: %s",
					got.Replicas, got.NodeReplicas, got.Ramp, got.Floor, c.replicas, c.nodes, c.rise, got.Reason)
			}
			if want := c.rise > 0; want != (got.Binding == "ramp") || want != strings.Contains(got.Reason, "rises by more than noise") {
				t.Errorf("%s: %s", got.Binding, got.Reason)
			}
		})
	}
}

// The more a ramp has lasted, the steeper it is and the more the policy covers, the
// more it asks for; and never more than demand that rises as it did for the node lead.
func TestMoreOfARiseAsksForMore(t *testing.T) {
	plan := func(slope float64, steps int, q float64) planning.Proposal {
		in := climbing(slope, steps)
		in.Policy.Quantile = q
		got, err := horizontal.Planner{}.PlanWorkload(in)
		if err != nil {
			t.Fatal(err)
		}
		// Beyond the ramp by a step: the first of a forecast is a step from now.
		steepest := 700 + slope*float64(in.Windows.Node/in.Workload.Demand.Step+1)
		if most := steepest/175 + 1; float64(got.NodeReplicas) > most {
			t.Errorf("slope %v for %d steps at q=%v: nodes for %d, want at most %v", slope, steps, q, got.NodeReplicas, most)
		}
		return got
	}
	for _, q := range []float64{0.5, 0.8, 0.9, 0.97} {
		for _, slope := range []float64{5, 20, 50, 100} {
			for steps := 2; steps < 7; steps++ {
				one := plan(slope, steps, q)
				for what, more := range map[string]planning.Proposal{
					"steeper": plan(slope*1.5, steps, q), "longer": plan(slope, steps+1, q), "at a higher quantile": plan(slope, steps, q+0.02),
				} {
					if more.Replicas < one.Replicas || more.NodeReplicas < one.NodeReplicas {
						t.Errorf("slope %v for %d steps at q=%v: %d and %d, %s %d and %d", slope, steps, q,
							one.Replicas, one.NodeReplicas, what, more.Replicas, more.NodeReplicas)
					}
				}
			}
		}
	}
}
