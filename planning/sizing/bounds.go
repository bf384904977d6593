package sizing

import (
	"fmt"
	"math"

	"github.com/mash2-io/mash2/api"
)

// allowed is between what a container may request: what is stated, and within what the
// LimitRanges of its namespace let in.
func (c *chooser) allowed(u api.ContainerUse) (least, most api.Amounts) {
	least, most = stated(u)
	r, lowers := u.Range, c.lowersLimits()
	least.MilliCPU, most.MilliCPU = ranged(least.MilliCPU, most.MilliCPU, u.Requests.MilliCPU, u.Limits.MilliCPU, r.Least.MilliCPU, r.Most.MilliCPU, 1, r.CPURatio, lowers)
	least.Memory, most.Memory = ranged(least.Memory, most.Memory, u.Requests.Memory, u.Limits.Memory, r.Least.Memory, r.Most.Memory, memoryStep, r.MemoryRatio, lowers)
	return least, most
}

// atRange reports whether a request that was chosen is about what a LimitRange allows, where
// what is stated would allow more.
func atRange(u api.ContainerUse, is, least, most api.Amounts) bool {
	const near = 1.05 // what is tried is about as far apart
	at := func(is, authors, least, most, statedLeast, statedMost int64) bool {
		return is != authors && (least > statedLeast && float64(is) <= near*float64(least) || most < statedMost && near*float64(is) >= float64(most))
	}
	from, to := stated(u)
	return at(is.MilliCPU, u.Requests.MilliCPU, least.MilliCPU, most.MilliCPU, from.MilliCPU, to.MilliCPU) ||
		at(is.Memory, u.Requests.Memory, least.Memory, most.Memory, from.Memory, to.Memory)
}

// ranged narrows what may be requested to what a LimitRange lets in with the limit that
// follows from it. What its author requests stays allowed: a LimitRange that came later
// takes nothing from running pods. With lowers the limit moves with every request.
func ranged(least, most, authors, limit, rangeLeast, rangeMost, step int64, rangeRatio float64, lowers bool) (int64, int64) {
	if rangeRatio > 0 && limit > 0 && !lowers {
		rangeLeast = max(rangeLeast, int64(math.Ceil(float64(limit)/rangeRatio)))
	}
	if rangeMost > 0 {
		over := 1.0 // of the limit over the request
		if limit > 0 {
			over = float64(limit) / math.Max(float64(authors), 1)
		}
		if limit > 0 && limit != authors && !lowers {
			// Until it is too near, the limit stays.
			rangeMost = max(int64(float64(rangeMost)/math.Max(over, burstable)), int64(float64(limit)/burstable))
		} else {
			rangeMost = int64(float64(rangeMost) / over)
		}
		most = min(most, max(rangeMost/step*step, authors))
	}
	least = max(least, min(roundUp(float64(rangeLeast), step), authors))
	return least, max(most, least)
}

// stated is between what a container may request by what is said of it.
func stated(u api.ContainerUse) (least, most api.Amounts) {
	least, most = u.Least, u.Most
	or := func(stated *int64, otherwise, step int64) {
		if *stated == 0 {
			*stated = roundUp(float64(otherwise), step)
		}
	}
	or(&least.MilliCPU, max(u.Requests.MilliCPU/apart, min(leastCPU, u.Requests.MilliCPU)), 1)
	or(&least.Memory, u.Requests.Memory/apart, memoryStep)
	or(&most.MilliCPU, u.Requests.MilliCPU*apart, 1)
	or(&most.Memory, u.Requests.Memory*apart, memoryStep)
	most.MilliCPU, most.Memory = max(most.MilliCPU, least.MilliCPU), max(most.Memory, least.Memory)
	return least, most
}

// fit lets requests grow as far as a machine has room for a replica: one that none can hold helps nobody.
// What its author wrote, and what it had, may run where no plan knows of.
func (c *chooser) fit() {
	all, beside := requests(c.now), c.in.Sizing.Beside
	if len(c.in.Machines) == 0 {
		return
	}
	var had api.Amounts
	for i := range c.now {
		is := c.had(i)
		had.MilliCPU, had.Memory = had.MilliCPU+is.MilliCPU, had.Memory+is.Memory
	}
	var best, room api.Amounts
	holds, most := false, -1.0
	for _, m := range c.in.Machines {
		left := api.Amounts{MilliCPU: m.Room.MilliCPU - beside.MilliCPU, Memory: m.Room.Memory - beside.Memory}
		if all.MilliCPU <= left.MilliCPU && all.Memory <= left.Memory {
			return
		}
		// One that holds what it had comes first, then the one that has the most of what is wanted.
		of := func(has, wants int64) float64 { return math.Min(float64(has)/math.Max(float64(wants), 1), 1) }
		held, share := had.MilliCPU <= left.MilliCPU && had.Memory <= left.Memory, of(left.MilliCPU, all.MilliCPU)+of(left.Memory, all.Memory)
		if held && !holds || held == holds && share > most {
			best, room, holds, most = m.Room, left, held, share
		}
	}
	both := ""
	if len(c.in.Machines) > 1 {
		both = " of both"
	}
	c.waits = fmt.Sprintf("%s are wanted, but no machine has more than %s%s for a pod", all, best, both)
	if beside != (api.Amounts{}) {
		c.waits += fmt.Sprintf(", %s of it for what else is in it", beside)
	}
	c.grow(room.MilliCPU, cpuStep, func(a *api.Amounts) *int64 { return &a.MilliCPU })
	c.grow(room.Memory, memoryStep, func(a *api.Amounts) *int64 { return &a.Memory })
}

// had is what a container requested before, or its author wrote, whatever is more, as far as it wants that.
func (c *chooser) had(i int) api.Amounts {
	wants, was, author := c.now[i].Requests, c.was[i].Requests, c.in.Sizing.Containers[i].Requests
	return api.Amounts{
		MilliCPU: min(wants.MilliCPU, max(was.MilliCPU, author.MilliCPU)), Memory: min(wants.Memory, max(was.Memory, author.Memory)),
	}
}

// grow shares out what a machine has of a resource among the containers that want more of it than they had
// and than their author wrote.
func (c *chooser) grow(room, step int64, of func(*api.Amounts) *int64) {
	had := make([]int64, len(c.now))
	var grows int64
	for i := range c.now {
		is, wants := c.had(i), *of(&c.now[i].Requests)
		had[i] = *of(&is)
		room, grows = room-had[i], grows+wants-had[i]
	}
	if grows <= max(room, 0) {
		return
	}
	share := math.Max(float64(room), 0) / float64(grows)
	for i := range c.now {
		wants := of(&c.now[i].Requests)
		*wants = had[i] + int64(share*float64(*wants-had[i]))/step*step
	}
}

// within bounds an amount; 0 is no bound.
func within(v, least, most int64) int64 {
	if most > 0 {
		v = min(v, most)
	}
	return max(v, least)
}
