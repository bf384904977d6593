// Package bound has a lower bound on what the nodes of a day cost, for anybody who
// keeps the SLO and knows the demand: whole machines, minute by minute, and boots. It
// shares nothing with the planners, so that a flaw of theirs can't hide in it.
//
// With nⱼ nodes of machine type j, of price p and capacity κ, minute t needs
//
//	Σ κⱼ·nⱼ(t) ≥ D(t),  n whole,
//
// so that what is paid per hour, x(t) = Σ pⱼ·nⱼ(t), is at least the cheapest cover c(t)
// of the demand by whole machines. Machines whose prices add up to every rise of x must
// be started, and each is paid for the boot before it serves and while it stops. The
// least ∫x dt + boot·(rises of x) over all x ≥ c is a bound, and found exactly.
//
// Bounds on the sizes of pools are left out: they only make it dearer.
package bound

import (
	"math"
	"slices"
	"time"
)

// Machine is a type of nodes.
type Machine struct {
	Price    float64 // USD per hour, above 0
	Capacity float64 // in the unit of the demand, above 0
	Pods     int64   // the most that it holds, above 0
}

// Cover is the least price per hour of whole machines that have the capacity for the
// demand and hold so many pods. Of no machines it is infinite.
//
// It goes through the numbers of all types but the one with the cheapest capacity,
// which takes the rest. Of another type at most about κ(cheapest)/gcd nodes are of
// use besides those that hold the pods, for more could be swapped; a few hundred are
// tried, which is exact for capacities in multiples of a hundredth of each other.
func Cover(machines []Machine, demand float64, pods int64) float64 {
	if len(machines) == 0 {
		return math.Inf(1)
	}
	all := slices.Clone(machines)
	slices.SortFunc(all, func(a, b Machine) int {
		switch x, y := a.Price/a.Capacity, b.Price/b.Capacity; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	best := math.Inf(1)
	var try func(rest []Machine, demand float64, pods int64, paid float64)
	try = func(rest []Machine, demand float64, pods int64, paid float64) {
		m := rest[0]
		holding := max(0, (pods+m.Pods-1)/m.Pods)
		most := max(holding, int64(math.Ceil(demand/m.Capacity-1e-9)))
		if len(rest) == 1 {
			best = min(best, paid+float64(most)*m.Price)
			return
		}
		for n := int64(0); n <= min(most, holding+300) && paid < best; n++ {
			try(rest[1:], demand-float64(n)*m.Capacity, pods-n*m.Pods, paid)
			paid += m.Price
		}
	}
	try(all, demand, pods, 0)
	return best
}

// Cheapest is the least ∫x dt + paid·(rises of x) over all x ≥ needs, in the unit of
// needs × hours; a rise at the beginning is free. paid is how long a machine is paid
// for before and after it serves.
//
// It is a sum over layers: between two neighbouring values of needs, what is needed
// in several stretches is kept in a gap between them where that costs no more than
// coming anew.
func Cheapest(needs []float64, step, paid time.Duration) float64 {
	levels := slices.Clone(needs)
	slices.Sort(levels)
	levels = slices.Compact(levels)
	again := float64(paid) / float64(step) // in steps
	below, total := 0.0, 0.0
	for _, level := range levels {
		if level <= below {
			continue
		}
		steps, last := 0.0, -1
		for i, n := range needs {
			if n < level {
				continue
			}
			switch {
			case last >= 0:
				steps += min(float64(i-last-1), again)
			case i > 0: // there from the beginning, idle, or come since
				steps += min(float64(i), again)
			}
			steps, last = steps+1, i
		}
		total += steps * (level - below)
		below = level
	}
	return total * step.Hours()
}
