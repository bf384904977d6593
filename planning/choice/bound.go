package choice

import (
	"math"
	"slices"
)

// fewest is a lower bound on the nodes of a place that a vector needs: what its
// resources add up to, one by one, rounded to zones, and no fewer than a vector took
// that asks for no more of anything. What may run on spot machines need not.
func (s *search) fewest(replicas []int32, at int) int32 {
	var sums [len(Item{}.Shares)]float64
	for i, it := range s.Items {
		if it.Place != at {
			continue
		}
		for r, share := range it.Shares {
			sums[r] += float64(it.off(max(replicas[i], it.NodeMin))) * share
		}
	}
	n, zones := Ceil(slices.Max(sums[:])), s.Places[at].Zones
	n = (n + zones - 1) / zones * zones
	if slices.ContainsFunc(s.Items, func(it Item) bool { return it.Spot != nil }) {
		return n // more pods may be on fewer nodes of one pool, and more of another
	}
	for _, k := range s.packed {
		if k.nodes[at] > n && noMore(k.replicas, replicas) {
			n = k.nodes[at]
		}
	}
	return n
}

// noMore reports whether a vector asks for no more of anything than another.
func noMore(a, b []int32) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

// hope is an upper bound on the total utility of a vector: as if it needed the
// fewest nodes and were as resilient as on many.
func (s *search) hope(replicas []int32) float64 {
	total := -s.leastCost(replicas)
	for i := range s.Items {
		total += s.part(i, replicas[i])
	}
	return total
}

// ceiling is an upper bound on hope, and quicker: as if all were served in time and nothing
// could be lost. More of anything can't raise it.
func (s *search) ceiling(replicas []int32) float64 {
	total := -s.leastCost(replicas)
	for i, it := range s.Items {
		total += it.Weight*(s.Weights.Performance*s.Places[it.Place].SpeedRatio+s.Weights.Resilience) - float64(replicas[i])*s.podPrice(it)
	}
	return total
}

// leastCost is what the fewest nodes for a vector take from U.
func (s *search) leastCost(replicas []int32) (sum float64) {
	if !s.planned() {
		return 0
	}
	for p := range s.Places {
		sum += s.nodeCost(p, s.fewest(replicas, p))
	}
	if slices.ContainsFunc(s.Items, func(it Item) bool { return it.Spot != nil }) {
		sum = math.Max(sum, s.leastMixed(replicas))
	}
	return sum
}

// leastMixed is the same where some pods may run on two places: what their resources cost,
// one by one, on the cheaper one, and no less than the nodes cost that a vector took which
// asks for no more of anything.
func (s *search) leastMixed(replicas []int32) float64 {
	var sums [len(Item{}.Shares)]float64
	for i, it := range s.Items {
		n := max(replicas[i], it.NodeMin)
		off := it.off(n)
		for r, share := range it.Shares {
			each := share * s.Places[it.Place].Price
			sums[r] += float64(off) * each
			if it.Spot != nil {
				each = math.Min(each, it.Spot.Shares[r]*s.Places[it.Spot.Place].Price)
			}
			sums[r] += float64(n-off) * each
		}
	}
	least := s.Weights.Cost * slices.Max(sums[:]) / s.Reference / 2
	for _, k := range s.packed {
		if noMore(k.replicas, replicas) {
			cost := 0.0
			for p, n := range k.nodes {
				cost += s.nodeCost(p, n)
			}
			least = math.Max(least, cost)
		}
	}
	return least
}

// nodeCost is what nodes of a place take from U.
func (s *search) nodeCost(at int, nodes int32) float64 {
	return s.Weights.Cost * float64(nodes) * s.Places[at].Price / s.Reference / 2
}

// ownNode is what a round of nodes takes from U that would hold one replica alone.
func (s *search) ownNode(it Item) float64 {
	if !s.planned() {
		return 0
	}
	cost := s.nodeCost(it.Place, s.Places[it.Place].Zones)
	if it.Spot != nil {
		cost = max(cost, s.nodeCost(it.Spot.Place, s.Places[it.Spot.Place].Zones))
	}
	return cost
}

// part is the most that one item can contribute to U, nodes aside.
func (s *search) part(i int, replicas int32) float64 { return s.partOn(i, replicas, math.MaxInt32) }

// partOn is the same on so many nodes.
func (s *search) partOn(i int, replicas, nodes int32) float64 {
	it := s.Items[i]
	at := &s.Places[it.Place]
	return s.Weights.Performance*it.Weight*at.SpeedRatio*it.responsiveness(1, replicas) +
		s.Weights.Resilience*it.Weight*at.survival(replicas, nodes) -
		float64(replicas)*s.podPrice(it)
}
