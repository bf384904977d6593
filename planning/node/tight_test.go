package node

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/api"
)

// The bound is as high as what it rests on allows, and no higher.
func TestFluidBoundByHand(t *testing.T) {
	res := func(cpu, memory int64) api.Resources { return api.Resources{MilliCPU: cpu, Memory: memory} }
	large := Type{Name: "large", Capacity: res(10, 10), Price: 10, Max: Unlimited}
	small := Type{Name: "small", Capacity: res(4, 8), Price: 3, Max: Unlimited}
	free := Type{Name: "free", Capacity: res(10, 10), Max: Unlimited}
	one, both := []Type{large}, []Type{large, small}
	for sentence, test := range map[string]struct {
		types    []Type
		items    []Item
		unplaced []int32
		want     float64
	}{
		"whole nodes of one type":             {one, []Item{{Count: 11, Requests: res(1, 0)}}, nil, 20},
		"whole nodes of all items together":   {one, []Item{{Count: 6, Requests: res(1, 0)}, {Count: 6, Requests: res(1, 0)}}, nil, 20},
		"none of an item makes no difference": {both, []Item{{Count: 11, Requests: res(1, 0), Types: []int{0}}, {Requests: res(1, 0)}}, nil, 20},
		"nor one that is left over":           {both, []Item{{Count: 11, Requests: res(1, 0), Types: []int{0}}, {Count: 3, Requests: res(1, 0)}}, []int32{0, 3}, 20},
		"a node that is just full":            {one, []Item{{Count: 10, Requests: res(1, 1)}}, nil, 10},
		"as many as an item takes by itself":  {one, []Item{{Count: 3, Requests: res(6, 0)}}, nil, 30},
		"of which a node may hold few":        {one, []Item{{Count: 5, Requests: res(1, 0), MaxPerNode: 2}}, nil, 30},
		"the item that takes most":            {one, []Item{{Count: 3, Requests: res(6, 0)}, {Count: 1, Requests: res(1, 0)}}, nil, 30},
		"the dimension that takes most":       {one, []Item{{Count: 21, Requests: res(0, 1)}, {Count: 1, Requests: res(1, 0)}}, nil, 30},
		"the cheaper unit of two types":       {both, []Item{{Count: 10, Requests: res(1, 0)}}, nil, 7.5},
		"by memory":                           {both, []Item{{Count: 8, Requests: res(1, 4)}}, nil, 12},
		"where it may run":                    {both, []Item{{Count: 10, Requests: res(1, 0), Types: []int{0}}, {Count: 4, Requests: res(1, 0)}}, nil, 13},
		"of the one type where all run":       {both, []Item{{Count: 11, Requests: res(1, 0), Types: []int{0}}}, nil, 20},
		"or fit":                              {both, []Item{{Count: 3, Requests: res(5, 0)}}, nil, 20},
		"of the other one":                    {both, []Item{{Count: 5, Requests: res(1, 0), Types: []int{1}}}, nil, 6},
		"in fractions where types differ":     {both, []Item{{Count: 1, Requests: res(5, 0)}, {Count: 1, Requests: res(0, 1), Types: []int{1}}}, nil, 5},
		"without those unplaced":              {one, []Item{{Count: 11, Requests: res(1, 0)}}, []int32{1}, 10},
		"without any":                         {one, []Item{{Count: 11, Requests: res(1, 0)}}, []int32{11}, 0},
		"what fits nowhere":                   {one, []Item{{Count: 1, Requests: res(11, 0)}, {Count: 11, Requests: res(1, 0)}}, nil, 20},
		"nodes that are free":                 {[]Type{free}, []Item{{Count: 11, Requests: res(1, 0)}}, nil, 0},
		"or may be":                           {[]Type{large, free}, []Item{{Count: 11, Requests: res(1, 0)}}, nil, 0},
		"no types":                            {nil, []Item{{Count: 11, Requests: res(1, 0)}}, nil, 0},
		"an item that makes room":             {both, []Item{{Count: 10, Requests: res(2, 0)}, {Count: 2, Requests: res(-2, 1)}}, nil, 11},
	} {
		p := Problem{Types: test.types, Items: test.items}
		if got := compile(p).lowerBound(test.unplaced); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", sentence, got, test.want)
		}
	}
}

// Beside all packings: column generation places what can be placed, nearly always as
// cheaply as it can be, and says so where its bound shows it.
func TestTightColumns(t *testing.T) {
	placeable, optimal := 0, 0
	cost, bound, optimum := 0., 0., 0.
	for seed := range 300 {
		p := problems(6).Example(seed)
		k, err := Columns{}.Solve(p, api.Budget{Iterations: 200})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(k); err != nil || k.Fallback != "" {
			t.Errorf("problem %d: %v, %s", seed, err, k.Fallback)
		}
		if leftOver(k) > 0 { // the bound is of those that are placed
			placed := p
			placed.Items = slices.Clone(p.Items)
			for i, n := range k.Unplaced {
				placed.Items[i].Count -= n
			}
			if best := cheapest(placed); k.Optimal || k.LowerBound > best+1e-9 || k.Cost < best-1e-9 {
				t.Errorf("problem %d: with %d left over optimal %v, cost %v, bound %v, the best is %v", seed, leftOver(k), k.Optimal, k.Cost, k.LowerBound, best)
			}
		}
		huge := Item{Name: "huge", Count: 2, Requests: api.Resources{MilliCPU: 1_000_000}}
		more, err := Columns{}.Solve(Problem{Types: p.Types, Items: append(slices.Clone(p.Items), huge)}, api.Budget{Iterations: 200})
		if err != nil {
			t.Fatal(err)
		}
		if leftOver(more) != leftOver(k)+2 || math.Abs(more.Cost-k.Cost) > 1e-9 || math.Abs(more.LowerBound-k.LowerBound) > 1e-6 {
			t.Errorf("problem %d: cost %v, bound %v, with pods that fit nowhere %v, %v", seed, k.Cost, k.LowerBound, more.Cost, more.LowerBound)
		}
		best := cheapest(p)
		if math.IsInf(best, 1) {
			continue
		}
		if placeable++; leftOver(k) > 0 {
			t.Errorf("problem %d: %d left over", seed, leftOver(k))
			continue
		}
		if k.LowerBound > best+1e-9 || k.Cost < best-1e-9 || k.Optimal && k.Cost > best+1e-9 {
			t.Errorf("problem %d: cost %v, bound %v, the best is %v", seed, k.Cost, k.LowerBound, best)
		}
		if k.Optimal {
			optimal++
		}
		cost, bound, optimum = cost+k.Cost, bound+k.LowerBound, optimum+best
	}
	t.Logf("%d can be placed, %d are said to be optimal; cost %.4f, bound %.4f of the best", placeable, optimal, cost/optimum, bound/optimum)
	if placeable < 100 || float64(optimal) < 0.9*float64(placeable) || cost > 1.002*optimum || bound < 0.98*optimum {
		t.Errorf("%d can be placed, %d are said to be optimal; cost %.4f, bound %.4f of the best", placeable, optimal, cost/optimum, bound/optimum)
	}
}

// Where First Fit Decreasing leaves one over on the nodes there may be, column generation
// places all.
func TestTightColumnsPlaceMore(t *testing.T) {
	p := Problem{Types: []Type{{Name: "node", Capacity: api.Resources{MilliCPU: 10}, Price: 1, Max: 2}}}
	for _, cpu := range []int64{5, 4, 4, 3, 2, 2} {
		p.Items = append(p.Items, Item{Name: fmt.Sprint(cpu, len(p.Items)), Count: 1, Requests: api.Resources{MilliCPU: cpu}})
	}
	for solver, want := range map[Solver]int32{FFD{}: 1, Columns{}: 0} {
		if k, err := solver.Solve(p, api.Budget{}); err != nil || leftOver(k) != want || k.Optimal != (want == 0) {
			t.Errorf("%s: %d left over, want %d; optimal %v, %v", solver.Name(), leftOver(k), want, k.Optimal, err)
		}
	}
}

// Items and types that are alike are packed as one, and each gets its own back: never
// another solver's packing because of it, as many of each type as it may have, and of
// types without a limit about the same number.
func TestTightAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	columns := 0
	for n := range 200 {
		var p Problem
		for i := range 2 + r.IntN(5) {
			p.Items = append(p.Items, Item{
				Name: fmt.Sprint("item-", i), Count: r.Int32N(7), Requests: api.Resources{MilliCPU: []int64{270, 390}[r.IntN(2)], Pods: 1},
			})
		}
		for i, limit := range [][]int32{{Unlimited, Unlimited, Unlimited}, {Unlimited, Unlimited, 1}, {1, 2, 20}}[r.IntN(3)] {
			p.Types = append(p.Types, Type{
				Name: fmt.Sprint("type-", i), Capacity: api.Resources{MilliCPU: 1000, Pods: 10}, Price: 1, Max: limit, Zone: fmt.Sprint(i % 2),
			})
		}
		k, err := Columns{}.Solve(p, api.Budget{Iterations: 200})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(k); err != nil || k.Fallback != "" {
			t.Fatalf("problem %d: %v, fallback %q: %+v", n, err, k.Fallback, p)
		}
		if k.Solver != columnsName {
			continue
		}
		columns++
		least, most := int32(math.MaxInt16), int32(0)
		for i, typ := range p.Types {
			if typ.Max == Unlimited {
				least, most = min(least, k.Nodes(i)), max(most, k.Nodes(i))
			}
		}
		if most > least+1 {
			t.Errorf("problem %d: from %d to %d nodes of types that are alike: %+v", n, least, most, k.Loads)
		}
	}
	if columns < 20 {
		t.Errorf("%d packings by columns: too few to show anything", columns)
	}
}

// Check is what keeps a wrong packing from a plan: it knows of zones, and of packings
// that make no sense.
func TestCheckOfZonesAndOrder(t *testing.T) {
	p := Problem{
		Items: []Item{{Name: "a", Count: 3, MaxPerZone: 2}, {Name: "b", Count: 1}},
		Types: []Type{{Name: "x", Max: Unlimited, Zone: "z"}, {Name: "y", Max: Unlimited, Zone: "z"}, {Name: "anywhere", Max: Unlimited}},
	}
	rest := []int32{0, 1}
	for name, test := range map[string]struct {
		packing Packing
		want    string
	}{
		"two in a zone, one elsewhere": {Packing{Unplaced: rest, Loads: []Load{{0, 1, []Share{{0, 1}}}, {1, 1, []Share{{0, 1}}}, {2, 1, []Share{{0, 1}}}}}, ""},
		"all where there is no zone":   {Packing{Unplaced: rest, Loads: []Load{{2, 3, []Share{{0, 1}}}}}, ""},
		"three in a zone":              {Packing{Unplaced: rest, Loads: []Load{{0, 3, []Share{{0, 1}}}}}, "3 pods of a in zone z, at most 2"},
		"of two types":                 {Packing{Unplaced: rest, Loads: []Load{{0, 2, []Share{{0, 1}}}, {1, 1, []Share{{0, 1}}}}}, "3 pods of a in zone z, at most 2"},
		"out of order":                 {Packing{Unplaced: []int32{2, 0}, Loads: []Load{{0, 1, []Share{{1, 1}, {0, 1}}}}}, "out of order"},
		"twice":                        {Packing{Unplaced: []int32{1, 1}, Loads: []Load{{0, 1, []Share{{0, 1}, {0, 1}}}}}, "out of order"},
		"none":                         {Packing{Unplaced: []int32{3, 1}, Loads: []Load{{0, 1, []Share{{0, 0}}}}}, "0 pods of a"},
		"less than none":               {Packing{Unplaced: []int32{4, 1}, Loads: []Load{{0, 1, []Share{{0, -1}}}}}, "-1 pods of a"},
		"no such type":                 {Packing{Unplaced: []int32{2, 1}, Loads: []Load{{3, 1, []Share{{0, 1}}}}}, "type 3 does not exist"},
		"nor a negative one":           {Packing{Unplaced: []int32{2, 1}, Loads: []Load{{-1, 1, []Share{{0, 1}}}}}, "type -1 does not exist"},
		"counts of other items":        {Packing{Unplaced: []int32{3}}, "1 unplaced counts for 2 items"},
	} {
		if err := p.Check(test.packing); test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: error is %v, want %q", name, err, test.want)
		}
	}
	for name, p := range map[string]Problem{
		"a negative number per node": {Items: []Item{{MaxPerNode: -1}}},
		"or per zone":                {Items: []Item{{MaxPerZone: -1}}},
		"a negative type":            {Items: []Item{{Types: []int{-1}}}, Types: []Type{{}}},
		"a price without end":        {Types: []Type{{Price: math.Inf(1)}}},
	} {
		if p.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	right := Problem{Items: []Item{{Types: []int{0}}}, Types: []Type{{Max: Unlimited}}}
	if err := right.Validate(); err != nil {
		t.Error(err)
	}
}
