package packing

import "slices"

// Solve packs p by column generation within a budget of work: columns until
// the relaxation's value meets the bound, then dives until the gap is closed or
// the work is spent. It is never worse than the packing it starts from, which
// is FirstFit's if none is given.
func Solve(p *Problem, s Settings) *Packing {
	if s.Start == nil {
		s.Start = FirstFit(p)
	}
	g := newGenerator(p, s)
	g.s.Work = s.Work * 7 / 10
	g.best = s.Start
	g.first = newFirstFit(p)
	g.begin(s.Start)
	if len(g.packs) == 0 {
		return g.result(true)
	}
	whole := partial{rhs: slices.Clone(g.rhs)}
	if !s.local {
		g.s.Work = g.spent() + s.Work/10
		g.sequence(&whole) // patterns that together hold everything, and a packing if little work is left
		g.s.Work = s.Work * 7 / 10
	}
	converged := g.converge(g.target())
	g.root = g.m.save()
	g.s.Work = s.Work
	if g.rounded != nil {
		g.sequence(g.rounded)
	}
	if g.enough() {
		return g.result(true)
	}
	g.alpha = 0
	g.m.tol = costTol
	if s.local {
		for pass := 0; pass < 2 && !g.exhausted() && !g.enough(); pass++ {
			g.m.restore(*g.root)
			g.dive(whole.clone(), 2, pass)
		}
		return g.result(!g.exhausted())
	}
	g.reserve = s.Work / 20
	for pass := 0; !g.exhausted() && !g.enough() && pass <= 6; pass++ {
		if pass > 0 {
			g.improve(g.spent() + (g.s.Work-g.spent())/2)
		}
		g.m.restore(*g.root)
		g.dive(whole.clone(), 3+pass, pass)
	}
	return g.result(converged && !g.exhausted())
}

// target is the gap that generating columns goes down to: a part of what the
// packing is allowed.
func (g *generator) target() float64 { return g.s.Gap / 4 }

func (g *generator) result(complete bool) *Packing {
	k := *g.best
	k.Complete = complete
	k.Work = g.spent()
	k.Bound = g.proven()
	if k.left() == 0 {
		k.Bound = min(k.Bound, k.Cost)
	}
	if g.root != nil {
		for _, j := range *g.root {
			if pt := g.m.cols[j].pattern; pt != nil {
				k.Patterns = append(k.Patterns, *pt)
			}
		}
	}
	k.Worth = make([]float64, len(g.demand))
	for i := range k.Worth {
		k.Worth[i] = g.center[i] * g.scale
	}
	return &k
}
