package planning

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
)

// pack asks the NodePlanner to place all pods with nodes for these replicas of
// the candidate's items, within the candidate's limits.
func (c *cycle) pack(k *candidate, nodeReplicas []int32) (packing, error) {
	replicas := make([]int32, len(nodeReplicas))
	for i, n := range nodeReplicas {
		replicas[i] = min(n, k.problem.items[i].hi)
	}
	budget := c.Config.Solver
	budget.SizesOnly = true
	limited, err := c.packWithin(k, replicas, nodeReplicas, k.problem.maxNodes, budget)
	if err != nil {
		return packing{}, err
	}
	names := make(map[string]bool, len(k.problem.items))
	for _, it := range k.problem.items {
		names[it.key.String()] = true
	}
	for _, u := range limited.plan.Unplaced {
		if names[u.Name] {
			limited.infeasible = fmt.Sprintf("%d pods of %s have no place: %s", u.Count, u.Name, u.Reason)
		}
	}
	if k.problem.maxNodes < 0 || limited.unplaced == 0 {
		return limited, nil
	}
	// Pods that no number of nodes could take say nothing about this candidate;
	// those that a limit leaves without a place do.
	free, err := c.packWithin(k, replicas, nodeReplicas, -1, budget)
	if err != nil {
		return packing{}, err
	}
	if short := limited.unplaced - free.unplaced; short > 0 {
		limited.infeasible = fmt.Sprintf("%d pods have no place: %s", short, k.problem.limit)
	}
	return limited, nil
}

// packWithin is one call of the NodePlanner, which is told of the workloads whose
// replicas are chosen only: the pods of all others count as they are.
func (c *cycle) packWithin(k *candidate, replicas, nodeReplicas []int32, maxNodes int32, budget api.Budget) (packing, error) {
	plans := make([]api.WorkloadPlan, len(k.index))
	s := c.s
	s.Workloads = make([]api.Workload, len(k.index))
	for i, at := range k.index {
		plans[i], s.Workloads[i] = k.plans[at], c.managed[at].workload
		plans[i].Current = s.Workloads[i].Replicas
		plans[i].Replicas, plans[i].NodeReplicas = replicas[i], nodeReplicas[i]
	}
	p := c.p
	p.NodePools = []string{k.pool.Name}
	p.MaxNodesPerPool = max(maxNodes, 0)
	s.Pools = slices.Clone(s.Pools)
	for i := range s.Pools {
		if s.Pools[i].Name != k.pool.Name {
			continue
		}
		s.Pools[i].MinPerZone = k.pool.MinPerZone // with the policy's
		switch {
		case maxNodes == 0:
			// A policy has no way to say "none", a pool has.
			p.MaxNodesPerPool = 0
			s.Pools[i].MinPerZone = c.s.Pools[i].MinPerZone
			s.Pools[i].MaxPerZone = max(1, s.Pools[i].MinPerZone)
		case maxNodes > 0:
			// What is kept for nothing goes first where there is a limit.
			zones := int32(max(1, len(k.pool.Zones)))
			s.Pools[i].MinPerZone = max(c.s.Pools[i].MinPerZone, min(k.pool.MinPerZone, maxNodes/zones))
		}
	}
	plan, err := c.planNodes(s, plans, p, budget)
	if err != nil {
		return packing{}, fmt.Errorf("pool %s: %w", k.pool.Name, err)
	}
	out := packing{plan: plan}
	for _, pp := range plan.Pools {
		if pp.Pool == k.pool.Name {
			out.nodes = pp.Nodes
		}
	}
	for _, u := range plan.Unplaced {
		out.unplaced += u.Count
	}
	if maxNodes >= 0 && out.nodes > maxNodes {
		out.infeasible = fmt.Sprintf("%d nodes are needed: %s", out.nodes, k.problem.limit)
	}
	return out, nil
}

// compose writes the plan down and remembers what the next cycle needs.
func (c *cycle) compose(candidates []candidate, chosen int) api.Plan {
	plan := api.Plan{Time: c.s.Time, Policy: c.p.Name}
	if chosen < 0 {
		c.holdAll(candidates, &plan)
		return plan
	}
	k := &candidates[chosen]
	best := k.result.best
	plan.Utility = best.utility
	replicas := make([]int32, len(c.managed))
	for i := range c.managed {
		r := k.ranges[i]
		replicas[i] = min(max(k.raw[i], r.Lo), r.Hi) // of those that are only shown
	}
	for i, at := range k.index {
		replicas[at] = best.replicas[i]
	}
	for i := range c.managed {
		w := c.describe(k, i, replicas[i])
		plan.Workloads = append(plan.Workloads, w)
		c.remember(k, i, w)
	}
	if k.pool != nil {
		c.memory.Pool = k.pool.Name
		plan.Nodes = c.nodes(k, plan.Workloads)
		if !best.feasible() {
			c.find(api.Warning, api.NodePlanningAgent, "Infeasible", "policy "+c.p.Name,
				fmt.Sprintf("no allowed pool can hold what is needed; on %s %s", k.pool.Name, best.packing.infeasible))
		}
	}
	for _, u := range plan.Nodes.Unplaced {
		c.find(api.Warning, api.NodePlanningAgent, "Unplaced", u.Name,
			fmt.Sprintf("%d pods have no place on the planned nodes: %s", u.Count, u.Reason))
	}
	c.search.Complete, c.search.Exhaustive = true, true
	for i := range candidates {
		r := candidates[i].result
		c.search.Complete = c.search.Complete && r.complete
		c.search.Exhaustive = c.search.Exhaustive && r.exhaustive
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
		plan.Candidates = append(plan.Candidates, api.Candidate{Pool: k.pool.Name, Infeasible: k.err.Error()})
	}
	reason := strings.Join(why, "; ")
	for i := range c.managed {
		mw := &c.managed[i]
		w := candidates[0].plans[i]
		// Reactive growth needs no nodes to be planned for it.
		w.Replicas = min(max(mw.workload.Replicas, candidates[0].ranges[i].Floor), max(mw.workload.Replicas, mw.workload.MaxReplicas))
		w.NodeReplicas, w.Current = w.Replicas, mw.replicas
		w.Shadow = mw.workload.Mode == api.ModeShadow
		w.Held, w.Binding = true, "hold"
		w.Reason = fmt.Sprintf("held at %d: nodes can't be planned: %s", w.Replicas, reason)
		plan.Workloads = append(plan.Workloads, w)
		next := mw.memory
		next.Planned = w.Replicas
		c.memory.Workloads = append(c.memory.Workloads, next)
	}
	c.find(api.Warning, api.NodePlanningAgent, "NodesNotPlanned", "policy "+c.p.Name, reason)
	plan.Findings = c.findings
	plan.Search = c.search
}

// describe completes a workload's plan with what was decided and why.
func (c *cycle) describe(k *candidate, i int, replicas int32) api.WorkloadPlan {
	mw, r, w := &c.managed[i], k.ranges[i], k.plans[i]
	need := w.Replicas
	w.Current = mw.replicas
	w.Shadow = mw.workload.Mode == api.ModeShadow
	w.Floor = r.Floor
	w.Replicas = replicas
	w.NodeReplicas = max(replicas, k.nodeMin[i])
	if r.Hold != "" {
		w.Held, w.Binding, w.Reason = true, "hold", r.Hold
		if !w.Shadow {
			w.NodeReplicas = mw.live()
		}
		return w
	}
	note := ""
	switch replicas {
	case r.Lo:
		w.Binding, note = r.LoBinding, r.LoNote
	case r.Hi:
		w.Binding, note = r.HiBinding, r.HiNote
	default:
		w.Binding = "utility"
	}
	if note != "" {
		w.Reason += "; " + note
	}
	if replicas > max(need, r.Lo) {
		u := c.p.Weights
		w.Reason += fmt.Sprintf("; utility pays for %d more (performance %.2g, cost %.2g, resilience %.2g)",
			replicas-max(need, r.Lo), u.Performance, u.Cost, u.Resilience)
		if w.Binding != "maxReplicas" && w.Binding != "scaleUpRate" {
			w.Binding = "utility"
		}
	}
	if k.limited != "" && replicas < r.Lo {
		w.Binding = "budget"
		w.Reason += fmt.Sprintf("; limited to %d: %s", replicas, k.limited)
	}
	if k.pool != nil && k.nodeNote[i] != "" {
		w.Reason += "; " + k.nodeNote[i]
	}
	if mw.note != "" {
		w.Reason += "; " + mw.note
	}
	return w
}

// remember notes what the next cycle needs of a workload.
func (c *cycle) remember(k *candidate, i int, w api.WorkloadPlan) {
	next := c.managed[i].memory.counted(w).idle(c.s.Time, w.Activity)
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
	next = next.recommend(c.s.Time, float64(steady)*speed)
	if raw := k.raw[i]; raw > k.steady[i] {
		next.Rising = recommended(next.Rising, c.s.Time, float64(raw)*speed)
	}
	next.Planned, next.NodeReplicas = w.Replicas, w.NodeReplicas
	b := c.managed[i].workload.Behavior
	longest := max(c.Config.Stabilization, c.Config.LicensedStabilization, c.Config.NodeStabilization, b.ScaleUp.StabilizationWindow, b.ScaleDown.StabilizationWindow)
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
	best := k.result.best
	out := best.packing.plan
	// What is needed at once was packed with room for what comes; ask again.
	replicas, nodeReplicas := make([]int32, len(k.index)), make([]int32, len(k.index))
	for i, at := range k.index {
		replicas[i], nodeReplicas[i] = plans[at].Replicas, plans[at].NodeReplicas
	}
	if again, err := c.packWithin(k, replicas, nodeReplicas, k.problem.maxNodes, c.Config.Solver); err == nil {
		c.search.Packings++
		out = again.plan
	}
	out.Pool = k.pool.Name
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
				Reason: fmt.Sprintf("policy %s plans pods on %s", c.p.Name, k.pool.Name),
			})
		}
	}
	out.HourlyCost = 0
	limited := false // pods would have a place but for a limit
	for i := range out.Pools {
		pp := &out.Pools[i]
		at := slices.IndexFunc(c.s.Pools, func(p api.Pool) bool { return p.Name == pp.Pool })
		if at < 0 {
			continue
		}
		pool := c.s.Pools[at]
		if extra := best.nodes - best.packing.nodes; pp.Pool == k.pool.Name && extra > 0 {
			grow(pp, pool, extra, c.s.Nodes)
			pp.Reason = strings.TrimPrefix(fmt.Sprintf("%s; utility pays for %d more nodes", pp.Reason, extra), "; ")
		}
		if pp.Pool == k.pool.Name {
			c.keepFound(k, pp, pool)
			c.guard.limitSize(pp, pool, k.problem.maxNodes, k.problem.limit)
			limited = len(out.Unplaced) > 0 && k.problem.maxNodes >= 0 && pp.Nodes+int32(max(1, len(pool.Zones))) > k.problem.maxNodes
		}
	}
	for i := range out.Pools {
		pp := &out.Pools[i]
		at := slices.IndexFunc(c.s.Pools, func(p api.Pool) bool { return p.Name == pp.Pool })
		if at < 0 {
			continue
		}
		pool := c.s.Pools[at]
		if perZone := c.occupied(pool); limited && perZone > pp.SizePerZone {
			// A limit that is below what runs forbids growth. It is no reason to
			// take a place from pods that have no other.
			grow(pp, pool, (perZone-pp.SizePerZone)*int32(max(1, len(pool.Zones))), c.s.Nodes)
			pp.Now = max(pp.Now, perZone)
			pp.Reason = strings.TrimPrefix(fmt.Sprintf("%s; none is taken from pods that have no other place", pp.Reason), "; ")
		}
		c.guard.keepSize(pp, pool)
		c.keepResized(pp, pool, k.pool.Name)
		pp.HourlyCost = float64(pp.Nodes) * pool.Price
		out.HourlyCost += pp.HourlyCost
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
			zone[n.Name] = n.Zone
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

// keepFound keeps, where no licensed forecast looks ahead, the nodes that were
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
		zoneOf[n.Name] = n.Zone
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
		name := ""
		if k.pool != nil {
			name = k.pool.Name
		}
		if k.err != nil {
			out = append(out, api.Candidate{Pool: name, Infeasible: k.err.Error()})
			continue
		}
		show := func(s solution, note string) {
			var replicas int64
			for _, r := range s.replicas {
				replicas += int64(r)
			}
			cost := k.problem.fixedCost
			if k.pool != nil {
				cost += float64(s.nodes) * k.pool.Price
			}
			out = append(out, api.Candidate{
				Pool: name, Nodes: s.nodes, Replicas: replicas, HourlyCost: cost,
				Utility: s.utility, Infeasible: s.packing.infeasible, Note: note,
			})
		}
		if i != chosen {
			note := "best of its pool"
			if k.note != "" {
				note += ", " + k.note
			}
			show(k.result.best, note)
			continue
		}
		for _, l := range k.result.losers {
			show(l, l.note)
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
