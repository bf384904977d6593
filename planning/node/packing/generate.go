package packing

import (
	"cmp"
	"math"
	"slices"
)

// Settings of Solve.
type Settings struct {
	// Work is the budget in elementary steps of about a nanosecond.
	Work int64
	// Gap is the relative gap below which a packing is good enough.
	Gap float64
	// Start is a packing to begin with and never to be worse than.
	Start *Packing
	// Patterns to start from, of a similar problem: where they hold too much, they
	// lose copies.
	Patterns []Pattern
	// Loads of a packing of a similar problem: what of it still fits is another
	// one to begin with.
	Loads []Load
	// Worth of one copy of each item in a similar problem, in units of cost; nil
	// when none is known.
	Worth []float64

	local bool // part of a larger problem: no tables, no improvement by parts
}

// generator is one run of column generation.
type generator struct {
	p         *Problem
	s         Settings
	m         *master
	packs     []*knapsack
	tables    []*table
	tabled    int64   // work that was spent when tables were filled last
	tableCost int64   // work that looking for patterns by tables takes
	demand    []int32 // residual
	zones     map[[2]int]int
	limits    []int     // per bin: its row, −1 for none
	rhs       []float64 // of all rows, unfolded: what is left of items, then limits
	fold      *fold     // rows of the master that items share; nil when each has its own
	seen      map[uint64]bool
	scale     float64 // costs in the master are costs over scale
	unit      float64 // of scaled costs
	work      int64   // outside master and knapsacks
	reserve   int64   // of the budget, for what rounds when the rest is spent

	center  []float64 // duals of the best bound
	bound   float64   // proven, scaled
	round   int
	first   *firstFit
	alpha   float64
	box     float64 // half its width, as a share of the center; 0 is none
	least   float64 // that it is narrowed to
	best    *Packing
	rounded *partial // whole parts of the relaxation
	root    *[]int32 // the basis that columns were generated with last
}

// leftOver is what a pod without a place costs in a master: it is left over only when
// no bin can be had for it, dearer than any chain of displacements in practice.
const leftOver = 1000

func newGenerator(p *Problem, s Settings) *generator {
	p = p.withRoom()
	g := &generator{p: p, s: s, zones: map[[2]int]int{}, seen: map[uint64]bool{}, scale: 1}
	for _, b := range p.Bins {
		g.scale = max(g.scale, b.Cost)
	}
	if most := slices.MaxFunc(p.Bins, func(a, b Bin) int { return cmp.Compare(a.Cost, b.Cost) }).Cost; most > 0 {
		g.scale = most
	}
	g.unit = p.unit() / g.scale
	g.demand = make([]int32, len(p.Items))
	demand := make([]float64, len(p.Items))
	for i, it := range p.Items {
		g.demand[i] = it.Count
		demand[i] = float64(it.Count)
	}
	var limits []float64
	g.limits = make([]int, len(p.Bins))
	for t, b := range p.Bins {
		g.limits[t] = -1
		if b.Max != Unlimited {
			g.limits[t] = len(demand) + len(limits)
			limits = append(limits, float64(b.Max))
		}
	}
	for i, it := range p.Items {
		if it.PerZone <= 0 {
			continue
		}
		for t, b := range p.Bins {
			key := [2]int{i, b.Zone}
			if _, ok := g.zones[key]; !ok && b.Zone >= 0 && it.Bins[t] {
				g.zones[key] = len(demand) + len(limits)
				limits = append(limits, float64(it.PerZone))
			}
		}
	}
	g.rhs = slices.Concat(demand, limits)
	g.m = newMaster(demand, limits, leftOver)
	for t, b := range p.Bins {
		k := &knapsack{bin: t, capacity: b.Capacity, cost: b.Cost / g.scale}
		for i, it := range p.Items {
			if it.Count == 0 || !it.Bins[t] {
				continue
			}
			norm := make([]float64, len(it.Size))
			for d, v := range it.Size {
				if v != 0 && b.Capacity[d] > 0 {
					norm[d] = float64(v) / float64(b.Capacity[d])
				}
			}
			k.items = append(k.items, int32(i))
			k.size = append(k.size, it.Size)
			k.norm = append(k.norm, norm)
		}
		if len(k.items) > 0 && b.Max != 0 {
			g.packs = append(g.packs, k)
		}
	}
	if !s.local && p.room == nil { // tables know of no items that make room
		g.layTables()
		for _, t := range g.tables {
			t.capAll(s.Work / 50)
			g.tableCost = addCost(g.tableCost, t.cost(promisingItems)) // a guess
		}
	}
	return g
}

// layTables groups bins that may share a table: those of one zone whose items
// are alike, as far as they fit.
func (g *generator) layTables() {
	order := slices.Clone(g.packs)
	slices.SortStableFunc(order, func(a, b *knapsack) int { return len(b.items) - len(a.items) })
	var groups [][]*knapsack
next:
	for _, k := range order {
		for n, group := range groups {
			lead := group[0]
			if g.p.Bins[lead.bin].Zone != g.p.Bins[k.bin].Zone {
				continue
			}
			same := true
			for i := range g.p.Items {
				fits := copies(g.p.Items[i].Size, g.p.Bins[k.bin].Capacity) > 0
				if fits && g.p.Items[i].Count > 0 && g.p.Items[i].Bins[lead.bin] != g.p.Items[i].Bins[k.bin] {
					same = false
					break
				}
			}
			if same {
				groups[n] = append(groups[n], k)
				continue next
			}
		}
		groups = append(groups, []*knapsack{k})
	}
	for _, group := range groups {
		g.tables = append(g.tables, newTable(g.p, group))
	}
}

func (g *generator) spent() int64 {
	w := g.work + g.m.inv.work
	for _, k := range g.packs {
		w += k.work
	}
	for _, t := range g.tables {
		w += t.work
	}
	return w
}

func (g *generator) exhausted() bool { return g.spent() >= g.s.Work-g.reserve }

// masterLimit is the master's own share of what is left.
func (g *generator) masterLimit() int64 { return g.m.inv.work + g.s.Work - g.reserve - g.spent() }

// addPattern makes a column of a pattern that is new.
func (g *generator) addPattern(pt *Pattern) bool {
	h := uint64(14695981039346656037)
	mix := func(v int) { h = (h ^ uint64(v)) * 1099511628211 }
	mix(pt.Bin)
	for _, s := range pt.Shares {
		mix(s.Item)
		mix(int(s.Count))
	}
	if len(pt.Shares) == 0 || g.seen[h] {
		return false
	}
	g.seen[h] = true
	c := column{cost: g.p.Bins[pt.Bin].Cost / g.scale, pattern: pt, mark: h}
	if g.fold != nil {
		c.entries = g.fold.entries(pt)
	} else {
		for _, s := range pt.Shares {
			c.entries = append(c.entries, entry{int32(s.Item), float64(s.Count)})
		}
	}
	if row := g.limits[pt.Bin]; row >= 0 {
		c.entries = append(c.entries, entry{int32(row - len(g.demand) + g.m.covers), 1})
	}
	if zone := g.p.Bins[pt.Bin].Zone; zone >= 0 && len(g.zones) > 0 {
		for _, s := range pt.Shares {
			if row, ok := g.zones[[2]int{s.Item, zone}]; ok {
				c.entries = append(c.entries, entry{int32(row - len(g.demand) + g.m.covers), float64(s.Count)})
			}
		}
	}
	g.m.add(c)
	return true
}

// cleaned turns duals of the master into feasible signs: values of items at
// least 0, limits at most 0.
func (g *generator) cleaned(y []float64) []float64 {
	out := slices.Clone(y)
	for i := range out {
		if i < len(g.demand) {
			out[i] = min(max(out[i], 0), 1000)
		} else {
			out[i] = min(out[i], 0)
		}
	}
	for t, b := range g.p.Bins { // what is free is worth nothing, but for its zone taking few
		if b.Cost == 0 && b.Max == Unlimited {
			for i, it := range g.p.Items {
				if row, ok := g.zones[[2]int{i, b.Zone}]; ok && it.Bins[t] {
					out[row] = min(out[row], -out[i])
				} else if it.Bins[t] {
					out[i] = 0
				}
			}
		}
	}
	return out
}

// values of the items in bins of a knapsack, and the most copies of each.
func (g *generator) values(k *knapsack, y []float64) ([]float64, []int32) {
	values, most := slices.Clone(y[:len(g.demand)]), make([]int32, len(g.demand))
	zone := g.p.Bins[k.bin].Zone
	for _, i := range k.items {
		if zone >= 0 {
			if row, ok := g.zones[[2]int{int(i), zone}]; ok {
				values[i] += y[row]
			}
		}
		most[i] = min(g.p.fits(int(i), k.bin), g.demand[i])
	}
	return values, most
}

// tops is what each bin's patterns are worth at most, parallel to packs.
type tops []float64

// lower is the bound on the master's optimum over all patterns that duals
// prove, given what each bin's best pattern is worth under them (Farley 1990,
// with limits: duals of bins that are limited are chosen anew).
//
// For any factor f, f·y is dual feasible when f·top_t ≤ cost_t − limit dual of
// t; for an unlimited bin that bounds f, for a limited one it sets the dual to
// min(0, cost_t − f·top_t). The bound is concave and piecewise linear in f.
func (g *generator) lower(y []float64, top tops) float64 {
	gain := 0.0
	for i := range g.demand {
		gain += y[i] * g.rhs[i]
	}
	for row := len(g.rhs) - len(g.zones); row < len(g.rhs); row++ { // in order: sums are the same another time
		gain += y[row] * g.rhs[row]
	}
	most := math.Inf(1)
	for n, k := range g.packs {
		if g.limits[k.bin] < 0 && top[n] > 0 {
			most = min(most, k.cost/top[n])
		}
	}
	if math.IsInf(most, 1) {
		most = 1
		for n, k := range g.packs {
			if top[n] > 0 {
				most = max(most, k.cost/top[n])
			}
		}
	}
	at := func(f float64) float64 {
		v := f * gain
		for n, k := range g.packs {
			if row := g.limits[k.bin]; row >= 0 {
				v += g.rhs[row] * min(0, k.cost-f*top[n])
			}
		}
		return v
	}
	best := max(0, at(most))
	for n, k := range g.packs {
		if f := k.cost / max(top[n], 1e-300); g.limits[k.bin] >= 0 && f < most {
			best = max(best, at(f))
		}
	}
	return best * (1 - 1e-10)
}

// fee of a bin: its cost, and what one of a limited number is worth.
func (g *generator) fee(k *knapsack, y []float64) float64 {
	if row := g.limits[k.bin]; row >= 0 {
		return k.cost - y[row]
	}
	return k.cost
}

// addCost adds work, which may be more than can be counted.
func addCost(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func (g *generator) reducedCost(pt *Pattern, y []float64) float64 {
	d := g.p.Bins[pt.Bin].Cost / g.scale
	if row := g.limits[pt.Bin]; row >= 0 {
		d -= y[row]
	}
	zone := g.p.Bins[pt.Bin].Zone
	for _, s := range pt.Shares {
		v := y[s.Item]
		if zone >= 0 {
			if row, ok := g.zones[[2]int{s.Item, zone}]; ok {
				v += y[row]
			}
		}
		d -= v * float64(s.Count)
	}
	return d
}
