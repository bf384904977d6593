package sim

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/experiments/baseline/autoscaler"
	"github.com/mash2-io/mash2/placement"
)

// taintDelay is from the choice of a node to the first eviction: Cluster
// Autoscaler's --node-delete-delay-after-taint.
const taintDelay = 5 * time.Second

// expendablePriority is Cluster Autoscaler's --expendable-pods-priority-cutoff:
// pods below it neither get nodes nor keep them.
const expendablePriority = -10

func expendable(p *pod) bool { return p.workload.priority < expendablePriority }

// scaler carries out what Cluster Autoscaler's rules decide.
type scaler struct {
	c *Cluster
	autoscaler.Autoscaler
}

func newScaler(c *Cluster) *scaler {
	return &scaler{c: c, Autoscaler: autoscaler.Autoscaler{Rules: autoscaler.DefaultRules(), Src: c.rng}}
}

// scan is one loop.
func (a *scaler) scan() {
	c := a.c
	v, zones := a.view()
	d := a.Scan(c.now, v)
	for _, name := range d.GiveUp {
		c.discard(c.nodes[name])
	}
	for _, g := range d.Grow {
		z := zones[g]
		if err := c.grow(z.pool, z.zone); errors.Is(err, errStockout) || errors.Is(err, errQuota) {
			a.GrowthFailed(c.now, v.Groups[g].Name)
		}
	}
	for _, r := range d.Remove {
		a.remove(c.nodes[r.Node], len(r.Evict) > 0)
	}
}

// zoned is a zone of a pool, which the rules call a group.
type zoned struct {
	pool *pool
	zone int
}

// view is the cluster as the rules take it. A pod that waits for the end of
// others of lower priority has its place; these need another then.
func (a *scaler) view() (autoscaler.View, []zoned) {
	c := a.c
	var v autoscaler.View
	var zones []zoned
	index := map[*pool]int{} // of the group of its first zone
	for _, p := range c.pools {
		index[p] = len(zones)
		for i, zone := range p.zones {
			most := p.max
			if most == 0 {
				most = math.MaxInt32
			}
			v.Groups = append(v.Groups, autoscaler.Group{
				Name: p.name + "/" + zone, Pool: p.name, Zone: zone, On: p.autoscaled && c.now >= p.busyUntil, Balanced: true,
				Size: p.sizes[i], Min: p.min, Max: most,
				Template: autoscaler.Node{Group: len(zones), Allocatable: p.allocatable, Capacity: p.capacity, Used: p.overhead},
			})
			zones = append(zones, zoned{p, i})
		}
	}
	workloads := c.workloads
	if c.placeholders != nil {
		workloads = append(slices.Clone(workloads), c.placeholders)
	}
	for i, w := range workloads {
		w.class = i + 1
	}
	unit := func(p *pod) *autoscaler.Pod {
		p.unit = autoscaler.Pod{Requests: p.shape.Requests, Class: p.workload.class}
		if expendable(p) {
			p.unit.Removal = autoscaler.Ignored
		}
		return &p.unit
	}
	for _, n := range c.sorted {
		node := autoscaler.Node{
			Name: n.name, Group: index[n.pool], Registered: n.readyAt >= 0, Ready: n.ready, Booted: n.readyAt >= 0, Requested: n.paid.Requested,
			Allocatable: n.pool.allocatable, Capacity: n.pool.capacity, Used: n.used,
		}
		for i, zone := range n.pool.zones {
			if zone == n.zone {
				node.Group += i
			}
		}
		switch {
		case n.deleting:
			node.Phase = autoscaler.Stopping
		case n.readyAt < 0:
			node.Phase = autoscaler.Coming
		}
		node.Pods = make([]*autoscaler.Pod, len(n.pods))
		for i, p := range n.pods {
			node.Pods[i] = unit(p)
		}
		v.Nodes = append(v.Nodes, node)
	}
	for _, p := range c.waiting() {
		if p.unschedul && !expendable(p) && c.nominated[p] == nil {
			v.Pending = append(v.Pending, unit(p))
		}
	}
	v.Allowed = func(p *autoscaler.Pod, n *autoscaler.Node) bool {
		if n.Registered {
			if real := c.nodes[n.Name]; real.cordoned || real.deleting {
				return false
			}
		}
		return placement.Site{Labels: zones[n.Group].pool.labels}.Admits(workloads[p.Class-1].shape)
	}
	return v, zones
}

// remove evicts a node's pods and removes it when they are gone; an empty one
// goes at once.
func (a *scaler) remove(n *node, evict bool) {
	c := a.c
	n.cordoned = true
	end := func() {
		c.discard(n)
		a.RemovalEnded(c.now, n.name, true)
	}
	if !evict {
		end()
		return
	}
	c.after(taintDelay, func() {
		for _, p := range slices.Clone(n.pods) {
			c.delete(p)
		}
		c.every(c.now+time.Second, time.Second, func() bool {
			if len(n.pods) > 0 {
				return true
			}
			end()
			return false
		})
	})
}
