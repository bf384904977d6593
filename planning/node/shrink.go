package node

import (
	"slices"

	"github.com/mash2-io/mash2/api"
)

// shrink gives up nodes of a pool, one in each zone that has too many at a time,
// as long as their pods find room on the Ready nodes that remain; then it holds
// the pool to its bounds.
func (l *layout) shrink(p int, b api.Budget) {
	at, pl := l.view.pools[p], &l.pools[p]
	if at.Autoscaled {
		return // its size is not ours to choose
	}
	// Items whose pods found no room on any node: neither does another's, as hosts only fill
	// up from one node that is given up to the next.
	stuck := map[int]bool{}
	for pl.fresh == 0 && pl.size > at.least && !l.exhausted && l.giveUp(p, b, stuck) {
		pl.size--
	}
	pl.size = max(pl.size, at.least)
	if at.most == Unlimited {
		return
	}
	for ; pl.size > at.most; pl.size-- {
		for z := range pl.kept {
			if pl.kept[z] < pl.size {
				continue
			}
			pl.kept[z]--
			i := slices.IndexFunc(l.queues[p][z], func(r *resident) bool { return !r.removed })
			r := l.queues[p][z][i]
			l.remove(r, true)
			for _, t := range r.pods {
				l.leave(t.item, 1, l.whyUnplaced(t.item))
			}
		}
	}
}

// giveUp takes one node from each zone whose number of nodes is the size. It
// does all or nothing.
func (l *layout) giveUp(p int, b api.Budget, stuck map[int]bool) bool {
	pl := &l.pools[p]
	if pl.size == 0 {
		return false
	}
	var moves []move
	var gone []*resident
	for z := range pl.kept {
		if pl.kept[z] < pl.size {
			continue
		}
		done := false
		for len(l.queues[p][z]) > 0 && l.queues[p][z][0].removed { // for good: this time none of the zone is, yet
			l.queues[p][z] = l.queues[p][z][1:]
		}
		for _, r := range l.queues[p][z] {
			if r.removed || !r.movable || r.fixed || r.usable && !r.ready && !r.lost {
				continue // gone, must stay, or is just booting
			}
			if l.attempts >= b.Iterations {
				l.exhausted = true
				break
			}
			l.attempts++
			if slices.ContainsFunc(r.pods, func(t tenant) bool { return stuck[t.item] }) {
				continue
			}
			l.remove(r, true)
			var ok bool
			var without int
			if moves, without, ok = l.empty(r, moves); ok {
				gone, done = append(gone, r), true
				break
			}
			l.remove(r, false)
			// The node itself is there for the pods of others.
			if without >= 0 && (!r.ready || l.room(without, r) == 0) {
				stuck[without] = true
			}
		}
		if !done {
			l.undo(moves)
			for _, r := range gone {
				l.remove(r, false)
			}
			return false
		}
	}
	for _, r := range gone {
		pl.kept[r.zone]--
		pl.surplus = append(pl.surplus, r.node.Name)
	}
	return true
}

// move is a pod taken from one node to another.
type move struct {
	from, to *resident
	pod      tenant
}

// empty moves every pod of a node to hosts and appends what it did; when one
// finds no room it undoes its own moves. It returns the item that found none
// although nothing of this node had been moved yet, −1 otherwise.
func (l *layout) empty(r *resident, done []move) (all []move, without int, ok bool) {
	pods := slices.Clone(r.pods)
	slices.SortStableFunc(pods, func(a, b tenant) int {
		return -slices.Compare(l.view.items[a.item].requests, l.view.items[b.item].requests)
	})
	before := len(done)
	// Hosts only fill up meanwhile: what had no room for an item has none for
	// its next pod.
	item, i := -1, 0
	for _, t := range pods {
		if t.item != item {
			item, i = t.item, 0
		}
		if i = l.free.next(l, item, i); i < 0 {
			if without = -1; len(done) == before {
				without = item
			}
			l.undo(done[before:])
			return done[:before], without, false
		}
		m := move{from: r, to: l.hosts[i], pod: t}
		l.apply(m)
		done = append(done, m)
	}
	return done, -1, true
}

func (l *layout) undo(moves []move) {
	for _, m := range slices.Backward(moves) {
		l.apply(move{from: m.to, to: m.from, pod: m.pod})
	}
}

func (l *layout) apply(m move) {
	requests := l.view.items[m.pod.item].requests
	i := slices.Index(m.from.pods, m.pod)
	m.from.pods = slices.Delete(m.from.pods, i, i+1)
	take(m.from.free, requests, -1)
	m.to.pods = append(m.to.pods, m.pod)
	take(m.to.free, requests, 1)
	l.found(m.from)
	l.found(m.to)
}

// remove marks a node as given up, or as there again.
func (l *layout) remove(r *resident, gone bool) {
	r.removed = gone
	l.found(r)
}

// found keeps what is free on a host where it is looked for; a node that is given up has
// room for nothing.
func (l *layout) found(r *resident) {
	switch {
	case r.host < 0:
	case r.removed:
		l.free.set(r.host, l.none)
	default:
		l.free.set(r.host, r.free)
	}
}

// open makes the free space of the hosts, in their order.
func (l *layout) open() {
	l.free, l.none = l.view.rooms(l.hosts), make([]int64, len(l.view.dims.vector(api.Resources{})))
	for d := range l.none {
		l.none[d] = -1
	}
	for i, r := range l.hosts {
		r.host = i
		l.found(r)
	}
}
