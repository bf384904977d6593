package planning

import (
	"fmt"
	"math"
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

// A policy that bounds the share of spot machines has workloads on two pools at once: on one
// of machines that stay, as many replicas as are to be there in any case, and on one of spot
// machines the others. Both must do the same work per core: where requests are spread evenly
// the slower pods would be full first.

// Reasons of findings: a policy that keeps replicas off spot machines allows spot pools
// only; and new pods can't be made to go where they are planned, so that none is on spot
// machines.
const (
	ReasonNoPoolOffSpot = "NoPoolOffSpot"
	ReasonSpotNotUsed   = "SpotNotUsed"
)

// besideSpot are the assignments of all workloads to one pool of machines that stay, and of
// those that may be to a pool of spot machines besides.
func (c *cycle) besideSpot() []assignment {
	if c.p.Spot == nil || !c.s.Context.PlacesPods {
		return nil
	}
	var out []assignment
	for base := range c.pools {
		for spot := range c.pools {
			at, beside := &c.pools[base], &c.pools[spot]
			if at.Spot || !beside.Spot || math.Abs(positive(at.CPUSpeed)-positive(beside.CPUSpeed)) > settledSpeed*positive(at.CPUSpeed) {
				continue
			}
			to := assignment{pools: []*api.Pool{at, beside}, of: make([]int, len(c.managed)), spot: make([]int, len(c.managed))}
			some := false
			for i := range to.spot {
				to.spot[i] = -1
				if c.spottable(i, beside) {
					to.spot[i], some = 1, true
				}
			}
			if some {
				out = append(out, to)
			}
		}
	}
	return out
}

// keepsOff reports whether a pool is of spot machines, and no workload may be there with
// all of its replicas.
func (c *cycle) keepsOff(pool *api.Pool) bool {
	return c.p.Spot != nil && pool.Spot && slices.ContainsFunc(c.pools, func(p api.Pool) bool { return !p.Spot })
}

// warnOfSpot tells that no replica can be kept off spot machines, or none be on them.
func (c *cycle) warnOfSpot() {
	isSpot := func(p api.Pool) bool { return p.Spot }
	if c.p.Spot == nil || !slices.ContainsFunc(c.pools, isSpot) {
		return
	}
	if slices.ContainsFunc(c.pools, func(p api.Pool) bool { return !p.Spot }) {
		if !c.s.Context.PlacesPods {
			c.find(api.Warning, api.NodePlanningAgent, ReasonSpotNotUsed, api.NamedPolicyRef(c.p.Name),
				"no replica is planned on spot machines: to keep the others off them new pods have to be placed when they are admitted, which takes Kubernetes 1.36 and the chart's value strategies.placement")
		}
		return
	}
	c.find(api.Warning, api.NodePlanningAgent, ReasonNoPoolOffSpot, api.NamedPolicyRef(c.p.Name), fmt.Sprintf(
		"the policy keeps %d replicas of a workload off spot machines, and a share of %.2g, but all pools that it allows are of spot machines: add one that isn't",
		c.p.Spot.Floor, 1-c.p.Spot.MaxShare))
}

// spottable reports whether a workload may have replicas on a pool of spot machines: its
// pods can be told by their deletion cost which of them go first, nothing binds them to
// zones, and the pool takes them.
func (c *cycle) spottable(workload int, pool *api.Pool) bool {
	mw := &c.managed[workload]
	w := mw.workload
	if pool == nil || w.Shape == nil || w.Target.Kind != "Deployment" || w.Hold != "" || w.Actuator == api.ActuatorKEDA || placement.Spreads(w.Shape) {
		return false
	}
	for i := range mw.pods {
		if mw.pods[i].Zones != nil || mw.pods[i].ControllerKind != "ReplicaSet" {
			return false
		}
	}
	return placement.Site{Labels: pool.Labels, Taints: pool.Taints}.Admits(w.Shape)
}

// pool of a name; nil if there is none.
func (c *cycle) pool(name string) *api.Pool {
	for i := range c.s.Pools {
		if c.s.Pools[i].Name == name {
			return &c.s.Pools[i]
		}
	}
	return nil
}

// spotPool is where a managed workload may have replicas on spot machines; nil if nowhere.
func (a assignment) spotPool(workload int) *api.Pool {
	if a.spot == nil || a.spot[workload] < 0 {
		return nil
	}
	return a.pools[a.spot[workload]]
}

// spotBounds are those of a managed workload that may have replicas on spot machines; nil
// of others.
func (c *cycle) spotBounds(to assignment, workload int) *api.Spot {
	if to.spotPool(workload) == nil {
		return nil
	}
	return c.p.Spot
}

// prefers is the pool that new pods of a managed workload on two pools are to go to: off
// spot machines until enough are there.
func (c *cycle) prefers(k *candidate, workload int, replicas int32) string {
	spot := k.to.spotPool(workload)
	if spot == nil {
		return ""
	}
	if c.offSpot(workload) < c.p.Spot.Off(replicas) {
		return k.to.pool(workload).Name
	}
	return spot.Name
}

// offSpot is how many pods of a managed workload are on nodes that stay and aren't spot.
func (c *cycle) offSpot(workload int) int32 {
	if c.steady == nil {
		spot := map[string]bool{}
		for _, p := range c.s.Pools {
			spot[p.Name] = p.Spot
		}
		c.steady = make(map[string]bool, len(c.s.Nodes))
		for _, n := range c.s.Nodes {
			c.steady[n.Name] = !spot[n.Pool] && n.CordonedFor == ""
		}
	}
	count := int32(0)
	for i := range c.managed[workload].pods {
		if p := &c.managed[workload].pods[i]; !p.Terminating && c.steady[p.Node] {
			count++
		}
	}
	return count
}

// withReserve is a proposal with as many replicas more as make up for spot machines that
// are taken away before others serve in their place.
func (c *cycle) withReserve(p Proposal, to assignment, workload int, most int32) Proposal {
	spot := to.spotPool(workload)
	if spot == nil || p.Held || p.Replicas <= 0 {
		return p
	}
	on := max(p.Replicas, p.NodeReplicas) - c.p.Spot.Off(max(p.Replicas, p.NodeReplicas))
	if on <= 0 {
		return p
	}
	nodes := c.ready[spot.Name]
	_, share := shares(&c.managed[workload], spot)
	together := (on + max(nodes, 1) - 1) / max(nodes, 1)
	if share > 0 {
		together = max(1, min(together, int32(1/share)))
	}
	objective := c.p.Objective
	if objective == 0 {
		objective = c.p.Quantile
	}
	away := spot.NodeStartup.P90 + c.podStartup(&c.managed[workload].workload).P90 + c.Config.CyclePeriod
	more := reserve(on, together, 1-math.Exp(-spot.Interruptions*away.Hours()), 1-objective)
	if more = min(more, most-p.Replicas); more <= 0 {
		return p
	}
	p.Replicas += more
	p.NodeReplicas = min(p.NodeReplicas+more, most)
	if p.Need > 0 {
		p.Need += float64(more)
	}
	p.Path = slices.Clone(p.Path)
	for i := range p.Path {
		p.Path[i].Replicas = min(p.Path[i].Replicas+more, most)
	}
	p.Reason += fmt.Sprintf("; %d more, as spot machines may be taken away", more)
	return p
}

// reserve is how many replicas must be added to some on spot machines, so many of them on
// each, for no fewer to be left in all but a share of time: each machine is away for a share
// of time by itself. It is the smallest k·together with P(X > k) ≤ short of a binomial X
// over all machines, those added included.
func reserve(replicas, together int32, away, short float64) int32 {
	if !(away > 0) || together <= 0 {
		return 0
	}
	machines := (replicas + together - 1) / together
	for k := int32(0); k < machines; k++ {
		if beyond(machines+k, k, away) <= short {
			return k * together
		}
	}
	return machines * together
}

// beyond is P(X > k) of a binomial X of n with probability p.
func beyond(n, k int32, p float64) float64 {
	if p >= 1 {
		return 1
	}
	// The terms up to k, by their logarithms: n may be large.
	sum, term := 0.0, float64(n)*math.Log1p(-p)
	for i := int32(0); i <= k; i++ {
		sum += math.Exp(term)
		term += math.Log(float64(n-i)/float64(i+1)) + math.Log(p) - math.Log1p(-p)
	}
	return math.Max(0, 1-sum)
}
