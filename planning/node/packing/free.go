package packing

import "slices"

// Free is the free space of bins in their order. It finds the next bin with room for an
// item in about log(bins) steps, where asking them one by one takes as many as there are:
// what makes First Fit affordable at thousands of bins (Johnson 1973, who keeps the same
// tournament for one dimension; here a branch has the largest of each dimension).
type Free struct {
	dims, bins int
	leaves     int     // a power of two
	most       []int64 // of branch b (1 is the root, its own are 2b and 2b+1) from b·dims
	// fresh is the first bin that the branches above it don't know of yet: many are added
	// before the next one is looked for.
	fresh int
	// Visited counts the branches that were looked at.
	Visited int64
}

// NewFree is for bins whose vectors have that many dimensions.
func NewFree(dims int) *Free { return &Free{dims: dims} }

// Add appends a bin.
func (f *Free) Add(free []int64) {
	if f.bins == f.leaves {
		f.widen()
	}
	copy(f.branch(f.leaves+f.bins), free)
	f.bins++
}

// widen doubles the leaves.
func (f *Free) widen() {
	old, had := f.most, f.leaves
	f.leaves = max(1, 2*had)
	f.most = make([]int64, 2*f.leaves*f.dims)
	copy(f.most[f.leaves*f.dims:], old[had*f.dims:])
	f.fresh = 0
}

// settleFresh tells the branches of the bins that were added.
func (f *Free) settleFresh() {
	if f.fresh == f.bins {
		return
	}
	for from, to := (f.leaves+f.fresh)/2, (f.leaves+f.bins-1)/2; from > 0; from, to = from/2, to/2 {
		for b := from; b <= to; b++ {
			f.settle(b)
		}
	}
	f.fresh = f.bins
}

func (f *Free) branch(b int) []int64 { return f.most[b*f.dims:][:f.dims] }

// settle sets a branch by the two below it, and reports whether that changed it.
func (f *Free) settle(b int) bool {
	changed := false
	at, left, right := f.branch(b), f.branch(2*b), f.branch(2*b+1)
	for d := range at {
		if most := max(left[d], right[d]); at[d] != most {
			at[d], changed = most, true
		}
	}
	return changed
}

// Set says what is free in bin i now.
func (f *Free) Set(i int, free []int64) {
	b := f.leaves + i
	if slices.Equal(f.branch(b), free) {
		return
	}
	copy(f.branch(b), free)
	if i >= f.fresh {
		return
	}
	for b /= 2; b > 0 && f.settle(b); b /= 2 {
	}
}

// Next is the first bin from a place on that has room for one item of that size, or −1.
// What an item does not ask for (0 or less) needs no room.
func (f *Free) Next(from int, size []int64) int {
	if from >= f.bins {
		return -1
	}
	f.settleFresh()
	// Up from the leaf to where something to the right may have room, then down.
	b := f.leaves + from
	for {
		if f.holds(b, size) {
			for b < f.leaves {
				b *= 2
				if !f.holds(b, size) {
					b++ // if it hasn't either, the search goes on from there
					if !f.holds(b, size) {
						break
					}
				}
			}
			if b >= f.leaves && f.holds(b, size) {
				if i := b - f.leaves; i < f.bins {
					return i
				}
				return -1
			}
		}
		for b&1 == 1 { // a right one: nothing is beside it
			if b >>= 1; b <= 1 {
				return -1
			}
		}
		b++
	}
}

// holds tells whether no dimension rules out that a bin below a branch has room.
func (f *Free) holds(b int, size []int64) bool {
	f.Visited++
	at := f.branch(b)
	for d, want := range size {
		if want > 0 && at[d] < want {
			return false
		}
	}
	return true
}
