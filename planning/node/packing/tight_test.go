package packing

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// limited draws small problems in which kinds of bins are limited or free, and items
// limited in zones.
func limited() *rapid.Generator[*Problem] {
	return rapid.Custom(func(t *rapid.T) *Problem {
		p := problems(3, 3).Draw(t, "problem")
		for n := range p.Bins {
			p.Bins[n].Max = rapid.SampledFrom([]int32{Unlimited, Unlimited, 0, 1, 2}).Draw(t, "max")
			if rapid.IntRange(0, 4).Draw(t, "free") == 0 {
				p.Bins[n].Cost = 0
			}
			p.Bins[n].Zone = rapid.SampledFrom([]int{-1, 0, 1}).Draw(t, "zone")
		}
		for i := range p.Items {
			p.Items[i].PerZone = rapid.SampledFrom([]int32{0, 0, 1, 2}).Draw(t, "per zone")
		}
		return p
	})
}

// packed is what remains to be done in a search through all packings.
type packed struct {
	left  []int32
	bins  []int32    // opened, by kind
	zones [][2]int32 // copies by item and zone
}

// cheapest is what all items cost at least, by trying all, where bins are limited
// and items in zones; infinite where not all have a place.
func cheapest(p *Problem) float64 {
	known := map[string]float64{}
	var rest func(s packed) float64
	rest = func(s packed) float64 {
		first := slices.IndexFunc(s.left, func(n int32) bool { return n > 0 })
		if first < 0 {
			return 0
		}
		key := fmt.Sprint(s)
		if v, ok := known[key]; ok {
			return v
		}
		best := math.Inf(1)
		for bin, b := range p.Bins {
			if b.Max != Unlimited && s.bins[bin] >= b.Max {
				continue
			}
			free := slices.Clone(b.Capacity)
			next := packed{slices.Clone(s.left), slices.Clone(s.bins), slices.Clone(s.zones)}
			next.bins[bin]++
			var try func(i int)
			try = func(i int) {
				if i == len(s.left) {
					if slices.Min(free) >= 0 && next.left[first] < s.left[first] { // its bin comes first
						best = min(best, b.Cost+rest(packed{slices.Clone(next.left), slices.Clone(next.bins), slices.Clone(next.zones)}))
					}
					return
				}
				most := min(mostOf(p, i, bin), int64(s.left[i]))
				if per := p.Items[i].PerZone; per > 0 && b.Zone >= 0 {
					most = min(most, int64(per-s.zones[i][b.Zone]))
				}
				add := func(n int32) {
					take(free, p.Items[i].Size, int64(n))
					next.left[i] -= n
					if b.Zone >= 0 {
						next.zones[i][b.Zone] += n
					}
				}
				for n := range int32(most) + 1 {
					add(n)
					try(i + 1)
					add(-n)
				}
			}
			try(0)
		}
		known[key] = best
		return best
	}
	s := packed{make([]int32, len(p.Items)), make([]int32, len(p.Bins)), make([][2]int32, len(p.Items))}
	for i, it := range p.Items {
		s.left[i] = it.Count
	}
	return rest(s)
}

// Against trying all, where kinds of bins are limited and items in zones: nothing costs
// less than the bound, and nearly always the packing costs as little as any, all items
// have a place where they can have one, and the bound is near.
func TestTightWithLimits(t *testing.T) {
	const problems = 200
	placeable, left, cost, bound, optimum := 0, 0, 0., 0., 0.
	for seed := range problems {
		p := limited().Example(seed)
		k := checkSolve(t, p, 3e6)
		want := cheapest(p)
		if k.Bound > want+1e-9 || k.left() == 0 && k.Cost < want-1e-9 {
			t.Errorf("problem %d: cost %v, bound %v; the best is %v: %+v", seed, k.Cost, k.Bound, want, p)
		}
		if math.IsInf(want, 1) {
			continue
		}
		if placeable++; k.left() > 0 {
			left++
			continue
		}
		cost, bound, optimum = cost+k.Cost, bound+k.Bound, optimum+want
	}
	t.Logf("%d of %d can be placed, of which %d are not; cost %.4f and bound %.4f of the best", placeable, problems, left, cost/optimum, bound/optimum)
	if placeable < problems/4 || left > 0 || cost > 1.008*optimum || bound < 0.98*optimum {
		t.Errorf("%d of %d can be placed, of which %d are not; cost %.4f and bound %.4f of the best", placeable, problems, left, cost/optimum, bound/optimum)
	}
}

// The same without limits, and how many items FirstFit needs more for.
func TestTight(t *testing.T) {
	const count = 200
	cost, bound, first, optimum := 0., 0., 0., 0.
	for seed := range count {
		p := problems(4, 4).Example(seed)
		k := checkSolve(t, p, 3e6)
		want := cheapest(p)
		if k.left() > 0 || k.Cost < want-1e-9 || k.Bound > want+1e-9 {
			t.Errorf("problem %d: cost %v, bound %v, %d left over; the best is %v: %+v", seed, k.Cost, k.Bound, k.left(), want, p)
		}
		cost, bound, first, optimum = cost+k.Cost, bound+k.Bound, first+FirstFit(p).Cost, optimum+want
	}
	t.Logf("cost %.4f, bound %.4f, first fit %.4f of the best", cost/optimum, bound/optimum, first/optimum)
	if cost > 1.001*optimum || bound < 0.985*optimum || first > 1.04*optimum {
		t.Errorf("cost %.4f, bound %.4f, first fit %.4f of the best", cost/optimum, bound/optimum, first/optimum)
	}
}

// From the packing of a problem that was another one, up to items and bins that there
// are no more, the packing is as good and the bound holds.
func TestWarmFromAnotherProblem(t *testing.T) {
	const count = 200
	cost, bound, optimum := 0., 0., 0.
	for seed := range count {
		r := rand.New(rand.NewPCG(uint64(seed), 5))
		before, p := limited().Example(seed), limited().Example(seed)
		for n := range r.IntN(3) { // a few items are other ones
			if i := n; i < len(p.Items) {
				p.Items[i].Count = 1 + r.Int32N(3)
			}
		}
		from := Solve(before, Settings{Work: 3e6, Gap: 1e-4})
		if r.IntN(3) == 0 && len(p.Items) > 0 {
			p.Items = p.Items[:len(p.Items)-1]
		}
		if r.IntN(3) == 0 && len(p.Bins) > 1 {
			p.Bins = p.Bins[:len(p.Bins)-1]
			for i := range p.Items {
				p.Items[i].Bins = p.Items[i].Bins[:len(p.Bins)]
			}
		}
		settings := Settings{Work: 3e6, Gap: 1e-4, Loads: from.Loads, Patterns: from.Patterns}
		if len(from.Worth) == len(p.Items) {
			settings.Worth = from.Worth
		}
		for range 2 { // what was two items may be one by now
			if len(settings.Loads) > 0 && r.IntN(2) == 0 {
				l := settings.Loads[0]
				l.Shares = slices.Concat(l.Shares, l.Shares)
				settings.Loads = append(slices.Clone(settings.Loads), l)
			}
		}
		k, again := Solve(p, settings), Solve(p, Settings{Work: 3e6, Gap: 1e-4})
		check(t, p, k)
		want := cheapest(p)
		if k.Bound > want+1e-9 || k.left() != again.left() {
			t.Errorf("problem %d: %d left over, cost %v, bound %v; %d left over from nothing; the best is %v", seed, k.left(), k.Cost, k.Bound, again.left(), want)
		}
		if k.left() > 0 {
			continue
		}
		cost, bound, optimum = cost+k.Cost, bound+k.Bound, optimum+want
	}
	t.Logf("cost %.4f, bound %.4f of the best", cost/optimum, bound/optimum)
	if cost > 1.005*optimum || bound < 0.98*optimum {
		t.Errorf("cost %.4f, bound %.4f of the best", cost/optimum, bound/optimum)
	}
}
