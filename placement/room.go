package placement

import (
	"maps"
	"math"

	"github.com/mash2-io/mash2/api"
)

// Pods that are alike: what placing one of them depends on.
type Pods struct {
	// Shape of each; nil takes a pod slot and nothing else.
	Shape *api.PodShape
	// Workload whose copies they are: the bound on copies is each workload's own.
	// Zero for pods of none.
	Workload api.Key
	// Zones that their volumes can be reached from; nil for any.
	Zones []string
}

// PodsOf are pods like one that there is.
func PodsOf(p *api.Pod) Pods { return Pods{Shape: p.Shape, Workload: p.Workload, Zones: p.Zones} }

// Space is a node with what it still has free.
type Space struct {
	Node *api.Node
	Free api.Resources
	// copies on the node of those whose number a node limits.
	copies map[copyKey]int32
}

type copyKey struct {
	workload api.Key
	shape    string
}

// SpaceOf computes the free space of a node with these pods. DaemonSets take
// what they were measured to take of a node of the pool (overhead) even before
// their pods are there.
func SpaceOf(n *api.Node, pods []*api.Pod, overhead api.Resources) Space {
	var system, others api.Resources
	sp := Space{Node: n}
	for _, p := range pods {
		switch {
		case p.Shape == nil:
			others.Pods++
		case p.DaemonSet || p.Mirror:
			system = system.Plus(p.Shape.Requests)
		default:
			others = others.Plus(p.Shape.Requests)
			if p.Shape.MaxPerNode > 0 {
				sp.count(PodsOf(p), 1)
			}
		}
	}
	sp.Free = n.Allocatable.Minus(system.Max(overhead)).Minus(others)
	return sp
}

func (p Pods) key() copyKey { return copyKey{p.Workload, p.Shape.ID} }

func (sp *Space) count(p Pods, n int32) {
	if sp.copies == nil {
		sp.copies = map[copyKey]int32{}
	}
	sp.copies[p.key()] += n
}

// Clone returns a space that can be filled without touching sp.
func (sp Space) Clone() Space {
	sp.copies = maps.Clone(sp.copies)
	return sp
}

// Place puts up to n of the pods into the space, takes what they request from it,
// and returns how many went in.
func (sp *Space) Place(p Pods, n int32) int32 {
	if n <= 0 || !InZones(p.Zones, sp.Node.Zone) || !SiteOf(sp.Node).Admits(p.Shape) {
		return 0
	}
	requests := api.Resources{Pods: 1}
	if p.Shape != nil {
		requests = p.Shape.Requests
	}
	k := min(n, Copies(requests, sp.Free))
	limited := p.Shape != nil && p.Shape.MaxPerNode > 0
	if limited {
		k = min(k, p.Shape.MaxPerNode-sp.copies[p.key()])
	}
	if k <= 0 {
		return 0
	}
	sp.Free = sp.Free.Minus(requests.Times(int64(k)))
	if limited {
		sp.count(p, k)
	}
	return k
}

// Remove takes n of the pods out again that Place has put in.
func (sp *Space) Remove(p Pods, n int32) {
	requests := api.Resources{Pods: 1}
	if p.Shape != nil {
		requests = p.Shape.Requests
	}
	sp.Free = sp.Free.Plus(requests.Times(int64(n)))
	if p.Shape != nil && p.Shape.MaxPerNode > 0 {
		sp.count(p, -n)
	}
}

// Copies is how many pods with these requests fit into what is free, at most
// math.MaxInt32. As for the scheduler, what is not asked for may be negative.
func Copies(requests, free api.Resources) int32 {
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
