package execution

import (
	"fmt"
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

// missing names what the Ready nodes other than gone can't hold: the replicas
// wanted that don't run outside gone already, and the other movable pods on
// gone. It is empty when all fits. With onTarget replicas have to fit on the
// nodes of the pool that they are planned on, unless their shape can't run there at all.
func (v *view) missing(gone map[string]bool, onTarget bool) string {
	stays := func(p *api.Pod) bool { return p.Node != "" && (!gone[p.Node] || v.blocker(p) != "") }
	return v.unplaced(v.wants(gone, stays), v.roomWithout(gone, v.acting), onTarget)
}

// missingAt is missing for the time when targets have so many nodes per zone and the
// workloads have only the pods that are wanted.
func (v *view) missingAt(perZone map[string]int32) string {
	gone := v.gone()
	r := room{}
	count := map[string]int32{}
	for _, sp := range v.spaces {
		switch {
		case gone[sp.Node.Name]:
			continue
		case v.isTarget(sp.Node.Pool):
			count[sp.Node.Pool+" "+sp.Node.Zone]++
			others := slices.DeleteFunc(slices.Clone(v.podsOn[sp.Node.Name]), func(p *api.Pod) bool { return v.acting[p.Workload] })
			sp = placement.SpaceOf(sp.Node, others, v.overhead(sp.Node.Pool))
		}
		r.spaces = append(r.spaces, sp)
	}
	r = r.clone()
	for _, mp := range v.pools {
		if !v.isTarget(mp.Name) {
			continue
		}
		for _, zone := range mp.Zones {
			node := &api.Node{Pool: mp.Name, Zone: zone, Labels: mp.Labels, Taints: mp.Taints, Allocatable: mp.Allocatable, Ready: true}
			for range perZone[mp.Name] - count[mp.Name+" "+zone] {
				r.spaces = append(r.spaces, placement.SpaceOf(node, nil, mp.Overhead))
			}
		}
	}
	for _, p := range v.pending {
		if !v.acting[p.Workload] {
			r.place(placement.PodsOf(p), 1, "")
		}
	}
	elsewhere := func(p *api.Pod) bool {
		n := v.nodes[p.Node]
		return n != nil && !v.isTarget(n.Pool) && (!gone[p.Node] || v.blocker(p) != "")
	}
	return v.unplaced(v.wants(gone, elsewhere), r, true)
}

// want is a number of pods that need a place.
type want struct {
	pods     placement.Pods
	count    int32
	name     string // whose they are, for findings
	replicas bool   // of a workload
}

// wants are the replicas wanted beside the pods that stay, and the other pods
// that have to leave gone nodes; both by size, the largest first.
func (v *view) wants(gone map[string]bool, stays func(*api.Pod) bool) []want {
	var own, others []want
	v.planned(func(w *api.Workload, wp *api.WorkloadPlan) {
		n := wp.Replicas
		for _, p := range v.podsOf[w.Key] {
			if !p.Terminating && stays(p) {
				n--
			}
		}
		if n > 0 {
			own = append(own, want{pods: replicas(w), count: n, name: "workload " + w.Key.String(), replicas: true})
		}
	})
	for i := range v.snapshot.Nodes {
		name := v.snapshot.Nodes[i].Name
		if !gone[name] {
			continue
		}
		for _, p := range v.podsOn[name] {
			if v.movable(p) && !v.acting[p.Workload] {
				others = append(others, want{pods: placement.PodsOf(p), count: 1, name: "pod " + p.Key.String()})
			}
		}
	}
	var largest api.Resources
	for _, name := range v.targets {
		largest = largest.Max(v.pool(name).Allocatable)
	}
	largestFirst(own, largest)
	largestFirst(others, largest)
	return append(own, others...)
}

// unplaced names what doesn't fit, empty if all does.
func (v *view) unplaced(wants []want, r room, onTarget bool) string {
	for _, w := range wants {
		pool := ""
		if onTarget && w.replicas {
			if home := v.home(w.pods.Workload); siteIn(home).Admits(w.pods.Shape) {
				pool = home.Name
			}
		}
		if placed := r.place(w.pods, w.count, pool); placed < w.count {
			return fmt.Sprintf("%d of %s", w.count-placed, w.name)
		}
	}
	return ""
}

// siteIn is that of a node which a pool would add.
func siteIn(pool api.Pool) placement.Site {
	return placement.Site{Labels: pool.Labels, Taints: pool.Taints}
}
