package planning

import (
	"cmp"
	"fmt"
	"maps"
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
// those that may be to a pool of spot machines besides: where pools are mixed, as then there
// are others to compare with, to the cheapest.
func (c *cycle) besideSpot() []assignment {
	if c.p.Spot == nil {
		return nil
	}
	var out []assignment
	for base := range c.pools {
		at := slices.Repeat([]int{base}, len(c.managed))
		for spot := range c.pools {
			beside := c.allBeside(at, spot)
			if c.mixes() {
				beside = c.cheapestBeside(at)
			}
			if to := c.besides(at, beside); to.spot != nil {
				out = append(out, to)
			}
			if c.mixes() {
				break
			}
		}
	}
	return out
}

// allBeside is one pool of spot machines for all that may be there beside their own pools.
func (c *cycle) allBeside(at []int, spot int) []int {
	out := slices.Repeat([]int{-1}, len(at))
	for i := range at {
		if c.bothSides(i, at[i], spot) {
			out[i] = spot
		}
	}
	return out
}

// cheapestBeside is the one of allBeside by which most is saved; none of them where nothing is.
func (c *cycle) cheapestBeside(at []int) []int {
	more := make([]float64, len(c.pools)) // than on their own pools all pay that may be on one
	for i := range at {
		for p := range c.pools {
			if c.bothSides(i, at[i], p) {
				more[p] += float64(max(c.managed[i].workload.Replicas, 1)) * (c.paidOn(i, p) - c.paidOn(i, at[i]))
			}
		}
	}
	best := slices.Index(more, slices.Min(more))
	if more[best] >= 0 {
		best = -1
	}
	return c.allBeside(at, best)
}

// bothSides reports whether a managed workload may be on a pool and on one of spot machines
// at once, by their indexes.
func (c *cycle) bothSides(workload, base, spot int) bool {
	if spot < 0 {
		return false
	}
	at, beside := &c.pools[base], &c.pools[spot]
	return c.p.Spot != nil && c.s.Context.PlacesPods && !at.Spot && beside.Spot &&
		math.Abs(positive(at.CPUSpeed)-positive(beside.CPUSpeed)) <= settledSpeed*positive(at.CPUSpeed) && c.spottable(workload, beside)
}

// besides is the assignment of each managed workload to a pool and to one of spot machines, −1
// for none, by their indexes.
func (c *cycle) besides(at, spot []int) assignment {
	to := c.assigned(append(slices.Clone(at), spot...))
	n := len(at)
	if slices.Max(append([]int{-1}, spot...)) >= 0 {
		to.spot = slices.Clone(to.of[n:])
		for i := range spot {
			if spot[i] < 0 {
				to.spot[i] = -1
			}
		}
	}
	to.of = to.of[:n:n]
	return to
}

// spotsBeside are the pools of spot machines that workloads are planned on besides, given the
// pools that they are planned on and are on now: none, those of now, for each the one that is
// cheapest for it, and for all the one that is cheapest for them together.
func (c *cycle) spotsBeside(at, home []int) [][]int {
	none := slices.Repeat([]int{-1}, len(at))
	if c.p.Spot == nil {
		return [][]int{none}
	}
	own := slices.Clone(none)
	for i := range at {
		least := c.paidOn(i, at[i])
		for p := range c.pools {
			if paid := c.paidOn(i, p); paid < least && c.bothSides(i, at[i], p) {
				own[i], least = p, paid
			}
		}
	}
	return [][]int{none, c.spotsNow(at, home), own, c.cheapestBeside(at)}
}

// spotsNow are those of spotsBeside that workloads are on now, of those that stay on their pool.
func (c *cycle) spotsNow(at, home []int) []int {
	out := slices.Repeat([]int{-1}, len(at))
	for i := range at {
		if p := c.allowed(c.managed[i].memory.Spot); p >= 0 && at[i] == home[i] && c.bothSides(i, at[i], p) {
			out[i] = p
		}
	}
	return out
}

// paidOn is what a replica of a managed workload pays on a pool by its share of a node, USD/h.
func (c *cycle) paidOn(workload, pool int) float64 {
	_, share := shares(&c.managed[workload], &c.pools[pool])
	return share * c.pools[pool].Price
}

// inBase is as how many replicas on a pool so many of a managed workload count, those that
// would be on spot machines at the price of these.
func (c *cycle) inBase(workload, pool int, replicas int32) float64 {
	here := c.paidOn(workload, pool)
	least := here
	for p := range c.pools {
		if c.bothSides(workload, pool, p) {
			least = math.Min(least, c.paidOn(workload, p))
		}
	}
	if !(least < here) {
		return float64(replicas)
	}
	off := c.p.Spot.Off(replicas)
	return float64(off) + float64(replicas-off)*least/here
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
	if base := k.to.pool(workload).Name; c.offSpot(workload, base) < c.p.Spot.Off(replicas) {
		return base
	}
	return spot.Name
}

// offSpot is how many pods of a managed workload are on nodes that stay and aren't spot: where
// pools are mixed on those of its own pool, as those on others' have to move.
func (c *cycle) offSpot(workload int, base string) int32 {
	if c.steady == nil {
		spot := map[string]bool{}
		for _, p := range c.s.Pools {
			spot[p.Name] = p.Spot
		}
		c.steady = make(map[string]string, len(c.s.Nodes))
		for _, n := range c.s.Nodes {
			if !spot[n.Pool] && n.CordonedFor == "" {
				c.steady[n.Name] = n.Pool
			}
		}
	}
	count := int32(0)
	for i := range c.managed[workload].pods {
		p := &c.managed[workload].pods[i]
		if pool, steady := c.steady[p.Node]; steady && !p.Terminating && (pool == base || !c.mixes()) {
			count++
		}
	}
	return count
}

// staysWhere is the same cycle where workloads stay on the pools that their pods are on now, as
// they can't be moved from one to the targets: off spot machines and on them, where most are of
// each. All on that one pool, which may be of spot machines, would be no staying. What goes back
// goes to where it came from, even if most of it is on a target already: the pool would be left
// all the same.
func (c *cycle) staysWhere(pool string, targets []string) *cycle {
	at := make(map[string]*api.Pool, len(c.s.Nodes))
	for i := range c.s.Pools {
		for _, n := range c.s.Nodes {
			if n.Pool == c.s.Pools[i].Name {
				at[n.Name] = &c.s.Pools[i]
			}
		}
	}
	back := !slices.Contains(targets, pool)
	most := func(pods []api.Pod, spot bool) string {
		count := map[string]int{}
		for i := range pods {
			if p := at[pods[i].Node]; p != nil && !pods[i].Terminating && p.Spot == spot && (slices.Contains(c.p.ManagedPools, p.Name) || slices.Contains(c.p.NodePools, p.Name)) {
				count[p.Name]++
			}
		}
		best, most := "", 0
		for _, name := range slices.Sorted(maps.Keys(count)) {
			n := count[name]
			if back && !slices.Contains(targets, name) {
				n += len(pods)
			}
			if n > most {
				best, most = name, n
			}
		}
		return best
	}
	home := c.home()
	steady := func(name string) bool { p := c.pool(name); return p != nil && !p.Spot }
	other := "" // for who has no pod off spot machines
	for _, name := range append([]string{pool}, c.p.NodePools...) {
		if other == "" && steady(name) {
			other = name
		}
	}
	bases, spots, p := map[api.Key]string{}, make([]string, len(c.managed)), c.p
	p.NodePools, p.MachineType = nil, ""
	for i := range c.managed {
		mw := &c.managed[i]
		base := most(mw.pods, false)
		if base == "" && steady(home[mw.workload.Key]) {
			base = home[mw.workload.Key]
		}
		base = cmp.Or(base, other)
		bases[mw.workload.Key], spots[i] = base, most(mw.pods, true)
		for _, name := range []string{base, spots[i]} {
			if name != "" && !slices.Contains(p.NodePools, name) {
				p.NodePools = append(p.NodePools, name)
			}
		}
	}
	if !slices.ContainsFunc(p.NodePools, steady) {
		return c.staysOnly(pool) // there is none to keep replicas on
	}
	slices.Sort(p.NodePools)
	out := c.again(c.s, p, eachOnItsOwn)
	out.putBack = bases
	for i := range out.managed {
		out.managed[i].memory.Spot = spots[i]
	}
	return out
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
