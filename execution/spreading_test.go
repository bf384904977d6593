package execution

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

func spacesOf(free ...int64) []placement.Space {
	var out []placement.Space
	for i, cpu := range free {
		n := &api.Node{Name: fmt.Sprint("n", i), Pool: "fast", Zone: "a", Ready: true, Allocatable: api.Resources{MilliCPU: 1000, Memory: 1 << 30, Pods: 110}}
		sp := placement.SpaceOf(n, nil, api.Resources{})
		sp.Free.MilliCPU = cpu
		out = append(out, sp)
	}
	return out
}

func podsOfCPU(cpu int64, name string) placement.Pods {
	return placement.Pods{Shape: &api.PodShape{ID: name, Requests: api.Resources{MilliCPU: cpu, Pods: 1}}, Workload: api.Key{Name: name}}
}

// TestSpreading: pods go where most is free, and small ones take a large one's room.
func TestSpreading(t *testing.T) {
	r := newSpreading(spacesOf(300, 500, 100))
	if n := r.place(podsOfCPU(100, "small"), 2, ""); n != 2 {
		t.Fatalf("%d of 2 have a place", n)
	}
	if got := [3]int64{r.spaces[0].Free.MilliCPU, r.spaces[1].Free.MilliCPU, r.spaces[2].Free.MilliCPU}; got != [3]int64{300, 300, 100} {
		t.Errorf("%v is left", got)
	}
	if n := r.place(podsOfCPU(400, "large"), 1, ""); n != 0 {
		t.Errorf("%d have a place where none has 400m", n)
	}
	if n := r.place(podsOfCPU(100, "small"), 9, "other"); n != 0 {
		t.Errorf("%d have a place in another pool", n)
	}
	if n := r.place(podsOfCPU(100, "small"), 9, "fast"); n != 7 {
		t.Errorf("%d of 7 have a place", n)
	}
}

// TestSpreadingFillsLikeAScheduler: each pod goes to the node with most free of those that
// have room, by looking at all of them.
func TestSpreadingFillsLikeAScheduler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		free := rapid.SliceOfN(rapid.Int64Range(0, 1000), 1, 6).Draw(t, "free")
		r := newSpreading(spacesOf(free...))
		left := append([]int64(nil), free...)
		for i := range rapid.IntRange(1, 12).Draw(t, "pods") {
			cpu := rapid.Int64Range(1, 500).Draw(t, "cpu")
			best := -1
			for n, f := range left {
				if f >= cpu && (best < 0 || f > left[best]) {
					best = n
				}
			}
			placed := r.place(podsOfCPU(cpu, fmt.Sprint("w", i)), 1, "")
			if (placed == 1) != (best >= 0) {
				t.Fatalf("%d placed of %dm, free %v", placed, cpu, left)
			}
			if best >= 0 {
				left[best] -= cpu
			}
			for n := range left {
				if r.spaces[n].Free.MilliCPU != left[n] {
					t.Fatalf("%v, want %v", r.spaces[n].Free.MilliCPU, left)
				}
			}
		}
	})
}

// TestNothingIsEmptiedOntoRoomThatOthersTake: first fit has a place for the pods of a node
// to be emptied, the largest first; but the scheduler would give the large one's to small
// ones that are made before it. Nobody moves for nothing then.
func TestNothingIsEmptiedOntoRoomThatOthersTake(t *testing.T) {
	for name, c := range map[string]struct {
		large string // its name decides when its pod is made
		empty bool
	}{"small ones are made first": {"zoo", false}, "the large one is made first": {"ant", true}} {
		s := api.Snapshot{Pools: []api.Pool{{Name: "fast", Zones: []string{"a"}, Sizes: []int32{3}, Allocatable: api.Resources{MilliCPU: 1000, Memory: 1 << 30, Pods: 110}}}}
		for i := range 3 {
			s.Nodes = append(s.Nodes, api.Node{Name: fmt.Sprint("fast-", i), Pool: "fast", Zone: "a", Ready: true, ProviderID: "gce", Allocatable: s.Pools[0].Allocatable})
		}
		plan := api.Plan{Nodes: api.NodePlan{Pool: "fast", Pools: []api.PoolPlan{{Pool: "fast", SizePerZone: 2, Nodes: 2, Surplus: []string{"fast-2"}}}}}
		add := func(name string, cpu int64, nodes ...int) {
			w := api.Workload{
				Key: api.Key{Namespace: "shop", Name: name}, Target: api.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
				Mode: api.ModeFull, Replicas: int32(len(nodes)), MinReplicas: 1, MaxReplicas: 10, Shape: podsOfCPU(cpu, name).Shape,
			}
			s.Workloads = append(s.Workloads, w)
			plan.Workloads = append(plan.Workloads, api.WorkloadPlan{Key: w.Key, Scale: api.Scale{Replicas: w.Replicas}, Pools: []api.PoolShare{{Pool: "fast", Replicas: w.Replicas}}})
			for i, n := range nodes {
				s.Pods = append(s.Pods, api.Pod{
					Key: api.Key{Namespace: "shop", Name: fmt.Sprint(name, "-", i)}, UID: fmt.Sprint(name, i), Workload: w.Key, Shape: w.Shape, Phase: "Running",
					Node: fmt.Sprint("fast-", n), ControllerKind: "ReplicaSet", ControllerName: name, Ready: true,
				})
			}
		}
		add("filler", 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1) // 500 and 300 are left
		add("mouse", 100, 2, 2)
		add(c.large, 400, 2)
		actions, findings := Sequence(s, plan, api.Policy{NodePools: []string{"fast"}, ManagedPools: []string{"fast"}})
		cordons := 0
		for _, a := range actions {
			cordons += strings.Count(a.String(), "cordon fast-2")
		}
		if (cordons == 1) != c.empty {
			t.Errorf("%s: %v, %v", name, actions, findings)
		}
		told := strings.Contains(fmt.Sprint(findings), "no room for 1 pods of workload shop/zoo as the scheduler spreads pods")
		if told == c.empty {
			t.Errorf("%s: told %v", name, findings)
		}
	}
}
