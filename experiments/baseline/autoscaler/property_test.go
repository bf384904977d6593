package autoscaler

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

// drawView is a small cluster of one or two pools; sizes of pods are multiples of so much
// CPU, in 100m.
func drawView(t *rapid.T, unit int64) View {
	var v View
	for i := range rapid.IntRange(1, 3).Draw(t, "groups") {
		pool := rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pool")
		if i > 0 && v.Groups[i-1].Pool == "q" {
			pool = "q" // one after the other
		}
		g := Group{
			Name: pool + string(rune('a'+i)), Pool: pool, Zone: string(rune('a' + i)),
			On: rapid.IntRange(0, 4).Draw(t, "on") > 0, Balanced: rapid.Bool().Draw(t, "balanced"),
			Min: rapid.Int32Range(0, 2).Draw(t, "min"), Template: template(i),
		}
		g.Max = g.Min + rapid.Int32Range(0, 4).Draw(t, "span")
		v.Groups = append(v.Groups, g)
	}
	pod := func() *Pod {
		return &Pod{
			Requests: api.Resources{MilliCPU: 100 * unit * rapid.Int64Range(0, 18/unit).Draw(t, "cpu"), Memory: gib / 2 * rapid.Int64Range(0, max(1, 4/unit)).Draw(t, "memory"), Pods: 1},
			Removal:  rapid.SampledFrom([]Removal{Moves, Moves, Moves, Ignored, Forbids}).Draw(t, "removal"),
		}
	}
	for range rapid.IntRange(0, 5).Draw(t, "nodes") {
		g := rapid.IntRange(0, len(v.Groups)-1).Draw(t, "group")
		n := v.add(g)
		switch rapid.IntRange(0, 5).Draw(t, "state") {
		case 0:
			n.Phase, n.Registered, n.Ready, n.Booted = Coming, false, false, false
		case 1:
			n.Ready = false
		case 2:
			n.Phase = Stopping
			v.Groups[g].Size--
		}
		n.Kept = rapid.IntRange(0, 5).Draw(t, "kept") == 0
		if n.Registered {
			for range rapid.IntRange(0, 3).Draw(t, "pods") {
				if p := pod(); Room(n.Allocatable, n.Used, p.Requests) {
					n.Pods, n.Used = append(n.Pods, p), n.Used.Plus(p.Requests)
				}
			}
		}
	}
	for range rapid.IntRange(0, 5).Draw(t, "pending") {
		p := pod()
		p.Removal = Moves
		v.Pending = append(v.Pending, p)
	}
	return v
}

// first tells whether pods fit, each on the first node with room.
func first(pods []*Pod, free []api.Resources) bool {
	free = slices.Clone(free)
	return !slices.ContainsFunc(pods, func(p *Pod) bool {
		i := slices.IndexFunc(free, func(r api.Resources) bool { return Room(r, api.Resources{}, p.Requests) })
		if i >= 0 {
			free[i] = free[i].Minus(p.Requests)
		}
		return i < 0
	})
}

// can tells by trying everything whether pods fit on nodes with these amounts
// free.
func can(pods []*Pod, free []api.Resources) bool {
	if len(pods) == 0 {
		return true
	}
	for i := range free {
		if !Room(free[i], api.Resources{}, pods[0].Requests) {
			continue
		}
		before := free[i]
		free[i] = before.Minus(pods[0].Requests)
		ok := can(pods[1:], free)
		free[i] = before
		if ok {
			return true
		}
	}
	return false
}

func state(v View) string {
	text, err := json.Marshal(struct {
		Groups  []Group
		Nodes   []Node
		Pending []*Pod
	}{v.Groups, v.Nodes, v.Pending})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Whatever the cluster, a decision keeps the bounds, takes only what may go, and
// leaves room for what it evicts; it grows only for pods that have none.
func TestDecisionsAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t, 1)
		before := state(v)
		decide := func() Decision {
			a := newAutoscaler()
			a.Src = rand.NewPCG(3, 3)
			calm := v
			calm.Pending = nil
			if rapid.Bool().Draw(t, "pending now") {
				a.Scan(0, calm)
				a.Scan(30*time.Minute, calm) // what is unneeded is known
				for name := range a.removing {
					a.RemovalEnded(0, name, true)
				}
				a.grown = false
				return a.Scan(time.Hour, v)
			}
			a.Scan(0, calm)
			return a.Scan(30*time.Minute, calm)
		}
		d := decide()
		if state(v) != before {
			t.Fatal("the view was changed")
		}
		if len(d.Grow) > 0 && len(d.Remove) > 0 {
			t.Error("grows and removes in one scan")
		}
		sizes := make([]int32, len(v.Groups))
		for i, g := range v.Groups {
			sizes[i] = g.Size
		}
		byName := map[string]*Node{}
		for i := range v.Nodes {
			byName[v.Nodes[i].Name] = &v.Nodes[i]
		}
		for _, name := range d.GiveUp {
			n := byName[name]
			if n.Ready || n.Booted || n.Phase == Stopping || !v.Groups[n.Group].On {
				t.Errorf("%s is given up: %+v", name, n)
			}
			sizes[n.Group]--
		}
		for _, g := range d.Grow {
			sizes[g]++
			if !v.Groups[g].On || sizes[g] > v.Groups[g].Max {
				t.Errorf("group %d grows to %d: %+v", g, sizes[g], v.Groups[g])
			}
		}
		gone := names(d)
		var evicted []*Pod
		drains := 0
		for _, r := range d.Remove {
			n := byName[r.Node]
			sizes[n.Group]--
			if sizes[n.Group] < v.Groups[n.Group].Min {
				t.Errorf("group %d shrinks to %d: %+v", n.Group, sizes[n.Group], v.Groups[n.Group])
			}
			if n.Kept || n.Phase != Running || !v.Groups[n.Group].On || n.Ready && (&slot{Node: n, used: n.Used}).utilization() >= 0.5 ||
				slices.ContainsFunc(n.Pods, func(p *Pod) bool { return p.Removal == Forbids }) {
				t.Errorf("%s is removed: %+v", r.Node, n)
			}
			for _, p := range n.Pods {
				if p.Removal == Moves != slices.Contains(r.Evict, p) {
					t.Errorf("%s: eviction of %+v", r.Node, p)
				}
			}
			if len(r.Evict) > 0 {
				drains++
			}
			evicted = append(evicted, r.Evict...)
		}
		if drains > 1 {
			t.Errorf("%d drains at once", drains)
		}
		var free []api.Resources
		for i := range v.Nodes {
			if n := &v.Nodes[i]; n.Ready && !slices.Contains(gone, n.Name) {
				free = append(free, n.Allocatable.Minus(n.Used))
			}
		}
		if !can(evicted, free) {
			t.Error("what is evicted has no room")
		}
		if len(d.Grow) > 0 {
			if v.Pending == nil || first(v.Pending, free) {
				t.Error("grows although everything fits")
			}
			if len(d.Grow) > len(v.Pending) {
				t.Errorf("%d nodes for %d pods", len(d.Grow), len(v.Pending))
			}
		}
	})
}

// What is known of pods of a class changes no decision: scans of the same view without
// classes decide the same.
func TestPodsAlikeArePlacedAsOneByOne(t *testing.T) {
	shared := func(v View, f func(*Pod)) {
		for i := range v.Nodes {
			for _, p := range v.Nodes[i].Pods {
				f(p)
			}
		}
		for _, p := range v.Pending {
			f(p)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t, 5)
		class := map[*Pod]int{}
		shared(v, func(p *Pod) { class[p] = rapid.IntRange(1, 2).Draw(t, "class") })
		barred := rapid.IntRange(0, len(v.Groups)).Draw(t, "barred to the second class")
		v.Allowed = func(p *Pod, n *Node) bool { return class[p] == 1 || n.Group != barred }
		scans := func() (out []Decision) {
			a := newAutoscaler()
			a.Src = rand.NewPCG(3, 3)
			for _, now := range []time.Duration{0, 30 * time.Minute, time.Hour} {
				out = append(out, a.Scan(now, v))
			}
			return out
		}
		one := scans()
		shared(v, func(p *Pod) { p.Class = class[p] })
		if alike := scans(); !reflect.DeepEqual(one, alike) {
			t.Errorf("one by one %+v, by class %+v", one, alike)
		}
	})
}

// A node that turns out to be needed has room again for pods that were tried while it was
// thought to be gone.
func TestPodsMoveToANodeThatIsNeeded(t *testing.T) {
	small, other, bound := pods(1, 200), pods(1, 200), pods(1, 300)
	small[0].Class, other[0].Class, bound[0].Class = 1, 1, 2
	v := twoZones(append(small, bound...), other)
	for i := range v.Groups {
		v.Groups[i].Min = 0
	}
	v.Allowed = func(p *Pod, n *Node) bool { return p.Class == 1 || n.Group == 0 }
	a := newAutoscaler()
	a.Scan(0, v)
	if d := a.Scan(30*time.Minute, v); len(d.Remove) != 1 || d.Remove[0].Node != v.Nodes[1].Name {
		t.Errorf("removes %+v", d.Remove)
	}
}

// The estimator is first fit decreasing: for pods of CPU alone it needs at most
// 11/9 of the fewest nodes and one (Dósa 2007: 6/9).
func TestEstimateIsNearTheFewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []*Pod
		for range rapid.IntRange(1, 7).Draw(t, "pods") {
			list = append(list, &Pod{Requests: api.Resources{MilliCPU: 100 * rapid.Int64Range(1, 17).Draw(t, "cpu"), Pods: 1}})
		}
		s := &scan{Autoscaler: newAutoscaler()}
		empty := template(0)
		got, waste := s.estimate(&empty, list, 1000)
		fewest := 1
		for {
			free := make([]api.Resources, fewest)
			for i := range free {
				free[i] = empty.Allocatable.Minus(empty.Used)
			}
			if can(list, free) {
				break
			}
			fewest++
		}
		if int(got) < fewest || 9*int(got) > 11*fewest+6 {
			t.Errorf("%d nodes, %d are the fewest", got, fewest)
		}
		if waste < 0 || waste > 1 {
			t.Errorf("waste %v", waste)
		}
		if limited, _ := s.estimate(&empty, list, got-1); limited != got-1 {
			t.Errorf("limited to %d: %d", got-1, limited)
		}
	})
}
