package planning

import (
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// A node that the plan can do without is not without its price: to empty it moves pods, and
// should it be needed again soon they were moved for nothing. Execution waits until it has
// cost as much as that. What is told here is since when it has been of no use.

// neededFor is how long a size that was planned is remembered.
const neededFor = time.Hour

// needs notes a size per zone that is planned.
func (m *PoolMemory) needs(perZone int32, at time.Time) {
	m.Needed = slices.DeleteFunc(slices.Clone(m.Needed), func(a AskedSize) bool { return a.PerZone <= perZone || at.Sub(a.At) >= neededFor })
	m.Needed = append(m.Needed, AskedSize{perZone, at})
}

// doesWith is since when no more than so many nodes per zone were planned; zero for longer
// than is remembered.
func (m *PoolMemory) doesWith(perZone int32) time.Time {
	var since time.Time
	for _, a := range m.Needed {
		if a.PerZone > perZone {
			since = a.At
		}
	}
	return since
}

// surplusSince tells of each surplus node since when the plan has done without it.
func (c *cycle) surplusSince(pp *api.PoolPlan, pool api.Pool) {
	i := slices.IndexFunc(c.memory.Pools, func(m PoolMemory) bool { return m.Pool == pool.Name })
	if i < 0 {
		return
	}
	m := &c.memory.Pools[i]
	m.needs(pp.SizePerZone, c.s.Time)
	pp.SurplusSince = nil
	zones := max(1, len(pool.Zones))
	rounds := (len(pp.Surplus) + zones - 1) / zones // of one node in each zone
	for n := range pp.Surplus {
		left := rounds - 1 - n/zones // rounds after this one
		pp.SurplusSince = append(pp.SurplusSince, m.doesWith(pp.SizePerZone+int32(left)))
	}
}
