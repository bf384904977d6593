package packing

import (
	"cmp"
	"math"
	"slices"
)

const (
	seedNodes = 20 // of each search with a given item
	stride    = 16
	// Below this share of the whole, where that is many bins or it is the first dive,
	// parts are packed anew better than dives go on.
	shallow     = 0.005
	shallowBins = 10
	// A round of pricing that brings less than this share of the bound is the last.
	tail = 1e-6
)

// partial is a packing being built: what is fixed and what is left to do.
type partial struct {
	rhs   []float64 // what is left: pods per item, then limits
	loads []Load
	open  []open  // bins with room
	cost  float64 // scaled, of loads and open
}

func (s partial) clone() partial {
	return partial{slices.Clone(s.rhs), slices.Clone(s.loads), slices.Clone(s.open), s.cost}
}

// fix takes n bins with a pattern. Where less is left than the pattern holds,
// it holds less.
func (g *generator) fix(s *partial, pt *Pattern, n int32) {
	whole := n
	for _, sh := range pt.Shares {
		whole = min(whole, int32(s.rhs[sh.Item])/sh.Count)
	}
	row := g.limits[pt.Bin]
	if row >= 0 {
		n = min(n, int32(s.rhs[row]))
		whole = min(whole, n)
	}
	zone := g.p.Bins[pt.Bin].Zone
	put := func(shares []Share, n int32, full bool) {
		if n <= 0 || len(shares) == 0 {
			return
		}
		for _, sh := range shares {
			s.rhs[sh.Item] -= float64(sh.Count) * float64(n)
			if zr, ok := g.zones[[2]int{sh.Item, zone}]; ok && zone >= 0 {
				s.rhs[zr] -= float64(sh.Count) * float64(n)
			}
		}
		if row >= 0 {
			s.rhs[row] -= float64(n)
		}
		if full {
			s.loads = append(s.loads, Load{Pattern{pt.Bin, shares}, n})
		} else {
			s.open = append(s.open, g.opened(Pattern{pt.Bin, shares}))
		}
		s.cost += float64(n) * g.p.Bins[pt.Bin].Cost / g.scale
	}
	if zone >= 0 && len(g.zones) > 0 { // rounding up may ask for more than the zone takes
		for _, sh := range pt.Shares {
			if zr, ok := g.zones[[2]int{sh.Item, zone}]; ok {
				whole = min(whole, int32(s.rhs[zr])/sh.Count)
			}
		}
	}
	put(pt.Shares, whole, true)
	for range n - whole {
		var rest []Share
		var free []int64
		if g.p.room != nil { // what makes room may be gone
			free = slices.Clone(g.p.Bins[pt.Bin].Capacity)
		}
		for _, sh := range pt.Shares {
			c := min(sh.Count, int32(s.rhs[sh.Item]))
			if free != nil {
				c = int32(min(int64(c), copies(g.p.Items[sh.Item].Size, free)))
			}
			if zr, ok := g.zones[[2]int{sh.Item, zone}]; ok && zone >= 0 {
				c = min(c, int32(s.rhs[zr]))
			}
			if c > 0 {
				if free != nil {
					take(free, g.p.Items[sh.Item].Size, int64(c))
				}
				rest = append(rest, Share{sh.Item, c})
			}
		}
		if len(rest) == 0 {
			break
		}
		put(rest, 1, false)
	}
}

// opened is a bin with a pattern.
func (g *generator) opened(pt Pattern) open {
	free := slices.Clone(g.p.Bins[pt.Bin].Capacity)
	for _, sh := range pt.Shares {
		take(free, g.p.Items[sh.Item].Size, int64(sh.Count))
	}
	return open{pt.Bin, free, slices.Clone(pt.Shares)}
}

// finish completes a partial packing by first fit and keeps it when it is the
// best so far.
func (g *generator) finish(s *partial) {
	demand, vacant := make([]int32, len(g.demand)), make([]int32, len(g.p.Bins))
	for i := range demand {
		demand[i] = int32(s.rhs[i])
	}
	for t, b := range g.p.Bins {
		vacant[t] = b.Max
		if row := g.limits[t]; row >= 0 {
			vacant[t] = int32(s.rhs[row])
		}
	}
	room := make(map[[2]int]int32, len(g.zones))
	for key, row := range g.zones {
		room[key] = int32(s.rhs[row])
	}
	half := make([]open, len(s.open))
	for n, o := range s.open {
		half[n] = open{o.bin, slices.Clone(o.free), slices.Clone(o.shares)}
	}
	nodes, left := g.first.pack(half, demand, vacant, room)
	k := &Packing{Unplaced: left}
	for _, l := range s.loads {
		k.Cost += float64(l.Bins) * g.p.Bins[l.Bin].Cost
	}
	for _, n := range nodes {
		k.Cost += g.p.Bins[n.bin].Cost
	}
	if g.best != nil && !better(k, g.best) {
		return
	}
	for _, l := range s.loads {
		for range l.Bins {
			nodes = append(nodes, g.opened(l.Pattern))
		}
	}
	opened := make([]int32, len(g.p.Bins))
	for t, b := range g.p.Bins {
		vacant[t] = b.Max
	}
	for _, n := range nodes {
		opened[n.bin]++
	}
	g.first.downsize(nodes, opened, vacant)
	k.Cost = 0
	k.group(g.p, nodes)
	g.best = k
}

// enough reports whether the best packing is as good as was asked for.
func (g *generator) enough() bool {
	return g.best.left() == 0 && g.best.Cost <= g.proven()*(1+g.s.Gap)+1e-12
}

// proven is the bound in units of cost.
func (g *generator) proven() float64 { return roundUp(g.bound, g.unit) * g.scale }

// hopeless reports whether nothing better than the best can come of a partial
// packing whose relaxation costs z in all, perturbation included.
func (g *generator) hopeless(z float64) bool {
	if g.best.left() > 0 {
		return false
	}
	return roundUp(z*(1-2*costShift), g.unit)*g.scale >= g.best.Cost*(1-1e-9)
}

// dive rounds the relaxation of what is left, step by step: whole parts are
// fixed, then the pattern with the largest fractional part is rounded up, and
// new patterns are generated for what is left (diving; Sadykov et al. 2019,
// “Primal heuristics for branch and price”). With discrepancies to spend it
// comes back to its first depth choices and takes others.
func (g *generator) dive(s partial, depth, discrepancies int) {
	for {
		if !g.relaxed(&s) {
			if g.exhausted() { // what there is, rounded, may be better than nothing
				g.whole(&s)
				g.finish(&s)
				if g.reserve > 0 {
					g.reserve = 0
					g.sequence(&s)
				}
			}
			return
		}
		g.finish(&s)
		if g.exhausted() && g.reserve > 0 {
			g.reserve = 0
			g.sequence(&s)
			return
		}
		if g.enough() || g.exhausted() {
			return
		}
		if g.s.local || g.rest(&s) < nearlyDone*g.bound {
			g.sequence(&s)
		}
		if rest := g.rest(&s); !g.s.local && rest < shallow*g.bound && (rest > shallowBins || discrepancies == 0 && depth > 0) {
			return
		}
		list := g.fractional(discrepancies == 0)
		if len(list) == 0 {
			return
		}
		if discrepancies > 0 && depth > 0 {
			basis := g.m.save()
			defer g.m.forget()
			for n := range min(discrepancies+1, len(list)) {
				next := s.clone()
				g.fix(&next, list[n], 1)
				if n > 0 {
					g.m.restore(*basis)
				}
				g.dive(next, depth-1, discrepancies-n)
				if g.enough() || g.exhausted() {
					return
				}
			}
			return
		}
		for _, pt := range list {
			g.fix(&s, pt, 1)
		}
	}
}

// relaxed solves the relaxation of what is left and fixes its whole parts;
// false when nothing better can come of it.
//
// Patterns for what is left are few at first. So that the duals stay sensible
// meanwhile, a pod may be left over for somewhat more than it is worth in the whole
// problem; the less there is left, the more.
func (g *generator) relaxed(s *partial) bool {
	for i := range g.demand {
		g.demand[i] = int32(s.rhs[i])
	}
	copy(g.rhs, s.rhs)
	g.m.setRHS(s.rhs)
	if !g.m.dual(g.masterLimit()) {
		if g.exhausted() {
			return false
		}
		g.m.reset()
	}
	// A pattern that holds more than is left would count for less than a bin and
	// take a whole one: only those that fit (Sadykov et al.: proper columns).
	g.m.bar()
	share := 1 / math.Sqrt(max(g.rest(s), 1))
	if g.rest(s) > 0.5*g.bound {
		share = 1 // there are patterns for nearly all of it
	}
	g.m.ceil(g.center, share)
	if !g.m.primal(g.masterLimit()) {
		return false
	}
	limit := g.spent() + (g.s.Work-g.spent())/20
	for before := math.Inf(1); ; {
		z := g.m.objective()
		g.prune(max(6*g.m.rows, 2000))
		if g.exhausted() {
			return false
		}
		if g.spent() > limit {
			break
		}
		added := 0
		if z < before-tail*g.bound {
			added, _ = g.price(g.m.y, seedNodes, 2000, max(30, len(g.demand)/4))
			before = z
		}
		if added == 0 {
			if !g.m.lacking() {
				if g.hopeless(s.cost + z) {
					return false
				}
				break
			}
			if g.fixable() {
				break
			}
			if share *= 2; share < 4 {
				g.m.ceil(g.center, share)
			} else {
				g.m.release()
			}
			before = math.Inf(1)
		}
		if !g.m.solve(g.masterLimit()) {
			return false
		}
	}
	g.whole(s)
	return true
}

// rest is what is left to do, in scaled costs by the duals of the bound.
func (g *generator) rest(s *partial) (sum float64) {
	for i := range g.demand {
		sum += s.rhs[i] * g.center[i]
	}
	return sum
}

// fixable reports whether there is a pattern to fix.
func (g *generator) fixable() bool {
	for i, j := range g.m.basis {
		if c := g.m.cols[j]; c.pattern != nil && !c.barred && g.m.x[i] > 0.5 {
			return true
		}
	}
	return false
}

// whole fixes the whole parts of the basis.
func (g *generator) whole(s *partial) {
	type whole struct {
		col int
		n   int32
	}
	var list []whole
	x := g.m.values()
	for i, j := range g.m.basis {
		if n := math.Floor(x[i] + 1e-5); n >= 1 && g.m.cols[j].pattern != nil {
			list = append(list, whole{int(j), int32(n)})
		}
	}
	slices.SortFunc(list, func(a, b whole) int { return cmp.Compare(a.col, b.col) })
	for _, w := range list {
		g.fix(s, g.m.cols[w.col].pattern, w.n)
	}
}

// fractional lists the columns to round up next, the best first: those with the
// largest fractional part. If many it is all of them that are to be rounded at
// once: a part of those nearly whole that do not get into each other's way.
func (g *generator) fractional(many bool) []*Pattern {
	type part struct {
		col  int
		frac float64
	}
	var list []part
	x := g.m.values()
	for i, j := range g.m.basis {
		if g.m.cols[j].pattern == nil {
			continue
		}
		if f := x[i] - math.Floor(x[i]+1e-5); f > 1e-5 {
			list = append(list, part{int(j), f})
		}
	}
	slices.SortFunc(list, func(a, b part) int { return cmp.Or(-cmp.Compare(a.frac, b.frac), cmp.Compare(a.col, b.col)) })
	if many && len(list) > 0 {
		n := 1
		for n < len(list) && n < len(list)/stride && list[n].frac > 0.5 {
			n++
		}
		list = list[:n]
	}
	out := make([]*Pattern, len(list))
	for n, p := range list {
		out[n] = g.m.cols[p.col].pattern
	}
	return out
}
