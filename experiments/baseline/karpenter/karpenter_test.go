package karpenter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/baseline/autoscaler"
)

func cpu(milli int64) api.Resources {
	return api.Resources{MilliCPU: milli, Memory: milli << 20, Pods: 1}
}

// Small machines hold three pods of 200m, large ones eight; the latter cost as much
// as 2.9 of the former.
func types() []Type {
	return []Type{
		{Name: "small", Price: 0.0335, Allocatable: api.Resources{MilliCPU: 940, Memory: 4 << 30, Pods: 110}, Overhead: api.Resources{MilliCPU: 223, Pods: 5}, Room: 10},
		{Name: "large", Price: 0.0971, Allocatable: api.Resources{MilliCPU: 1930, Memory: 8 << 30, Pods: 110}, Overhead: api.Resources{MilliCPU: 223, Pods: 5}, Room: 10},
	}
}

func pods(n int) []*Pod {
	var out []*Pod
	for range n {
		out = append(out, &Pod{Requests: cpu(200)})
	}
	return out
}

// node with n pods that nothing has changed for an hour, of a time two hours in.
func node(name string, kind, n int) Node {
	used := types()[kind].Overhead
	for range n {
		used = used.Plus(cpu(200))
	}
	return Node{Name: name, Type: kind, Ready: true, Changed: time.Hour, Used: used, Pods: pods(n)}
}

const now = 2 * time.Hour

func TestProvision(t *testing.T) {
	full := types()
	full[0].Room = 0
	tests := map[string]struct {
		view View
		want []int
	}{
		"three pods fit a small machine":                        {View{Types: types(), Pending: pods(3)}, []int{0}},
		"four need a large one, for one machine takes them all": {View{Types: types(), Pending: pods(4)}, []int{1}},
		"nine fill a large one, and the last a small one":       {View{Types: types(), Pending: pods(9)}, []int{1, 0}},
		"what a node has room for needs no machine":             {View{Types: types(), Nodes: []Node{node("a", 1, 6)}, Pending: pods(2)}, nil},
		"nor what one on its way has room for": {
			View{Types: types(), Nodes: []Node{{Name: "a", Type: 0, Used: types()[0].Overhead}}, Pending: pods(3)}, nil},
		"a node that leaves takes nothing": {
			View{Types: types(), Nodes: []Node{{Name: "a", Type: 0, Ready: true, Deleting: true, Used: types()[0].Overhead}}, Pending: pods(1)}, []int{0}},
		"its pods need a place before they go": {View{Types: types(), Nodes: []Node{
			{Name: "a", Type: 0, Ready: true, Deleting: true, Used: types()[0].Overhead, Pods: pods(2)}}, Pending: pods(1)}, []int{0}},
		"what can't be had is not launched": {View{Types: full, Pending: pods(3)}, []int{1}},
		"a pod that fits nothing waits":     {View{Types: types(), Pending: []*Pod{{Requests: cpu(4000)}}}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Provision(tc.view)); diff != "" {
				t.Errorf("launches (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConsolidate(t *testing.T) {
	young := node("a", 0, 0)
	young.Changed = now - 30*time.Second
	fresh := Node{Name: "z", Type: 1, Used: types()[1].Overhead}
	leaving := node("z", 0, 0)
	leaving.Deleting = true
	tests := map[string]struct {
		nodes   []Node
		pending []*Pod
		budget  float64
		want    Command
	}{
		"an empty node goes":             {nodes: []Node{node("a", 0, 0), node("b", 0, 3)}, want: Command{Remove: []string{"a"}}},
		"not before consolidateAfter":    {nodes: []Node{young, node("b", 1, 8)}},
		"one of ten nodes at once":       {nodes: []Node{node("a", 0, 0), node("b", 0, 0)}, want: Command{Remove: []string{"a"}}},
		"as many as the budget lets":     {nodes: []Node{node("a", 0, 0), node("b", 0, 0)}, budget: 1, want: Command{Remove: []string{"a", "b"}}},
		"none while another leaves":      {nodes: []Node{node("a", 0, 0), leaving}},
		"pods that fit elsewhere move":   {nodes: []Node{node("a", 0, 3), node("b", 0, 1), node("c", 0, 2)}, want: Command{Remove: []string{"b"}}},
		"not to a node that isn't Ready": {nodes: []Node{node("a", 0, 3), node("b", 0, 3), fresh}},
		"full nodes stay":                {nodes: []Node{node("a", 0, 3), node("b", 1, 8)}},
		"a large node with few pods is replaced by a small one": {
			nodes: []Node{node("b", 1, 3)}, want: Command{Remove: []string{"b"}, Launch: []int{0}}},
		"not if its pods need a large one": {nodes: []Node{node("a", 1, 4)}},
		"three small nodes become one large one, which is cheaper": {
			nodes: []Node{node("a", 0, 3), node("b", 0, 3), node("c", 0, 2), node("d", 0, 3)}, budget: 1,
			want: Command{Remove: []string{"c", "a", "b"}, Launch: []int{1}}},
		"two do not, for it is dearer": {nodes: []Node{node("a", 0, 3), node("b", 0, 3)}, budget: 1},
		"pods that wait come first":    {nodes: []Node{node("a", 0, 2), node("b", 0, 2)}, pending: pods(2)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := DefaultSettings()
			if tc.budget > 0 {
				s.Budget = tc.budget
			}
			v := View{Types: types(), Nodes: tc.nodes, Pending: tc.pending}
			got, ok := Consolidate(now, v, s)
			if diff := cmp.Diff(tc.want, got); diff != "" || ok != (len(tc.want.Remove) > 0) {
				t.Errorf("ok %v, command (-want +got):\n%s", ok, diff)
			}
			if ok && !Holds(now, v, s, got) {
				t.Error("it does not hold in the very same cluster")
			}
		})
	}
}

func TestHoldsNoMore(t *testing.T) {
	s := DefaultSettings()
	v := View{Types: types(), Nodes: []Node{node("a", 0, 3), node("b", 0, 1), node("c", 0, 2)}}
	c, ok := Consolidate(now, v, s)
	if !ok {
		t.Fatal("there is nothing to consolidate")
	}
	v.Nodes[2] = node("c", 0, 3) // the place is taken
	if Holds(now, v, s, c) {
		t.Error("holds though the pod has nowhere to go")
	}
}

func TestBatch(t *testing.T) {
	s := DefaultSettings()
	var b Batch
	if _, open := b.Due(s); open {
		t.Error("an empty batch is due")
	}
	b.Trigger(5 * time.Second)
	if at, open := b.Due(s); !open || at != 6*time.Second {
		t.Errorf("due at %v, want 6s", at)
	}
	for at := 5 * time.Second; at < 20*time.Second; at += 900 * time.Millisecond {
		b.Trigger(at)
	}
	if at, _ := b.Due(s); at != 15*time.Second {
		t.Errorf("a batch that never rests is due at %v, want 15s", at)
	}
	b.Close()
	if _, open := b.Due(s); open {
		t.Error("a closed batch is due")
	}
}

func randomView(t *rapid.T) View {
	v := View{Types: types()}
	for i := range v.Types {
		v.Types[i].Room = int32(rapid.IntRange(0, 5).Draw(t, "room"))
	}
	pod := func() *Pod { return &Pod{Requests: cpu(int64(rapid.IntRange(50, 900).Draw(t, "cpu")))} }
	for i := range rapid.IntRange(0, 8).Draw(t, "nodes") {
		n := Node{Name: fmt.Sprint("n", i), Type: rapid.IntRange(0, 1).Draw(t, "type"), Changed: time.Duration(rapid.IntRange(0, 7200).Draw(t, "changed")) * time.Second}
		n.Ready, n.Deleting = rapid.Bool().Draw(t, "ready"), rapid.IntRange(0, 5).Draw(t, "leaves") == 0
		n.Used = v.Types[n.Type].Overhead
		for range rapid.IntRange(0, 6).Draw(t, "pods") {
			if p := pod(); n.Ready && autoscaler.Room(v.Types[n.Type].Allocatable, n.Used, p.Requests) {
				n.Pods, n.Used = append(n.Pods, p), n.Used.Plus(p.Requests)
			}
		}
		v.Nodes = append(v.Nodes, n)
	}
	for range rapid.IntRange(0, 12).Draw(t, "pending") {
		v.Pending = append(v.Pending, pod())
	}
	return v
}

// left is how many pods find no place on the nodes and on machines that are
// launched, first fit, the largest first; it knows nothing of how these were
// decided on.
func left(v View, launched []int, without []string, moved []*Pod) int {
	type free struct{ all, used api.Resources }
	var places []free
	// Nodes that are Ready come first, as in Karpenter: first-fit may hold all pods in one
	// order of nodes and not in another.
	for _, ready := range []bool{true, false} {
		for _, n := range v.Nodes {
			if n.Ready == ready && !n.Deleting && !slices.Contains(without, n.Name) {
				places = append(places, free{v.Types[n.Type].Allocatable, n.Used})
			}
		}
	}
	for _, t := range launched {
		places = append(places, free{v.Types[t].Allocatable, v.Types[t].Overhead})
	}
	out := 0
	sorted := slices.Clone(moved)
	slices.SortStableFunc(sorted, func(a, b *Pod) int {
		if a.Requests.MilliCPU != b.Requests.MilliCPU {
			return int(b.Requests.MilliCPU - a.Requests.MilliCPU)
		}
		return int(b.Requests.Memory - a.Requests.Memory)
	})
next:
	for _, p := range sorted {
		for i := range places {
			if autoscaler.Room(places[i].all, places[i].used, p.Requests) {
				places[i].used = places[i].used.Plus(p.Requests)
				continue next
			}
		}
		out++
	}
	return out
}

// Whatever the cluster: no type is launched beyond its room, none for nothing, and
// pods that a machine with room would hold don't wait.
func TestProvisionProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := randomView(t)
		launched, wanted := Provision(v), slices.Concat(v.Pending, leaving(v))
		count := make([]int32, len(v.Types))
		for _, k := range launched {
			count[k]++
		}
		for k, n := range count {
			if n > v.Types[k].Room {
				t.Fatalf("%d machines of %s launched, there may be %d more", n, v.Types[k].Name, v.Types[k].Room)
			}
		}
		if len(launched) > len(wanted) {
			t.Fatalf("%d machines for %d pods", len(launched), len(wanted))
		}
		if left(v, nil, nil, wanted) == 0 && len(launched) > 0 {
			t.Fatalf("machines %v are launched though all pods fit", launched)
		}
		room := min(v.Types[0].Room, v.Types[1].Room) > int32(len(wanted))
		if room && len(launched) == 0 && left(v, nil, nil, wanted) > 0 && left(v, []int{1}, nil, wanted) < left(v, nil, nil, wanted) {
			t.Fatal("nothing is launched though pods wait that a machine would hold")
		}
	})
}

// Whatever the cluster: what is consolidated keeps the budget, makes it cheaper,
// leaves no pod of a removed node without a place, and holds at once.
func TestConsolidateProperties(t *testing.T) {
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		v := randomView(t)
		s := DefaultSettings()
		s.Budget = rapid.SampledFrom([]float64{0.1, 0.5, 1}).Draw(t, "budget")
		c, ok := Consolidate(now, v, s)
		if !ok {
			return
		}
		found++
		if !Holds(now, v, s, c) {
			t.Fatalf("%+v does not hold", c)
		}
		if len(c.Remove) > budget(v, s) || len(c.Launch) > 1 {
			t.Fatalf("%+v is beyond the budget of %d", c, budget(v, s))
		}
		saved := 0.0
		var moved []*Pod
		for _, n := range v.Nodes {
			if !slices.Contains(c.Remove, n.Name) {
				continue
			}
			if !n.Ready || n.Deleting || now-n.Changed < s.ConsolidateAfter {
				t.Fatalf("%s must not be disrupted", n.Name)
			}
			saved += v.Types[n.Type].Price
			moved = append(moved, n.Pods...)
		}
		for _, k := range c.Launch {
			saved -= v.Types[k].Price
			if v.Types[k].Room < 1 {
				t.Fatalf("there may be no more of %s", v.Types[k].Name)
			}
		}
		if saved <= 0 {
			t.Fatalf("%+v makes nothing cheaper", c)
		}
		if n := left(v, c.Launch, c.Remove, moved); n > 0 {
			t.Fatalf("%d pods of %v have nowhere to go", n, c.Remove)
		}
	})
	if found == 0 {
		t.Error("nothing was ever consolidated: nothing was shown")
	}
}

// TestEndsEarly: a simulation that ends as soon as nothing can come of it says what a whole one
// says.
func TestEndsEarly(t *testing.T) {
	whole := func(v View, candidates []*Node) (possible bool, launches int) {
		s := newScheduling(v)
		s.begin(candidates)
		pods := slices.Clone(v.Pending)
		own := map[*Pod]bool{}
		for _, n := range candidates {
			pods = append(pods, n.Pods...)
			for _, p := range n.Pods {
				own[p] = true
			}
		}
		all := true
		s.solve(append(pods, s.leaving...), func(p *Pod, is outcome) bool {
			all = all && (is == placed || !own[p])
			return true
		})
		return all && len(s.claims) < 2, len(s.claims)
	}
	said := map[bool]int{}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		pod := func() *Pod {
			return &Pod{Requests: api.Resources{MilliCPU: 100 * (1 + r.Int64N(9)), Memory: 1 << 28, Pods: 1}}
		}
		v := View{Types: []Type{
			{Name: "small", Price: 1, Allocatable: api.Resources{MilliCPU: 1900, Memory: 4 << 30, Pods: 110}, Room: 5},
			{Name: "large", Price: 1.9, Allocatable: api.Resources{MilliCPU: 3900, Memory: 8 << 30, Pods: 110}, Room: int32(r.IntN(3))},
		}}
		for i := range 2 + r.IntN(6) {
			n := Node{Name: string(rune('a' + i)), Type: r.IntN(2), Ready: r.IntN(5) > 0, Deleting: r.IntN(8) == 0}
			for range r.IntN(4) {
				p := pod()
				n.Pods, n.Used = append(n.Pods, p), n.Used.Plus(p.Requests)
			}
			v.Nodes = append(v.Nodes, n)
		}
		for range r.IntN(3) {
			v.Pending = append(v.Pending, pod())
		}
		var candidates []*Node
		for i := range v.Nodes[:1+r.IntN(2)] {
			candidates = append(candidates, &v.Nodes[i])
		}
		possible, launches := whole(v, candidates)
		said[possible]++
		// A machine that is no cheaper than the nodes it replaces is refused besides.
		if _, ok := consolidation(v, newScheduling(v), candidates); ok && !possible || !ok && possible && launches == 0 {
			t.Fatalf("seed %d: %v, by the whole simulation %v with %d launches", seed, ok, possible, launches)
		}
	}
	if said[true] < 200 || said[false] < 200 {
		t.Errorf("possible and not: %v", said)
	}
}
