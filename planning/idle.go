package planning

import (
	"math"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/choice"
)

// Answers come late where a machine is saturated, by more than choice.Saturation of what its pods
// can use. If each of them uses as much of its own, that is the same share of what is each
// pod's. Of several workloads it is less: some have their fewest replicas, and the last replica
// of each is for a part of what it can use. What so stays idle others can use, as cores that are
// short are shared by request and a pod may use what is idle up to its limit.
//
// So a workload's replicas may be used λ times as much: the most with which no more than one
// machine in fifty of the pool is saturated, of such that have as many pods as fit, each drawn from
// all of the pool's, and using what is foreseen of its workload's. λ is at most 1/Saturation:
// whatever others use, a pod is never planned to need more than what is its own in any case,
// which is all that it has where a machine has none but such pods.
const (
	idleHot = 0.02
	// idleBins is into how many parts a machine is divided to add pods up.
	idleBins = 200
)

// used is what is foreseen of a workload's pods on a pool, or of others' pods there.
type used struct {
	request int64 // of one, millicores
	// each is what one can use in any case, millicores of the machine, and most how many times
	// that its limit lets it use.
	each, most float64
	// demand of all that is foreseen, millicores of the machine.
	demand float64
	// least and limit are the fewest and the most replicas for it.
	least, limit int32
	// there are so many of which nothing is foreseen: each is thought to use what it can.
	there int32
}

// pods that there are if they may be used so many times as much as where none leaves anything
// idle, and what each then uses.
func (u used) pods(times float64) (n int32, each float64) {
	if u.limit == 0 {
		return u.there, u.each
	}
	n = choice.Ceil(u.demand / (u.each * choice.Saturation * math.Max(math.Min(times, u.most), 1)))
	n = min(max(n, u.least), u.limit)
	return n, u.demand / float64(max(n, 1))
}

// idleOn is λ of the workloads on a pool, as on says, that share by so much.
func (c *cycle) idleOn(pool *api.Pool, by sharing, on func(i int) bool) float64 {
	cores, room := podCores(pool), float64(pool.Allocatable.MilliCPU-pool.Overhead.MilliCPU)
	if !(cores > 0) || !(room > 0) {
		return 1
	}
	ahead := c.longestWindows(c.s.PodStartup)
	until := c.s.Time.Add(ahead.Node + ahead.Late)
	var all []used
	for i := range c.managed {
		mw := &c.managed[i]
		w := &mw.workload
		if !on(i) || w.Shape == nil || w.Shape.Requests.MilliCPU <= 0 {
			continue
		}
		request := w.Shape.Requests.MilliCPU
		u := used{request: request, each: float64(request) * burst(w.Shape, pool, c.leastRequest)}
		u.most = float64(request) * most(w.Shape, pool) / u.each
		if now, _, ok := w.Demand.Last(); ok && finite(now) && c.shares(mw) {
			m := c.marginsOn(mw, pool, by)
			u.demand = m.Pods(math.Max(now, 0), c.s.Time)
			if f := mw.forecast; f != nil && mw.trusted {
				u.demand = math.Max(u.demand, math.Min(m.Told*Reach(f, c.p.Quantile, c.s.Time, until), m.Most))
			}
			u.demand /= positive(pool.CPUSpeed)
			u.least, u.limit = max(w.MinReplicas, c.p.MinReplicas), max(w.MaxReplicas, 1)
		} else {
			u.there = mw.live()
		}
		all = append(all, u)
	}
	if s := c.strangers[pool.Name]; s.pods > 0 {
		each := float64(s.milli) / float64(s.pods)
		all = append(all, used{request: int64(each), each: each * math.Max(cores/room, 1), there: s.pods})
	}
	const steps = 32
	times := func(step int) float64 { return 1 + (1/choice.Saturation-1)*float64(step)/steps }
	lo, hi := 0, steps+1 // the largest of those that fit
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; saturates(all, times(mid), cores, room) <= idleHot {
			lo = mid
		} else {
			hi = mid
		}
	}
	return times(lo)
}

// saturates is the share of machines that are saturated where workloads' replicas are used so many
// times as much as where none leaves anything idle.
func saturates(all []used, times, cores, room float64) float64 {
	var one [idleBins + 1]float64 // the distribution of one pod's use, the last of what saturates
	var pods, milli float64
	for _, u := range all {
		count, each := u.pods(times)
		n := float64(count)
		pods, milli = pods+n, milli+n*float64(u.request)
		at := math.Min(each/(cores*choice.Saturation)*idleBins, idleBins)
		low := math.Floor(at)
		one[int(low)] += n * (1 - (at - low))
		if at > low {
			one[int(low)+1] += n * (at - low)
		}
	}
	if !(pods > 0) || !(milli > 0) {
		return 0
	}
	for i := range one {
		one[i] /= pods
	}
	full := int(math.Max(math.Floor(room*pods/milli), 1))
	var sum [idleBins + 1]float64
	sum[0] = 1
	for ; full > 0; full /= 2 {
		if full%2 == 1 {
			sum = convolved(&sum, &one)
		}
		one = convolved(&one, &one)
	}
	return sum[idleBins]
}

// convolved is the distribution of the sum of two.
func convolved(a, b *[idleBins + 1]float64) (out [idleBins + 1]float64) {
	for i, p := range a {
		if p == 0 {
			continue
		}
		for k, q := range b {
			out[min(i+k, idleBins)] += p * q
		}
	}
	return out
}

// strange are pods on a pool's machines of which mash2 plans nothing.
type strange struct {
	pods  int32
	milli int64 // that they request
}

// findStrangers counts those of each pool, by the pools that nodes are in.
func (c *cycle) findStrangers(pools map[string]*api.Pool) {
	known := make(map[api.Key]bool, len(c.managed))
	for i := range c.managed {
		known[c.managed[i].workload.Key] = true
	}
	c.strangers = map[string]strange{}
	var last api.Key
	managed := false
	for i := range c.s.Pods {
		p := &c.s.Pods[i]
		if p.Workload != last || i == 0 {
			last, managed = p.Workload, known[p.Workload]
		}
		if managed || p.DaemonSet || p.Mirror || p.Shape == nil || p.Node == "" {
			continue
		}
		if pool := pools[p.Node]; pool != nil {
			s := c.strangers[pool.Name]
			c.strangers[pool.Name] = strange{s.pods + 1, s.milli + p.Shape.Requests.MilliCPU}
		}
	}
}
