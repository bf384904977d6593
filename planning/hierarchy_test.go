package planning_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
)

// either allows both pools; with equal prices per core the weights decide.
func either(w api.Weights) api.Policy {
	p := costSaving()
	p.Name, p.Weights, p.NodePools = "EITHER", w, []string{cheap, fast}
	return p
}

func pool(t *testing.T, p api.Plan, name string) api.PoolPlan {
	t.Helper()
	for _, pp := range p.Nodes.Pools {
		if pp.Pool == name {
			return pp
		}
	}
	t.Fatalf("no plan for pool %s in %+v", name, p.Nodes.Pools)
	return api.PoolPlan{}
}

func found(p api.Plan, reason string) bool {
	for _, f := range p.Findings {
		if f.Reason == reason {
			return true
		}
	}
	return false
}

func lost(p api.Plan, pool string) (api.Candidate, bool) {
	for _, c := range p.Candidates {
		if c.Pool == pool {
			return c, true
		}
	}
	return api.Candidate{}, false
}

func TestModesAndHolds(t *testing.T) {
	type got struct {
		Replicas     int32
		Held, Shadow bool
	}
	for name, c := range map[string]struct {
		change func(*world, *load)
		want   got
	}{
		"Full is planned":             {func(*world, *load) {}, got{Replicas: 6}},
		"Shadow is planned and shown": {func(_ *world, l *load) { l.Mode = api.ModeShadow }, got{Replicas: 6, Shadow: true}},
		"a hold is a hold":            {func(_ *world, l *load) { l.Hold = "conflict" }, got{Replicas: 2, Held: true}},
		"an unknown planner is a hold": {
			func(_ *world, l *load) { l.Planner = "magic" }, got{Replicas: 2, Held: true},
		},
		"no planner named is the horizontal one": {func(_ *world, l *load) { l.Planner = "" }, got{Replicas: 6}},
		"Prometheus gone, no second source, is a hold": {
			func(w *world, _ *load) { w.prom = false }, got{Replicas: 2, Held: true},
		},
		"Prometheus gone, the second source scales up": {
			func(w *world, l *load) { w.prom = false; l.Usage = &api.Usage{At: w.now, MilliCPU: 700, Pods: 2} }, got{Replicas: 8},
		},
		"Prometheus gone, the second source never scales down": {
			func(w *world, l *load) { w.prom = false; l.Usage = &api.Usage{At: w.now, MilliCPU: 10, Pods: 2} }, got{Replicas: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, costSaving(), forecast.Auto{})
			l := w.add("shop", 2, 20, 5*time.Minute, constant(500))
			l.SpeedNow = 0.5
			c.change(w, l)
			p := w.cycle()
			if len(p.Workloads) != 1 {
				t.Fatalf("%d workloads are planned", len(p.Workloads))
			}
			wp := p.Workloads[0]
			if diff := cmp.Diff(c.want, got{wp.Replicas, wp.Held, wp.Shadow}); diff != "" {
				t.Errorf("(-want +got):\n%s%s", diff, wp.Reason)
			}
		})
	}
	t.Run("Off is not planned", func(t *testing.T) {
		w := newWorld(t, costSaving(), nil)
		w.add("shop", 2, 20, time.Minute, constant(500)).Mode = api.ModeOff
		if p := w.cycle(); len(p.Workloads) != 0 {
			t.Errorf("planned: %+v", p.Workloads)
		}
	})
}

// What is only shown takes no part in what is chosen: nodes are planned for the
// replicas it has.
func TestShadowTakesNoNodes(t *testing.T) {
	nodes := func(mode api.Mode) int32 {
		w := newWorld(t, costSaving(), nil)
		w.add("shop", 2, 20, time.Minute, constant(100))
		w.add("new", 2, 20, time.Minute, constant(1500)).Mode = mode
		return pool(t, w.cycle(), cheap).Nodes
	}
	if shadow, full := nodes(api.ModeShadow), nodes(api.ModeFull); shadow != 2 || full <= shadow {
		t.Errorf("%d nodes in Shadow, %d in Full; want 2 and more", shadow, full)
	}
}

// A workload's reason says what nodes are kept for, where the plan has nodes.
func TestWhatNodesAreKeptForIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		pools []string
		want  bool
	}{
		"on a pool": {[]string{cheap}, true},
		"no pools":  {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := costSaving()
			p.NodePools = c.pools
			w := newWorld(t, p, nil)
			drop := w.now.Add(2 * time.Minute)
			w.add("shop", 12, 12, 20*time.Minute, func(at time.Time) float64 {
				if at.Before(drop) {
					return 2000
				}
				return 200
			})
			said := false
			for range 40 {
				said = said || strings.Contains(w.cycle().Workloads[0].Reason, "nodes kept for ")
			}
			if said != c.want {
				t.Errorf("a reason says that nodes are kept: %t, want %t", said, c.want)
			}
			if got := w.lastPlan.Workloads[0].Replicas; got >= 12 {
				t.Errorf("%d replicas are left: nothing fell", got)
			}
		})
	}
}

// During a migration a workload has the old pods and the new ones. These are
// not what it asked for.
func TestASurgeIsNotTakenForReplicas(t *testing.T) {
	w := newWorld(t, performance(), nil)
	l := w.add("shop", 4, 40, 5*time.Minute, constant(500))
	w.resize(api.PoolPlan{Pool: cheap, SizePerZone: 2})
	w.lastPlan.Nodes.Pool = cheap
	w.settle()
	w.nothing = true
	before := w.cycle().Workloads[0]
	// Now surged, on nodes that are being left.
	for i := range w.nodes {
		w.nodes[i].Cordoned, w.nodes[i].CordonedFor = true, api.CordonMigration
	}
	l.Replicas += before.Replicas
	after := w.cycle().Workloads[0]
	if after.Replicas > before.Replicas || after.Current != l.Replicas {
		t.Errorf("%d replicas planned, then %d with a surge to %d: %s", before.Replicas, after.Replicas, after.Current, after.Reason)
	}
	// Nor by an operator that starts in the midst of it and remembers nothing.
	w.memory = planning.Memory{}
	l.PlannedReplicas = before.Replicas
	if again := w.cycle().Workloads[0]; again.Replicas > before.Replicas || again.NodeReplicas > before.NodeReplicas {
		t.Errorf("%d replicas planned (nodes for %d), after a restart in a surge to %d they are %d (%d): %s",
			before.Replicas, before.NodeReplicas, l.Replicas, again.Replicas, again.NodeReplicas, again.Reason)
	}
}

type failing struct{}

func (failing) PlanNodes(api.NodeInput) (api.NodePlan, error) {
	return api.NodePlan{}, errors.New("allocatable is not known")
}

func TestWhereNodesCannotBePlannedReplicasStillGrowToTheFloor(t *testing.T) {
	w := newWorld(t, costSaving(), nil)
	w.planner.Nodes = failing{}
	w.add("shop", 2, 20, time.Minute, constant(1000))
	w.add("idle", 5, 20, time.Minute, constant(1))
	w.load("raised", 2, 20, time.Minute, constant(1)).MinReplicas = 7
	w.load("lowered", 9, 6, time.Minute, constant(1))
	p := w.cycle()
	if !found(p, "NodesNotPlanned") || len(p.Nodes.Pools) != 0 {
		t.Errorf("findings %v, pools %v", p.Findings, p.Nodes.Pools)
	}
	if raised, lowered := planned(p, "raised"), planned(p, "lowered"); raised.Replicas != 7 || lowered.Replicas != 6 {
		t.Errorf("%d replicas of at least 7, %d of at most 6", raised.Replicas, lowered.Replicas)
	}
	if idle, shop := planned(p, "idle"), planned(p, "shop"); idle.Replicas != 5 || shop.Replicas != 12 || !shop.Held {
		// 1000/87.5 = 11.4
		t.Errorf("idle has %d replicas, shop %d (held: %v)", idle.Replicas, shop.Replicas, shop.Held)
	}
}

// random draws a small world.
func random(t *rapid.T, tb testing.TB) *world {
	weights := api.Weights{
		Performance: rapid.Float64Range(0, 1).Draw(t, "performance"),
		Cost:        rapid.Float64Range(0.01, 1).Draw(t, "cost"),
		Resilience:  rapid.Float64Range(0, 0.5).Draw(t, "resilience"),
	}
	w := newWorld(tb, either(weights), nil)
	w.pools = pools(rapid.IntRange(1, 3).Draw(t, "zones"))
	w.policy.MinReplicas = rapid.Int32Range(0, 3).Draw(t, "policyMin")
	if rapid.Bool().Draw(t, "money") {
		w.policy.MaxHourlyCost = rapid.Float64Range(0.05, 1).Draw(t, "limit")
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "workloads") {
		l := w.load(fmt.Sprintf("app-%d", i), rapid.Int32Range(0, 8).Draw(t, "replicas"), rapid.Int32Range(1, 12).Draw(t, "max"),
			time.Minute, constant(rapid.Float64Range(0, 1500).Draw(t, "demand")))
		l.MinReplicas = rapid.Int32Range(0, l.MaxReplicas).Draw(t, "min")
		l.Shape = shape(l.Key.Name, rapid.Int64Range(50, 700).Draw(t, "cpu"), rapid.Int64Range(16, 1200).Draw(t, "memory"))
	}
	for _, name := range []string{cheap, fast} {
		w.resize(api.PoolPlan{Pool: name, SizePerZone: rapid.Int32Range(0, 3).Draw(t, "size")})
	}
	w.settle()
	return w
}

func TestPlansKeepTheBoundsAndLeaveTheirInputsAlone(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := random(r, t)
		_, m := w.planner.Plan(w.snapshot(), w.policy, planning.Memory{})
		s := w.snapshot()
		before, beforeMemory := fmt.Sprintf("%+v", s), fmt.Sprintf("%+v", m)
		p, next := w.planner.Plan(s, w.policy, m)
		if fmt.Sprintf("%+v", s) != before || fmt.Sprintf("%+v", m) != beforeMemory {
			r.Fatal("an input was written to")
		}
		again, nextAgain := w.planner.Plan(s, w.policy, m)
		if diff := cmp.Diff(p, again, cmpopts.EquateNaNs()); diff != "" || next.Hash() != nextAgain.Hash() {
			r.Fatalf("two plans of one snapshot differ:\n%s", diff)
		}
		for i, wp := range p.Workloads {
			wl := s.Workloads[i]
			if wp.Key != wl.Key {
				r.Fatalf("plan %d is for %s, want %s", i, wp.Key, wl.Key)
			}
			if wp.Replicas < wl.MinReplicas || wp.Replicas > wl.MaxReplicas || wp.Replicas < wp.Floor || wp.NodeReplicas < wp.Replicas {
				r.Fatalf("%+v, bounds %d–%d", wp, wl.MinReplicas, wl.MaxReplicas)
			}
			if wp.Reason == "" || wp.Binding == "" {
				r.Fatalf("no reason: %+v", wp)
			}
		}
		for _, pp := range p.Nodes.Pools {
			zones := int32(len(w.pools[0].Zones))
			if pp.SizePerZone*zones != pp.Nodes || pp.Now > pp.SizePerZone {
				r.Fatalf("%+v on %d zones", pp, zones)
			}
		}
		// A limit below what runs takes no place from pods that have no other.
		occupied, zones := 0.0, float64(len(w.pools[0].Zones))
		for _, pool := range s.Pools {
			seen, most := map[string]map[string]bool{}, 0
			for _, pod := range s.Pods {
				at := slices.IndexFunc(s.Nodes, func(n api.Node) bool { return n.Name == pod.Node && n.Pool == pool.Name })
				if at < 0 {
					continue
				}
				zone := s.Nodes[at].Zone
				if seen[zone] == nil {
					seen[zone] = map[string]bool{}
				}
				seen[zone][pod.Node] = true
				most = max(most, len(seen[zone]))
			}
			occupied += float64(most) * zones * pool.Price
		}
		allowed := w.policy.MaxHourlyCost
		if len(p.Nodes.Unplaced) > 0 || found(p, planning.ReasonLimitExceeded) {
			allowed += occupied
		}
		if w.policy.MaxHourlyCost > 0 && p.Nodes.HourlyCost > allowed+1e-9 {
			r.Fatalf("$%v/h planned, $%v/h allowed", p.Nodes.HourlyCost, allowed)
		}
		for _, c := range p.Candidates {
			if c.Infeasible == "" && c.Utility.Total > p.Utility.Total+1e-6 && !strings.Contains(c.Note, "tolerance") && !strings.Contains(c.Note, "margin") &&
				!strings.Contains(c.Note, "a move waits") && !strings.Contains(c.Note, "had moved already") {
				r.Fatalf("U = %v was chosen over %+v", p.Utility.Total, c)
			}
		}
	})
}

func TestRaisingTheWeightOfCostNeverRaisesThePlansCost(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := random(r, t)
		// Present replicas and nodes hold a plan back; the choice alone is meant.
		w.planner.Config.Tolerance, w.planner.Config.Stabilization = 0, 0
		w.nodes = nil
		for i := range w.pools {
			w.pools[i].Sizes = make([]int32, len(w.pools[i].Zones))
		}
		w.settle()
		s := w.snapshot()
		for i := range s.Workloads {
			s.Workloads[i].Replicas = 0
			s.Workloads[i].Behavior.Tolerance = 1e-9
		}
		s.Pods = nil
		before, _ := w.planner.Plan(s, w.policy, planning.Memory{})
		w.policy.Weights.Cost += rapid.Float64Range(0.01, 3).Draw(r, "more")
		after, _ := w.planner.Plan(s, w.policy, planning.Memory{})
		if !before.Search.Exhaustive || !after.Search.Exhaustive || found(before, "Infeasible") {
			return
		}
		if after.Utility.Cost > before.Utility.Cost+1e-6 {
			r.Fatalf("cost rose from %v to %v: %s, then %s", before.Utility.Cost, after.Utility.Cost, state(before), state(after))
		}
	})
}

func TestMemorySurvivesACheckpoint(t *testing.T) {
	w := newWorld(t, performance(), forecast.Auto{})
	w.add("shop", 2, 20, 10*time.Minute, heartbeat)
	for range 10 {
		w.cycle()
	}
	b, err := json.Marshal(w.memory)
	if err != nil {
		t.Fatal(err)
	}
	var restored planning.Memory
	if err := json.Unmarshal(b, &restored); err != nil {
		t.Fatal(err)
	}
	if restored.Hash() != w.memory.Hash() {
		t.Errorf("hash %s, restored %s", w.memory.Hash(), restored.Hash())
	}
	// Forecasts are a cache: what is planned doesn't depend on having them.
	s := w.snapshot()
	one, _ := w.planner.Plan(s, w.policy, w.memory)
	two, _ := w.planner.Plan(s, w.policy, restored)
	if state(one) != state(two) {
		t.Errorf("with memory %s, from the checkpoint %s", state(one), state(two))
	}
	if (planning.Memory{}).Hash() == restored.Hash() {
		t.Error("an empty memory has the same hash")
	}
}

// The weights have the meaning that the package comment gives them, but for what
// packing wastes.
func TestTheWeightsAreAUtilisation(t *testing.T) {
	for _, demand := range []float64{10_000, 40_000} {
		w := newWorld(t, performance(), nil)
		w.policy.ManagedPools = []string{fast}
		w.policy.Weights = api.Weights{Performance: 0.8, Cost: 0.2}
		w.add("shop", 1, 2000, time.Minute, constant(demand))
		got := w.cycle().Workloads[0]
		utilization := demand / 250 / float64(got.Replicas)
		if want := math.Sqrt(0.2 / (2 * 0.8)); math.Abs(utilization-want) > 0.05*want {
			t.Errorf("demand %v: %d replicas run at %.3f, want about %.3f: %s", demand, got.Replicas, utilization, want, got.Reason)
		}
	}
}

// Odd worlds are planned or held, never a panic, and never a figure that isn't one.
func TestOddWorldsAreSurvived(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := random(r, t)
		for i := range w.pools {
			p := &w.pools[i]
			switch rapid.IntRange(0, 6).Draw(r, "odd pool") {
			case 0:
				p.Price = 0
			case 1:
				p.CPUSpeed = 0
			case 2:
				p.Zones, p.Sizes = nil, nil
			case 3:
				p.Allocatable = api.Resources{}
			case 4:
				p.Overhead = p.Allocatable.Plus(p.Allocatable)
			case 5:
				p.MinPerZone, p.MaxPerZone = 3, 2
			}
		}
		s := w.snapshot()
		for i := range s.Workloads {
			l := &s.Workloads[i]
			switch rapid.IntRange(0, 7).Draw(r, "odd workload") {
			case 0:
				l.Shape = nil
			case 1:
				l.Demand = api.Series{}
			case 2:
				l.Demand.Values = []float64{math.NaN(), math.Inf(1), -5}
			case 3:
				l.SpeedNow = math.NaN()
			case 4:
				l.MinReplicas, l.MaxReplicas = 9, 3
			case 5:
				l.Usage = &api.Usage{MilliCPU: math.Inf(1), Pods: 1}
			case 6:
				l.Replicas = math.MaxInt32
			}
		}
		if rapid.Bool().Draw(r, "no nodes") {
			s.Nodes, s.Pods = nil, nil
		}
		w.planner.Forecaster = forecast.Auto{}
		m := planning.Memory{}
		for range 2 {
			var p api.Plan
			p, m = w.planner.Plan(s, w.policy, m)
			if _, err := json.Marshal(p); err != nil {
				r.Fatalf("the plan has no JSON form: %v", err)
			}
			if _, err := json.Marshal(m); err != nil {
				r.Fatalf("the memory has no JSON form: %v", err)
			}
			if len(p.Workloads) != len(s.Workloads) {
				r.Fatalf("%d of %d workloads are in the plan", len(p.Workloads), len(s.Workloads))
			}
			for _, wp := range p.Workloads {
				if wp.Replicas < 0 || wp.Reason == "" {
					r.Fatalf("%+v", wp)
				}
			}
		}
	})
}

// TestFitsAreSpread: a first cycle of many workloads with a long history fits as
// many forecasts as the budget allows, the others in the cycles after, none last
// for ever; meanwhile everybody is planned.
func TestFitsAreSpread(t *testing.T) {
	const workloads = 12
	w := newWorld(t, costSaving(), forecast.Auto{})
	w.planner.Config.FitWork = 4 * 800
	for i := range workloads {
		w.load(fmt.Sprintf("w%02d", i), 2, 10, 200*time.Minute, func(at time.Time) float64 {
			return 200 + 100*math.Sin(2*math.Pi*float64(at.Unix())/600)
		})
	}
	w.settle()
	memory := planning.Memory{}
	known := 0
	for cycle := range 4 {
		var plan api.Plan
		plan, memory = w.planner.Plan(w.snapshot(), w.policy, memory)
		before := known
		known = 0
		for _, p := range plan.Workloads {
			if p.Skill != nil && p.Skill.LastValue != nil {
				known++
			}
			if p.Held {
				t.Errorf("%v is held: %s", p.Key, p.Reason)
			}
		}
		if len(plan.Workloads) != workloads || known-before > 4 {
			t.Errorf("cycle %d: %d plans, %d forecasts fitted, %d before", cycle, len(plan.Workloads), known, before)
		}
		w.now = w.now.Add(w.period)
		for _, l := range w.loads {
			l.Demand.Values = append(l.Demand.Values, l.demand(w.now))
		}
	}
	if known != workloads {
		t.Errorf("after four cycles %d of %d are fitted", known, workloads)
	}
}

// TestEverythingIsFittedAfterAStart: within eighteen cycles, under five minutes, where an
// ordinary cycle fits a hundredth, as for five thousand workloads; and never more in a cycle
// than eight times what an ordinary one fits.
func TestEverythingIsFittedAfterAStart(t *testing.T) {
	for _, c := range []struct{ workloads, cycles, most int }{{100, 12, 16}, {200, 18, 16}} {
		w := newWorld(t, costSaving(), forecast.Auto{})
		w.planner.Config.FitWork = 2 * 1500 // two whole ones an ordinary cycle
		for i := range c.workloads {
			w.load(fmt.Sprintf("w%04d", i), 2, 10, 200*time.Minute, func(at time.Time) float64 {
				return 200 + 100*math.Sin(2*math.Pi*float64(at.Unix())/600)
			})
		}
		w.settle()
		memory := planning.Memory{}
		known := 0
		for cycle := range c.cycles {
			var plan api.Plan
			plan, memory = w.planner.Plan(w.snapshot(), w.policy, memory)
			before := known
			known = 0
			for _, p := range plan.Workloads {
				if p.Skill != nil && p.Skill.LastValue != nil {
					known++
				}
			}
			if known-before > c.most+1 {
				t.Errorf("%d workloads, cycle %d: %d fitted at once", c.workloads, cycle, known-before)
			}
			w.now = w.now.Add(w.period)
			for _, l := range w.loads {
				l.Demand.Values = append(l.Demand.Values, l.demand(w.now))
			}
		}
		if known != c.workloads {
			t.Errorf("after %d cycles %d of %d are fitted", c.cycles, known, c.workloads)
		}
	}
}
