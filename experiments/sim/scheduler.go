package sim

import (
	"cmp"
	"iter"
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
		pass := newPass(c)
		for _, p := range c.waiting() {
			if c.unaware != nil {
				if n := c.unaware(p); n != nil {
					c.bind(p, n)
					pass.bound(p, n, false)
					continue
				}
			}
			held := c.nominated[p] != nil
			if held || !pass.hopeless[pass.kind(p)] {
				if n := pass.place(p); n != nil {
					c.bind(p, n)
					pass.bound(p, n, held)
					continue
				}
			}
			if !p.unschedul {
				p.unschedul = true
				c.observe(p)
			}
			if held || !pass.hopeless[pass.kind(p)] {
				c.preempt(p)
				pass.refused(p, held)
			}
			c.unschedulable(p)
		}
	})
}

// waiting are the pods without a node, in the scheduler's order: higher priority
// first, then by creation.
func (c *Cluster) waiting() []*pod {
	c.loose = slices.DeleteFunc(c.loose, func(p *pod) bool { return !p.loose })
	out := slices.Clone(c.loose)
	slices.SortStableFunc(out, func(a, b *pod) int { return cmp.Compare(b.workload.priority, a.workload.priority) })
	return out
}

// fits is the scheduler's filter. What a node was made free for is kept for pods
// of no higher priority.
func (c *Cluster) fits(p *pod, n *node) bool {
	return c.allows(p, n) && c.hasRoom(p, n)
}

func (c *Cluster) hasRoom(p *pod, n *node) bool {
	used := n.used
	if len(c.nominated) > 0 {
		used = used.Plus(c.reserved(p, n))
	}
	return p.shape.Requests.Fits(n.pool.allocatable.Minus(used))
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
	if !c.anyBelow(p.workload.priority) {
		return
	}
	var best *node
	var victims []*pod
	for _, n := range c.sorted {
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

// anyBelow reports whether there are workloads of lower priority.
func (c *Cluster) anyBelow(priority int32) bool {
	below := func(w *workload) bool { return w.priority < priority }
	return slices.ContainsFunc(c.workloads, below) || c.placeholders != nil && below(c.placeholders)
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

// all pods, those of a workload in order of creation, which is nearly that of their names.
func (c *Cluster) all() []*pod {
	out := make([]*pod, 0, len(c.pods))
	for _, w := range c.workloads {
		out = append(out, w.pods...)
	}
	if c.placeholders != nil {
		out = append(out, c.placeholders.pods...)
	}
	return out
}

// running are the workloads' pods whose container runs.
func (c *Cluster) running() iter.Seq[*pod] {
	return func(yield func(*pod) bool) {
		for _, w := range c.workloads {
			for _, p := range w.pods {
				if p.phase == running && !yield(p) {
					return
				}
			}
		}
	}
}

func abs(x float64) float64 {
	if x < 0 {
		return -x
	}
	return x
}
