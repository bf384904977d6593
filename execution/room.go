package execution

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// space is what a node still has free.
type space struct {
	node *api.Node
	free api.Resources
	// copies of the shapes that limit how many of them one node may hold, by
	// shape ID.
	copies map[string]int32
}

// room is the free space of the nodes that new pods can land on. Placing pods
// takes from it. It answers "would these fit now?" for the space that is really
// there, so that nothing is cordoned or asked for before its place exists; the
// scheduler makes its own choice afterwards.
type room struct {
	spaces []space
}

// spaceOf computes the free space of a node. DaemonSets take what they were
// measured to take of a node of the pool even before their pods are there.
func spaceOf(n *api.Node, pods []*api.Pod, overhead api.Resources) space {
	var system, others api.Resources
	sp := space{node: n}
	for _, p := range pods {
		if p.Shape == nil {
			others.Pods++
			continue
		}
		if p.DaemonSet || p.Mirror {
			system = system.Plus(p.Shape.Requests)
			continue
		}
		others = others.Plus(p.Shape.Requests)
		if p.Shape.MaxPerNode > 0 {
			if sp.copies == nil {
				sp.copies = map[string]int32{}
			}
			sp.copies[p.Shape.ID]++
		}
	}
	sp.free = n.Allocatable.Minus(system.Max(overhead)).Minus(others)
	return sp
}

// clone returns a room that can be filled without touching r.
func (r room) clone() room {
	out := room{spaces: slices.Clone(r.spaces)}
	for i := range out.spaces {
		out.spaces[i].copies = maps.Clone(out.spaces[i].copies)
	}
	return out
}

// place puts up to n pods of a shape on nodes that allow admits, first fit, and
// returns how many found a place. A nil allow admits every node.
func (r *room) place(shape *api.PodShape, n int32, allow func(*api.Node) bool) int32 {
	requests := api.Resources{Pods: 1}
	if shape != nil {
		requests = shape.Requests
	}
	var placed int32
	for i := range r.spaces {
		if placed >= n {
			break
		}
		sp := &r.spaces[i]
		if allow != nil && !allow(sp.node) || !admits(shape, sp.node.Name, sp.node.Labels, sp.node.Taints) {
			continue
		}
		k := min(n-placed, copiesThatFit(requests, sp.free))
		if shape != nil && shape.MaxPerNode > 0 {
			k = min(k, shape.MaxPerNode-sp.copies[shape.ID])
		}
		if k <= 0 {
			continue
		}
		sp.free = sp.free.Minus(requests.Times(int64(k)))
		if shape != nil && shape.MaxPerNode > 0 {
			if sp.copies == nil {
				sp.copies = map[string]int32{}
			}
			sp.copies[shape.ID] += k
		}
		placed += k
	}
	return placed
}

// copiesThatFit is how many times requests fit into free.
func copiesThatFit(requests, free api.Resources) int32 {
	n := int64(math.MaxInt32)
	part := func(want, have int64) {
		if want > 0 {
			n = min(n, max(have, 0)/want)
		}
	}
	part(requests.MilliCPU, free.MilliCPU)
	part(requests.Memory, free.Memory)
	part(requests.EphemeralStorage, free.EphemeralStorage)
	part(requests.Pods, free.Pods)
	for k, v := range requests.Extended {
		part(v, free.Extended[k])
	}
	return int32(n)
}

// largestFirst orders wants by dominant share of a node, the order in which
// first fit wastes least.
func largestFirst(wants []want, node api.Resources) {
	share := func(w want) float64 {
		if w.shape == nil {
			return 0
		}
		return w.shape.Requests.DominantShare(node)
	}
	slices.SortStableFunc(wants, func(a, b want) int {
		return cmp.Or(cmp.Compare(share(b), share(a)), cmp.Compare(a.name, b.name))
	})
}
