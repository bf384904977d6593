package planning

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Standing is what was read of a pool's api.Pool.StandingUsage.
type Standing struct {
	Pool string `json:"pool"`
	// Since is when it was read first, At when last.
	Since time.Time `json:"since"`
	At    time.Time `json:"at"`
	// Mean and Square are those of the readings and of their squares, millicores: of all
	// alike at first, then those of standingHalf ago count half.
	Mean   float64 `json:"mean"`
	Square float64 `json:"square"`
}

// usage is what is thought to be used: a mean is not enough where readings differ.
func (s Standing) usage() float64 {
	return s.Mean + standingSpread*math.Sqrt(math.Max(s.Square-s.Mean*s.Mean, 0))
}

// read returns s with a reading of now.
func (s Standing) read(used float64, now time.Time) Standing {
	past := now.Sub(s.At)
	if past <= 0 {
		return s
	}
	weight := math.Max(1-math.Exp2(-float64(past)/float64(standingHalf)), float64(past)/float64(now.Sub(s.Since)))
	s.Mean += weight * (used - s.Mean)
	s.Square += weight * (used*used - s.Square)
	s.At = now
	return s
}

const (
	standingHalf = 24 * time.Hour
	// standingKnown is for how long it must have been read to count, and standingGap how
	// long without a reading until that begins anew.
	standingKnown, standingGap = time.Hour, time.Hour
	// standingLeast is the share of their requests that DaemonSets and static pods are
	// thought to use at least: one that has nothing to do now may have later.
	standingLeast = 0.25
	// standingSpread is how many standard deviations above its mean usage is taken to be.
	standingSpread = 2
)

// standing remembers what snapshots read, and returns the pools with what is to be planned
// for as their StandingUsage, nil where their requests are.
func standing(before []Standing, now time.Time, pools []api.Pool) ([]api.Pool, []Standing) {
	var out []Standing
	pools = slices.Clone(pools)
	for i := range pools {
		p := &pools[i]
		at := slices.IndexFunc(before, func(s Standing) bool { return s.Pool == p.Name })
		known := at >= 0 && now.Sub(before[at].At) < standingGap && !now.Before(before[at].At)
		used := p.StandingUsage
		p.StandingUsage = nil
		var m Standing
		switch usable := used != nil && finite(*used) && *used >= 0; {
		case usable && known:
			m = before[at].read(*used, now)
		case usable:
			m = Standing{Pool: p.Name, Since: now, At: now, Mean: *used, Square: *used * *used}
		case known:
			m = before[at] // a pool without nodes, or a reading that failed
		default:
			continue
		}
		out = append(out, m)
		if m.At.Sub(m.Since) >= standingKnown {
			counted := math.Max(m.usage(), float64(p.Overhead.MilliCPU)*standingLeast)
			p.StandingUsage = &counted
		}
	}
	slices.SortFunc(out, func(a, b Standing) int { return cmp.Compare(a.Pool, b.Pool) })
	return pools, out
}

// podCores is the CPU of one of a pool's nodes that all pods can use which aren't on every
// node, millicores: what is left of its cores. What is on every node uses what was read of
// it, and no more than it requests, since cores that are short are shared by request.
func podCores(pool *api.Pool) float64 {
	used := float64(pool.Overhead.MilliCPU)
	if pool.StandingUsage != nil {
		used = math.Min(used, *pool.StandingUsage)
	}
	return float64(pool.Cores) - used
}
