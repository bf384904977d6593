package packing

import (
	"cmp"
	"math"
	"slices"
)

// Bounds on a table: its cells, and the bits that remember choices.
const (
	maxCells = 6 << 20
	maxBits  = 1 << 30
)

// fewCopies of an item there are so few that the best pattern would hold more.
const fewCopies = 4

// table solves the knapsacks of several bins at once by dynamic programming
// over a grid of capacities: best[c] is the most that fits into capacity c. The
// grid has the dimensions that bind, as fine as the sizes ask for or as cells
// allow; sizes are rounded down to it. Other dimensions are relaxed with their
// multipliers. Both only add patterns, so that what it says is worth most is a
// bound, and exact where neither was necessary.
type table struct {
	p     *Problem
	packs []*knapsack // that share it: they take the same items
	price []float64   // per dimension: its multiplier where it is relaxed

	active []*knapsack // those that it is filled for
	capped []bool      // per item: no more copies of it are taken than there are

	grid   []int   // dimensions on the grid
	grain  []int64 // size of a cell in each
	cells  []int   // per grid dimension, capacity zero included
	stride []int

	items   []tableItem // in the order in which they came into the table
	outside []tableItem // that may be put beside what the table holds
	free    float64     // worth of copies that take no cell
	best    []float64
	first   []float64 // before the items with as many copies as fit
	parts   []part

	work int64
}

type tableItem struct {
	item   int32
	value  float64 // less what it takes of relaxed dimensions
	cells  []int
	offset int
	most   int32
}

// part is a number of copies that are taken together or not at all.
type part struct {
	item  int // index in items
	n     int32
	taken []uint64 // bit per cell
}

// newTable lays out the grid for bins with the same items.
func newTable(p *Problem, packs []*knapsack) *table {
	t := &table{p: p, packs: packs, capped: make([]bool, len(p.Items))}
	for i, it := range p.Items {
		t.capped[i] = it.Count <= fewCopies
	}
	if len(packs) == 0 || len(packs[0].items) == 0 {
		return t
	}
	dims := packs[0].dims()
	capacity := make([]int64, dims)
	for _, k := range packs {
		for d, c := range k.capacity {
			capacity[d] = max(capacity[d], c)
		}
	}
	type axis struct {
		dim   int
		tight float64 // largest share that the typical item takes
	}
	var axes []axis
	for d := range dims {
		sum, grain := 0.0, int64(0)
		for _, size := range packs[0].size {
			if size[d] > 0 && capacity[d] > 0 {
				sum += float64(size[d]) / float64(capacity[d])
				grain = gcd(grain, size[d])
			}
		}
		if grain > 0 {
			axes = append(axes, axis{d, sum})
		}
	}
	slices.SortStableFunc(axes, func(a, b axis) int {
		switch {
		case a.tight > b.tight:
			return -1
		case a.tight < b.tight:
			return 1
		}
		return a.dim - b.dim
	})
	total := 1
	for _, a := range axes {
		if len(t.grid) == 3 {
			break
		}
		grain := int64(0)
		for _, size := range packs[0].size {
			grain = gcd(grain, max(size[a.dim], 0))
		}
		n := capacity[a.dim]/grain + 1
		if len(t.grid) >= 2 && int64(total)*n > maxCells/4 {
			break // a third dimension only when it is cheap
		}
		if most := int64(maxCells / total); n > most || n > 8192 {
			most = min(most, 2048)
			if most < 64 {
				break
			}
			grain = capacity[a.dim]/most + 1
			n = capacity[a.dim]/grain + 1
		}
		t.grid, t.grain, t.cells = append(t.grid, a.dim), append(t.grain, grain), append(t.cells, int(n))
		total *= int(n)
	}
	t.stride = make([]int, len(t.grid))
	t.span(packs)
	return t
}

// capAll caps every item if filling the table with all of them takes no more than that.
func (t *table) capAll(work int64) {
	parts := 0
	for _, it := range t.p.Items {
		parts += 2 * bitLength(it.Count)
	}
	if int64(t.size())*int64(parts)/2 > work {
		return
	}
	for i := range t.capped {
		t.capped[i] = true
	}
}

// span makes the table as large as these of its bins ask for.
func (t *table) span(active []*knapsack) {
	t.active = active
	at := 1
	for g := len(t.grid) - 1; g >= 0; g-- {
		most := int64(0)
		for _, k := range active {
			most = max(most, k.capacity[t.grid[g]])
		}
		t.cells[g], t.stride[g] = int(most/t.grain[g])+1, at
		at *= t.cells[g]
	}
}

// size is the number of cells.
func (t *table) size() int {
	n := 1
	for _, c := range t.cells {
		n *= c
	}
	return n
}

// cost is about how many steps filling the table with so many items takes.
func (t *table) cost(items int) int64 {
	if len(t.packs) == 0 || len(t.grid) == 0 {
		return math.MaxInt64
	}
	return int64(t.size()) * int64(min(items, len(t.packs[0].items)))
}

// fill computes the table for values per item and the most copies of each, over the
// items that are in; of those that are not capped it takes any number that fits. The bins
// that it spans are loaded with the same values.
func (t *table) fill(values []float64, most []int32, in func(item int32) bool) {
	lead := t.packs[0]
	t.price = make([]float64, lead.dims())
	// The bin that it matters most for.
	worst := slices.MaxFunc(t.active, func(a, b *knapsack) int { return cmp.Compare(a.root-a.fee, b.root-b.fee) })
	for d, l := range worst.lambda {
		if worst.capacity[d] > 0 && !slices.Contains(t.grid, d) {
			t.price[d] = l / float64(worst.capacity[d])
		}
	}
	n := t.size()
	t.best = resize(t.best, n)
	clear(t.best)
	t.items, t.outside, t.parts, t.free = t.items[:0], t.outside[:0], t.parts[:0], 0
	var unbounded []int
	bits := 0
	for _, i := range lead.items {
		v := values[i]
		for d, price := range t.price {
			v -= price * float64(max(t.p.Items[i].Size[d], 0))
		}
		if v <= 1e-12 || most[i] <= 0 {
			continue
		}
		it := tableItem{item: i, value: v, most: most[i], cells: make([]int, len(t.grid))}
		fits := int64(math.MaxInt64)
		for g, d := range t.grid {
			it.cells[g] = int(max(t.p.Items[i].Size[d], 0) / t.grain[g])
			it.offset += it.cells[g] * t.stride[g]
			if it.cells[g] > 0 {
				fits = min(fits, int64(t.cells[g]-1)/int64(it.cells[g]))
			}
		}
		if fits == 0 {
			continue
		}
		if !in(i) {
			t.outside = append(t.outside, it)
			continue
		}
		if it.offset == 0 {
			t.free += v * float64(it.most)
			continue
		}
		t.items = append(t.items, it)
		if int64(it.most) >= fits || !t.capped[i] || bits+n*bitLength(it.most) > maxBits {
			unbounded = append(unbounded, len(t.items)-1)
			continue
		}
		bits += n * bitLength(it.most)
		for left, step := it.most, int32(1); left > 0; step *= 2 {
			c := min(step, left)
			left -= c
			t.once(len(t.items)-1, c)
		}
	}
	if t.first = t.first[:0]; len(t.parts) > 0 {
		t.first = append(t.first, t.best...)
	}
	for _, x := range unbounded {
		t.often(x)
	}
	t.work += int64(n) * int64(len(t.parts)*2+len(unbounded)+1) / 2
}

// loss of a copy of an item against the relaxation of a bin: a pattern with it is worth
// at most so much less than that.
func (t *table) loss(k *knapsack, i int32, value float64) float64 {
	loss := -value
	for d, l := range k.lambda {
		if k.capacity[d] > 0 {
			loss += l * float64(t.p.Items[i].Size[d]) / float64(k.capacity[d])
		}
	}
	return loss
}

// promising marks the items, so many per bin, that lose least against its relaxation:
// what the best patterns are mostly made of.
func (t *table) promising(values []float64, each int) []bool {
	in := make([]bool, len(t.p.Items))
	loss := make([]float64, len(t.p.Items))
	order := slices.Clone(t.packs[0].items)
	for _, k := range t.active {
		for _, i := range order {
			loss[i] = t.loss(k, i, values[i])
		}
		slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(loss[a], loss[b]), cmp.Compare(a, b)) })
		for _, i := range order[:min(each, len(order))] {
			in[i] = true
		}
	}
	return in
}

func bitLength(n int32) int {
	b := 0
	for ; n > 0; n /= 2 {
		b++
	}
	return b
}

// rows calls each for all runs along the last dimension that can give up the
// cells: from is the first index of the run that can, until its end.
func (t *table) rows(cells []int, backwards bool, each func(from, until int)) {
	last := len(t.cells) - 1
	at := make([]int, last)
	copy(at, cells[:last])
	var all func(d, base int)
	all = func(d, base int) {
		if d == last {
			if cells[last] < t.cells[last] {
				each(base+cells[last], base+t.cells[last])
			}
			return
		}
		if backwards {
			for x := t.cells[d] - 1; x >= cells[d]; x-- {
				all(d+1, base+x*t.stride[d])
			}
			return
		}
		for x := cells[d]; x < t.cells[d]; x++ {
			all(d+1, base+x*t.stride[d])
		}
	}
	all(0, 0)
}

// often adds as many copies of an item as fit.
func (t *table) often(x int) {
	it := t.items[x]
	t.rows(it.cells, false, func(from, until int) {
		to, less, v := t.best[from:until], t.best[from-it.offset:until-it.offset], it.value
		for c := range to {
			if with := less[c] + v; with > to[c] {
				to[c] = with
			}
		}
	})
}

// once adds n copies together, or none.
func (t *table) once(x int, n int32) {
	it := t.items[x]
	cells := make([]int, len(it.cells))
	for g, c := range it.cells {
		if cells[g] = c * int(n); cells[g] >= t.cells[g] {
			return
		}
	}
	p := part{item: x, n: n, taken: make([]uint64, (len(t.best)+63)/64)}
	offset, v := it.offset*int(n), it.value*float64(n)
	t.rows(cells, true, func(from, until int) {
		for c := until - 1; c >= from; c-- {
			if with := t.best[c-offset] + v; with > t.best[c] {
				t.best[c] = with
				p.taken[c/64] |= 1 << (c % 64)
			}
		}
	})
	t.parts = append(t.parts, p)
}

// cell of a bin's capacity.
func (t *table) cell(k *knapsack) int {
	at := 0
	for g, d := range t.grid {
		at += int(max(k.capacity[d], 0)/t.grain[g]) * t.stride[g]
	}
	return at
}

// top bounds what a pattern of a bin is worth.
func (t *table) top(k *knapsack) float64 {
	v := t.best[t.cell(k)] + t.free
	for d, price := range t.price {
		v += price * float64(max(k.capacity[d], 0))
	}
	return v * (1 + 1e-12)
}

// seeds calls each with the items that the bin may hold beside the best of the
// rest, and what that is worth according to the table.
func (t *table) seeds(k *knapsack, each func(seed tableItem, value float64)) {
	at, extra := t.cell(k), t.top(k)-t.best[t.cell(k)]
	for _, list := range [][]tableItem{t.items, t.outside} {
		for _, it := range list {
			fits := true
			for g, d := range t.grid {
				fits = fits && int64(it.cells[g]) <= max(k.capacity[d], 0)/t.grain[g]
			}
			if fits {
				each(it, it.value+t.best[at-it.offset]+extra)
			}
		}
	}
}

// patterns of a bin that are worth more than its fee, the best first: at most so many, each
// the best with one of the items.
func (t *table) patterns(k *knapsack, most int) (list []*Pattern) {
	type start struct {
		seed  *tableItem
		value float64
	}
	starts := []start{{nil, t.top(k)}}
	t.seeds(k, func(seed tableItem, value float64) {
		if value > k.fee*(1+1e-7)+1e-9 {
			starts = append(starts, start{&seed, value})
		}
	})
	slices.SortStableFunc(starts, func(a, b start) int { return -cmp.Compare(a.value, b.value) })
	for _, s := range starts[:min(len(starts), most)] {
		list = append(list, t.pattern(k, s.seed))
	}
	return list
}

// copies of the items in the best of a bin with a copy of a seed, or in the best of all
// for none.
func (t *table) copies(k *knapsack, seed *tableItem) map[int32]int32 {
	count := map[int32]int32{}
	at := t.cell(k)
	if seed != nil {
		count[seed.item]++
		at -= seed.offset
	}
	coords := make([]int, len(t.grid))
	locate := func() {
		rest := at
		for g, s := range t.stride {
			coords[g], rest = rest/s, rest%s
		}
	}
	for {
		locate()
		if len(t.first) > 0 && t.first[at] >= t.best[at]-1e-11 || t.best[at] <= 1e-11 {
			break
		}
		found := -1
		for x, it := range t.items {
			fits := true
			for g, c := range it.cells {
				fits = fits && c <= coords[g]
			}
			if fits && t.best[at-it.offset]+it.value >= t.best[at]-1e-11 {
				found = x
				break
			}
		}
		if found < 0 {
			break
		}
		count[t.items[found].item]++
		at -= t.items[found].offset
		t.work += int64(len(t.items))
	}
	if len(t.first) > 0 {
		for n := len(t.parts) - 1; n >= 0; n-- {
			if p := t.parts[n]; p.taken[at/64]&(1<<(at%64)) != 0 {
				count[t.items[p.item].item] += p.n
				at -= t.items[p.item].offset * int(p.n)
			}
		}
	}
	return count
}

// recap caps the items of which the best patterns hold more than there are; false when
// there are none.
func (t *table) recap(most []int32) (over bool) {
	for _, k := range t.active {
		for i, n := range t.copies(k, nil) {
			if n > most[i] && !t.capped[i] {
				t.capped[i], over = true, true
			}
		}
	}
	return over
}

// pattern of a bin with a copy of a seed, or the best for none. Copies that the grid, a
// relaxed dimension or an item that is not capped wrongly allowed are left out.
func (t *table) pattern(k *knapsack, seed *tableItem) *Pattern {
	count := t.copies(k, seed)
	pt := &Pattern{Bin: k.bin}
	free := slices.Clone(k.capacity)
	for _, i := range k.items {
		n := min(int64(count[i]), copies(t.p.Items[i].Size, free), int64(t.p.fits(int(i), k.bin)))
		if n > 0 {
			take(free, t.p.Items[i].Size, n)
			pt.Shares = append(pt.Shares, Share{Item: int(i), Count: int32(n)})
		}
	}
	return pt
}
