package horizontal_test

import (
	"strings"
	"testing"

	"github.com/mash2-io/mash2/api"
	predict "github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/horizontal"
)

func shared(m planning.Margins, by planning.Sharing) planning.Margins {
	m.Sharing = by
	return m
}

// Margins instead of a target: of replicas that can use 250m each, 85 % may be used,
// 212.5m.
func TestMargins(t *testing.T) {
	m := planning.Margins{Objective: 0.999, Pod: growth(1.5), Node: growth(2), Most: 1e6}
	for name, c := range map[string]struct {
		demand    float64
		margins   planning.Margins
		change    func(*planning.Input)
		replicas  int32
		nodes     int32
		says      string
		wantBound api.Binding
	}{
		"over each lead by its own": {1000, m, nil, 8, 10, "1.50 cores once new replicas serve, for 99.9 % of time", api.BindingFloor}, // 7.06, 9.4
		"more than there ever was":  {1000, planning.Margins{Objective: 0.999, Pod: growth(1.5), Node: growth(2), Most: 1200}, nil, 6, 6, "1.20 cores", api.BindingFloor},
		"half of the growth is what others leave": {
			1000, shared(m, planning.Sharing{Pods: 0.5, Nodes: 0.5, Confined: 0.5}), nil, 6, 8, // 5.9, 7.06
			"1.50 cores once new replicas serve (1.25 cores must be their own, the rest is what others on their nodes leave idle), for", api.BindingFloor,
		},
		"others leave some idle": {
			1000, shared(m, planning.Sharing{Pods: 1, Nodes: 1, Confined: 1, Idle: 1.1}), nil, 7, 9, // 6.4, 8.6
			"needs 7 × 250m, one for 233m instead of 212m, as others on their nodes leave some idle (", api.BindingFloor,
		},
		"limits leave less to share": {1000, shared(m, planning.Sharing{Pods: 0.5, Nodes: 0.5, Confined: 0.9}), nil, 7, 9, "(1.35 cores must be their own", api.BindingFloor}, // 6.4, 8.5
		"a tenth in any case":        {1000, planning.Margins{Objective: 0.999, Pod: growth(1), Node: growth(1), Most: 900}, nil, 6, 6, "1.10 cores", api.BindingFloor},       // 5.2
		"a few too many stay": {500, m, func(in *planning.Input) { // 3.5
			in.Workload.Replicas, in.Workload.ReadyReplicas = 4, 4
		}, 4, 5, "", api.BindingFloor},
		"too many don't": {500, m, func(in *planning.Input) {
			in.Workload.Replicas, in.Workload.ReadyReplicas = 9, 9
		}, 4, 5, "", api.BindingFloor},
		"without any the target counts": {1000, planning.Margins{}, nil, 6, 6, "at 70 %", api.BindingFloor}, // 5.7
		"what bursts on the pool needs fewer": {1000, m, func(in *planning.Input) {
			in.Speed, in.Workload.SpeedNow = 2, 2
		}, 4, 5, "needs 4 × 250m, one for 425m (", api.BindingFloor},
		"a trusted forecast says what nodes are for": {1000, planning.Margins{Objective: 0.999, Pod: growth(1.5), Node: growth(2), Most: 1e6, Told: 1.2}, func(in *planning.Input) {
			in.Forecast, in.Trusted = forecast(1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000), true
		}, 6, 6, "of time to be covered needs 6 × 250m, one for 212m", api.BindingForecast}, // 1200/212.5 = 5.6
		"one that may only raise does": {1000, m, func(in *planning.Input) {
			in.Forecast = forecast(1000, 1000, 1000, 1000, 1000, 3000, 3000, 3000, 3000, 3000)
		}, 8, 15, "", api.BindingFloor}, // 3000/212.5 = 14.1
		"a ramp to what there never was": {1000, planning.Margins{Objective: 0.999, Pod: growth(1), Node: growth(1), Most: 1000}, func(in *planning.Input) {
			in.Workload.Demand.Start = in.Time.Add(-31 * in.Workload.Demand.Step)
			in.Workload.Demand.Values = append(steady(30, 600), 800, 1000)
		}, 7, 11, "rises by more than noise", api.BindingRamp},
		"a ramp that is nothing new": {1000, planning.Margins{Objective: 0.999, Pod: growth(1), Node: growth(1), Most: 2000}, func(in *planning.Input) {
			in.Workload.Demand.Start = in.Time.Add(-31 * in.Workload.Demand.Step)
			in.Workload.Demand.Values = append(steady(30, 600), 800, 1000)
		}, 6, 6, "99.9 %", api.BindingFloor},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(c.demand)
			in.Policy.Objective, in.Margins = 0.999, c.margins
			if c.change != nil {
				c.change(&in)
			}
			got, err := horizontal.Planner{}.PlanWorkload(in)
			if err != nil {
				t.Fatal(err)
			}
			if got.Replicas != c.replicas || got.NodeReplicas != c.nodes || got.Binding != c.wantBound || !strings.Contains(got.Reason, c.says) {
				t.Errorf("%d replicas, nodes for %d (%s); want %d, %d (%s) and %q: %s", got.Replicas, got.NodeReplicas, got.Binding, c.replicas, c.nodes, c.wantBound, c.says, got.Reason)
			}
		})
	}
}

// Size doesn't matter: so many times the demand needs as many times the replicas, but for
// what is whole.
func TestMarginsAtAnySize(t *testing.T) {
	m := planning.Margins{Objective: 0.999, Pod: growth(1.7), Node: growth(2.3), Most: 1500}
	for _, size := range []float64{1, 20, 200} {
		in := input(1000 * size)
		in.Workload.MaxReplicas = 10_000
		in.Policy.Objective, in.Margins = 0.999, m
		in.Margins.Most *= size
		got, err := horizontal.Planner{}.PlanWorkload(in)
		if err != nil {
			t.Fatal(err)
		}
		want := 1500 * size / (0.85 * 250)
		if float64(got.NodeReplicas) < want || float64(got.NodeReplicas) >= want+1 || got.Replicas != got.NodeReplicas {
			t.Errorf("%v times the demand: %d replicas, nodes for %d, want %v in whole ones", size, got.Replicas, got.NodeReplicas, want)
		}
	}
}

// growth is the same at any time.
func growth(factor float64) predict.Growth { return predict.Growth{Factor: factor} }

// steady are n samples around a level that differ by a little.
func steady(n int, level float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = level + float64(i%3)
	}
	return out
}
