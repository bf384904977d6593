package autoscaler

import (
	"cmp"
	"slices"
	"time"
)

// candidate is a node that may not be needed.
type candidate struct {
	*slot
	moved []*Pod // the pods that have to be evicted
}

// scaleDown keeps the list of unneeded nodes and removes those that have been
// unneeded for long enough.
func (s *scan) scaleDown() {
	s.tidy()
	found := s.findUnneeded()
	since := make(map[string]time.Duration, len(found))
	for _, n := range found {
		since[n.Name] = s.now
		if t, ok := s.unneeded[n.Name]; ok {
			since[n.Name] = t
		}
	}
	s.unneeded = since
	if s.grown && s.now < s.lastAdd+s.Rules.ScaleDownDelayAfterAdd || s.failed && s.now < s.lastFailure+s.Rules.ScaleDownDelayAfterFailure {
		return
	}
	leaving, drains := make([]int32, len(s.Groups)), 0
	for i := range s.Nodes {
		n := &s.Nodes[i]
		evicts, ok := s.removing[n.Name]
		if ok && n.Group >= 0 && n.Phase != Stopping {
			leaving[n.Group]++ // still counts towards the target
		}
		if ok && evicts {
			drains++
		}
	}
	for _, n := range found {
		wait := s.Rules.ScaleDownUnneededTime
		if !n.Ready {
			wait = s.Rules.ScaleDownUnreadyTime
		}
		g := &s.Groups[n.Group]
		pending := leaving[n.Group]
		if g.PoolMax > 0 {
			pending = 0
			for i := range s.Groups {
				if s.Groups[i].Pool == g.Pool {
					pending += leaving[i]
				}
			}
		}
		if s.now-s.unneeded[n.Name] < wait || s.slack(n.Group) <= pending ||
			len(s.removing) >= s.Rules.MaxScaleDownParallelism || len(n.moved) > 0 && drains >= s.Rules.MaxDrainParallelism {
			continue
		}
		if len(n.moved) > 0 {
			drains++
		}
		s.removing[n.Name] = len(n.moved) > 0
		leaving[n.Group]++
		s.Remove = append(s.Remove, Removed{Node: n.Name, Evict: n.moved})
	}
}

// tidy forgets what is remembered of nodes that are no more, and the pauses that
// are over.
func (s *scan) tidy() {
	if len(s.unremovable) == 0 && len(s.removing) == 0 {
		return
	}
	there := make(map[string]bool, len(s.Nodes))
	for i := range s.Nodes {
		there[s.Nodes[i].Name] = true
	}
	for name, until := range s.unremovable {
		if !there[name] || s.now >= until {
			delete(s.unremovable, name)
		}
	}
	for name := range s.removing {
		if !there[name] {
			delete(s.removing, name)
		}
	}
}

// findUnneeded returns the nodes that are little used and whose pods all fit
// elsewhere, each given that those before it are gone. Nodes without pods to
// move come first, then those that were unneeded before.
func (s *scan) findUnneeded() []candidate {
	var out, candidates []candidate
	for _, n := range s.slots {
		if n.coming || n.Group < 0 || n.Phase != Running || n.Kept || s.Removing(n.Name) {
			continue
		}
		if _, recent := s.unremovable[n.Name]; recent || !s.Groups[n.Group].On || s.slack(n.Group) == 0 ||
			n.Ready && n.utilization() >= s.Rules.ScaleDownUtilizationThreshold {
			continue
		}
		moved, ok := n.movable()
		if !ok {
			s.cannot(n.Name)
			continue
		}
		candidates = append(candidates, candidate{slot: n, moved: moved})
	}
	rank := func(c candidate) int {
		_, before := s.unneeded[c.Name]
		switch {
		case len(c.moved)+len(c.guests) == 0:
			return 0
		case before:
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(rank(a), rank(b)) })

	// Pods go to nodes that are there: not to those on the way, nor to those
	// being removed, which carry the taint or are about to.
	rest := rowOf(slices.DeleteFunc(slices.Clone(s.slots), func(n *slot) bool { return n.coming || s.Removing(n.Name) }))
	for _, c := range candidates {
		// What was placed here in this scan has to move on too.
		pods := slices.Concat(c.moved, c.guests)
		c.gone = true
		var placed []*slot
		for _, p := range pods {
			at := s.place(rest, p)
			if at == nil {
				break
			}
			placed = append(placed, at)
		}
		if len(placed) < len(pods) {
			for _, at := range slices.Backward(placed) {
				rest.take(at)
			}
			c.gone = false
			rest.opened(c.slot)
			s.cannot(c.Name)
			continue
		}
		out = append(out, c)
	}
	return out
}

// cannot notes a node whose pods can't move now.
func (s *scan) cannot(node string) {
	s.unremovable[node] = s.now + s.Rules.UnremovableNodeRecheckTimeout
}

// movable are the pods that have to go elsewhere before a node is removed; not
// ok if one of its pods forbids it.
func (n *Node) movable() (moved []*Pod, ok bool) {
	for _, p := range n.Pods {
		switch p.Removal {
		case Forbids:
			return nil, false
		case Moves:
			moved = append(moved, p)
		}
	}
	return moved, true
}

// utilization is the larger of the requested shares of CPU and memory
// (simulator/utilization/info.go; DaemonSets' pods count).
func (sl *slot) utilization() float64 {
	u := 0.0
	if sl.Allocatable.MilliCPU > 0 {
		u = float64(sl.used.MilliCPU) / float64(sl.Allocatable.MilliCPU)
	}
	if sl.Allocatable.Memory > 0 {
		u = max(u, float64(sl.used.Memory)/float64(sl.Allocatable.Memory))
	}
	return u
}
