package node

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

// Whatever a cycle remembers of those before it, the default solver's plan never
// costs more than FFD's, has no fewer pods placed, keeps every node that FFD's
// keeps where both have as many, and is the same when asked for again.
func TestTheDefaultIsNeverDearerThanFFD(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		var memory api.WarmStart
		for range rapid.IntRange(1, 3).Draw(t, "cycles") {
			w := worlds().Draw(t, "world")
			first := w.planBy(t, "ffd")
			plan := func() (api.NodePlan, api.WarmStart) {
				prepared, after := p.Prepare(memory)
				out, err := prepared(w.input())
				if err != nil {
					t.Fatal(err)
				}
				return out, after()
			}
			got, next := plan()
			if again, _ := plan(); !cmp.Equal(got, again) {
				t.Fatalf("from the same memory:\n%s", cmp.Diff(got, again))
			}
			memory = next
			if left, most := unplaced(got), unplaced(first); left > most || left == most && got.HourlyCost > first.HourlyCost*(1+1e-12) {
				t.Fatalf("%d pods without a place and %v USD/h, ffd %d and %v", left, got.HourlyCost, most, first.HourlyCost)
			}
			if got.LowerBound > got.HourlyCost*(1+1e-12) {
				t.Fatalf("cost %v, less than its bound %v", got.HourlyCost, got.LowerBound)
			}
			for i, pool := range got.Pools {
				if pool.Nodes == first.Pools[i].Nodes && !slices.Equal(pool.Surplus, first.Pools[i].Surplus) {
					t.Fatalf("pool %s of %d nodes gives up %v, ffd %v", pool.Pool, pool.Nodes, pool.Surplus, first.Pools[i].Surplus)
				}
			}
		}
	})
}

func unplaced(p api.NodePlan) (n int32) {
	for _, u := range p.Unplaced {
		n += u.Count
	}
	return n
}

// Who remembers the patterns of a cycle needs less work in the next for a
// packing that is as good.
func TestACycleStartsFromTheLastOnesPatterns(t *testing.T) {
	p := large(200, 10000)
	for _, t := range []Type{
		{Name: "high", Price: 0.27, Capacity: api.Resources{MilliCPU: 3920, Memory: 28 * gib, Pods: 110}},
		{Name: "double", Price: 0.79, Capacity: api.Resources{MilliCPU: 15890, Memory: 58 * gib, Pods: 110}},
	} {
		t.Max = Unlimited
		p.Types = append(p.Types, t)
	}
	budget, little := api.Budget{Iterations: 300}, api.Budget{Iterations: 60}
	k := &known{}
	cold, err := k.solve(rest, Columns{}, p, budget)
	if err != nil {
		t.Fatal(err)
	}
	pods := p.Items[0].Count
	for n := range int32(4) { // as many pods as before in the end
		p.Items[0].Count = pods + 3 - n
		k = &known{before: k.after().(WarmStart)}
		if _, err = k.solve(rest, Columns{}, p, budget); err != nil {
			t.Fatal(err)
		}
	}
	p.Items[0].Count = pods
	k = &known{before: k.after().(WarmStart)}
	warm, err := k.solve(rest, Columns{}, p, little)
	if err != nil {
		t.Fatal(err)
	}
	poor, err := Columns{}.Solve(p, little)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("cost %.2f cold, %.2f after four cycles with a fifth of the work, %.2f cold with as little", cold.Cost, warm.Cost, poor.Cost)
	if warm.Cost > 1.001*cold.Cost || warm.Cost >= 0.995*poor.Cost {
		t.Errorf("cost %v cold, %v warm with a fifth of the work, %v cold with as little", cold.Cost, warm.Cost, poor.Cost)
	}
	memory := k.after()
	if (&known{before: memory.(WarmStart)}).after() == nil {
		t.Error("a cycle without packings forgets")
	}
}
