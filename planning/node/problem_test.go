package node

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

// cheapest is the cost of an optimal packing by trying everything: each pod goes
// onto every open node with room, and onto a new node of every type. It is
// +Inf when not all pods can be placed.
func cheapest(p Problem) float64 {
	c := compile(p)
	var pods []int
	for i, it := range p.Items {
		for range it.Count {
			pods = append(pods, i)
		}
	}
	type node struct {
		typ   int
		free  []int64
		count map[int]int32
	}
	best := math.Inf(1)
	var nodes []node
	type spot struct {
		item int
		zone string
	}
	zones := map[spot]int32{}
	full := func(i, t int) bool {
		most := p.Items[i].MaxPerZone
		return most > 0 && p.Types[t].Zone != "" && zones[spot{i, p.Types[t].Zone}] >= most
	}
	var try func(n int, cost float64)
	try = func(n int, cost float64) {
		if cost >= best {
			return
		}
		if n == len(pods) {
			best = cost
			return
		}
		i := pods[n]
		most := p.Items[i].MaxPerNode
		for k := range nodes {
			at := nodes[k]
			if !c.allowed[i][at.typ] || copies(c.requests[i], at.free) == 0 || most > 0 && at.count[i] >= most || full(i, at.typ) {
				continue
			}
			take(at.free, c.requests[i], 1)
			at.count[i]++
			zones[spot{i, p.Types[at.typ].Zone}]++
			try(n+1, cost)
			zones[spot{i, p.Types[at.typ].Zone}]--
			at.count[i]--
			take(at.free, c.requests[i], -1)
		}
		for t, typ := range p.Types {
			used := int32(0)
			for _, at := range nodes {
				if at.typ == t {
					used++
				}
			}
			if !c.allowed[i][t] || typ.Max != Unlimited && used >= typ.Max || full(i, t) {
				continue
			}
			free := slices.Clone(c.capacity[t])
			take(free, c.requests[i], 1)
			nodes = append(nodes, node{t, free, map[int]int32{i: 1}})
			zones[spot{i, typ.Zone}]++
			try(n+1, cost+typ.Price)
			zones[spot{i, typ.Zone}]--
			nodes = nodes[:len(nodes)-1]
		}
	}
	try(0, 0)
	return best
}

// problems draws packing problems with at most pods pods.
func problems(pods int) *rapid.Generator[Problem] {
	return rapid.Custom(func(t *rapid.T) Problem {
		var p Problem
		for n := range rapid.IntRange(1, 3).Draw(t, "types") {
			typ := Type{
				Name:     fmt.Sprintf("type-%d", n),
				Capacity: api.Resources{MilliCPU: rapid.Int64Range(500, 2000).Draw(t, "cpu"), Memory: rapid.Int64Range(1, 8).Draw(t, "memory") * gib, Pods: rapid.Int64Range(1, 5).Draw(t, "slots")},
				Price:    float64(rapid.IntRange(0, 20).Draw(t, "cents")) / 100,
				Max:      rapid.SampledFrom([]int32{Unlimited, Unlimited, 0, 1, 3}).Draw(t, "max"),
				Zone:     rapid.SampledFrom([]string{"", "a", "a", "b"}).Draw(t, "zone"),
			}
			if rapid.Bool().Draw(t, "has a GPU") {
				typ.Capacity.Extended = map[string]int64{"nvidia.com/gpu": 2}
			}
			p.Types = append(p.Types, typ)
		}
		left := rapid.IntRange(0, pods).Draw(t, "pods")
		for n := 0; left > 0; n++ {
			count := rapid.IntRange(1, left).Draw(t, "count")
			left -= count
			it := Item{
				Name: fmt.Sprintf("item-%d", n), Count: int32(count),
				Requests:   api.Resources{MilliCPU: rapid.Int64Range(0, 1500).Draw(t, "cpu"), Memory: rapid.Int64Range(0, 4*gib).Draw(t, "memory"), Pods: 1},
				MaxPerNode: rapid.SampledFrom([]int32{0, 0, 1, 2}).Draw(t, "per node"),
				MaxPerZone: rapid.SampledFrom([]int32{0, 0, 0, 1, 2}).Draw(t, "per zone"),
			}
			if rapid.IntRange(0, 4).Draw(t, "gpu") == 0 {
				it.Requests.Extended = map[string]int64{"nvidia.com/gpu": 1}
			}
			if rapid.Bool().Draw(t, "choosy") {
				it.Types = []int{rapid.IntRange(0, len(p.Types)-1).Draw(t, "type")}
			}
			p.Items = append(p.Items, it)
		}
		return p
	})
}

func leftOver(k Packing) int32 {
	var n int32
	for _, u := range k.Unplaced {
		n += u
	}
	return n
}

func TestFFDOnRandomProblems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problems(6).Draw(t, "problem")
		k, err := FFD{}.Solve(p, api.Budget{})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(k); err != nil {
			t.Fatalf("%v\n%+v", err, k)
		}
		if k.Cost < k.LowerBound-1e-9 {
			t.Fatalf("cost %v below the lower bound %v", k.Cost, k.LowerBound)
		}
		best := cheapest(p)
		switch {
		case leftOver(k) > 0:
			// FFD may leave over what a cleverer packing places; but never
			// pods for which a node could still be opened.
			c := compile(p)
			for i, n := range k.Unplaced {
				for typ, ok := range c.allowed[i] {
					if n > 0 && ok && p.Items[i].MaxPerZone == 0 && (p.Types[typ].Max == Unlimited || k.Nodes(typ) < p.Types[typ].Max) {
						t.Fatalf("%s left over although %s may still grow", p.Items[i].Name, p.Types[typ].Name)
					}
				}
			}
		case k.Cost < best-1e-9:
			t.Fatalf("cost %v below the optimum %v", k.Cost, best)
		case p.LowerBound() > best+1e-9:
			t.Fatalf("lower bound %v above the optimum %v", p.LowerBound(), best)
		case k.Optimal && k.Cost > best+1e-9:
			t.Fatalf("cost %v is said to be optimal, the optimum is %v", k.Cost, best)
		}
	})
}

// Column generation is never worse than FFD, proves no more than is true, and
// gives the same packing again.
func TestColumnsOnRandomProblems(t *testing.T) {
	optimal, total := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := problems(6).Draw(t, "problem")
		solve := func(s Solver) Packing {
			k, err := s.Solve(p, api.Budget{Iterations: 200})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Check(k); err != nil {
				t.Fatalf("%v\n%+v", err, k)
			}
			return k
		}
		k, ffd := solve(Columns{}), solve(FFD{})
		if better(ffd, k) {
			t.Fatalf("%d left over, cost %v; FFD has %d, %v", leftOver(k), k.Cost, leftOver(ffd), ffd.Cost)
		}
		if diff := cmp.Diff(k, solve(Columns{})); diff != "" {
			t.Fatalf("another time:\n%s", diff)
		}
		best := cheapest(p)
		if leftOver(k) > 0 {
			return
		}
		switch {
		case k.Cost < best-1e-9:
			t.Fatalf("cost %v below the optimum %v", k.Cost, best)
		case k.LowerBound > best+1e-9:
			t.Fatalf("lower bound %v above the optimum %v", k.LowerBound, best)
		case k.Optimal && k.Cost > best+1e-9:
			t.Fatalf("cost %v is said to be optimal, the optimum is %v", k.Cost, best)
		}
		if total++; k.Cost <= best+1e-9 {
			optimal++
		}
	})
	t.Logf("%d of %d optimal", optimal, total)
}

// One type and one dimension: First Fit Decreasing needs at most
// 11/9·OPT + 6/9 nodes (Dósa 2007).
func TestFFDKeepsItsGuarantee(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Problem{Types: []Type{{Name: "node", Capacity: api.Resources{MilliCPU: 100}, Price: 1, Max: Unlimited}}}
		for n := range rapid.IntRange(1, 8).Draw(t, "pods") {
			p.Items = append(p.Items, Item{Name: fmt.Sprint(n), Count: 1, Requests: api.Resources{MilliCPU: rapid.Int64Range(1, 100).Draw(t, "cpu")}})
		}
		k, err := FFD{}.Solve(p, api.Budget{})
		if err != nil {
			t.Fatal(err)
		}
		if best := cheapest(p); k.Cost > 11./9*best+6./9 {
			t.Fatalf("%v nodes, the optimum is %v", k.Cost, best)
		}
	})
}

func TestFFDDoesNotDependOnTheOrderOfItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problems(20).Draw(t, "problem")
		q := Problem{Types: p.Types}
		order := rapid.Permutation(seq(len(p.Items))).Draw(t, "order")
		for _, i := range order {
			q.Items = append(q.Items, p.Items[i])
		}
		a, err := FFD{}.Solve(p, api.Budget{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := FFD{}.Solve(q, api.Budget{})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(a.Cost-b.Cost) > 1e-9 || leftOver(a) != leftOver(b) {
			t.Fatalf("cost %v, %d left over; in another order %v, %d", a.Cost, leftOver(a), b.Cost, leftOver(b))
		}
	})
}

func seq(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func TestFFD(t *testing.T) {
	cpu := func(m int64) api.Resources { return api.Resources{MilliCPU: m} }
	for name, tc := range map[string]struct {
		problem Problem
		want    []Load
		cost    float64
		bound   float64
	}{
		"nothing": {problem: Problem{Types: []Type{{Capacity: cpu(10), Max: Unlimited}}}},
		"equal pods are packed at once": {
			problem: Problem{
				Items: []Item{{Requests: cpu(3), Count: 8}},
				Types: []Type{{Capacity: cpu(10), Price: 1, Max: Unlimited}},
			},
			want:  []Load{{Nodes: 2, Pods: []Share{{0, 3}}}, {Nodes: 1, Pods: []Share{{0, 2}}}},
			cost:  3,
			bound: 3, // ⌈24/10⌉
		},
		"large pods first, small ones into the gaps": {
			problem: Problem{
				Items: []Item{{Requests: cpu(4), Count: 2}, {Requests: cpu(6), Count: 2}},
				Types: []Type{{Capacity: cpu(10), Price: 1, Max: Unlimited}},
			},
			want:  []Load{{Nodes: 2, Pods: []Share{{0, 1}, {1, 1}}}},
			cost:  2,
			bound: 2,
		},
		"the type that is cheapest for the pods": {
			// 8 pods of 5: small holds 1 for 3, large 4 for 10.
			problem: Problem{
				Items: []Item{{Requests: cpu(5), Count: 8}},
				Types: []Type{{Capacity: cpu(5), Price: 3, Max: Unlimited}, {Capacity: cpu(20), Price: 10, Max: Unlimited}},
			},
			want:  []Load{{Type: 1, Nodes: 2, Pods: []Share{{0, 4}}}},
			cost:  20,
			bound: 20, // 40 × 10/20
		},
		"a last node that is nearly empty becomes a small one": {
			problem: Problem{
				Items: []Item{{Requests: cpu(5), Count: 5}},
				Types: []Type{{Capacity: cpu(5), Price: 3, Max: Unlimited}, {Capacity: cpu(20), Price: 10, Max: Unlimited}},
			},
			want:  []Load{{Type: 0, Nodes: 1, Pods: []Share{{0, 1}}}, {Type: 1, Nodes: 1, Pods: []Share{{0, 4}}}},
			cost:  13,
			bound: 12.5,
		},
		"types of one price take turns": {
			problem: Problem{
				Items: []Item{{Requests: cpu(10), Count: 5}},
				Types: []Type{{Capacity: cpu(10), Price: 1, Max: Unlimited}, {Capacity: cpu(10), Price: 1, Max: Unlimited}, {Capacity: cpu(10), Price: 1, Max: Unlimited}},
			},
			want:  []Load{{0, 2, []Share{{0, 1}}}, {1, 2, []Share{{0, 1}}}, {2, 1, []Share{{0, 1}}}},
			cost:  5,
			bound: 5,
		},
		"pods that ask for nothing need a node": {
			problem: Problem{
				Items: []Item{{Count: 3}},
				Types: []Type{{Price: 1, Max: Unlimited}},
			},
			want: []Load{{Nodes: 1, Pods: []Share{{0, 3}}}},
			cost: 1, bound: 1,
		},
		"a node holds whole pods": {
			problem: Problem{
				Items: []Item{{Requests: cpu(2), Count: 5, Types: []int{0}}},
				Types: []Type{{Price: 1, Capacity: cpu(7), Max: Unlimited}, {Price: 1.1, Capacity: cpu(9), Max: Unlimited}},
			},
			want: []Load{{Nodes: 1, Pods: []Share{{0, 3}}}, {Nodes: 1, Pods: []Share{{0, 2}}}},
			cost: 2, bound: 2,
		},
		"free nodes are still used sparingly": {
			problem: Problem{
				Items: []Item{{Requests: cpu(5), Count: 4}},
				Types: []Type{{Capacity: cpu(5), Max: Unlimited}, {Capacity: cpu(20), Max: Unlimited}},
			},
			want: []Load{{Type: 1, Nodes: 1, Pods: []Share{{0, 4}}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := FFD{}.Solve(tc.problem, api.Budget{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, k.Loads, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("loads (-want +got):\n%s", diff)
			}
			if k.Cost != tc.cost || math.Abs(k.LowerBound-tc.bound) > 1e-9 {
				t.Errorf("cost %v, lower bound %v; want %v, %v", k.Cost, k.LowerBound, tc.cost, tc.bound)
			}
		})
	}
}

func TestProblemsThatAreNone(t *testing.T) {
	for name, tc := range map[string]struct {
		problem Problem
		want    string
	}{
		"a negative count":             {Problem{Items: []Item{{Name: "a", Count: -1}}}, "items[0] a: negative count"},
		"a type that does not exist":   {Problem{Items: []Item{{Name: "a", Types: []int{1}}}, Types: []Type{{}}}, "type 1 does not exist"},
		"a price that is not a number": {Problem{Types: []Type{{Name: "t", Price: math.NaN()}}}, "types[0] t: price NaN"},
		"a negative price":             {Problem{Types: []Type{{Name: "t", Price: -1}}}, "price -1"},
		"a negative maximum":           {Problem{Types: []Type{{Name: "t", Max: -2}}}, "negative maximum"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, solver := range Solvers() {
				s, err := NewSolver(solver, Limits{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Solve(tc.problem, api.Budget{}); err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s: error is %v, want one with %q", solver, err, tc.want)
				}
			}
		})
	}
}

func TestNoTypesLeaveEverythingOver(t *testing.T) {
	for _, solver := range Solvers() {
		s, err := NewSolver(solver, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		k, err := s.Solve(Problem{Items: []Item{{Name: "a", Count: 2, Requests: api.Resources{MilliCPU: 1}}}}, api.Budget{})
		if err != nil || !cmp.Equal(k.Unplaced, []int32{2}) || k.Cost != 0 {
			t.Errorf("%s: %+v, %v", solver, k, err)
		}
	}
}

// Check finds what is wrong with a packing, whoever made it.
func TestCheck(t *testing.T) {
	p := Problem{
		Items: []Item{{Name: "a", Count: 2, Requests: api.Resources{MilliCPU: 6}}, {Name: "b", Count: 2, MaxPerNode: 1, Types: []int{0}}},
		Types: []Type{{Name: "small", Capacity: api.Resources{MilliCPU: 10}, Max: 2}, {Name: "large", Capacity: api.Resources{MilliCPU: 20}, Max: Unlimited}},
	}
	for name, tc := range map[string]struct {
		packing Packing
		want    string
	}{
		"right":           {Packing{Unplaced: []int32{0, 1}, Loads: []Load{{1, 1, []Share{{0, 2}}}, {0, 1, []Share{{1, 1}}}}}, ""},
		"overfull":        {Packing{Unplaced: []int32{0, 2}, Loads: []Load{{0, 1, []Share{{0, 2}}}}}, "does not hold"},
		"wrong type":      {Packing{Unplaced: []int32{2, 1}, Loads: []Load{{1, 1, []Share{{1, 1}}}}}, "b may not run on large"},
		"too many copies": {Packing{Unplaced: []int32{2, 0}, Loads: []Load{{0, 1, []Share{{1, 2}}}}}, "at most 1 allowed"},
		"too many nodes":  {Packing{Unplaced: []int32{0, 1}, Loads: []Load{{0, 2, []Share{{0, 1}}}, {0, 1, []Share{{1, 1}}}}}, "3 nodes, at most 2"},
		"a pod lost":      {Packing{Unplaced: []int32{1, 2}}, "a: 1 pods accounted for, 2 asked for"},
		"a pod invented":  {Packing{Unplaced: []int32{-1, 2}, Loads: []Load{{1, 1, []Share{{0, 3}}}}}, "a: -1 pods unplaced"},
	} {
		t.Run(name, func(t *testing.T) {
			err := p.Check(tc.packing)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
}

func TestNewSolver(t *testing.T) {
	for _, name := range append(Solvers(), "") {
		if _, err := NewSolver(name, Limits{}); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := NewSolver("magic", Limits{}); err == nil || !strings.Contains(err.Error(), `"magic"`) {
		t.Errorf("error is %v", err)
	}
}

// BenchmarkFFD packs as many shapes and pods as a large cluster has.
func BenchmarkFFD(b *testing.B) {
	p := large(1000, 10_000)
	for b.Loop() {
		if _, err := (FFD{}).Solve(p, api.Budget{}); err != nil {
			b.Fatal(err)
		}
	}
}

func large(shapes, pods int) Problem {
	r := rand.New(rand.NewPCG(1, 2))
	p := Problem{Types: []Type{{Name: "node", Capacity: api.Resources{MilliCPU: 7900, Memory: 28 * gib, Pods: 110}, Price: .4, Max: Unlimited}}}
	for n := range shapes {
		p.Items = append(p.Items, Item{
			Name: fmt.Sprint(n), Count: int32(pods / shapes),
			Requests: api.Resources{MilliCPU: 50 * (1 + r.Int64N(40)), Memory: 64 << 20 * (1 + r.Int64N(60)), Pods: 1},
		})
	}
	return p
}

// An item that makes room counts against the bounds: two nodes' worth of pods fit one.
func TestLowerBoundKnowsOfRoom(t *testing.T) {
	vector := func(v int64) api.Resources { return api.Resources{Extended: map[string]int64{"x": v}} }
	p := Problem{
		Items: []Item{{Name: "a", Count: 2, Requests: vector(4)}, {Name: "room", Count: 1, Requests: vector(-3)}},
		Types: []Type{{Name: "n", Capacity: vector(5), Price: 1, Max: Unlimited}},
	}
	if got := p.LowerBound(); got != 1 {
		t.Errorf("at least %v, but one node holds all", got)
	}
	k, err := Columns{}.Solve(p, api.Budget{})
	if err != nil || k.Cost != 1 || k.LowerBound != 1 {
		t.Errorf("cost %v, at least %v, error %v; want one node", k.Cost, k.LowerBound, err)
	}
}
