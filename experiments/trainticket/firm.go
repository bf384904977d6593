package trainticket

import (
	"math"

	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/sim"
)

// firm scales the critical path, after FIRM (Qiu et al., OSDI 2020): when requests are slower
// than the SLO allows, or soon will be, it finds the path of services on which the slowest
// users' requests spend their time, takes the services there that are congested, and gives
// them what they lack; when there is slack, it takes from those that use little. FIRM chooses
// amounts by an actor-critic agent for each service; here they follow from utilisation, which
// is what its reward asks for. As in FIRM each decision changes one resource of a service: CPU
// up to its limit, then replicas.
type firm struct {
	users []scenarios.UserType
	index map[string]int
	// near is the share of the SLO's latency from which on it acts, congested the ratio of a
	// visit's time to that on an idle pod, target the utilisation that it gives, and slack the
	// utilisation under which it takes.
	near, congested, target, slack float64
	// hold is for how many decisions nothing is taken after something was given.
	hold  int
	since []int
}

// newFIRM has the settings with the fewest failures of a grid over other episodes: make
// bench-drpc shows it.
func newFIRM(s scenarios.Scenario) *firm {
	f := &firm{users: s.Users, index: map[string]int{}, near: 0.25, congested: 1.5, target: 0.6, slack: 0.2, hold: stabilization, since: make([]int, len(s.Services))}
	for i, v := range s.Services {
		f.index[v.Name] = i
	}
	return f
}

func (f *firm) decide(v *view) []sim.Size {
	out := make([]sim.Size, len(v.services))
	for i, s := range v.services {
		out[i] = s.Size
		f.since[i]++
	}
	if v.p99 > f.near*tolerated || v.failed > 0 {
		for i := range f.critical(v) {
			s := v.services[i]
			if !(s.Seconds > f.congested*v.idle[i]) || v.failed == 0 && v.local[i].CPU < f.target {
				continue
			}
			f.since[i] = 0
			// What it should have, were its pods not throttled: used or asked for.
			wanted := math.Max(s.Used, s.Visits*v.idle[i]) / f.target * 1000
			if size := wanted / float64(max(s.Ready, 1)); s.MilliCPU < mostCPU && int(s.Replicas) == s.Ready {
				out[i].MilliCPU = min(max(int64(math.Ceil(size)), s.MilliCPU+cpuStep), mostCPU)
				continue
			}
			replicas := int32(math.Ceil(wanted / float64(s.MilliCPU)))
			out[i].Replicas = min(max(replicas, s.Replicas+boolOf(int(s.Replicas) == s.Ready)), s.Max)
		}
		return out
	}
	for i, s := range v.services {
		if f.since[i] <= f.hold || s.Ready == 0 || v.local[i].CPU >= f.slack {
			continue
		}
		wanted := s.Used / f.target * 1000
		if size := int64(math.Ceil(wanted / float64(s.Ready))); s.MilliCPU > leastCPU && size < s.MilliCPU {
			out[i].MilliCPU = max(size, s.MilliCPU-cpuStep, leastCPU)
		} else if s.Replicas > s.Min {
			out[i].Replicas = s.Replicas - 1
		}
	}
	return out
}

func boolOf(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// critical are the services on the critical path of each type of users: of visits one after the
// other all count, of those at once the slowest.
func (f *firm) critical(v *view) map[int]bool {
	on := map[int]bool{}
	var seconds func(scenarios.Call) float64
	seconds = func(c scenarios.Call) float64 {
		var below float64
		for _, next := range c.Calls {
			if d := seconds(next); c.Parallel {
				below = math.Max(below, d)
			} else {
				below += d
			}
		}
		return float64(c.Times) * (v.services[f.index[c.Service]].Seconds + below)
	}
	var follow func(scenarios.Call)
	follow = func(c scenarios.Call) {
		on[f.index[c.Service]] = true
		if !c.Parallel {
			for _, next := range c.Calls {
				follow(next)
			}
			return
		}
		slowest, longest := -1, -1.0
		for i, next := range c.Calls {
			if d := seconds(next); d > longest {
				slowest, longest = i, d
			}
		}
		if slowest >= 0 {
			follow(c.Calls[slowest])
		}
	}
	for _, u := range f.users {
		follow(u.Request)
	}
	return on
}
