package node

import (
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

// addPods gives every pod its place: staying on a node, to be placed, or none
// of ours.
func (v *view) addPods() {
	nodes := make(map[string]*resident, len(v.nodes))
	for _, r := range v.nodes {
		nodes[r.node.Name] = r
	}
	unmanaged := make(map[string]bool, len(v.snapshot.Nodes)-len(v.nodes))
	for _, n := range v.snapshot.Nodes {
		if nodes[n.Name] == nil {
			unmanaged[n.Name] = true
		}
	}
	loads := make(map[api.Key]int, len(v.loads))
	for i, l := range v.loads {
		loads[l.demand.Key] = i
	}
	overhead := make(map[string]api.Resources, len(v.nodes))

	for i := range v.snapshot.Pods {
		p := &v.snapshot.Pods[i]
		if p.Shape == nil || p.Terminating {
			continue // a terminating pod has left before a node could boot for it
		}
		r := nodes[p.Node]
		if p.DaemonSet || p.Mirror {
			if r != nil {
				overhead[p.Node] = overhead[p.Node].Plus(p.Shape.Requests)
			}
			continue
		}
		load, planned := loads[p.Workload]
		if !planned {
			load = -1
		} else {
			v.loads[load].live++
		}
		if unmanaged[p.Node] || r != nil && r.fixed {
			if planned {
				v.loads[load].elsewhere++
			}
			continue
		}
		v.seat(p, r, load)
	}
	for name, r := range nodes {
		o := overhead[name]
		if !r.node.Ready {
			o = o.Max(v.pools[r.pool].Overhead)
		}
		take(r.free, v.dims.vector(o), 1)
	}
}

// seat places a pod that is not on a node outside our planning: r is its node,
// nil while it has none; load its workload's index, −1 for none.
func (v *view) seat(p *api.Pod, r *resident, load int) {
	zone := ""
	if load >= 0 && r != nil && slices.Contains(v.loads[load].zones, r.node.Zone) && placement.Spreads(p.Shape) {
		zone = r.node.Zone
	}
	var pools []string
	if load >= 0 {
		pools = v.loads[load].demand.Pools
	}
	it, plain := v.seated.item, load >= 0 && zone == "" && p.Zones == nil
	if !plain || v.seated.shape != p.Shape || v.seated.load != load {
		it = v.item(p.Shape, p.Workload, api.PodRef(p.Key), zone, p.Zones, pools)
		if load >= 0 {
			v.keepOff(v.loads[load].demand, it, p.Shape)
		}
	}
	if plain {
		v.seated.shape, v.seated.load, v.seated.item = p.Shape, load, it
	}
	stuck := p.DoNotDisrupt != "" || p.ControllerKind == "" || placement.Unsure(p) != ""
	if r != nil && (r.usable || stuck) {
		elsewhere := len(pools) > 0 && !slices.Contains(pools, v.pools[r.pool].Name)
		leaves := v.items[it].target && (!v.pools[r.pool].target || elsewhere)
		if stuck || !leaves {
			r.movable = r.movable && !stuck
			if !stuck || !leaves {
				r.pods = append(r.pods, tenant{item: it, workload: load})
			}
			take(r.free, v.items[it].requests, 1)
			return
		}
		if v.astray && v.pools[r.pool].target { // it is among its workload's replicas elsewhere, too
			r.movable = false
			take(r.free, v.items[it].requests, 1)
		}
	}
	if load >= 0 {
		if p.Zones != nil { // one of its workload's replicas, in these zones
			w := &v.loads[load]
			if w.bound == nil {
				w.bound = map[int]int32{}
			}
			w.bound[it]++
		}
		return // counted by its workload's replicas
	}
	if p.Gated {
		return // no node helps it
	}
	if p.Node == "" {
		// A pod that no managed pool takes is not ours, but for its volumes' zones.
		ours := len(v.items[it].types) > 0 || p.Unschedulable && len(v.items[v.items[it].copy].types) > 0
		if !ours || !p.Unschedulable && v.welcomeOutside(it) {
			return
		}
	}
	if r == nil && p.Node != "" && p.ControllerKind == "" {
		return // a bare pod goes with its node
	}
	v.others[it]++
}

// welcomeOutside reports whether a node that is not managed accepts an item.
func (v *view) welcomeOutside(it int) bool {
	yes, known := v.welcome[it]
	if !known {
		yes = slices.ContainsFunc(v.outside, func(s placement.Site) bool {
			return s.Admits(v.items[it].shape) && placement.InZones(v.items[it].bound, s.Zone)
		})
		v.welcome[it] = yes
	}
	return yes
}
