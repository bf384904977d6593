package planning

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

// onSpot is the world of apart, of a pool of machines that stay and one of spot machines.
func onSpot(t *testing.T) (Hierarchy, api.Snapshot, api.Policy) {
	c := apart(t, func(p *api.Policy) {
		p.NodePools, p.ManagedPools = []string{"spot", "steady"}, []string{"spot", "steady"}
		p.Spot = &api.Spot{MaxShare: 0.6, Floor: 2}
	})
	s := c.s
	s.Context.PlacesPods = true
	s.Pools[0].Name, s.Pools[1].Name = "steady", "spot"
	for i := range s.Pools {
		s.Pools[i].CPUSpeed, s.Pools[i].Price = 1, 0.1
	}
	s.Pools[1].Spot, s.Pools[1].Price = true, 0.04
	for i := range s.Workloads {
		s.Workloads[i].Target.Kind = "Deployment"
	}
	return c.Hierarchy, s, c.p
}

// TestOnSpot: who may be on spot machines has its share planned there, where they save
// something.
func TestOnSpot(t *testing.T) {
	mixed := []api.PoolShare{{Pool: "spot", Replicas: 4}, {Pool: "steady", Replicas: 3}} // of 7
	alone := []api.PoolShare{{Pool: "steady", Replicas: 7}}
	for name, c := range map[string]struct {
		change   func(*api.Snapshot, *api.Policy)
		api, web []api.PoolShare
		told     string
	}{
		"both":              {api: mixed, web: mixed},
		"without bounds":    {change: func(_ *api.Snapshot, p *api.Policy) { p.Spot = nil }, api: []api.PoolShare{{Pool: "spot", Replicas: 7}}, web: []api.PoolShare{{Pool: "spot", Replicas: 7}}},
		"a higher floor":    {change: func(_ *api.Snapshot, p *api.Policy) { p.Spot.Floor = 5 }, api: []api.PoolShare{{Pool: "spot", Replicas: 2}, {Pool: "steady", Replicas: 5}}, web: []api.PoolShare{{Pool: "spot", Replicas: 2}, {Pool: "steady", Replicas: 5}}},
		"a StatefulSet":     {change: func(s *api.Snapshot, _ *api.Policy) { s.Workloads[0].Target.Kind = "StatefulSet" }, api: alone, web: mixed},
		"scaled by KEDA":    {change: func(s *api.Snapshot, _ *api.Policy) { s.Workloads[0].Actuator = api.ActuatorKEDA }, api: alone, web: mixed},
		"spread over zones": {change: func(s *api.Snapshot, _ *api.Policy) { s.Workloads[0].Shape.ZoneSkew = 1 }, api: alone, web: mixed},
		"a volume": {change: func(s *api.Snapshot, _ *api.Policy) {
			s.Pods = append(s.Pods, api.Pod{Key: api.Key{Namespace: "shop", Name: "api-1"}, Workload: s.Workloads[0].Key, Zones: []string{"a"}, ControllerKind: "ReplicaSet", Shape: s.Workloads[0].Shape})
		}, api: alone, web: mixed},
		"a taint that it doesn't tolerate": {change: func(s *api.Snapshot, _ *api.Policy) {
			s.Pools[1].Taints = []api.Taint{{Key: "spot", Value: "true", Effect: "NoSchedule"}}
			s.Workloads[1].Shape.Tolerations = []api.Toleration{{Key: "spot", Operator: "Exists"}}
		}, api: alone, web: mixed},
		"slower machines":           {change: func(s *api.Snapshot, _ *api.Policy) { s.Pools[1].CPUSpeed = 0.8 }, api: alone, web: alone},
		"dearer machines":           {change: func(s *api.Snapshot, _ *api.Policy) { s.Pools[1].Price = 0.2 }, api: alone, web: alone},
		"no spot machines":          {change: func(s *api.Snapshot, _ *api.Policy) { s.Pools[1].Spot = false; s.Pools[1].Price = 0.2 }, api: alone, web: alone},
		"moved there by a Strategy": {change: func(s *api.Snapshot, _ *api.Policy) { s.Workloads[1].OnlyPools = []string{"spot"} }, api: alone, web: alone},
		"no admission places pods": {
			change: func(s *api.Snapshot, _ *api.Policy) { s.Context.PlacesPods = false }, api: alone, web: alone, told: ReasonSpotNotUsed,
		},
		"none but spot machines": {
			change: func(_ *api.Snapshot, p *api.Policy) { p.NodePools = []string{"spot"} },
			api:    []api.PoolShare{{Pool: "spot", Replicas: 7}}, web: []api.PoolShare{{Pool: "spot", Replicas: 7}}, told: ReasonNoPoolOffSpot,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, s, p := onSpot(t)
			if c.change != nil {
				c.change(&s, &p)
			}
			plan, _ := h.Plan(s, p, Memory{})
			if d := cmp.Diff([][]api.PoolShare{c.api, c.web}, [][]api.PoolShare{plan.Workloads[0].Pools, plan.Workloads[1].Pools}); d != "" {
				t.Errorf("planned (-want +got):\n%s%s", d, plan.Workloads[0].Reason)
			}
			told := ""
			for _, f := range plan.Findings {
				told += f.Reason
			}
			if told != c.told {
				t.Errorf("told %v, want %q", plan.Findings, c.told)
			}
		})
	}
}

// TestPrefers: new pods go off spot machines until enough are there, by the pods that are
// on nodes that stay.
func TestPrefers(t *testing.T) {
	h, s, p := onSpot(t)
	s.Nodes = []api.Node{{Name: "n1", Pool: "steady", Ready: true, Allocatable: s.Pools[0].Allocatable}, {Name: "n2", Pool: "spot", Ready: true, Allocatable: s.Pools[0].Allocatable}}
	of := func() string {
		plan, _ := h.Plan(s, p, Memory{})
		w := plan.Workloads[0]
		if got := plan.PlacedOn(w); got != w.Prefers {
			t.Errorf("PlacedOn says %q, Prefers %q", got, w.Prefers)
		}
		return w.Prefers
	}
	add := func(node string) {
		s.Pods = append(s.Pods, api.Pod{
			Key: api.Key{Namespace: "shop", Name: node + string(rune('a'+len(s.Pods)))}, Workload: s.Workloads[0].Key, Node: node, Ready: true,
			ControllerKind: "ReplicaSet", Shape: s.Workloads[0].Shape,
		})
	}
	for i, want := range []string{"steady", "steady", "steady", "spot", "spot"} { // three of seven
		if got := of(); got != want {
			t.Errorf("with %d pods off spot machines new ones prefer %s, want %s", i, got, want)
		}
		add("n1")
		add("n2")
	}
	s.Nodes[0].Cordoned, s.Nodes[0].CordonedFor = true, api.CordonShrink
	if got := of(); got != "steady" {
		t.Errorf("when those off spot machines are on a node to be left new ones prefer %s", got)
	}
}

// TestSpotIsLeftAsItIs: where workloads are partly on spot machines they stay so while
// demand and prices move within the margin, also without a word on their mode for a cycle.
func TestSpotIsLeftAsItIs(t *testing.T) {
	h, s, p := onSpot(t)
	plan, m := h.Plan(s, p, Memory{})
	if len(plan.Workloads[0].Pools) != 2 {
		t.Fatalf("planned on %v", plan.Workloads[0].Pools)
	}
	// Hardly anything is saved any more: not enough to go there, nor to leave.
	s.Pools[1].Price = 0.0999
	for i := range 200 {
		s.Time = s.Time.Add(15 * time.Second)
		s.Workloads = slices.Clone(s.Workloads)
		s.Workloads[1].Hold = ""
		if i%50 == 20 {
			s.Workloads[1].Hold = "somebody else scales it"
		}
		plan, m = h.Plan(s, p, m)
		if len(plan.Workloads[0].Pools) != 2 {
			t.Fatalf("cycle %d: planned on %v: %+v", i, plan.Workloads[0].Pools, plan.Candidates)
		}
	}
}

// TestARefusedMoveLeavesSpot: workloads that can't be moved from a pool stay on both of theirs,
// whichever of these the refusal names.
func TestARefusedMoveLeavesSpot(t *testing.T) {
	for _, c := range []struct {
		stay  string
		moved bool // most pods off spot machines are on the other pool already
	}{{"spot", false}, {"steady", false}, {"steady", true}} {
		stay := c.stay
		h, s, p := onSpot(t)
		for _, pool := range s.Pools[:2] {
			for _, name := range []string{pool.Name, "other-" + pool.Name} {
				s.Nodes = append(s.Nodes, api.Node{Name: "n-" + name, Pool: name, Ready: true, Allocatable: pool.Allocatable})
			}
			pool.Name = "other-" + pool.Name
			s.Pools = append(s.Pools, pool)
		}
		for i := range s.Workloads {
			w := &s.Workloads[i]
			w.Replicas = 6
			for n := range w.Replicas {
				node := []string{"n-spot", "n-steady"}[n%2]
				if c.moved && n > 1 && node == "n-steady" {
					node = "n-other-steady"
				}
				s.Pods = append(s.Pods, api.Pod{
					Key: api.Key{Namespace: "shop", Name: w.Key.Name + string('a'+n)}, Workload: w.Key, Node: node, Ready: true, ControllerKind: "ReplicaSet", Shape: w.Shape,
				})
			}
		}
		p.NodePools, p.ManagedPools = []string{"other-spot", "other-steady"}, []string{"other-spot", "other-steady", "spot", "steady"}
		h.Moves = stays{stay}.check
		plan, _ := h.Plan(s, p, Memory{})
		for _, w := range plan.Workloads {
			if len(w.Pools) != 2 || w.Pools[0].Pool != "spot" || w.Pools[1].Pool != "steady" {
				t.Errorf("staying on %s %s is planned on %v", stay, w.Key, w.Pools)
			}
		}
		if plan.Nodes.Refusal == nil {
			t.Error("nothing is refused")
		}
	}
}

// TestReserve: as many replicas more as make up for machines that are away, beside the
// binomial by whole numbers.
func TestReserve(t *testing.T) {
	exact := func(n, k int64, p float64) float64 {
		sum := 0.0
		for i := int64(0); i <= k; i++ {
			c, _ := new(big.Float).SetInt(new(big.Int).Binomial(n, i)).Float64()
			sum += c * math.Pow(p, float64(i)) * math.Pow(1-p, float64(n-i))
		}
		return 1 - sum
	}
	for _, p := range []float64{1e-4, 0.01, 0.3, 0.9} {
		for _, n := range []int32{1, 5, 30, 200} {
			for k := int32(0); k < min(n, 8); k++ {
				if got, want := beyond(n, k, p), exact(int64(n), int64(k), p); math.Abs(got-want) > 1e-9 {
					t.Errorf("P(X > %d) of %d at %g is %g, want %g", k, n, p, got, want)
				}
			}
		}
	}
	for _, c := range []struct {
		replicas, together int32
		away, short        float64
		want               int32
	}{
		{7, 1, 0, 0.001, 0},
		{7, 1, 1e-4, 0.001, 0},    // 7 in 10,000
		{7, 1, 1e-3, 0.001, 1},    // 7 in 1,000; two of eight hardly ever
		{70, 10, 1e-3, 0.001, 10}, // seven machines of ten
		{1, 1, 0.01, 0.001, 1},
		{3, 1, 1, 0.001, 3}, // never there: twice as many, and no more than that
	} {
		if got := reserve(c.replicas, c.together, c.away, c.short); got != c.want {
			t.Errorf("reserve(%d, %d, %g, %g) = %d, want %d", c.replicas, c.together, c.away, c.short, got, c.want)
		}
	}
	h, s, p := onSpot(t)
	p.Quantile = 0.999
	s.Pools[1].Interruptions, s.Pools[1].NodeStartup.P90 = 0.5, 2*time.Minute
	plan, _ := h.Plan(s, p, Memory{})
	if w := plan.Workloads[0]; w.Replicas != 11 || !strings.Contains(w.Reason, "4 more, as spot machines may be taken away") {
		t.Errorf("%d replicas: %s", w.Replicas, w.Reason)
	}
}
