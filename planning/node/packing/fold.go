package packing

import (
	"math"
	"slices"
)

// fold puts items of about the same size into one row of the master, where each
// counts by its weight: the duals of a group's items are multiples of their weights.
// That restricts the duals, so that a bound they prove is one, and makes the master
// small: a few dozen rows tell what most of the duals are like. (Row aggregation; as
// in Elhallaoui et al. 2005, “Dynamic aggregation of set-partitioning constraints”.)
type fold struct {
	row    []int32 // per item
	weight []float64
	rows   int
}

const (
	foldedRows = 48    // of the first folded master
	foldedGap  = 0.004 // that one is solved down to
)

// folded groups the items into rows: the group that adds most to the demand's worth
// and differs most in size is cut in two, along the dimension in which it differs
// most, until there are enough.
func (g *generator) folded(weight []float64, rows int) *fold {
	f := &fold{row: make([]int32, len(g.demand)), weight: weight}
	type group struct {
		items []int32
		dim   int
		rank  float64
	}
	measure := func(items []int32) group {
		gr := group{items: items}
		worth := 0.0
		for _, i := range items {
			worth += weight[i] * float64(g.demand[i])
		}
		for d := range g.p.Items[0].Size {
			low, high := math.Inf(1), 0.0
			for _, i := range items {
				v := math.Log(1 + float64(max(g.p.Items[i].Size[d], 0)))
				low, high = min(low, v), max(high, v)
			}
			if r := worth * (high - low); r > gr.rank {
				gr.dim, gr.rank = d, r
			}
		}
		return gr
	}
	var all []int32
	for i := range g.demand {
		all = append(all, int32(i))
	}
	groups := []group{measure(all)}
	for len(groups) < rows {
		n := 0
		for k := range groups {
			if groups[k].rank > groups[n].rank {
				n = k
			}
		}
		one := groups[n]
		if one.rank == 0 {
			break
		}
		size := func(i int32) int64 { return g.p.Items[i].Size[one.dim] }
		slices.SortStableFunc(one.items, func(a, b int32) int { return int(min(max(size(a)-size(b), -1), 1)) })
		half := len(one.items) / 2
		for half < len(one.items)-1 && size(one.items[half]) == size(one.items[half-1]) {
			half++
		}
		if size(one.items[half]) == size(one.items[half-1]) {
			for half = len(one.items) / 2; half > 1 && size(one.items[half]) == size(one.items[half-1]); {
				half--
			}
		}
		groups[n] = measure(one.items[:half])
		groups = append(groups, measure(one.items[half:]))
	}
	for r, gr := range groups {
		for _, i := range gr.items {
			f.row[i] = int32(r)
		}
	}
	f.rows = len(groups)
	return f
}

// entries of a pattern's column.
func (f *fold) entries(pt *Pattern) []entry {
	var out []entry
	for _, s := range pt.Shares {
		row, v := f.row[s.Item], f.weight[s.Item]*float64(s.Count)
		if n := slices.IndexFunc(out, func(e entry) bool { return e.row == row }); n >= 0 {
			out[n].value += v
		} else {
			out = append(out, entry{row, v})
		}
	}
	return out
}

// duals of all rows, those of the items unfolded.
func (g *generator) duals() []float64 {
	if g.fold == nil {
		return g.m.y
	}
	y := make([]float64, len(g.rhs))
	for i, row := range g.fold.row {
		y[i] = g.m.y[row] * g.fold.weight[i]
	}
	copy(y[len(g.demand):], g.m.y[g.m.covers:])
	return y
}

// rowsOf folds duals to those of the master's rows: the mean of each group.
func (g *generator) rowsOf(y []float64) []float64 {
	if g.fold == nil {
		return y
	}
	out := make([]float64, g.m.rows)
	for i, row := range g.fold.row {
		if all := g.m.rhs[row]; all > 0 {
			out[row] += y[i] * g.rhs[i] / all
		}
	}
	copy(out[g.m.covers:], y[len(g.demand):])
	return out
}

// sketch generates columns for folded masters, of more rows each, and leaves the
// duals and patterns that are good for them to the one that is not.
func (g *generator) sketch(start *Packing) {
	whole, budget := g.m, g.s.Work
	patterns := make([]*Pattern, 0, len(start.Loads))
	for i := range start.Loads {
		patterns = append(patterns, &start.Loads[i].Pattern)
	}
	for rows := foldedRows; rows*2 <= len(g.demand); rows *= 2 {
		most := slices.Max(g.center[:len(g.demand)])
		if most <= 0 {
			break
		}
		weight := make([]float64, len(g.demand))
		for i := range weight {
			weight[i] = max(g.center[i], 1e-4*most)
		}
		g.fold = g.folded(weight, rows)
		demand := make([]float64, g.fold.rows)
		for i, row := range g.fold.row {
			demand[row] += weight[i] * g.rhs[i]
		}
		g.m = newMaster(demand, g.rhs[len(g.demand):], leftOver)
		clear(g.seen)
		for _, pt := range patterns {
			g.addPattern(pt)
		}
		g.s.Work = min(budget, g.spent()+budget/10)
		g.converge(foldedGap)
		patterns = patterns[:0]
		for _, c := range g.m.cols {
			if c.pattern != nil {
				patterns = append(patterns, c.pattern)
			}
		}
		whole.inv.work += g.m.inv.work
	}
	g.s.Work, g.fold, g.m = budget, nil, whole
	clear(g.seen)
	for _, pt := range patterns {
		g.addPattern(pt)
	}
}
