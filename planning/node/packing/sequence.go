package packing

import (
	"math"
	"slices"
)

const (
	corrections   = 6    // passes of sequence
	sequenceNodes = 300  // of each search
	sequenceLoads = 20   // bins that one order of the items serves for
	largeFirst    = 0.1  // exponent that raises the worth of items above their duals
	nearlyDone    = 0.02 // share of the whole that is left when dives try sequence
)

// sequence packs what is left of a partial packing bin by bin, each with the pattern
// that is worth most for its cost, and keeps the result when it is the best so far. What
// an item is worth starts from the duals of the bound and is corrected, pass by pass, by
// what the bins that held it cost: what combines badly comes to be packed earlier
// (sequential value correction; Belov and Scheithauer 2007, “Setup and open-stacks
// minimization in one-dimensional stock cutting”). Large items are worth somewhat more
// than their duals say, for the same reason.
func (g *generator) sequence(s *partial) {
	y, demand := g.cleaned(g.center), slices.Clone(g.demand)
	last := math.NaN()
	for pass := 0; pass < corrections && !g.exhausted() && !g.enough(); pass++ {
		next := s.clone()
		price, count := make([]float64, len(demand)), make([]float64, len(demand))
		g.fill(&next, y, price, count)
		g.finish(&next)
		if next.cost == last {
			break
		}
		last = next.cost
		for i, n := range count {
			if n > 0 {
				y[i] = (y[i] + price[i]/n) / 2
			}
		}
	}
	copy(g.demand, demand)
}

// fill packs bins until nothing is left that fits. To price it adds what the copies of
// each item cost, to count how many they are.
func (g *generator) fill(s *partial, y, price, count []float64) {
	most := slices.Max(y[:len(g.demand)])
	if most <= 0 {
		return
	}
	worth := slices.Clone(y)
	for i := range g.demand {
		worth[i] = y[i] * math.Pow(y[i]/most, largeFirst)
	}
	for step := 0; !g.exhausted(); step++ {
		for i := range g.demand {
			g.demand[i] = int32(s.rhs[i])
		}
		var best *Pattern
		ratio := 0.0
		for _, k := range g.packs {
			if row := g.limits[k.bin]; row >= 0 && s.rhs[row] < 1 {
				continue
			}
			if step%sequenceLoads == 0 || len(k.take) == 0 {
				values, caps := g.values(k, worth)
				k.load(values, caps, -1)
			}
			g.cap(k, s)
			if value, _ := k.search(-1, 0, sequenceNodes); value <= 0 {
				continue
			}
			pt := k.pattern()
			value := 0.0
			for _, sh := range pt.Shares {
				value += y[sh.Item] * float64(sh.Count)
			}
			if r := value / max(g.fee(k, y), 1e-12); r > ratio {
				best, ratio = pt, r
			}
		}
		if best == nil {
			return
		}
		n := int32(math.MaxInt32)
		for _, sh := range best.Shares {
			n = min(n, int32(s.rhs[sh.Item])/sh.Count)
		}
		for _, sh := range best.Shares {
			price[sh.Item] += float64(n*sh.Count) * y[sh.Item] / ratio
			count[sh.Item] += float64(n * sh.Count)
		}
		g.addPattern(best)
		g.fix(s, best, n)
	}
}

// cap lets a loaded knapsack take no more than what is left of each item, in its zone too.
func (g *generator) cap(k *knapsack, s *partial) {
	zone := g.p.Bins[k.bin].Zone
	for p, at := range k.order {
		i := int(k.items[at])
		left := g.demand[i]
		if row, ok := g.zones[[2]int{i, zone}]; ok && zone >= 0 {
			left = min(left, int32(s.rhs[row]))
		}
		k.most[p] = min(k.most[p], left)
	}
	k.bounded = true
	g.work += int64(len(k.order))
}
