package sim

import (
	"fmt"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// resizeWorkload changes the CPU request and limit, cores, and the memory request, bytes, of a
// workload's pods in place, without a restart, and those of pods to come: what the resize subresource of
// each pod and a webhook for new ones do, as VPA's InPlaceOrRecreate has it.
func (c *Cluster) resizeWorkload(w *workload, request, limit float64, memory int64) {
	if w.request == request && w.limit == limit && w.shape.Requests.Memory == memory {
		return
	}
	requests := w.shape.Requests
	requests.MilliCPU, requests.Memory = int64(request*1000+0.5), memory
	w.shape = &api.PodShape{ID: fmt.Sprintf("%s-%dm-%d", w.key.Name, requests.MilliCPU, memory), Requests: requests, NodeSelector: w.shape.NodeSelector}
	w.request, w.limit = request, limit
	for _, p := range w.pods {
		if !p.terminating {
			c.resizePod(p, w.shape, request, limit)
		}
	}
}

// resizePod writes a new size into a pod's spec. The scheduler counts with the
// larger of what the spec asks for and what is granted from then on
// (pkg/scheduler, UseStatusResources), so that a pod that shrinks keeps its place
// until it has shrunk, and one that grows has it before.
func (c *Cluster) resizePod(p *pod, shape *api.PodShape, request, limit float64) {
	n := p.node
	c.resizes = append(c.resizes, c.now)
	if n == nil {
		p.shape, p.request, p.limit = shape, request, limit
		c.observe(p)
		c.schedule()
		return
	}
	n.used = n.used.Minus(p.held())
	p.shape, p.request, p.limit = shape, request, limit
	n.used = n.used.Plus(p.held())
	c.observe(p)
	c.grantResize(p)
}

// held is what the scheduler takes to be used by a pod. One that asks for more
// than its node could ever give (Infeasible) holds what it has.
func (p *pod) held() api.Resources {
	if p.node == nil || !p.shape.Requests.Fits(p.node.pool.allocatable) {
		return p.allocated
	}
	out := p.shape.Requests
	out.MilliCPU = max(out.MilliCPU, p.allocated.MilliCPU)
	out.Memory = max(out.Memory, p.allocated.Memory)
	return out
}

// grantResize is the kubelet's decision (pkg/kubelet/allocation): a resize that
// fits beside what the node's other pods were granted is carried out, its cgroup
// follows soon; one that does not is deferred, and looked at again whenever
// something leaves the node.
func (c *Cluster) grantResize(p *pod) {
	n := p.node
	if p.terminating || n.deleting || sameSize(p.allocated, p.shape.Requests) && c.inForce(p) {
		return
	}
	granted := n.pool.overhead
	for _, q := range n.pods {
		if q != p {
			granted = granted.Plus(q.allocated)
		}
	}
	if !granted.Plus(p.shape.Requests).Fits(n.pool.allocatable) {
		return
	}
	n.used = n.used.Minus(p.held())
	p.allocated = p.shape.Requests
	n.used = n.used.Plus(p.held())
	request, limit := p.request, p.limit
	c.after(c.params.Resize.sample(c.rng), func() {
		if c.pods[p.uid] == p && p.request == request && p.limit == limit {
			c.traffic.ResizePod(p.uid, request, limit)
		}
	})
	c.retryResizes(n)
	c.schedule()
}

// inForce tells whether a pod's cgroup has the size of its spec; one that has not
// started yet will.
func (c *Cluster) inForce(p *pod) bool {
	state, ok := c.traffic.PodState(p.uid)
	return !ok || state.Request == p.request && state.Limit == p.limit
}

// retryResizes looks at a node's deferred resizes again, oldest pods first.
func (c *Cluster) retryResizes(n *node) {
	for _, p := range slices.Clone(n.pods) {
		if !sameSize(p.allocated, p.shape.Requests) {
			c.grantResize(p)
		}
	}
}

func sameSize(a, b api.Resources) bool { return a.MilliCPU == b.MilliCPU && a.Memory == b.Memory }
