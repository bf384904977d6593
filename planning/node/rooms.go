package node

import (
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/node/packing"
)

// rooms is the free space of nodes in an order, by pool: those of pools where a pod may not
// run are not looked at. There may be thousands, as in a move from one pool to another.
type rooms struct {
	nodes []*resident
	pools []poolRooms
	local []int // by place in the order, where a node is among those of its pool
}

type poolRooms struct {
	free   *packing.Free
	places []int // in the order of all
}

func (v *view) rooms(nodes []*resident) *rooms {
	r := &rooms{nodes: nodes, pools: make([]poolRooms, len(v.pools)), local: make([]int, len(nodes))}
	dims := len(v.dims.vector(api.Resources{}))
	for p := range r.pools {
		r.pools[p].free = packing.NewFree(dims)
	}
	for i, n := range nodes {
		of := &r.pools[n.pool]
		r.local[i] = len(of.places)
		of.places = append(of.places, i)
		of.free.Add(n.free)
	}
	return r
}

// set says what is free on a node now.
func (r *rooms) set(at int, free []int64) {
	r.pools[r.nodes[at].pool].free.Set(r.local[at], free)
}

// next is the first node from a place on that has room for a pod of an item, −1 without one.
func (r *rooms) next(l *layout, item, from int) int {
	for {
		at := r.candidate(l, item, from)
		if at < 0 {
			return -1
		}
		if n := r.nodes[at]; !n.removed && l.room(item, n) > 0 {
			return at
		}
		from = at + 1
	}
}

// candidate is the same by the requests of the item and its pools alone.
func (r *rooms) candidate(l *layout, item, from int) int {
	v := l.view
	it := &v.items[item]
	first, last := -1, -1
	for _, t := range it.types {
		p := v.types[t].pool
		if p == last || l.apart && it.off >= 0 && !v.pools[p].Spot {
			continue
		}
		last = p
		of := &r.pools[p]
		i, _ := slices.BinarySearch(of.places, from)
		if n := of.free.Next(i, it.requests); n >= 0 && (first < 0 || of.places[n] < first) {
			first = of.places[n]
		}
	}
	return first
}
