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

// The box around the center in which the duals are kept, as a share of it.
const (
	// widest is for a center of which nothing is known yet.
	widest = 0.3
	// wide is for a master that leaves few pods over, so that it can be rounded.
	wide = 0.1
	// narrow is for a master that has come near the bound, whose duals move little.
	narrow = 0.005
	// afterFolds is where it begins after folded masters, which have told most.
	afterFolds = 0.015
	// slack is by how much it is wider than what master and bound are apart.
	slack = 1.5
	// wall is the share of the box that master and bound are apart when it is the box
	// that keeps the bound from rising.
	wall = 0.05
	// widening is in steps: taken away at once, a box that binds sends the duals far off.
	widening = 4
)

// How much is looked for.
const (
	// firstNodes are those of a search at first. Where all of them find nothing, they have
	// moreNodes times as many, up to mostNodes: a fifth of a second.
	firstNodes, moreNodes, mostNodes = 2000, 8, 1e7
	// workPerNode is the work that a node of a search takes at most, about.
	workPerNode = 20
	// fewNodes are those of each search with a given item, and manyNodes when the others
	// find nothing.
	fewNodes, manyNodes = 10, 100
	// fewColumns are added in a round: more would be of the same duals.
	fewColumns = 200
	// columnsKept are the columns by row that stay in the master, which is slow with more,
	// and columnsSpare how many there may be besides until some are dropped.
	columnsKept, columnsSpare = 3, 100
)

// When it is enough.
const (
	// impatience is by how many times the gap that is good enough has grown when the budget
	// is spent: the more work it has taken, the less is to be had of the rest.
	impatience = 40
	// exactness is the share of the gap that columns left out may be worth.
	exactness = 0.1
	// Late is a gap of lateGap with lateTenths of the budget spent, or halfGap with half:
	// at this pace it does not converge in time.
	lateGap, lateTenths = 0.005, 3
	halfGap             = 0.0005
)

// alpha is the share of the best bound's duals in those that columns are looked for with.
const (
	// alphaStep is what it loses from one search to the next within a round, so that the
	// last is with the master's own.
	alphaStep = 0.4
	// alphaLost is what further rounds begin with less when a search was in vain, down to
	// alphaLeast: without it the duals are not steady.
	alphaLost, alphaLeast = 0.1, 0.8
	// tableAlpha is that of the first look at tables; a second one has 0.
	tableAlpha = 0.6
)

// Tables are looked at where a look takes less than one part of tableShare of the budget,
// and again when tableRest times its work has passed; a look gives up to tableColumns
// columns by item.
const tableShare, tableRest, tableColumns = 10, 8, 2

// converge generates columns until the master's value is within gap of the
// bound, no column improves it, or the work is spent; true unless the work ended
// it.
//
// Columns are looked for under duals between the master's own and those of the
// best bound so far, which steadies them (Wentges 1997). Where these bring
// nothing, the master's share grows.
func (g *generator) converge(gap float64) bool {
	nodes := firstNodes
	g.confine()
	defer g.release()
	for {
		if !g.m.solve(g.masterLimit()) || g.exhausted() {
			return false
		}
		g.round++
		g.prune(columnsKept*g.m.rows + columnsSpare)
		z := g.m.objective()
		if g.near(z, gap) {
			return true
		}
		if g.widen(z) {
			continue
		}
		switch added := g.generateByTable(z, g.generate(nodes)); {
		case added > 0:
		case g.box > 0:
			g.loosen()
		case g.fold != nil:
			return true
		default:
			nodes *= moreNodes
			if nodes > mostNodes || g.s.local || int64(nodes*workPerNode*len(g.packs)) > g.s.Work-g.spent() {
				return true
			}
		}
	}
}

// confine sets the first box.
func (g *generator) confine() {
	g.box, g.least = widest, narrow
	if g.bound > 0 {
		g.box = afterFolds
	}
	g.m.confine(g.rowsOf(g.center), g.box)
}

// release takes the box away, and before it the whole parts of the relaxation: with a
// box the master leaves few pods over.
func (g *generator) release() {
	if g.fold == nil && !g.s.local {
		s := partial{rhs: slices.Clone(g.rhs)}
		g.whole(&s)
		g.finish(&s)
		g.rounded = &s
	}
	g.m.release()
}

// near reports whether z, the master's value, is so near the bound that it is good
// enough, without a box that binds.
func (g *generator) near(z, gap float64) bool {
	enough := gap * (1 + impatience*float64(g.spent())/float64(g.s.Work))
	g.m.tol = max(costTol, exactness*(z-g.bound)/z)
	return z-g.bound <= enough*z && (g.box == 0 || !g.m.confined())
}

// widen sets a larger box where the one there is holds the bound or, when it is late,
// leaves pods over in the master, and reports whether it did.
func (g *generator) widen(z float64) bool {
	apart := z - g.bound
	late := apart > lateGap*z && g.spent() > g.s.Work*lateTenths/10 || apart > halfGap*z && g.spent() > g.s.Work/2
	switch {
	case g.fold == nil && !g.s.local && g.least < wide && g.box > 0 && late:
		// Not to converge in time: rather columns for everything than a better bound.
		g.least = wide
		g.box = max(g.box, g.least)
	case apart <= wall*g.box*z && g.least < widest && g.m.confined():
		// The bound has come to the wall of its box.
		g.least *= widening
		g.box = g.least
	default:
		return false
	}
	g.m.confine(g.rowsOf(g.center), g.box)
	return true
}

// loosen widens a box in which no column is found, at last without bounds.
func (g *generator) loosen() {
	if g.box *= widening; g.box < 1 && g.m.confined() {
		g.m.confine(g.rowsOf(g.center), g.box)
	} else {
		g.box = 0
		g.m.release()
	}
}

// generate adds columns that searches of so many nodes find, and returns how many.
func (g *generator) generate(nodes int) (added int) {
	for alpha := g.alpha; ; alpha = max(0, alpha-alphaStep) {
		var bound float64
		y := g.between(alpha)
		added, bound = g.price(y, fewNodes, nodes, fewColumns)
		g.raise(bound, y)
		if added > 0 || alpha == 0 {
			break
		}
		g.alpha = max(alphaLeast, g.alpha-alphaLost)
	}
	if added == 0 {
		y := g.between(0)
		more, bound := g.price(y, manyNodes, nodes, len(g.demand))
		g.raise(bound, y)
		added = more
	}
	return added
}

// generateByTable adds columns that tables find, if it is time to look at them, to the
// number of those that were found without.
func (g *generator) generateByTable(z float64, added int) int {
	cost := g.tableCost
	if len(g.tables) == 0 || g.fold != nil || cost >= g.s.Work/tableShare && g.box != 0 || addCost(g.spent(), cost) >= g.s.Work {
		return added
	}
	if added > 0 && g.spent()-g.tabled <= tableRest*cost {
		return added
	}
	for _, alpha := range []float64{tableAlpha, 0} {
		y := g.between(alpha)
		more, bound := g.priceByTable(y, max(0, exactness*(z-g.bound)/z), g.bound+exactness*(z-g.bound), tableColumns*len(g.demand))
		g.raise(bound, y)
		if added += more; added > 0 {
			break
		}
	}
	return added
}

// prune drops the columns farthest from use when there are more than most.
func (g *generator) prune(most int) {
	for _, mark := range g.m.prune(most, columnsKept*g.m.rows) {
		delete(g.seen, mark)
	}
}

// between mixes the duals of the best bound, by a share of alpha, with the
// master's, which say at most what a pod left over costs.
func (g *generator) between(alpha float64) []float64 {
	y := slices.Clone(g.duals())
	for i := range y {
		y[i] = alpha*g.center[i] + (1-alpha)*min(y[i], leftOver)
	}
	return y
}

// raise takes a bound and the duals that prove it when it is the best so far.
func (g *generator) raise(bound float64, y []float64) {
	if bound > g.bound {
		g.bound, g.center = bound, y
		if g.box > 0 {
			z := g.m.objective()
			g.box = min(widest, max(g.least, slack*(z-bound)/z))
			g.m.confine(g.rowsOf(y), g.box)
		}
	}
}
