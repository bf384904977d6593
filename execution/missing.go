package execution

import (
	"fmt"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// missing names what the Ready nodes other than gone can't hold: the replicas
// wanted that don't run outside gone already, and the other movable pods on
// gone. It is empty when all fits. With onTarget replicas have to fit on the
// target's nodes, unless their shape can't run there at all.
func (v *view) missing(gone map[string]bool, onTarget bool) string {
	stays := func(p *api.Pod) bool { return p.Node != "" && (!gone[p.Node] || v.blocker(p) != "") }
	return v.unplaced(v.wants(gone, stays), v.roomWithout(gone, v.acting), onTarget)
}

// missingAt is missing for the time when the target has so many nodes per zone
// and the workloads have only the pods that are wanted.
func (v *view) missingAt(mp managedPool, perZone int32) string {
	gone := v.gone()
	r := room{}
	count := map[string]int32{}
	for _, sp := range v.spaces {
		switch {
		case gone[sp.node.Name]:
			continue
		case sp.node.Pool == mp.Name:
			count[sp.node.Zone]++
			others := slices.DeleteFunc(slices.Clone(v.podsOn[sp.node.Name]), func(p *api.Pod) bool { return v.acting[p.Workload] })
			sp = spaceOf(sp.node, others, mp.Overhead)
		}
		r.spaces = append(r.spaces, sp)
	}
	r = r.clone()
	for _, zone := range mp.Zones {
		node := &api.Node{Pool: mp.Name, Zone: zone, Labels: mp.Labels, Taints: mp.Taints, Allocatable: mp.Allocatable, Ready: true}
		for range perZone - count[zone] {
			r.spaces = append(r.spaces, spaceOf(node, nil, mp.Overhead))
		}
	}
	for _, p := range v.pending {
		if !v.acting[p.Workload] {
			r.place(p.Shape, 1, inZones(p.Zones))
		}
	}
	elsewhere := func(p *api.Pod) bool {
		n := v.nodes[p.Node]
		return n != nil && n.Pool != mp.Name && (!gone[p.Node] || v.blocker(p) != "")
	}
	return v.unplaced(v.wants(gone, elsewhere), r, true)
}

// want is a number of pods of one shape that need a place.
type want struct {
	shape    *api.PodShape
	count    int32
	name     string   // whose they are, for findings
	zones    []string // that they are bound to; nil for any
	replicas bool     // of a workload
}

// wants are the replicas wanted beside the pods that stay, and the other pods
// that have to leave gone nodes; both by size, the largest first.
func (v *view) wants(gone map[string]bool, stays func(*api.Pod) bool) []want {
	var replicas, others []want
	v.planned(func(w *api.Workload, wp *api.WorkloadPlan) {
		n := wp.Replicas
		for _, p := range v.podsOf[w.Key] {
			if !p.Terminating && stays(p) {
				n--
			}
		}
		if n > 0 {
			replicas = append(replicas, want{shape: w.Shape, count: n, name: "workload " + w.Key.String(), replicas: true})
		}
	})
	for i := range v.snapshot.Nodes {
		name := v.snapshot.Nodes[i].Name
		if !gone[name] {
			continue
		}
		for _, p := range v.podsOn[name] {
			if v.movable(p) && !v.acting[p.Workload] {
				others = append(others, want{shape: p.Shape, count: 1, name: "pod " + p.Key.String(), zones: p.Zones})
			}
		}
	}
	target := v.pool(v.target)
	largestFirst(replicas, target.Allocatable)
	largestFirst(others, target.Allocatable)
	return append(replicas, others...)
}

// unplaced names what doesn't fit, empty if all does.
func (v *view) unplaced(wants []want, r room, onTarget bool) string {
	target := v.pool(v.target)
	for _, w := range wants {
		allow := inZones(w.zones)
		if onTarget && w.replicas && admits(w.shape, "", target.Labels, target.Taints) {
			allow = func(n *api.Node) bool { return n.Pool == v.target }
		}
		if placed := r.place(w.shape, w.count, allow); placed < w.count {
			return fmt.Sprintf("%d of %s", w.count-placed, w.name)
		}
	}
	return ""
}

// inZones admits nodes of the zones; nil admits every node.
func inZones(zones []string) func(*api.Node) bool {
	if zones == nil {
		return nil
	}
	return func(n *api.Node) bool { return slices.Contains(zones, n.Zone) }
}
