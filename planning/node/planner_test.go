package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

const gib = 1 << 30

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// world builds snapshots: pools, nodes and pods in few words.
type world struct {
	api.Snapshot
	demands []api.NodeDemand
	// open pools take pods; the others are to be emptied.
	open []string
	// most nodes of an open pool over all zones; 0 for no limit.
	most int32
}

// newWorld has the pools "slow" (1 core, 4 GiB, 10 pods; 0.03 USD/h) and
// "fast" (2 cores, 8 GiB, 10 pods; 0.1 USD/h) in three zones, no nodes, and
// slow open.
func newWorld() *world {
	w := &world{Snapshot: api.Snapshot{Time: noon}}
	for _, p := range []api.Pool{
		{Name: "fast", Allocatable: api.Resources{MilliCPU: 2000, Memory: 8 * gib, Pods: 10}, Price: .1},
		{Name: "slow", Allocatable: api.Resources{MilliCPU: 1000, Memory: 4 * gib, Pods: 10}, Price: .03},
	} {
		p.Zones, p.Sizes = []string{"a", "b", "c"}, []int32{0, 0, 0}
		p.BootLead = api.Lead{P50: time.Minute, P90: 90 * time.Second}
		w.Pools = append(w.Pools, p)
	}
	w.open = []string{"slow"}
	return w
}

// input asks for nodes within each pool's own bounds and the limit.
func (w *world) input() api.NodeInput {
	in := api.NodeInput{Snapshot: w.Snapshot, Demands: w.demands}
	for _, p := range w.Pools {
		b := api.PoolBounds{Pool: p.Name, MinPerZone: p.MinPerZone, MaxPerZone: p.MaxPerZone, Open: slices.Contains(w.open, p.Name)}
		if b.MaxPerZone == 0 {
			b.MaxPerZone = api.Unlimited
		}
		if perZone := w.most / int32(max(1, len(p.Zones))); w.most > 0 && (b.MaxPerZone < 0 || perZone < b.MaxPerZone) {
			b.MaxPerZone = perZone
		}
		in.Bounds = append(in.Bounds, b)
	}
	for _, name := range w.open {
		if !slices.ContainsFunc(w.Pools, func(p api.Pool) bool { return p.Name == name }) {
			in.Bounds = append(in.Bounds, api.PoolBounds{Pool: name, Open: true})
		}
	}
	return in
}

func (w *world) pool(name string) *api.Pool {
	i := slices.IndexFunc(w.Pools, func(p api.Pool) bool { return p.Name == name })
	return &w.Pools[i]
}

// node adds a Ready node "pool-zone-n".
func (w *world) node(pool, zone string) *api.Node {
	p := w.pool(pool)
	z := slices.Index(p.Zones, zone)
	p.Sizes[z]++
	w.Nodes = append(w.Nodes, api.Node{
		Name: fmt.Sprintf("%s-%s-%d", pool, zone, p.Sizes[z]), Pool: pool, Zone: zone,
		Labels:      map[string]string{api.LabelNodePool: pool, api.LabelZone: zone, labelHostname: fmt.Sprintf("%s-%s-%d", pool, zone, p.Sizes[z])},
		Allocatable: p.Allocatable, Taints: p.Taints, Ready: true, Created: noon.Add(-time.Hour), ReadyAt: noon.Add(-time.Hour),
	})
	return &w.Nodes[len(w.Nodes)-1]
}

// level adds n nodes in every zone of a pool.
func (w *world) level(pool string, n int) {
	for range n {
		for _, z := range w.pool(pool).Zones {
			w.node(pool, z)
		}
	}
}

func shapeOf(milli int64) *api.PodShape {
	return &api.PodShape{ID: fmt.Sprintf("cpu-%d", milli), Requests: api.Resources{MilliCPU: milli, Memory: 64 << 20, Pods: 1}}
}

// workload adds a planned workload of n replicas.
func (w *world) workload(name string, shape *api.PodShape, replicas, planned int32) api.Key {
	key := api.Key{Namespace: "web", Name: name}
	w.Workloads = append(w.Workloads, api.Workload{Key: key, Shape: shape, Replicas: replicas})
	w.demands = append(w.demands, api.NodeDemand{Key: key, Scale: api.Scale{Replicas: planned}, NodeReplicas: planned})
	return key
}

// pod adds a pod; node "" leaves it pending.
func (w *world) pod(owner api.Key, shape *api.PodShape, node string) *api.Pod {
	w.Pods = append(w.Pods, api.Pod{
		Key: api.Key{Namespace: "web", Name: fmt.Sprintf("p%d", len(w.Pods))}, Shape: shape, Node: node,
		Workload: owner, ControllerKind: "ReplicaSet", ControllerName: owner.Name, Ready: node != "",
		Unschedulable: node == "",
	})
	return &w.Pods[len(w.Pods)-1]
}

func (w *world) plan(t *testing.T) api.NodePlan {
	t.Helper()
	p, err := New(Config{Solver: "ffd"})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.PlanNodes(w.input())
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// brief is what the tables compare of a plan: sizes per zone by pool, what is
// given up, what is unplaced.
type brief struct {
	Slow, Fast int32
	Surplus    []string
	Unplaced   []string
}

func briefly(p api.NodePlan) brief {
	var b brief
	for _, one := range p.Pools {
		switch one.Pool {
		case "slow":
			b.Slow = one.SizePerZone
		case "fast":
			b.Fast = one.SizePerZone
		}
		b.Surplus = append(b.Surplus, one.Surplus...)
	}
	slices.Sort(b.Surplus)
	for _, u := range p.Unplaced {
		b.Unplaced = append(b.Unplaced, fmt.Sprintf("%d %s: %s", u.Count, u.Name, u.Reason))
	}
	return b
}

func TestPlanNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		world func(w *world)
		want  brief
	}{
		"nothing to run needs no nodes": {
			world: func(*world) {},
		},
		"seven nodes in three zones are three per zone": {
			world: func(w *world) { w.workload("shop", shapeOf(500), 0, 14) },
			want:  brief{Slow: 3},
		},
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
				for _, n := range w.Nodes {
					w.pod(shop, shapeOf(1000), n.Name)
				}
			},
			want: brief{Slow: 1, Unplaced: []string{"3 web/shop: pool slow is at its maximum of 3 nodes"}},
		},
		"DaemonSet pods take from every node": {
			// 1000m − 600m leaves room for one pod of 300m, not three.
			world: func(w *world) {
				w.pool("slow").Overhead = api.Resources{MilliCPU: 600, Pods: 2}
				w.workload("shop", shapeOf(300), 0, 6)
			},
			want: brief{Slow: 2},
		},
		"DaemonSet pods are not moved and hold no node": {
			world: func(w *world) {
				w.level("slow", 1)
				for _, n := range w.Nodes {
					w.pod(api.Key{}, shapeOf(100), n.Name).DaemonSet = true
				}
			},
			want: brief{Slow: 0, Surplus: []string{"slow-a-1", "slow-b-1", "slow-c-1"}},
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
		"pods slots count": {
			world: func(w *world) { w.workload("many", shapeOf(1), 0, 31) }, // 10 per node
			want:  brief{Slow: 2},
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
				gpu := shapeOf(100)
				gpu.ID, gpu.NodeSelector = "gpu", map[string]string{"gpu": "yes"}
				w.pod(api.Key{}, gpu, "")
			},
		},
		"a pending pod that the pool could take is counted": {
			world: func(w *world) { w.pod(api.Key{}, shapeOf(100), "") },
			want:  brief{Slow: 1},
		},
		"a pending pod that the scheduler has not tried is left to an unmanaged node": {
			world: func(w *world) {
				w.Nodes = append(w.Nodes, api.Node{Name: "other-1", Pool: "other", Ready: true})
				w.pod(api.Key{}, shapeOf(100), "").Unschedulable = false
			},
		},
		"a managed workload that no pool accepts is unplaced": {
			world: func(w *world) {
				gpu := shapeOf(100)
				gpu.ID, gpu.NodeSelector = "gpu", map[string]string{"gpu": "yes"}
				w.workload("vision", gpu, 0, 2)
			},
			want: brief{Unplaced: []string{"2 web/vision: node selector, node affinity or taints keep it off every managed pool"}},
		},
		"a managed workload that only an unmanaged node accepts is left out": {
			world: func(w *world) {
				w.Nodes = append(w.Nodes, api.Node{Name: "other-1", Pool: "other", Ready: true, Labels: map[string]string{"gpu": "yes"}})
				gpu := shapeOf(100)
				gpu.ID, gpu.NodeSelector = "gpu", map[string]string{"gpu": "yes"}
				w.workload("vision", gpu, 0, 2)
			},
		},
		"a pod larger than a node is unplaced": {
			world: func(w *world) { w.workload("huge", shapeOf(3000), 0, 1) },
			want:  brief{Unplaced: []string{"1 web/huge: cpu=3000m memory=67108864 pods=1 is more than an empty node of a managed pool has"}},
		},
		"a pod too large for the open pool belongs to another managed one": {
			world: func(w *world) { w.workload("large", shapeOf(1500), 0, 1) },
			want:  brief{Fast: 1},
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
		"a pod of one zone makes all zones as large": {
			world: func(w *world) {
				pinned := shapeOf(1000)
				pinned.ID, pinned.NodeSelector = "pinned", map[string]string{api.LabelZone: "b"}
				w.workload("disk", pinned, 0, 2)
			},
			want: brief{Slow: 2},
		},
		"pods of one zone leave the other zones' nodes to the rest": {
			world: func(w *world) {
				pinned := shapeOf(1000)
				pinned.ID, pinned.NodeSelector = "pinned", map[string]string{api.LabelZone: "b"}
				w.workload("disk", pinned, 0, 2)
				w.workload("shop", shapeOf(1000), 0, 4)
			},
			want: brief{Slow: 2},
		},
		"one copy per node": {
			world: func(w *world) {
				single := shapeOf(10)
				single.ID, single.MaxPerNode = "single", 1
				w.workload("proxy", single, 0, 4)
			},
			want: brief{Slow: 2},
		},
		"one copy per node is per workload": {
			world: func(w *world) {
				single := shapeOf(10)
				single.ID, single.MaxPerNode = "single", 1
				w.workload("proxy", single, 0, 3)
				w.workload("cache", single, 0, 3)
			},
			want: brief{Slow: 1},
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
				even := shapeOf(250)
				even.ID, even.ZoneSkew = "even", 1
				w.workload("front", even, 0, 3)
			},
			want: brief{Slow: 2},
		},
		"and where each zone has room no more nodes": {
			world: func(w *world) {
				w.level("slow", 1)
				even := shapeOf(250)
				even.ID, even.ZoneSkew = "even", 1
				front := w.workload("front", even, 4, 12)
				for range 4 {
					w.pod(front, even, "slow-a-1")
				}
			},
			want: brief{Slow: 1},
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
				for _, n := range w.Nodes {
					w.pod(shop, shapeOf(300), n.Name)
				}
			},
			want: brief{Slow: 1, Surplus: []string{"slow-a-1", "slow-b-1", "slow-c-1"}},
		},
		"nodes stay when their pods would fit only after moving others": {
			// 600m on each of six nodes: 3600m in all, but no two fit together.
			world: func(w *world) {
				w.level("slow", 2)
				shop := w.workload("shop", shapeOf(600), 6, 6)
				for _, n := range w.Nodes {
					w.pod(shop, shapeOf(600), n.Name)
				}
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
		"a node someone else has cordoned counts and offers nothing": {
			world: func(w *world) {
				w.level("slow", 1)
				w.Nodes[0].Cordoned = true
				w.workload("shop", shapeOf(1000), 0, 3)
			},
			want: brief{Slow: 2},
		},
		"new pods go where free space is, not where it would be after repacking": {
			// Six nodes with 600m each have 2400m free, in pieces of 400m.
			world: func(w *world) {
				w.level("slow", 2)
				shop := w.workload("shop", shapeOf(600), 6, 6)
				for _, n := range w.Nodes {
					w.pod(shop, shapeOf(600), n.Name)
				}
				w.workload("till", shapeOf(500), 0, 1)
			},
			want: brief{Slow: 3},
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
		"a pool that the provider resizes stays as it is": {
			world: func(w *world) {
				w.level("slow", 1)
				w.pool("slow").Autoscaled = true
				w.workload("shop", shapeOf(1000), 0, 9)
			},
			want: brief{Slow: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			tc.world(w)
			plan := w.plan(t)
			if diff := cmp.Diff(tc.want, briefly(plan)); diff != "" {
				t.Errorf("plan (-want +got):\n%s\nin full: %+v", diff, plan)
			}
			if plan.LowerBound > plan.HourlyCost {
				t.Errorf("lower bound %v above the cost %v", plan.LowerBound, plan.HourlyCost)
			}
		})
	}
}
