package node

import (
	"fmt"
	"slices"
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
	// astray pods hold their place.
	astray bool
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
		p.NodeStartup = api.StartupLatency{P50: time.Minute, P90: 90 * time.Second}
		w.Pools = append(w.Pools, p)
	}
	w.open = []string{"slow"}
	return w
}

// input asks for nodes within each pool's own bounds and the limit.
func (w *world) input() api.NodeInput {
	in := api.NodeInput{Snapshot: w.Snapshot, Demands: w.demands, Astray: w.astray}
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

// selecting is the shape of a core of pods that only go to nodes with a label.
func selecting(label, value string) *api.PodShape {
	s := shapeOf(1000)
	s.ID, s.NodeSelector = label+"-"+value, map[string]string{label: value}
	return s
}

// alone is a shape of pods of which a node takes one copy.
func alone(milli int64) *api.PodShape {
	s := shapeOf(milli)
	s.ID, s.MaxPerNode = s.ID+"-alone", 1
	return s
}

// even is a shape of pods that are spread over zones.
func even(milli int64) *api.PodShape {
	s := shapeOf(milli)
	s.ID, s.ZoneSkew = s.ID+"-even", 1
	return s
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

// podOnEach adds a pod on every node.
func (w *world) podOnEach(owner api.Key, shape *api.PodShape) {
	for _, n := range w.Nodes {
		w.pod(owner, shape, n.Name)
	}
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

// planCases are worlds by what is true of their plans.
type planCases map[string]struct {
	world func(w *world)
	want  brief
}

func (cases planCases) run(t *testing.T) {
	for name, tc := range cases {
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
