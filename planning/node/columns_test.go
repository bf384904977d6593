package node

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

// A solver that did not know of a constraint would break it here: the packing
// of the problem without it is refused by the problem with it.
func TestEveryConstraintMatters(t *testing.T) {
	base := func() Problem {
		return Problem{
			Items: []Item{{Name: "a", Count: 6, Requests: api.Resources{MilliCPU: 1000, Memory: gib, Pods: 1}}},
			Types: []Type{
				{Name: "cheap", Price: 1, Max: Unlimited, Zone: "z", Capacity: api.Resources{MilliCPU: 4000, Memory: 4 * gib, Pods: 10}},
				{Name: "dear", Price: 3, Max: Unlimited, Zone: "y", Capacity: api.Resources{MilliCPU: 4000, Memory: 8 * gib, Pods: 10, EphemeralStorage: gib, Extended: map[string]int64{"nvidia.com/gpu": 1}}},
			},
		}
	}
	for name, constrain := range map[string]func(*Problem){
		"CPU":               func(p *Problem) { p.Items[0].Requests.MilliCPU = 3000 },
		"memory":            func(p *Problem) { p.Items[0].Requests.Memory = 3 * gib },
		"ephemeral storage": func(p *Problem) { p.Items[0].Requests.EphemeralStorage = gib / 2 },
		"pods per node":     func(p *Problem) { p.Types[0].Capacity.Pods = 2 },
		"a GPU":             func(p *Problem) { p.Items[0].Requests.Extended = map[string]int64{"nvidia.com/gpu": 1} },
		"copies per node":   func(p *Problem) { p.Items[0].MaxPerNode = 1 },
		"copies per zone":   func(p *Problem) { p.Items[0].MaxPerZone = 3 },
		"types":             func(p *Problem) { p.Items[0].Types = []int{1} },
		"nodes of a type":   func(p *Problem) { p.Types[0].Max = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			loose, tight := base(), base()
			constrain(&tight)
			for _, s := range []Solver{FFD{}, Columns{}} {
				k, err := s.Solve(loose, api.Budget{})
				if err != nil {
					t.Fatal(err)
				}
				if err := tight.Check(k); err == nil {
					t.Errorf("%s: the packing that knows nothing of it passes", s.Name())
				}
				if k, err = s.Solve(tight, api.Budget{}); err != nil {
					t.Fatal(err)
				}
				if err := tight.Check(k); err != nil || leftOver(k) > 0 {
					t.Errorf("%s: %v, %d left over", s.Name(), err, leftOver(k))
				}
			}
		})
	}
}

// From the patterns of last time the same problem takes less work, and one that
// changed a little is packed as well.
func TestColumnsStartWarm(t *testing.T) {
	p := large(60, 3000)
	p.Types = append(p.Types,
		Type{Name: "small", Price: .2, Capacity: api.Resources{MilliCPU: 3920, Memory: 28 * gib, Pods: 110}, Max: Unlimited},
		Type{Name: "double", Price: .79, Capacity: api.Resources{MilliCPU: 15890, Memory: 58 * gib, Pods: 110}, Max: Unlimited},
	)
	budget := api.Budget{Iterations: 5000}
	cold, patterns, err := Columns{}.SolveFrom(p, budget, Patterns{})
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := Columns{}.SolveFrom(p, budget, patterns)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("cold %v in %d, warm %v in %d", cold.Cost, cold.Iterations, again.Cost, again.Iterations)
	if math.Abs(again.Cost-cold.Cost) > 0.41 || again.Iterations > cold.Iterations {
		t.Errorf("cost %v in %d iterations, warm %v in %d", cold.Cost, cold.Iterations, again.Cost, again.Iterations)
	}
	p.Items = append(p.Items[3:], Item{Name: "new", Count: 20, Requests: api.Resources{MilliCPU: 350, Memory: gib, Pods: 1}})
	p.Items[0].Count *= 2
	p.Items[1].Requests.MilliCPU += 100 // resized
	next, _, err := Columns{}.SolveFrom(p, budget, patterns)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(next); err != nil || leftOver(next) > 0 {
		t.Errorf("%v, %d left over", err, leftOver(next))
	}
	// One node more than the bound proves is what rounding may cost.
	if next.Cost > next.LowerBound+1.01*p.Types[0].Price {
		t.Errorf("cost %v, bound %v", next.Cost, next.LowerBound)
	}
}

// A chain of problems whose items become alike and differ again, and whose types
// do: what is known of the last one names items by what they were then. Every
// packing holds, and a chain comes out the same again.
func TestColumnsStartWarmFromWhatIsNoLongerSo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		menu := []api.Resources{{MilliCPU: 150, Pods: 1}, {MilliCPU: 300, Memory: gib, Pods: 1}, {MilliCPU: 550, Memory: gib / 2, Pods: 1}}
		var chain []Problem
		for range rapid.IntRange(2, 5).Draw(t, "cycles") {
			var p Problem
			for n := range rapid.IntRange(1, 6).Draw(t, "items") {
				p.Items = append(p.Items, Item{
					Name: fmt.Sprint("item-", n), Requests: rapid.SampledFrom(menu).Draw(t, "requests"),
					Count:      rapid.Int32Range(0, 4).Draw(t, "count"),
					MaxPerNode: rapid.SampledFrom([]int32{0, 0, 0, 1}).Draw(t, "per node"),
					MaxPerZone: rapid.SampledFrom([]int32{0, 0, 0, 2}).Draw(t, "per zone"),
				})
			}
			for n := range 3 {
				p.Types = append(p.Types, Type{
					Name: fmt.Sprint("type-", n), Price: rapid.SampledFrom([]float64{1, 1, 1.7}).Draw(t, "price"),
					Capacity: rapid.SampledFrom([]api.Resources{{MilliCPU: 1000, Memory: 4 * gib, Pods: 4}, {MilliCPU: 1900, Memory: 4 * gib, Pods: 8}}).Draw(t, "capacity"),
					Max:      rapid.SampledFrom([]int32{Unlimited, Unlimited, 1}).Draw(t, "max"),
					Zone:     rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"),
				})
			}
			chain = append(chain, p)
		}
		run := func() (all []Packing) {
			var from Patterns
			for n, p := range chain {
				k, next, err := Columns{}.SolveFrom(p, api.Budget{Iterations: 200}, from)
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Check(k); err != nil || k.Fallback != "" {
					t.Fatalf("cycle %d: %v, fallback %q\n%+v\n%+v", n, err, k.Fallback, p, k)
				}
				all, from = append(all, k), next
			}
			return all
		}
		if diff := cmp.Diff(run(), run()); diff != "" {
			t.Fatalf("another time:\n%s", diff)
		}
	})
}

// Items that are alike and types that are alike are packed as one, and come out
// as they went in.
func TestClasses(t *testing.T) {
	one := api.Resources{MilliCPU: 300}
	p := Problem{
		Items: []Item{
			{Name: "a", Count: 3, Requests: one}, {Name: "b", Count: 4, Requests: one},
			{Name: "c", Count: 3, Requests: api.Resources{MilliCPU: 550}}, {Name: "d", Count: 2, Requests: api.Resources{MilliCPU: 150}},
		},
		Types: []Type{
			{Name: "x", Capacity: api.Resources{MilliCPU: 1000}, Price: 1, Max: Unlimited, Zone: "x"},
			{Name: "y", Capacity: api.Resources{MilliCPU: 1000}, Price: 1, Max: Unlimited, Zone: "y"},
		},
	}
	k, err := Columns{}.Solve(p, api.Budget{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(k); err != nil {
		t.Fatal(err)
	}
	if c := compile(p).classes(make([]int32, 4)); len(c.items) != 3 || len(c.types) != 1 {
		t.Errorf("%d items and %d types, want 3 and 1", len(c.items), len(c.types))
	}
	if got := []int32{k.Nodes(0), k.Nodes(1)}; !cmp.Equal(got, []int32{3, 2}) {
		t.Errorf("nodes by zone %v, want them level", got)
	}
}
