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
