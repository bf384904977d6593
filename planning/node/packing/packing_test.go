package packing

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// problems draws small ones: every item fits some bin. In some, items make room.
func problems(items, most int) *rapid.Generator[*Problem] {
	return rapid.Custom(func(t *rapid.T) *Problem {
		p := &Problem{}
		dims := rapid.IntRange(1, 3).Draw(t, "dimensions")
		least := rapid.SampledFrom([]int64{0, 0, -2}).Draw(t, "least size")
		for range rapid.IntRange(1, 3).Draw(t, "bins") {
			b := Bin{Cost: float64(rapid.IntRange(1, 9).Draw(t, "cost")), Max: Unlimited, Zone: -1}
			for range dims {
				b.Capacity = append(b.Capacity, rapid.Int64Range(5, 20).Draw(t, "capacity"))
			}
			p.Bins = append(p.Bins, b)
		}
		for range rapid.IntRange(1, items).Draw(t, "items") {
			it := Item{Count: int32(rapid.IntRange(1, most).Draw(t, "count")), PerBin: int32(rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "per bin"))}
			for range dims {
				it.Size = append(it.Size, rapid.Int64Range(least, 8).Draw(t, "size"))
			}
			some := false
			for _, b := range p.Bins {
				ok := copies(it.Size, b.Capacity) > 0
				it.Bins = append(it.Bins, ok)
				some = some || ok
			}
			if some {
				p.Items = append(p.Items, it)
			}
		}
		return p
	})
}

// dearest is what the best pattern of a bin is worth, by trying all.
func dearest(p *Problem, bin int, values []float64) float64 {
	best := 0.0
	free := append([]int64{}, p.Bins[bin].Capacity...)
	var try func(i int, v float64)
	try = func(i int, v float64) {
		if slices.Min(free) >= 0 {
			best = max(best, v)
		}
		if i == len(p.Items) {
			return
		}
		for n := range mostOf(p, i, bin) + 1 {
			take(free, p.Items[i].Size, n)
			try(i+1, v+float64(n)*values[i])
			take(free, p.Items[i].Size, -n)
		}
	}
	try(0, 0)
	return best
}

// Knapsacks find the best pattern, bound it when they run out of nodes, and so
// do tables, which are exact on a grid as fine as the sizes.
func TestPricingAgainstTryingAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problems(5, 4).Draw(t, "problem")
		g := newGenerator(p, Settings{Work: 1e9})
		values := make([]float64, g.m.rows)
		for i := range p.Items {
			values[i] = rapid.Float64Range(0, 3).Draw(t, "value")
		}
		for _, k := range g.packs {
			want := dearest(p, k.bin, values)
			v, most := g.values(k, values)
			k.load(v, most, -1)
			if k.root < want-1e-9 {
				t.Fatalf("relaxation %v, but %v is possible", k.root, want)
			}
			got, bound := k.search(-1, 0, 1<<30)
			if math.Abs(got-want) > 1e-9 || math.Abs(bound-want) > 1e-9 {
				t.Fatalf("found %v, at most %v, want %v", got, bound, want)
			}
			if got > 0 {
				pt := k.pattern()
				sum := 0.0
				for _, s := range pt.Shares {
					sum += values[s.Item] * float64(s.Count)
				}
				if math.Abs(sum-want) > 1e-9 || !valid(p, *pt) {
					t.Fatalf("pattern %+v is worth %v, want %v", pt, sum, want)
				}
			}
			if few, bound := k.search(-1, 0, rapid.IntRange(1, 9).Draw(t, "nodes")); few > want+1e-9 || bound < want-1e-9 {
				t.Fatalf("with few nodes %v, at most %v; want %v", few, bound, want)
			}
		}
		for _, table := range g.tables {
			for _, k := range table.packs {
				v, most := g.values(k, values)
				k.load(v, most, -1)
			}
			v, most := g.values(table.packs[0], values)
			for _, k := range table.packs[1:] {
				_, more := g.values(k, values)
				for i, n := range more {
					most[i] = max(most[i], n)
				}
			}
			for i := range table.capped {
				table.capped[i] = rapid.Bool().Draw(t, "capped")
			}
			table.fill(v, most, func(int32) bool { return true })
			for _, k := range table.packs {
				want := dearest(p, k.bin, values)
				if got := table.top(k); got < want-1e-9 {
					t.Fatalf("table says at most %v, but %v is possible", got, want)
				}
				table.seeds(k, func(seed tableItem, _ float64) {
					if pt := table.pattern(k, &seed); len(pt.Shares) > 0 && !valid(p, *pt) {
						t.Fatalf("pattern %+v does not fit", pt)
					}
				})
			}
		}
	})
}

// mostOf an item that a bin may hold, room apart.
func mostOf(p *Problem, i, bin int) int64 {
	it := &p.Items[i]
	switch {
	case !it.Bins[bin]:
		return 0
	case it.PerBin > 0:
		return int64(min(it.Count, it.PerBin))
	}
	return int64(it.Count)
}

func valid(p *Problem, pt Pattern) bool {
	used := make([]int64, len(p.Bins[pt.Bin].Capacity))
	for _, s := range pt.Shares {
		if s.Count <= 0 || int64(s.Count) > mostOf(p, s.Item, pt.Bin) {
			return false
		}
		take(used, p.Items[s.Item].Size, -int64(s.Count))
	}
	return copies(used, p.Bins[pt.Bin].Capacity) > 0
}

// The factorised basis solves what it says, also after replacements.
func TestBasisInverse(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		n := 1 + r.IntN(25)
		cols := make([][]entry, n)
		draw := func(at int) []entry {
			col := []entry{{int32(at), 1 + r.Float64()}} // so that it is not singular, mostly
			for row := range n {
				if row != at && r.IntN(n) < 3 {
					col = append(col, entry{int32(row), r.NormFloat64()})
				}
			}
			return col
		}
		for at := range cols {
			cols[at] = draw(at)
		}
		var b basisInverse
		if at, _ := b.factorise(n, func(at int) []entry { return cols[at] }); len(at) > 0 {
			continue
		}
		x, y, dir := make([]float64, n), make([]float64, n), make([]float64, n)
		for range 4 {
			want, right, costs := make([]float64, n), make([]float64, n), make([]float64, n)
			for at := range n {
				want[at] = r.NormFloat64()
				for _, e := range cols[at] {
					right[e.row] += e.value * want[at]
				}
			}
			b.ftran(right, x)
			for at := range n {
				if math.Abs(x[at]-want[at]) > 1e-6 {
					t.Fatalf("position %d is %v, want %v", at, x[at], want[at])
				}
			}
			for at := range n {
				want[at] = r.NormFloat64()
			}
			for at := range n {
				for _, e := range cols[at] {
					costs[at] += e.value * want[e.row]
				}
			}
			b.btran(costs, y)
			for row := range n {
				if math.Abs(y[row]-want[row]) > 1e-6 {
					t.Fatalf("row %d is %v, want %v", row, y[row], want[row])
				}
			}
			at := r.IntN(n)
			fresh := draw(at)
			column := make([]float64, n)
			for _, e := range fresh {
				column[e.row] += e.value
			}
			if b.ftran(column, dir); math.Abs(dir[at]) < 1e-2 {
				break
			}
			b.replace(at, dir)
			cols[at] = fresh
		}
	}
}

// The master's solution is feasible, its duals are, and both are worth the
// same: so it is the optimum.
func TestMasterIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problems(6, 9).Draw(t, "problem")
		if len(p.Items) == 0 {
			return
		}
		g := newGenerator(p, Settings{Work: 1e9, local: true})
		g.begin(FirstFit(p))
		check := func() {
			if !g.m.solve(math.MaxInt64) {
				t.Fatal("not solved")
			}
			m := g.m
			covered := make([]float64, m.rows)
			for i, j := range m.basis {
				if m.x[i] < -1e-6 {
					t.Fatalf("column %d at %v", j, m.x[i])
				}
				for _, e := range m.cols[j].entries {
					covered[e.row] += e.value * m.x[i]
				}
			}
			for i, v := range covered {
				if math.Abs(v-m.rhs[i]-m.shift[i]) > 1e-6 {
					t.Fatalf("row %d adds up to %v, want %v", i, v, m.rhs[i])
				}
			}
			for j := range m.cols {
				if d := m.reduced(j); d < -1e-7 {
					t.Fatalf("column %d has the reduced cost %v", j, d)
				}
			}
		}
		check()
		for range 3 {
			g.price(g.m.y, 50, 1000, 100)
			check()
		}
		// What is not in the basis may go, and come back, without a difference.
		before, cols := g.m.objective(), len(g.m.cols)
		gone := g.m.prune(0, 0)
		check()
		if z := g.m.objective(); math.Abs(z-before) > 1e-6 || len(g.m.cols)+len(gone) != cols {
			t.Fatalf("%v with %d columns, without %d of them %v with %d", before, cols, len(gone), z, len(g.m.cols))
		}
		rhs := append([]float64{}, g.rhs...)
		whole := slices.Clone(rhs)
		for i := range p.Items {
			rhs[i] = float64(rapid.IntRange(0, int(rhs[i])).Draw(t, "left"))
		}
		g.m.setRHS(rhs)
		check()
		// Patterns with more than is left are barred, and are what they were when
		// it is there again.
		cost := func() (out []float64) {
			for _, c := range g.m.cols {
				out = append(out, c.cost)
			}
			return out
		}
		free := cost()
		g.m.bar()
		for j, c := range g.m.cols {
			over := c.pattern != nil && slices.ContainsFunc(c.pattern.Shares, func(s Share) bool { return float64(s.Count) > rhs[s.Item] })
			if over != c.barred || over != (c.cost > free[j]+1) {
				t.Fatalf("column %v costs %v, %v before; left are %v", c.pattern, c.cost, free[j], rhs)
			}
		}
		check()
		g.m.setRHS(whole)
		g.m.bar()
		for j, c := range cost() {
			if math.Abs(c-free[j]) > 1e-12*barFee {
				t.Fatalf("column %d costs %v, %v before", j, c, free[j])
			}
		}
		check()
	})
}

// Bounds stay below what a packing costs, and what is packed is what there is.
func TestSolve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problems(8, 40).Draw(t, "problem")
		for t2 := range p.Bins {
			p.Bins[t2].Max = rapid.SampledFrom([]int32{Unlimited, Unlimited, 3}).Draw(t, "max")
		}
		checkSolve(t, p, 3e6)
	})
}

// No packing costs less than the bound, and what is said to be the best is: against
// trying all.
func TestBoundAgainstTryingAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problems(4, 3).Draw(t, "problem")
		k := checkSolve(t, p, 3e6)
		want := cheapest(p)
		if k.left() > 0 || k.Cost < want-1e-9 || k.Bound > want+1e-9 {
			t.Fatalf("cost %v, bound %v, %d left over; the best is %v", k.Cost, k.Bound, k.left(), want)
		}
	})
}

// A bin that has become a cheaper kind twice still holds what is in it.
func TestDownsizingTwice(t *testing.T) {
	p := &Problem{
		Bins:  []Bin{{Capacity: []int64{10}, Cost: 9, Max: Unlimited}, {Capacity: []int64{4}, Cost: 5, Max: Unlimited}, {Capacity: []int64{1}, Cost: 1, Max: Unlimited}},
		Items: []Item{{Size: []int64{3}, Count: 1, Bins: []bool{true, true, false}}},
	}
	f := newFirstFit(p)
	bins := []open{{0, []int64{7}, []Share{{0, 1}}}}
	for range 2 {
		f.downsize(bins, make([]int32, 3), []int32{Unlimited, Unlimited, Unlimited})
		if bins[0].bin != 1 || bins[0].free[0] != 1 {
			t.Fatalf("the bin has become kind %d with %v free, want kind 1 with 1", bins[0].bin, bins[0].free)
		}
	}
}

// So they do where there are enough items for masters to be folded, with a limited
// kind of bin, and with items of which a zone holds few.
func TestSolveFolded(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 9))
		p := &Problem{}
		for n := range 3 {
			size := int64(4 << n)
			p.Bins = append(p.Bins, Bin{Capacity: []int64{100 * size, 130 * size}, Cost: float64(size) * (1 + 0.05*r.Float64()), Max: Unlimited, Zone: n % 2})
		}
		if seed%2 == 0 {
			p.Bins[1].Max = 7
		}
		for n := range 3 * foldedRows {
			it := Item{Count: 1 + r.Int32N(30), Size: []int64{1 + r.Int64N(150), 1 + r.Int64N(200)}, Bins: []bool{true, true, true}}
			if seed%3 == 0 && n%10 == 0 {
				it.PerZone = it.Count
			}
			p.Items = append(p.Items, it)
		}
		k := checkSolve(t, p, 1e8)
		if gap := 1 - k.Bound/k.Cost; gap > 0.03 {
			t.Errorf("seed %d: cost %v, bound %v", seed, k.Cost, k.Bound)
		}
		if again := Solve(p, Settings{Work: 1e8, Gap: 1e-4}); again.Cost != k.Cost || again.Bound != k.Bound || again.Work != k.Work {
			t.Errorf("seed %d: %v, %v after %d; then %v, %v after %d", seed, k.Cost, k.Bound, k.Work, again.Cost, again.Bound, again.Work)
		}
	}
}

func checkSolve(t interface{ Fatalf(string, ...any) }, p *Problem, work int64) *Packing {
	first := FirstFit(p)
	k := Solve(p, Settings{Work: work, Gap: 1e-4})
	if better(first, k) {
		t.Fatalf("%d left, %v; first fit has %d, %v", k.left(), k.Cost, first.left(), first.Cost)
	}
	if k.left() == 0 && k.Bound > k.Cost+1e-9 {
		t.Fatalf("cost %v below the bound %v", k.Cost, k.Bound)
	}
	check(t, p, k)
	return k
}

// check that a packing is one of the problem, and costs what it says.
func check(t interface{ Fatalf(string, ...any) }, p *Problem, k *Packing) {
	count := append([]int32{}, k.Unplaced...)
	bins := make([]int32, len(p.Bins))
	zones := map[[2]int]int32{}
	cost := 0.0
	for _, l := range k.Loads {
		if !valid(p, l.Pattern) {
			t.Fatalf("%+v does not fit", l)
		}
		bins[l.Bin] += l.Bins
		cost += float64(l.Bins) * p.Bins[l.Bin].Cost
		for _, s := range l.Shares {
			count[s.Item] += s.Count * l.Bins
			zones[[2]int{s.Item, p.Bins[l.Bin].Zone}] += s.Count * l.Bins
		}
	}
	for i, it := range p.Items {
		if count[i] != it.Count {
			t.Fatalf("item %d: %d, want %d", i, count[i], it.Count)
		}
	}
	for at, n := range zones {
		if most := p.Items[at[0]].PerZone; at[1] >= 0 && most > 0 && n > most {
			t.Fatalf("%d of item %d in zone %d, at most %d", n, at[0], at[1], most)
		}
	}
	for n, b := range p.Bins {
		if b.Max != Unlimited && bins[n] > b.Max {
			t.Fatalf("%d bins of kind %d, at most %d", bins[n], n, b.Max)
		}
	}
	if math.Abs(cost-k.Cost) > 1e-9*math.Max(1, cost) {
		t.Fatalf("cost %v, adds up to %v", k.Cost, cost)
	}
}
