package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/strategic"
)

const (
	podsPerNode = 30
	history     = 2 * time.Hour
	period      = 15 * time.Second
)

var now = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// steady is a cluster at rest: one pool of nodes, as many workloads of 30 Ready pods each,
// with a load that repeats itself. Their pods have one of seven requests; sized ones have as
// many requests as there are workloads, as where mash2 chooses them.
func steady(nodes int, sized bool) (api.Snapshot, api.Policy) {
	allocatable := api.Resources{MilliCPU: 12000, Memory: 32 << 30, Pods: 110}
	s := api.Snapshot{Time: now, Metrics: api.SourceHealth{Reachable: true, LastOK: now}, ResourceMetrics: api.SourceHealth{Reachable: true, LastOK: now}}
	s.Pools = []api.Pool{pool("fast", int32(nodes), allocatable), pool("cheap", 0, allocatable)}
	for i := range nodes {
		s.Nodes = append(s.Nodes, node("fast", i, allocatable))
	}
	for w := range nodes {
		key := api.Key{Namespace: "shop", Name: fmt.Sprintf("web%05d", w)}
		shape := &api.PodShape{ID: key.Name, Requests: api.Resources{MilliCPU: 200 + int64(w%7)*45, Memory: 256 << 20, Pods: 1}}
		if sized {
			shape.Requests.MilliCPU, shape.Requests.Memory = 200+int64(w*7919%271), shape.Requests.Memory+int64(w)<<12
		}
		level := 0.6 * float64(podsPerNode) * float64(shape.Requests.MilliCPU)
		s.Workloads = append(s.Workloads, api.Workload{
			Key: key, Mode: api.ModeFull, Planner: "horizontal", Target: api.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: key.Name},
			MinReplicas: 1, MaxReplicas: 2 * podsPerNode, Replicas: podsPerNode, ReadyReplicas: podsPerNode, PlannedReplicas: podsPerNode,
			Shape: shape, SpeedNow: 1, Demand: demandOf(w, level), Behavior: behavior(),
		})
		for i := range podsPerNode {
			s.Pods = append(s.Pods, api.Pod{
				Key: api.Key{Namespace: "shop", Name: fmt.Sprintf("%s-%d", key.Name, i)}, UID: fmt.Sprintf("%s-%d", key.Name, i), Workload: key, Shape: shape,
				Node: s.Nodes[(w*7+i*31)%nodes].Name, Phase: "Running", Ready: true, ControllerKind: "ReplicaSet", ControllerName: key.Name,
				Created: now.Add(-history), ReadyAt: now.Add(-history),
			})
		}
	}
	policy := strategic.Defaults()[api.Performance]
	policy.NodePools, policy.ManagedPools = []string{"fast"}, []string{"cheap", "fast"}
	return s, policy
}

func pool(name string, size int32, allocatable api.Resources) api.Pool {
	return api.Pool{
		Name: name, MachineType: name, Zones: []string{"a"}, Sizes: []int32{size}, Allocatable: allocatable, Cores: allocatable.MilliCPU,
		Labels: map[string]string{api.LabelNodePool: name}, Price: 0.5, CPUSpeed: 1,
	}
}

func node(pool string, i int, allocatable api.Resources) api.Node {
	name := fmt.Sprintf("%s-%d", pool, i)
	return api.Node{
		Name: name, Pool: pool, Zone: "a", Ready: true, ProviderID: "gce://p/a/" + name, Allocatable: allocatable,
		Labels: map[string]string{"kubernetes.io/hostname": name, api.LabelNodePool: pool}, Created: now.Add(-history), ReadyAt: now.Add(-history),
	}
}

// demandOf a workload, in millicores: a wave of ten minutes, each in its own phase.
func demandOf(w int, level float64) api.Series {
	n := int(history / period)
	d := api.Series{Start: now.Add(-history), Step: period, Values: make([]float64, n)}
	for i := range d.Values {
		d.Values[i] = level * (1 + 0.1*math.Sin(2*math.Pi*float64(i+w%40)/40))
	}
	return d
}

func behavior() api.Behavior {
	return api.Behavior{Tolerance: 0.1}
}

// shrinking is the same cluster with a plan that calls every tenth node surplus.
func shrinking(s api.Snapshot) (api.Snapshot, api.Plan) {
	keep := int32(len(s.Nodes) - len(s.Nodes)/10)
	p := api.PoolPlan{Pool: "fast", SizePerZone: keep, Nodes: keep}
	for i := 0; i < len(s.Nodes); i += 10 {
		p.Surplus = append(p.Surplus, s.Nodes[i].Name)
	}
	s.Workloads = slices.Clone(s.Workloads)
	return s, planOf(s, "fast", p)
}

// switching is a move from the pool fast to cheap under way: all old nodes are cordoned,
// and half of the pods are on the new ones.
func switching(s api.Snapshot) (api.Snapshot, api.Plan, api.Policy) {
	n := len(s.Nodes)
	s.Nodes, s.Pods, s.Pools = slices.Clone(s.Nodes), slices.Clone(s.Pods), slices.Clone(s.Pools)
	for i := range n {
		s.Nodes[i].Cordoned, s.Nodes[i].CordonedFor, s.Nodes[i].CordonedAt = true, api.CordonMigration, now.Add(-time.Minute)
		s.Nodes = append(s.Nodes, node("cheap", i, s.Pools[1].Allocatable))
	}
	s.Pools[1].Sizes = []int32{int32(n)}
	for i := range s.Pods {
		if i%2 == 0 {
			s.Pods[i].Node = s.Nodes[n+i/2%n].Name
		}
	}
	policy := strategic.Defaults()[api.CostSaving]
	policy.NodePools, policy.ManagedPools = []string{"cheap"}, []string{"cheap", "fast"}
	return s, planOf(s, "cheap", api.PoolPlan{Pool: "cheap", SizePerZone: int32(n), Nodes: int32(n)}, api.PoolPlan{Pool: "fast"}), policy
}

// planOf keeps all replicas, on a pool.
func planOf(s api.Snapshot, on string, pools ...api.PoolPlan) api.Plan {
	plan := api.Plan{Nodes: api.NodePlan{Pools: pools}}
	for _, w := range s.Workloads {
		plan.Workloads = append(plan.Workloads, api.WorkloadPlan{
			Key: w.Key, Scale: api.Scale{Replicas: w.Replicas}, Pools: []api.PoolShare{{Pool: on, Replicas: w.Replicas}},
		})
	}
	return plan
}
