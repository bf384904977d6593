package planning

import (
	"fmt"
	"math"
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/parallel"
	"github.com/mash2-io/mash2/planning/choice"
)

// candidate is the best plan for one assignment of workloads to pools.
type candidate struct {
	to        assignment
	speed     []float64 // per managed workload
	proposals []Proposal
	subjects  []Subject
	ranges    []Range
	raw       []int32 // recommendations before stabilisation
	steady    []int32 // the same if demand rises no further
	nodeMin   []int32
	nodeNote  []string  // why nodes are kept
	sharing   []sharing // of each pool
	margins   []Margins // of each managed workload, with what its pool's pods share
	// steered are the workloads whose replicas are chosen. The others ask for no
	// node beyond the pods that they have.
	steered []bool
	costs   []poolCost
	index   []int // of each item among the managed workloads
	// planned are the workloads of the items, for the NodePlanner.
	planned []api.Workload
	problem choice.Problem
	result  choice.Result
	// limited is not empty when growth ahead of demand was given up, and why.
	limited string
	// exceeds: what is needed, and what may not go down now, is beyond the limits by itself.
	exceeds bool
	note    string
	err     error
	// settled: planned as if pods were on these pools already, which is how
	// assignments are compared. heedErrors and share are what it was planned with.
	settled, heedErrors bool
	share               int
}

// candidates evaluates every assignment, or replicas alone when there is no pool.
func (c *cycle) candidates() []candidate {
	all := c.assignments()
	if len(c.pools) == 0 {
		return []candidate{c.candidate(all[0], true, c.Config.budget(c.s), false)}
	}
	// A pool that lately failed to grow is no candidate beyond its size while
	// there are others; when nothing else is feasible it is asked again.
	share := max(minPackings, c.Config.budget(c.s)/len(all))
	var out []candidate
	feasible := false
	try := func(to assignment) {
		k := c.candidate(to, len(all) > 1, share, len(all) > 1)
		out, feasible = append(out, k), feasible || k.err == nil && k.result.Best.Feasible()
	}
	for _, to := range all {
		try(to)
	}
	for _, to := range c.mixtures(out) {
		try(to)
	}
	if feasible {
		return out
	}
	for i := range out {
		if again := c.candidate(out[i].to, false, share, len(all) > 1); again.err == nil {
			again.result.Packings += out[i].result.Packings
			out[i] = again
		}
	}
	return out
}

// arrive plans the chosen candidate anew with its pods where they are now: until
// they have moved, slower machines need more of them.
func (c *cycle) arrive(candidates []candidate, chosen int) {
	if chosen < 0 || !candidates[chosen].settled {
		return
	}
	k := &candidates[chosen]
	if !slices.ContainsFunc(k.index, func(i int) bool { return c.elsewhere(&c.managed[i], k.to.pool(i)) }) {
		return
	}
	if again := c.candidate(k.to, k.heedErrors, k.share, false); again.err == nil {
		candidates[chosen] = again
		for i := range candidates {
			if k := &candidates[i]; i != chosen && k.err == nil && k.note == "" {
				k.note = "judged as if pods had moved already"
			}
		}
	}
}

// candidate finds the best plan for one assignment.
func (c *cycle) candidate(to assignment, heedErrors bool, packings int, settled bool) candidate {
	k := candidate{to: to, settled: settled, heedErrors: heedErrors, share: packings}
	for p, pool := range to.pools {
		k.sharing = append(k.sharing, c.sharingOn(pool, func(i int) bool { return to.of[i] == p }))
	}
	n := len(c.managed)
	k.margins, k.speed, k.proposals = make([]Margins, n), make([]float64, n), make([]Proposal, n)
	k.subjects, k.ranges, k.steered = make([]Subject, n), make([]Range, n), make([]bool, n)
	failed := make([]mishaps, n)
	parallel.Each(n, func(i int) { c.consider(&k, i, &failed[i]) })
	c.failedAll(failed)
	k.problem.Terms = c.terms(&k)
	c.items(&k)
	if len(to.pools) > 0 {
		c.limits(&k)
		k.problem.Pack = func(nodeReplicas []int32) (choice.Packing, error) { return c.pack(&k, nodeReplicas) }
	}
	k.result, k.err = k.problem.Solve(packings, c.Config.Candidates)
	c.search.Packings += k.result.Packings
	if k.err == nil && k.result.Best.Packing.Limited != "" {
		c.relax(&k, packings)
	}
	return k
}

// limits finds what other pools cost and how many nodes those in use may have.
func (c *cycle) limits(k *candidate) {
	for _, other := range c.s.Pools {
		if k.to.uses(other.Name) < 0 && slices.Contains(c.p.ManagedPools, other.Name) {
			k.problem.FixedCost += float64(other.MinPerZone) * float64(len(other.Zones)) * other.Price
		}
	}
	for _, pool := range k.to.pools {
		others := k.problem.FixedCost
		for _, other := range k.to.pools {
			if other != pool {
				others += float64(other.MinPerZone) * float64(max(1, len(other.Zones))) * other.Price
			}
		}
		most, why := c.guard.MaxNodes(c.s.Time, c.p, *pool, others, k.heedErrors)
		k.problem.MaxNodes, k.problem.Limit = append(k.problem.MaxNodes, most), append(k.problem.Limit, why)
	}
	if len(k.to.pools) > 1 { // each within its limit may be too much together
		k.problem.MaxCost = c.p.MaxHourlyCost
	}
}

// beyond says which limit so many nodes of each pool are beyond; empty if none.
func (k *candidate) beyond(nodes, maxNodes []int32) string {
	for p, n := range nodes {
		if maxNodes[p] >= 0 && n > maxNodes[p] {
			return fmt.Sprintf("%d nodes are needed: %s", n, k.problem.Limit[p])
		}
	}
	return k.problem.TooDear(nodes)
}

// relaxSteps is into how many steps what is given up is divided.
const relaxSteps = 16

// relax gives up as much growing ahead of demand as limits on nodes or money
// leave no room for, by the same share of every workload's, but nothing of the
// reactive floor, the bounds, and what the author's rules keep of what runs. Where these
// are beyond the limits already, it is what would take them farther.
func (c *cycle) relax(k *candidate, packings int) {
	at := func(step int) choice.Problem {
		p := k.problem
		p.Items = slices.Clone(p.Items)
		for i := range p.Items {
			it, r := &p.Items[i], k.ranges[k.index[i]]
			least := min(it.Lo, max(r.needed(), r.Keep))
			part := func(n int32) int32 { return least + int32(int64(n-least)*int64(step)/relaxSteps) }
			it.NodeMin = part(max(it.NodeMin, least))
			it.Lo, it.LoBinding = part(it.Lo), api.BindingBudget
		}
		return p
	}
	pack := func(step int) (choice.Packing, bool) {
		p := at(step)
		n := make([]int32, len(p.Items))
		for i, it := range p.Items {
			n[i] = max(it.Lo, it.NodeMin)
		}
		c.search.Packings++
		packed, err := p.Pack(n)
		return packed, err == nil
	}
	most := func(fits func(choice.Packing) bool) int {
		step, beyond := 0, relaxSteps
		for beyond-step > 1 {
			mid := (step + beyond) / 2
			if packed, ok := pack(mid); ok && fits(packed) {
				step = mid
			} else {
				beyond = mid
			}
		}
		return step
	}
	step := most(func(p choice.Packing) bool { return p.Limited == "" })
	if step == 0 {
		if least, ok := pack(0); ok && least.Limited != "" {
			k.exceeds = true
			step = most(func(p choice.Packing) bool {
				return p.Short <= least.Short && (k.beyond(p.Nodes, k.problem.MaxNodes) == "" || slices.Equal(p.Nodes, least.Nodes))
			})
		}
	}
	tight := at(step)
	result, err := tight.Solve(packings, c.Config.Candidates)
	c.search.Packings += result.Packings
	if err != nil || choice.Ranks(result.Best, k.result.Best) >= 0 {
		return
	}
	k.limited = k.result.Best.Packing.Limited
	k.problem, k.result = tight, result
	for i, at := range k.index {
		k.nodeMin[at] = tight.Items[i].NodeMin
	}
}

// consider plans one workload for the pool that it is assigned to. Others are considered at
// the same time.
func (c *cycle) consider(k *candidate, i int, m *mishaps) {
	mw, pool := &c.managed[i], k.to.pool(i)
	w, memory := mw.workload, mw.memory
	speed, nodeStartup := positive(w.SpeedNow), api.StartupLatency{}
	if pool != nil {
		speed, nodeStartup = c.speed(mw, pool), pool.NodeStartup
		slower := pool // a replica is planned for the less that it can use on either
		if spot := k.to.spotPool(i); spot != nil {
			if s := c.speed(mw, spot); s < speed {
				speed, slower = s, spot
			}
			nodeStartup.P50, nodeStartup.P90 = max(nodeStartup.P50, spot.NodeStartup.P50), max(nodeStartup.P90, spot.NodeStartup.P90)
		}
		memory.Margins = c.marginsOn(mw, slower, k.sharing[k.to.of[i]])
	}
	if k.settled && c.elsewhere(mw, pool) {
		// As many as are worth the same there.
		ratio := w.SpeedNow / speed
		there := func(n int32) int32 { return choice.Ceil(float64(n) * ratio) }
		w.Replicas, w.SpeedNow = there(w.Replicas), speed
		memory.Replicas, memory.NodeReplicas = there(memory.Replicas), there(memory.NodeReplicas)
	}
	podStartup := c.podStartup(&w)
	if memory.Margins.Known() {
		podStartup, nodeStartup = rare(podStartup), rare(nodeStartup)
	}
	windows := c.windows(podStartup, nodeStartup)
	asked := c.propose(m, Input{
		Time: c.s.Time, Workload: w, Policy: c.p, Pods: mw.pods, Readings: memory.Readings,
		Metrics: c.s.Metrics, ResourceMetrics: c.s.ResourceMetrics,
		Forecast: mw.forecast, Trusted: mw.trusted, ForecastNote: mw.note, Outlooks: mw.outlooks,
		Speed: speed, ResizeTo: mw.resizeTo, Windows: windows, Margins: memory.Margins,
	})
	k.margins[i] = memory.Margins.Taking(asked.Part)
	asked = c.withReserve(asked, k.to, i, w.MaxReplicas)
	subject := Subject{
		Time: c.s.Time, Workload: w, Policy: c.p, Proposal: asked, Memory: memory.counted(asked).idle(c.s.Time, asked.Activity),
		Speed: speed, Trusted: mw.looksAhead(), Windows: windows,
		Stale: c.stale(w), Doubt: mw.doubt, Kept: c.kept(w.Key),
		Untried: c.untried[w.Key] != nil && c.memory.Rollback == nil, Band: c.band(mw),
	}
	k.speed[i], k.proposals[i], k.subjects[i] = speed, asked, subject
	var r Range
	if failure := m.try("the Guard", w.Key, func() { r = c.guard.Range(subject) }); failure != "" {
		r = holding(subject, failure)
	}
	k.ranges[i] = r
	k.steered[i] = w.Mode == api.ModeFull && r.Hold == ""
}

// stale tells whether some demand input of a workload isn't known well enough to
// have fewer replicas.
func (c *cycle) stale(w api.Workload) bool {
	return usesCPU(w) && (w.DemandStale || !c.s.Metrics.Reachable) ||
		slices.ContainsFunc(w.Triggers, func(s api.Trigger) bool { return s.Missing != "" && (w.Replicas > 0 || s.Activates) })
}

// elsewhere tells whether a workload's pods are on machines of another speed than
// a pool's.
func (c *cycle) elsewhere(mw *managed, pool *api.Pool) bool {
	now, there := positive(mw.workload.SpeedNow), c.speed(mw, pool)
	if mw.workload.Replicas == 0 {
		return false
	}
	return math.Abs(now-there) > settledSpeed*there
}

// propose asks the workload's planner; whatever goes wrong is a hold.
func (c *cycle) propose(m *mishaps, in Input) Proposal {
	if in.Workload.Hold != "" {
		return hold(in.Workload, in.Workload.Hold)
	}
	name := in.Workload.Planner
	if name == "" {
		name = DefaultPlanner
	}
	planner, ok := c.Planners[name]
	if !ok {
		return hold(in.Workload, fmt.Sprintf("there is no planner %q", name))
	}
	var asked Proposal
	var err error
	if failure := m.try("planner "+name, in.Workload.Key, func() { asked, err = planner.PlanWorkload(in) }); failure != "" {
		return hold(in.Workload, failure)
	}
	if err != nil {
		return hold(in.Workload, fmt.Sprintf("planner %s: %v", name, err))
	}
	return asked
}

// expected is a workload's demand by the forecasts' mean, in reference
// millicores: the average over the window a decision is for, and the peak of
// the horizon. What a trigger asks for counts as the CPU of as many replicas.
func expected(sub Subject) (mean, peak float64) {
	now := math.Max(sub.Proposal.Demand, 0)
	mean, peak = now, now
	if f := sub.Proposal.Forecast; f != nil {
		mean, peak = Expected(*f, sub.Time.Add(sub.Windows.Pod), now)
	}
	one := supply(sub.Proposal, sub.Speed)
	for _, s := range sub.Proposal.Triggers {
		mean, peak = math.Max(mean, s.Load*one), math.Max(peak, s.PeakLoad*one)
	}
	return mean, peak
}

// supply of one replica at 100 % of its request, in reference millicores.
func supply(asked Proposal, speed float64) float64 {
	return float64(max(asked.Request, 0)) * speed
}

// shares of a node that one replica takes: the CPU, memory and pod slots of a
// node with nothing else on it, which no packing can do better than, and the
// dominant share of what DaemonSets leave, which is what it is charged for.
func shares(mw *managed, pool *api.Pool) (s [3]float64, dominant float64) {
	if mw.workload.Shape == nil {
		return s, 0
	}
	r := mw.workload.Shape.Requests
	if pool == nil {
		s[0] = float64(r.MilliCPU) / 1000
		return s, s[0]
	}
	of := func(room api.Resources) [3]float64 {
		ratio := func(want, have int64) float64 {
			if want <= 0 || have <= 0 {
				return 0 // the packing tells what doesn't fit
			}
			return float64(want) / float64(have)
		}
		return [3]float64{ratio(r.MilliCPU, room.MilliCPU), ratio(r.Memory, room.Memory), ratio(r.Pods, room.Pods)}
	}
	charged := of(pool.Allocatable.Minus(pool.Overhead))
	return of(pool.Allocatable), slices.Max(charged[:])
}

// items fills in the problem's items and narrows them by tolerance.
func (c *cycle) items(k *candidate) {
	loads := make([]float64, len(c.managed))
	var total float64
	joint := 0
	for i := range c.managed {
		loads[i], _ = expected(k.subjects[i])
		if k.steered[i] {
			total += loads[i]
			joint++
		}
	}
	k.raw = make([]int32, len(c.managed))
	k.steady = make([]int32, len(c.managed))
	k.nodeMin = make([]int32, len(c.managed))
	k.nodeNote = make([]string, len(c.managed))
	items, failed := make([]choice.Item, len(c.managed)), make([]mishaps, len(c.managed))
	parallel.Each(len(c.managed), func(i int) {
		mw, r := &c.managed[i], &k.ranges[i]
		it := choice.Item{Key: mw.workload.Key, Weight: 1}
		if len(k.to.pools) > 0 {
			it.Place = k.to.of[i]
		}
		// Workloads that are only shown are planned as if alone with the rest.
		of := k.problem.Terms
		if sum := total; k.steered[i] {
			it.Weight = 1 / float64(joint)
			if sum > 0 {
				it.Weight = loads[i] / sum
			}
		} else {
			of.Reference = c.reference(k, i)
			if sum+loads[i] > 0 {
				it.Weight = loads[i] / (sum + loads[i])
			}
		}
		if sup := supply(k.proposals[i], k.speed[i]); sup > 0 {
			it.Load = loads[i] / sup
		}
		if m := k.margins[i]; m.Known() {
			it.Tail = choice.GrowthTail(m.factor(c.s.Time), m.Objective)
			it.Load *= choice.Saturation / m.Saturation()
		}
		it.Shares, it.Share = shares(mw, k.to.pool(i))
		if spot := k.to.spotPool(i); spot != nil {
			it.Spot = &choice.Spot{Spot: *c.p.Spot, Place: k.to.spot[i]}
			it.Spot.Shares, it.Spot.Share = shares(mw, spot)
		}
		if failure := failed[i].try("the Guard", it.Key, func() {
			k.nodeMin[i], it.NodeMin, k.nodeNote[i] = c.guard.NodeReplicas(k.subjects[i], r.Lo.Replicas)
			k.raw[i], k.steady[i] = c.settle(of, &it, k.subjects[i], r)
		}); failure != "" {
			*r = holding(k.subjects[i], failure)
			k.steered[i], k.raw[i], k.steady[i] = false, r.Lo.Replicas, r.Lo.Replicas
			k.nodeMin[i], k.nodeNote[i] = r.Lo.Replicas, ""
		}
		it.NodeMin = k.nodeMin[i]
		it.Lo, it.Hi = r.Lo.Replicas, r.Hi.Replicas
		it.LoBinding, it.HiBinding = r.Lo.Binding, r.Hi.Binding
		items[i] = it
	})
	c.failedAll(failed)
	for i := range c.managed {
		if k.steered[i] {
			k.problem.Items = append(k.problem.Items, items[i])
			k.index, k.planned = append(k.index, i), append(k.planned, c.managed[i].workload)
		}
	}
}

// settledSpeed is how close to the speed of its pool a workload's own must be
// for it to have arrived there.
const settledSpeed = 0.05

// settle returns what utility recommends before stabilisation, with the nodes that what is
// ahead needs: were replicas recommended that only nodes kept for them make worth it, both
// would keep each other for ever. It sees to it
// that demand moving within the tolerance moves nothing. Present replicas that a
// demand within the tolerance would have led to are all that stays feasible; as
// replicas go down only for less than the tolerance below what would be enough of
// them, and up again only for more than it above what they went down for, noise
// smaller than the tolerance can't make them go to and fro. Replicas beyond the band that
// utility could still have paid for, with room on nodes that are there anyway,
// are left only for a plan that pays for it (see search.stay).
func (c *cycle) settle(t choice.Terms, it *choice.Item, sub Subject, r *Range) (raw, steady int32) {
	current := sub.Memory.Replicas
	if r.Hold != "" {
		return current, current
	}
	w := sub.Workload
	least := r.Least
	recommend := func(lo int32, nodeFactor, demand float64) int32 {
		return t.Best(*it, min(max(lo, least), w.MaxReplicas), w.MaxReplicas, nodeFactor, demand)
	}
	raw = recommend(max(sub.Proposal.Replicas, sub.Proposal.Floor), 1, 1)
	steady = recommend(max(sub.Proposal.Replicas-sub.Proposal.Ramp, sub.Proposal.Floor), 1, 1)
	if w.SpeedNow > 0 && w.SpeedNow < sub.Speed*(1-settledSpeed) {
		// On its way to faster machines it needs more for a while than it will
		// there; nothing is bought on top of that.
		if most := max(r.Lo.Replicas, raw); most < r.Hi.Replicas {
			r.Hi.to(most, api.BindingUtility, fmt.Sprintf("at most %d until pods have moved to faster machines, where fewer do", most))
		}
	}
	if current < max(least, r.Floor) || current > r.Hi.Replicas || sub.Proposal.Need <= 0 && sub.Proposal.Replicas > 0 {
		return raw, steady
	}
	tolerance := 1 + c.guard.Tolerance(w)
	low := recommend(max(choice.Ceil(sub.Proposal.Need/tolerance), r.Floor), 1, 1/tolerance)
	// Like an HPA, which compares what is needed before rounding with what there is:
	// to round up a need that has grown by the tolerance would make the band twice as
	// wide for few replicas.
	high := recommend(max(choice.Ceil(sub.Proposal.Need*tolerance-1), choice.Ceil(sub.Proposal.Need), r.Floor), 1, tolerance)
	roomy := recommend(max(choice.Ceil(sub.Proposal.Need*tolerance), r.Floor), 0, tolerance)
	switch {
	case low <= current && current <= high && raw != current:
		r.Lo.to(current, api.BindingTolerance,
			fmt.Sprintf("kept at %d: demand within %.0f %% of this would ask for as many", current, 100*(tolerance-1)))
		r.Hi = r.Lo
	case low <= current && current <= roomy:
		// Utility is about proportional to demand, and so is its reference.
		it.Stay, it.Inertia = current, tolerance*tolerance
	}
	return raw, steady
}
