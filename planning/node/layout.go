package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

// level is the replicas of a workload that a layout is made for.
type level func(workload) int32

// size is what nodes must be there for; now is what runs now.
func (v *view) size(w workload) int32 {
	return w.wanted(max(w.demand.NodeReplicas, w.demand.Replicas))
}

func (v *view) now(w workload) int32 { return w.wanted(w.demand.Replicas) }

// sameLevels tells whether both levels ask for the same.
func (v *view) sameLevels() bool {
	return !slices.ContainsFunc(v.loads, func(w workload) bool { return v.size(w) != v.now(w) })
}

// wanted turns planned replicas into pods that need a place in managed pools.
func (w workload) wanted(planned int32) int32 {
	if w.demand.Shadow {
		planned = w.replicas
	}
	if w.rolling {
		planned = max(planned, w.live) // the surge of a rollout needs room as well
	}
	return max(0, planned-w.elsewhere)
}

// all counts the pods to pack from scratch, by item.
func (v *view) all(of level) map[int]int32 {
	counts := maps.Clone(v.others)
	for _, w := range v.loads {
		free := of(w)
		if w.split(v) {
			off := w.demand.Spot.Off(free)
			counts[v.items[w.item].off] += off
			counts[w.item] += free - off
			continue
		}
		for _, i := range slices.Sorted(maps.Keys(w.bound)) {
			n := min(w.bound[i], free)
			counts[i], free = counts[i]+n, free-n
		}
		if len(w.spread) == 0 {
			counts[w.item] += free
			continue
		}
		add, _ := v.levelled(w, make([]int32, len(w.spread)), free)
		for z, i := range w.spread {
			counts[i] += add[z]
		}
	}
	for _, r := range v.nodes {
		for _, t := range r.pods {
			if t.workload < 0 {
				counts[t.item]++
			}
		}
	}
	maps.DeleteFunc(counts, func(i int, n int32) bool { return n <= 0 || len(v.items[i].types) == 0 })
	return counts
}

// problem states counts of items, by index, over all types with all their nodes.
func (v *view) problem(counts map[int]int32) Problem {
	return v.problemWithin(counts, func(p, zone int) int32 {
		at := v.pools[p]
		if at.most == Unlimited || zone >= 0 {
			return at.most
		}
		return at.most * int32(len(at.zones))
	})
}

// problemWithin is the same with a bound on the new nodes of each type. Items
// are in order of index.
func (v *view) problemWithin(counts map[int]int32, most func(pool, zone int) int32) Problem {
	p := Problem{Items: make([]Item, 0, len(counts))}
	for _, i := range slices.Sorted(maps.Keys(counts)) {
		it := v.items[i]
		name := it.name
		if it.zone != "" {
			name += " in " + it.zone
		}
		if it.bound != nil {
			name += " bound to " + strings.Join(it.bound, ", ")
		}
		p.Items = append(p.Items, Item{
			Name: name, Requests: it.shape.Requests, Count: counts[i],
			MaxPerNode: it.shape.MaxPerNode, Types: v.typesFor(i, counts[i], most),
		})
	}
	for _, t := range v.types {
		at := v.pools[t.pool]
		name := at.Name
		if t.zone >= 0 {
			name += "/" + at.zones[t.zone]
		}
		p.Types = append(p.Types, Type{
			Name: name, Capacity: at.Allocatable.Minus(at.Overhead), Price: at.Price, Max: most(t.pool, t.zone),
		})
	}
	return p
}

// layout is a placement of all pods, starting from the one that is.
type layout struct {
	view  *view
	nodes []*resident
	// hosts are the Ready nodes, those to be filled first first; queues are the
	// nodes of each pool and zone, those to be given up first first.
	hosts     []*resident
	queues    [][][]*resident
	free      *rooms       // of the hosts
	none      []int64      // of a host that is given up
	pools     []poolLayout // parallel to view.pools
	unplaced  []api.Unplaced
	packing   Packing       // of what goes onto new nodes
	packed    []int         // the items of it
	attempts  int           // nodes tried for removal
	exhausted bool          // the budget ended the search for nodes to remove
	apart     bool          // see begin
	left      map[int]int32 // pods that no node there is has room for, by item
}

type poolLayout struct {
	size    int32   // per zone
	kept    []int32 // nodes there are and stay, per zone
	fresh   int32   // nodes to add
	surplus []string
}

// begin places the pods of a level on the nodes there are: those that run where they are,
// new ones into free space. The rest is left for finish.
//
// With apart, what may run on spot machines goes into free space of these only.
func (v *view) begin(of level, apart bool) *layout {
	l := &layout{view: v, nodes: copied(v.nodes), pools: make([]poolLayout, len(v.pools)), apart: apart}
	l.bar()
	l.left = l.fill(l.settle(of))
	return l
}

// again is the same beginning once more.
func (l *layout) again() *layout {
	return &layout{
		view: l.view, nodes: copied(l.nodes), pools: make([]poolLayout, len(l.pools)), apart: l.apart,
		left: maps.Clone(l.left), unplaced: slices.Clone(l.unplaced),
	}
}

// finish places the rest on new nodes, and gives up nodes.
func (l *layout) finish(solve solveFunc, b api.Budget) error {
	l.rank()
	if err := l.grow(l.left, solve); err != nil {
		return err
	}
	for p := range l.pools {
		l.shrink(p, b)
	}
	return nil
}

// copied are nodes that a layout may change.
func copied(nodes []*resident) []*resident {
	out := make([]*resident, len(nodes))
	all := make([]resident, len(nodes))
	for i, r := range nodes {
		all[i] = *r
		all[i].free, all[i].pods = slices.Clone(r.free), slices.Clone(r.pods)
		out[i] = &all[i]
	}
	return out
}

// settle lets pods beyond the level leave and returns those without a place.
func (l *layout) settle(of level) map[int]int32 {
	v := l.view
	staying := make([]int32, len(v.loads))
	// Nodes by workload, of those workloads whose pods are looked at one by one.
	on, asked := make([][]*resident, len(v.loads)), make([]bool, len(v.loads))
	for i, w := range v.loads {
		asked[i] = len(w.spread) > 0 || w.split(v)
	}
	for _, r := range l.nodes {
		for _, t := range r.pods {
			if t.workload < 0 {
				continue
			}
			staying[t.workload]++
			if of := on[t.workload]; asked[t.workload] && (len(of) == 0 || of[len(of)-1] != r) {
				on[t.workload] = append(of, r)
			}
		}
	}
	missing := map[int]int32{}
	for it, n := range v.others {
		if len(v.items[it].types) > 0 {
			missing[it] = n
		} else {
			l.leave(it, n, v.items[it].refused)
		}
	}
	excess := make([]int32, len(v.loads))
	for i, w := range v.loads {
		want := of(w)
		if w.split(v) {
			l.settleSpot(i, want, on[i], missing)
			continue
		}
		lack := want - staying[i]
		for _, it := range slices.Sorted(maps.Keys(w.bound)) {
			n := max(0, min(w.bound[it], lack))
			lack -= n
			switch {
			case n == 0:
			case len(v.items[it].types) > 0:
				missing[it] += n
			case !v.welcomeOutside(it):
				l.leave(it, n, v.items[it].refused)
			}
		}
		switch {
		case want <= staying[i]:
			excess[i] = staying[i] - want
		case lack == 0:
		case len(w.spread) > 0:
			add, over := v.levelled(w, w.byZone(i, on[i]), lack)
			for z, it := range w.spread {
				missing[it] += add[z]
			}
			if over > 0 {
				l.leave(w.item, over, v.whyNotSpread(w))
			}
		case len(v.items[w.item].types) > 0:
			missing[w.item] += lack
		case !v.welcomeOutside(w.item):
			l.leave(w.item, lack, v.items[w.item].refused)
		}
	}
	order := slices.Clone(l.nodes)
	slices.SortFunc(order, leastWorth)
	for _, r := range order {
		r.pods = slices.DeleteFunc(r.pods, func(t tenant) bool {
			if t.workload < 0 || excess[t.workload] == 0 {
				return false
			}
			excess[t.workload]--
			take(r.free, v.items[t.item].requests, -1)
			return true
		})
	}
	return missing
}

// fill puts pods into the free space of nodes and returns what is left over.
func (l *layout) fill(missing map[int]int32) map[int]int32 {
	order := slices.DeleteFunc(slices.Clone(l.nodes), func(r *resident) bool { return !r.usable })
	slices.SortFunc(order, mostWorth)
	free := l.view.rooms(order)
	left := map[int]int32{}
	indexes := slices.Sorted(maps.Keys(missing))
	for _, n := range l.inOrder(compile(l.view.problem(missing)).vectors().LargestFirst(), indexes) {
		i := indexes[n]
		rest := missing[i]
		requests := l.view.items[i].requests
		for at := free.next(l, i, 0); at >= 0 && rest > 0; at = free.next(l, i, at+1) {
			r := order[at]
			n := int32(min(l.room(i, r), int64(rest)))
			for range n {
				r.pods = append(r.pods, tenant{item: i, workload: -1})
			}
			take(r.free, requests, int64(n))
			free.set(at, r.free)
			rest -= n
		}
		if rest > 0 {
			left[i] = rest
		}
	}
	return left
}

// room is how many pods of an item a node of a pool they belong to takes.
func (l *layout) room(item int, r *resident) int64 {
	it := &l.view.items[item]
	n := copies(it.requests, r.free)
	if n == 0 || it.zone != "" && it.zone != r.node.Zone || !placement.InZones(it.bound, r.node.Zone) || !l.belongs(item, r.pool) {
		return 0
	}
	if l.apart && it.off >= 0 && !l.view.pools[r.pool].Spot {
		return 0
	}
	if most := it.shape.MaxPerNode; most > 0 {
		for _, t := range r.pods {
			if l.view.items[t.item].copy == it.copy {
				most--
			}
		}
		n = min(n, int64(max(most, 0)))
	}
	if n > 0 && !r.site.Admits(it.shape) {
		return 0
	}
	return n
}

func (l *layout) belongs(item, pool int) bool {
	return slices.ContainsFunc(l.view.items[item].types, func(t int) bool { return l.view.types[t].pool == pool })
}

// grow packs what is left over onto new nodes and sets the sizes for it.
func (l *layout) grow(left map[int]int32, solve solveFunc) error {
	v := l.view
	l.packing = Packing{Complete: true}
	perZone := make([][]int32, len(v.pools)) // new nodes that must be in a zone
	for p := range v.pools {
		perZone[p] = make([]int32, len(v.pools[p].zones))
	}
	if len(left) > 0 {
		problem := v.problemWithin(left, l.vacancies)
		k, err := solve(problem)
		if err != nil {
			return err
		}
		l.packing, l.packed = k, slices.Sorted(maps.Keys(left))
		for n, i := range l.packed {
			if k.Unplaced[n] > 0 {
				l.leave(i, k.Unplaced[n], l.whyUnplaced(i))
			}
		}
		crowded := l.crowded()
		for t, typ := range v.types {
			n := k.Nodes(t) + crowded[t]
			if room := l.vacancies(typ.pool, typ.zone); room != Unlimited {
				n = min(n, room)
			}
			l.pools[typ.pool].fresh += n
			if typ.zone >= 0 {
				perZone[typ.pool][typ.zone] += n
			}
		}
	}
	for p := range l.pools {
		pl := &l.pools[p]
		pl.size = slices.Max(pl.kept)
		for z, n := range perZone[p] {
			if n > 0 {
				pl.size = max(pl.size, pl.kept[z]+n)
			}
		}
		for spare(pl.kept, pl.size) < pl.fresh {
			pl.size++
		}
	}
	return nil
}

// crowded is how many nodes more of each type are needed as a packing puts pods
// together that exclude one another: copies bound to different zones by their
// volumes, and copies bound to none, are items of their own, and the bound on
// copies of a node is known of each item alone.
func (l *layout) crowded() []int32 {
	more := make([]int32, len(l.view.types))
	for _, load := range l.packing.Loads {
		copies := map[int]int32{}
		for _, s := range load.Pods {
			copies[l.view.items[l.packed[s.Item]].copy] += s.Count
		}
		extra := int32(0)
		for c, n := range copies {
			if most := l.view.items[c].shape.MaxPerNode; most > 0 {
				extra = max(extra, (n+most-1)/most-1)
			}
		}
		more[load.Type] += extra * load.Nodes
	}
	return more
}

// spare is how many nodes a pool of this size per zone has beyond those kept.
func spare(kept []int32, size int32) int32 {
	var n int32
	for _, k := range kept {
		n += max(0, size-k)
	}
	return n
}

// vacancies is how many nodes a pool, or one zone of it, may still add.
func (l *layout) vacancies(p, zone int) int32 {
	at := l.view.pools[p]
	switch {
	case at.most == Unlimited:
		return Unlimited
	case zone >= 0:
		return max(0, at.most-l.pools[p].kept[zone])
	}
	return spare(l.pools[p].kept, at.most)
}

func (l *layout) whyUnplaced(item int) string {
	var names []string
	for _, t := range l.view.items[item].types {
		at := l.view.pools[l.view.types[t].pool]
		if l.view.items[item].bound != nil {
			names = append(names, fmt.Sprintf("%s is at its maximum of %d nodes in zone %s, where its volumes are", at.Name, at.most, l.view.types[t].site.Zone))
			continue
		}
		names = append(names, fmt.Sprintf("%s is at its maximum of %d nodes", at.Name, at.most*int32(len(at.zones))))
	}
	names = slices.Compact(names)
	if len(names) == 1 {
		return "pool " + names[0]
	}
	return fmt.Sprintf("pools: %q", names)
}

func (l *layout) leave(item int, count int32, reason string) {
	it := &l.view.items[item]
	l.unplaced = append(l.unplaced, api.Unplaced{Object: it.of, Name: it.name, Count: count, Reason: reason})
}

// leftOver is how many pods have no place, and price what all nodes cost, USD/h.
func (l *layout) leftOver() (n int64) {
	for _, u := range l.unplaced {
		n += int64(u.Count)
	}
	return n
}

func (l *layout) price() (sum float64) {
	for p, at := range l.view.pools {
		sum += float64(l.pools[p].size) * float64(len(at.zones)) * at.Price
	}
	return sum
}
