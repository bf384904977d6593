package planning

import (
	"math"
	"sort"

	"github.com/mash2-io/mash2/api"
)

// item is one workload in the choice for one assignment.
type item struct {
	key api.Key
	// place is the index of its pool among terms.places.
	place  int
	lo, hi int32
	// nodeMin is the replicas that nodes are planned for in any case.
	nodeMin int32
	// load is the expected demand in fully used replicas of this pool, dᵢ/(rᵢ·s).
	load float64
	// tail is θ, of how demand grows; 0 where there are no margins that tell.
	tail float64
	// weight is aᵢ.
	weight float64
	// share of one node that a replica takes, by its dominant resource.
	share float64
	// shares of a node's CPU, memory and pod slots.
	shares [3]float64
	// stay is what the workload has now, where leaving it would have to pay by
	// more than a factor of inertia; with inertia 0 it may change freely.
	stay    int32
	inertia float64
	// loBinding and hiBinding name what sets lo and hi.
	loBinding, hiBinding api.Binding
}

// terms are the constants of the utility under one assignment.
type terms struct {
	weights api.Weights
	// reference is what Cost is relative to, USD/h.
	reference float64
	// places are the pools in use; one without zones where there are no pools.
	places []place
}

// place is what the utility knows of a pool.
type place struct {
	pool string
	// speedRatio is s/s_fastest.
	speedRatio float64
	// price of a node, USD/h (1 where there are no pools).
	price float64
	// zones of the pool; 0 where there are no pools.
	zones int32
}

// utility of replicas (parallel to items) on so many nodes of each place.
func (t terms) utility(items []item, replicas []int32, nodes []int32) api.Utility {
	var u api.Utility
	for i, it := range items {
		at := &t.places[it.place]
		u.Performance += it.weight * at.speedRatio * it.responsiveness(1, replicas[i])
		u.Resilience += it.weight * at.survival(replicas[i], nodes[it.place])
	}
	var paid float64
	for p := range t.places {
		var pods float64
		for i, it := range items {
			if it.place == p {
				pods += float64(replicas[i]) * it.share
			}
		}
		paid += (float64(nodes[p]) + pods) * t.places[p].price
	}
	u.Cost = paid / t.reference
	if t.planned() {
		u.Cost /= 2
	}
	u.Total = t.weights.Performance*u.Performance - t.weights.Cost*u.Cost + t.weights.Resilience*u.Resilience
	return u
}

// planned reports whether nodes are.
func (t terms) planned() bool { return t.places[0].zones > 0 }

// responsiveness is the share of time that is served in time at so many times the demand,
// as the growth of demand in the past has it: at a utilisation ρ of what replicas can use
// before answers come late, demand that grows by g or more with probability ½·g^−θ
// saturates them in ½·ρ^θ of time. Where nothing is known of growth it is 1−ρ of requests.
func (it item) responsiveness(demand float64, replicas int32) float64 {
	if replicas <= 0 {
		return 0
	}
	rho := demand * it.load / float64(replicas)
	if it.tail > 0 {
		return math.Max(0, 1-math.Pow(rho/Saturation, it.tail)/2)
	}
	return math.Max(0, 1-rho)
}

// growthTail is θ: margins say that demand grows by more than a factor in a share 1 −
// objective of time, and by more than it is in half of it.
func growthTail(factor, objective float64) float64 {
	return math.Log(0.5/(1-objective)) / math.Log(math.Max(factor, leastMargin))
}

// survival is the mean share of replicas left after losing one of them, one of
// the nodes, one of the zones.
func (p place) survival(replicas, nodes int32) float64 {
	left := func(parts int32) float64 {
		if parts <= 0 {
			return 0
		}
		return 1 - 1/float64(parts)
	}
	if p.zones == 0 {
		return left(replicas)
	}
	return (left(replicas) + left(min(replicas, nodes)) + left(min(replicas, nodes, p.zones))) / 3
}

// podPrice is what one more replica takes from U by its share of nodes, and
// nodePrice what it takes by asking for more of them, at a linear price.
func (t terms) podPrice(it item) float64 {
	p := t.weights.Cost * it.share * t.places[it.place].price / t.reference
	if t.planned() {
		p /= 2
	}
	return p
}

func (t terms) nodePrice(it item) float64 {
	if !t.planned() {
		return 0
	}
	return t.podPrice(it)
}

// worth is an item's own part of U with so many times its demand, nodes aside, of which
// there are enough. From Saturation on it is concave in replicas.
func (t terms) worth(it item, demand float64, replicas int32) float64 {
	at := t.places[it.place]
	u := t.weights.Performance*at.speedRatio*it.weight*it.responsiveness(demand, replicas) - float64(replicas)*t.podPrice(it)
	if replicas > 0 {
		res := t.weights.Resilience * it.weight
		if t.planned() {
			res *= 2. / 3 // one replica and one node lost
		}
		u += res * (1 - 1/float64(replicas))
	}
	return u
}

// best returns the replicas in [lo, hi] that maximise an item's own part of U
// when nodes cost nodeFactor (0–1) of their linear price, with demand scaled.
func (t terms) best(it item, lo, hi int32, nodeFactor, demand float64) int32 {
	from := min(max(lo, ceil(it.load*demand), 1), hi)
	// Up to nodeMin the nodes are there anyway, above it each replica asks for
	// more: the price has a step there, so U stays concave.
	turning := func(from int32, price float64) int32 {
		return from + int32(sort.Search(int(max(hi-from, 0)), func(n int) bool {
			r := from + int32(n)
			return t.worth(it, demand, r+1)-t.worth(it, demand, r) <= price
		}))
	}
	r := turning(from, 0)
	if r > it.nodeMin {
		r = turning(min(max(it.nodeMin, from), hi), nodeFactor*t.nodePrice(it))
	}
	return min(max(r, lo), hi)
}
