package node

import (
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Nodes that don't become Ready are replaced while they are few; where they are many the pool
// does not grow for them, and those without pods are given up.
func TestNodesThatDoNotBecomeReady(t *testing.T) {
	for name, tc := range map[string]struct {
		world   func(w *world)
		want    int32
		unready int32
	}{
		"three are replaced": {
			world: func(w *world) { unready(w, 1, 1) }, want: 3,
		},
		"those made in their place, which don't either, are not": {
			world: func(w *world) { unready(w, 1, 2) }, want: 3, unready: 6,
		},
		"a third of many is replaced": {
			world: func(w *world) { unready(w, 6, 3) }, want: 12,
		},
		"all of a pool, as of a broken network": {
			world: func(w *world) { unready(w, 0, 10) }, want: 10, unready: 30,
		},
		"those that boot are waited for": {
			world: func(w *world) {
				unready(w, 1, 5)
				for i := range w.Nodes {
					w.Nodes[i].Created = noon.Add(-time.Minute)
				}
			},
			want: 6,
		},
		"one that was Ready a moment ago is waited for": {
			world: func(w *world) {
				unready(w, 1, 1)
				for i := range w.Nodes {
					w.Nodes[i].UnreadyAt = noon.Add(-15 * time.Second)
				}
			},
			want: 2,
		},
		"one that was Ready long ago is not": {
			world: func(w *world) {
				unready(w, 1, 1)
				for i := range w.Nodes {
					w.Nodes[i].UnreadyAt = noon.Add(-time.Hour)
				}
			},
			want: 3,
		},
		"more pods than they would hold need more": {
			world: func(w *world) { unready(w, 1, 2); w.workload("more", shapeOf(1000), 0, 3) }, want: 4, unready: 6,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			tc.world(w)
			one := w.plan(t).Pools[1]
			if one.SizePerZone != tc.want || one.Unready != tc.unready {
				t.Errorf("%d per zone, %d not Ready; want %d and %d: %s", one.SizePerZone, one.Unready, tc.want, tc.unready, one.Reason)
			}
		})
	}
	w := newWorld()
	unready(w, 1, 2)
	w.demands[0].Replicas, w.demands[0].NodeReplicas, w.Pods = 3, 3, w.Pods[:3]
	if got := briefly(w.plan(t)); got.Slow != 1 || len(got.Surplus) != 6 {
		t.Errorf("where no pods wait for them: %+v", got)
	}
}

// unready adds nodes to each zone of slow, so many Ready and so many not for long, and a pod
// for each; those for nodes that aren't Ready wait.
func unready(w *world, ready, lost int) {
	w.level("slow", ready+lost)
	shop := w.workload("shop", shapeOf(1000), int32(len(w.Nodes)), int32(len(w.Nodes)))
	for i := range w.Nodes {
		if i < 3*ready {
			w.pod(shop, shapeOf(1000), w.Nodes[i].Name)
			continue
		}
		w.Nodes[i].Ready = false
		w.pod(shop, shapeOf(1000), "")
	}
}

// There are as many nodes as the pods need that are planned or can't be left out.
func TestPlanGrows(t *testing.T) {
	planCases{
		"nothing to run needs no nodes": {
			world: func(*world) {},
		},
		"seven nodes in three zones are three per zone": {
			world: func(w *world) { w.workload("shop", shapeOf(500), 0, 14) },
			want:  brief{Slow: 3},
		},
		"pods slots count": {
			world: func(w *world) { w.workload("many", shapeOf(1), 0, 31) }, // 10 per node
			want:  brief{Slow: 2},
		},
		"one copy per node": {
			world: func(w *world) {
				w.workload("proxy", alone(10), 0, 4)
			},
			want: brief{Slow: 2},
		},
		"one copy per node is per workload": {
			world: func(w *world) {
				w.workload("proxy", alone(10), 0, 3)
				w.workload("cache", alone(10), 0, 3)
			},
			want: brief{Slow: 1},
		},
		"new pods go where free space is, not where it would be after repacking": {
			// Six nodes with 600m each have 2400m free, in pieces of 400m.
			world: func(w *world) {
				w.level("slow", 2)
				shop := w.workload("shop", shapeOf(600), 6, 6)
				w.podOnEach(shop, shapeOf(600))
				w.workload("till", shapeOf(500), 0, 1)
			},
			want: brief{Slow: 3},
		},
		"the surge of a rollout needs room": {
			world: func(w *world) {
				w.level("slow", 1)
				shop := w.workload("shop", shapeOf(1000), 3, 3)
				w.Workloads[0].RollingOut = true
				for _, n := range []string{"slow-a-1", "slow-b-1", "slow-c-1", ""} {
					w.pod(shop, shapeOf(1000), n)
				}
			},
			want: brief{Slow: 2},
		},
		"terminating pods need none": {
			world: func(w *world) {
				w.level("slow", 1)
				w.pod(api.Key{}, shapeOf(1000), "slow-a-1").Terminating = true
			},
			want: brief{Surplus: []string{"slow-a-1", "slow-b-1", "slow-c-1"}},
		},
		"a plan in shadow counts with the replicas that run": {
			world: func(w *world) {
				w.workload("shop", shapeOf(1000), 2, 9)
				w.demands[0].Shadow = true
			},
			want: brief{Slow: 1},
		},
		"a pending pod that the pool could take is counted": {
			world: func(w *world) { w.pod(api.Key{}, shapeOf(100), "") },
			want:  brief{Slow: 1},
		},
		"other pods of the pool count as they are": {
			world: func(w *world) {
				w.level("slow", 1)
				w.pod(api.Key{}, shapeOf(900), "slow-a-1")
				w.pod(api.Key{}, shapeOf(900), "slow-b-1")
				w.pod(api.Key{}, shapeOf(900), "slow-c-1")
				w.workload("shop", shapeOf(500), 0, 2)
			},
			want: brief{Slow: 2},
		},
	}.run(t)
}

// Pools keep to their minimum and maximum, and what has no room then is said.
func TestPlanKeepsToLimits(t *testing.T) {
	planCases{
		"the pool's minimum is kept": {
			world: func(w *world) {
				w.pool("slow").MinPerZone = 2
				w.workload("shop", shapeOf(500), 0, 2)
			},
			want: brief{Slow: 2},
		},
		"the pool's maximum leaves pods over": {
			world: func(w *world) {
				w.pool("slow").MaxPerZone = 1
				w.workload("shop", shapeOf(500), 0, 14)
			},
			want: brief{Slow: 1, Unplaced: []string{"8 web/shop: pool slow is at its maximum of 3 nodes"}},
		},
		"a maximum leaves pods over": {
			world: func(w *world) {
				w.most = 8 // 2 per zone
				w.workload("shop", shapeOf(500), 0, 14)
			},
			want: brief{Slow: 2, Unplaced: []string{"2 web/shop: pool slow is at its maximum of 6 nodes"}},
		},
		"a maximum below what runs gives up nothing that is in use": {
			world: func(w *world) {
				w.most = 3
				w.level("slow", 2)
				shop := w.workload("shop", shapeOf(1000), 6, 6)
				w.podOnEach(shop, shapeOf(1000))
			},
			want: brief{Slow: 1, Unplaced: []string{"3 web/shop: pool slow is at its maximum of 3 nodes"}},
		},
		"a pool that the provider resizes stays as it is": {
			world: func(w *world) {
				w.level("slow", 1)
				w.pool("slow").Autoscaled = true
				w.workload("shop", shapeOf(1000), 0, 9)
			},
			want: brief{Slow: 1},
		},
	}.run(t)
}

// A node offers what its DaemonSets, its taints and its state leave.
func TestPlanKnowsWhatNodesOffer(t *testing.T) {
	planCases{
		"DaemonSet pods take from every node": {
			// 1000m − 600m leaves room for one pod of 300m, not three.
			world: func(w *world) {
				w.pool("slow").Overhead = api.Resources{MilliCPU: 600, Pods: 2}
				w.workload("shop", shapeOf(300), 0, 6)
			},
			want: brief{Slow: 2},
		},
		"GPUs count, and only nodes that have them serve": {
			// Two of a node's GPUs, less the one that a DaemonSet takes, leave one.
			world: func(w *world) {
				gpu := map[string]int64{"nvidia.com/gpu": 2}
				w.open = []string{"slow", "fast"}
				w.pool("fast").Allocatable.Extended = gpu
				w.pool("fast").Overhead.Extended = map[string]int64{"nvidia.com/gpu": 1}
				shape := shapeOf(10)
				shape.ID, shape.Requests.Extended = "gpu", map[string]int64{"nvidia.com/gpu": 1}
				w.workload("train", shape, 0, 6)
			},
			want: brief{Fast: 2},
		},
		"a pod larger than a node is unplaced": {
			world: func(w *world) { w.workload("huge", shapeOf(3000), 0, 1) },
			want:  brief{Unplaced: []string{"1 web/huge: cpu=3000m memory=67108864 pods=1 is more than an empty node of a managed pool has"}},
		},
		"a pool's taint keeps pods away": {
			world: func(w *world) {
				w.pool("slow").Taints = []api.Taint{{Key: "only", Value: "batch", Effect: "NoSchedule"}}
				batch := shapeOf(500)
				batch.ID, batch.Tolerations = "batch", []api.Toleration{{Key: "only", Operator: "Exists"}}
				w.workload("batch", batch, 0, 2)
				w.workload("shop", shapeOf(500), 0, 2)
			},
			want: brief{Slow: 1, Fast: 1},
		},
		"a node someone else has cordoned counts and offers nothing": {
			world: func(w *world) {
				w.level("slow", 1)
				w.Nodes[0].Cordoned = true
				w.workload("shop", shapeOf(1000), 0, 3)
			},
			want: brief{Slow: 2},
		},
		"a booting node is counted on": {
			world: func(w *world) {
				w.level("slow", 1)
				for i := range w.Nodes {
					w.Nodes[i].Ready, w.Nodes[i].Created, w.Nodes[i].Allocatable = false, noon.Add(-time.Minute), api.Resources{}
				}
				w.workload("shop", shapeOf(1000), 0, 3)
			},
			want: brief{Slow: 1},
		},
		"a node that never became Ready is not": {
			world: func(w *world) {
				w.level("slow", 1)
				w.Nodes[0].Ready, w.Nodes[0].Created = false, noon.Add(-181*time.Second) // 2 × 90 s
				w.workload("shop", shapeOf(1000), 0, 3)
			},
			want: brief{Slow: 2},
		},
	}.run(t)
}

// Zones of a pool are as large as one another.
func TestPlanKnowsZones(t *testing.T) {
	planCases{
		"a pod of one zone makes all zones as large": {
			world: func(w *world) {
				w.workload("disk", selecting(api.LabelZone, "b"), 0, 2)
			},
			want: brief{Slow: 2},
		},
		"pods of one zone leave the other zones' nodes to the rest": {
			world: func(w *world) {
				w.workload("disk", selecting(api.LabelZone, "b"), 0, 2)
				w.workload("shop", shapeOf(1000), 0, 4)
			},
			want: brief{Slow: 2},
		},
		"one copy per zone": {
			world: func(w *world) {
				apart := shapeOf(10)
				apart.ID, apart.MaxPerZone = "apart", 1
				w.workload("etcd", apart, 0, 5)
			},
			want: brief{Slow: 1, Unplaced: []string{"2 web/etcd: at most 1 of it may run in each of 3 zones"}},
		},
		"copies that are spread over zones get no room from one of them": {
			world: func(w *world) {
				w.level("slow", 1)
				shop := w.workload("shop", shapeOf(1000), 2, 2)
				w.pod(shop, shapeOf(1000), "slow-b-1")
				w.pod(shop, shapeOf(1000), "slow-c-1")
				w.workload("front", even(250), 0, 3)
			},
			want: brief{Slow: 2},
		},
		"a pool of one zone has all its nodes, whatever zone they are labelled with": {
			world: func(w *world) {
				otherwise(w, "", "b", "b")
				shop := w.workload("shop", shapeOf(1000), 2, 3)
				w.podOnEach(shop, shapeOf(1000))
			},
			want: brief{Slow: 3},
		},
		"and gives up those that it does not need": {
			world: func(w *world) {
				otherwise(w, "1", "b", "c", "c")
				shop := w.workload("shop", shapeOf(1000), 1, 1)
				w.pod(shop, shapeOf(1000), "slow-b-1")
			},
			want: brief{Slow: 1, Surplus: []string{"slow-c-1", "slow-c-2"}},
		},
		"and its nodes have room for copies that are spread": {
			world: func(w *world) {
				otherwise(w, "", "b", "c")
				w.workload("front", even(250), 0, 8)
			},
			want: brief{Slow: 2},
		},
		"copies are spread over zones that pools of one zone each are called by": {
			world: func(w *world) {
				otherwise(w, "b", "b", "b")
				w.pool("fast").Zones, w.pool("fast").Sizes = []string{"c"}, []int32{0}
				w.open = []string{"fast", "slow"}
				w.workload("front", even(1000), 0, 2)
			},
			want: brief{Slow: 1, Fast: 1, Surplus: []string{"slow-b-2"}},
		},
		"and where each zone has room no more nodes": {
			world: func(w *world) {
				w.level("slow", 1)
				front := w.workload("front", even(250), 4, 12)
				for range 4 {
					w.pod(front, even(250), "slow-a-1")
				}
			},
			want: brief{Slow: 1},
		},
	}.run(t)
}

// otherwise has nodes of slow that are labelled with these zones, while the pool's only one is called
// something else.
func otherwise(w *world, called string, labelled ...string) {
	for _, zone := range labelled {
		w.node("slow", zone)
	}
	p := w.pool("slow")
	p.Zones, p.Sizes = []string{called}, []int32{int32(len(labelled))}
}

// Pods belong to the open pool, to another managed one, or to nodes of none.
func TestPlanOfSeveralPools(t *testing.T) {
	planCases{
		"pods of unmanaged pools are left out": {
			world: func(w *world) {
				w.Nodes = append(w.Nodes, api.Node{Name: "other-1", Pool: "other", Ready: true})
				w.pod(api.Key{}, shapeOf(900), "other-1")
				shop := w.workload("shop", shapeOf(500), 1, 3)
				w.pod(shop, shapeOf(500), "other-1")
			},
			want: brief{Slow: 1},
		},
		"a pending pod that only an unmanaged pool accepts is left out": {
			world: func(w *world) {
				w.pod(api.Key{}, selecting("gpu", "yes"), "")
			},
		},
		"a pending pod that the scheduler has not tried is left to an unmanaged node": {
			world: func(w *world) {
				w.Nodes = append(w.Nodes, api.Node{Name: "other-1", Pool: "other", Ready: true})
				w.pod(api.Key{}, shapeOf(100), "").Unschedulable = false
			},
		},
		"a pod behind a scheduling gate asks for no node": {
			world: func(w *world) {
				p := w.pod(api.Key{}, shapeOf(900), "")
				p.Unschedulable, p.Gated = false, true
			},
		},
		"one of a managed workload is one of its replicas": {
			world: func(w *world) {
				p := w.pod(w.workload("shop", shapeOf(500), 1, 3), shapeOf(500), "")
				p.Unschedulable, p.Gated = false, true
			},
			want: brief{Slow: 1},
		},
		"a managed workload that no pool accepts is unplaced": {
			world: func(w *world) {
				w.workload("vision", selecting("gpu", "yes"), 0, 2)
			},
			want: brief{Unplaced: []string{"2 web/vision: node selector, node affinity or taints keep it off every managed pool"}},
		},
		"a managed workload that only an unmanaged node accepts is left out": {
			world: func(w *world) {
				w.Nodes = append(w.Nodes, api.Node{Name: "other-1", Pool: "other", Ready: true, Labels: map[string]string{"gpu": "yes"}})
				w.workload("vision", selecting("gpu", "yes"), 0, 2)
			},
		},
		"a pod too large for the open pool belongs to another managed one": {
			world: func(w *world) { w.workload("large", shapeOf(1500), 0, 1) },
			want:  brief{Fast: 1},
		},
		"what runs in another managed pool moves to the open one": {
			world: func(w *world) {
				w.level("fast", 1)
				shop := w.workload("shop", shapeOf(500), 4, 4)
				for range 4 {
					w.pod(shop, shapeOf(500), "fast-a-1")
				}
				w.pod(api.Key{}, shapeOf(900), "fast-b-1")
			},
			want: brief{Slow: 1, Surplus: []string{"fast-a-1", "fast-b-1", "fast-c-1"}},
		},
	}.run(t)
}

// Nodes go when their pods have room elsewhere.
func TestPlanGivesUpNodes(t *testing.T) {
	planCases{
		"DaemonSet pods are not moved and hold no node": {
			world: func(w *world) {
				w.level("slow", 1)
				for _, n := range w.Nodes {
					w.pod(api.Key{}, shapeOf(100), n.Name).DaemonSet = true
				}
			},
			want: brief{Slow: 0, Surplus: []string{"slow-a-1", "slow-b-1", "slow-c-1"}},
		},
		"a node with a bare pod is kept, in all zones": {
			world: func(w *world) {
				w.level("fast", 2)
				w.pod(api.Key{}, shapeOf(100), "fast-a-1").ControllerKind = ""
			},
			want: brief{Fast: 1, Surplus: []string{"fast-a-2", "fast-b-1", "fast-c-1"}},
		},
		"a node with a pod that must not be disturbed is kept": {
			world: func(w *world) {
				w.level("slow", 1)
				w.pod(api.Key{}, shapeOf(100), "slow-c-1").DoNotDisrupt = "local storage"
			},
			want: brief{Slow: 1},
		},
		"one node per zone is given up when the pods fit on the rest": {
			world: func(w *world) {
				w.level("slow", 2)
				shop := w.workload("shop", shapeOf(300), 6, 6)
				w.podOnEach(shop, shapeOf(300))
			},
			want: brief{Slow: 1, Surplus: []string{"slow-a-1", "slow-b-1", "slow-c-1"}},
		},
		"nodes stay when their pods would fit only after moving others": {
			// 600m on each of six nodes: 3600m in all, but no two fit together.
			world: func(w *world) {
				w.level("slow", 2)
				shop := w.workload("shop", shapeOf(600), 6, 6)
				w.podOnEach(shop, shapeOf(600))
			},
			want: brief{Slow: 2},
		},
		"emptying nodes in only some zones saves nothing": {
			world: func(w *world) {
				w.level("slow", 2)
				shop := w.workload("shop", shapeOf(1000), 4, 4)
				for _, n := range []string{"slow-a-1", "slow-b-1", "slow-c-1", "slow-c-2"} {
					w.pod(shop, shapeOf(1000), n)
				}
			},
			want: brief{Slow: 2},
		},
		"pods that leave are those of the emptiest nodes": {
			world: func(w *world) {
				w.level("slow", 2)
				shop := w.workload("shop", shapeOf(500), 9, 6)
				for _, n := range []string{"slow-a-1", "slow-a-1", "slow-a-2", "slow-b-1", "slow-b-2", "slow-b-2", "slow-c-1", "slow-c-1", "slow-c-2"} {
					w.pod(shop, shapeOf(500), n)
				}
			},
			want: brief{Slow: 1, Surplus: []string{"slow-a-2", "slow-b-1", "slow-c-2"}},
		},
		"a node cordoned for removal is given up again": {
			world: func(w *world) {
				w.level("slow", 2)
				for i, n := range w.Nodes {
					if strings.HasSuffix(n.Name, "-2") {
						w.Nodes[i].Cordoned, w.Nodes[i].CordonedFor = true, api.CordonShrink
					}
				}
				shop := w.workload("shop", shapeOf(500), 6, 6)
				for _, n := range []string{"slow-a-1", "slow-a-2", "slow-b-1", "slow-b-2", "slow-c-1", "slow-c-2"} {
					w.pod(shop, shapeOf(500), n)
				}
			},
			want: brief{Slow: 1, Surplus: []string{"slow-a-2", "slow-b-2", "slow-c-2"}},
		},
	}.run(t)
}
