package planning

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// ReasonResizedByOther is that of a finding which tells that somebody else has resized a
// pool.
const ReasonResizedByOther = "PoolResizedByOther"

const (
	// handsOff is how long a pool that somebody else has resized is not made smaller.
	handsOff = 30 * time.Minute
	// askedFor is how long a size that was asked for may come to be seen.
	askedFor = 15 * time.Minute
)

// PoolMemory is what a pool was like, and was to be.
type PoolMemory struct {
	Pool string `json:"pool"`
	// Sizes per zone when it was looked at last.
	Sizes []int32 `json:"sizes,omitempty"`
	// Asked are sizes per zone that were asked for of late, in order.
	Asked []AskedSize `json:"asked,omitempty"`
	// Resized is when somebody else had resized it, From and To are the sizes of its
	// largest zone before and after; zero if nobody has of late.
	Resized time.Time `json:"resized,omitzero"`
	From    int32     `json:"from,omitempty"`
	To      int32     `json:"to,omitempty"`
	// Past sizes per zone, oldest first, while some workload has SLOs.
	Past []PastSize `json:"past,omitempty"`
	// Needed are sizes per zone that were planned, each with when last, the largest first:
	// only those that none larger was planned after.
	Needed []AskedSize `json:"needed,omitempty"`
}

// AskedSize is a size per zone that was asked for, at last at a time.
type AskedSize struct {
	PerZone int32     `json:"perZone"`
	At      time.Time `json:"at"`
}

// watchPools remembers what managed pools are like, and finds those that somebody else
// has resized: mash2 takes a zone's size from what it was towards what was asked for, and
// never beyond either. A new policy looks at them afresh.
func watchPools(before Memory, s api.Snapshot, p api.Policy) []PoolMemory {
	var out []PoolMemory
	for _, pool := range s.Pools {
		if !slices.Contains(p.ManagedPools, pool.Name) || pool.Autoscaled {
			continue
		}
		i := slices.IndexFunc(before.Pools, func(m PoolMemory) bool { return m.Pool == pool.Name })
		if i < 0 {
			m := PoolMemory{Pool: pool.Name, Sizes: slices.Clone(pool.Sizes)}
			m.needs(largest(pool.Sizes), s.Time) // what is there was for something
			out = append(out, m)
			continue
		}
		m := before.Pools[i]
		if before.Policy != p.Name || s.Time.Sub(m.Resized) >= handsOff {
			m.Resized, m.From, m.To = time.Time{}, 0, 0
		}
		if pool.Hold == "" { // else its size is not its last one
			if pool.Error == nil && m.foreign(pool.Sizes) {
				m.Resized, m.From, m.To = s.Time, largest(m.Sizes), largest(pool.Sizes)
			}
			m.Sizes = slices.Clone(pool.Sizes)
			m.Asked = slices.DeleteFunc(slices.Clone(m.Asked), func(a AskedSize) bool { return s.Time.Sub(a.At) >= askedFor })
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b PoolMemory) int { return cmp.Compare(a.Pool, b.Pool) })
	return out
}

// Unwatched is m without what pools were like and who resized them: in another world than
// the one that m is of that says nothing.
func (m Memory) Unwatched() Memory {
	pools := make([]PoolMemory, len(m.Pools))
	for i, p := range m.Pools {
		pools[i] = PoolMemory{Pool: p.Pool, Needed: p.Needed}
	}
	m.Pools = pools
	return m
}

// foreign reports whether mash2 alone can't have led to these sizes.
func (m PoolMemory) foreign(sizes []int32) bool {
	if len(sizes) != len(m.Sizes) {
		return false // another set of zones
	}
	high := largest(m.Sizes)
	for _, a := range m.Asked {
		high = max(high, a.PerZone)
	}
	for i, size := range sizes {
		low := m.Sizes[i]
		for _, a := range m.Asked {
			low = min(low, a.PerZone)
		}
		if size < low || size > high {
			return true
		}
	}
	return false
}

// asked notes a size per zone that is asked for.
func (m *PoolMemory) asked(perZone int32, at time.Time) {
	m.Asked = slices.DeleteFunc(slices.Clone(m.Asked), func(a AskedSize) bool { return a.PerZone == perZone })
	m.Asked = append(m.Asked, AskedSize{perZone, at})
}

// keepResized keeps a pool that somebody else has resized from being made smaller, and
// remembers what is asked for. What pods need is added all the same.
func (c *cycle) keepResized(pp *api.PoolPlan, pool api.Pool, to assignment) {
	i := slices.IndexFunc(c.memory.Pools, func(m PoolMemory) bool { return m.Pool == pool.Name })
	if i < 0 {
		return
	}
	m := &c.memory.Pools[i]
	if !m.Resized.IsZero() {
		until := m.Resized.Add(handsOff).UTC().Format(time.RFC3339)
		c.find(api.Warning, api.NodePlanningAgent, ReasonResizedByOther, api.PoolRef(pool.Name), fmt.Sprintf(
			"somebody else resized it at %s, from %d to %d nodes per zone: mash2 does not make it smaller before %s, or until the policy changes",
			m.Resized.UTC().Format(time.RFC3339), m.From, m.To, until))
		pp.Surplus = nil
		// A pool in use of which no node is surplus stays as it is. To name the largest of
		// several zones would make the others grow.
		even := !slices.ContainsFunc(pool.Sizes, func(n int32) bool { return n != pool.Sizes[0] })
		if size := largest(pool.Sizes); size > pp.SizePerZone && (even || to.uses(pool.Name) < 0) {
			pp.Reason = fmt.Sprintf("kept at %d nodes per zone before %s, as somebody else resized it (%d are wanted)", size, until, pp.SizePerZone)
			pp.SizePerZone, pp.Nodes = size, size*int32(max(1, len(pool.Zones)))
		}
	}
	if pool.Hold != "" {
		return // what is planned is its size, whosever it is
	}
	m.asked(pp.SizePerZone, c.s.Time)
	left := func(n api.Node) bool { return to.uses(n.Pool) < 0 && slices.Contains(c.p.ManagedPools, n.Pool) }
	if to.uses(pool.Name) >= 0 && slices.ContainsFunc(c.s.Nodes, left) {
		// A move may take a tenth more nodes, so that first fit finds all places.
		m.asked(pp.SizePerZone+max(1, pp.SizePerZone/10), c.s.Time)
	}
}
