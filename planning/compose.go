package planning

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/choice"
)

// pack asks the NodePlanner to place all pods with nodes for these replicas of
// the candidate's items, within the candidate's limits.
func (c *cycle) pack(k *candidate, nodeReplicas []int32) (choice.Packing, error) {
	replicas := make([]int32, len(nodeReplicas))
	for i, n := range nodeReplicas {
		replicas[i] = min(n, k.problem.Items[i].Hi)
	}
	budget := c.Config.Solver
	budget.SizesOnly = true
	limited, err := c.packWithin(k, replicas, nodeReplicas, k.problem.MaxNodes, budget)
	if err != nil {
		return choice.Packing{}, err
	}
	chosen := make(map[api.ObjectRef]bool, len(k.problem.Items))
	for _, it := range k.problem.Items {
		chosen[api.WorkloadRef(it.Key)] = true
	}
	for _, u := range limited.Plan.Unplaced {
		if chosen[u.Object] {
			limited.Infeasible = fmt.Sprintf("%d pods of %s have no place: %s", u.Count, u.Name, u.Reason)
		}
	}
	if limited.Unplaced == 0 || !slices.ContainsFunc(k.problem.MaxNodes, func(n int32) bool { return n >= 0 }) {
		return limited, nil
	}
	// Pods that no number of nodes could take say nothing about this candidate;
	// those that a limit leaves without a place do.
	free, err := c.packWithin(k, replicas, nodeReplicas, unlimited(len(k.to.pools)), budget)
	if err != nil {
		return choice.Packing{}, err
	}
	if short := limited.Unplaced - free.Unplaced; short > 0 {
		limited.Short, limited.Limited = short, fmt.Sprintf("%d pods have no place: %s", short, strings.Join(limits(k.problem.Limit), "; "))
		limited.Infeasible = limited.Limited
	}
	return limited, nil
}

// unlimited is no limit for so many places.
func unlimited(places int) []int32 { return slices.Repeat([]int32{-1}, places) }

// limits that there are.
func limits(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "" })
}

// packWithin is one call of the NodePlanner, which is told of the workloads whose
// replicas are chosen only: the pods of all others count as they are.
func (c *cycle) packWithin(k *candidate, replicas, nodeReplicas, maxNodes []int32, budget api.Budget) (choice.Packing, error) {
	in := api.NodeInput{Snapshot: c.s, Demands: make([]api.NodeDemand, len(k.index)), Bounds: c.bounds(k.to, maxNodes), Budget: budget}
	// Assignments are compared as if all had moved; nodes are there for those that have not.
	in.Astray = !budget.SizesOnly && c.anyAstray(k)
	in.Snapshot.Workloads = k.planned
	for i, at := range k.index {
		scale := k.ranges[at].Lo.Scale
		scale.Replicas = replicas[i]
		in.Demands[i] = api.NodeDemand{
			Key: c.managed[at].workload.Key, Scale: scale, NodeReplicas: nodeReplicas[i],
			Pools: k.to.only(at), Spot: c.spotBounds(k.to, at), Shadow: c.managed[at].workload.Mode == api.ModeShadow,
		}
	}
	plan, err := c.planNodes(in)
	if err != nil {
		return choice.Packing{}, fmt.Errorf("pool %s: %w", k.to.name(), err)
	}
	out := choice.Packing{Plan: plan, Nodes: make([]int32, len(k.to.pools))}
	for _, pp := range plan.Pools {
		if p := k.to.uses(pp.Pool); p >= 0 {
			out.Nodes[p] = pp.Nodes
		}
	}
	for _, u := range plan.Unplaced {
		out.Unplaced += u.Count
	}
	out.Limited = k.beyond(out.Nodes, maxNodes)
	out.Infeasible = out.Limited
	return out, nil
}

// ReasonLimitExceeded is that of a finding which tells that a pool has more nodes than a limit
// allows, as pods run there that have no other place.
const ReasonLimitExceeded = "LimitExceeded"

// ReasonPoolUnready is that of a finding which tells that many nodes of a pool are not Ready,
// and that they are not replaced.
const ReasonPoolUnready = "PoolNodesUnready"

// compose writes the plan down and remembers what the next cycle needs.
func (c *cycle) compose(candidates []candidate, chosen int) api.Plan {
	plan := api.Plan{Time: c.s.Time, Policy: c.p.Name, Rollback: c.rollback()}
	if chosen < 0 {
		c.holdAll(candidates, &plan)
		return plan
	}
	k := &candidates[chosen]
	best := k.result.Best
	plan.Utility = best.Utility
	replicas := make([]int32, len(c.managed))
	for i := range c.managed {
		r := k.ranges[i]
		replicas[i] = min(max(k.raw[i], r.Lo.Replicas), r.Hi.Replicas) // of those that are only shown
	}
	for i, at := range k.index {
		replicas[at] = best.Replicas[i]
	}
	for i := range c.managed {
		w := c.describe(k, i, replicas[i])
		plan.Workloads = append(plan.Workloads, w)
		c.remember(k, i, w)
	}
	if len(k.to.pools) > 0 {
		plan.Nodes = c.nodes(k, plan.Workloads)
		stays := slices.ContainsFunc(c.findings, func(f api.Finding) bool { return f.Reason == ReasonLimitExceeded })
		if !best.Feasible() && (len(plan.Nodes.Unplaced) > 0 || !stays) {
			c.find(api.Warning, api.NodePlanningAgent, "Infeasible", api.NamedPolicyRef(c.p.Name),
				fmt.Sprintf("no allowed pool can hold what is needed; on %s %s", k.to.name(), best.Packing.Infeasible))
		}
	}
	for _, pp := range plan.Nodes.Pools {
		if pp.Unready > 0 {
			c.find(api.Warning, api.NodePlanningAgent, ReasonPoolUnready, api.PoolRef(pp.Pool),
				fmt.Sprintf("%d of its nodes have not become Ready in time: no others are bought in their place, as these would hardly either", pp.Unready))
		}
	}
	for _, u := range plan.Nodes.Unplaced {
		c.find(api.Warning, api.NodePlanningAgent, "Unplaced", u.Object,
			fmt.Sprintf("%d pods have no place on the planned nodes: %s", u.Count, u.Reason))
	}
	c.search.Complete, c.search.Exhaustive = true, true
	for i := range candidates {
		r := candidates[i].result
		c.search.Complete = c.search.Complete && r.Complete
		c.search.Exhaustive = c.search.Exhaustive && r.Exhaustive
	}
	plan.Search = c.search
	plan.Candidates = c.losers(candidates, chosen)
	plan.Findings = c.findings
	return plan
}

// holdAll is the plan when no pool could be evaluated at all.
func (c *cycle) holdAll(candidates []candidate, plan *api.Plan) {
	var why []string
	for _, k := range candidates {
		why = append(why, k.err.Error())
		plan.Candidates = append(plan.Candidates, api.Candidate{Pool: k.to.name(), Infeasible: k.err.Error()})
	}
	reason := strings.Join(why, "; ")
	for i := range c.managed {
		w := c.stay(&candidates[0], i, reason)
		plan.Workloads = append(plan.Workloads, w)
		next := c.managed[i].memory
		next.Planned = w.Replicas
		c.memory.Workloads = append(c.memory.Workloads, next)
	}
	c.find(api.Warning, api.NodePlanningAgent, "NodesNotPlanned", api.NamedPolicyRef(c.p.Name), reason)
	plan.Findings = c.findings
	plan.Search = c.search
}

// stay is the plan of a workload for which nodes can't be planned: reactive growth
// needs none.
func (c *cycle) stay(k *candidate, i int, reason string) api.WorkloadPlan {
	mw := &c.managed[i]
	w := c.start(k, i)
	r := k.ranges[i]
	w.Replicas = min(max(mw.workload.Replicas, r.Floor), max(mw.workload.Replicas, mw.workload.MaxReplicas))
	if r.Hold == "" {
		w.Replicas = min(max(w.Replicas, r.Least), mw.workload.MaxReplicas)
	}
	w.NodeReplicas = w.Replicas
	w.Held, w.Binding = true, api.BindingHold
	w.Reason = fmt.Sprintf("held at %d: nodes can't be planned: %s", w.Replicas, reason)
	return w
}

// start is a workload's proposal as a plan, with what is known of the workload.
func (c *cycle) start(k *candidate, i int) api.WorkloadPlan {
	mw := &c.managed[i]
	w := k.proposals[i].plan()
	w.Skill, w.SLOs, w.Sizing = mw.skill, mw.slos, mw.sizing
	if w.Sizing.Acts() {
		w.Containers = scaleOf(w.Sizing)
	}
	w.Current = mw.replicas
	w.Shadow = mw.workload.Mode == api.ModeShadow
	w.Canary = mw.trial
	return w
}

// describe is a workload's plan: what was decided, where, and why.
func (c *cycle) describe(k *candidate, i int, replicas int32) api.WorkloadPlan {
	mw, r, need := &c.managed[i], k.ranges[i], k.proposals[i].Replicas
	w := c.start(k, i)
	w.Floor = r.Floor
	w.Replicas, w.Pools = replicas, k.to.shares(i, replicas, c.p.Spot)
	w.Prefers = c.prefers(k, i, replicas)
	w.NodeReplicas = max(replicas, k.nodeMin[i])
	if r.Hold != "" {
		w.Held, w.Binding, w.Reason = true, api.BindingHold, r.Hold
		if !w.Shadow {
			w.NodeReplicas = mw.live()
		}
		return w
	}
	w.Held = false // bounds hold where nothing is proposed
	note := ""
	switch replicas {
	case r.Lo.Replicas:
		w.Binding, note = r.Lo.Binding, r.Lo.Note
	case r.Hi.Replicas:
		w.Binding, note = r.Hi.Binding, r.Hi.Note
	default:
		w.Binding = api.BindingUtility
	}
	if note != "" {
		w.Reason += "; " + note
	}
	if replicas > max(need, r.Lo.Replicas) {
		u := c.p.Weights
		if r.Lo.Replicas > need && r.Lo.Note != "" {
			w.Reason += "; " + r.Lo.Note // more is on top of these
		}
		w.Reason += fmt.Sprintf("; utility pays for %d more (performance %.2g, cost %.2g, resilience %.2g)",
			replicas-max(need, r.Lo.Replicas), u.Performance, u.Cost, u.Resilience)
		if w.Binding != api.BindingMaxReplicas && w.Binding != api.BindingScaleUpRate {
			w.Binding = api.BindingUtility
		}
	}
	if k.limited != "" && replicas < r.Lo.Replicas {
		w.Binding = api.BindingBudget
		if r.Lo.Replicas > need && r.Lo.Note != "" {
			w.Reason += "; " + r.Lo.Note // less is given than these ask for
		}
		within := fmt.Sprintf("limited to %d", replicas)
		if replicas == w.Current {
			// A limit of money or nodes stops growth; it takes nothing away that runs.
			within = fmt.Sprintf("not beyond the %d that run", replicas)
		}
		w.Reason += fmt.Sprintf("; %s: within the limit %s", within, k.limited)
	}
	if len(k.to.pools) > 0 && k.nodeNote[i] != "" {
		w.Reason += "; " + k.nodeNote[i]
	}
	if mw.note != "" {
		w.Reason += "; " + mw.note
	}
	return w
}

// remember notes what the next cycle needs of a workload.
func (c *cycle) remember(k *candidate, i int, w api.WorkloadPlan) {
	next := c.managed[i].memory.counted(k.proposals[i]).idle(c.s.Time, w.Activity)
	if pool := k.to.pool(i); pool != nil {
		next.Pool, next.Spot = pool.Name, ""
		if spot := k.to.spotPool(i); spot != nil {
			next.Spot = spot.Name
		}
		if c.restricted(i) {
			next.Apart = pool.Name
		}
	}
	// What runs on slower machines until it has moved needs more of them.
	speed := k.speed[i]
	if now := c.managed[i].workload.SpeedNow; now > 0 && now < speed {
		speed = now
	}
	steady := k.steady[i]
	if w.Held {
		// Nobody knows what was needed meanwhile: the first reading afterwards is
		// no reason to give up at once what there is.
		steady = next.Replicas
	}
	raw := k.raw[i]
	if k.exceeds && k.steered[i] && !k.subjects[i].keeps() {
		// Nothing beyond need is recommended that limits don't allow: else what utility
		// would have without them would be kept for ever.
		needed := k.ranges[i].needed()
		steady, raw = min(steady, needed), min(raw, needed)
	}
	next = next.recommend(c.s.Time, float64(steady)*speed)
	if raw > k.steady[i] {
		next.Ramps = recommended(next.Ramps, c.s.Time, float64(raw)*speed)
	}
	next.Planned, next.NodeReplicas = w.Replicas, w.NodeReplicas
	next.Margins.Yield = c.yields(k, i, w)
	b := c.managed[i].workload.Behavior
	longest := max(c.Config.Stabilization, c.Config.TrustedStabilization, c.Config.NodeStabilization, b.ScaleUp.StabilizationWindow, b.ScaleDown.StabilizationWindow)
	if next.Margins.Known() || keepsObjective(c.managed[i].workload, c.p) {
		longest = max(longest, 2*max(c.Config.Stabilization, c.Config.NodeStabilization, next.Margins.Hold)) // see settled
	}
	for _, rules := range []api.ScalingRules{b.ScaleUp, b.ScaleDown} {
		for _, policy := range rules.Policies {
			longest = max(longest, policy.Period)
		}
	}
	c.memory.Workloads = append(c.memory.Workloads, next.forget(c.s.Time.Add(-longest)))
}

// nodes is the node plan of the choice: the packing with the nodes that utility
// added, pools that may not be resized as they are, and pools to be left.
func (c *cycle) nodes(k *candidate, plans []api.WorkloadPlan) api.NodePlan {
	best := k.result.Best
	out := best.Packing.Plan
	// What is needed at once was packed with room for what comes; ask again.
	replicas, nodeReplicas := make([]int32, len(k.index)), make([]int32, len(k.index))
	for i, at := range k.index {
		replicas[i], nodeReplicas[i] = plans[at].Replicas, plans[at].NodeReplicas
	}
	if again, err := c.packWithin(k, replicas, nodeReplicas, k.problem.MaxNodes, c.Config.Solver); err == nil {
		c.search.Packings++
		out = again.Plan
	}
	if len(k.to.pools) == 1 {
		out.Pool = k.to.pools[0].Name
	}
	out.Pools = slices.Clone(out.Pools)
	planned := map[string]bool{}
	for i := range out.Pools {
		planned[out.Pools[i].Pool] = true
	}
	for _, pool := range c.s.Pools {
		if !planned[pool.Name] && slices.Contains(c.p.ManagedPools, pool.Name) {
			zones := int32(max(1, len(pool.Zones)))
			out.Pools = append(out.Pools, api.PoolPlan{
				Pool: pool.Name, SizePerZone: pool.MinPerZone, Now: pool.MinPerZone,
				Nodes: pool.MinPerZone * zones, Current: pool.Nodes(),
				Reason: fmt.Sprintf("policy %s plans pods on %s", c.p.Name, k.to.name()),
			})
		}
	}
	out.HourlyCost = 0
	limited := make([]bool, len(k.to.pools)) // pods would have a place but for a limit
	for i := range out.Pools {
		pp := &out.Pools[i]
		at := slices.IndexFunc(c.s.Pools, func(p api.Pool) bool { return p.Name == pp.Pool })
		p := k.to.uses(pp.Pool)
		if at < 0 || p < 0 {
			continue
		}
		pool := c.s.Pools[at]
		if extra := best.Nodes[p] - best.Packing.Nodes[p]; extra > 0 {
			grow(pp, pool, extra, c.s.Nodes)
			pp.Reason = strings.TrimPrefix(fmt.Sprintf("%s; utility pays for %d more nodes", pp.Reason, extra), "; ")
		}
		c.keepFound(k, pp, pool)
		most := k.problem.MaxNodes[p]
		c.guard.limitSize(pp, pool, most, k.problem.Limit[p])
		limited[p] = len(out.Unplaced) > 0 && most >= 0 && pp.Nodes+int32(max(1, len(pool.Zones))) > most
	}
	crowded := slices.Contains(limited, true)
	kept, exceeded := slices.Clone(k.problem.MaxNodes), false
	for i := range out.Pools {
		pp := &out.Pools[i]
		at := slices.IndexFunc(c.s.Pools, func(p api.Pool) bool { return p.Name == pp.Pool })
		if at < 0 {
			continue
		}
		pool := c.s.Pools[at]
		perZone := int32(0)
		if crowded {
			perZone = c.occupied(pool)
		}
		if perZone > pp.SizePerZone {
			// A limit that is below what runs forbids growth. It is no reason to
			// take a place from pods that have no other.
			grow(pp, pool, (perZone-pp.SizePerZone)*int32(max(1, len(pool.Zones))), c.s.Nodes)
			pp.Now = max(pp.Now, perZone)
			pp.Reason = strings.TrimPrefix(fmt.Sprintf("%s; none is taken from pods that have no other place", pp.Reason), "; ")
			if p := k.to.uses(pp.Pool); p >= 0 && kept[p] >= 0 && pp.Nodes > kept[p] {
				kept[p], exceeded = pp.Nodes, true
				c.find(api.Warning, api.NodePlanningAgent, ReasonLimitExceeded, api.PoolRef(pp.Pool),
					fmt.Sprintf("%d nodes stay, as pods run there that have no other place: %s", pp.Nodes, k.problem.Limit[p]))
			}
		}
		c.guard.keepSize(pp, pool)
		c.keepResized(pp, pool, k.to)
		c.surplusSince(pp, pool)
		pp.HourlyCost = float64(pp.Nodes) * pool.Price
		out.HourlyCost += pp.HourlyCost
	}
	if exceeded { // there is a place for more than the limit has
		if again, err := c.packWithin(k, replicas, nodeReplicas, kept, c.Config.Solver); err == nil {
			c.search.Packings++
			out.Unplaced = again.Plan.Unplaced
		}
	}
	slices.SortFunc(out.Pools, func(a, b api.PoolPlan) int { return cmp.Compare(a.Pool, b.Pool) })
	return out
}

// occupied is the largest number of nodes in a zone of a pool that have pods of
// anybody on them, other than those of DaemonSets and static ones.
func (c *cycle) occupied(pool api.Pool) int32 {
	zone := make(map[string]string)
	for _, n := range c.s.Nodes {
		if n.Pool == pool.Name {
			zone[n.Name] = pool.ZoneOf(&n)
		}
	}
	seen, count := map[string]bool{}, map[string]int32{}
	var most int32
	for i := range c.s.Pods {
		pod := &c.s.Pods[i]
		if z, ok := zone[pod.Node]; ok && !pod.Terminating && !pod.DaemonSet && !pod.Mirror && !seen[pod.Node] {
			seen[pod.Node] = true
			count[z]++
			most = max(most, count[z])
		}
	}
	return most
}

// keepFound keeps, where no trusted forecast looks ahead, the nodes that were
// there at the start for a while: nobody knows yet what for.
func (c *cycle) keepFound(k *candidate, pp *api.PoolPlan, pool api.Pool) {
	looksAhead := true
	for i := range c.managed {
		if mw := &c.managed[i]; k.steered[i] || mw.waits() {
			looksAhead = looksAhead && mw.looksAhead()
		}
	}
	if looksAhead {
		return
	}
	for _, found := range c.memory.Found {
		keep := min(found.PerZone, largest(pool.Sizes))
		if extra := (keep - pp.SizePerZone) * int32(max(1, len(pool.Zones))); found.Pool == pool.Name && extra > 0 {
			grow(pp, pool, extra, c.s.Nodes)
			pp.Reason = strings.TrimPrefix(fmt.Sprintf("%s; %d more nodes were there at the start, kept for %v", pp.Reason, extra,
				c.Config.NodeStabilization-c.s.Time.Sub(c.memory.Start)), "; ")
		}
	}
}

// grow adds nodes to a pool's plan; as many of its surplus are needed after all.
func grow(pp *api.PoolPlan, pool api.Pool, extra int32, nodes []api.Node) {
	zones := int32(max(1, len(pool.Zones)))
	perZone := extra / zones
	pp.SizePerZone += perZone
	pp.Nodes += perZone * zones
	zoneOf := make(map[string]string, len(nodes))
	for _, n := range nodes {
		zoneOf[n.Name] = pool.ZoneOf(&n)
	}
	kept := map[string]int32{}
	var surplus []string
	for i := len(pp.Surplus) - 1; i >= 0; i-- { // the last would be removed last
		zone := zoneOf[pp.Surplus[i]]
		if kept[zone] < perZone {
			kept[zone]++
			continue
		}
		surplus = append(surplus, pp.Surplus[i])
	}
	slices.Reverse(surplus)
	pp.Surplus = surplus
}

// losers lists the candidates that lost: for every pool its best, then for each
// some neighbours.
func (c *cycle) losers(candidates []candidate, chosen int) []api.Candidate {
	var out []api.Candidate
	for i := range candidates {
		k := &candidates[i]
		name := k.to.name()
		if k.err != nil {
			out = append(out, api.Candidate{Pool: name, Infeasible: k.err.Error()})
			continue
		}
		show := func(s choice.Solution, note string) {
			var replicas int64
			for _, r := range s.Replicas {
				replicas += int64(r)
			}
			var nodes int32
			for _, n := range s.Nodes {
				nodes += n
			}
			out = append(out, api.Candidate{
				Pool: name, Nodes: nodes, Replicas: replicas, HourlyCost: k.problem.Cost(s.Nodes),
				Utility: s.Utility, Infeasible: s.Packing.Infeasible, Note: note,
			})
		}
		if i != chosen {
			note := "best of its pool"
			if k.note != "" {
				note += ", " + k.note
			}
			show(k.result.Best, note)
			continue
		}
		for _, l := range k.result.Losers {
			show(l, l.Note)
		}
	}
	slices.SortStableFunc(out, func(a, b api.Candidate) int {
		if d := cmp.Compare(len(a.Infeasible), 0) - cmp.Compare(len(b.Infeasible), 0); d != 0 {
			return d
		}
		return cmp.Compare(b.Utility.Total, a.Utility.Total)
	})
	return out
}

// budget is how many packings a cycle of this size may ask for.
func (c Config) budget(s api.Snapshot) int {
	return min(max(c.PackingWork/(len(s.Pods)+len(s.Nodes)+1), minPackings), c.Packings)
}

// minPackings are enough for the separable optimum and a look around.
const minPackings = 8
