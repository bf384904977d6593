package packing

import (
	"math"
	"slices"
)

// begin puts the first columns into the master and chooses the first center.
func (g *generator) begin(start *Packing, patterns []Pattern) {
	for i := range start.Loads {
		g.addPattern(&start.Loads[i].Pattern)
	}
	for i := range patterns {
		if g.holds(&patterns[i]) {
			g.addPattern(&patterns[i])
		}
	}
	g.center = g.fluid()
	g.alpha = 0.9
}

// holds reports whether a pattern is one of this problem.
func (g *generator) holds(pt *Pattern) bool {
	if pt.Bin < 0 || pt.Bin >= len(g.p.Bins) || g.p.Bins[pt.Bin].Max == 0 {
		return false
	}
	used := make([]int64, len(g.p.Bins[pt.Bin].Capacity))
	for _, s := range pt.Shares {
		if s.Item < 0 || s.Item >= len(g.p.Items) || s.Count <= 0 || s.Count > g.p.fits(s.Item, pt.Bin) {
			return false
		}
		take(used, g.p.Items[s.Item].Size, -int64(s.Count))
	}
	return copies(used, g.p.Bins[pt.Bin].Capacity) > 0
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
	y := make([]float64, g.m.rows)
	for i, it := range g.p.Items {
		for d, v := range it.Size {
			y[i] += bestPrice[d] * float64(max(v, 0))
		}
	}
	return y
}

// converge generates columns until the master's value is within gap of the
// bound, no column improves it, or the work is spent.
func (g *generator) converge(gap float64) bool {
	rootNodes := 2000
	for {
		if !g.m.solve(g.masterLimit()) || g.exhausted() {
			return false
		}
		g.round++
		z := g.m.objective()
		y := slices.Clone(g.m.y)
		sep := y
		if g.alpha > 0 {
			sep = make([]float64, len(y))
			for i := range sep {
				sep[i] = g.alpha*g.center[i] + (1-g.alpha)*min(y[i], 1000)
			}
		}
		added, bound := g.price(sep, 0, rootNodes, 200)
		if bound > g.bound {
			g.bound = bound
			g.center = slices.Clone(sep)
		}
		g.m.tol = max(costTol, 0.1*(z-g.bound)/z)
		if z-g.bound <= gap*z {
			return true
		}
		switch {
		case added == 0 && g.alpha > 0:
			g.alpha -= 0.3
			if g.alpha < 0.05 {
				g.alpha = 0
			}
		case added == 0:
			if rootNodes > 1e7 {
				return true
			}
			rootNodes *= 8
		}
	}
}
