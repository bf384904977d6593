package planning_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
)

func TestLimitsOfPools(t *testing.T) {
	stockout := &api.PoolError{Kind: api.PoolStockout, Message: "no capacity", At: start}
	for name, c := range map[string]struct {
		change       func(*world)
		wantPool     string
		wantNodes    map[string]int32 // over all zones
		wantBinding  api.Binding
		wantFinding  string
		wantLoser    string // part of the reason why the other pool lost
		wantReplicas int32
	}{
		"a size is per zone": {
			// 500/87.5 = 5.7 → 6 replicas, 2 per node → 3 nodes.
			change:    func(w *world) { w.pools = pools(3); w.policy.NodePools = []string{cheap} },
			wantPool:  cheap,
			wantNodes: map[string]int32{cheap: 3, fast: 0}, wantReplicas: 6,
		},
		"one more replica takes a node in every zone": {
			change: func(w *world) {
				w.pools = pools(3)
				w.policy.NodePools = []string{cheap}
				w.loads[0].MinReplicas = 7
			},
			wantPool:  cheap,
			wantNodes: map[string]int32{cheap: 6, fast: 0}, wantReplicas: 7,
		},
		"a pool that lately had a stockout is not grown while there is another": {
			change: func(w *world) { w.pools[1].Error = stockout; w.policy.Weights = api.Weights{Performance: 1} },
			// Of the cheap pool all that maxReplicas allows.
			wantPool: cheap, wantReplicas: 12, wantLoser: "Stockout", wantNodes: map[string]int32{cheap: 6, fast: 0},
		},
		"with nothing else it is asked again": {
			change: func(w *world) {
				w.pools[1].Error = stockout
				w.policy.NodePools = []string{fast}
			},
			wantPool: fast, wantReplicas: 6, wantNodes: map[string]int32{cheap: 0, fast: 1},
		},
		"money keeps from the pool that needs too much of it": {
			change: func(w *world) {
				w.policy.Weights, w.policy.MaxHourlyCost = api.Weights{Performance: 1}, 0.10
				w.loads[0].MinReplicas = 7 // two n2, or four e2-medium
				w.policy.MaxHourlyCost = 0.15
			},
			wantPool: cheap, wantReplicas: 8, wantLoser: "$0.15/h", wantNodes: map[string]int32{cheap: 4, fast: 0},
		},
		"where money does not even buy the floor, nodes stay within it and pods wait": {
			change: func(w *world) {
				w.policy.NodePools, w.policy.MaxHourlyCost = []string{cheap}, 0.07
			},
			wantPool: cheap, wantReplicas: 6, wantFinding: "Infeasible", wantNodes: map[string]int32{cheap: 2, fast: 0},
		},
		"the nodes per pool that a policy allows": {
			change: func(w *world) {
				w.policy.NodePools, w.policy.MaxNodesPerPool = []string{cheap}, 2
			},
			wantPool: cheap, wantReplicas: 6, wantFinding: "Infeasible", wantNodes: map[string]int32{cheap: 2, fast: 0},
		},
		"the nodes per pool that a policy keeps, and none of them in a pool that is left": {
			change: func(w *world) {
				w.policy.NodePools, w.policy.MinNodesPerPool = []string{cheap}, 7
			},
			wantPool: cheap, wantReplicas: 6, wantNodes: map[string]int32{cheap: 7, fast: 0},
		},
		"of the nodes that a policy keeps only those that money buys": {
			change: func(w *world) {
				w.policy.NodePools, w.policy.MinNodesPerPool = []string{cheap}, 7
				w.policy.MaxHourlyCost = 0.12
			},
			wantPool: cheap, wantReplicas: 6, wantNodes: map[string]int32{cheap: 3, fast: 0},
		},
		"a pool that is being operated on keeps its size": {
			change: func(w *world) {
				w.policy.NodePools = []string{cheap}
				w.pools[0].Hold, w.pools[0].Sizes = "operation op-1 is running", []int32{5}
			},
			wantPool: cheap, wantReplicas: 6, wantNodes: map[string]int32{cheap: 5, fast: 0},
		},
		"a pool that its provider scales keeps its size": {
			change: func(w *world) {
				w.policy.NodePools = []string{cheap}
				w.pools[0].Autoscaled, w.pools[0].Sizes = true, []int32{1}
			},
			wantPool: cheap, wantReplicas: 6, wantNodes: map[string]int32{cheap: 1, fast: 0},
		},
		"a pool that is left goes to its own minimum": {
			change: func(w *world) {
				w.policy.NodePools = []string{cheap}
				w.pools[1].MinPerZone, w.pools[1].Sizes = 1, []int32{3}
			},
			wantPool: cheap, wantReplicas: 6, wantNodes: map[string]int32{cheap: 3, fast: 1},
		},
		"pools that don't exist leave nodes alone": {
			change:   func(w *world) { w.policy.NodePools = []string{"gone"} },
			wantPool: "", wantReplicas: 6, wantFinding: "NoAllowedPool",
		},
		"a machine type that no pool has leaves nodes alone": {
			change:   func(w *world) { w.policy.MachineType = "c4-standard-2" },
			wantPool: "", wantReplicas: 6, wantFinding: "NoAllowedPool",
		},
		"a machine type narrows the pools": {
			change:   func(w *world) { w.policy.MachineType = "n2-standard-2" },
			wantPool: fast, wantReplicas: 6, wantNodes: map[string]int32{cheap: 0, fast: 1},
		},
		"no pools, no nodes": {
			change:   func(w *world) { w.policy.NodePools = nil },
			wantPool: "", wantReplicas: 6,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, either(api.Weights{Cost: 1}), nil)
			w.add("shop", 6, 12, time.Minute, constant(500))
			c.change(w)
			w.settle()
			w.loads[0].SpeedNow = 0.5
			p := w.cycle()
			if p.Nodes.Pool != c.wantPool {
				t.Errorf("pool %q, want %q", p.Nodes.Pool, c.wantPool)
			}
			for name, want := range c.wantNodes {
				if got := pool(t, p, name); got.Nodes != want {
					t.Errorf("pool %s has %d nodes, want %d: %s", name, got.Nodes, want, got.Reason)
				}
			}
			if got := p.Workloads[0]; got.Replicas != c.wantReplicas {
				t.Errorf("replicas %d, want %d: %s", got.Replicas, c.wantReplicas, got.Reason)
			}
			if c.wantFinding != "" && !found(p, c.wantFinding) {
				t.Errorf("no finding %s in %v", c.wantFinding, p.Findings)
			}
			if c.wantLoser != "" {
				if k, _ := lost(p, fast); !strings.Contains(k.Infeasible, c.wantLoser) {
					t.Errorf("%s lost because of %q, want %q", fast, k.Infeasible, c.wantLoser)
				}
			}
			var cost float64
			for _, pp := range p.Nodes.Pools {
				cost += pp.HourlyCost
			}
			if math.Abs(cost-p.Nodes.HourlyCost) > 1e-9 {
				t.Errorf("pools cost %v, the plan %v", cost, p.Nodes.HourlyCost)
			}
		})
	}
}

// An operator that has just begun does not know what the nodes it finds are for.
func TestNodesFoundAtTheStartStayForAWhile(t *testing.T) {
	for name, c := range map[string]struct {
		forecaster forecast.Forecaster
		policy     api.Policy
		want       int32
	}{
		"without a trusted forecast":            {nil, costSaving(), 6},
		"a trusted one speaks for what comes":   {ahead{demand: 300}, costSaving(), 2},
		"a pool that the policy leaves is left": {nil, performance(), 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.policy, c.forecaster)
			w.pools[0].Sizes = []int32{6}
			w.add("shop", 4, 40, 10*time.Minute, constant(300))
			begun := w.now
			if got := pool(t, w.cycle(), cheap); got.Nodes != c.want {
				t.Fatalf("%d nodes are planned at the start, want %d: %s", got.Nodes, c.want, got.Reason)
			}
			for w.now.Before(begun.Add(config().NodeStabilization)) {
				if got := pool(t, w.cycle(), cheap); got.Nodes < c.want {
					t.Fatalf("%v after the start %d nodes are planned, want %d: %s", w.now.Sub(begun), got.Nodes, c.want, got.Reason)
				}
			}
			w.cycle()
			if got := pool(t, w.cycle(), cheap); got.Nodes > 2 {
				t.Errorf("%v after the start still %d nodes: %s", w.now.Sub(begun), got.Nodes, got.Reason)
			}
		})
	}
}

// Growth ahead of demand gives way to limits on money; growth up to the floor
// does not.
func TestLimitsGiveUpTheForecastBeforeTheFloor(t *testing.T) {
	w := newWorld(t, costSaving(), ahead{demand: 1400})
	w.policy.MaxHourlyCost = 0.14 // four e2-medium: 8 replicas
	w.add("shop", 2, 40, 10*time.Minute, constant(300))
	p := w.cycle()
	got := p.Workloads[0]
	if got.Replicas != 8 || got.Binding != "budget" || got.Floor != 4 {
		t.Errorf("%d replicas (%s), floor %d; want 8 (budget), floor 4: %s", got.Replicas, got.Binding, got.Floor, got.Reason)
	}
	if n := pool(t, p, cheap).Nodes; n != 4 {
		t.Errorf("%d nodes, want 4", n)
	}
}

// Nobody knows what fewer replicas would do while demand isn't known, or by the
// second source only: a limit that was lowered meanwhile has to wait.
func TestLimitsLowerNothingWhileDemandIsNotKnown(t *testing.T) {
	for name, usage := range map[string]*api.Usage{
		"no source":         nil,
		"the second source": {Window: 30 * time.Second, MilliCPU: 200, Pods: 8},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, costSaving(), nil)
			l := w.add("shop", 8, 40, 10*time.Minute, constant(700))
			w.cycle()
			least := l.Replicas
			w.policy.MaxHourlyCost = 0.07 // two e2-medium: 4 replicas
			w.prom = false
			for range 5 {
				if l.Usage = usage; usage != nil {
					usage.At = w.now
				}
				p := w.cycle()
				if got := p.Workloads[0]; got.Replicas < least {
					t.Fatalf("%d replicas (%s), want the %d there are: %s", got.Replicas, got.Binding, least, got.Reason)
				}
				if got := pool(t, p, cheap); 2*got.Nodes < least {
					t.Fatalf("%d nodes, want those that %d replicas are on: %s", got.Nodes, least, got.Reason)
				}
			}
		})
	}
}

// A limit stops growth. What runs goes down as the rules of its author have it, whoever
// else would take its place.
func TestLimitsTakeNothingThatScaleDownRulesKeep(t *testing.T) {
	limits := map[string]func(*world, func(float64)){
		"money": func(w *world, _ func(float64)) { w.policy.MaxHourlyCost = 0.15 }, // one n2, of six
		"the pool's maximum, which another needs": func(w *world, neighbour func(float64)) {
			w.pools[1].MaxPerZone = w.pools[1].Sizes[0]
			neighbour(6000)
		},
	}
	for name, rules := range map[string]struct {
		behavior api.Behavior
		fewer    int32 // at most, a minute later
	}{
		"no scale-down": {api.Behavior{ScaleDown: api.ScalingRules{SelectPolicy: "Disabled"}}, 0},
		"a rate":        {api.Behavior{ScaleDown: api.ScalingRules{WindowStated: true, Policies: []api.ScalingPolicy{{Type: "Pods", Value: 2, Period: time.Minute}}}}, 2},
		"a window":      {api.Behavior{ScaleDown: api.ScalingRules{StabilizationWindow: time.Hour, WindowStated: true}}, 0},
		"the default":   {api.Behavior{}, 0},
	} {
		for limit, change := range limits {
			t.Run(name+", "+limit, func(t *testing.T) {
				w := newWorld(t, performance(), nil)
				demand, others := 3000.0, 100.0
				l := w.load("shop", 20, 36, time.Hour, func(time.Time) float64 { return demand })
				w.add("till", 2, 60, time.Hour, func(time.Time) float64 { return others })
				l.Behavior = rules.behavior
				for range 60 {
					w.cycle()
				}
				before := l.Replicas
				if before < 30 {
					t.Fatalf("%d replicas to begin with", before)
				}
				demand = 300
				change(w, func(v float64) { others = v })
				for range 4 {
					p := w.cycle()
					if got := planned(p, "shop"); before-got.Replicas > rules.fewer || strings.Contains(got.Reason, "limit ") {
						t.Fatalf("%d replicas (%s) of %d, want at most %d fewer: %s", got.Replicas, got.Binding, before, rules.fewer, got.Reason)
					}
					if n := pool(t, p, fast).Nodes; 6*n < l.Replicas {
						t.Fatalf("%d nodes for the %d replicas that run", n, l.Replicas)
					}
				}
			})
		}
	}
}

// What runs beyond a limit that was lowered is said, and goes down to it as soon as rules
// allow that: what utility would have without the limit is no reason to keep it.
func TestReplicasGoDownToALoweredLimit(t *testing.T) {
	w := newWorld(t, performance(), nil)
	l := w.add("shop", 20, 40, time.Hour, constant(3000)) // needs 20
	for range 60 {
		w.cycle()
	}
	before := l.Replicas
	if before < 30 {
		t.Fatalf("%d replicas, want more than needed", before)
	}
	w.policy.MaxHourlyCost = 0.4 // four n2: 24 replicas
	lowered := w.now
	for w.now.Sub(lowered) < config().Stabilization {
		p := w.cycle()
		if got := p.Workloads[0]; got.Replicas < before {
			t.Fatalf("%v after the limit was lowered %d replicas of %d: %s", w.now.Sub(lowered), got.Replicas, before, got.Reason)
		}
		if !found(p, planning.ReasonLimitExceeded) || found(p, "Infeasible") || found(p, "Unplaced") || p.Nodes.HourlyCost <= 0.4 {
			t.Fatalf("the nodes cost $%.2f/h, and this is said: %v", p.Nodes.HourlyCost, p.Findings)
		}
	}
	for range 4 {
		w.cycle()
	}
	for range 40 {
		p := w.cycle()
		if got := p.Workloads[0]; got.Replicas != 24 || p.Nodes.HourlyCost > 0.4 || len(p.Findings) > 0 {
			t.Fatalf("%v after the limit was lowered %d replicas for $%.2f/h, want 24: %s %v", w.now.Sub(lowered), got.Replicas, p.Nodes.HourlyCost, got.Reason, p.Findings)
		}
	}
}

// A workload whose pods no node takes is no reason for others to give anything up.
func TestPodsThatFitNowhereCostOthersNothing(t *testing.T) {
	tooLarge, pinned := shape("other", 10000, 64), shape("other", 100, 64)
	pinned.NodeSelector = map[string]string{"accelerator": "gpu"}
	for name, c := range map[string]struct {
		shape *api.PodShape
		most  int32 // nodes of the pool
	}{
		"too large for a machine":                       {tooLarge, 0},
		"a selector that no machine has":                {pinned, 0},
		"too large, in a pool that has a limit besides": {tooLarge, 20},
	} {
		t.Run("the forecast beside pods: "+name, func(t *testing.T) {
			w := newWorld(t, costSaving(), ahead{demand: 1400})
			w.pools[0].MaxPerZone = c.most
			w.load("shop", 2, 40, 10*time.Minute, constant(300))
			w.load("other", 1, 3, 10*time.Minute, constant(100)).Shape = c.shape
			w.settle()
			p := w.cycle()
			if got := planned(p, "shop"); got.Replicas != 15 || got.Binding != api.BindingForecast {
				t.Errorf("%d replicas (%s), want the forecast's 15: %s", got.Replicas, got.Binding, got.Reason)
			}
			if !found(p, "Unplaced") {
				t.Errorf("nothing is said of the pods without a place: %v", p.Findings)
			}
		})
		t.Run("what is kept beside pods: "+name, func(t *testing.T) {
			w := newWorld(t, performance(), nil)
			w.pools[1].MaxPerZone = c.most
			demand := 3000.0
			l := w.add("shop", 20, 40, time.Hour, func(time.Time) float64 { return demand })
			for range 60 {
				w.cycle()
			}
			before := l.Replicas
			demand = 300
			w.load("other", 1, 3, time.Hour, constant(1000)).Shape = c.shape
			w.settle()
			for range 4 {
				p := w.cycle()
				if got := planned(p, "shop"); got.Replicas < before || got.Binding != api.BindingStabilization {
					t.Fatalf("%d replicas (%s) of %d at once: %s", got.Replicas, got.Binding, before, got.Reason)
				}
			}
		})
	}
}

// Bounds are no demand: they hold while none is known, as an HPA's do.
func TestBoundsHoldWhileDemandIsNotKnown(t *testing.T) {
	w := newWorld(t, performance(), nil)
	l := w.add("shop", 4, 40, time.Hour, constant(600))
	for range 60 {
		w.cycle()
	}
	w.prom = false
	if got := w.cycle().Workloads[0]; !got.Held || got.Replicas != 6 {
		t.Fatalf("%d replicas, held: %v; want 6, held: %s", got.Replicas, got.Held, got.Reason)
	}
	for _, c := range []struct {
		least, most, want int32
		binding           api.Binding
	}{
		{10, 40, 10, api.BindingMinReplicas},
		{1, 3, 3, api.BindingMaxReplicas},
		{12, 12, 12, api.BindingMinReplicas},
	} {
		l.MinReplicas, l.MaxReplicas = c.least, c.most
		p := w.cycle()
		if got := p.Workloads[0]; got.Replicas != c.want || got.Binding != c.binding || got.Held {
			t.Errorf("with bounds %d–%d %d replicas (%s), held: %v; want %d (%s): %s", c.least, c.most, got.Replicas, got.Binding, got.Held, c.want, c.binding, got.Reason)
		}
		if n := pool(t, p, fast).Nodes; 6*n < c.want {
			t.Errorf("%d nodes for %d replicas", n, c.want)
		}
		if got := w.cycle().Workloads[0]; got.Replicas != c.want || !got.Held {
			t.Errorf("then %d replicas, held: %v; want %d, held: %s", got.Replicas, got.Held, c.want, got.Reason)
		}
	}
}

// planned is the plan of a workload.
func planned(p api.Plan, name string) api.WorkloadPlan {
	return p.Workloads[slices.IndexFunc(p.Workloads, func(w api.WorkloadPlan) bool { return w.Key.Name == name })]
}

// ahead is sure of one demand, for all the future.
type ahead struct{ demand float64 }

func (ahead) Name() string { return "ahead" }

func (ahead) Update(s forecast.State, _ api.Series, _ int) (forecast.State, error) { return s, nil }

func (a ahead) Forecast(_ forecast.State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	f := api.Forecast{
		Model: a.Name(), Start: series.End().Add(series.Step), Step: series.Step, Levels: levels, Skill: 0.9,
		Quantiles: make([][]float64, len(levels)), PeakQuantiles: make([]float64, len(levels)),
	}
	for range horizon {
		f.Mean = append(f.Mean, a.demand)
	}
	for i := range levels {
		f.Quantiles[i], f.PeakQuantiles[i] = f.Mean, a.demand
	}
	return f, nil
}
