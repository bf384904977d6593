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
	all, largest, beside := requests(c.now), c.in.Largest, c.in.Sizing.Beside
	room := api.Amounts{MilliCPU: largest.MilliCPU - beside.MilliCPU, Memory: largest.Memory - beside.Memory}
	if largest == (api.Amounts{}) || all.MilliCPU <= room.MilliCPU && all.Memory <= room.Memory {
		return
	}
	c.waits = fmt.Sprintf("%s are wanted, but no machine has more than %s for a pod", all, largest)
	if beside != (api.Amounts{}) {
		c.waits += fmt.Sprintf(", %s of it for what else is in it", beside)
	}
	c.grow(room.MilliCPU, cpuStep, func(a *api.Amounts) *int64 { return &a.MilliCPU })
	c.grow(room.Memory, memoryStep, func(a *api.Amounts) *int64 { return &a.Memory })
}

// grow shares out what a machine has of a resource among the containers that want more of it than they had
// and than their author wrote.
func (c *chooser) grow(room, step int64, of func(*api.Amounts) *int64) {
	had := make([]int64, len(c.now))
	var grows int64
	for i, u := range c.in.Sizing.Containers {
		wants := *of(&c.now[i].Requests)
		had[i] = min(wants, max(*of(&c.was[i].Requests), *of(&u.Requests)))
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
