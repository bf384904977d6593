package node

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// report turns layouts into the plan.
func (v *view) report(whole Problem, ideal Packing, size, now *layout) api.NodePlan {
	plan := api.NodePlan{
		Solver:     ideal.Solver,
		Fallback:   cmp.Or(ideal.Fallback, size.packing.Fallback),
		Iterations: ideal.Iterations + size.packing.Iterations + size.attempts,
		Complete:   ideal.Complete && size.packing.Complete && !size.exhausted,
		Unplaced:   merge(size.unplaced),
	}
	var least float64 // what the pools' minima cost
	for p := range v.pools {
		at, pl := v.pools[p], size.pools[p]
		one := v.poolPlan(p, ideal, size, now)
		plan.Pools = append(plan.Pools, one)
		plan.HourlyCost += one.HourlyCost
		least += float64(min(at.least, pl.size)) * float64(len(at.zones)) * at.Price
	}
	if ideal.Cost > 0 {
		plan.Gap = max(0, ideal.Cost-ideal.LowerBound) / ideal.Cost
	}
	plan.LowerBound = min(max(ideal.LowerBound, least), plan.HourlyCost)
	plan.PackingEfficiency = v.efficiency(whole, ideal, plan)
	return plan
}

func (v *view) poolPlan(p int, ideal Packing, size, now *layout) api.PoolPlan {
	at, pl := v.pools[p], size.pools[p]
	zones := int32(len(at.zones))
	one := api.PoolPlan{
		Pool:        at.Name,
		SizePerZone: pl.size,
		Nodes:       pl.size * zones,
		Now:         min(now.pools[p].size, pl.size),
		Current:     at.Nodes(),
		Surplus:     pl.surplus,
		Unready:     v.unready[p],
	}
	for t, typ := range v.types {
		if typ.pool == p {
			one.Needed += ideal.Nodes(t)
		}
	}
	if at.Autoscaled {
		one.SizePerZone, one.Nodes = 0, at.Nodes()
		if len(at.Sizes) > 0 {
			one.SizePerZone = slices.Max(at.Sizes)
		}
		one.Now = one.SizePerZone
	}
	one.HourlyCost = float64(one.Nodes) * at.Price
	one.Needed = min(one.Needed, one.Nodes)
	one.Reason = v.why(p, one, pl)
	return one
}

// why says what decided a pool's size.
func (v *view) why(p int, one api.PoolPlan, pl poolLayout) string {
	at := v.pools[p]
	switch {
	case at.Autoscaled:
		return cmp.Or(at.AutoscaledBy, "the provider") + " resizes this pool"
	case pl.size == at.most && pl.fresh > 0:
		return fmt.Sprintf("at its maximum of %d per zone", at.most)
	case pl.fresh > 0:
		return fmt.Sprintf("%s more than there are, for pods without room; packed anew, all pods need %d", nodes(pl.fresh), one.Needed)
	case pl.size == at.least && !at.target && at.Nodes() > one.Nodes:
		return "the policy's pools don't include it: its nodes go once their pods have moved"
	case pl.size == at.least:
		return "at its minimum"
	case len(pl.surplus) > 0 && !at.target:
		return "being left; the nodes that remain have pods that can't leave them"
	case len(pl.surplus) > 0:
		return fmt.Sprintf("%s can be emptied; packed anew, all pods need %d", nodes(len(pl.surplus)), one.Needed)
	case one.Needed < one.Nodes:
		return fmt.Sprintf("no node in each zone can be emptied; packed anew, all pods need %d", one.Needed)
	}
	return "all nodes are needed"
}

// nodes is a number of them: "1 node", "2 nodes".
func nodes[N int | int32](n N) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// efficiency is what the pods placed on the policy's pools request, over what
// the planned nodes of these pools offer besides DaemonSets, in the resource
// where that is largest.
func (v *view) efficiency(whole Problem, ideal Packing, plan api.NodePlan) float64 {
	var used, offered api.Resources
	for i, it := range whole.Items {
		if len(it.Types) > 0 && v.pools[v.types[it.Types[0]].pool].target {
			used = used.Plus(it.Requests.Times(int64(it.Count - ideal.Unplaced[i])))
		}
	}
	for p, at := range v.pools {
		if at.target {
			offered = offered.Plus(at.Allocatable.Minus(at.Overhead).Times(int64(plan.Pools[p].Nodes)))
		}
	}
	return min(used.DominantShare(offered), 1)
}

// merge adds up what has one name and reason, and sorts it by name.
func merge(list []api.Unplaced) []api.Unplaced {
	var out []api.Unplaced
	for _, u := range list {
		i := slices.IndexFunc(out, func(o api.Unplaced) bool { return o.Name == u.Name && o.Reason == u.Reason })
		if i < 0 {
			out = append(out, u)
			continue
		}
		out[i].Count += u.Count
	}
	slices.SortFunc(out, func(a, b api.Unplaced) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}
