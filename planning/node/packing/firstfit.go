package packing

import (
	"cmp"
	"slices"
)

// FirstFit packs by First Fit Decreasing: items in decreasing order of dominant
// share, each put into the first open bins with room, as many copies at once as
// fit. A bin with room is found in about log(bins) steps, so that it takes items × bins
// of them only where every item goes into every bin.
//
// A new bin is of the kind on which one copy of the item costs least when the
// bin is filled with it; equally cheap kinds take turns, so that zones stay
// level. In the end every bin becomes the cheapest kind that holds its items.
// It proves no bound.
func FirstFit(p *Problem) *Packing {
	demand := make([]int32, len(p.Items))
	for i, it := range p.Items {
		demand[i] = it.Count
	}
	vacant := make([]int32, len(p.Bins))
	for t, b := range p.Bins {
		vacant[t] = b.Max
	}
	f := newFirstFit(p)
	nodes, left := f.pack(nil, demand, vacant, f.zoneRoom())
	k := &Packing{Unplaced: left, Complete: true, Work: f.steps}
	k.group(p, nodes)
	return k
}

// open is a bin being filled.
type open struct {
	bin    int
	free   []int64
	shares []Share
}

// firstFit is what does not change between runs on one problem.
type firstFit struct {
	p     *Problem
	order []int
	steps int64
}

// dims is how many dimensions sizes and capacities have.
func (f *firstFit) dims() int {
	if len(f.p.Bins) == 0 {
		return 0
	}
	return len(f.p.Bins[0].Capacity)
}

func newFirstFit(p *Problem) *firstFit { return &firstFit{p: p, order: p.LargestFirst()} }

// zoneRoom is how many more copies a zone takes, by item and zone; only of
// items that have a bound.
func (f *firstFit) zoneRoom() map[[2]int]int32 {
	room := map[[2]int]int32{}
	for i, it := range f.p.Items {
		for _, b := range f.p.Bins {
			if it.PerZone > 0 && b.Zone >= 0 {
				room[[2]int{i, b.Zone}] = it.PerZone
			}
		}
	}
	return room
}

// pack packs demand into bins that are there and at most vacant others of each kind
// (Unlimited for no bound), and returns all bins and what is left over. It changes bins
// and room.
func (f *firstFit) pack(bins []open, demand, vacant []int32, room map[[2]int]int32) ([]open, []int32) {
	p := f.p
	opened := make([]int32, len(p.Bins))
	left := slices.Clone(demand)

	free := NewFree(f.dims())
	for n := range bins {
		free.Add(bins[n].free)
	}
	for _, i := range f.order {
		it := &p.Items[i]
		put := func(bin int) {
			n := &bins[bin]
			fit := min(copies(it.Size, n.free), int64(left[i]))
			if fit <= 0 {
				return
			}
			at := slices.IndexFunc(n.shares, func(s Share) bool { return s.Item == i })
			if it.PerBin > 0 {
				fit = min(fit, int64(it.PerBin))
				if at >= 0 {
					fit = min(fit, int64(it.PerBin-n.shares[at].Count))
				}
			}
			key := [2]int{i, p.Bins[n.bin].Zone}
			zoned := it.PerZone > 0 && key[1] >= 0
			if zoned {
				fit = min(fit, int64(room[key]))
			}
			if fit <= 0 {
				return
			}
			if zoned {
				room[key] -= int32(fit)
			}
			take(n.free, it.Size, fit)
			if at >= 0 {
				n.shares[at].Count += int32(fit)
			} else {
				n.shares = append(n.shares, Share{Item: i, Count: int32(fit)})
			}
			free.Set(bin, n.free)
			left[i] -= int32(fit)
		}
		for n := free.Next(0, it.Size); n >= 0 && left[i] > 0; n = free.Next(n+1, it.Size) {
			f.steps += int64(2 + len(it.Size))
			if it.Bins[bins[n].bin] {
				put(n)
			}
		}
		for left[i] > 0 {
			f.steps += int64(8 * len(p.Bins))
			t := f.kind(i, left[i], opened, vacant, room)
			if t < 0 {
				break
			}
			opened[t]++
			bins = append(bins, open{bin: t, free: slices.Clone(p.Bins[t].Capacity)})
			free.Add(bins[len(bins)-1].free)
			put(len(bins) - 1)
		}
	}
	f.steps += free.Visited * int64(1+f.dims())
	f.downsize(bins, opened, vacant)
	return bins, left
}

// kind of bin to open for an item of which left copies remain; −1 when there
// is none.
func (f *firstFit) kind(i int, left int32, opened, vacant []int32, room map[[2]int]int32) int {
	best, bestCost := -1, 0.0
	it := &f.p.Items[i]
	for t, ok := range it.Bins {
		if !ok || vacant[t] != Unlimited && opened[t] >= vacant[t] {
			continue
		}
		fit := copies(it.Size, f.p.Bins[t].Capacity)
		if it.PerBin > 0 {
			fit = min(fit, int64(it.PerBin))
		}
		if zone := f.p.Bins[t].Zone; it.PerZone > 0 && zone >= 0 {
			fit = min(fit, int64(room[[2]int{i, zone}]))
		}
		if fit <= 0 {
			continue
		}
		cost := f.p.Bins[t].Cost / float64(min(fit, int64(left)))
		if best < 0 || cost < bestCost || cost == bestCost && opened[t] < opened[best] {
			best, bestCost = t, cost
		}
	}
	return best
}

// downsize turns every bin into the cheapest kind, of the same zone, that holds
// its items.
func (f *firstFit) downsize(bins []open, opened, vacant []int32) {
	p := f.p
	used := make([]int64, 0, 8)
	for n := range bins {
		from := bins[n].bin
		used = append(used[:0], p.Bins[from].Capacity...)
		take(used, bins[n].free, 1)
		best := from
		for t := range p.Bins {
			if p.Bins[t].Cost >= p.Bins[best].Cost || vacant[t] != Unlimited && opened[t] >= vacant[t] ||
				p.Bins[t].Zone != p.Bins[from].Zone || copies(used, p.Bins[t].Capacity) == 0 ||
				slices.ContainsFunc(bins[n].shares, func(s Share) bool { return !p.Items[s.Item].Bins[t] }) {
				continue
			}
			best = t
		}
		if best != from {
			opened[from]--
			opened[best]++
			bins[n].bin = best
			take(bins[n].free, p.Bins[from].Capacity, 1)
			take(bins[n].free, p.Bins[best].Capacity, -1)
		}
	}
	f.steps += int64(len(bins) * len(p.Bins))
}

// take takes size n times out of free; a negative n gives back.
func take(free, size []int64, n int64) {
	for d, want := range size {
		free[d] -= n * want
	}
}

// group adds bins to the packing, equal ones together, in order of kind.
func (k *Packing) group(p *Problem, bins []open) {
	for n := range bins {
		slices.SortFunc(bins[n].shares, func(a, b Share) int { return cmp.Compare(a.Item, b.Item) })
	}
	compare := func(a, b open) int {
		return cmp.Or(
			cmp.Compare(a.bin, b.bin),
			slices.CompareFunc(a.shares, b.shares, func(x, y Share) int {
				return cmp.Or(cmp.Compare(x.Item, y.Item), -cmp.Compare(x.Count, y.Count))
			}),
		)
	}
	slices.SortStableFunc(bins, compare)
	for n := range bins {
		if n > 0 && compare(bins[n-1], bins[n]) == 0 {
			k.Loads[len(k.Loads)-1].Bins++
		} else {
			k.Loads = append(k.Loads, Load{Pattern{bins[n].bin, bins[n].shares}, 1})
		}
		k.Cost += p.Bins[bins[n].bin].Cost
	}
}

// share is the largest part of capacity that size takes in any dimension.
func share(size, capacity []int64) float64 {
	var s float64
	for d, want := range size {
		if want > 0 {
			s = max(s, float64(want)/max(float64(capacity[d]), 1))
		}
	}
	return s
}

// LargestFirst orders the items by dominant share, relative to the roomiest of the
// bins each may go into; ties by size, then name.
func (p *Problem) LargestFirst() []int {
	order := make([]int, len(p.Items))
	key := make([]float64, len(p.Items))
	for i, it := range p.Items {
		order[i] = i
		for t, ok := range it.Bins {
			if s := share(it.Size, p.Bins[t].Capacity); ok && (key[i] == 0 || s < key[i]) {
				key[i] = s
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(-cmp.Compare(key[a], key[b]), -slices.Compare(p.Items[a].Size, p.Items[b].Size), cmp.Compare(p.Items[a].Name, p.Items[b].Name))
	})
	return order
}
