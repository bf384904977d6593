package execution_test

import (
	"fmt"
	"testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
)

// BenchmarkSequence is a cycle in the middle of a migration: 1,000 workloads,
// 10,000 pods, of which half have moved, 1,000 nodes in two pools.
func BenchmarkSequence(b *testing.B) {
	var s api.Snapshot
	plan := api.Plan{Nodes: api.NodePlan{Pools: []api.PoolPlan{{Pool: "cheap"}, {Pool: "fast", SizePerZone: 500, Nodes: 500}}}}
	for _, pool := range []string{"cheap", "fast"} {
		s.Pools = append(s.Pools, api.Pool{Name: pool, Zones: []string{"a"}, Sizes: []int32{500}, Allocatable: api.Resources{MilliCPU: 8000, Pods: 110}})
		for i := range 500 {
			n := api.Node{
				Name: fmt.Sprintf("%s-%d", pool, i), Pool: pool, Zone: "a", Ready: true,
				Allocatable: api.Resources{MilliCPU: 12000, Pods: 110},
			}
			if pool == "cheap" {
				n.Cordoned, n.CordonedFor = true, api.CordonMigration
			}
			s.Nodes = append(s.Nodes, n)
		}
	}
	for w := range 1000 {
		key := api.Key{Namespace: "shop", Name: fmt.Sprintf("web%04d", w)}
		own := &api.PodShape{ID: key.Name, Requests: api.Resources{MilliCPU: 200 + int64(w%7)*50, Pods: 1}}
		s.Workloads = append(s.Workloads, api.Workload{Key: key, Mode: api.ModeFull, Replicas: 10, MaxReplicas: 20, Shape: own})
		plan.Workloads = append(plan.Workloads, api.WorkloadPlan{Key: key, Scale: api.Scale{Replicas: 10}, Pools: on("fast", 10)})
		for i := range 10 {
			s.Pods = append(s.Pods, api.Pod{
				Key: api.Key{Namespace: "shop", Name: fmt.Sprintf("%s-%d", key.Name, i)}, Workload: key, Shape: own,
				Node: s.Nodes[(w*10+i)%1000].Name, Phase: "Running", Ready: true, ControllerKind: "ReplicaSet", ControllerName: key.Name,
			})
		}
	}
	policy := api.Policy{NodePools: []string{"fast"}, ManagedPools: []string{"cheap", "fast"}}
	b.ReportAllocs()
	for b.Loop() {
		if actions, _ := execution.Sequence(s, plan, policy); len(actions) == 0 {
			b.Fatal("nothing to do")
		}
	}
}

// BenchmarkShrink is a pool of which a tenth of the nodes are surplus, with 30 pods on
// each: the cycle in which they are cordoned, one in which they are being emptied, and
// one in which none of them finds room for its pods.
func BenchmarkShrink(b *testing.B) {
	for _, nodes := range []int{1000, 2500, 5000} {
		for _, c := range []struct {
			name     string
			cpu      int64
			cordoned bool
		}{
			{name: "begins", cpu: 12000},
			{name: "under way", cpu: 12000, cordoned: true},
			{name: "no room", cpu: 10200},
		} {
			b.Run(fmt.Sprintf("%s/%d nodes", c.name, nodes), func(b *testing.B) {
				s, plan, policy := shrinking(nodes, c.cpu, c.cordoned)
				b.ReportAllocs()
				for b.Loop() {
					if actions, findings := execution.Sequence(s, plan, policy); len(actions)+len(findings) < nodes/10 {
						b.Fatalf("%d actions, %d findings", len(actions), len(findings))
					}
				}
			})
		}
	}
}

// shrinking is a cluster of one pool of nodes with so many millicores, of which about
// 10,000 are requested by 30 pods of as many workloads as there are nodes. The plan calls
// every tenth node surplus.
func shrinking(nodes int, cpu int64, cordoned bool) (api.Snapshot, api.Plan, api.Policy) {
	s := api.Snapshot{Pools: []api.Pool{{
		Name: "fast", Zones: []string{"a"}, Sizes: []int32{int32(nodes)}, Allocatable: api.Resources{MilliCPU: cpu, Memory: 32 << 30, Pods: 110},
	}}}
	keep := int32(nodes - nodes/10)
	pool := api.PoolPlan{Pool: "fast", SizePerZone: keep, Nodes: keep}
	for i := range nodes {
		n := api.Node{
			Name: fmt.Sprintf("fast-%d", i), Pool: "fast", Zone: "a", Ready: true, ProviderID: fmt.Sprintf("gce://p/a/fast-%d", i),
			Labels:      map[string]string{"kubernetes.io/hostname": fmt.Sprintf("fast-%d", i)},
			Allocatable: s.Pools[0].Allocatable,
		}
		if i%10 == 0 {
			pool.Surplus = append(pool.Surplus, n.Name)
			if cordoned {
				n.Cordoned, n.CordonedFor = true, api.CordonShrink
			}
		}
		s.Nodes = append(s.Nodes, n)
	}
	plan := api.Plan{Nodes: api.NodePlan{Pools: []api.PoolPlan{pool}}}
	for w := range nodes {
		key := api.Key{Namespace: "shop", Name: fmt.Sprintf("web%04d", w)}
		own := &api.PodShape{ID: key.Name, Requests: api.Resources{MilliCPU: 200 + int64(w%7)*45, Memory: 256 << 20, Pods: 1}}
		s.Workloads = append(s.Workloads, api.Workload{Key: key, Mode: api.ModeFull, Replicas: 30, MaxReplicas: 60, Shape: own})
		plan.Workloads = append(plan.Workloads, api.WorkloadPlan{Key: key, Scale: api.Scale{Replicas: 30}, Pools: on("fast", 30)})
		for i := range 30 {
			s.Pods = append(s.Pods, api.Pod{
				Key: api.Key{Namespace: "shop", Name: fmt.Sprintf("%s-%d", key.Name, i)}, Workload: key, Shape: own,
				Node: s.Nodes[(w*7+i*31)%nodes].Name, Phase: "Running", Ready: true, ControllerKind: "ReplicaSet", ControllerName: key.Name,
			})
		}
	}
	return s, plan, api.Policy{NodePools: []string{"fast"}, ManagedPools: []string{"fast"}}
}
