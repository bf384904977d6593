package node

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

// Nodes are kept where giving them up saves nothing: a zone in which a pool has no
// more nodes than it is to have gives none up, whatever they hold.
func TestNodesThatAreNeededAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := worlds().Draw(t, "world")
		plan := w.planFor(t)
		for _, one := range plan.Pools {
			for _, zone := range w.pool(one.Pool).Zones {
				there, surplus := int32(0), 0
				for _, n := range w.Nodes {
					if n.Pool == one.Pool && n.Zone == zone {
						there++
						if slices.Contains(one.Surplus, n.Name) {
							surplus++
						}
					}
				}
				if there <= one.SizePerZone && surplus > 0 {
					t.Fatalf("%s: zone %s has %d nodes of %d and gives up %d: %+v", one.Pool, zone, there, one.SizePerZone, surplus, one)
				}
			}
		}
	})
}

// Of nodes that cost the same, those are given up from which the fewest pods move.
// With pods of one shape any of them could be: what fits elsewhere of one does of all.
func TestOfEqualNodesThoseWithFewestPodsGo(t *testing.T) {
	gaveUp := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		shape := shapeOf(rapid.SampledFrom([]int64{200, 300, 500}).Draw(t, "cpu"))
		full := int(1000 / shape.Requests.MilliCPU)
		shop := w.workload("shop", shape, 0, 0)
		pods := map[string]int{}
		for _, zone := range []string{"a", "b", "c"} {
			for range rapid.IntRange(1, 5).Draw(t, "nodes") {
				name := w.node("slow", zone).Name
				for range rapid.IntRange(0, full).Draw(t, "pods") {
					w.pod(shop, shape, name)
					pods[name]++
				}
			}
		}
		n := int32(len(w.Pods))
		w.Workloads[0].Replicas = n
		w.plans[0] = api.WorkloadPlan{Key: shop, Replicas: n, NodeReplicas: n, Current: n}
		for _, one := range w.planFor(t).Pools {
			for _, name := range one.Surplus {
				gaveUp++
				zone := w.Nodes[slices.IndexFunc(w.Nodes, func(n api.Node) bool { return n.Name == name })].Zone
				for _, other := range w.Nodes {
					if other.Pool == one.Pool && other.Zone == zone && !slices.Contains(one.Surplus, other.Name) && pods[other.Name] < pods[name] {
						t.Fatalf("%s with %d pods is given up, %s with %d is kept: %s", name, pods[name], other.Name, pods[other.Name], fmt.Sprint(pods))
					}
				}
			}
		}
	})
	if gaveUp == 0 {
		t.Fatal("no node was ever given up: nothing has been tested")
	}
}
