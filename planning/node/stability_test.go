package node

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
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
		w.demands[0] = api.NodeDemand{Key: shop, Scale: api.Scale{Replicas: n}, NodeReplicas: n}
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

// With pods of several shapes, what goes and what moves is compared with the best of all
// choices, by trying them: nodes are given up first fit, which is nearly that.
func TestGivingUpNodesIsNearlyTheBestChoice(t *testing.T) {
	const worlds = 1000
	r := rand.New(rand.NewPCG(1, 1))
	var gaveUp, could, moved, least int
	for range worlds {
		w, pods := crowdedNodes(r)
		gone := 0
		for _, one := range w.planFor(t).Pools {
			for _, name := range one.Surplus {
				gone |= 1 << slices.IndexFunc(w.Nodes, func(n api.Node) bool { return n.Name == name })
			}
		}
		fewest, most := 0, 0
		for set := range 1 << len(pods) {
			if n := bits.OnesCount(uint(set)); n >= bits.OnesCount(uint(gone)) && canLeave(pods, set) {
				most = max(most, n)
				if m := podsOf(pods, set); n == bits.OnesCount(uint(gone)) && (fewest == 0 || m+1 < fewest) {
					fewest = m + 1
				}
			}
		}
		if fewest == 0 {
			t.Fatalf("%v: nodes %b are given up, and what is on them fits nowhere", pods, gone)
		}
		gaveUp, could = gaveUp+bits.OnesCount(uint(gone)), could+most
		moved, least = moved+podsOf(pods, gone), least+fewest-1
	}
	t.Logf("%d worlds: %d nodes given up of %d that could be, %d pods moved where %d had to", worlds, gaveUp, could, moved, least)
	if float64(gaveUp) < 0.98*float64(could) || float64(moved) > 1.01*float64(least) {
		t.Errorf("%d nodes given up of %d, %d pods moved where %d had to", gaveUp, could, moved, least)
	}
}

// crowdedNodes is a world of two to six nodes in one zone with pods of four shapes, and
// the pods' CPU by node.
func crowdedNodes(r *rand.Rand) (*world, [][]int64) {
	w := newWorld()
	w.pool("slow").Zones, w.pool("slow").Sizes = []string{"a"}, []int32{0}
	keys, count := map[int64]api.Key{}, map[api.Key]int32{}
	pods := make([][]int64, 2+r.IntN(5))
	for n := range pods {
		name, left := w.node("slow", "a").Name, int64(1000)
		for range r.IntN(6) {
			cpu := []int64{100, 200, 300, 450}[r.IntN(4)]
			if cpu > left {
				continue
			}
			left -= cpu
			if _, ok := keys[cpu]; !ok {
				keys[cpu] = w.workload(fmt.Sprint("w", cpu), shapeOf(cpu), 0, 0)
			}
			w.pod(keys[cpu], shapeOf(cpu), name)
			count[keys[cpu]]++
			pods[n] = append(pods[n], cpu)
		}
	}
	for i := range w.Workloads {
		n := count[w.Workloads[i].Key]
		w.Workloads[i].Replicas = n
		w.demands[i] = api.NodeDemand{Key: w.Workloads[i].Key, Scale: api.Scale{Replicas: n}, NodeReplicas: n}
	}
	return w, pods
}

// podsOf counts the pods on a set of nodes.
func podsOf(pods [][]int64, set int) (n int) {
	for i, on := range pods {
		n += (set >> i & 1) * len(on)
	}
	return n
}

// canLeave tries every way to put what is on a set of nodes of a core onto the others.
func canLeave(pods [][]int64, set int) bool {
	var free, leaving []int64
	for i, on := range pods {
		if set>>i&1 == 1 {
			leaving = append(leaving, on...)
			continue
		}
		left := int64(1000)
		for _, cpu := range on {
			left -= cpu
		}
		free = append(free, left)
	}
	var fits func(n int) bool
	fits = func(n int) bool {
		if n == len(leaving) {
			return true
		}
		for i := range free {
			if free[i] >= leaving[n] {
				free[i] -= leaving[n]
				if fits(n + 1) {
					return true
				}
				free[i] += leaving[n]
			}
		}
		return false
	}
	return fits(0)
}
