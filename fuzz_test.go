package mash2_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/strategic"
)

// numbers that a fuzzer turns.
type numbers struct {
	replicas, least, most, planned int32
	demand, usage, speed, target   float64
	price, quantile, cost          float64
	request, allocatable, overhead int64
	nodes, pods                    uint8
	flags                          uint32
}

func (n numbers) is(bit int) bool { return n.flags&(1<<bit) != 0 }

var fuzzTime = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// snapshot of a world made of these numbers: two workloads on two pools.
func (n numbers) snapshot() (api.Snapshot, api.PolicySpec) {
	shape := &api.PodShape{ID: "a", Requests: api.Resources{MilliCPU: n.request, Memory: n.request, Pods: 1}}
	values := make([]float64, 40)
	for i := range values {
		values[i] = n.demand * (1 + math.Sin(float64(i)/4)/3)
		if n.is(0) && i%7 == 0 {
			values[i] = math.NaN()
		}
	}
	lead := api.StartupLatency{P50: 15 * time.Second, P90: time.Minute}
	s := api.Snapshot{Time: fuzzTime, PodStartup: lead, Metrics: api.SourceHealth{Reachable: n.is(1), LastOK: fuzzTime}}
	for i, name := range []string{"a", "b"} {
		w := api.Workload{
			Key: api.Key{Namespace: "shop", Name: name}, UID: name, Mode: api.ModeFull, Planner: planning.DefaultPlanner,
			Target:      api.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			MinReplicas: n.least, MaxReplicas: n.most, Replicas: n.replicas, ReadyReplicas: n.replicas, PlannedReplicas: n.planned,
			Shape: shape, Demand: api.Series{Start: fuzzTime.Add(-39 * 15 * time.Second), Step: 15 * time.Second, Values: values},
			DemandStale: n.is(2), SpeedNow: n.speed, TargetUtilization: n.target,
			RollingOut: n.is(3),
		}
		if n.is(4) {
			w.Usage = &api.Usage{At: fuzzTime, Window: 15 * time.Second, MilliCPU: n.usage, Pods: int32(n.pods)}
		}
		if i == 1 {
			w.Mode = []api.Mode{api.ModeFull, api.ModeShadow, api.ModeOff, api.ModeFull}[n.flags>>5&3]
			if n.is(7) {
				w.Hold, w.HoldReason = "somebody else scales it", "Conflict"
			}
			if n.is(8) {
				w.Shape = nil
			}
			if n.is(9) {
				w.Demand = api.Series{}
			}
		}
		s.Workloads = append(s.Workloads, w)
	}
	for i, name := range []string{"cheap", "fast"} {
		p := api.Pool{
			Name: name, MachineType: name, Zones: []string{"a", "b"}, Sizes: []int32{int32(n.nodes), int32(n.nodes) / 2},
			Allocatable: api.Resources{MilliCPU: n.allocatable, Memory: n.allocatable, Pods: 110},
			Overhead:    api.Resources{MilliCPU: n.overhead, Pods: 5},
			Price:       n.price * float64(i+1), CPUSpeed: n.speed, NodeStartup: lead, Autoscaled: n.is(10), MaxPerZone: int32(n.nodes) * 2,
		}
		if n.is(11 + i) {
			p.Hold = "an upgrade"
		}
		s.Pools = append(s.Pools, p)
	}
	for i := range min(n.nodes, 20) {
		pool := s.Pools[i%2]
		s.Nodes = append(s.Nodes, api.Node{
			Name: "node-" + string(rune('a'+i)), Pool: pool.Name, Zone: pool.Zones[i/2%2], Ready: !n.is(13) || i%3 > 0,
			Allocatable: pool.Allocatable, Cordoned: n.is(14) && i%2 == 0, CordonedFor: api.CordonMigration,
		})
	}
	for i := range min(n.pods, 40) {
		p := api.Pod{
			Key: api.Key{Namespace: "shop", Name: "pod-" + string(rune('a'+i))}, UID: string(rune('a' + i)), Shape: shape, Phase: "Running",
			Ready: true, Workload: s.Workloads[i%2].Key, ControllerKind: "ReplicaSet", ControllerName: "a", Created: fuzzTime.Add(-time.Hour), ReadyAt: fuzzTime.Add(-time.Hour),
		}
		if len(s.Nodes) > 0 {
			p.Node = s.Nodes[int(i)%len(s.Nodes)].Name
		}
		s.Pods = append(s.Pods, p)
	}
	policies := strategic.Defaults()
	p := policies[api.Performance]
	p.NodePools, p.Quantile, p.MaxHourlyCost = []string{"fast", "gone"}, n.quantile, n.cost
	policies[api.Performance] = p
	p = policies[api.CostSaving]
	p.NodePools = []string{"cheap"}
	policies[api.CostSaving] = p
	spec := api.PolicySpec{Policies: policies}
	if n.is(15) {
		spec.Manual = api.Performance
	}
	return s, spec
}

// decide walks the pure part of the corridor.
func decide(t *testing.T, n numbers, rounds int) (plan api.Plan, actions []api.Action) {
	t.Helper()
	cfg := core.DefaultConfig()
	cfg.Planning.Packings = 8
	h, err := cfg.Hierarchy()
	if err != nil {
		t.Fatal(err)
	}
	var m planning.Memory
	for i := range rounds {
		s, spec := n.snapshot()
		s.Time = s.Time.Add(time.Duration(i) * cfg.Planning.CyclePeriod)
		policy := strategic.Decide(spec, s)
		plan, m = h.Plan(s, policy, m)
		actions, _ = execution.Sequence(s, plan, policy)
	}
	return plan, actions
}

// FuzzDecide: whatever the sensors say, within what policies may say, the
// decision is a figure within the author's bounds, the same each time, never
// less because data is missing, and touches nothing that must be left alone.
func FuzzDecide(f *testing.F) {
	add := func(n numbers) {
		f.Add(n.replicas, n.least, n.most, n.planned, n.demand, n.usage, n.speed, n.target, n.price, n.quantile, n.cost, n.request, n.allocatable, n.overhead, n.nodes, n.pods, n.flags)
	}
	usual := numbers{
		replicas: 4, least: 1, most: 20, planned: 4, demand: 700, usage: 650, speed: 1, price: 0.1, quantile: 0.9,
		request: 250, allocatable: 1930, overhead: 200, nodes: 4, pods: 8, flags: 1<<1 | 1<<4,
	}
	add(usual)
	for _, change := range []func(*numbers){
		func(n *numbers) { n.demand = math.NaN() },
		func(n *numbers) { n.demand, n.usage = math.Inf(1), math.Inf(1) },
		func(n *numbers) { n.demand = -1e300 },
		func(n *numbers) { n.demand, n.flags = 1e300, n.flags|1<<15 },
		func(n *numbers) { n.request = 0 },
		func(n *numbers) { n.request = math.MaxInt64 },
		func(n *numbers) { n.request, n.allocatable = -5, -5 },
		func(n *numbers) { n.replicas, n.most = math.MaxInt32, math.MaxInt32 },
		func(n *numbers) { n.replicas = 0 },
		func(n *numbers) { n.least, n.most = 30, 20 },
		func(n *numbers) { n.least, n.most = -3, -1 },
		func(n *numbers) { n.speed = 0 },
		func(n *numbers) { n.price = math.NaN() },
		func(n *numbers) { n.flags |= 1<<2 | 1<<3 },
		func(n *numbers) { n.flags |= 1<<7 | 1<<14 | 1<<15 },
		func(n *numbers) { n.flags |= 1<<5 | 1<<13 | 1<<15 },
		func(n *numbers) { n.nodes, n.pods = 0, 0 },
		func(n *numbers) { n.nodes, n.flags = 255, n.flags|1<<11|1<<15 },
		func(n *numbers) { n.cost = 0.01 },
		func(n *numbers) { n.target = 1e-9 },
		func(n *numbers) { n.flags |= 1<<8 | 1<<9 | 1<<10 },
	} {
		n := usual
		change(&n)
		add(n)
	}
	f.Fuzz(func(t *testing.T, replicas, least, most, planned int32, demand, usage, speed, target, price, quantile, cost float64,
		request, allocatable, overhead int64, nodes, pods uint8, flags uint32) {
		n := numbers{replicas, least, most, planned, demand, usage, speed, target, price, quantile, cost, request, allocatable, overhead, nodes, pods, flags}
		s, spec := n.snapshot()
		if strategic.Validate(spec) != nil || replicas < 0 || replicas > 100_000 || most > 100_000 {
			return // refused before it comes here, or more than the API server takes
		}
		plan, actions := decide(t, n, 2)
		again, sameActions := decide(t, n, 2)
		if diff := cmp.Diff(plan, again, cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("decided differently the second time:\n%s", diff)
		}
		if diff := cmp.Diff(actions, sameActions); diff != "" {
			t.Fatalf("acted differently the second time:\n%s", diff)
		}
		if _, err := json.Marshal(plan); err != nil {
			t.Fatalf("the plan has no JSON form: %v", err)
		}
		checkPlan(t, s, plan)
		// In the first cycle, before it has planned otherwise over a limit.
		first, _ := decide(t, n, 1)
		checkStale(t, s, first)
		checkActions(t, s, strategic.Decide(spec, s), actions)
	})
}

func checkPlan(t *testing.T, s api.Snapshot, plan api.Plan) {
	t.Helper()
	var on []api.Workload // those that are planned
	for _, w := range s.Workloads {
		if w.Mode != api.ModeOff {
			on = append(on, w)
		}
	}
	if len(plan.Workloads) != len(on) {
		t.Fatalf("%d of %d workloads are planned", len(plan.Workloads), len(on))
	}
	for i, p := range plan.Workloads {
		w := on[i]
		if p.Key != w.Key || p.Reason == "" || p.Replicas < 0 {
			t.Fatalf("%+v", p)
		}
		if p.Held {
			continue
		}
		if p.Replicas < 1 || p.Replicas > w.MaxReplicas {
			t.Errorf("%s: %d replicas planned, outside of 1 to %d", w.Key, p.Replicas, w.MaxReplicas)
		}
	}
}

// checkStale: what is missing takes nothing away. What neither the nodes nor
// the budget have room for is given up even so.
func checkStale(t *testing.T, s api.Snapshot, plan api.Plan) {
	t.Helper()
	for _, p := range plan.Workloads {
		for _, w := range s.Workloads {
			if w.Key == p.Key && w.DemandStale && !p.Held && p.Binding != "budget" && w.PlannedReplicas >= w.Replicas && p.Replicas < min(w.Replicas, w.MaxReplicas) {
				t.Errorf("%s: from %d down to %d on stale demand: %s: %s", w.Key, w.Replicas, p.Replicas, p.Binding, p.Reason)
			}
		}
	}
}

func checkActions(t *testing.T, s api.Snapshot, policy api.Policy, actions []api.Action) {
	t.Helper()
	workloads := map[string]api.Workload{}
	for _, w := range s.Workloads {
		workloads["workload "+w.Key.String()] = w
	}
	pools := map[string]api.Pool{}
	for _, p := range s.Pools {
		pools[p.Name] = p
	}
	managed := map[string]bool{}
	for _, p := range policy.ManagedPools {
		managed[p] = true
	}
	seen := map[string]bool{}
	for _, a := range actions {
		if key := a.Kind() + " " + a.Object().String(); seen[key] {
			t.Errorf("twice: %s", a)
		} else {
			seen[key] = true
		}
		switch a := a.(type) {
		case api.ScaleWorkload:
			if w := workloads[a.Object().String()]; w.Mode != api.ModeFull || w.HoldReason != "" || a.To < 1 {
				t.Errorf("%s, although it is %s and held by %q", a, w.Mode, w.HoldReason)
			}
		case api.ResizePool:
			if p := pools[a.Pool]; !managed[a.Pool] || p.Hold != "" || p.Autoscaled || a.To < 0 || p.MaxPerZone > 0 && a.To > p.MaxPerZone && a.To > a.From {
				t.Errorf("%s, of pool %+v", a, p)
			}
		case api.RemoveNode:
			if p := pools[a.Pool]; !managed[a.Pool] || p.Autoscaled {
				t.Errorf("%s, of pool %+v", a, p)
			}
		}
	}
}
