package planning

import (
	"math"
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/choice"
)

// poolCost is what half-used replicas of the workloads would cost on a pool, USD/h.
type poolCost struct {
	pool *api.Pool // nil where nodes are not planned
	cost float64
}

// reference is what costs are relative to: those of the dearest pool, of the
// workloads that count and, unless it is negative, of one that is only shown.
func (c *cycle) reference(k *candidate, shown int) float64 {
	var reference float64
	for _, p := range k.costs {
		cost := p.cost
		if shown >= 0 {
			cost += c.halfUsed(k, shown, p.pool)
		}
		if p.pool != nil {
			cost = math.Max(cost, float64(max(1, len(p.pool.Zones)))*p.pool.Price)
		}
		reference = math.Max(reference, cost)
	}
	if !(reference > 0) {
		return 1 // everything is free
	}
	return reference
}

// halfUsed is what a workload would cost on a pool with replicas that are used by
// half, USD/h. What a minimum says of a workload that isn't acted on counts as far
// as it has pods.
func (c *cycle) halfUsed(k *candidate, i int, pool *api.Pool) float64 {
	mw := &c.managed[i]
	_, share := shares(mw, pool)
	speed, price := k.speed[i], 1.0
	if pool != nil {
		speed, price = c.speed(mw, pool), pool.Price
	}
	least := mw.workload.MinReplicas
	if k.ranges[i].Hold != "" {
		least = min(least, mw.live())
	}
	half := float64(least)
	if sup := supply(k.proposals[i], speed); sup > 0 {
		_, peak := expected(k.subjects[i])
		half = math.Max(half, 2*peak/sup)
	}
	return math.Max(half, 1) * share * price
}

// terms of the utility under a candidate's assignment.
func (c *cycle) terms(k *candidate) choice.Terms {
	t := choice.Terms{Weights: c.p.Weights}
	fastest := 0.0
	consider := func(pool *api.Pool) {
		var cost float64
		for i := range c.managed {
			if k.steered[i] || c.managed[i].waits() {
				cost += c.halfUsed(k, i, pool)
			}
		}
		if pool != nil {
			fastest = math.Max(fastest, positive(pool.CPUSpeed))
		}
		k.costs = append(k.costs, poolCost{pool, cost})
	}
	if len(k.to.pools) == 0 {
		consider(nil)
		t.Places = []choice.Place{{SpeedRatio: 1, Price: 1}}
	} else {
		for i := range c.s.Pools {
			pool := &c.s.Pools[i]
			if slices.Contains(c.p.ManagedPools, pool.Name) || slices.Contains(c.p.NodePools, pool.Name) {
				consider(pool)
			}
		}
	}
	for _, pool := range k.to.pools {
		t.Places = append(t.Places, choice.Place{
			SpeedRatio: positive(pool.CPUSpeed) / fastest, Price: pool.Price, Zones: int32(max(1, len(pool.Zones))), Pool: pool.Name,
		})
	}
	t.Reference = c.reference(k, -1)
	return t
}
