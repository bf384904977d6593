package execution

import "github.com/mash2-io/mash2/api"

// resizeRoom is what nodes and quotas have left while resizes are chosen.
type resizeRoom struct {
	q      *sequencer
	nodes  map[string]api.Resources
	quotas map[string]api.QuotaRoom // by namespace
}

// takes reports whether a pod's node and its namespace's quotas have room for a change, and takes it.
func (r resizeRoom) takes(w *api.Workload, node string, a resize) bool {
	if r.ofQuota(w, a) {
		return false
	}
	if more := a.grows; more.MilliCPU > 0 || more.Memory > 0 {
		left := r.onNode(node)
		if more.MilliCPU > left.MilliCPU || more.Memory > left.Memory {
			return false
		}
		left.MilliCPU, left.Memory = left.MilliCPU-more.MilliCPU, left.Memory-more.Memory
		r.nodes[node] = left
	}
	if w.Sizing.Quota != nil {
		left := r.inQuota(w)
		requests, limits := a.asks()
		left.Requests.MilliCPU, left.Requests.Memory = left.Requests.MilliCPU-requests.MilliCPU, left.Requests.Memory-requests.Memory
		left.Limits.MilliCPU, left.Limits.Memory = left.Limits.MilliCPU-limits.MilliCPU, left.Limits.Memory-limits.Memory
		r.quotas[w.Key.Namespace] = left
	}
	return true
}

// ofQuota reports whether it is a quota that has no room for a change.
func (r resizeRoom) ofQuota(w *api.Workload, a resize) bool {
	if w.Sizing.Quota == nil {
		return false
	}
	left := r.inQuota(w)
	requests, limits := a.asks()
	// What asks for no more of something is let in, however full that is.
	over := func(more, left int64) bool { return more > 0 && more > left }
	return over(requests.MilliCPU, left.Requests.MilliCPU) || over(requests.Memory, left.Requests.Memory) ||
		over(limits.MilliCPU, left.Limits.MilliCPU) || over(limits.Memory, left.Limits.Memory)
}

// asks is what a change asks for besides what there is. What it gives back counts once the kubelet
// has taken it.
func (a resize) asks() (requests, limits api.Amounts) {
	return api.Amounts{MilliCPU: max(0, a.To.MilliCPU-a.From.MilliCPU), Memory: max(0, a.To.Memory-a.From.Memory)},
		api.Amounts{MilliCPU: max(0, a.Limits.MilliCPU-a.had.MilliCPU), Memory: max(0, a.Limits.Memory-a.had.Memory)}
}

func (r resizeRoom) inQuota(w *api.Workload) api.QuotaRoom {
	left, known := r.quotas[w.Key.Namespace]
	if !known {
		left = *w.Sizing.Quota
	}
	return left
}

// onNode is what a node has left; nothing of one that isn't known.
func (r resizeRoom) onNode(name string) api.Resources {
	left, known := r.nodes[name]
	if n := r.q.nodes[name]; !known && n != nil {
		left = n.Allocatable
		for _, p := range r.q.podsOn[name] {
			if p.Shape != nil {
				left = left.Minus(p.Shape.Requests)
			}
		}
	}
	return left
}
