package execution

import (
	"cmp"
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

// room is the free space of the nodes that new pods can land on. Placing pods
// takes from it. It answers "would these fit now?" for the space that is really
// there, so that nothing is cordoned or asked for before its place exists; the
// scheduler makes its own choice afterwards.
type room struct {
	spaces []placement.Space
}

// clone returns a room that can be filled without touching r.
func (r room) clone() room {
	out := room{spaces: slices.Clone(r.spaces)}
	for i := range out.spaces {
		out.spaces[i] = out.spaces[i].Clone()
	}
	return out
}

// place puts up to n pods on nodes, first fit, and returns how many found a
// place. Pool is where the nodes must be, empty for anywhere.
func (r *room) place(pods placement.Pods, n int32, pool string) int32 {
	var placed int32
	for i := range r.spaces {
		if placed >= n {
			break
		}
		if sp := &r.spaces[i]; pool == "" || sp.Node.Pool == pool {
			placed += sp.Place(pods, n-placed)
		}
	}
	return placed
}

// replicas are those of a workload that are to come.
func replicas(w *api.Workload) placement.Pods {
	return placement.Pods{Shape: w.Shape, Workload: w.Key}
}

// largestFirst orders wants by dominant share of a node, the order in which
// first fit wastes least.
func largestFirst(wants []want, node api.Resources) {
	share := func(w want) float64 {
		if w.pods.Shape == nil {
			return 0
		}
		return w.pods.Shape.Requests.DominantShare(node)
	}
	slices.SortStableFunc(wants, func(a, b want) int {
		return cmp.Or(cmp.Compare(share(b), share(a)), cmp.Compare(a.name, b.name))
	})
}
