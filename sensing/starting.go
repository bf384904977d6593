package sensing

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mash2-io/mash2/api"
)

// startingFor is how long after it was made a node that is Ready may still be starting: drivers of
// devices take minutes.
const startingFor = 10 * time.Minute

// starting are the nodes that were Ready and took no pods yet at the last look.
type starting map[nodeID]bool

// leave has nodes that are Ready, but take no pods yet, count as not Ready: those that have just
// come and bear a taint of their start, or lack a device that the others of their pool have. Else
// another node would be bought for the pods that wait for this one. They are Ready from when they
// are seen to take pods. Elements of nodes are replaced, as what they point at is the cache's.
func (s starting) leave(now time.Time, pools []api.Pool, nodes []*nodeRecord) {
	ready := map[string][]*nodeRecord{} // by pool
	young := func(n *nodeRecord) bool { return now.Sub(n.node.Created) < startingFor }
	fresh := len(s) > 0
	for _, n := range nodes {
		if n.node.Ready && n.node.Pool != "" {
			ready[n.node.Pool] = append(ready[n.node.Pool], n)
			fresh = fresh || young(n)
		}
	}
	if !fresh {
		return
	}
	were := maps.Clone(s)
	clear(s)
	for i, n := range nodes {
		if !n.node.Ready {
			continue
		}
		id, at := nodeIDOf(n), slices.IndexFunc(pools, func(p api.Pool) bool { return p.Name == n.node.Pool })
		starts := young(n) && at >= 0 && (tainted(n, pools[at], ready[n.node.Pool]) || lacksDevice(n, pools[at], ready[n.node.Pool], young))
		other := *n
		switch {
		case starts:
			s[id] = true
			other.node.Ready, other.node.ReadyAt = false, time.Time{}
		case were[id]:
			other.node.ReadyAt = now
		default:
			continue
		}
		nodes[i] = &other
	}
}

// tainted reports whether a node bears a taint that will be taken off once it has started: by its key,
// or as the provider doesn't tell of it and not all Ready nodes of its pool bear it.
func tainted(n *nodeRecord, p api.Pool, ready []*nodeRecord) bool {
	return slices.ContainsFunc(n.node.Taints, func(t api.Taint) bool {
		switch {
		case t.Effect == string(corev1.TaintEffectPreferNoSchedule):
			return false
		case ofStart(t):
			return true
		case passing(t) || slices.Contains(p.Taints, t):
			return false
		}
		return slices.ContainsFunc(ready, func(other *nodeRecord) bool { return !slices.Contains(other.node.Taints, t) })
	})
}

// ofStart reports whether a taint is that of a node that starts: the node controller's, a cloud's, an
// agent's that has to run first, or one that is named so for the Cluster Autoscaler.
func ofStart(t api.Taint) bool {
	return strings.HasPrefix(t.Key, "startup-taint.cluster-autoscaler.kubernetes.io/") ||
		slices.ContainsFunc([]string{"not-ready", "uninitialized", "network-unavailable"}, func(end string) bool { return strings.HasSuffix(t.Key, end) })
}

// lasting are taints but for those of a start, which are taken off before pods come: pools may be told
// to give them to each node.
func lasting(taints []api.Taint) []api.Taint {
	return slices.DeleteFunc(slices.Clone(taints), ofStart)
}

// lacksDevice reports whether a node lacks an extended resource that its provider tells of, or that most
// Ready nodes of its pool have which are not young.
func lacksDevice(n *nodeRecord, p api.Pool, ready []*nodeRecord, young func(*nodeRecord) bool) bool {
	settled := slices.DeleteFunc(slices.Clone(ready), young)
	expected := devices(settled)
	for name, amount := range p.Allocatable.Extended {
		if amount > 0 && n.node.Allocatable.Extended[name] == 0 {
			return true
		}
	}
	for name := range expected {
		if n.node.Allocatable.Extended[name] == 0 {
			return true
		}
	}
	return false
}

// devices are the extended resources that most of some nodes have, the least of each: a node whose
// device plugin is away is not what another one will be.
func devices(nodes []*nodeRecord) (out map[string]int64) {
	count, amounts := map[string]int{}, map[string]int64{}
	for _, n := range nodes {
		for name, amount := range n.node.Allocatable.Extended {
			if amount > 0 {
				if count[name]++; count[name] == 1 || amount < amounts[name] {
					amounts[name] = amount
				}
			}
		}
	}
	for name, amount := range amounts {
		if 2*count[name] > len(nodes) {
			if out == nil {
				out = map[string]int64{}
			}
			out[name] = amount
		}
	}
	return out
}
