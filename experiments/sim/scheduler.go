package sim

import (
	"cmp"
	"slices"

	"github.com/mash2-io/mash2/api"
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
			if n := c.place(p.workload); n != nil {
				c.bind(p, n)
			} else if !p.unschedul {
				p.unschedul = true
				c.observe(p)
			}
		}
	})
}

// waiting are the pods without a node, in order of creation.
func (c *Cluster) waiting() []*pod {
	var out []*pod
	for _, p := range c.pods {
		if p.node == nil && !p.terminating {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *pod) int { return cmp.Compare(a.uid, b.uid) })
	return out
}

// place is the node that the scheduler chooses for a pod: of those that fit the
// one with the highest score. Scores are those of the default plugins that
// decide between nodes of a pool: NodeResourcesFit (LeastAllocated) and
// NodeResourcesBalancedAllocation with weight 1, PodTopologySpread's system
// default (ScheduleAnyway by hostname and zone) with weight 2; each 0–100.
func (c *Cluster) place(w *workload) *node {
	var best *node
	bestScore := -1.0
	copies := map[*node]int{}
	zones := map[string]int{}
	most := 0
	for _, p := range c.pods {
		if p.workload == w && p.node != nil && !p.terminating {
			copies[p.node]++
			zones[p.node.zone]++
			most = max(most, copies[p.node]+zones[p.node.zone])
		}
	}
	for _, n := range c.sortedNodes() {
		if !c.fits(w, n) {
			continue
		}
		alloc, after := n.pool.allocatable, n.used.Plus(w.shape.Requests)
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

// fits is the scheduler's filter.
func (c *Cluster) fits(w *workload, n *node) bool {
	if !n.ready || n.cordoned || n.deleting || !selects(w.selector, n.labels) {
		return false
	}
	return room(n.pool.allocatable, n.used.Plus(w.shape.Requests))
}

// room tells whether used is within allocatable.
func room(allocatable, used api.Resources) bool {
	return used.MilliCPU <= allocatable.MilliCPU && used.Memory <= allocatable.Memory && used.Pods <= allocatable.Pods
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
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
