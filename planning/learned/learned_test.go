package learned

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/horizontal"
	"github.com/mash2-io/mash2/planning/plannertest"
	"github.com/mash2-io/mash2/planning/rl"
)

var now = time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)

// always is a model that always chooses one action: its network has only biases.
func always(t *testing.T, action int) rl.Model {
	t.Helper()
	return of(t, func(params []float32) {
		for i := range params {
			params[i] = 0
		}
		params[len(params)-3+action] = 1 // the output layer's biases come last
	})
}

// of is a model whose parameters are written by a function.
func of(t *testing.T, write func([]float32)) rl.Model {
	t.Helper()
	net, err := rl.NewNetwork(rl.MLP(3, []int{4}, false, rl.ReLU, 3))
	if err != nil {
		t.Fatal(err)
	}
	write(net.Params)
	return rl.Model{
		Environment: "test", Algorithm: "test", Policy: rl.Policy{Network: net, Actions: rl.Space{N: 3}},
		Inputs: []rl.Input{{Name: InputCPU, Scale: 100}, {Name: InputRequests, Scale: 50, Millicores: 4}, {Name: InputReplicas, Scale: 10}},
	}
}

// input is a workload of n replicas of 100 millicores that use so many in all.
func input(n int32, milli float64) planning.Input {
	in := planning.Input{
		Time: now, Speed: 1, Metrics: api.SourceHealth{Reachable: true, LastOK: now},
		Policy: api.Policy{Name: "P", TargetUtilization: 0.8, Quantile: 0.9},
		Workload: api.Workload{
			Key: api.Key{Namespace: "shop", Name: "web"}, Mode: api.ModeFull, Planner: Name, Model: "m",
			MinReplicas: 1, MaxReplicas: 20, Replicas: n, ReadyReplicas: n, SpeedNow: 1,
			Shape:  &api.PodShape{ID: "s", Requests: api.Resources{MilliCPU: 100, Pods: 1}},
			Demand: api.Series{Start: now.Add(-time.Minute), Step: 15 * time.Second, Values: []float64{milli, milli, milli, milli}},
		},
		Windows: planning.Windows{Pod: 40 * time.Second, Node: 2 * time.Minute, Trough: time.Minute, NodeTrough: 4 * time.Minute, Horizon: 10 * time.Minute},
	}
	return in
}

func plan(t *testing.T, m rl.Model, in planning.Input) planning.Proposal {
	t.Helper()
	out, err := Planner{Floor: horizontal.Planner{}, Models: map[string]rl.Model{"m": m}}.PlanWorkload(in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAsks: a model is followed down to the reactive floor, and no further.
func TestAsks(t *testing.T) {
	for name, c := range map[string]struct {
		action  int
		n       int32
		milli   float64
		want    int32
		binding api.Binding
	}{
		"one more":                          {2, 5, 400, 6, api.BindingLearned},
		"as many":                           {1, 5, 400, 5, api.BindingLearned},
		"one fewer, which is enough":        {0, 5, 240, 4, api.BindingLearned},
		"one fewer, which the floor is not": {0, 5, 400, 5, api.BindingFloor}, // 80 % of 5
		"as many, and usage needs more":     {1, 5, 800, 10, api.BindingFloor},
		"no more than it was trained with":  {2, 10, 800, 10, api.BindingLearned},
	} {
		in := input(c.n, c.milli)
		floor, err := horizontal.Planner{}.PlanWorkload(in)
		if err != nil {
			t.Fatal(err)
		}
		got := plan(t, always(t, c.action), in)
		if got.Replicas != c.want || got.Binding != c.binding || got.NodeReplicas != c.want {
			t.Errorf("%s: %d by %s (%s), want %d by %s", name, got.Replicas, got.Binding, got.Reason, c.want, c.binding)
		}
		if got.Floor != floor.Floor || got.FloorSource != floor.FloorSource {
			t.Errorf("%s: floor %d of %s, the horizontal planner's is %d of %s", name, got.Floor, got.FloorSource, floor.Floor, floor.FloorSource)
		}
	}
}

// TestSees: the observation is what the model was trained on.
func TestSees(t *testing.T) {
	m := always(t, 1)
	in := input(4, 400)
	in.Workload.SpeedNow = 0.5 // 800 millicores where it happens
	base, err := horizontal.Planner{}.PlanWorkload(in)
	if err != nil {
		t.Fatal(err)
	}
	got, _, missing := Observe(m.Inputs, in, base)
	if want := []float32{2, 4, 0.4}; missing != "" || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("%v, %s; want %v: 200m of 100m, 200 requests of 50, 4 replicas of 10", got, missing, want)
	}
	in.Workload.Triggers = []api.Trigger{{Name: InputRequests, Value: 75, Target: 1000, At: now}}
	if got, _, missing = Observe(m.Inputs, in, base); missing != "" || got[1] != 1.5 {
		t.Errorf("%v, %s; want 75 requests of 50 by the trigger", got, missing)
	}
}

// TestBlind: what the model can't see is planned as without it, and said.
func TestBlind(t *testing.T) {
	for name, c := range map[string]struct {
		change func(in *planning.Input, m *rl.Model)
		says   string
	}{
		"stale": {func(in *planning.Input, _ *rl.Model) {
			in.Workload.DemandStale, in.Workload.Usage = true, &api.Usage{At: now, MilliCPU: 400, Pods: 5}
		}, "its CPU usage is not known"},
		"no Prometheus": {func(in *planning.Input, _ *rl.Model) {
			in.Metrics.Reachable, in.Workload.Usage = false, &api.Usage{At: now, MilliCPU: 400, Pods: 5}
		}, "its CPU usage is not known"},
		"no trigger": {func(_ *planning.Input, m *rl.Model) { m.Inputs[1].Millicores = 0 }, "there is no trigger requests"},
		"a broken one": {func(in *planning.Input, _ *rl.Model) {
			in.Workload.Triggers, in.Outlooks = []api.Trigger{{Name: InputRequests, Target: 1, Missing: "gone"}}, make([]planning.Outlook, 1)
		}, "trigger requests: gone"},
		"more replicas than it was trained with": {func(in *planning.Input, _ *rl.Model) { in.Workload.Replicas = 11 }, "11 replicas, and it was trained with up to 10"},
		"an answer that is no number": {func(_ *planning.Input, m *rl.Model) {
			for i := range m.Policy.Network.Params {
				m.Policy.Network.Params[i] = math.MaxFloat32
			}
		}, "what it says is no number"},
		"beyond numbers": {func(_ *planning.Input, m *rl.Model) { m.Inputs[0].Scale = 1e-300 }, "its cpu is"},
	} {
		in, m := input(5, 400), always(t, 0)
		c.change(&in, &m)
		want, err := horizontal.Planner{}.PlanWorkload(in)
		if err != nil {
			t.Fatal(err)
		}
		got := plan(t, m, in)
		if got.Replicas != want.Replicas || got.Floor != want.Floor || got.Held || !strings.Contains(got.Reason, c.says) {
			t.Errorf("%s: %d (%s), want %d and %q", name, got.Replicas, got.Reason, want.Replicas, c.says)
		}
	}
	in := input(5, 400)
	in.Workload.Model = "nobody"
	if got := plan(t, always(t, 2), in); !got.Held || got.Replicas != 5 || !strings.Contains(got.Reason, `no model "nobody", only m`) {
		t.Errorf("%+v", got)
	}
}

// TestCheck: a model of something else is refused by name.
func TestCheck(t *testing.T) {
	if err := Check(always(t, 1)); err != nil {
		t.Error(err)
	}
	for says, change := range map[string]func(*rl.Model){
		"among 2 actions":             func(m *rl.Model) { m.Policy.Actions.N = 2 },
		"does not say what its input": func(m *rl.Model) { m.Inputs = nil },
		`its input "mood"`:            func(m *rl.Model) { m.Inputs[2].Name = "mood" },
	} {
		m := always(t, 1)
		change(&m)
		if err := Check(m); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// TestHostileModels: 10,000 episodes each of models with random, also enormous, parameters
// and of one that was trained to do harm, on random inputs, the odd ones included. Whatever they ask for, after the Guard replicas are
// within the author's bounds, not below the reactive floor, and don't fall while demand
// isn't known; a held workload stays as it is.
func TestHostileModels(t *testing.T) {
	episodes := 10_000
	if testing.Short() {
		episodes = 1_000
	}
	guard := planning.Guard{Config: planning.DefaultConfig()}
	for name, c := range map[string]struct {
		seed  uint64
		model func(r *rand.Rand) rl.Model
	}{
		"random": {11, func(r *rand.Rand) rl.Model {
			size := math.Pow(10, 6*r.Float64()-2)
			return of(t, func(params []float32) {
				for i := range params {
					params[i] = float32(size * r.NormFloat64())
				}
			})
		}},
		"trained to do harm": {12, func(*rand.Rand) rl.Model { return harmful(t) }},
	} {
		t.Run(name, func(t *testing.T) { hostile(t, guard, episodes, c.seed, c.model) })
	}
}

func hostile(t *testing.T, guard planning.Guard, episodes int, seed uint64, model func(*rand.Rand) rl.Model) {
	var raised, lowered, held int
	for episode := range episodes {
		r := rand.New(rand.NewPCG(uint64(episode), seed))
		p := Planner{Floor: horizontal.Planner{}, Models: map[string]rl.Model{"m": model(r)}}
		in := plannertest.Input(r)
		in.Workload.Planner, in.Workload.Model = Name, "m"
		memory := planning.WorkloadMemory{Replicas: in.Workload.Replicas}
		for step := range 5 {
			asked, err := p.PlanWorkload(in)
			if err != nil {
				t.Fatalf("episode %d: %v", episode, err)
			}
			base, err := p.Floor.PlanWorkload(in)
			if err != nil {
				t.Fatal(err)
			}
			w := in.Workload
			stale := w.DemandStale || !in.Metrics.Reachable
			rng := guard.Range(planning.Subject{
				Time: in.Time, Workload: w, Policy: in.Policy, Proposal: asked, Memory: memory, Speed: in.Speed,
				Windows: in.Windows, Trusted: in.Trusted, Stale: stale,
			})
			next := rng.Lo.Replicas
			switch {
			case rng.Hold != "":
				held++
				if next != w.Replicas {
					t.Fatalf("episode %d, step %d: held, %d → %d", episode, step, w.Replicas, next)
				}
			case next > w.MaxReplicas || next < w.MinReplicas && asked.Activity == "":
				t.Fatalf("episode %d, step %d: %d replicas of %d–%d", episode, step, next, w.MinReplicas, w.MaxReplicas)
			case rng.Lo.Binding != api.BindingInactive && next < min(base.Floor, w.MaxReplicas):
				t.Fatalf("episode %d, step %d: %d replicas, floor %d: %s", episode, step, next, base.Floor, asked.Reason)
			case stale && next < min(w.Replicas, w.MaxReplicas):
				t.Fatalf("episode %d, step %d: %d → %d without fresh demand", episode, step, w.Replicas, next)
			}
			switch {
			case next > w.Replicas:
				raised++
			case next < w.Replicas:
				lowered++
			}
			in.Workload.Replicas, memory.Replicas = next, next
		}
	}
	if raised == 0 || lowered == 0 || held == 0 {
		t.Errorf("%d raised, %d lowered, %d held: the episodes tried too little", raised, lowered, held)
	}
	t.Logf("%d steps up, %d down, %d held", raised, lowered, held)
}
