package packing

import (
	"cmp"
	"math"
	"slices"
)

// knapsack looks for patterns of one bin: copies a_j of items with
//
//	maximise   Σ_j v_j·a_j
//	subject to Σ_j size_jd·a_j ≤ capacity_d   in every dimension d
//	           0 ≤ a_j ≤ most_j, whole
//
// by depth-first branch and bound. Items are tried by decreasing value per
// surrogate weight, the weight being size times the duals of the linear
// relaxation. What the rest of the items can add is bounded by the best value
// per weight among them, under that surrogate and under every single dimension.
//
// Items that make room in some dimension come first; a bin may be overfull until they
// have been tried.
//
// A search that runs out of nodes still returns a proven bound: the largest
// bound of what it left out.
type knapsack struct {
	bin      int
	capacity []int64
	cost     float64
	fee      float64   // what a pattern must be worth to help: cost less the limit's dual
	items    []int32   // of the problem, that may go into the bin
	size     [][]int64 // parallel to items
	norm     [][]float64

	// Of the values in hand, in order of search.
	order   []int32 // positions in items
	value   []float64
	most    []int32
	sizes   []int64   // flat, dims each
	weights []float64 // flat, surrogates each
	best    []float64 // flat: largest value per weight from here on
	total   []float64 // value of everything from here on
	bounded bool      // some item has fewer copies than fit
	signed  int       // the first so many items make room for others
	room    []int64   // flat: what such items from here on make at most
	root    float64   // bound by the relaxation
	lambda  []float64

	// Of the search.
	free    []int64
	left    []float64 // surrogate capacity
	take    []int32   // copies, in order of search
	leaf    []int32   // the best found
	leafVal float64
	cut     float64 // what must be exceeded
	open    float64 // bound of what was left out
	nodes   int
	limit   int
	stopped bool
	work    int64
}

func (k *knapsack) dims() int { return len(k.capacity) }

// load prepares the search for values per item of the problem and the largest
// number of copies of each. Where the relaxation is worth no more than the fee there
// is nothing to search, and nothing but root and lambda is set.
func (k *knapsack) load(values []float64, most []int32, fee float64) {
	k.fee = fee
	d := k.dims()
	s := d + 1
	k.order = k.order[:0]
	for n, i := range k.items {
		if most[i] > 0 && (values[i] > 1e-12 || slices.Min(k.size[n]) < 0) { // room is worth something, too
			k.order = append(k.order, int32(n))
		}
	}
	k.relax(values, most)
	if k.root <= k.fee {
		return
	}
	ratio, makes := make([]float64, len(k.items)), make([]int, len(k.items))
	k.signed = 0
	for _, n := range k.order {
		w := 0.0
		for x, l := range k.lambda {
			w += l * k.norm[n][x]
			if k.size[n][x] < 0 {
				makes[n] = 1
			}
		}
		k.signed += makes[n]
		ratio[n] = math.Inf(1)
		if w > 0 {
			ratio[n] = values[k.items[n]] / w
		}
	}
	slices.SortFunc(k.order, func(a, b int32) int {
		return cmp.Or(-cmp.Compare(makes[a], makes[b]), -cmp.Compare(ratio[a], ratio[b]), -cmp.Compare(values[k.items[a]], values[k.items[b]]), cmp.Compare(a, b))
	})
	n := len(k.order)
	k.value = resize(k.value, n)
	k.most = resize(k.most, n)
	k.sizes = resize(k.sizes, n*d)
	k.weights = resize(k.weights, n*s)
	k.best = resize(k.best, (n+1)*s)
	k.total = resize(k.total, n+1)
	k.take = resize(k.take, n)
	k.free = resize(k.free, d)
	k.left = resize(k.left, s)
	for x := range s {
		k.best[n*s+x] = 0
	}
	k.total[n] = 0
	k.room = resize(k.room, (k.signed+1)*d)
	clear(k.room)
	for p := k.signed - 1; p >= 0; p-- {
		at := k.order[p]
		for x, v := range k.size[at] {
			k.room[p*d+x] = k.room[(p+1)*d+x] + max(-v, 0)*int64(most[k.items[at]])
		}
	}
	k.bounded = false
	for p := n - 1; p >= 0; p-- {
		at := k.order[p]
		v := values[k.items[at]]
		k.value[p], k.most[p] = v, most[k.items[at]]
		k.total[p] = k.total[p+1] + max(v, 0)*float64(k.most[p])
		w := 0.0
		for x := range d {
			k.sizes[p*d+x] = k.size[at][x]
			nx := k.norm[at][x]
			w += k.lambda[x] * nx
			k.weights[p*s+1+x] = nx
			k.best[p*s+1+x] = max(k.best[(p+1)*s+1+x], per(v, nx))
		}
		k.weights[p*s] = w
		k.best[p*s] = max(k.best[(p+1)*s], per(v, w))
		if int64(k.most[p]) < copies(k.size[at], k.capacity) {
			k.bounded = true
		}
	}
	k.work += int64(n * d * 8)
}

func per(v, w float64) float64 {
	if w <= 0 {
		return math.Inf(1)
	}
	return v / w
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/2)
	}
	return s[:n]
}

// search looks for a pattern worth more than cut with, when seed is not
// negative, at least one copy of the item at that position of the order. It
// returns the pattern's value, 0 when there is none, and a bound on the value
// of all patterns looked for: at least cut.
func (k *knapsack) search(seed int, cut float64, nodes int) (value, bound float64) {
	d, s := k.dims(), k.dims()+1
	copy(k.free, k.capacity)
	clear(k.take)
	k.left[0] = 0
	for x := range d {
		k.left[1+x] = 0
		if k.capacity[x] > 0 {
			k.left[1+x] = 1
			k.left[0] += k.lambda[x]
		}
	}
	k.cut, k.open, k.nodes, k.limit, k.stopped = cut, cut, 0, nodes, false
	k.leafVal, k.leaf = 0, k.leaf[:0]
	v := 0.0
	if seed >= 0 {
		for x := range d {
			k.free[x] -= k.sizes[seed*d+x]
		}
		for x := range s {
			k.left[x] -= k.weights[seed*s+x]
		}
		k.take[seed]++
		k.most[seed]--
		v = k.value[seed]
		defer func() { k.most[seed]++ }()
	}
	k.descend(0, v)
	k.work += int64(k.nodes * 4 * (d + 2))
	return k.leafVal, max(k.open, k.leafVal)
}

func (k *knapsack) bound(p int, v float64) float64 {
	s := len(k.left)
	b := k.total[p]
	for x, e := range k.best[p*s : p*s+s] {
		if f := max(k.left[x], 0) * e; f < b { // NaN (0·∞) bounds nothing
			b = f
		}
	}
	return v + max(b, 0)
}

// greedy bounds what items from p on add, by filling the surrogate knapsack
// with as many copies as there are and a fraction of one item.
func (k *knapsack) greedy(p int, v float64) float64 {
	s := len(k.left)
	w := max(k.left[0], 0)
	for ; p < len(k.value); p++ {
		one := k.weights[p*s]
		if w <= 0 && one > 0 {
			break
		}
		all := float64(k.most[p]) * one
		if one > 0 && all >= w {
			return v + w*k.best[p*s]
		}
		w -= all
		v += float64(k.most[p]) * k.value[p]
		k.nodes++
	}
	return v
}

func (k *knapsack) descend(p int, v float64) {
	over := k.signed > 0 && slices.Min(k.free) < 0
	if !over && v > k.cut && v > k.leafVal {
		k.leafVal, k.cut = v, v
		k.leaf = append(k.leaf[:0], k.take...)
	}
	d, s := k.dims(), k.dims()+1
	n := len(k.value)
	for ; p < n; p++ {
		if over && p >= k.signed { // nothing more makes room
			return
		}
		k.nodes++
		b := k.bound(p, v)
		if b <= k.cut {
			return
		}
		if k.stopped || k.nodes >= k.limit {
			k.stopped = true
			k.open = max(k.open, b)
			return
		}
		c := k.most[p]
		size := k.sizes[p*d : p*d+d]
		for x, f := range k.free {
			if p < k.signed {
				f += k.room[(p+1)*d+x]
			}
			if one := size[x]; one > 0 {
				if f < one {
					c = 0
					break
				}
				if q := f / one; q < int64(c) {
					c = int32(q)
				}
			}
		}
		if c <= 0 {
			continue
		}
		if k.bounded && p >= k.signed && k.greedy(p, v) <= k.cut { // the rest is in order of value per weight
			return
		}
		weights := k.weights[p*s : p*s+s]
		for x := range size {
			k.free[x] -= int64(c) * size[x]
		}
		for x := range weights {
			k.left[x] -= float64(c) * weights[x]
		}
		k.take[p] += c
		for a := c; a > 0; a-- {
			k.descend(p+1, v+float64(a)*k.value[p])
			for x := range size {
				k.free[x] += size[x]
			}
			for x := range weights {
				k.left[x] += weights[x]
			}
			k.take[p]--
			if k.stopped {
				k.open = max(k.open, b)
				for x := range size {
					k.free[x] += int64(a-1) * size[x]
				}
				for x := range weights {
					k.left[x] += float64(a-1) * weights[x]
				}
				k.take[p] -= a - 1
				return
			}
		}
	}
}

// pattern of the last search's best leaf.
func (k *knapsack) pattern() *Pattern {
	p := &Pattern{Bin: k.bin}
	for at, n := range k.leaf {
		if n > 0 {
			p.Shares = append(p.Shares, Share{Item: int(k.items[k.order[at]]), Count: n})
		}
	}
	slices.SortFunc(p.Shares, func(a, b Share) int { return cmp.Compare(a.Item, b.Item) })
	return p
}
