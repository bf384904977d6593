package execution

import (
	"cmp"
	"math"
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
	// most is a tree over the spaces: at i the most that is free in those below 2i
	// and 2i+1, and at len(most)/2+i what is free in space i. It is built when pods
	// are placed first; spaces may be added until then.
	most []amount
}

// amount of what nearly all pods request.
type amount struct{ cpu, memory, pods int64 }

// closed is what is free on a node that takes no pods.
var closed = amount{math.MinInt64, math.MinInt64, math.MinInt64}

// enough reports whether a is as much as is asked for. As for the scheduler, what is
// not asked for may be negative; a node that is closed lacks even nothing.
func (a amount) enough(requests amount) bool {
	return a != closed && (requests.cpu <= 0 || a.cpu >= requests.cpu) &&
		(requests.memory <= 0 || a.memory >= requests.memory) && (requests.pods <= 0 || a.pods >= requests.pods)
}

func amountOf(r api.Resources) amount { return amount{r.MilliCPU, r.Memory, r.Pods} }

// clone returns a room that can be filled without touching r.
func (r room) clone() room {
	out := room{spaces: slices.Clone(r.spaces), most: slices.Clone(r.most)}
	for i := range out.spaces {
		out.spaces[i] = out.spaces[i].Clone()
	}
	return out
}

// build makes the tree.
func (r *room) build() {
	leaves := 1
	for leaves < len(r.spaces) {
		leaves *= 2
	}
	r.most = make([]amount, 2*leaves)
	for i := range leaves {
		r.most[leaves+i] = closed
		if i < len(r.spaces) {
			r.most[leaves+i] = amountOf(r.spaces[i].Free)
		}
	}
	for i := leaves - 1; i > 0; i-- {
		r.most[i] = r.most[2*i].max(r.most[2*i+1])
	}
}

func (a amount) max(b amount) amount {
	return amount{max(a.cpu, b.cpu), max(a.memory, b.memory), max(a.pods, b.pods)}
}

// set notes what is free in a space.
func (r *room) set(space int, free amount) {
	i := len(r.most)/2 + space
	r.most[i] = free
	for i /= 2; i > 0; i /= 2 {
		r.most[i] = r.most[2*i].max(r.most[2*i+1])
	}
}

// next is the first space from one on where so much may be free; -1 if there is none.
func (r *room) next(from int, requests amount) int {
	leaves := len(r.most) / 2
	if from >= len(r.spaces) {
		return -1
	}
	i := leaves + from
	for !r.most[i].enough(requests) {
		// To the right, one level up for each step from a right child.
		for i&1 == 1 {
			i /= 2
		}
		if i == 0 {
			return -1
		}
		i++
	}
	for i < leaves {
		if i *= 2; !r.most[i].enough(requests) {
			i++
		}
		if !r.most[i].enough(requests) {
			// Neither child has all of it, only both together.
			return r.next(r.after(i), requests)
		}
	}
	if i -= leaves; i < len(r.spaces) {
		return i
	}
	return -1
}

// after is the first space to the right of a part of the tree.
func (r *room) after(i int) int {
	leaves := len(r.most) / 2
	for i < leaves {
		i = 2*i + 1
	}
	return i - leaves + 1
}

// place puts up to n pods on nodes, first fit, and returns how many found a
// place. Pool is where the nodes must be, empty for anywhere.
func (r *room) place(pods placement.Pods, n int32, pool string) int32 {
	return r.put(pods, n, pool, nil)
}

// put is place that tells of each space how many it took.
func (r *room) put(pods placement.Pods, n int32, pool string, took func(space int, n int32)) int32 {
	if n <= 0 || len(r.spaces) == 0 {
		return 0
	}
	if r.most == nil {
		r.build()
	}
	requests := amount{pods: 1}
	if pods.Shape != nil {
		requests = amountOf(pods.Shape.Requests)
	}
	var placed int32
	for i := r.next(0, requests); i >= 0 && placed < n; i = r.next(i+1, requests) {
		sp := &r.spaces[i]
		if pool != "" && sp.Node.Pool != pool {
			continue
		}
		k := sp.Place(pods, n-placed)
		if k == 0 {
			continue
		}
		placed += k
		r.set(i, amountOf(sp.Free))
		if took != nil {
			took(i, k)
		}
	}
	return placed
}

// remove takes n pods out of a space again.
func (r *room) remove(space int, pods placement.Pods, n int32) {
	r.spaces[space].Remove(pods, n)
	r.set(space, amountOf(r.spaces[space].Free))
}

// close has a space take nothing, until what is free there is set.
func (r *room) close(space int) {
	if r.most == nil {
		r.build()
	}
	r.set(space, closed)
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
