package sim

import (
	"cmp"
	"slices"
	"time"
)

// AutoscalerRules are Cluster Autoscaler's parameters that decide here, under
// the names of its flags and with their defaults; experiments/gkesim has the
// same with all others.
type AutoscalerRules struct {
	ScanInterval, ScaleDownDelayAfterAdd, ScaleDownUnneededTime time.Duration
	ScaleDownUtilizationThreshold                               float64
	MaxEmptyBulkDelete                                          int
	// TaintDelay is from the choice of a node to the first eviction.
	TaintDelay time.Duration
}

// DefaultAutoscalerRules are Cluster Autoscaler's.
func DefaultAutoscalerRules() AutoscalerRules {
	return AutoscalerRules{
		ScanInterval: 10 * time.Second, ScaleDownDelayAfterAdd: 10 * time.Minute, ScaleDownUnneededTime: 10 * time.Minute,
		ScaleDownUtilizationThreshold: 0.5, MaxEmptyBulkDelete: 10, TaintDelay: 5 * time.Second,
	}
}

// autoscaler grows pools for pods that found no node, and drains and removes
// nodes that have been little used.
type autoscaler struct {
	c        *Cluster
	rules    AutoscalerRules
	lastAdd  time.Duration
	unneeded map[*node]time.Duration
}

func newAutoscaler(c *Cluster, rules AutoscalerRules) *autoscaler {
	return &autoscaler{c: c, rules: rules, lastAdd: -rules.ScaleDownDelayAfterAdd, unneeded: map[*node]time.Duration{}}
}

// scan is one loop.
func (a *autoscaler) scan() {
	if !a.scaleUp() {
		a.scaleDown()
	}
}

// scaleUp packs the pods without a node on the nodes that are on their way and
// then, first fit, on new ones of the autoscaled pool that leaves the least
// CPU and memory unused (the least-waste expander).
func (a *autoscaler) scaleUp() bool {
	c := a.c
	var waiting []*pod
	for _, p := range c.pods {
		if p.node == nil && p.unschedul && !p.terminating {
			waiting = append(waiting, p)
		}
	}
	if len(waiting) == 0 {
		return false
	}
	slices.SortFunc(waiting, func(x, y *pod) int { return cmp.Compare(x.uid, y.uid) })
	var best *pool
	var bestNodes int
	bestWaste := 2.0
	for _, p := range c.pools {
		if !p.autoscaled || c.now < p.busyUntil {
			continue
		}
		open := 0 // nodes on their way
		for _, n := range c.nodes {
			if n.pool == p && !n.ready && !n.deleting {
				open++
			}
		}
		bins := make([]int64, open) // millicores used beyond the DaemonSets'
		memory := make([]int64, open)
		free, freeMemory := p.allocatable.MilliCPU-p.overhead.MilliCPU, p.allocatable.Memory-p.overhead.Memory
		var cpu, mem int64
		for _, w := range waiting {
			r := w.workload.shape.Requests
			if r.MilliCPU > free || r.Memory > freeMemory || !a.selected(w.workload, p) {
				continue
			}
			i := slices.IndexFunc(bins, func(used int64) bool { return used+r.MilliCPU <= free })
			for i >= 0 && (bins[i]+r.MilliCPU > free || memory[i]+r.Memory > freeMemory) {
				i++
				if i == len(bins) {
					i = -1
				}
			}
			if i < 0 {
				bins, memory = append(bins, 0), append(memory, 0)
				i = len(bins) - 1
			}
			bins[i] += r.MilliCPU
			memory[i] += r.Memory
			if i >= open {
				cpu += r.MilliCPU
				mem += r.Memory
			}
		}
		if n := len(bins) - open; n > 0 {
			waste := 1 - (float64(cpu)/float64(int64(n)*p.allocatable.MilliCPU)+float64(mem)/float64(int64(n)*p.allocatable.Memory))/2
			if waste < bestWaste {
				best, bestNodes, bestWaste = p, n, waste
			}
		}
	}
	if best == nil {
		return false
	}
	grown := false
	for range bestNodes {
		zone := 0
		for i := range best.zones {
			if best.sizes[i] < best.sizes[zone] {
				zone = i
			}
		}
		if best.max > 0 && best.sizes[zone] >= best.max || c.grow(best, zone) != nil {
			break
		}
		grown = true
	}
	if grown {
		a.lastAdd = c.now
	}
	return grown
}

func (a *autoscaler) selected(w *workload, p *pool) bool {
	want, ok := w.selector["cloud.google.com/gke-nodepool"]
	return !ok || want == p.name
}

// scaleDown drains one node, or removes some empty ones, that were below the
// threshold for long enough and whose pods fit elsewhere.
func (a *autoscaler) scaleDown() {
	c := a.c
	seen := map[*node]bool{}
	var idle []*node
	for _, n := range c.sortedNodes() {
		p := n.pool
		if !p.autoscaled || !n.ready || n.deleting || n.cordoned {
			continue
		}
		zone := slices.Index(p.zones, n.zone)
		used := max(float64(n.used.MilliCPU)/float64(p.allocatable.MilliCPU), float64(n.used.Memory)/float64(p.allocatable.Memory))
		if p.sizes[zone] <= p.min || used >= a.rules.ScaleDownUtilizationThreshold || !a.movable(n) {
			continue
		}
		seen[n] = true
		if _, ok := a.unneeded[n]; !ok {
			a.unneeded[n] = c.now
		}
		idle = append(idle, n)
	}
	for n := range a.unneeded {
		if !seen[n] {
			delete(a.unneeded, n)
		}
	}
	if c.now < a.lastAdd+a.rules.ScaleDownDelayAfterAdd {
		return
	}
	removed, drained := 0, false
	for _, n := range idle {
		zone := slices.Index(n.pool.zones, n.zone)
		if c.now-a.unneeded[n] < a.rules.ScaleDownUnneededTime || n.pool.sizes[zone] <= n.pool.min {
			continue
		}
		switch {
		case len(n.pods) == 0 && removed < a.rules.MaxEmptyBulkDelete:
			removed++
			delete(a.unneeded, n)
			c.discard(n)
		case len(n.pods) > 0 && !drained:
			drained = true
			delete(a.unneeded, n)
			a.drain(n)
		}
	}
}

// movable tells whether a node's pods all fit on others.
func (a *autoscaler) movable(n *node) bool {
	free := map[*node]int64{}
	for _, other := range a.c.sortedNodes() {
		if other != n && other.ready && !other.cordoned && !other.deleting {
			free[other] = other.pool.allocatable.MilliCPU - other.used.MilliCPU
		}
	}
	for _, p := range a.c.podsOn(n) {
		placed := false
		for _, other := range a.c.sortedNodes() {
			need := p.workload.shape.Requests.MilliCPU
			if room, ok := free[other]; ok && room >= need && selects(p.workload.selector, other.labels) {
				free[other] -= need
				placed = true
				break
			}
		}
		if !placed {
			return false
		}
	}
	return true
}

// drain evicts a node's pods and removes it when they are gone.
func (a *autoscaler) drain(n *node) {
	c := a.c
	n.cordoned = true
	c.after(a.rules.TaintDelay, func() {
		for _, p := range c.podsOn(n) {
			c.delete(p)
		}
		c.every(c.now+time.Second, time.Second, func() bool {
			if len(n.pods) > 0 {
				return true
			}
			c.discard(n)
			return false
		})
	})
}
