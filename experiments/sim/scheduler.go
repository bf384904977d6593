package sim

import (
	"cmp"
	"math"
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

// schedule makes the scheduler look at pending pods soon. It does so whenever a
// pod was created or room was made, as its event handlers do.
func (c *Cluster) schedule() {
	if c.scheduling {
		return
	}
	c.scheduling = true
	c.after(c.params.Binding.sample(c.rng), func() {
		c.scheduling = false
		for _, p := range c.waiting() {
			n := c.place(p)
			if n != nil {
				c.bind(p, n)
				continue
			}
			if !p.unschedul {
				p.unschedul = true
				c.observe(p)
			}
			c.preempt(p)
			c.unschedulable(p)
		}
	})
}

// waiting are the pods without a node, in the scheduler's order: higher priority
// first, then by creation.
func (c *Cluster) waiting() []*pod {
	var out []*pod
	for _, p := range c.pods {
		if p.node == nil && !p.terminating {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(b.workload.priority, a.workload.priority), cmp.Compare(a.uid, b.uid))
	})
	return out
}

// place is the node that the scheduler chooses for a pod: the one that was made
// free for it, else of those that fit the one with the highest score. Scores are
// those of the default plugins that decide between nodes of a pool:
// NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation with
// weight 1, PodTopologySpread's system default (ScheduleAnyway by hostname and
// zone) with weight 2; each 0–100.
func (c *Cluster) place(p *pod) *node {
	if n := c.nominated[p]; n != nil && c.fits(p, n) {
		return n
	}
	var best *node
	bestScore := -1.0
	copies, zones, most := c.copies(p.workload)
	for _, n := range c.sortedNodes() {
		if !c.fits(p, n) {
			continue
		}
		alloc, after := n.pool.allocatable, n.used.Plus(p.shape.Requests)
		cpu := float64(after.MilliCPU) / float64(alloc.MilliCPU)
		memory := float64(after.Memory) / float64(alloc.Memory)
		score := 100*(1-(cpu+memory)/2) + 100*(1-abs(cpu-memory)/2)
		if most > 0 {
			score += 2 * 100 * (1 - float64(copies[n]+zones[n.zone])/float64(most))
		}
		if score > bestScore {
			best, bestScore = n, score
		}
	}
	return best
}

// copies counts a workload's pods by node and by zone, and the most that there are
// on any node together with its zone.
func (c *Cluster) copies(w *workload) (nodes map[*node]int, zones map[string]int, most int) {
	nodes, zones = map[*node]int{}, map[string]int{}
	for _, p := range c.pods {
		if p.workload == w && p.node != nil && !p.terminating {
			nodes[p.node]++
			zones[p.node.zone]++
		}
	}
	for n, count := range nodes { // once all are counted: c.pods has no order
		most = max(most, count+zones[n.zone])
	}
	return nodes, zones, most
}

// fits is the scheduler's filter. What a node was made free for is kept for pods
// of no higher priority.
func (c *Cluster) fits(p *pod, n *node) bool {
	return c.allows(p, n) && p.shape.Requests.Fits(n.pool.allocatable.Minus(n.used.Plus(c.reserved(p, n))))
}

// allows is the filter without the room.
func (c *Cluster) allows(p *pod, n *node) bool {
	return n.ready && !n.cordoned && !n.deleting && placement.Site{Name: n.name, Labels: n.labels}.Admits(p.shape)
}

// reserved is what other pods of the same or a higher priority wait for on a node.
func (c *Cluster) reserved(p *pod, n *node) api.Resources {
	var out api.Resources
	for q, at := range c.nominated {
		if q != p && at == n && q.workload.priority >= p.workload.priority {
			out = out.Plus(q.shape.Requests)
		}
	}
	return out
}

// preempt makes room for a pod that fits nowhere by ending pods of lower priority,
// as the scheduler's DefaultPreemption does (pkg/scheduler/framework/plugins/
// defaultpreemption, framework/preemption.SelectCandidate): on each node as few
// as will do, those of the highest priority spared first; of all nodes the one
// where the highest priority among the victims is lowest, then the sum of
// priorities, then their number, then whose most important victim is youngest.
// The pod waits there for their end, and meanwhile preempts nobody else.
func (c *Cluster) preempt(p *pod) {
	if n := c.nominated[p]; n != nil {
		for _, q := range n.pods {
			if q.terminating && q.workload.priority < p.workload.priority && c.allows(p, n) {
				return
			}
		}
		delete(c.nominated, p)
	}
	var best *node
	var victims []*pod
	for _, n := range c.sortedNodes() {
		if !c.allows(p, n) {
			continue
		}
		if v, ok := c.victims(p, n); ok && (best == nil || lesser(v, victims)) {
			best, victims = n, v
		}
	}
	if best == nil {
		return
	}
	for q, at := range c.nominated {
		if at == best && q.workload.priority < p.workload.priority {
			delete(c.nominated, q)
		}
	}
	c.nominated[p] = best
	for _, v := range victims {
		c.delete(v)
	}
}

// victims are the pods of a node that must end for p to fit, most important
// first; false if it would not fit even then.
func (c *Cluster) victims(p *pod, n *node) ([]*pod, bool) {
	used := n.used.Plus(c.reserved(p, n)).Plus(p.shape.Requests)
	var lower []*pod
	for _, q := range n.pods {
		if q.workload.priority < p.workload.priority {
			lower = append(lower, q)
			used = used.Minus(q.held())
		}
	}
	if len(lower) == 0 || !used.Fits(n.pool.allocatable) {
		return nil, false
	}
	slices.SortFunc(lower, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(b.workload.priority, a.workload.priority), cmp.Compare(a.scheduled, b.scheduled), cmp.Compare(a.uid, b.uid))
	})
	var out []*pod
	for _, q := range lower {
		if with := used.Plus(q.held()); with.Fits(n.pool.allocatable) {
			used = with // spared
		} else {
			out = append(out, q)
		}
	}
	return out, true
}

// lesser tells whether the victims a, most important first, are to be preferred
// to b.
func lesser(a, b []*pod) bool {
	sum := func(pods []*pod) (s int64) {
		for _, p := range pods {
			s += int64(p.workload.priority) + math.MaxInt32 + 1
		}
		return s
	}
	if len(a) == 0 || len(b) == 0 {
		return len(a) < len(b)
	}
	return cmp.Or(
		cmp.Compare(a[0].workload.priority, b[0].workload.priority), cmp.Compare(sum(a), sum(b)),
		cmp.Compare(len(a), len(b)), cmp.Compare(b[0].scheduled, a[0].scheduled),
	) < 0
}

func (c *Cluster) sortedNodes() []*node {
	out := make([]*node, 0, len(c.nodes))
	for _, n := range c.nodes {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b *node) int { return cmp.Compare(a.name, b.name) })
	return out
}

func abs(x float64) float64 {
	if x < 0 {
		return -x
	}
	return x
}
