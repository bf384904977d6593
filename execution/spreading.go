package execution

import (
	"container/heap"
	"maps"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

// First fit tells whether there is room. The scheduler doesn't fill nodes one after the
// other: a pod goes where most is free (NodeResourcesFit, LeastAllocated), and many small
// ones may so take the last room of a large one from it. Whether pods that are to move have
// a place is therefore asked in that way, too, before they do.

// spreading is a room that is filled as the scheduler does.
type spreading struct {
	spaces []placement.Space
	free   []float64 // mean share of CPU and memory
	order  []int     // a heap, the space with most free first
}

func newSpreading(spaces []placement.Space) *spreading {
	s := &spreading{spaces: spaces, free: make([]float64, len(spaces)), order: make([]int, len(spaces))}
	for i := range spaces {
		s.free[i], s.order[i] = freeShare(&spaces[i]), i
	}
	heap.Init(s)
	return s
}

func freeShare(sp *placement.Space) float64 {
	all := sp.Node.Allocatable
	return float64(sp.Free.MilliCPU)/float64(max(all.MilliCPU, 1)) + float64(sp.Free.Memory)/float64(max(all.Memory, 1))
}

func (s *spreading) Len() int { return len(s.order) }

func (s *spreading) Less(i, j int) bool {
	a, b := s.order[i], s.order[j]
	if s.free[a] != s.free[b] {
		return s.free[a] > s.free[b]
	}
	return a < b
}

func (s *spreading) Swap(i, j int) { s.order[i], s.order[j] = s.order[j], s.order[i] }

func (s *spreading) Push(x any) { s.order = append(s.order, x.(int)) }

func (s *spreading) Pop() any {
	last := len(s.order) - 1
	i := s.order[last]
	s.order = s.order[:last]
	return i
}

// place puts up to n pods on nodes one by one and returns how many found a place. Pool is
// where the nodes must be, empty for anywhere.
func (s *spreading) place(pods placement.Pods, n int32, pool string) (placed int32) {
	var passed []int // they have no room for one of these now, and so not for the next
	for placed < n && len(s.order) > 0 {
		i := s.order[0]
		if sp := &s.spaces[i]; (pool == "" || sp.Node.Pool == pool) && sp.Place(pods, 1) == 1 {
			placed++
			s.free[i] = freeShare(sp)
			heap.Fix(s, 0)
			continue
		}
		passed = append(passed, heap.Pop(s).(int))
	}
	for _, i := range passed {
		heap.Push(s, i)
	}
	return placed
}

// spreads are the first of these nodes, in their order, of which the pods find room where
// the scheduler would put them, if all of them are emptied at once beside gone; why names
// what has none without one more.
func (v *view) spreads(gone map[string]bool, nodes []*api.Node) (movable []*api.Node, why string) {
	missing := func(n int) string {
		without := maps.Clone(gone)
		for _, node := range nodes[:n] {
			without[node.Name] = true
		}
		wants := v.wantsWithout(without)
		// They are made in the order in which workloads are looked at, not by size.
		slices.SortStableFunc(wants, func(a, b want) int { return strings.Compare(a.name, b.name) })
		r := newSpreading(v.roomWithout(without, v.acting).spaces)
		for _, w := range wants {
			pool := ""
			if w.replicas {
				pool = v.only(v.workloads[w.pods.Workload])
			}
			if placed := r.place(w.pods, w.count, pool); placed < w.count {
				return w.lacking(w.count - placed)
			}
		}
		return ""
	}
	fit, beyond := 0, len(nodes)+1
	for n := len(nodes); fit < beyond-1; n = (fit + beyond) / 2 {
		if m := missing(n); m == "" {
			fit = n
		} else {
			beyond, why = n, m
		}
	}
	return nodes[:fit], why
}
