package choice

import (
	"math"
	"sort"

	"github.com/mash2-io/mash2/api"
)

// Saturation is the share of what replicas can use from which on answers come late. By the
// service model that was fitted to measurements (docs/benchmarks/calibration.md) the 95th percentile
// of a pod whose CPU limit is 0.4 cores passes ten times what it is at rest at 0.83.
const Saturation = 0.85

// Item is one workload in the choice for one assignment.
type Item struct {
	Key api.Key
	// Place is the index of its pool among Terms.Places.
	Place int
	// Lo and Hi are the fewest and the most replicas.
	Lo, Hi int32
	// NodeMin is the replicas that nodes are planned for in any case.
	NodeMin int32
	// Load is the expected demand in fully used replicas of this pool, dᵢ/(rᵢ·s).
	Load float64
	// Tail is θ, of how demand grows; 0 where there are no margins that tell.
	Tail float64
	// Weight is aᵢ.
	Weight float64
	// Share of one node that a replica takes, by its dominant resource.
	Share float64
	// Shares of a node's CPU, memory and pod slots.
	Shares [3]float64
	// Stay is what the workload has now, where leaving it would have to pay by
	// more than a factor of Inertia; with 0 it may change freely.
	Stay    int32
	Inertia float64
	// Spot is where some of its replicas run instead; nil where all are on Place.
	Spot *Spot
	// LoBinding and HiBinding name what sets Lo and Hi.
	LoBinding, HiBinding api.Binding
}

// Spot is the pool of spot machines that a workload may have replicas on.
type Spot struct {
	api.Spot
	// Place is the index of that pool among Terms.Places, and Share what a replica takes of
	// one of its nodes.
	Place int
	Share float64
	// Shares of its CPU, memory and pod slots.
	Shares [3]float64
}

// off is how many replicas are on Place.
func (it Item) off(replicas int32) int32 {
	if it.Spot == nil {
		return replicas
	}
	return it.Spot.Off(replicas)
}

// nodes of all places that an item's replicas are on.
func (it Item) nodes(of []int32) int32 {
	n := of[it.Place]
	if it.Spot != nil {
		n += of[it.Spot.Place]
	}
	return n
}

// price of one more replica by its share of nodes: of many, as many as may be are on spot
// machines.
func (t Terms) price(it Item) float64 {
	price := it.Share * t.Places[it.Place].Price
	if it.Spot != nil {
		price += it.Spot.MaxShare * (it.Spot.Share*t.Places[it.Spot.Place].Price - price)
	}
	return price
}

// Terms are the constants of the utility under one assignment.
type Terms struct {
	Weights api.Weights
	// Reference is what Cost is relative to, USD/h.
	Reference float64
	// Places are the pools in use; one without zones where there are no pools.
	Places []Place
}

// Place is what the utility knows of a pool.
type Place struct {
	Pool string
	// SpeedRatio is s/s_fastest.
	SpeedRatio float64
	// Price of a node, USD/h (1 where there are no pools).
	Price float64
	// Zones of the pool; 0 where there are no pools.
	Zones int32
}

// utility of replicas (parallel to items) on so many nodes of each place.
func (t Terms) utility(items []Item, replicas []int32, nodes []int32) api.Utility {
	var u api.Utility
	for i, it := range items {
		at := &t.Places[it.Place]
		u.Performance += it.Weight * at.SpeedRatio * it.responsiveness(1, replicas[i])
		u.Resilience += it.Weight * at.survival(replicas[i], it.nodes(nodes))
	}
	var paid float64
	for p := range t.Places {
		var pods float64
		for i, it := range items {
			off := it.off(replicas[i])
			if it.Place == p {
				pods += float64(off) * it.Share
			}
			if it.Spot != nil && it.Spot.Place == p {
				pods += float64(replicas[i]-off) * it.Spot.Share
			}
		}
		paid += (float64(nodes[p]) + pods) * t.Places[p].Price
	}
	u.Cost = paid / t.Reference
	if t.planned() {
		u.Cost /= 2
	}
	u.Total = t.Weights.Performance*u.Performance - t.Weights.Cost*u.Cost + t.Weights.Resilience*u.Resilience
	return u
}

// planned reports whether nodes are.
func (t Terms) planned() bool { return t.Places[0].Zones > 0 }

// responsiveness is the share of time that is served in time at so many times the demand,
// as the growth of demand in the past has it: at a utilisation ρ of what replicas can use
// before answers come late, demand that grows by g or more with probability ½·g^−θ
// saturates them in ½·ρ^θ of time. Where nothing is known of growth it is 1−ρ of requests.
func (it Item) responsiveness(demand float64, replicas int32) float64 {
	if replicas <= 0 {
		return 0
	}
	rho := demand * it.Load / float64(replicas)
	if it.Tail > 0 {
		return math.Max(0, 1-math.Pow(rho/Saturation, it.Tail)/2)
	}
	return math.Max(0, 1-rho)
}

// GrowthTail is θ, where demand grows by more than a factor, above 1, in a share 1 −
// objective of time, and at all in half of it.
func GrowthTail(factor, objective float64) float64 {
	return math.Log(0.5/(1-objective)) / math.Log(factor)
}

// survival is the mean share of replicas left after losing one of them, one of
// the nodes, one of the zones.
func (p Place) survival(replicas, nodes int32) float64 {
	left := func(parts int32) float64 {
		if parts <= 0 {
			return 0
		}
		return 1 - 1/float64(parts)
	}
	if p.Zones == 0 {
		return left(replicas)
	}
	return (left(replicas) + left(min(replicas, nodes)) + left(min(replicas, nodes, p.Zones))) / 3
}

// podPrice is what one more replica takes from U by its share of nodes, and
// nodePrice what it takes by asking for more of them, at a linear price.
func (t Terms) podPrice(it Item) float64 {
	p := t.Weights.Cost * t.price(it) / t.Reference
	if t.planned() {
		p /= 2
	}
	return p
}

func (t Terms) nodePrice(it Item) float64 {
	if !t.planned() {
		return 0
	}
	return t.podPrice(it)
}

// worth is an item's own part of U with so many times its demand, nodes aside, of which
// there are enough. From Saturation on it is concave in replicas.
func (t Terms) worth(it Item, demand float64, replicas int32) float64 {
	at := t.Places[it.Place]
	u := t.Weights.Performance*at.SpeedRatio*it.Weight*it.responsiveness(demand, replicas) - float64(replicas)*t.podPrice(it)
	if replicas > 0 {
		res := t.Weights.Resilience * it.Weight
		if t.planned() {
			res *= 2. / 3 // one replica and one node lost
		}
		u += res * (1 - 1/float64(replicas))
	}
	return u
}

// Best returns the replicas in [lo, hi] that maximise an item's own part of U
// when nodes cost nodeFactor (0–1) of their linear price, with demand scaled.
func (t Terms) Best(it Item, lo, hi int32, nodeFactor, demand float64) int32 {
	from := min(max(lo, Ceil(it.Load*demand), 1), hi)
	// Up to nodeMin the nodes are there anyway, above it each replica asks for
	// more: the price has a step there, so U stays concave.
	turning := func(from int32, price float64) int32 {
		return from + int32(sort.Search(int(max(hi-from, 0)), func(n int) bool {
			r := from + int32(n)
			return t.worth(it, demand, r+1)-t.worth(it, demand, r) <= price
		}))
	}
	r := turning(from, 0)
	if r > it.NodeMin {
		r = turning(min(max(it.NodeMin, from), hi), nodeFactor*t.nodePrice(it))
	}
	return min(max(r, lo), hi)
}

// Epsilon keeps what is whole up to rounding from being rounded up.
const Epsilon = 1e-9

// Ceil is the least whole number of replicas, or nodes, that is no less; 0 where there is no
// such number.
func Ceil(x float64) int32 {
	switch {
	case !(x > 0):
		return 0
	case x >= math.MaxInt32/4:
		return math.MaxInt32 / 4
	}
	return int32(math.Ceil(x - Epsilon))
}
