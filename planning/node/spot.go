package node

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// A workload of which some replicas are to run off spot machines is two items: those that
// may not run on spot machines, and those that may run on any. On what the second ones
// run is what the packing decides by price, so that they go elsewhere where there are no
// spot machines to be had. Which pod is of which item is decided anew for each layout:
// pods off spot machines count as kept off them, as many as there are to be.

// keepOff gives an item of a demand the item of those of its pods that are kept off spot
// machines.
func (v *view) keepOff(d api.NodeDemand, item int, shape *api.PodShape) {
	if d.Spot == nil || v.items[item].off >= 0 || v.items[item].zone != "" || v.items[item].bound != nil {
		return
	}
	var pools []string
	for _, p := range v.pools {
		if p.target && !p.Spot && (len(d.Pools) == 0 || slices.Contains(d.Pools, p.Name)) {
			pools = append(pools, p.Name)
		}
	}
	if len(pools) == 0 {
		return
	}
	off := v.item(shape, d.Key, api.WorkloadRef(d.Key), "", nil, pools)
	if off == item {
		return // there is no spot pool among them
	}
	v.items[off].copy = v.items[item].copy
	v.items[item].off = off
}

// split reports whether a workload is two items. One whose volumes or spread bind it to
// zones is one.
func (w workload) split(v *view) bool {
	return w.demand.Spot != nil && w.item >= 0 && v.items[w.item].off >= 0 && len(w.spread) == 0 && len(w.bound) == 0
}

// settleSpot says which pods of a workload of two items, on these nodes, stay where they are, lets the
// others leave, and adds what is missing of each item. Those beyond what is wanted off
// spot machines leave too: they count as missing on spot ones, so that these are there
// before the machines that they are on can be given up.
func (l *layout) settleSpot(i int, want int32, nodes []*resident, missing map[int]int32) {
	v := l.view
	w := v.loads[i]
	off := w.demand.Spot.Off(want)
	on := want - off
	order := slices.Clone(nodes)
	slices.SortFunc(order, mostWorth) // what stays is on nodes that are given up last
	for _, r := range order {
		left := &off
		if r.barred {
			none := int32(0)
			left = &none
		} else if v.pools[r.pool].Spot {
			left = &on
		}
		kept := r.pods[:0]
		for _, t := range r.pods {
			switch {
			case t.workload != i:
			case *left == 0:
				take(r.free, v.items[t.item].requests, -1)
				continue
			default:
				*left--
				if o := v.items[t.item].off; left == &off && o >= 0 {
					t.item = o
				}
			}
			kept = append(kept, t)
		}
		r.pods = kept
	}
	base := v.items[w.item].off
	for it, n := range map[int]int32{base: off, w.item: on} {
		switch {
		case n == 0:
		case len(v.items[it].types) > 0:
			missing[it] += n
		default:
			l.leave(it, n, v.items[it].refused)
		}
	}
}

// bar keeps pods off the nodes that a pool has beyond its bounds, where some may go to
// another pool instead.
func (l *layout) bar() {
	if !slices.ContainsFunc(l.view.loads, func(w workload) bool { return w.split(l.view) }) {
		return
	}
	type place struct{ pool, zone int }
	kept := map[place]int32{}
	order := slices.Clone(l.nodes)
	slices.SortFunc(order, mostWorth)
	for _, r := range order {
		at := place{r.pool, r.zone}
		if kept[at]++; l.view.pools[r.pool].most != Unlimited && kept[at] > l.view.pools[r.pool].most {
			r.barred, r.usable, r.ready = true, false, false
		}
	}
}

// inOrder has what must be off spot machines placed before what may be on either, so
// that this doesn't take the room of that.
func (l *layout) inOrder(sorted []int, items []int) []int {
	slices.SortStableFunc(sorted, func(a, b int) int {
		return compareBool(l.view.items[items[a]].off < 0, l.view.items[items[b]].off < 0) * -1
	})
	return sorted
}

// typesFor are those that so many pods of an item may go onto: of those that may run on spot
// machines and elsewhere only the spot ones, where these can hold all and are no dearer. Then
// what has nothing in common is packed apart; see inParts.
func (v *view) typesFor(item int, count int32, most func(pool, zone int) int32) []int {
	it := &v.items[item]
	if it.off < 0 {
		return append([]int{}, it.types...)
	}
	var spot []int
	room, dearest, cheapest := int64(0), 0.0, math.Inf(1)
	for _, t := range it.types {
		at, typ := v.pools[v.types[t].pool], v.types[t]
		each := copies(it.requests, typ.capacity)
		price := at.Price / float64(each)
		if !at.Spot {
			cheapest = math.Min(cheapest, price)
			continue
		}
		spot, dearest = append(spot, t), math.Max(dearest, price)
		if n := most(typ.pool, typ.zone); n == Unlimited {
			room = math.MaxInt32
		} else {
			room += int64(n) * each
		}
	}
	// Nodes of two pools hold items of others too: nobody knows better than the packing.
	if len(spot) == 0 || room < int64(count) || dearest > cheapest {
		return append([]int{}, it.types...)
	}
	return spot
}

// inParts solves a problem part by part where items have no types in common.
func inParts(p Problem, solve solveFunc) (Packing, error) {
	// Types that one item may run on are of one part: a forest over the types.
	above := make([]int, len(p.Types))
	for t := range above {
		above[t] = t
	}
	root := func(t int) int {
		for above[t] != t {
			above[t] = above[above[t]]
			t = above[t]
		}
		return t
	}
	for i := range p.Items {
		if p.Items[i].Types == nil {
			return solve(p) // it may run on all of them
		}
		for _, t := range p.Items[i].Types {
			above[root(t)] = root(p.Items[i].Types[0])
		}
	}
	const nowhere = -1 // the part of items that may run on none
	of := map[int][]int{}
	for i := range p.Items {
		part := nowhere
		if types := p.Items[i].Types; len(types) > 0 {
			part = root(types[0])
		}
		of[part] = append(of[part], i)
	}
	if len(of) < 2 {
		return solve(p)
	}
	whole := Packing{Unplaced: make([]int32, len(p.Items)), Optimal: true, Complete: true}
	for _, one := range slices.Sorted(maps.Keys(of)) {
		items := of[one]
		var sub Problem
		var types []int
		for t := range p.Types {
			if one != nowhere && root(t) == one {
				types, sub.Types = append(types, t), append(sub.Types, p.Types[t])
			}
		}
		for _, i := range items {
			it := p.Items[i]
			own := make([]int, len(it.Types))
			for n, t := range it.Types {
				own[n] = slices.Index(types, t)
			}
			it.Types = own
			sub.Items = append(sub.Items, it)
		}
		k, err := solve(sub)
		if err != nil {
			return Packing{}, err
		}
		for _, l := range k.Loads {
			load := Load{Type: types[l.Type], Nodes: l.Nodes}
			for _, s := range l.Pods {
				load.Pods = append(load.Pods, Share{Item: items[s.Item], Count: s.Count})
			}
			whole.Loads = append(whole.Loads, load)
		}
		for n, i := range items {
			whole.Unplaced[i] = k.Unplaced[n]
		}
		whole.Cost, whole.LowerBound, whole.Iterations = whole.Cost+k.Cost, whole.LowerBound+k.LowerBound, whole.Iterations+k.Iterations
		whole.Optimal, whole.Complete = whole.Optimal && k.Optimal, whole.Complete && k.Complete
		whole.Fallback = cmp.Or(whole.Fallback, k.Fallback)
		if whole.Solver == "" || k.Solver == columnsName {
			whole.Solver = k.Solver
		}
	}
	return whole, nil
}
