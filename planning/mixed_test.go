package planning

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

// toMix is the world of apart, of a pool of cores and one of memory: api needs cores, web
// memory. All pods of both are on a pool.
func toMix(t *testing.T, on string) (Hierarchy, api.Snapshot, api.Policy) {
	c := apart(t, func(p *api.Policy) {
		p.NodePools, p.ManagedPools = []string{"cores", "memory"}, []string{"cores", "memory"}
		p.MixPools = true
	})
	s := c.s
	s.Context.PlacesPods = true
	for i, pool := range []api.Pool{
		{Name: "cores", Price: 0.1, Allocatable: api.Resources{MilliCPU: 4000, Memory: 4 << 30, Pods: 100}},
		{Name: "memory", Price: 0.18, Allocatable: api.Resources{MilliCPU: 4000, Memory: 32 << 30, Pods: 100}},
	} {
		pool.CPUSpeed, pool.Zones, pool.Sizes = 1, []string{"a"}, []int32{0}
		if pool.Name == on {
			pool.Sizes[0] = 7
		}
		s.Pools[i] = pool
	}
	for n := range 7 {
		s.Nodes = append(s.Nodes, api.Node{Name: string(rune('a' + n)), Pool: on, Zone: "a", Ready: true, Allocatable: s.Pools[1].Allocatable})
	}
	for i, memory := range []int64{40 << 20, 800 << 20} {
		w := &s.Workloads[i]
		w.Target.Kind, w.MaxReplicas, w.Replicas = "Deployment", 400, int32(200-150*i)
		w.Usage = &api.Usage{At: s.Time, MilliCPU: float64(100 * w.Replicas), Pods: w.Replicas}
		shape := *w.Shape
		shape.Requests.Memory = memory
		w.Shape = &shape
		for n := range w.Replicas {
			s.Pods = append(s.Pods, api.Pod{
				Key: api.Key{Namespace: "shop", Name: fmt.Sprint(w.Key.Name, n)}, Workload: w.Key, Node: s.Nodes[len(s.Pods)%7].Name, Shape: w.Shape, Ready: true, ControllerKind: "ReplicaSet",
			})
		}
	}
	return c.Hierarchy, s, c.p
}

// settled is where workloads are planned after an hour of cycles, and how often one was
// planned on another pool than before.
func settled(h Hierarchy, s api.Snapshot, p api.Policy, change func(cycle int, s *api.Snapshot)) (api.Plan, int) {
	var m Memory
	var plan api.Plan
	changes := 0
	before := map[string]string{}
	for cycle := range 240 {
		s.Time = s.Time.Add(15 * time.Second)
		s.Workloads = slices.Clone(s.Workloads)
		for i := range s.Workloads {
			usage := *s.Workloads[i].Usage
			usage.At = s.Time
			s.Workloads[i].Usage = &usage
		}
		if change != nil {
			change(cycle, &s)
		}
		plan, m = h.Plan(s, p, m)
		for name, pool := range where(plan) {
			if before[name] != "" && before[name] != pool {
				changes++
			}
			before[name] = pool
		}
	}
	return plan, changes
}

// TestPoolsAreMixed: each workload goes to the pool that suits it, after staying has cost what
// the move does; what can't be moved by itself, or may not, stays.
func TestPoolsAreMixed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*api.Snapshot, *api.Policy)
		api    string
		web    string
		told   string
	}{
		"each on its own":  {api: "cores", web: "memory"},
		"not mixed":        {change: func(_ *api.Snapshot, p *api.Policy) { p.MixPools = false }, api: "memory", web: "memory"},
		"one pool allowed": {change: func(_ *api.Snapshot, p *api.Policy) { p.NodePools = []string{"memory"} }, api: "memory", web: "memory"},
		"no admission places pods": {
			change: func(s *api.Snapshot, _ *api.Policy) { s.Context.PlacesPods = false }, api: "memory", web: "memory", told: ReasonPoolsNotMixed,
		},
		"bounds for spot machines, of which there are none": {
			change: func(_ *api.Snapshot, p *api.Policy) { p.Spot = &api.Spot{MaxShare: 0.5, Floor: 1} }, api: "cores", web: "memory",
		},
		"a StatefulSet":  {change: func(s *api.Snapshot, _ *api.Policy) { s.Workloads[0].Target.Kind = "StatefulSet" }, api: "memory", web: "memory"},
		"scaled by KEDA": {change: func(s *api.Snapshot, _ *api.Policy) { s.Workloads[0].Actuator = api.ActuatorKEDA }, api: "memory", web: "memory"},
		"only shown":     {change: func(s *api.Snapshot, _ *api.Policy) { s.Workloads[0].Mode = api.ModeShadow }, api: "memory", web: "memory"},
		"held":           {change: func(s *api.Snapshot, _ *api.Policy) { s.Workloads[0].Hold = "its target is gone" }, api: "memory", web: "memory"},
		"a pod that may not be moved": {
			change: func(s *api.Snapshot, _ *api.Policy) { s.Pods[3].DoNotDisrupt = "mash2.io/do-not-disrupt" }, api: "memory", web: "memory",
		},
		"a volume": {change: func(s *api.Snapshot, _ *api.Policy) { s.Pods[3].Zones = []string{"a"} }, api: "memory", web: "memory"},
		"a taint that the other tolerates": {
			change: func(s *api.Snapshot, _ *api.Policy) {
				s.Pools[0].Taints = []api.Taint{{Key: "k", Effect: "NoSchedule"}}
				s.Workloads[1].Shape.Tolerations = []api.Toleration{{Key: "k", Operator: "Exists"}}
			}, api: "memory", web: "memory",
		},
		"spread over zones, and there is another one": {
			change: func(s *api.Snapshot, _ *api.Policy) {
				s.Workloads[0].Shape.ZoneSkew, s.Pools[0].Zones = 1, []string{"b"}
			}, api: "memory", web: "memory",
		},
		"spread over the same zones": {change: func(s *api.Snapshot, _ *api.Policy) { s.Workloads[0].Shape.ZoneSkew = 1 }, api: "cores", web: "memory"},
		"no cheaper":                 {change: func(s *api.Snapshot, _ *api.Policy) { s.Pools[0].Price = 0.18 }, api: "memory", web: "memory"},
		"a strategy keeps one where it is": {
			change: func(s *api.Snapshot, _ *api.Policy) { s.Workloads[0].OnlyPools = []string{"memory"} }, api: "memory", web: "memory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, s, p := toMix(t, "memory")
			if c.change != nil {
				c.change(&s, &p)
			}
			plan, changes := settled(h, s, p, nil)
			if diff := cmp.Diff(map[string]string{"api": c.api, "web": c.web}, where(plan)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if changes > 1 {
				t.Errorf("%d changes of pool", changes)
			}
			told := slices.IndexFunc(plan.Findings, func(f api.Finding) bool { return f.Reason == ReasonPoolsNotMixed })
			if (told >= 0) != (c.told != "") {
				t.Errorf("told %v", plan.Findings)
			}
		})
	}
}

// TestPoolsAreMixedBesideSpot: each workload has its share on the spot machines that suit it,
// beside the pool that does, and no more moves than to there.
func TestPoolsAreMixedBesideSpot(t *testing.T) {
	spotOf := func(pool api.Pool, ratio float64) api.Pool {
		pool.Name, pool.Spot, pool.Sizes, pool.Price = "spot-"+pool.Name, true, []int32{0}, pool.Price*ratio
		return pool
	}
	both := func(base string, off, on int32) []api.PoolShare {
		return []api.PoolShare{{Pool: base, Replicas: off}, {Pool: "spot-" + base, Replicas: on}}
	}
	alone := func(pool string, n int32) []api.PoolShare { return []api.PoolShare{{Pool: pool, Replicas: n}} }
	for name, c := range map[string]struct {
		change   func(*api.Snapshot, *api.Policy)
		api, web func(n int32) []api.PoolShare
	}{
		"each on its own": {
			api: func(n int32) []api.PoolShare { return both("cores", n-n*6/10, n*6/10) }, web: func(n int32) []api.PoolShare { return both("memory", n-n*6/10, n*6/10) },
		},
		"not mixed": {
			change: func(_ *api.Snapshot, p *api.Policy) { p.MixPools = false },
			api:    func(n int32) []api.PoolShare { return both("memory", n-n*6/10, n*6/10) }, web: func(n int32) []api.PoolShare { return both("memory", n-n*6/10, n*6/10) },
		},
		"spot machines of one type only": {
			change: func(s *api.Snapshot, _ *api.Policy) { s.Pools = s.Pools[:3] },
			api:    func(n int32) []api.PoolShare { return both("cores", n-n*6/10, n*6/10) }, web: func(n int32) []api.PoolShare { return alone("memory", n) },
		},
		"spot machines that save nothing": {
			change: func(s *api.Snapshot, _ *api.Policy) { s.Pools[2].Price, s.Pools[3].Price = 0.2, 0.36 },
			api:    func(n int32) []api.PoolShare { return alone("cores", n) }, web: func(n int32) []api.PoolShare { return alone("memory", n) },
		},
		"one that may not be on spot machines": {
			change: func(s *api.Snapshot, _ *api.Policy) {
				for i := range s.Pools[2:] {
					s.Pools[2+i].Taints = []api.Taint{{Key: "spot", Effect: "NoSchedule"}}
				}
				s.Workloads[0].Shape.Tolerations = []api.Toleration{{Key: "spot", Operator: "Exists"}}
			},
			api: func(n int32) []api.PoolShare { return both("cores", n-n*6/10, n*6/10) }, web: func(n int32) []api.PoolShare { return alone("memory", n) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, s, p := toMix(t, "memory")
			s.Pools = append(s.Pools, spotOf(s.Pools[0], 0.4), spotOf(s.Pools[1], 0.4))
			p.NodePools = []string{"cores", "memory", "spot-cores", "spot-memory"}
			p.ManagedPools, p.Spot = p.NodePools, &api.Spot{MaxShare: 0.6, Floor: 2}
			if c.change != nil {
				c.change(&s, &p)
			}
			plan, changes := settled(h, s, p, nil)
			want := [][]api.PoolShare{c.api(plan.Workloads[0].Replicas), c.web(plan.Workloads[1].Replicas)}
			if diff := cmp.Diff(want, [][]api.PoolShare{plan.Workloads[0].Pools, plan.Workloads[1].Pools}); diff != "" {
				t.Errorf("(-want +got):\n%s%+v", diff, plan.Candidates)
			}
			if changes > 2 { // each once
				t.Errorf("%d changes of pool", changes)
			}
		})
	}
}

// TestAMoveToAMixtureWaits: as any other, until staying has cost what it would.
func TestAMoveToAMixtureWaits(t *testing.T) {
	h, s, p := toMix(t, "memory")
	var m Memory
	var plan api.Plan
	for cycle := range 240 {
		s.Time = s.Time.Add(15 * time.Second)
		plan, m = h.Plan(s, p, m)
		if on := where(plan)["api"]; on == "cores" {
			if cycle < 4 {
				t.Errorf("moved in cycle %d", cycle)
			}
			return
		}
		if !strings.HasPrefix(m.Better.Assignment, "cores + memory ") || !slices.ContainsFunc(plan.Candidates, func(k api.Candidate) bool { return strings.Contains(k.Note, "a move waits") }) {
			t.Fatalf("cycle %d: better is %+v, of %+v", cycle, m.Better, plan.Candidates)
		}
	}
	t.Errorf("never moved: %+v", m.Better)
}

// TestAMixtureStays: load that goes up and down by a third moves nobody to and fro.
func TestAMixtureStays(t *testing.T) {
	h, s, p := toMix(t, "memory")
	rng := rand.New(rand.NewPCG(1, 2))
	_, changes := settled(h, s, p, func(cycle int, s *api.Snapshot) {
		for i := range s.Workloads {
			n := float64(200 - 150*i)
			s.Workloads[i].Usage.MilliCPU = 100 * n * (1 + 0.3*math.Sin(float64(cycle)/20) + 0.1*(rng.Float64()-0.5))
		}
	})
	if changes != 1 {
		t.Errorf("%d changes of pool, want the one move", changes)
	}
}

// TestAMoveThatIsRefusedLeavesAMixture: workloads on several pools stay on each.
func TestAMoveThatIsRefusedLeavesAMixture(t *testing.T) {
	h, s, p := toMix(t, "memory")
	plan, _ := settled(h, s, p, nil)
	want := where(plan)
	var m Memory
	for i := range s.Workloads {
		m.Workloads = append(m.Workloads, WorkloadMemory{Key: s.Workloads[i].Key, Pool: want[s.Workloads[i].Key.Name], Replicas: s.Workloads[i].Replicas, Planned: s.Workloads[i].Replicas})
	}
	m.Policy, m.Weights = p.Name, p.Weights
	h.Moves = stays{"memory"}.check
	for _, open := range [][]string{{"cores", "memory"}, {"cores"}} { // the policy may not allow it any more
		p.NodePools = open
		s.Time = s.Time.Add(15 * time.Second)
		plan, after := h.Plan(s, p, m)
		if diff := cmp.Diff(want, where(plan)); diff != "" {
			t.Errorf("with %v (-want +got):\n%s", open, diff)
		}
		if plan.Nodes.Refusal == nil {
			t.Errorf("with %v nothing is refused", open)
		}
		m = after
	}
}

// TestARollbackOfAMixture: each workload goes back to its own pool and stays there, whatever
// is better, until the rollback is over; if it can't be moved it stays where it is.
func TestARollbackOfAMixture(t *testing.T) {
	h, s, p := toMix(t, "memory")
	m := Memory{Policy: p.Name, Weights: p.Weights, Rollback: &RolledBack{Rollback: api.Rollback{At: s.Time, Until: s.Time.Add(time.Hour)}}}
	is, then := map[string]string{"api": "cores", "web": "memory"}, map[string]string{"api": "memory", "web": "cores"}
	for _, w := range s.Workloads {
		m.Workloads = append(m.Workloads, WorkloadMemory{Key: w.Key, Pool: is[w.Key.Name], Replicas: w.Replicas, Planned: w.Replicas})
		m.Rollback.Scales = append(m.Rollback.Scales, KeptScale{Key: w.Key, Replicas: w.Replicas, Pool: then[w.Key.Name]})
	}
	refused := h
	refused.Moves = stays{"memory"}.check
	s.Time = s.Time.Add(time.Minute)
	plan, _ := refused.Plan(s, p, m)
	if diff := cmp.Diff(is, where(plan)); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	for range 200 {
		plan, m = h.Plan(s, p, m)
		if diff := cmp.Diff(then, where(plan)); diff != "" || plan.Rollback == nil {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		s.Time = s.Time.Add(15 * time.Second)
	}
}

// TestNoneOfTheBetterOnesIsWaitedFor: where it is better differs from cycle to cycle, but it
// is better elsewhere all the time: what staying costs adds up.
func TestNoneOfTheBetterOnesIsWaitedFor(t *testing.T) {
	h, s, p := toMix(t, "memory")
	other := s.Pools[0]
	other.Name, other.Allocatable.Memory = "standard", 16<<30
	s.Pools = append(s.Pools, other)
	p.NodePools, p.ManagedPools = append(p.NodePools, "standard"), append(p.ManagedPools, "standard")
	best := map[string]int{}
	plan, changes := settled(h, s, p, func(cycle int, s *api.Snapshot) {
		s.Pools = slices.Clone(s.Pools)
		s.Pools[2].Price = []float64{0.1, 0.16}[cycle%2]
	})
	for _, k := range plan.Candidates {
		best[k.Pool]++
	}
	if changes == 0 || where(plan)["api"] == "memory" {
		t.Errorf("on %v after %d changes; compared %v", where(plan), changes, best)
	}
}

// TestAPoolWithoutRoomIsNotBetter: what a plan would cost that has no place for all pods says
// nothing, however little it is.
func TestAPoolWithoutRoomIsNotBetter(t *testing.T) {
	h, s, p := toMix(t, "memory")
	s.Pools[0].MaxPerZone, p.MixPools = 1, false
	var m Memory
	for range 40 {
		s.Time = s.Time.Add(15 * time.Second)
		var plan api.Plan
		if plan, m = h.Plan(s, p, m); plan.Nodes.Pool != "memory" || m.Better.Regret > 0 {
			t.Fatalf("on %s, staying has cost %+v", plan.Nodes.Pool, m.Better)
		}
	}
}
