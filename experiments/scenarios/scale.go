package scenarios

import (
	"errors"
	"fmt"
	"math"
)

// scale multiplies what a scenario asks for and what it may have by the same
// positive number: virtual users and arrivals, the bounds of replicas, the pools'
// first nodes and bounds, and events that count vCPUs or nodes. What was above 0
// becomes at least 1, and an unlimited pool stays so. Noise is a share of the load
// and stays as it is. It comes before traces are read. The error joins what gets
// too large.
func (s *Scenario) scale(by float64) error {
	if !(by > 0) || math.IsInf(by, 0) {
		return fmt.Errorf("scale must be a positive number, is %g", by)
	}
	var errs []error
	count := func(field string, n, most int64) int64 {
		if n <= 0 {
			return n
		}
		x := math.Round(float64(n) * by)
		if x > float64(most) {
			errs = append(errs, fmt.Errorf("%s: %d times %g is beyond %d", field, n, by, most))
			return n
		}
		return max(1, int64(x))
	}
	bounds := func(field string, b *Bounds) {
		b.Min = int32(count(field+".min", int64(b.Min), math.MaxInt32))
		b.Max = int32(count(field+".max", int64(b.Max), math.MaxInt32))
	}
	users := func(prefix string, start **int, stages []Stage, a *Arrivals) {
		if *start != nil {
			n := int(count(prefix+"startVUs", int64(**start), maxVUs))
			*start = &n
		}
		for i := range stages {
			stages[i].Target = int(count(fmt.Sprintf("%sstages[%d]", prefix, i), int64(stages[i].Target), maxVUs))
		}
		switch {
		case a == nil:
		case a.PeakRPS > 0:
			a.PeakRPS *= by
		case a.Scale > 0:
			a.Scale *= by
		default:
			a.Scale = by
		}
	}
	users("", &s.StartVUs, s.Stages, s.Arrivals)
	for i := range s.Users {
		u := &s.Users[i]
		users(fmt.Sprintf("users[%d].", i), &u.StartVUs, u.Stages, u.Arrivals)
	}
	bounds("workload.replicas", &s.Workload.Replicas)
	for i := range s.Services {
		bounds(fmt.Sprintf("services[%d].replicas", i), &s.Services[i].Replicas)
	}
	for i := range s.Pools {
		p, at := &s.Pools[i], fmt.Sprintf("pools[%d]", i)
		p.Nodes = int32(count(at+".nodes", int64(p.Nodes), math.MaxInt32))
		bounds(at+".nodesPerZone", &p.NodesPerZone)
	}
	for i := range s.Events {
		e, at := &s.Events[i], fmt.Sprintf("events[%d]", i)
		if e.QuotaVCPU != nil {
			quota := count(at+".quotaVCPU", *e.QuotaVCPU, math.MaxInt64/2)
			e.QuotaVCPU = &quota
		}
		e.FailNodes = int(count(at+".failNodes", int64(e.FailNodes), math.MaxInt32))
	}
	return errors.Join(errs...)
}
