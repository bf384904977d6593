package sim

import (
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/experiments/load/queueing"
)

// memoryInterval is how often working sets are looked at, as metrics do.
const memoryInterval = 15 * time.Second

// defaultCorrelation is how long a working set stays about what it is.
const defaultCorrelation = 30 * time.Minute

// Delays of a container that ended (pkg/kubelet, CrashLoopBackOff): ten seconds, twice as much
// each time up to five minutes, and as at first after ten minutes without an end.
const (
	backoffFirst, backoffMost = 10 * time.Second, 5 * time.Minute
	backoffForgets            = 10 * time.Minute
)

// memoryOf a pod's container: its working set, bytes. A workload's spread makes it log-normal
// around its base, correlated over time (an Ornstein–Uhlenbeck process of the logarithm).
func (c *Cluster) memoryOf(p *pod, state queueing.PodState) float64 {
	w := p.workload
	return w.memoryBase*math.Exp(w.memorySpread*p.mood) + w.memoryPerRequest*float64(state.InFlight)
}

// watchMemory lets working sets vary where a workload's do, and ends containers as kernels do: one
// that is above its limit, and on a machine that is full the one that is the most above its
// request.
func (c *Cluster) watchMemory() {
	if !slices.ContainsFunc(c.workloads, func(w *workload) bool { return w.memorySpread > 0 }) {
		return
	}
	c.every(c.now+memoryInterval, memoryInterval, func() bool {
		for _, n := range c.sorted {
			used := float64(n.pool.overhead.Memory)
			var there []*pod
			for _, p := range slices.Clone(n.pods) {
				state, ok := c.traffic.PodState(p.uid)
				if p.phase != running || !ok {
					continue
				}
				w := p.workload
				if w.memorySpread > 0 {
					keeps := math.Exp(-memoryInterval.Seconds() / w.memoryCorrelation.Seconds())
					p.mood = keeps*p.mood + math.Sqrt(1-keeps*keeps)*c.memoryRNG.NormFloat64()
				}
				if p.memory = c.memoryOf(p, state); p.memoryLimit > 0 && p.memory > p.memoryLimit {
					c.oomKill(p)
					continue
				}
				used += p.memory
				there = append(there, p)
			}
			for used > float64(n.pool.capacity.Memory) && len(there) > 0 {
				i := 0
				for j, p := range there {
					if p.memory-float64(p.shape.Requests.Memory) > there[i].memory-float64(there[i].shape.Requests.Memory) {
						i = j
					}
				}
				used -= there[i].memory
				c.oomKill(there[i])
				there = slices.Delete(there, i, i+1)
			}
		}
		return true
	})
}

// oomKill ends a pod's container, and starts it again after a while: its requests are reset,
// and the pod is not Ready meanwhile.
func (c *Cluster) oomKill(p *pod) {
	n := p.node
	c.oomKills = append(c.oomKills, c.now)
	limit := p.memoryLimit
	if limit == 0 { // the machine was full
		limit = float64(p.shape.Requests.Memory)
	}
	p.workload.oom = oom{at: c.now, limit: limit}
	c.killed(p, limit)
	c.traffic.RemovePod(p.uid, c.now+p.workload.propagation(c.memoryRNG))
	if p.terminating {
		return
	}
	if c.now-p.started > backoffForgets {
		p.backoff = 0
	}
	p.backoff = min(max(2*p.backoff, backoffFirst), backoffMost)
	p.killed = c.now
	p.phase, p.ready, p.mood, p.nreads, p.scrapedOf = starting, false, 0, 0, 0
	c.observe(p)
	c.after(p.backoff, func() { c.begin(p, n, func() {}) })
}

// oom is the newest kill of a workload's containers, with a limit of so many bytes.
type oom struct {
	at    time.Duration
	limit float64
}
