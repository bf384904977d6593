package planning

import (
	"cmp"
	"math"
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/parallel"
	"github.com/mash2-io/mash2/placement"
)

// A policy with mixPools has workloads on several pools at once, each on the one that suits it:
// those with much memory for their cores where memory is cheap, the others where cores are.
// All replicas of a workload are on one pool, so that they are of one speed.
//
// Which one is a problem of its own. Let s(i,p) be what workload i takes of pool p, in nodes,
// for each resource, and π(p) the price of a node. The utility's cost is of nodes and of pods by
// their share of them; so, not counting that nodes are whole, the cheapest assignment minimises
// Σ π(p)·(max over resources of Σ s(i,p) + Σ max over resources of s(i,p)). Its dual has, for each
// pool, a weight λ of each resource, which add up to 1: what share of a node's price is paid
// for its cores, what for its memory. Given these every workload is on the pool where
// π(p)·(λ(p)·s(i,p) + max s(i,p)) is least, and the weight of what a pool is full of goes up.
// That takes time in proportion to workloads × pools. Whole nodes are counted by half a round of
// zones for each pool that is in use, which is what rounding up adds on average: each pool, each
// two of them, and from the best of these one more as long as that pays, are what is tried.
// Pods of nobody's are not counted. What comes of it is then planned and packed like every other
// assignment, with all that there is, and chosen only if it is better.
//
// Where the policy has some replicas on spot machines, those count at these machines' price, and
// each mixture is planned without them, with each workload beside the spot pool that is cheapest
// for it, and with all beside one.

// ReasonPoolsNotMixed is the reason of the finding that a policy has pools mixed, and why they
// are not.
const ReasonPoolsNotMixed = "PoolsNotMixed"

const (
	// mixRounds are steps of the weights, mixPatience those after which nothing better is
	// hoped for, and mixStep the length of the first one.
	mixRounds, mixPatience, mixStep = 40, 8, 1.0
	// mixStay is how much cheaper a workload's own pool is thought to be, so that what two
	// pools are worth the same to doesn't go to and fro.
	mixStay = 0.05
	// mixPasses are looks for a workload that is better off elsewhere.
	mixPasses = 4
)

// resources that a mixture is found for: CPU, memory, pods.
type resources [3]float64

func (r resources) plus(o resources, times float64) resources {
	for d := range r {
		r[d] += times * o[d]
	}
	return r
}

// mixPool is a pool that workloads may be mixed on.
type mixPool struct {
	price       float64 // USD per node and hour
	round       float64 // nodes that come at once: one in each zone
	least, most float64 // nodes; most is infinite without a limit
}

// paid is what a pool costs that so much is on, in nodes; a limit that is exceeded costs more
// than anything else.
func (p mixPool) paid(load resources) float64 {
	n := slices.Max(load[:])
	if n <= 0 {
		return p.price * p.least
	}
	n = max(p.least, p.round, n+p.round/2)
	return p.price * (n + 1000*max(0, n-p.round/2-p.most))
}

// mixLoad is a workload: what it takes of each pool, in nodes, and the pool that it is on, −1
// if that isn't known. It can't be on a pool of which it takes nothing.
type mixLoad struct {
	takes []resources
	home  int
}

func (l mixLoad) may(pool int) bool { return l.takes[pool] != resources{} }

// paid is what a workload pays on a pool by the share of nodes that it takes of what it needs
// most of.
func (l mixLoad) paid(pools []mixPool, pool int) float64 {
	return pools[pool].price * slices.Max(l.takes[pool][:])
}

// mix assigns each workload to a pool: the best one of those to one pool and to two, and from
// there to one more as long as that is better.
func mix(pools []mixPool, loads []mixLoad) []int {
	var best, open []int
	least := math.Inf(1)
	try := func(sets [][]int) {
		at, costs := make([][]int, len(sets)), make([]float64, len(sets))
		parallel.Each(len(sets), func(i int) {
			slices.Sort(sets[i])
			at[i], costs[i] = mixAmong(pools, loads, sets[i])
		})
		for i := range sets {
			if costs[i] < least*(1-1e-9) {
				best, least, open = at[i], costs[i], sets[i]
			}
		}
	}
	var first [][]int
	var some []int // that somebody may be on
	for p := range pools {
		if !slices.ContainsFunc(loads, func(l mixLoad) bool { return l.may(p) }) {
			continue
		}
		first = append(first, []int{p})
		for _, q := range some {
			first = append(first, []int{q, p})
		}
		some = append(some, p)
	}
	try(first)
	for before := []int(nil); len(open) > len(before); {
		before = open
		var more [][]int
		for _, p := range some {
			if !slices.Contains(before, p) {
				more = append(more, append(slices.Clone(before), p))
			}
		}
		try(more)
	}
	return best
}

// mixAmong is mix with these pools open, and what it costs, less what staying is worth;
// infinite if a workload can be on none of them.
func mixAmong(pools []mixPool, loads []mixLoad, open []int) ([]int, float64) {
	weights := make([]resources, len(pools))
	for _, p := range open {
		weights[p] = resources{0.5, 0.5, 0}
	}
	var best []int
	least := math.Inf(1)
	found := 0
	for round := range mixRounds {
		at, full := make([]int, len(loads)), make([]resources, len(pools))
		for i, l := range loads {
			at[i] = -1
			price := math.Inf(1)
			for _, p := range open {
				if !l.may(p) {
					continue
				}
				this := 0.0
				for d, w := range weights[p] {
					this += w * l.takes[p][d]
				}
				this = this*pools[p].price + l.paid(pools, p)
				if p == l.home {
					this *= 1 - mixStay
				}
				if this < price {
					at[i], price = p, this
				}
			}
			if at[i] < 0 {
				return nil, math.Inf(1)
			}
			full[at[i]] = full[at[i]].plus(l.takes[at[i]], 1)
		}
		if costs := mixCost(pools, loads, at, full); costs < least {
			best, least, found = at, costs, round
		}
		if len(open) == 1 || round-found >= mixPatience {
			break
		}
		for _, p := range open {
			most, sum := slices.Max(full[p][:]), 0.0
			if most <= 0 {
				continue
			}
			for d := range weights[p] {
				weights[p][d] = max(weights[p][d], 1e-3) * math.Exp(mixStep/math.Sqrt(float64(round+1))*full[p][d]/most)
				sum += weights[p][d]
			}
			for d := range weights[p] {
				weights[p][d] /= sum
			}
		}
	}
	return mixBetter(pools, loads, open, best)
}

// mixBetter moves single workloads as long as that pays.
func mixBetter(pools []mixPool, loads []mixLoad, open, at []int) ([]int, float64) {
	full := make([]resources, len(pools))
	for i, p := range at {
		full[p] = full[p].plus(loads[i].takes[p], 1)
	}
	for range mixPasses {
		moved := false
		for i, l := range loads {
			from := at[i]
			left := full[from].plus(l.takes[from], -1)
			saves := pools[from].paid(full[from]) - pools[from].paid(clean(left)) + l.paid(pools, from)
			to, least := from, saves*(1-1e-9)
			if from == l.home {
				least = saves * (1 - mixStay)
			}
			for _, p := range open {
				if p == from || !l.may(p) {
					continue
				}
				if more := pools[p].paid(full[p].plus(l.takes[p], 1)) - pools[p].paid(full[p]) + l.paid(pools, p); more < least {
					to, least = p, more
				}
			}
			if to != from {
				full[from], full[to] = clean(left), full[to].plus(l.takes[to], 1)
				at[i], moved = to, true
			}
		}
		for _, p := range open {
			moved = mixWithout(pools, loads, open, at, full, p) || moved
		}
		if !moved {
			break
		}
	}
	costs := mixCost(pools, loads, at, full)
	for i, l := range loads {
		if at[i] == l.home {
			costs -= mixStay * l.paid(pools, l.home)
		}
	}
	return at, costs
}

// mixWithout moves all workloads of a pool elsewhere, if that pays.
func mixWithout(pools []mixPool, loads []mixLoad, open, at []int, full []resources, pool int) bool {
	before := mixCost(pools, loads, at, full)
	then, where := slices.Clone(full), slices.Clone(at)
	then[pool] = resources{}
	for i, l := range loads {
		if at[i] != pool {
			continue
		}
		to, least := -1, math.Inf(1)
		for _, p := range open {
			if p == pool || !l.may(p) {
				continue
			}
			if more := pools[p].paid(then[p].plus(l.takes[p], 1)) - pools[p].paid(then[p]) + l.paid(pools, p); more < least {
				to, least = p, more
			}
		}
		if to < 0 {
			return false
		}
		where[i], then[to] = to, then[to].plus(l.takes[to], 1)
	}
	if slices.Equal(where, at) || mixCost(pools, loads, where, then) >= before*(1-mixStay) {
		return false
	}
	copy(at, where)
	copy(full, then)
	return true
}

// clean is what is left when all has gone, but for what sums are rounded by.
func clean(r resources) resources {
	if slices.Max(r[:]) < 1e-9 {
		return resources{}
	}
	return r
}

// mixCost is what the utility's cost is of, twice: nodes, and pods by their share of them.
func mixCost(pools []mixPool, loads []mixLoad, at []int, full []resources) (sum float64) {
	for p := range pools {
		sum += pools[p].paid(full[p])
	}
	for i := range loads {
		sum += loads[i].paid(pools, at[i])
	}
	return sum
}

// mixes reports whether workloads may be on several pools by themselves.
func (c *cycle) mixes() bool {
	return c.p.MixPools && c.s.Context.PlacesPods && c.toMix() > 1
}

// toMix counts the pools that all replicas of a workload may be on.
func (c *cycle) toMix() (n int) {
	for i := range c.pools {
		if !c.keepsOff(&c.pools[i]) {
			n++
		}
	}
	return n
}

// warnOfMixing tells why pools are not mixed.
func (c *cycle) warnOfMixing() {
	if !c.p.MixPools || c.toMix() < 2 || c.mixes() {
		return
	}
	c.find(api.Warning, api.NodePlanningAgent, ReasonPoolsNotMixed, api.NamedPolicyRef(c.p.Name),
		"pools are not mixed, as all workloads are planned on the same: new pods can't be made to go to the pool of their workload: that takes Kubernetes 1.36 and the chart's value strategies.placement")
}

// mixable reports whether a managed workload can be moved to a pool while others stay: it
// is acted on, its pods can be made there before they end elsewhere, and nothing binds them.
func (c *cycle) mixable(workload int) bool {
	mw := &c.managed[workload]
	w := mw.workload
	if w.Mode != api.ModeFull || c.untried[w.Key] != nil || w.Hold != "" || w.Shape == nil || w.Target.Kind != "Deployment" || w.Actuator == api.ActuatorKEDA {
		return false
	}
	for i := range mw.pods {
		if p := &mw.pods[i]; !p.Terminating && (p.Zones != nil || p.DoNotDisrupt != "" || p.ControllerKind != "ReplicaSet") {
			return false
		}
	}
	return true
}

// mixtures are the assignments to several pools that are compared with those given, each of
// all workloads on one pool: where workloads are, and where each is cheapest.
func (c *cycle) mixtures(alone []candidate) []assignment {
	if !c.mixes() {
		return nil
	}
	// Where a workload can't be moved by itself it stays, or is where all would be.
	base := -1
	for k := range alone {
		if alone[k].err == nil && len(alone[k].to.pools) == 1 && (base < 0 || alone[k].result.Best.Utility.Total > alone[base].result.Best.Utility.Total) {
			base = k
		}
	}
	if base < 0 {
		return nil
	}
	at := c.homes(c.allowed(alone[base].to.pools[0].Name))
	loads := make([]mixLoad, len(c.managed))
	for i := range loads {
		loads[i] = c.mixLoad(alone, i, at[i])
	}
	var out []assignment
	for _, to := range [][]int{at, mix(c.mixPools(alone), loads)} {
		if to == nil {
			continue
		}
		for _, spot := range c.spotsBeside(to, at) {
			a := c.besides(to, spot)
			if len(a.pools) > 1 && !slices.ContainsFunc(out, func(b assignment) bool { return b.name() == a.name() }) &&
				!slices.ContainsFunc(alone, func(k candidate) bool { return k.to.name() == a.name() }) {
				out = append(out, a)
			}
		}
	}
	return out
}

// allowed is the index among the allowed pools of one, −1 without it.
func (c *cycle) allowed(name string) int {
	return slices.IndexFunc(c.pools, func(p api.Pool) bool { return p.Name == name })
}

// homes are the pools that managed workloads are on, or are taken back to, by index, as far as
// they are allowed; of others the one given, if a strategy leaves it open.
func (c *cycle) homes(otherwise int) []int {
	home := c.home()
	at := make([]int, len(c.managed))
	for i := range at {
		at[i] = otherwise
		key := c.managed[i].workload.Key
		if p := c.allowed(cmp.Or(c.putBack[key], home[key])); p >= 0 && !c.keepsOff(&c.pools[p]) {
			at[i] = p
		}
		if open := c.open(i); !slices.Contains(open, at[i]) {
			at[i] = open[0]
		}
	}
	return at
}

// mixPools are the allowed pools as a mixture takes them.
func (c *cycle) mixPools(alone []candidate) []mixPool {
	out := make([]mixPool, len(c.pools))
	for p := range c.pools {
		pool := &c.pools[p]
		round := float64(max(1, len(pool.Zones)))
		out[p] = mixPool{price: pool.Price, round: round, least: round * float64(pool.MinPerZone), most: math.Inf(1)}
		if pool.MaxPerZone > 0 {
			out[p].most = round * float64(pool.MaxPerZone)
		}
		if k := onPool(alone, pool.Name); k != nil && len(k.problem.MaxNodes) == 1 && k.problem.MaxNodes[0] >= 0 {
			out[p].most = min(out[p].most, float64(k.problem.MaxNodes[0]))
		}
	}
	return out
}

// mixLoad is a workload as a mixture takes it, by what it would have with all workloads on
// each pool.
func (c *cycle) mixLoad(alone []candidate, workload, at int) mixLoad {
	out := mixLoad{takes: make([]resources, len(c.pools)), home: at}
	w := &c.managed[workload].workload
	moves := c.mixable(workload)
	for p := range c.pools {
		pool := &c.pools[p]
		if p != at && (!moves || !slices.Contains(c.open(workload), p) || c.keepsOff(pool)) {
			continue
		}
		out.takes[p] = resources{1e-12, 1e-12, 1e-12} // nothing is known of its pods: as good as none
		k := onPool(alone, pool.Name)
		if w.Shape == nil || k == nil {
			continue
		}
		room := pool.Allocatable.Minus(pool.Overhead)
		if p != at && (!w.Shape.Requests.Fits(room) || !(placement.Site{Labels: pool.Labels, Taints: pool.Taints}).Admits(w.Shape) ||
			placement.Spreads(w.Shape) && !slices.Equal(pool.Zones, c.pools[at].Zones)) {
			out.takes[p] = resources{}
			continue
		}
		n := c.inBase(workload, p, k.replicas(workload))
		of := func(want, have int64) float64 { return n * float64(max(want, 0)) / float64(max(have, 1)) }
		out.takes[p] = out.takes[p].plus(resources{of(w.Shape.Requests.MilliCPU, room.MilliCPU), of(w.Shape.Requests.Memory, room.Memory), of(1, room.Pods)}, 1)
	}
	return out
}

// replicas that a candidate has nodes for, of a managed workload.
func (k *candidate) replicas(workload int) int32 {
	if item, chosen := slices.BinarySearch(k.index, workload); chosen && item < len(k.result.Best.Replicas) {
		return max(k.result.Best.Replicas[item], k.nodeMin[workload])
	}
	return k.subjects[workload].Workload.Replicas
}

// onPool is the candidate with all workloads on a pool, nil if there is none.
func onPool(all []candidate, pool string) *candidate {
	i := slices.IndexFunc(all, func(k candidate) bool { return k.err == nil && len(k.to.pools) == 1 && k.to.pools[0].Name == pool })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// spread reports whether workloads are on several pools, and not as a strategy has them there.
func (c *cycle) spread() bool {
	if c.anyRestricted() || slices.ContainsFunc(c.managed, func(mw managed) bool { return mw.memory.Apart != "" }) {
		return false
	}
	first, several := "", false
	for _, pool := range c.home() {
		first = cmp.Or(first, pool)
		several = several || pool != first
	}
	return several
}

// eachOnItsOwn says that workloads can't be moved from the several pools that they are on.
const eachOnItsOwn = "each on its own"

// staysSpread is the same cycle where workloads stay on the several pools that they are on.
func (c *cycle) staysSpread() *cycle {
	p, home := c.p, c.home()
	var all []string
	for i := range c.managed {
		mw := &c.managed[i]
		for _, pool := range []string{home[mw.workload.Key], mw.memory.Spot} {
			if pool != "" && !slices.Contains(all, pool) {
				all = append(all, pool)
			}
		}
	}
	slices.Sort(all)
	p.NodePools, p.MachineType = all, ""
	return c.again(c.s, p, eachOnItsOwn)
}
