package planning

import (
	"math"

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
		u.Performance += it.weight * at.speedRatio * responsiveness(it.load, replicas[i])
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

// responsiveness is max(0, 1−ρ).
func responsiveness(load float64, replicas int32) float64 {
	if replicas <= 0 {
		return 0
	}
	return math.Max(0, 1-load/float64(replicas))
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

// gain is K in the marginal gain K/(R·(R+1)) of one more replica than R ≥ load.
func (t terms) gain(it item, load float64) float64 {
	k := t.weights.Performance * t.places[it.place].speedRatio * it.weight * load
	res := t.weights.Resilience * it.weight
	if t.planned() {
		res *= 2. / 3 // one replica and one node lost, of enough nodes
	}
	return k + res
}

// best returns the replicas in [lo, hi] that maximise an item's own part of U
// when nodes cost nodeFactor (0–1) of their linear price, with demand scaled.
func (t terms) best(it item, lo, hi int32, nodeFactor, demand float64) int32 {
	k := t.gain(it, it.load*demand)
	pod := t.podPrice(it)
	// Up to nodeMin the nodes are there anyway, above it each replica asks for
	// more: the price has a step there, so U stays concave.
	r := turning(k, pod)
	if r > it.nodeMin {
		r = max(it.nodeMin, turning(k, pod+nodeFactor*t.nodePrice(it)))
	}
	return min(max(r, lo), hi)
}

// turning is the least R whose next replica gains no more than its price:
// K/(R·(R+1)) ≤ price.
func turning(k, price float64) int32 {
	switch {
	case k <= 0:
		return 0
	case price <= 0:
		return math.MaxInt32 / 4
	}
	return ceil((math.Sqrt(1+4*k/price) - 1) / 2)
}
