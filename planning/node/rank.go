package node

import (
	"cmp"
	"slices"
)

// rank orders the nodes, once: what moves afterwards goes to nodes that are
// given up last.
func (l *layout) rank() {
	l.queues = make([][][]*resident, len(l.pools))
	for p := range l.pools {
		zones := len(l.view.pools[p].zones)
		l.pools[p].kept = make([]int32, zones)
		l.queues[p] = make([][]*resident, zones)
	}
	for _, r := range l.nodes {
		r.host = -1
		if r.ready {
			l.hosts = append(l.hosts, r)
		}
		if r.zone >= 0 {
			l.pools[r.pool].kept[r.zone]++
			l.queues[r.pool][r.zone] = append(l.queues[r.pool][r.zone], r)
		}
	}
	slices.SortFunc(l.hosts, mostWorth)
	l.open()
	for _, zones := range l.queues {
		for _, queue := range zones {
			slices.SortFunc(queue, leastWorth)
		}
	}
}

// leastWorth orders nodes by how readily they are given up.
func leastWorth(a, b *resident) int {
	return cmp.Or(
		-compareBool(a.movable && !a.fixed, b.movable && !b.fixed),
		-compareBool(!a.usable, !b.usable),
		-compareBool(a.node.Cordoned, b.node.Cordoned),
		cmp.Compare(len(a.pods), len(b.pods)),
		cmp.Compare(a.index, b.index),
	)
}

// mostWorth orders nodes by how gladly they are filled: those that are Ready
// before those that boot, those that are kept before those cordoned, and full
// ones before empty ones.
func mostWorth(a, b *resident) int {
	return cmp.Or(
		-compareBool(a.ready, b.ready),
		compareBool(a.node.Cordoned, b.node.Cordoned),
		-cmp.Compare(len(a.pods), len(b.pods)),
		cmp.Compare(a.index, b.index),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
