package packing

import (
	"cmp"
	"slices"
)

// Sizes of the neighbourhoods of improve, in bins.
const (
	leastBins = 6
	mostBins  = 60
	// Work that one try may always take: what takes more is left be.
	leastRepack = 3_000_000
)

// improve takes some bins out of the best packing, packs what they hold anew
// and keeps what is cheaper, until the work is spent (large neighbourhood
// search; Shaw 1998). Half of the bins are drawn by what they waste: their cost
// less what their content is worth under the duals of the bound. These amounts
// add up to the gap.
func (g *generator) improve(limit int64) {
	if g.best.left() > 0 {
		return
	}
	size, failures := 12, 0
	for g.spent() < limit && !g.enough() && failures < 200 {
		before := g.spent()
		each := min((limit-before)/4, max(leastRepack, (limit-before)/100))
		ok, more := g.repack(size, each)
		failures++
		if ok {
			failures = 0
		}
		switch {
		case more && g.spent()-before < each/4:
			size = min(size+1, mostBins) // it was easy: take more
		case !more:
			size = max(size-2, leastBins)
		}
	}
}

// repack repacks so many bins within some work; ok when that was cheaper, and
// solved when the search came to its end.
func (g *generator) repack(size int, work int64) (ok, solved bool) {
	free := g.draw(size)
	if len(free) < 2 {
		return false, true
	}
	sub := &Problem{}
	used := make([]int32, len(g.p.Bins))
	for _, l := range g.best.Loads {
		used[l.Bin] += l.Bins
	}
	index := make([]int, len(g.p.Items)) // +1
	var items []int
	start := &Packing{}
	for _, n := range free {
		l := g.best.Loads[n]
		used[l.Bin]--
		start.Cost += g.p.Bins[l.Bin].Cost
		one := Load{Pattern{Bin: l.Bin}, 1}
		for _, s := range l.Shares {
			if index[s.Item] == 0 {
				items = append(items, s.Item)
				index[s.Item] = len(items)
				it := g.p.Items[s.Item]
				it.Count = 0
				sub.Items = append(sub.Items, it)
			}
			at := index[s.Item] - 1
			sub.Items[at].Count += s.Count
			one.Shares = append(one.Shares, Share{at, s.Count})
		}
		slices.SortFunc(one.Shares, func(a, b Share) int { return cmp.Compare(a.Item, b.Item) })
		start.Loads = append(start.Loads, one)
	}
	start.Unplaced = make([]int32, len(items))
	for t, b := range g.p.Bins {
		if b.Max != Unlimited {
			b.Max -= used[t]
		}
		sub.Bins = append(sub.Bins, b)
	}
	worth := make([]float64, len(items))
	for n, i := range items {
		worth[n] = g.center[i] * g.scale
	}
	k := Solve(sub, Settings{Work: work, Start: start, Worth: worth, Gap: 1e-7, local: true})
	g.work += k.Work
	if k.left() > 0 || k.Cost >= start.Cost*(1-1e-9) {
		return false, k.Complete
	}
	for _, n := range free {
		g.best.Loads[n].Bins--
	}
	g.best.Loads = slices.DeleteFunc(g.best.Loads, func(l Load) bool { return l.Bins == 0 })
	for _, l := range k.Loads {
		for n := range l.Shares {
			l.Shares[n].Item = items[l.Shares[n].Item]
		}
		slices.SortFunc(l.Shares, func(a, b Share) int { return cmp.Compare(a.Item, b.Item) })
		at := slices.IndexFunc(g.best.Loads, func(o Load) bool { return o.Bin == l.Bin && slices.Equal(o.Shares, l.Shares) })
		if at < 0 {
			g.best.Loads = append(g.best.Loads, l)
		} else {
			g.best.Loads[at].Bins += l.Bins
		}
	}
	g.best.Cost += k.Cost - start.Cost
	return true, k.Complete
}

// draw chooses bins to repack, by the index of their load; a load may come
// several times, at most as often as it has bins.
func (g *generator) draw(size int) []int {
	waste := make([]float64, len(g.best.Loads))
	taken := make([]int32, len(g.best.Loads))
	sum, bins := 0.0, int32(0)
	for n, l := range g.best.Loads {
		if g.zoned(l.Pattern) {
			taken[n] = l.Bins // the bound per zone is over all bins: let them be
			continue
		}
		waste[n] = g.p.Bins[l.Bin].Cost / g.scale
		for _, s := range l.Shares {
			waste[n] -= g.center[s.Item] * float64(s.Count)
		}
		waste[n] = max(waste[n], 1e-9)
		sum += waste[n] * float64(l.Bins)
		bins += l.Bins
	}
	var out []int
	pick := func(n int) {
		taken[n]++
		out = append(out, n)
	}
	for tries := 0; len(out) < min(size, int(bins)) && tries < 8*size; tries++ {
		if tries%2 == 0 {
			at := g.m.random() * sum
			for n, l := range g.best.Loads {
				if at -= waste[n] * float64(l.Bins); at < 0 && waste[n] > 0 {
					if taken[n] < l.Bins {
						pick(n)
					}
					break
				}
			}
			continue
		}
		at := int32(g.m.random() * float64(bins))
		for n, l := range g.best.Loads {
			if waste[n] == 0 {
				continue
			}
			if at -= l.Bins; at < 0 {
				if taken[n] < l.Bins {
					pick(n)
				}
				break
			}
		}
	}
	g.work += int64(4 * size * len(g.best.Loads))
	return out
}

// zoned reports whether a pattern has items that zones take few of.
func (g *generator) zoned(pt Pattern) bool {
	return slices.ContainsFunc(pt.Shares, func(s Share) bool { return g.p.Items[s.Item].PerZone > 0 })
}
