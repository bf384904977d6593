package planning

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/choice"
)

// Guard is the only place where limits are enforced, around whatever planner
// made the plan: the author's bounds, the policy's minimum, stabilisation, rate
// limits, tolerance, the money limit and the size of pools.
//
// It does so by narrowing what is feasible, so that the chosen plan is still
// the best of what is allowed. Where limits contradict one another the order of
// precedence, strongest first, is: MaxReplicas, the reactive floor, MinReplicas
// and the policy's minimum, scale-up rate, never down without fresh demand,
// scale-down stabilisation and rate, tolerance, forecast, utility.
//
// Behaviour has the meaning it has in a HorizontalPodAutoscaler, with these
// defaults: scale-up is neither stabilised nor limited; scale-down is not
// limited and is stabilised by looking back over Config.Stabilization, or
// Windows.PodHold where margins keep an objective and no trusted forecast covers the
// time, or over Margins.Hold where that is longer, or, where one does and there are no margins, by looking ahead over
// Windows.Trough instead. What only a ramp of demand asked for is kept for
// Config.TrustedStabilization. A window that the author states is always enforced
// looking back. Where the author limits scale-up, the reactive floor is limited
// alike, being what the HPA with that behaviour would do. Bounds are no demand: like an
// HPA's they hold while none is known, the most as well as the least.
type Guard struct {
	Config Config
}

// Range is what the Guard leaves feasible for a workload: the scales from Lo to Hi.
type Range struct {
	Lo, Hi Bound
	// Floor is the reactive floor within the limits that bind it too.
	Floor int32
	// Least is what the author and the policy want at least.
	Least int32
	// Keep is how many of those that run may not be given up now, by the rules of scale-down.
	Keep int32
	// Hold is not empty when nothing may change, and says why.
	Hold string
}

// needed is what must be there whatever it costs: the reactive floor and the bounds.
func (r Range) needed() int32 { return max(r.Floor, min(r.Least, r.Hi.Replicas)) }

// Bound is an end of a Range.
type Bound struct {
	api.Scale
	// Binding names the constraint that set it, and Note explains that where it
	// isn't obvious.
	Binding api.Binding
	Note    string
}

// to moves a bound to a number of replicas of the same size.
func (b *Bound) to(replicas int32, binding api.Binding, note string) {
	b.Replicas, b.Binding, b.Note = replicas, binding, note
}

// Subject is a workload as the Guard sees it.
type Subject struct {
	Time     time.Time
	Workload api.Workload
	Policy   api.Policy
	Proposal Proposal       // by a WorkloadPlanner
	Memory   WorkloadMemory // after observing this cycle's replicas
	Speed    float64        // of the pool planned for
	Trusted  bool
	// Stale is true while there is no fresh demand: then nothing goes down.
	Stale bool
	// Doubt is not empty while an SLO of it is not proven to be kept, and says why: then
	// neither does anything.
	Doubt string
	// Kept is what it is to have while the whole plan is taken back; nil if it isn't.
	Kept *KeptScale
	// Untried is true where it is not the plan that is taken back, but a trial that allows
	// no plan of its own. Band is by how much, as a share, a trial allows more than the
	// reactive floor; 0 for no such limit.
	Untried bool
	Band    float64
	Windows Windows
}

// keeps reports whether nothing may be given up.
func (s Subject) keeps() bool { return s.Stale || s.Doubt != "" }

// Range returns the feasible replicas of a workload.
func (g Guard) Range(s Subject) Range {
	w, asked := s.Workload, s.Proposal
	current := s.Memory.Replicas
	lowest, lowestBinding := w.MinReplicas, api.BindingMinReplicas
	if asked.Activity != "" {
		lowest = max(lowest, 1) // in use, or kept ready
	}
	if s.Policy.MinReplicas > lowest {
		lowest, lowestBinding = s.Policy.MinReplicas, api.BindingPolicyMinReplicas
	}
	// Of the size that was asked for: the Guard narrows how many there are of it.
	of := func(replicas int32, binding api.Binding, note string) Bound {
		scale := asked.Scale
		scale.Replicas = replicas
		return Bound{Scale: scale, Binding: binding, Note: note}
	}
	held := func(reason string) Range {
		now := of(current, api.BindingHold, "")
		return Range{Lo: now, Hi: now, Least: min(lowest, w.MaxReplicas), Floor: min(max(asked.Floor, 0), current), Hold: reason}
	}
	bounded := min(max(current, lowest), w.MaxReplicas)
	switch {
	case asked.Held && (!asked.Unknown || current == 0 || current == bounded):
		return held(asked.Reason)
	case w.MinReplicas > w.MaxReplicas:
		return held(fmt.Sprintf("held at %d: minReplicas %d exceeds maxReplicas %d", current, w.MinReplicas, w.MaxReplicas))
	case w.MaxReplicas < 1:
		return held(fmt.Sprintf("held at %d: maxReplicas is %d", current, w.MaxReplicas))
	case asked.Held:
		// Bounds are no demand: like an HPA's, they hold without any.
		to := of(bounded, api.BindingMaxReplicas, fmt.Sprintf("limited to maxReplicas %d", bounded))
		if bounded > current {
			to = of(bounded, lowestBinding, fmt.Sprintf("raised to the least of %d", bounded))
		}
		return Range{Lo: to, Hi: to, Least: min(lowest, w.MaxReplicas), Floor: min(max(asked.Floor, 0), bounded)}
	}
	if why, empty := g.empty(s); empty {
		none := of(0, api.BindingInactive, why)
		return Range{Lo: none, Hi: none}
	}

	// 1. What demand asks for, and the bounds.
	r := Range{
		Lo: of(asked.Replicas, asked.Binding, ""), Hi: of(w.MaxReplicas, api.BindingMaxReplicas, ""),
		Floor: asked.Floor, Least: min(lowest, w.MaxReplicas),
	}
	if r.Lo.Replicas < r.Floor {
		r.Lo.to(r.Floor, api.BindingFloor, "")
	}
	if lowest > r.Lo.Replicas {
		r.Lo.to(lowest, lowestBinding, fmt.Sprintf("raised to the least of %d", lowest))
	}

	// 2. Scale-down: nothing is given up that was, or will be, needed again soon.
	keep, binding, note := g.keep(s, current, r.Lo.Replicas)
	if keep > r.Lo.Replicas {
		r.Lo.to(keep, binding, note)
	}
	r.Keep = keep

	// 3. Scale-up rate and stabilisation, of the floor too.
	if up, binding, note := g.allow(s, current); up < r.Hi.Replicas {
		r.Hi.to(max(up, lowest), binding, note)
	}
	r.Hi.Replicas = min(r.Hi.Replicas, w.MaxReplicas)
	r.Floor = min(r.Floor, r.Hi.Replicas)
	if band := max(choice.Ceil(float64(r.Floor)*(1+s.Band)), keep, lowest); s.Band > 0 && band < r.Hi.Replicas {
		r.Hi.to(band, api.BindingCanary, fmt.Sprintf("a canary may have %.0f %% more than the reactive rule's %d", 100*s.Band, r.Floor))
	}

	// 4. While the whole plan is taken back, or a trial allows no plan of its own, only the
	// floor adds to what is kept.
	if s.Kept != nil {
		binding, note := api.BindingRollback, fmt.Sprintf("%d ran while the SLOs were kept, and the whole plan is taken back to that", s.Kept.Replicas)
		if s.Untried {
			binding, note = api.BindingCanary, "the trial allows it no plan of its own: by the reactive rule, as nobody else scales it"
		}
		back := of(min(max(s.Kept.Replicas, r.Floor, keep, r.Least), r.Hi.Replicas), binding, note)
		if back.Replicas == r.Floor && r.Floor > s.Kept.Replicas {
			back.Binding = api.BindingFloor
		}
		r.Lo, r.Hi = back, back
	}
	if r.Lo.Replicas > r.Hi.Replicas {
		r.Lo = r.Hi
		if r.Hi.Binding == api.BindingMaxReplicas {
			r.Lo.Note = fmt.Sprintf("limited to maxReplicas %d", r.Hi.Replicas)
		}
	}
	return r
}

// empty tells whether a workload has no replicas, and why: its author and the
// policy allow it, and no trigger has been active for the cooldown. Triggers that
// aren't known leave it empty, but don't make it so.
func (g Guard) empty(s Subject) (why string, empty bool) {
	if s.Workload.MinReplicas > 0 || !s.Policy.ScaleToZero || s.Kept != nil && s.Kept.Replicas > 0 {
		return "", false
	}
	idle := s.Time.Sub(s.Memory.IdleSince)
	switch s.Proposal.Activity {
	case api.ActivityUnknown:
		return "left without replicas", s.Memory.Replicas == 0
	case api.Inactive:
		if s.Memory.Replicas == 0 {
			return "none are needed", true
		}
		return fmt.Sprintf("nothing has asked for a replica for %v", idle.Round(time.Second)),
			!s.Memory.IdleSince.IsZero() && idle >= s.Workload.Cooldown && !s.keeps()
	}
	return "", false
}

// Tolerance is the relative deviation a workload ignores.
func (g Guard) Tolerance(w api.Workload) float64 {
	if w.Behavior.Tolerance > 0 {
		return w.Behavior.Tolerance
	}
	return g.Config.Tolerance
}

// keep returns the least replicas that scale-down may go to, where so many are wanted.
func (g Guard) keep(s Subject, current, least int32) (n int32, binding api.Binding, note string) {
	rules := s.Workload.Behavior.ScaleDown
	if s.Stale {
		return current, api.BindingStale, fmt.Sprintf("kept at %d: there is no fresh demand", current)
	}
	if s.Doubt != "" {
		return current, api.BindingSLO, fmt.Sprintf("kept at %d: %s", current, s.Doubt)
	}
	if rules.SelectPolicy == "Disabled" {
		return current, api.BindingScaleDownRate, "scale-down is disabled"
	}
	window, held := rules.StabilizationWindow, held
	if !rules.WindowStated && window <= 0 {
		window = g.Config.Stabilization
		switch {
		case s.Trusted && s.Memory.Margins.Known(): // nodes need not stay for longer
			held = g.settled
		case s.Trusted:
			window = g.Config.TrustedStabilization
		case s.Memory.Margins.Known() || keepsObjective(s.Workload, s.Policy):
			held, window = g.settled, max(s.Windows.PodHold, s.Memory.Margins.Hold) // for which margins are taken, or will be
		}
	}
	if window > 0 {
		if n, note = held(s, current, least, window); n > 0 {
			binding = api.BindingStabilization
		}
	}
	if rose := min(window, g.Config.TrustedStabilization); rose > 0 {
		if _, largest, _ := span(s.Memory.Ramps, s.Time.Add(-rose)); min(current, choice.Ceil(largest/s.Speed)) > n {
			n, binding = min(current, choice.Ceil(largest/s.Speed)), api.BindingStabilization
			note = fmt.Sprintf("kept at %d: what a ramp asked for within the last %v", n, rose)
		}
	}
	if s.Trusted {
		if peak, _ := highest(s.Proposal, s.Time, s.Windows.Trough); min(current, peak) > n {
			n, binding = min(current, peak), api.BindingStabilization
			note = fmt.Sprintf("kept at %d: needed again within %v", n, s.Windows.Trough)
		}
	}
	if len(rules.Policies) > 0 {
		if m := rateLimit(rules, s.Memory, s.Time, current, false); min(current, m) > n {
			n, binding = min(current, m), api.BindingScaleDownRate
			note = fmt.Sprintf("kept at %d by the scale-down policies", n)
		}
	}
	return n, binding, note
}

// held is what the largest recommendation of a window keeps of the current replicas.
func held(s Subject, current, _ int32, window time.Duration) (n int32, note string) {
	_, largest, _ := s.Memory.span(s.Time.Add(-window)) // 0 where nothing was recommended
	if n = min(current, choice.Ceil(largest/s.Speed)); n <= 0 {
		return 0, ""
	}
	until := s.Memory.last(largest).Add(window)
	return n, fmt.Sprintf("kept at %d: the largest recommendation of the last %v, until %s", n, window, until.UTC().Format(time.TimeOnly))
}

// settled is the same where margins keep an objective. A fall is taken in one step, where
// held alone would follow it down: what was recommended of late holds until recommendations
// of a window ago fall no more, for twice the time that a fall takes to show in usage. A
// step within the tolerance waits until two windows ask for no more than it leaves. Least
// is what is wanted now.
func (g Guard) settled(s Subject, current, least int32, window time.Duration) (n int32, note string) {
	fall := 2 * g.Config.Averaging
	n, note = held(s, current, 0, window)
	if soon, _ := held(s, current, 0, max(window-fall, 0)); max(soon, least) < n {
		n, note = held(s, current, 0, window+fall)
	}
	to := max(n, least)
	if before, _ := held(s, current, 0, 2*window); before > to && float64(to) >= float64(current)*(1-g.Tolerance(s.Workload)) {
		return current, fmt.Sprintf("kept at %d: %d are within the tolerance, and more were recommended within the last %v", current, to, 2*window)
	}
	return n, note
}

// allow returns the most replicas that scale-up may go to.
func (g Guard) allow(s Subject, current int32) (n int32, binding api.Binding, note string) {
	rules := s.Workload.Behavior.ScaleUp
	n = math.MaxInt32
	if rules.SelectPolicy == "Disabled" {
		return current, api.BindingScaleUpRate, "scale-up is disabled"
	}
	if rules.StabilizationWindow > 0 {
		if least, _, ok := s.Memory.span(s.Time.Add(-rules.StabilizationWindow)); ok {
			n, binding = max(current, choice.Ceil(least/s.Speed)), api.BindingStabilization
			note = fmt.Sprintf("limited to %d: the smallest recommendation of the last %v", n, rules.StabilizationWindow)
		}
	}
	if len(rules.Policies) > 0 {
		if m := max(current, rateLimit(rules, s.Memory, s.Time, current, true)); m < n {
			n, binding = m, api.BindingScaleUpRate
			note = fmt.Sprintf("limited to %d by the scale-up policies", n)
		}
	}
	return n, binding, note
}

// rateLimit is where the policies of one direction let replicas go, as in the
// HPA: each policy allows a change relative to the replicas at the start of its
// period, and the one that allows the most (Min: the least) is taken.
func rateLimit(rules api.ScalingRules, m WorkloadMemory, now time.Time, current int32, up bool) int32 {
	var limit int64
	for i, p := range rules.Policies {
		added, removed := m.changed(now.Add(-p.Period))
		start := int64(current) - int64(added) + int64(removed)
		var proposed int64
		switch {
		case p.Type == "Percent" && up:
			proposed = int64(math.Ceil(float64(start)*(1+float64(p.Value)/100) - choice.Epsilon))
		case p.Type == "Percent":
			proposed = int64(float64(start)*(1-float64(p.Value)/100) + choice.Epsilon)
		case up:
			proposed = start + int64(p.Value)
		default:
			proposed = start - int64(p.Value)
		}
		farther := proposed > limit == up
		if i == 0 || farther == (rules.SelectPolicy != "Min") {
			limit = proposed
		}
	}
	return int32(min(max(limit, 0), math.MaxInt32))
}

// NodeReplicas returns the replicas that nodes must be there for: what the
// coming node startup latency needs, and of what nodes were last planned for as much as
// is needed again before giving it up would pay, or was needed of late where no
// trusted forecast looks ahead. What was last planned for also stays while it is
// within the tolerance of what is needed. The note says, where what was needed of late
// decides, for how long that keeps nodes. Ahead is what they must be there for without
// what was planned or needed before.
func (g Guard) NodeReplicas(s Subject, replicas int32) (nodes, ahead int32, note string) {
	if s.Proposal.Held {
		n := max(replicas, s.Memory.Replicas)
		return n, n, ""
	}
	limit := max(replicas, s.Workload.MaxReplicas)
	before := s.Memory.NodeReplicas
	if s.keeps() {
		n := max(replicas, min(max(before, s.Proposal.NodeReplicas), limit))
		return n, n, ""
	}
	if _, empty := g.empty(s); empty {
		// No pods now; nodes for those that are foreseen.
		later := s.Proposal
		later.Path = later.Path[min(1, len(later.Path)):]
		n, _ := highest(later, s.Time, s.Windows.Node)
		return max(replicas, min(n, limit)), min(n, limit), ""
	}
	n, need := highest(s.Proposal, s.Time, s.Windows.Node)
	n = min(max(n, s.Proposal.NodeReplicas), limit)
	ahead = n
	tolerance := 1 + g.Tolerance(s.Workload)
	if need > 0 && choice.Ceil(need/tolerance) <= before && before <= max(n, choice.Ceil(need)) {
		n = before
	}
	again, _ := highest(s.Proposal, s.Time, s.Windows.NodeTrough)
	if !s.Trusted {
		late, window, falls := g.needed(s)
		window = window.Round(time.Second)
		switch kept := min(before, limit, late); {
		case kept > max(replicas, min(n, limit), again):
			note = fmt.Sprintf("nodes kept for %d: the largest recommendation of the last %s", kept, window)
			if falls {
				note += ", as usage keeps falling"
			}
		case falls:
			note = fmt.Sprintf("nodes not kept for longer than %s, as usage keeps falling", window)
		}
		again = max(again, late)
	}
	// What a ramp has asked for takes as long to come again, should it be needed
	// after all, as it would be kept for nothing.
	if _, most, ok := span(s.Memory.Ramps, s.Time.Add(-s.Windows.Node)); ok {
		again = max(again, choice.Ceil(most/s.Speed))
	}
	return max(replicas, min(n, limit), min(before, limit, again)), ahead, note
}

// needed is the most replicas of late, which are kept nodes for: of
// Config.NodeStabilization or Margins.Hold, or of Windows.NodeTrough where demand keeps falling and
// that is fewer.
func (g Guard) needed(s Subject) (most int32, window time.Duration, falls bool) {
	within := func(window time.Duration) int32 {
		_, most, _ := s.Memory.span(s.Time.Add(-window))
		return choice.Ceil(most / s.Speed)
	}
	window = max(g.Config.NodeStabilization, s.Memory.Margins.Hold)
	most = within(window)
	if trough := s.Windows.NodeTrough; trough < window && len(s.Workload.Triggers) == 0 {
		if least := within(trough); least < most && declining(s.Workload.Demand, trough, s.Policy.Quantile) {
			return least, trough, true
		}
	}
	return most, window, false
}

// highest is the largest value of a plan's path within a window from now, and
// the same before rounding.
func highest(p Proposal, now time.Time, window time.Duration) (n int32, need float64) {
	end := now.Add(window)
	for _, step := range p.Path {
		if step.At.After(end) {
			break
		}
		n, need = max(n, step.Replicas), max(need, step.Need)
	}
	return n, need
}

// MaxNodes is the most nodes a pool may be planned with: by its own bounds, by
// the policy's and by the price of all planned nodes, USD/h, of which other
// pools take a part. A failed resize counts as a bound only if heedErrors.
// Negative means unlimited. The reason names the binding limit.
func (g Guard) MaxNodes(now time.Time, p api.Policy, pool api.Pool, others float64, heedErrors bool) (int32, string) {
	n, reason := int32(-1), ""
	zones := int32(max(1, len(pool.Zones)))
	limit := func(to int32, why string) {
		// A size is per zone: only whole rounds of zones can be had.
		if to = max(to, 0) / zones * zones; n < 0 || to < n {
			n, reason = to, why
		}
	}
	if pool.MaxPerZone > 0 {
		limit(pool.MaxPerZone*zones, fmt.Sprintf("pool %s has at most %d nodes per zone", pool.Name, pool.MaxPerZone))
	}
	if p.MaxNodesPerPool > 0 {
		limit(p.MaxNodesPerPool, fmt.Sprintf("policy %s allows %d nodes per pool", p.Name, p.MaxNodesPerPool))
	}
	if p.MaxHourlyCost > 0 && pool.Price > 0 {
		affordable := math.Floor((p.MaxHourlyCost-others)/pool.Price + choice.Epsilon)
		limit(int32(min(max(affordable, 0), math.MaxInt32/2)), fmt.Sprintf("policy %s allows $%.2f/h", p.Name, p.MaxHourlyCost))
	}
	if e := pool.Error; heedErrors && e != nil && (e.Kind == api.PoolQuota || e.Kind == api.PoolStockout) &&
		now.Sub(e.At) <= g.Config.PoolErrorMemory {
		limit(largest(pool.Sizes)*zones, fmt.Sprintf("pool %s: %s: %s", pool.Name, e.Kind, e.Message))
	}
	return n, reason
}

// keepSize leaves a pool as it is that may not be resized now.
func (g Guard) keepSize(pp *api.PoolPlan, pool api.Pool) {
	why := ""
	switch {
	case pool.Autoscaled:
		why = cmp.Or(pool.AutoscaledBy, "the provider") + " resizes this pool"
	case pool.Hold != "":
		why = pool.Hold
	default:
		return
	}
	zones := int32(max(1, len(pool.Zones)))
	wanted := pp.SizePerZone
	pp.SizePerZone = (pool.Nodes() + zones - 1) / zones
	pp.Now = pp.SizePerZone
	pp.Nodes = pool.Nodes()
	pp.Surplus = nil
	pp.Reason = fmt.Sprintf("kept at %d nodes: %s (%d per zone are wanted)", pp.Nodes, why, wanted)
}

// limitSize holds a pool to its limit even where pods are left without a place.
func (g Guard) limitSize(pp *api.PoolPlan, pool api.Pool, maxNodes int32, why string) {
	if maxNodes < 0 || pp.Nodes <= maxNodes {
		return
	}
	zones := int32(max(1, len(pool.Zones)))
	pp.SizePerZone = max(maxNodes/zones, pool.MinPerZone)
	pp.Now = min(pp.Now, pp.SizePerZone)
	pp.Nodes = pp.SizePerZone * zones
	pp.Reason = fmt.Sprintf("limited to %d nodes: %s", pp.Nodes, why)
}

// largest of some sizes, 0 of none.
func largest(sizes []int32) int32 {
	var n int32
	for _, s := range sizes {
		n = max(n, s)
	}
	return n
}
