package horizontal_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/horizontal"
)

// queue is 4 replicas without a CPU demand, and a queue with a target of 20 per
// replica that activates above 5.
func queue(length float64) planning.Input {
	in := input(0)
	in.Workload.IgnoreCPU = true
	in.Workload.Triggers = []api.Trigger{{Name: "queue", Target: 20, Value: length, At: now, Activates: true, Activation: 5}}
	in.Outlooks = []planning.Outlook{{}}
	return in
}

func TestTriggers(t *testing.T) {
	for name, c := range map[string]struct {
		value                   float64
		change                  func(*planning.Input)
		wantReplicas, wantNodes int32
		wantHeld                bool
		wantActivity            api.Activity
		wantBinding             api.Binding
		wantInReason            string
	}{
		"total over target": {
			value: 130, wantReplicas: 7, wantNodes: 7, wantBinding: "trigger", // 6.5
			wantInReason: "queue: 130 now needs 7 at 20 per replica",
		},
		"within the tolerance nothing changes": {value: 88, wantReplicas: 4, wantNodes: 4, wantBinding: "trigger"},
		"beyond it it does":                    {value: 89, wantReplicas: 5, wantNodes: 5, wantBinding: "trigger"},
		"a ratio is of the replicas that are Ready": {
			value: 30, change: func(in *planning.Input) { in.Workload.Triggers[0].Ratio = true }, // 4·30/20
			wantReplicas: 6, wantNodes: 6, wantBinding: "trigger",
		},
		"the largest of two inputs counts": {
			value: 130, change: func(in *planning.Input) {
				in.Workload.IgnoreCPU = false
				in.Workload.Demand = input(1400).Workload.Demand // 1400/175
			},
			wantReplicas: 8, wantNodes: 8, wantBinding: "floor", wantInReason: "usage 1.40 cores",
		},
		"a trigger that is missing keeps the replicas": {
			value: 130, change: func(in *planning.Input) {
				in.Workload.Triggers[0].Missing = "no answer"
				in.Workload.IgnoreCPU = false
				in.Workload.Demand = input(100).Workload.Demand
			},
			wantReplicas: 4, wantNodes: 4, wantBinding: "stale", wantInReason: "kept at 4: queue: no answer",
		},
		"a trigger that is missing doesn't keep another from asking for more": {
			change: func(in *planning.Input) {
				in.Workload.Triggers[0].Missing = "no answer"
				in.Workload.IgnoreCPU = false
				in.Workload.Demand = input(1400).Workload.Demand
			},
			wantReplicas: 8, wantNodes: 8, wantBinding: "floor",
		},
		"nothing is known at all": {
			change:       func(in *planning.Input) { in.Workload.Triggers[0].Missing = "no answer" },
			wantReplicas: 4, wantNodes: 4, wantHeld: true, wantBinding: "hold", wantInReason: "no demand is known: queue: no answer",
		},
		"CPU that is not an input may be stale": {
			value: 20, change: func(in *planning.Input) { in.Metrics.Reachable = false },
			wantReplicas: 1, wantNodes: 1, wantBinding: "trigger",
		},
		"its forecast is for pods soon and nodes later": {
			value: 80, change: func(in *planning.Input) {
				in.Outlooks[0] = planning.Outlook{Forecast: forecast(80, 100, 132, 90, 90, 90, 220, 400), Trusted: true}
			},
			// 132/(20·1.1) = 6; until 90 s 220/22 = 10.
			wantReplicas: 6, wantNodes: 10, wantBinding: "forecast", wantInReason: "queue: forecast 132 at 12:00:30",
		},
		"the quantile may use a replica wholly": {
			value: 20, change: func(in *planning.Input) {
				in.Outlooks[0].Forecast = forecast(20, 20, 20, 20, 20, 20, 20)
				in.Outlooks[0].Forecast.Quantiles[1] = []float64{20, 85, 20, 20, 20, 20, 20} // 85·0.7/20 = 2.98
			},
			wantReplicas: 3, wantNodes: 3, wantBinding: "forecast",
		},
		"from zero an active trigger asks for all it needs": {
			value: 130, change: zero, wantReplicas: 7, wantNodes: 7, wantActivity: api.Active, wantBinding: "trigger",
		},
		"from zero the threshold itself is not active": {
			value: 5, change: zero, wantActivity: api.Inactive, wantBinding: "inactive", wantInReason: "queue is 5, not above 5",
		},
		"from zero a trigger that is missing is held": {
			change: func(in *planning.Input) {
				zero(in)
				in.Workload.Triggers[0].Missing = "no answer"
			},
			wantActivity: api.ActivityUnknown, wantHeld: true, wantBinding: "hold",
		},
		"from zero CPU says nothing, whatever its last samples": {
			change: func(in *planning.Input) {
				zero(in)
				in.Workload.IgnoreCPU = false
				in.Workload.Demand = input(1400).Workload.Demand
			},
			wantActivity: api.Inactive, wantBinding: "inactive",
		},
		"from zero what is foreseen for the node startup latency boots nodes": {
			change: func(in *planning.Input) {
				zero(in)
				in.Outlooks[0] = planning.Outlook{Forecast: forecast(0, 0, 0, 0, 0, 60, 60, 60, 60), Trusted: true}
			},
			// At 75 s: pods are asked for 30 s ahead, nodes 90 s: 60/22.
			wantNodes: 3, wantActivity: api.Inactive, wantBinding: "inactive",
		},
		"from zero what is foreseen for the pod startup latency starts pods": {
			change: func(in *planning.Input) {
				zero(in)
				in.Outlooks[0] = planning.Outlook{Forecast: forecast(0, 0, 60, 60, 60), Trusted: true}
			},
			wantReplicas: 3, wantNodes: 3, wantActivity: api.Active, wantBinding: "forecast",
		},
		"without trust a forecast starts no first pod": {
			change: func(in *planning.Input) {
				zero(in)
				in.Outlooks[0] = planning.Outlook{Forecast: forecast(0, 0, 60, 60, 60)}
			},
			wantNodes: 3, wantActivity: api.Inactive, wantBinding: "inactive",
		},
		"a metric of pods says nothing without any": {
			change: func(in *planning.Input) {
				zero(in)
				in.Workload.Triggers = append(in.Workload.Triggers, api.Trigger{Name: "rps", Target: 1, Missing: "no pods"})
			},
			wantActivity: api.Inactive, wantBinding: "inactive",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := queue(c.value)
			if c.change != nil {
				c.change(&in)
			}
			plan, err := horizontal.Planner{}.PlanWorkload(in)
			if err != nil {
				t.Fatal(err)
			}
			if plan.Replicas != c.wantReplicas || plan.NodeReplicas != c.wantNodes {
				t.Errorf("%d replicas, nodes for %d, want %d and %d: %s", plan.Replicas, plan.NodeReplicas, c.wantReplicas, c.wantNodes, plan.Reason)
			}
			if plan.Held != c.wantHeld || plan.Binding != c.wantBinding || plan.Activity != c.wantActivity || !strings.Contains(plan.Reason, c.wantInReason) {
				t.Errorf("held %v, %s, %q, %q", plan.Held, plan.Binding, plan.Activity, plan.Reason)
			}
		})
	}
}

func zero(in *planning.Input) {
	in.Workload.MinReplicas, in.Workload.Replicas, in.Workload.ReadyReplicas = 0, 0, 0
}

// TestTriggersAreTheHPAs compares the floor with the formulas of Kubernetes'
// replica_calculator.go (GetExternalPerPodMetricReplicas, GetExternalMetricReplicas,
// calcPlainMetricReplicas with all pods Ready), written down again here.
func TestTriggersAreTheHPAs(t *testing.T) {
	const tolerance = 0.1
	hpa := func(s api.Trigger, current, ready int32) int32 {
		var ratio float64
		var times float64
		switch {
		case s.Pods > 0:
			sum, count := s.Value, float64(s.Pods)
			ratio, times = sum/count/s.Target, float64(ready)
			if missing := float64(ready - s.Pods); missing > 0 {
				add := s.Target // down: as if at the target
				if ratio > 1 {
					add = 0 // up: as if idle
				}
				rebalanced := (sum + missing*add) / (count + missing) / s.Target
				if math.Abs(1-rebalanced) <= tolerance || (ratio < 1 && rebalanced > 1) || (ratio > 1 && rebalanced < 1) {
					return current
				}
				n := int32(math.Ceil(rebalanced * times))
				if (rebalanced < 1 && n > current) || (rebalanced > 1 && n < current) {
					return current
				}
				return n
			}
		case s.Ratio:
			ratio, times = s.Value/s.Target, float64(ready)
		default:
			ratio, times = s.Value/(s.Target*float64(current)), float64(current)
		}
		if math.Abs(1-ratio) <= tolerance {
			return current
		}
		return int32(math.Ceil(ratio*times - 1e-9))
	}
	r := rand.New(rand.NewPCG(4, 13))
	for range 20_000 {
		in := queue(0)
		w, s := &in.Workload, &in.Workload.Triggers[0]
		w.Replicas = 1 + r.Int32N(40)
		w.ReadyReplicas = w.Replicas
		s.Target = 0.5 + 50*r.Float64()
		switch r.IntN(3) {
		case 0:
			s.Value = s.Target * float64(w.Replicas) * 3 * r.Float64()
		case 1:
			s.Ratio, s.Value = true, s.Target*3*r.Float64()
		default:
			s.Activates = false
			s.Pods = 1 + r.Int32N(w.ReadyReplicas)
			s.Value = s.Target * float64(s.Pods) * 3 * r.Float64()
		}
		plan, err := horizontal.Planner{}.PlanWorkload(in)
		if err != nil {
			t.Fatal(err)
		}
		if want := hpa(*s, w.Replicas, w.ReadyReplicas); plan.Floor != want {
			t.Fatalf("%d replicas (%d Ready), %+v: floor %d, the HPA's is %d", w.Replicas, w.ReadyReplicas, *s, plan.Floor, want)
		}
	}
}

func TestRequestsThatDiffer(t *testing.T) {
	// 4 replicas hold 1,000 millicores at 70 % of 357m each.
	pods := func(requests ...int64) []api.Pod {
		var out []api.Pod
		for _, r := range requests {
			out = append(out, api.Pod{Shape: &api.PodShape{Requests: api.Resources{MilliCPU: r, Pods: 1}}, Ready: true})
		}
		return out
	}
	for name, c := range map[string]struct {
		demand       float64
		there        []int64
		rolling      bool
		basis        int64
		wantReplicas int32
	}{
		"all alike":                                            {demand: 1000, there: []int64{250, 250, 250, 250}, wantReplicas: 6},           // 1429/250
		"resized to twice: half as many":                       {demand: 1000, there: []int64{500, 500, 500, 500, 500, 500}, wantReplicas: 3}, // 1429/500
		"further ones get what the template says":              {demand: 2000, there: []int64{500, 500, 500, 500}, wantReplicas: 8},           // 2857 = 4·500 + 857/250
		"mixed, the smallest may be left":                      {demand: 400, there: []int64{500, 250, 500, 250}, wantReplicas: 3},            // 571 = 250 + 250 + 71/500
		"a rollout to smaller ones needs more before they are": {demand: 1000, there: []int64{500, 500, 500, 500}, rolling: true, wantReplicas: 6},
		"a rollout to larger ones counts those that are":       {demand: 500, there: []int64{100, 100, 100, 250}, rolling: true, wantReplicas: 5}, // 714 = 3·100 + 250 + 164/250
		"a vertical autoscaler's requests don't count":         {demand: 1000, there: []int64{90, 90, 90, 90}, basis: 250, wantReplicas: 6},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(c.demand)
			in.Pods = pods(c.there...)
			in.Workload.Replicas = int32(len(c.there))
			in.Workload.RollingOut, in.Workload.Basis = c.rolling, c.basis
			plan, err := horizontal.Planner{Tolerance: 0.01}.PlanWorkload(in)
			if err != nil {
				t.Fatal(err)
			}
			if plan.Replicas != c.wantReplicas {
				t.Errorf("%d replicas, want %d: %s", plan.Replicas, c.wantReplicas, plan.Reason)
			}
		})
	}
}
