package sensing

import (
	"maps"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
)

// podStartups measures how long pods take from being bound to a node to Ready.
type podStartups struct {
	limit   int
	all     demand.StartupLatencies
	of      map[targetID]*demand.StartupLatencies // of each target's own pods
	counted []string                              // by slot, the UID of a pod that was
}

func newPodStartups(limit int) *podStartups {
	return &podStartups{
		limit: limit, all: demand.StartupLatencies{Limit: limit}, of: map[targetID]*demand.StartupLatencies{},
	}
}

// learn counts each pod of the targets once, at the first sight of it Ready. A pod whose
// containers were started again, or that was not Ready for a while, is left out: its Ready time
// is not its first.
func (l *podStartups) learn(v *view) {
	type startup struct {
		target targetID
		pod    *podRecord
	}
	var fresh []startup
	for i, p := range v.pods {
		if v.ofPod[i] == nil || !p.pod.Ready {
			continue
		}
		if more := int(p.slot) + 1 - len(l.counted); more > 0 {
			l.counted = append(l.counted, make([]string, more)...)
		}
		if l.counted[p.slot] == p.pod.UID {
			continue
		}
		l.counted[p.slot] = p.pod.UID
		if !p.scheduledAt.IsZero() && !p.restarted && !p.recovered {
			fresh = append(fresh, startup{v.ofPod[i].id, p})
		}
	}
	maps.DeleteFunc(l.of, func(id targetID, _ *demand.StartupLatencies) bool { return v.managed[id] == nil })
	slices.SortFunc(fresh, func(a, b startup) int { return a.pod.pod.ReadyAt.Compare(b.pod.pod.ReadyAt) })
	for _, s := range fresh {
		took := s.pod.pod.ReadyAt.Sub(s.pod.scheduledAt)
		l.all.Add(took)
		if l.of[s.target] == nil {
			l.of[s.target] = &demand.StartupLatencies{Limit: l.limit}
		}
		l.of[s.target].Add(took)
	}
}

// lead is that of a target's own pods; zero if none is known.
func (l *podStartups) lead(id targetID) (own api.StartupLatency) {
	if of := l.of[id]; of != nil {
		own = of.Latency(own)
	}
	return own
}

// nodeStartups measures per pool how long nodes take from the growth of the
// pool's target size to Ready.
type nodeStartups struct {
	limit int
	pools map[string]*nodeStartup
	last  time.Time // of the previous look
}

type nodeStartup struct {
	samples demand.StartupLatencies
	size    int32
	asked   []time.Time // of nodes asked for that aren't Ready yet, oldest first
	ready   map[nodeID]bool
}

// nodeID tells a node from another one of the same name, which was created again.
type nodeID struct {
	name    string
	created int64 // nanoseconds since the epoch
}

func nodeIDOf(n *nodeRecord) nodeID { return nodeID{n.node.Name, n.node.Created.UnixNano()} }

func newNodeStartups(limit int) *nodeStartups {
	return &nodeStartups{limit: limit, pools: map[string]*nodeStartup{}}
}

// learn pairs each node that became Ready with the oldest growth that no node
// answered yet. The nodes of the first sight are not paired with anything. A
// growth is dated to the previous look, after which a cycle of ours acts.
func (l *nodeStartups) learn(now time.Time, pools []api.Pool, nodes []*nodeRecord) {
	askedAt := now
	if !l.last.IsZero() {
		askedAt = l.last
	}
	l.last = now
	ready := map[string][]*nodeRecord{}
	for _, n := range nodes {
		if n.node.Ready && n.node.Pool != "" {
			ready[n.node.Pool] = append(ready[n.node.Pool], n)
		}
	}
	for _, p := range pools {
		b, known := l.pools[p.Name]
		if !known {
			b = &nodeStartup{samples: demand.StartupLatencies{Limit: l.limit}, size: p.Nodes()}
			l.pools[p.Name] = b
		}
		for ; b.size < p.Nodes(); b.size++ {
			b.asked = append(b.asked, askedAt)
		}
		if shrunk := int(b.size - p.Nodes()); shrunk > 0 {
			b.asked = b.asked[:max(0, len(b.asked)-shrunk)]
			b.size = p.Nodes()
		}
		members := ready[p.Name]
		slices.SortFunc(members, func(x, y *nodeRecord) int { return x.node.ReadyAt.Compare(y.node.ReadyAt) })
		seen := make(map[nodeID]bool, len(members))
		for _, n := range members {
			id := nodeIDOf(n)
			seen[id] = true
			if !known || b.ready[id] || len(b.asked) == 0 || n.node.ReadyAt.Before(b.asked[0].Truncate(time.Second)) {
				continue
			}
			b.samples.Add(max(0, n.node.ReadyAt.Sub(b.asked[0])))
			b.asked = b.asked[1:]
		}
		// A node that is not Ready for a moment is not a new one after it.
		for _, n := range nodes {
			if n.node.Pool == p.Name && b.ready[nodeIDOf(n)] {
				seen[nodeIDOf(n)] = true
			}
		}
		b.ready = seen
	}
}

func (l *nodeStartups) lead(pool string, prior api.StartupLatency) api.StartupLatency {
	if b, ok := l.pools[pool]; ok {
		return b.samples.Latency(prior)
	}
	return api.StartupLatency{P50: prior.P50, P90: prior.P90}
}
