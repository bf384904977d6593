package packing

import (
	"cmp"
	"math"
	"slices"
)

// begin puts the first columns into the master and chooses the first center.
func (g *generator) begin(start *Packing) {
	g.center, g.alpha = g.fluid(), 0.9
	if len(g.s.Worth) == 0 && !g.s.local && len(g.packs) > 0 {
		g.sketch(start)
	}
	for i := range start.Loads {
		g.addPattern(&start.Loads[i].Pattern)
	}
	for _, pt := range g.s.Patterns {
		if g.trim(&pt); len(pt.Shares) > 0 {
			g.addPattern(&pt)
		}
	}
	if len(g.s.Worth) == len(g.demand) {
		g.alpha = 0.5
		for i, v := range g.s.Worth {
			if v > 0 {
				g.center[i] = v / g.scale
			}
		}
	}
	g.resume()
}

// resume takes what is left of the packing of a similar problem: bins that are
// needed as full as they were, and others for what they don't hold.
func (g *generator) resume() {
	if len(g.s.Loads) == 0 {
		return
	}
	s := partial{rhs: slices.Clone(g.rhs)}
	for _, l := range g.s.Loads {
		pt := l.Pattern
		g.trim(&pt)
		n := l.Bins
		for _, sh := range pt.Shares {
			n = min(n, int32(s.rhs[sh.Item])/sh.Count)
		}
		if len(pt.Shares) == 0 || n <= 0 {
			continue
		}
		g.addPattern(&pt)
		g.fix(&s, &pt, n)
	}
	g.finish(&s)
	g.sequence(&s)
}

// trim takes from a pattern what does not fit its bin in this problem. Shares of what
// were two items in a similar problem and are one here become one: each by itself could
// be taken, and both be more than there is.
func (g *generator) trim(pt *Pattern) {
	if pt.Bin < 0 || pt.Bin >= len(g.p.Bins) || g.p.Bins[pt.Bin].Max == 0 {
		pt.Shares = nil
		return
	}
	free := slices.Clone(g.p.Bins[pt.Bin].Capacity)
	shares := slices.Clone(pt.Shares)
	slices.SortFunc(shares, func(a, b Share) int { return cmp.Compare(a.Item, b.Item) })
	var kept []Share
	for n, s := range shares {
		if s.Item < 0 || s.Item >= len(g.p.Items) {
			continue
		}
		if n+1 < len(shares) && shares[n+1].Item == s.Item {
			shares[n+1].Count += s.Count
			continue
		}
		size := g.p.Items[s.Item].Size
		n := min(s.Count, g.p.fits(s.Item, pt.Bin), int32(min(copies(size, free), math.MaxInt32)))
		if n > 0 {
			take(free, size, int64(n))
			kept = append(kept, Share{s.Item, n})
		}
	}
	pt.Shares = kept
}

// fluid are the duals of the relaxation in which bins are liquid: prices per
// unit of each dimension, the same in all bins, such that no bin's capacity is
// worth more than it costs, and with which the demand is worth most. It is
// found by trying every dimension alone and mixtures of two.
func (g *generator) fluid() []float64 {
	dims := 0
	if len(g.p.Bins) > 0 {
		dims = len(g.p.Bins[0].Capacity)
	}
	total := make([]float64, dims)
	for i, it := range g.p.Items {
		for d, v := range it.Size {
			total[d] += float64(v) * float64(g.demand[i])
		}
	}
	worth := func(price []float64) (float64, float64) {
		f := math.Inf(1)
		for _, k := range g.packs {
			sum := 0.0
			for d, v := range k.capacity {
				sum += price[d] * float64(max(v, 0))
			}
			if sum > 0 {
				f = min(f, k.cost/sum)
			}
		}
		if math.IsInf(f, 1) {
			return 0, 0
		}
		v := 0.0
		for d := range total {
			v += f * price[d] * total[d]
		}
		return v, f
	}
	bestPrice, bestValue := make([]float64, dims), 0.0
	price := make([]float64, dims)
	for a := range dims {
		for b := range a + 1 {
			for step := range 9 {
				clear(price)
				if total[a] <= 0 || total[b] <= 0 {
					continue
				}
				price[a] += float64(8-step) / total[a]
				price[b] += float64(step) / total[b]
				if v, f := worth(price); v > bestValue {
					bestValue = v
					for d := range price {
						bestPrice[d] = f * price[d]
					}
				}
			}
		}
	}
	y := make([]float64, len(g.rhs))
	for i, it := range g.p.Items {
		for d, v := range it.Size {
			y[i] += bestPrice[d] * float64(max(v, 0))
		}
	}
	return y
}

const (
	widest   = 0.3 // box
	wide     = 0.1 // box in which the master leaves few pods over
	fewNodes = 10  // of each search with a given item
	// Work that a node of a search takes at most, about.
	workPerNode = 20
)

// converge generates columns until the master's value is within gap of the
// bound, no column improves it, or the work is spent; true unless the work ended
// it.
//
// Columns are looked for under duals between the master's own and those of the
// best bound so far, which steadies them (Wentges 1997). Where these bring
// nothing, the master's share grows.
func (g *generator) converge(gap float64) bool {
	nodes := 2000
	g.box, g.least = widest, 0.005
	if g.bound > 0 {
		g.box = 0.015 // folded masters have told most
	}
	g.m.confine(g.rowsOf(g.center), g.box)
	defer func() {
		if g.fold == nil && !g.s.local { // with a box the master leaves few pods over
			s := partial{rhs: slices.Clone(g.rhs)}
			g.whole(&s)
			g.finish(&s)
			g.rounded = &s
		}
		g.m.release()
	}()
	for {
		if !g.m.solve(g.masterLimit()) || g.exhausted() {
			return false
		}
		g.round++
		g.prune(3*g.m.rows + 100)
		z := g.m.objective()
		// The more work it has taken, the less is to be had of the rest.
		near := gap * (1 + 40*float64(g.spent())/float64(g.s.Work))
		if g.m.tol = max(costTol, 0.1*(z-g.bound)/z); z-g.bound <= near*z {
			if g.box == 0 || !g.m.confined() {
				return true
			}
		}
		if g.fold == nil && !g.s.local && g.least < wide && g.box > 0 && (z-g.bound > 0.005*z && g.spent() > g.s.Work*3/10 || z-g.bound > 0.0005*z && g.spent() > g.s.Work/2) {
			// Not to converge in time: rather columns for everything than a better bound.
			g.least = wide
			g.box = max(g.box, g.least)
			g.m.confine(g.rowsOf(g.center), g.box)
			continue
		}
		if z-g.bound <= 0.05*g.box*z && g.least < 0.3 && g.m.confined() {
			// The bound has come to the wall of its box: a larger one.
			g.least *= 4
			g.box = g.least
			g.m.confine(g.rowsOf(g.center), g.box)
			continue
		}
		added := 0
		for alpha := g.alpha; ; alpha = max(0, alpha-0.4) {
			var bound float64
			y := g.between(alpha)
			added, bound = g.price(y, fewNodes, nodes, 200)
			g.raise(bound, y)
			if added > 0 || alpha == 0 {
				break
			}
			g.alpha = max(0.8, g.alpha-0.1)
		}
		if added == 0 {
			y := g.between(0)
			more, bound := g.price(y, 100, nodes, len(g.demand))
			g.raise(bound, y)
			added = more
		}
		if cost := g.tableCost; len(g.tables) > 0 && g.fold == nil && (cost < g.s.Work/10 || g.box == 0) && addCost(g.spent(), cost) < g.s.Work &&
			(added == 0 || g.spent()-g.tabled > 8*cost) {
			for _, alpha := range []float64{0.6, 0} {
				y := g.between(alpha)
				more, bound := g.priceByTable(y, max(0, 0.1*(z-g.bound)/z), g.bound+0.1*(z-g.bound), 2*len(g.demand))
				g.raise(bound, y)
				if added += more; added > 0 {
					break
				}
			}
		}
		if added == 0 && g.box > 0 {
			// Taken away at once, a box that binds sends the duals far off.
			if g.box *= 4; g.box < 1 && g.m.confined() {
				g.m.confine(g.rowsOf(g.center), g.box)
			} else {
				g.box = 0
				g.m.release()
			}
			continue
		}
		if added == 0 {
			if g.fold != nil {
				return true
			}
			nodes *= 8
			if nodes > 1e7 || g.s.local || int64(nodes*workPerNode*len(g.packs)) > g.s.Work-g.spent() {
				return true
			}
		}
	}
}

// prune drops the columns farthest from use when there are more than most.
func (g *generator) prune(most int) {
	for _, mark := range g.m.prune(most, 3*g.m.rows) {
		delete(g.seen, mark)
	}
}

// between mixes the duals of the best bound, by a share of alpha, with the
// master's.
func (g *generator) between(alpha float64) []float64 {
	y := slices.Clone(g.duals())
	for i := range y {
		y[i] = alpha*g.center[i] + (1-alpha)*min(y[i], 1000)
	}
	return y
}

// raise takes a bound and the duals that prove it when it is the best so far.
func (g *generator) raise(bound float64, y []float64) {
	if bound > g.bound {
		g.bound, g.center = bound, y
		if g.box > 0 {
			z := g.m.objective()
			g.box = min(widest, max(g.least, 1.5*(z-bound)/z))
			g.m.confine(g.rowsOf(y), g.box)
		}
	}
}
