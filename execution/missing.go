package execution

import (
	"fmt"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// missing names what the Ready nodes other than gone, and the fresh ones, can't
// hold: the replicas wanted that don't run outside gone already, and the other
// movable pods on gone. It is empty when all fits. With onTarget replicas have
// to fit on the target's nodes, unless their shape can't run there at all.
func (v *view) missing(gone map[string]bool, onTarget bool, fresh []space) string {
	var wants []want
	v.planned(func(w *api.Workload, wp *api.WorkloadPlan) {
		stay := int32(0)
		for _, p := range v.podsOf[w.Key] {
			if !p.Terminating && p.Node != "" && (!gone[p.Node] || v.blocker(p) != "") {
				stay++
			}
		}
		if n := wp.Replicas - stay; n > 0 {
			wants = append(wants, want{shape: w.Shape, count: n, name: "workload " + w.Key.String()})
		}
	})
	replicas := len(wants)
	for i := range v.snapshot.Nodes {
		name := v.snapshot.Nodes[i].Name
		if !gone[name] {
			continue
		}
		for _, p := range v.podsOn[name] {
			if v.movable(p) && !v.acting[p.Workload] {
				wants = append(wants, want{shape: p.Shape, count: 1, name: "pod " + p.Key.String(), zones: p.Zones})
			}
		}
	}
	target := v.pool(v.target)
	largestFirst(wants[:replicas], target.Allocatable)
	largestFirst(wants[replicas:], target.Allocatable)
	r := v.roomWithout(gone, v.acting, fresh)
	for i, w := range wants {
		allow := inZones(w.zones)
		if onTarget && i < replicas && admits(w.shape, "", target.Labels, target.Taints) {
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
