package packing

import (
	"math"
	"slices"
)

// Unlimited is the Max of a Bin without a bound.
const Unlimited int32 = -1

// Problem is a packing problem in counts and vectors; all sizes and capacities
// have the same number of dimensions.
type Problem struct {
	Items []Item
	Bins  []Bin

	// room is, per dimension, what items of negative size make in one bin at most; nil
	// when there are none.
	room []int64
}

// Item is a number of equal things to pack.
type Item struct {
	Name  string  // breaks ties, so that the order of items does not matter
	Size  []int64 // where it is negative the item makes room for others
	Count int32
	// PerBin and PerZone bound the copies in one bin and in all bins of one
	// zone; 0 is unbounded.
	PerBin, PerZone int32
	// Bins tells per bin whether it may hold the item: one copy must fit.
	Bins []bool
}

// Bin is a kind of bin.
type Bin struct {
	Capacity []int64
	Cost     float64
	Max      int32 // how many there may be; Unlimited for no bound
	Zone     int   // that PerZone is about; −1 for none
}

// Share is a number of copies of one item in one bin.
type Share struct {
	Item  int
	Count int32
}

// Pattern is what one bin holds, in order of item.
type Pattern struct {
	Bin    int
	Shares []Share
}

// Load is a number of bins with the same pattern.
type Load struct {
	Pattern
	Bins int32
}

// Packing is a solution.
type Packing struct {
	Loads    []Load
	Unplaced []int32 // per item
	Cost     float64
	// Bound is proven: no packing that leaves over as little of each item, or
	// less, costs less.
	Bound float64
	// Work done, in elementary steps of about a nanosecond, and whether the
	// search came to its end: false when the budget ended it.
	Work     int64
	Complete bool
	// Patterns are the columns worth keeping for a similar problem, beside those of
	// Loads, and Worth what one copy of each item is worth under the duals of the
	// bound.
	Patterns []Pattern
	Worth    []float64
}

// left is how many pods are left over.
func (k *Packing) left() (n int64) {
	for _, u := range k.Unplaced {
		n += int64(u)
	}
	return n
}

// better compares packings: fewer left over, then lower cost.
func better(a, b *Packing) bool {
	if x, y := a.left(), b.left(); x != y {
		return x < y
	}
	return a.Cost < b.Cost-1e-12*math.Abs(b.Cost)
}

// withRoom is p with the room that its items make.
func (p *Problem) withRoom() *Problem {
	out := &Problem{Items: p.Items, Bins: p.Bins}
	for _, it := range p.Items {
		for d, v := range it.Size {
			if v >= 0 {
				continue
			}
			if out.room == nil {
				out.room = make([]int64, len(it.Size))
			}
			out.room[d] -= v * int64(it.Count)
		}
	}
	return out
}

// fits is how many copies of an item bin t holds, at most its count; with others that
// make room for it, if there are such.
func (p *Problem) fits(i, t int) int32 {
	it := &p.Items[i]
	if !it.Bins[t] {
		return 0
	}
	capacity := p.Bins[t].Capacity
	if p.room != nil {
		capacity = slices.Clone(capacity)
		take(capacity, p.room, -1)
	}
	n := min(copies(it.Size, capacity), int64(it.Count))
	if it.PerBin > 0 {
		n = min(n, int64(it.PerBin))
	}
	if it.PerZone > 0 && p.Bins[t].Zone >= 0 {
		n = min(n, int64(it.PerZone))
	}
	return int32(n)
}

// copies is how many times size fits into free; math.MaxInt64 when it asks for
// nothing. What is not asked for may be negative.
func copies(size, free []int64) int64 {
	n := int64(math.MaxInt64)
	for d, want := range size {
		switch {
		case want <= 0:
		case free[d] < want:
			return 0
		default:
			n = min(n, free[d]/want)
		}
	}
	return n
}

// unit is the largest amount that the costs of all bins in question are whole
// multiples of, so that costs of packings are too; 0 when there is none worth the
// name.
func (p *Problem) unit() float64 {
	const grain = 1e-6
	var bins []Bin
	for t, b := range p.Bins {
		for i := range p.Items {
			if p.fits(i, t) > 0 {
				bins = append(bins, b)
				break
			}
		}
	}
	var g int64
	for _, b := range bins {
		n := int64(math.Round(b.Cost / grain))
		if math.Abs(float64(n)*grain-b.Cost) > 1e-12 {
			// Not a decimal: equal costs still have a unit.
			for _, other := range bins {
				if other.Cost != b.Cost {
					return 0
				}
			}
			return b.Cost
		}
		g = gcd(g, n)
	}
	return float64(g) * grain
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// roundUp raises a bound to the next multiple of a unit.
func roundUp(bound, unit float64) float64 {
	if unit <= 0 {
		return bound
	}
	// The sums behind a bound are exact to about 1e-9: forgive that much.
	n := math.Ceil(bound/unit*(1-1e-9) - 1e-7)
	return max(bound, n*unit)
}
