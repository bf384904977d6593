package learned

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/horizontal"
	"github.com/mash2-io/mash2/planning/rl"
)

// saying is a model of margins that always says the same.
func saying(t *testing.T, output float64) rl.Model {
	t.Helper()
	net, err := rl.NewNetwork(rl.MLP(MarginInputs, nil, false, rl.Tanh, 1))
	if err != nil {
		t.Fatal(err)
	}
	net.Params[len(net.Params)-1] = float32(output)
	return rl.Model{Environment: MarginEnvironment, Algorithm: "test", Policy: rl.Policy{Network: net, Actions: rl.Space{Low: []float32{-1}, High: []float32{1}}}}
}

// busy is a workload with an objective and margins, that used so much in the last day.
func busy(values []float64) planning.Input {
	in := input(10, 0)
	in.Workload.MaxReplicas = 10_000
	in.Workload.Demand = api.Series{Start: now.Add(-time.Duration(len(values)) * 15 * time.Second), Step: 15 * time.Second, Values: values}
	in.Policy.Objective = 0.999
	in.Margins = planning.Margins{Objective: 0.999, Pod: forecast.Growth{Factor: 2}, Node: forecast.Growth{Factor: 3}, Most: 10_000}
	return in
}

func steady(n int, level float64) []float64 { return slices.Repeat([]float64{level}, n) }

// TestTakesMargins: what a model says is the part of the growth that is planned for, between a
// quarter and all of it, never below the least margin nor beyond what ever was.
func TestTakesMargins(t *testing.T) {
	for name, c := range map[string]struct {
		output          float64
		replicas, nodes int32 // of 100m, which 85 % are used of
		says            string
	}{
		"the margins as they are":  {0, 24, 36, "takes 1.00 times the margin"},
		"half of them":             {-0.5, 18, 24, "takes 0.50 times the margin"},
		"a quarter":                {-9, 15, 18, "takes 0.25 times the margin"},
		"no more than all of them": {9, 24, 36, "takes 1.00 times the margin"},
	} {
		in := busy(steady(8000, 1000))
		got := plan(t, saying(t, c.output), in)
		if got.Replicas != c.replicas || got.NodeReplicas != c.nodes || !strings.Contains(got.Reason, c.says) {
			t.Errorf("%s: %d, nodes for %d, part %v (%s); want %d, %d and %q", name, got.Replicas, got.NodeReplicas, got.Part, got.Reason, c.replicas, c.nodes, c.says)
		}
	}
	for share, c := range map[float64]struct {
		replicas int32
		says     string
	}{
		0.001: {15, "takes 0.25 times the margin"},
		0.5:   {18, "takes 0.50 times the margin, not 0.25: too little served lately"},
		2:     {24, "takes 1.00 times the margin, not 0.25"},
	} {
		in := busy(steady(8000, 1000))
		in.Margins.Yield.Share = share
		if got := plan(t, saying(t, -9), in); got.Replicas != c.replicas || !strings.HasSuffix(got.Reason, c.says) && !strings.Contains(got.Reason, c.says+":") {
			t.Errorf("a word that yields %g of the way: %d (%s); want %d and %q", share, got.Replicas, got.Reason, c.replicas, c.says)
		}
	}
	in := busy(steady(8000, 1000))
	in.Margins.Pod.Factor, in.Margins.Node.Factor = 1.2, 1.2
	if got := plan(t, saying(t, -9), in); got.Replicas != 13 { // 1100m, not 1050m
		t.Errorf("%d replicas: %s", got.Replicas, got.Reason)
	}
	in = busy(steady(8000, 1000))
	in.Margins.Most = 1500
	if got := plan(t, saying(t, 9), in); got.NodeReplicas != 18 {
		t.Errorf("nodes for %d, of 1.5 cores that there ever were: %s", got.NodeReplicas, got.Reason)
	}
}

// TestTakesNoMargins: where a model can't see, or there is nothing to take, it is planned as
// without it, and said.
func TestTakesNoMargins(t *testing.T) {
	for name, c := range map[string]struct {
		change func(in *planning.Input)
		says   string
	}{
		"stale": {func(in *planning.Input) {
			in.Workload.DemandStale, in.Workload.Usage = true, &api.Usage{At: now, MilliCPU: 400, Pods: 5}
		}, "its CPU usage is not known"},
		"no objective":  {func(in *planning.Input) { in.Policy.Objective = 0 }, "there is no objective to keep"},
		"a target":      {func(in *planning.Input) { in.Workload.TargetUtilization = 0.5 }, "there is no objective to keep"},
		"young":         {func(in *planning.Input) { in.Margins = planning.Margins{} }, "its history is too short for margins"},
		"seen by 5 min": {func(in *planning.Input) { in.Workload.Demand.Step = 5 * time.Minute }, "its usage is known too rarely"},
		"another measure": {func(in *planning.Input) {
			in.Workload.IgnoreCPU = true
			in.Workload.Triggers, in.Outlooks = []api.Trigger{{Name: "queue", Value: 10, Target: 1, At: now}}, make([]planning.Outlook, 1)
		}, "no measure of its demand"},
	} {
		in := busy(steady(8000, 1000))
		c.change(&in)
		want, err := horizontal.Planner{}.PlanWorkload(in)
		if err != nil {
			t.Fatal(err)
		}
		got := plan(t, saying(t, -9), in)
		if got.Replicas != want.Replicas || got.NodeReplicas != want.NodeReplicas || got.Part != 0 || !strings.Contains(got.Reason, c.says) {
			t.Errorf("%s: %d, nodes for %d (%s); want %d, %d and %q", name, got.Replicas, got.NodeReplicas, got.Reason, want.Replicas, want.NodeReplicas, c.says)
		}
	}
	for _, output := range []float64{math.NaN(), math.Inf(-1), math.Inf(1)} {
		if got := plan(t, saying(t, output), busy(steady(8000, 1000))); got.Part != 0 || !strings.Contains(got.Reason, "what it says is no number") {
			t.Errorf("a model that says %g: part %v, %s", output, got.Part, got.Reason)
		}
	}
	nan := saying(t, 0)
	for i := range nan.Policy.Network.Params { // ∞ − ∞
		nan.Policy.Network.Params[i] = float32(math.MaxFloat32) * float32(1-2*(i%2))
	}
	in := busy(wild(rand.New(rand.NewPCG(1, 1)), 8000))
	if got := plan(t, nan, in); got.Part != 0 && !(got.Part >= MarginLeast && got.Part <= 1) {
		t.Errorf("part %v of a model that says what is no number: %s", got.Part, got.Reason)
	}
}

// wild is demand with all that can be in it.
func wild(r *rand.Rand, n int) []float64 {
	out := make([]float64, n)
	x := math.Pow(10, 1+3*r.Float64())
	for i := range out {
		x *= math.Exp(0.05 * r.NormFloat64())
		x = min(max(x, 1e-3), 1e6)
		out[i] = x
		switch r.IntN(400) {
		case 0:
			out[i] = math.NaN()
		case 1:
			out[i] = 0
		case 2:
			out[i] = 30 * x
		}
	}
	return out
}

// TestSeesTheSame: what a model sees of a workload is what it saw when it learned, wherever
// its history begins, and all of it is a number from −3 to 3.
func TestSeesTheSame(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 3))
		values := wild(r, 4*(1700+r.IntN(1500)))
		all := Minutes(values, 4)
		f := MarginFacts{Pod: 1 + 3*r.Float64(), Node: 1 + 4*r.Float64(), Most: 1e4, Replica: 100}
		end := len(all.Mean) - r.IntN(100)
		past, ok := PastOf(api.Series{Step: 15 * time.Second, Values: values[:4*end]})
		if !ok {
			t.Fatal("no past")
		}
		trained, served := all.See(end-1, f, nil), past.See(len(past.Mean)-1, f, nil)
		if !slices.Equal(trained, served) || len(served) != MarginInputs {
			t.Fatalf("seed %d: it learned of\n%v and sees\n%v", seed, trained, served)
		}
		for i, v := range served {
			if !(v >= -3 && v <= 3) {
				t.Errorf("seed %d: number %d is %v", seed, i, v)
			}
		}
	}
	for _, n := range []int{4, 40, 400, 4000} { // young ones
		past, _ := PastOf(api.Series{Step: 15 * time.Second, Values: steady(n, 500)})
		if got := past.See(len(past.Mean)-1, MarginFacts{Pod: 2, Node: 2, Most: 1000, Replica: 100}, nil); len(got) != MarginInputs {
			t.Errorf("%d numbers of %d samples", len(got), n)
		}
	}
}

// TestFacts: what a model sees of its margins is what it saw when it learned: nodes have the
// larger factor, and a replica supplies what it requests on the pool.
func TestFacts(t *testing.T) {
	in := busy(steady(8000, 1000))
	in.Speed, in.Margins.Pod.Factor, in.Margins.Node.Factor = 0.5, 4, 2
	if got, want := factsOf(in), (MarginFacts{Pod: 4, Node: 4, Most: 10_000, Replica: 50}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestSeesNoSize: the same load in larger replicas looks the same.
func TestSeesNoSize(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 3))
	values := make([]float64, 8000)
	x := 5e4
	for i := range values {
		x *= math.Exp(0.02 * r.NormFloat64())
		x = min(max(x, 1e4), 1e5)
		values[i] = x
	}
	see := func(by float64) []float32 {
		scaled := slices.Clone(values)
		for i := range scaled {
			scaled[i] *= by
		}
		past, _ := PastOf(api.Series{Step: 15 * time.Second, Values: scaled})
		return past.See(len(past.Mean)-1, MarginFacts{Pod: 2, Node: 3, Most: 2e5 * by, Replica: 100 * by}, nil)
	}
	one, many := see(1), see(20)
	for i := range one {
		if math.Abs(float64(one[i]-many[i])) > 0.01 {
			t.Errorf("number %d is %v, at twenty times the size %v", i, one[i], many[i])
		}
	}
}

// TestHostileMargins: whatever a model of margins says, capacity covers what demand is now with
// the least margin, and is no more than without it.
func TestHostileMargins(t *testing.T) {
	lower := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 13))
		m := saying(t, 0)
		size := math.Pow(10, 6*r.Float64()-2)
		for i := range m.Policy.Network.Params {
			m.Policy.Network.Params[i] = float32(size * r.NormFloat64())
		}
		in := busy(wild(r, 4*(10+r.IntN(2000))))
		demand := in.Workload.Demand.Values[len(in.Workload.Demand.Values)-1]
		if math.IsNaN(demand) {
			continue
		}
		in.Margins.Pod.Factor = 1 + 3*r.Float64()
		in.Margins.Node.Factor = in.Margins.Pod.Factor * (1 + r.Float64())
		in.Margins.Most = demand * (1 + 3*r.Float64())
		got := plan(t, m, in)
		base, err := horizontal.Planner{}.PlanWorkload(in)
		if err != nil {
			t.Fatal(err)
		}
		least := planning.Margins{}.Pods(demand, now)
		supply := 100 * 0.85 / 0.9 // within the tolerance of what there is replicas stay
		if float64(got.Replicas)*supply*1.1 < least-1 && got.Replicas < in.Workload.MaxReplicas {
			t.Fatalf("seed %d: %d replicas for %.0fm: %s", seed, got.Replicas, demand, got.Reason)
		}
		if got.Held || got.NodeReplicas < got.Replicas || got.Replicas < got.Floor || got.NodeReplicas > base.NodeReplicas {
			t.Fatalf("seed %d: %+v", seed, got)
		}
		if got.NodeReplicas < base.NodeReplicas {
			lower++
		}
	}
	if lower == 0 {
		t.Error("no plan was lower: they tried too little")
	}
}

// TestCheckMargins: a model of something else is refused.
func TestCheckMargins(t *testing.T) {
	if err := Check(saying(t, 0)); err != nil {
		t.Error(err)
	}
	m := saying(t, 0)
	m.Policy.Actions.Low[0] = 0
	if err := Check(m); err == nil || !strings.Contains(err.Error(), "from -1 to 1") {
		t.Errorf("%v", err)
	}
	data, _ := ShippedModel()
	shipped, err := rl.Decode(data)
	if err == nil {
		err = Check(shipped)
	}
	if err != nil {
		t.Errorf("the model that comes with the program: %v", err)
	}
	if n := len(shipped.Policy.Network.Params); n > 36_000 {
		t.Errorf("it has %d parameters", n)
	}
}
