package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
)

// Machine is what one node of a pool is good for, as far as no scaler can change it.
type Machine struct {
	Pool  string
	Price float64 // USD per hour
	// Capacity is the most reference cores that it serves: what its cores do, and
	// what the limits of as many pods as fit let them.
	Capacity float64
	Pods     int64 // that fit by their requests
	// Most nodes of the pool; 0 is unlimited.
	Most int64
}

// MachinesOf are the machines of a scenario's pools, whose pods must all be of one size.
func MachinesOf(s scenarios.Scenario) ([]Machine, error) {
	d := s.Deployments()[0]
	for _, other := range s.Deployments() {
		if other.CPU.Request.Cmp(d.CPU.Request.Quantity) != 0 || other.CPU.Limit.Cmp(d.CPU.Limit.Quantity) != 0 || other.Memory.Request.Cmp(d.Memory.Request.Quantity) != 0 {
			return nil, fmt.Errorf("scenario %s: machines are known for pods of one size only", s.Name)
		}
	}
	c := newCluster(DefaultParams(), 1, newFluid(1))
	var out []Machine
	for _, pool := range s.Pools {
		p, err := c.newPool(pool, false)
		if err != nil {
			return nil, err
		}
		free := p.allocatable.Minus(p.overhead)
		request, limit, _ := sizesOf(s, d)
		m := Machine{Pool: p.name, Price: p.price, Most: int64(p.max) * int64(len(p.zones)),
			Pods: min(free.MilliCPU/request, free.Memory/max(d.Memory.Request.Value(), 1), free.Pods)}
		cores := p.cores
		if limit > 0 {
			cores = math.Min(cores, float64(m.Pods)*limit)
		}
		m.Capacity = cores * p.speed
		if m.Pods > 0 {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("scenario %s: no pool can hold its pods", s.Name)
	}
	return out, nil
}

// LeastBoot is the least time that a machine of the scenario takes from its request
// until it serves: the fastest boot in 30,000, four standard deviations, and a
// resize's latency.
func (p Params) LeastBoot(s scenarios.Scenario) time.Duration {
	median := p.BootMedian
	if d := s.BootMedian.Duration; d > 0 {
		median = d
	}
	for _, pool := range s.Pools {
		if d := pool.BootMedian.Duration; d > 0 {
			median = min(median, d)
		}
	}
	return time.Duration(float64(median)*math.Exp(-4*p.BootSigma)) + p.Operation
}

// LeastPaid is the least time that a machine of the scenario is paid for without
// serving, if it comes during a run: LeastBoot, and while it stops. Nobody pays for
// the stop of one that failed, so that where machines fail none is counted.
func (p Params) LeastPaid(s scenarios.Scenario) time.Duration {
	if slices.ContainsFunc(s.Events, func(e scenarios.Event) bool { return e.FailNodes > 0 }) {
		return p.LeastBoot(s)
	}
	return p.LeastBoot(s) + p.Stop
}
