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
	r := v.roomWithout(gone, v.acting)
	return v.unplaced(v.wantsWithout(gone), &r, onTarget, nil)
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
			at := v.pool(sp.Node.Pool)
			count[at.Name+" "+at.ZoneOf(sp.Node)]++
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
	return v.unplaced(v.wants(gone, elsewhere), &r, true, nil)
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
	return v.wantsOf(gone, func(key api.Key) int32 {
		n := int32(0)
		for _, p := range v.podsOf[key] {
			if !p.Terminating && stays(p) {
				n++
			}
		}
		return n
	})
}

// wantsWithout are the wants when the pods stay that are on other nodes than gone or
// may not be moved: only the pods on gone nodes are looked at.
func (v *view) wantsWithout(gone map[string]bool) []want {
	leave := map[api.Key]int32{}
	for name := range gone {
		for _, p := range v.podsOn[name] {
			if v.leaves(p) {
				leave[p.Workload]++
			}
		}
	}
	return v.wantsOf(gone, func(key api.Key) int32 { return v.bound[key] - leave[key] })
}

// leaves reports whether a pod of a workload has to be made anew elsewhere when its
// node goes.
func (v *view) leaves(p *api.Pod) bool {
	return v.acting[p.Workload] && !p.Terminating && v.blocker(p) == ""
}

// wantsOf are the wants when so many pods of a workload stay.
func (v *view) wantsOf(gone map[string]bool, stay func(api.Key) int32) []want {
	var own, others []want
	v.planned(func(w *api.Workload, wp *api.WorkloadPlan) {
		if n := wp.Replicas - stay(w.Key); n > 0 {
			own = append(own, replicasOf(w, n))
		}
	})
	for i := range v.snapshot.Nodes {
		if name := v.snapshot.Nodes[i].Name; gone[name] {
			others = append(others, v.strangersOn(name)...)
		}
	}
	return v.inOrder(own, others)
}

// strangersOn are the pods of nobody's workload that have to leave a node.
func (v *view) strangersOn(node string) []want {
	var out []want
	for _, p := range v.podsOn[node] {
		if v.movable(p) && !v.acting[p.Workload] {
			out = append(out, onePod(p))
		}
	}
	return out
}

// lacking names n of what is wanted, for people.
func (w want) lacking(n int32) string {
	if !w.replicas {
		return w.name
	}
	return fmt.Sprintf("%d pods of %s", n, w.name)
}

func replicasOf(w *api.Workload, n int32) want {
	return want{pods: replicas(w), count: n, name: "workload " + w.Key.String(), replicas: true}
}

func onePod(p *api.Pod) want {
	return want{pods: placement.PodsOf(p), count: 1, name: "pod " + p.Key.String()}
}

// inOrder puts replicas of workloads before other pods, and of each the largest first.
func (v *view) inOrder(own, others []want) []want {
	var largest api.Resources
	for _, name := range v.targets {
		largest = largest.Max(v.pool(name).Allocatable)
	}
	largestFirst(own, largest)
	largestFirst(others, largest)
	return append(own, others...)
}

// unplaced places what is wanted and names what doesn't fit, empty if all does. Took
// is told what each space took, unless it is nil.
func (v *view) unplaced(wants []want, r *room, onTarget bool, took func(w want, space int, n int32)) string {
	for _, w := range wants {
		pool := ""
		if onTarget && w.replicas {
			if home := v.home(w.pods.Workload); siteIn(home).Admits(w.pods.Shape) {
				pool = home.Name
			}
		}
		var tell func(int, int32)
		if took != nil {
			tell = func(space int, n int32) { took(w, space, n) }
		}
		if placed := r.put(w.pods, w.count, pool, tell); placed < w.count {
			return w.lacking(w.count - placed)
		}
	}
	return ""
}

// siteIn is that of a node which a pool would add.
func siteIn(pool api.Pool) placement.Site {
	return placement.Site{Labels: pool.Labels, Taints: pool.Taints}
}
