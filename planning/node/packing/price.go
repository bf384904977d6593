package packing

import (
	"cmp"
	"math"
	"slices"
)

// found is a pattern with its reduced cost under the duals it was looked for.
type found struct {
	pattern *Pattern
	reduced float64
}

// price looks for patterns that improve the master under duals y: for each bin
// and each item the best with a copy of that item, in few nodes. It returns the
// bound that the searches prove.
func (g *generator) price(y []float64, seedNodes, rootNodes int, most int) (added int, bound float64) {
	y = g.cleaned(y)
	exact := g.cleaned(g.duals())
	var list []found
	top := make(tops, len(g.packs))
	for n, k := range g.packs {
		values, caps := g.values(k, y)
		fee := g.fee(k, y)
		threshold := fee*(1+1e-7) + 1e-9
		if k.load(values, caps, threshold); k.root <= threshold {
			top[n] = k.root
			continue
		}
		v, ub := k.search(-1, threshold, rootNodes)
		if v > 0 {
			list = append(list, found{k.pattern(), fee - v})
		}
		top[n] = min(ub, k.root)
		if seedNodes > 0 {
			for seed := range k.order {
				if v, _ := k.search(seed, threshold, seedNodes); v > 0 {
					list = append(list, found{k.pattern(), fee - v})
				}
			}
		}
		g.work += int64(len(values) * 4)
	}
	bound = g.lower(y, top)
	return g.keep(list, exact, most), bound
}

// keep adds the patterns that improve the master most: what counts is the
// reduced cost under the master's own duals.
func (g *generator) keep(list []found, y []float64, most int) (added int) {
	for n := range list {
		list[n].reduced = g.reducedCost(list[n].pattern, y)
	}
	slices.SortStableFunc(list, func(a, b found) int { return cmp.Compare(a.reduced, b.reduced) })
	seen := map[int]int{} // columns must differ: each brings an item that few have
	for _, f := range list {
		if added >= most || f.reduced > -1e-9 {
			break
		}
		rare := false
		for _, sh := range f.pattern.Shares {
			rare = rare || seen[sh.Item] < 2
		}
		if rare && g.addPattern(f.pattern) {
			added++
			for _, sh := range f.pattern.Shares {
				seen[sh.Item]++
			}
		}
	}
	return added
}

const (
	// promisingItems are what tables look for patterns over, shared by the bins in question.
	promisingItems = 96
	// provingTries bounds how often a table is filled anew because an item came out too often.
	provingTries = 3
)

// tabling is one search for patterns by tables.
type tabling struct {
	*generator
	y    []float64
	most int  // patterns of each bin
	top  tops // proven
	// known are worths of patterns that there are, where those tell more than top.
	known tops
	wide  []bool // top and known are far apart
	caps  [][]int32
	list  []found
}

// priceByTable does what price does by tables, which find better patterns and bound better:
// the best pattern with each item, for every bin that may be worth more than its fee by a
// share that matters. A table over the items that lose least against the relaxation tells
// what the bound may be; if that is worthwhile, or if it finds nothing, one over all
// items proves it.
func (g *generator) priceByTable(y []float64, share, worthwhile float64, most int) (added int, bound float64) {
	exact := g.cleaned(g.duals())
	t := &tabling{generator: g, y: g.cleaned(y), most: most,
		top: make(tops, len(g.packs)), known: make(tops, len(g.packs)),
		wide: make([]bool, len(g.packs)), caps: make([][]int32, len(g.packs)),
	}
	t.relax(share)
	if cost := t.span(); cost > (g.s.Work-g.spent())/3 {
		g.tabled, g.tableCost = g.spent(), cost
		return g.keep(t.list, exact, most), g.lower(t.y, t.top)
	}
	before := g.spent()
	t.look()
	added = g.keep(t.list, exact, most)
	g.tabled = g.spent()
	g.tableCost = max(g.tableCost/2, g.tabled-before)
	if added == 0 || g.lower(t.y, t.known) >= worthwhile {
		t.list = t.list[:0]
		t.prove()
		added += g.keep(t.list, exact, most)
		g.tabled = g.spent()
	}
	return added, g.lower(t.y, t.top)
}

// relax loads the knapsacks and bounds what they are worth without tables.
func (t *tabling) relax(share float64) {
	for n, k := range t.packs {
		var values []float64
		values, t.caps[n] = t.values(k, t.y)
		k.load(values, t.caps[n], t.fee(k, t.y))
		t.top[n], t.known[n] = k.root, k.root
		if k.root <= max(k.fee, k.fee*(1+share)) {
			continue
		}
		v, most := k.search(-1, k.fee*(1+1e-7)+1e-9, 2000)
		if v > 0 {
			t.list = append(t.list, found{pattern: k.pattern()})
		}
		t.top[n] = min(most, k.root)
		t.known[n] = t.top[n]
		if least := max(v, k.fee); t.top[n]-least > share*k.fee {
			t.wide[n], t.known[n] = true, least
		}
	}
}

// span makes the tables as large as the bins in question ask for, and returns about what
// looking takes.
func (t *tabling) span() (cost int64) {
	for _, tab := range t.tables {
		var active []*knapsack
		for n, k := range t.packs {
			if t.wide[n] && slices.Contains(tab.packs, k) {
				active = append(active, k)
			}
		}
		if tab.span(active); len(active) > 0 {
			cost = addCost(cost, tab.cost(promisingItems))
		}
	}
	return cost
}

// look fills tables over the promising items.
func (t *tabling) look() {
	for _, tab := range t.tables {
		active := tab.active
		if len(active) == 0 {
			continue
		}
		values, caps := t.of(tab)
		in := tab.promising(values, promisingItems/len(active))
		tab.fill(values, caps, func(i int32) bool { return in[i] })
		t.take(tab)
		for n, k := range t.packs {
			if !slices.Contains(active, k) {
				continue
			}
			for _, f := range t.list {
				if f.pattern.Bin == k.bin {
					v := 0.0
					for _, s := range f.pattern.Shares {
						v += values[s.Item] * float64(s.Count)
					}
					t.known[n] = max(t.known[n], v)
				}
			}
		}
	}
}

// prove fills tables over all items that patterns worth more than the known ones can have,
// as far as the work allows.
func (t *tabling) prove() {
	for _, tab := range t.tables {
		if len(tab.active) == 0 || addCost(t.spent(), tab.cost(math.MaxInt)) >= t.s.Work {
			continue
		}
		values, caps := t.of(tab)
		in := make([]bool, len(t.demand))
		for n, k := range t.packs {
			if !slices.Contains(tab.active, k) {
				continue
			}
			for _, i := range k.items {
				in[i] = in[i] || tab.loss(k, i, values[i]) <= k.root-t.known[n]+1e-9
			}
		}
		for range provingTries {
			tab.fill(values, caps, func(i int32) bool { return in[i] })
			for n, k := range t.packs {
				if slices.Contains(tab.active, k) {
					t.top[n] = min(max(tab.top(k), t.known[n]), t.top[n])
				}
			}
			if !tab.recap(caps) || addCost(t.spent(), tab.cost(len(tab.items))) >= t.s.Work {
				break
			}
		}
		t.take(tab)
	}
}

// of a table: the values of its items, and the most copies of each in any of its bins.
func (t *tabling) of(tab *table) (values []float64, caps []int32) {
	values, _ = t.values(tab.packs[0], t.y)
	caps = make([]int32, len(t.demand))
	for n, k := range t.packs {
		if slices.Contains(tab.active, k) {
			for i, c := range t.caps[n] {
				caps[i] = max(caps[i], c)
			}
		}
	}
	return values, caps
}

// take lists the patterns of a table.
func (t *tabling) take(tab *table) {
	for _, k := range tab.active {
		for _, pt := range tab.patterns(k, t.most) {
			t.list = append(t.list, found{pattern: pt})
		}
	}
}
