package node

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

// worlds draws snapshots with pools, nodes in every state and pods of every
// kind, placed so that no node is overfull.
func worlds() *rapid.Generator[*world] {
	return rapid.Custom(func(t *rapid.T) *world {
		w := newWorld()
		if rapid.Bool().Draw(t, "switch") {
			w.open = []string{"fast"}
		}
		for _, name := range []string{"slow", "fast"} {
			p := w.pool(name)
			p.Overhead = api.Resources{MilliCPU: rapid.Int64Range(0, 200).Draw(t, "overhead"), Pods: 1}
			p.MinPerZone = int32(rapid.IntRange(0, 1).Draw(t, "min"))
			p.MaxPerZone = rapid.SampledFrom([]int32{0, 0, 3}).Draw(t, "max")
			for range rapid.IntRange(0, 7).Draw(t, "nodes") {
				n := w.node(name, rapid.SampledFrom(p.Zones).Draw(t, "zone"))
				switch rapid.IntRange(0, 7).Draw(t, "state") {
				case 0:
					n.Cordoned, n.CordonedFor = true, api.CordonShrink
				case 1:
					n.Cordoned = true
				case 2:
					n.Ready, n.Created = false, noon.Add(-time.Duration(rapid.IntRange(0, 600).Draw(t, "age"))*time.Second)
				}
			}
		}
		shapes := []*api.PodShape{shapeOf(100), shapeOf(250), shapeOf(400), shapeOf(900), shapeOf(1500)}
		pinned := shapeOf(300)
		pinned.ID, pinned.NodeSelector = "pinned", map[string]string{api.LabelZone: "b"}
		single := shapeOf(50)
		single.ID, single.MaxPerNode = "single", 1
		apart, even := shapeOf(120), shapeOf(200)
		apart.ID, apart.MaxPerZone = "apart", 1
		even.ID, even.ZoneSkew = "even", 1
		shapes = append(shapes, pinned, single, apart, even)

		var owners []api.Key
		for n := range rapid.IntRange(0, 4).Draw(t, "workloads") {
			shape := rapid.SampledFrom(shapes).Draw(t, "shape")
			owners = append(owners, w.workload(fmt.Sprint("w", n), shape, 0, int32(rapid.IntRange(0, 12).Draw(t, "planned"))))
			w.demands[n].NodeReplicas += int32(rapid.IntRange(0, 4).Draw(t, "ahead"))
		}
		free := map[string]api.Resources{}
		for _, n := range w.Nodes {
			free[n.Name] = n.Allocatable.Minus(w.pool(n.Pool).Overhead)
		}
		for range rapid.IntRange(0, 30).Draw(t, "pods") {
			owner, shape := api.Key{}, rapid.SampledFrom(shapes).Draw(t, "shape")
			if len(owners) > 0 && rapid.Bool().Draw(t, "managed") {
				i := rapid.IntRange(0, len(owners)-1).Draw(t, "owner")
				owner, shape = owners[i], w.Workloads[i].Shape
				w.Workloads[i].Replicas++
			}
			at := ""
			if len(w.Nodes) > 0 && rapid.IntRange(0, 9).Draw(t, "bound") > 0 {
				at = rapid.SampledFrom(w.Nodes).Draw(t, "node").Name
				if !shape.Requests.Fits(free[at]) {
					continue
				}
				free[at] = free[at].Minus(shape.Requests)
			}
			p := w.pod(owner, shape, at)
			if rapid.IntRange(0, 4).Draw(t, "volume") == 0 {
				p.Zones = []string{rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "zone of it")}
				if i := slices.IndexFunc(w.Nodes, func(n api.Node) bool { return n.Name == at }); i >= 0 {
					p.Zones[0] = w.Nodes[i].Zone
				}
			}
			switch rapid.IntRange(0, 14).Draw(t, "kind") {
			case 0:
				p.ControllerKind = ""
			case 1:
				p.DoNotDisrupt = "annotation"
			case 2:
				p.Terminating = true
			case 3:
				p.DaemonSet = true
			}
		}
		return w
	})
}

func (w *world) planFor(t interface{ Fatal(...any) }) api.NodePlan { return w.planBy(t, Auto) }

func (w *world) planBy(t interface{ Fatal(...any) }, solver string) api.NodePlan {
	p, err := New(Config{Solver: solver})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.PlanNodes(w.input())
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// What a prepared planner answers is what it would without, whatever it was
// asked before.
func TestPreparedPlansAreTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := worlds().Draw(t, "world")
		p, err := New(Config{Solver: "ffd"})
		if err != nil {
			t.Fatal(err)
		}
		prepared, _ := p.Prepare(nil)
		for range rapid.IntRange(1, 4).Draw(t, "calls") {
			w.most = rapid.SampledFrom([]int32{0, 3, 9}).Draw(t, "most")
			in := w.input()
			in.Demands = slices.Clone(w.demands)
			for i := range in.Demands {
				d := &in.Demands[i]
				d.Replicas = rapid.Int32Range(0, 12).Draw(t, "replicas")
				d.NodeReplicas = d.Replicas + rapid.Int32Range(0, 3).Draw(t, "lead")
				d.Pools = rapid.SampledFrom([][]string{nil, nil, w.open[:1]}).Draw(t, "pools")
			}
			for i := range in.Bounds {
				in.Bounds[i].MinPerZone = rapid.Int32Range(0, 1).Draw(t, "least")
			}
			if rapid.Bool().Draw(t, "one left out") && len(in.Demands) > 0 {
				in.Demands = in.Demands[1:]
			}
			want, err := p.PlanNodes(in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := prepared(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("prepared (-want +got):\n%s", diff)
			}
			in.Budget.SizesOnly = true
			sizes, err := prepared(in)
			if err != nil {
				t.Fatal(err)
			}
			for i, one := range sizes.Pools {
				if one.Nodes != want.Pools[i].Nodes || one.HourlyCost != want.Pools[i].HourlyCost {
					t.Fatalf("sizes only: %+v, want %+v", one, want.Pools[i])
				}
			}
			if diff := cmp.Diff(want.Unplaced, sizes.Unplaced); diff != "" {
				t.Fatalf("sizes only: without a place (-want +got):\n%s", diff)
			}
		}
	})
}

func TestPlansHoldTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := worlds().Draw(t, "world")
		plan := w.planFor(t)
		var cost float64
		for _, one := range plan.Pools {
			p := w.pool(one.Pool)
			cost += one.HourlyCost
			if one.Nodes != one.SizePerZone*3 || one.Needed > one.Nodes || one.Now > one.SizePerZone {
				t.Fatalf("sizes do not agree: %+v", one)
			}
			if p.MaxPerZone > 0 && one.SizePerZone > p.MaxPerZone || one.SizePerZone < p.MinPerZone {
				t.Fatalf("out of bounds %d–%d: %+v", p.MinPerZone, p.MaxPerZone, one)
			}
			perZone := map[string]int32{}
			for _, n := range w.Nodes {
				if n.Pool == p.Name {
					perZone[n.Zone]++
				}
			}
			for _, name := range one.Surplus {
				i := slices.IndexFunc(w.Nodes, func(n api.Node) bool { return n.Name == name })
				n := w.Nodes[i]
				perZone[n.Zone]--
				if n.Pool != p.Name || n.Cordoned && n.CordonedFor == "" {
					t.Fatalf("%s is not to be given up", name)
				}
				for _, pod := range w.Pods {
					if pod.Node == name && !pod.Terminating && !pod.DaemonSet && (pod.ControllerKind == "" || pod.DoNotDisrupt != "") {
						t.Fatalf("%s has %s, which must not be moved", name, pod.Key)
					}
				}
			}
			for zone, n := range perZone {
				// Only where there are fewer than the size per zone may fewer stay.
				if n < one.SizePerZone && len(one.Surplus) > 0 && slices.ContainsFunc(one.Surplus, func(s string) bool {
					return slices.ContainsFunc(w.Nodes, func(n api.Node) bool { return n.Name == s && n.Zone == zone })
				}) {
					t.Fatalf("zone %s keeps %d nodes, the size is %d: %+v", zone, n, one.SizePerZone, one)
				}
			}
		}
		if cost != plan.HourlyCost || plan.LowerBound > plan.HourlyCost || plan.PackingEfficiency < 0 || plan.PackingEfficiency > 1 {
			t.Fatalf("cost %v of pools, plan %+v", cost, plan)
		}
	})
}

// What the planned nodes offer is, in sum, at least what is wanted on them.
func TestPlannedNodesOfferEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := worlds().Draw(t, "world")
		plan := w.planFor(t)
		if len(plan.Unplaced) > 0 {
			return
		}
		var used, offered api.Resources
		for _, p := range plan.Pools {
			at := w.pool(p.Pool)
			// Nodes that are there have no DaemonSets but those they show.
			offered = offered.Plus(at.Allocatable.Times(int64(p.Nodes))).Minus(at.Overhead.Times(int64(max(0, p.Nodes-p.Current))))
		}
		for i, wl := range w.Workloads {
			used = used.Plus(wl.Shape.Requests.Times(int64(w.demands[i].NodeReplicas)))
		}
		for _, p := range w.Pods {
			if p.Workload == (api.Key{}) && !p.Terminating && !p.DaemonSet && p.Node != "" {
				used = used.Plus(p.Shape.Requests)
			}
		}
		if !used.Fits(offered) {
			t.Fatalf("%s wanted, %s planned: %+v", used, offered, plan)
		}
	})
}

func TestPlansDoNotDependOnOrderAndLeaveTheirInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := worlds().Draw(t, "world")
		before := fmt.Sprintf("%+v", w.input())
		plan := w.planFor(t)
		if again := w.planFor(t); !cmp.Equal(plan, again) {
			t.Fatalf("twice: %s", cmp.Diff(plan, again))
		}
		if after := fmt.Sprintf("%+v", w.input()); after != before {
			t.Fatal("the input was changed")
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		r.Shuffle(len(w.Nodes), func(i, j int) { w.Nodes[i], w.Nodes[j] = w.Nodes[j], w.Nodes[i] })
		r.Shuffle(len(w.Pools), func(i, j int) { w.Pools[i], w.Pools[j] = w.Pools[j], w.Pools[i] })
		if shuffled := w.planFor(t); !cmp.Equal(plan, shuffled) {
			t.Fatalf("other order of nodes and pools: %s", cmp.Diff(plan, shuffled))
		}
	})
}

// Carried out, a plan is a fixed point: with the surplus gone and the pods of
// those nodes where the plan found room for them, nothing more is to be done.
func TestSizesSettle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		shape := shapeOf(int64(rapid.SampledFrom([]int{200, 300, 500, 700}).Draw(t, "cpu")))
		n := int32(rapid.IntRange(1, 30).Draw(t, "replicas"))
		shop := w.workload("shop", shape, n, n)
		first := w.planFor(t)
		i := slices.IndexFunc(first.Pools, func(p api.PoolPlan) bool { return p.Pool == "slow" })
		w.level("slow", int(first.Pools[i].SizePerZone))
		free := map[string]api.Resources{}
		for k := range n { // round robin, as a scheduler that spreads does
			for try := range w.Nodes {
				at := w.Nodes[(int(k)+try)%len(w.Nodes)]
				if _, ok := free[at.Name]; !ok {
					free[at.Name] = at.Allocatable
				}
				if shape.Requests.Fits(free[at.Name]) {
					free[at.Name] = free[at.Name].Minus(shape.Requests)
					w.pod(shop, shape, at.Name)
					break
				}
			}
		}
		if len(w.Pods) != int(n) {
			t.Fatalf("%d of %d pods found a node among %d", len(w.Pods), n, len(w.Nodes))
		}
		second := w.planFor(t)
		if second.Pools[i].SizePerZone != first.Pools[i].SizePerZone || len(second.Pools[i].Surplus) > 0 {
			t.Fatalf("%+v\nthen %+v", first.Pools[i], second.Pools[i])
		}
	})
}

func TestPoolsThatCannotBePlanned(t *testing.T) {
	p, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	w.open = []string{"cheap"}
	if _, err := p.PlanNodes(w.input()); !errors.Is(err, ErrPool) {
		t.Errorf("error for a pool that does not exist is %v", err)
	}
	w.open = []string{"slow"}
	w.pool("slow").Allocatable = api.Resources{}
	if _, err := p.PlanNodes(w.input()); !errors.Is(err, ErrPool) {
		t.Errorf("error for a pool without allocatable is %v", err)
	}
	w.open = nil
	if plan, err := p.PlanNodes(w.input()); err != nil || len(plan.Pools) > 0 {
		t.Errorf("without pools the plan is %+v, %v", plan, err)
	}
}

// With several pools the cheaper one takes the pods, and is named.
func TestSeveralPools(t *testing.T) {
	w := newWorld()
	w.open = []string{"fast", "slow"}
	w.workload("shop", shapeOf(500), 0, 6)   // slow: 0.015 a pod; fast: 0.025
	w.workload("large", shapeOf(1500), 0, 1) // only fast
	plan := w.plan(t)
	if diff := cmp.Diff(brief{Slow: 1, Fast: 1}, briefly(plan)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// BenchmarkPlanNodes plans a large cluster in its steady state, and with a fifth
// of its pods to go.
func BenchmarkPlanNodes(b *testing.B) {
	for name, keep := range map[string]int32{"steady": 10, "shrinking": 8, "growing": 12} {
		b.Run(name, func(b *testing.B) {
			w := busy(1000, 10, 1000, keep)
			p, err := New(Config{Solver: "ffd"})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := p.PlanNodes(w.input()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// busy has n workloads of their own shape with k pods each on some nodes.
func busy(n int, k int32, nodes int, planned int32) *world {
	w := newWorld()
	w.pool("slow").Allocatable = api.Resources{MilliCPU: 7900, Memory: 28 * gib, Pods: 110}
	w.level("slow", (nodes+2)/3)
	r := rand.New(rand.NewPCG(3, 4))
	free := make([]api.Resources, len(w.Nodes))
	for i := range free {
		free[i] = w.Nodes[i].Allocatable
	}
	for i := range n {
		shape := shapeOf(50 * (1 + r.Int64N(20)))
		shape.ID = fmt.Sprint("shape-", i)
		shape.Requests.Memory = 64 << 20 * (1 + r.Int64N(40))
		key := w.workload(fmt.Sprint("w", i), shape, k, planned)
		for range k {
			for at := r.IntN(len(free)); ; at = (at + 1) % len(free) {
				if shape.Requests.Fits(free[at]) {
					free[at] = free[at].Minus(shape.Requests)
					w.pod(key, shape, w.Nodes[at].Name)
					break
				}
			}
		}
	}
	return w
}
