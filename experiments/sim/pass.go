package sim

import (
	"slices"

	"github.com/mash2-io/mash2/api"
)

// pass is one look of the scheduler at all pending pods, which takes no time: what
// was worked out for a pod holds for the next ones like it, but for what their places
// change.
type pass struct {
	c *Cluster
	// hopeless kinds of pods fit nowhere, and nobody can be ended for them.
	hopeless map[kindOfPod]bool
	// open are the nodes by name that a kind may have had room on.
	open map[kindOfPod][]*node
	// copies of workloads by node and zone.
	copies map[*workload]*copies
	zones  int // how many there are
}

// kindOfPod is what pods that no node was made free for are alike in.
type kindOfPod struct {
	shape    *api.PodShape
	priority int32
}

// copies counts a workload's pods by node and by zone; most is the most on any node
// of a zone.
type copies struct{ nodes, zones, most []int }

func newPass(c *Cluster) *pass {
	s := &pass{c: c}
	var zones []string
	for i, n := range c.sorted {
		if n.at, n.zoneAt = i, slices.Index(zones, n.zone); n.zoneAt < 0 {
			n.zoneAt = len(zones)
			zones = append(zones, n.zone)
		}
	}
	s.zones = len(zones)
	s.forget()
	return s
}

// forget is for when room was made.
func (s *pass) forget() {
	s.hopeless, s.open, s.copies = map[kindOfPod]bool{}, map[kindOfPod][]*node{}, map[*workload]*copies{}
}

func (*pass) kind(p *pod) kindOfPod { return kindOfPod{p.shape, p.workload.priority} }

// bound notes that a pod has a node; held, that one had been made free for it.
func (s *pass) bound(p *pod, n *node, held bool) {
	if held {
		s.forget()
	} else if count := s.copies[p.workload]; count != nil {
		count.add(n)
	}
}

// refused notes that a pod has none.
func (s *pass) refused(p *pod, held bool) {
	if held || s.c.nominated[p] != nil {
		s.forget()
		return
	}
	s.hopeless[s.kind(p)] = true
}

// copiesOf are a workload's pods by now.
func (s *pass) copiesOf(w *workload) *copies {
	count := s.copies[w]
	if count == nil {
		count = &copies{make([]int, len(s.c.sorted)), make([]int, s.zones), make([]int, s.zones)}
		for _, p := range w.pods {
			if p.node != nil && !p.terminating {
				count.add(p.node)
			}
		}
		s.copies[w] = count
	}
	return count
}

func (c *copies) add(n *node) {
	c.nodes[n.at]++
	c.zones[n.zoneAt]++
	c.most[n.zoneAt] = max(c.most[n.zoneAt], c.nodes[n.at])
}

// highest are the most pods on any node together with those of its zone.
func (c *copies) highest() int {
	most := 0
	for zone, count := range c.most {
		most = max(most, count+c.zones[zone])
	}
	return most
}

// place is the node that the scheduler chooses for a pod: the one that was made
// free for it, else of those that fit the one with the highest score. Scores are
// those of the default plugins that decide between nodes of a pool:
// NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation with
// weight 1, PodTopologySpread's system default (ScheduleAnyway by hostname and
// zone) with weight 2; each 0–100.
func (s *pass) place(p *pod) *node {
	c := s.c
	if n := c.nominated[p]; n != nil && c.fits(p, n) {
		return n
	}
	kind := s.kind(p)
	nodes, known := s.open[kind]
	if !known {
		nodes = c.sorted
	}
	var best *node
	bestScore := -1.0
	count := s.copiesOf(p.workload)
	most := count.highest()
	var open []*node
	if known && c.nominated[p] == nil {
		open = nodes[:0]
	}
	for _, n := range nodes {
		if !known && !c.allows(p, n) || !c.hasRoom(p, n) { // of those known all allow it
			continue
		}
		open = append(open, n)
		alloc, after := n.pool.allocatable, n.used.Plus(p.shape.Requests)
		cpu := float64(after.MilliCPU) / float64(alloc.MilliCPU)
		memory := float64(after.Memory) / float64(alloc.Memory)
		score := 100*(1-(cpu+memory)/2) + 100*(1-abs(cpu-memory)/2)
		if most > 0 {
			score += 2 * 100 * (1 - float64(count.nodes[n.at]+count.zones[n.zoneAt])/float64(most))
		}
		if p.prefers != "" && n.pool.name == p.prefers {
			score += 2 * 100 // NodeAffinity has weight 2
		}
		if score > bestScore {
			best, bestScore = n, score
		}
	}
	if c.nominated[p] == nil { // who holds a node fits where others of its kind don't
		s.open[kind] = open
	}
	return best
}
