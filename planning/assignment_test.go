package planning

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/choice"
	"github.com/mash2-io/mash2/planning/node"
)

// asks proposes as many replicas as a workload's demand divided by 100.
type asks struct{}

func (asks) PlanWorkload(in Input) (Proposal, error) {
	n := choice.Ceil(in.Workload.Usage.MilliCPU / 100 / in.Speed)
	return Proposal{
		Key: in.Workload.Key, Scale: api.Scale{Replicas: n}, NodeReplicas: n, Need: float64(n), Demand: in.Workload.Usage.MilliCPU,
		Request: 100, Floor: n, FloorSource: "prometheus", Binding: api.BindingFloor, Reason: "usage",
		Path: []api.PathStep{{At: in.Time, Scale: api.Scale{Replicas: n}, Need: float64(n)}},
	}, nil
}

// apart is a cycle of two workloads and two pools, of which e2 is half as fast.
func apart(t *testing.T, change func(*api.Policy)) *cycle {
	t.Helper()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	s := api.Snapshot{Time: now, Metrics: api.SourceHealth{Reachable: true}}
	for _, p := range []api.Pool{{Name: "e2", Price: 0.03, CPUSpeed: 0.5}, {Name: "n2", Price: 0.1, CPUSpeed: 1}} {
		p.Zones, p.Sizes = []string{"a"}, []int32{0}
		p.Allocatable = api.Resources{MilliCPU: 1000, Memory: 1 << 30, Pods: 100}
		s.Pools = append(s.Pools, p)
	}
	for _, name := range []string{"api", "web"} {
		s.Workloads = append(s.Workloads, api.Workload{
			Key: api.Key{Namespace: "shop", Name: name}, Mode: api.ModeFull, MinReplicas: 1, MaxReplicas: 50, Replicas: 1, SpeedNow: 1,
			Usage: &api.Usage{At: now, MilliCPU: 700, Pods: 1},
			Shape: &api.PodShape{ID: name, Requests: api.Resources{MilliCPU: 100, Memory: 1 << 20, Pods: 1}},
		})
	}
	nodes, err := node.New(node.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p := api.Policy{Name: "P", Weights: api.Weights{Cost: 1}, NodePools: []string{"e2", "n2"}, ManagedPools: []string{"e2", "n2"}}
	if change != nil {
		change(&p)
	}
	h := Hierarchy{Config: DefaultConfig(), Planners: map[string]WorkloadPlanner{DefaultPlanner: asks{}}, Nodes: nodes}
	return newCycle(h, s, p, Memory{}, "")
}

// A candidate may be any assignment: each workload is counted by the speed of its own
// pool, and each pool by what it has to hold.
func TestACandidateIsAnAssignment(t *testing.T) {
	for name, c := range map[string]struct {
		of     []int // of api and web: 0 e2, 1 n2
		change func(*api.Policy)
		want   map[string]int32 // nodes
		pods   map[string]int32
		why    string // it is not feasible
	}{
		"both on e2":  {of: []int{0, 0}, want: map[string]int32{"e2": 3, "n2": 0}, pods: map[string]int32{"api": 14, "web": 14}},
		"both on n2":  {of: []int{1, 1}, want: map[string]int32{"e2": 0, "n2": 2}, pods: map[string]int32{"api": 7, "web": 7}},
		"one on each": {of: []int{0, 1}, want: map[string]int32{"e2": 2, "n2": 1}, pods: map[string]int32{"api": 14, "web": 7}},
		"the other way round": {
			of: []int{1, 0}, want: map[string]int32{"e2": 2, "n2": 1}, pods: map[string]int32{"api": 7, "web": 14},
		},
		"each within its limit is too dear together": {
			of: []int{0, 1}, change: func(p *api.Policy) { p.MaxHourlyCost = 0.15 }, why: "$0.15/h",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cycle := apart(t, c.change)
			to := assignment{pools: []*api.Pool{&cycle.pools[0], &cycle.pools[1]}, of: c.of}
			if c.of[0] == c.of[1] {
				to = assignment{pools: []*api.Pool{&cycle.pools[c.of[0]]}, of: []int{0, 0}}
			}
			k := cycle.candidate(to, true, 100, false)
			if k.err != nil {
				t.Fatal(k.err)
			}
			if c.why != "" {
				if got := k.result.Best.Packing.Infeasible; !strings.Contains(got, c.why) {
					t.Errorf("it is not feasible because of %q, want %q", got, c.why)
				}
				return
			}
			plan := cycle.compose([]candidate{k}, 0)
			pods, nodes := map[string]int32{}, map[string]int32{}
			for i, w := range plan.Workloads {
				pods[w.Key.Name] = w.Replicas
				if want := to.pool(i).Name; len(w.Pools) != 1 || w.Pools[0] != (api.PoolShare{Pool: want, Replicas: w.Replicas}) {
					t.Errorf("%s is planned on %+v, want all on %s", w.Key, w.Pools, want)
				}
			}
			for _, p := range plan.Nodes.Pools {
				nodes[p.Pool] = p.Nodes
			}
			if diff := cmp.Diff(c.pods, pods); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.want, nodes); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			if one := len(to.pools) == 1; (plan.Nodes.Pool != "") != one {
				t.Errorf("the pool of all is %q", plan.Nodes.Pool)
			}
			// Next time they stay where they are.
			if got := cycle.memory.Workloads[0].Pool; got != to.pool(0).Name {
				t.Errorf("remembered on %q", got)
			}
			if got := newCycle(cycle.Hierarchy, cycle.s, cycle.p, cycle.memory, "").staying([]candidate{k}); got != 0 {
				t.Error("the next cycle doesn't know where they are")
			}
		})
	}
}

func TestNamesTellAssignmentsApart(t *testing.T) {
	e2, n2 := &api.Pool{Name: "e2"}, &api.Pool{Name: "n2"}
	one := assignment{pools: []*api.Pool{e2}, of: []int{0, 0}}
	if got := one.name(); got != "e2" {
		t.Errorf("all on e2 is called %q", got)
	}
	if got := (assignment{}).name(); got != "" {
		t.Errorf("without pools it is called %q", got)
	}
	mixed, other := assignment{pools: []*api.Pool{e2, n2}, of: []int{0, 1}}, assignment{pools: []*api.Pool{e2, n2}, of: []int{1, 0}}
	if mixed.name() == other.name() || !strings.HasPrefix(mixed.name(), "e2 + n2 ") {
		t.Errorf("called %q and %q", mixed.name(), other.name())
	}
}
