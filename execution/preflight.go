package execution

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

// Defaults of api.Disruption.
const (
	defaultPodPrice     = 0.001
	defaultPayback      = time.Hour
	defaultMaxEvictions = 5
	defaultGrowTimeout  = 15 * time.Minute
	defaultMoveTimeout  = 30 * time.Minute
	defaultRetryAfter   = 30 * time.Minute
)

// Defaults fills in what a policy leaves open. A node of 0.03 USD/h pays for 30
// pods by them: they stop moves for cents, and no others.
func Defaults(d api.Disruption) api.Disruption {
	d.PodPrice = cmp.Or(d.PodPrice, defaultPodPrice)
	d.Payback = cmp.Or(d.Payback, defaultPayback)
	d.MaxEvictions = cmp.Or(d.MaxEvictions, defaultMaxEvictions)
	d.GrowTimeout = cmp.Or(d.GrowTimeout, defaultGrowTimeout)
	d.MoveTimeout = cmp.Or(d.MoveTimeout, defaultMoveTimeout)
	d.RetryAfter = cmp.Or(d.RetryAfter, defaultRetryAfter)
	return d
}

// Reasons of a refusal.
const (
	RefusedBudget    = "DisruptionBudget" // a budget that can never allow it
	RefusedProtected = "PodsProtected"    // annotations, local storage, bare pods
	RefusedZone      = "VolumeZone"       // volumes in zones that the pool hasn't
	RefusedCopies    = "ZoneFull"         // no more copies in a zone while the old ones run
	RefusedStuck     = "WorkloadStuck"    // a rollout that gets nowhere, a pod that isn't Ready for long
	RefusedQuota     = "PoolQuota"
	RefusedStockout  = "PoolStockout"
	RefusedPoolError = "PoolError"
	RefusedTooSmall  = "PoolTooSmall" // even at its largest
	RefusedGrowth    = "NodesOverdue"
	RefusedOverdue   = "MoveOverdue"
	RefusedRetry     = "GaveUpBefore"
	RefusedWindow    = "OutsideWindow"
)

// Preflight says why workloads must not be moved to the pools that the plan
// wants; nil if they may be, or none has to. A move that is refused when it has
// begun already is to be given up. Who is refused plans again for the pool that
// workloads stay on.
func Preflight(s api.Snapshot, p api.Plan, policy api.Policy) *api.Refusal {
	return preflight(s, p, policy, everyGuard)
}

func preflight(s api.Snapshot, p api.Plan, policy api.Policy, g guards) *api.Refusal {
	pools := p.PoolsInUse()
	if len(pools) == 0 || !slices.ContainsFunc(s.Nodes, func(n api.Node) bool {
		return !slices.Contains(pools, n.Pool) && slices.Contains(policy.ManagedPools, n.Pool)
	}) {
		return nil
	}
	v, _ := newView(s, p, policy, g)
	return v.refusal()
}

// obstacles to a move, the first one first.
type obstacles struct {
	reasons, messages []string
}

func (o *obstacles) add(reason, format string, args ...any) {
	o.reasons, o.messages = append(o.reasons, reason), append(o.messages, fmt.Sprintf(format, args...))
}

// names adds pods by what keeps them, the first few by name.
func (o *obstacles) names(reason string, keeps map[string][]string) {
	const most = 5
	for _, why := range slices.Sorted(maps.Keys(keeps)) {
		pods := keeps[why]
		text := strings.Join(pods[:min(len(pods), most)], ", ")
		if len(pods) > most {
			text += fmt.Sprintf(" and %d more", len(pods)-most)
		}
		o.add(reason, "%s: %s", why, text)
	}
}

// refusal is why nothing moves to the targets, nil if it may.
func (v *view) refusal() *api.Refusal {
	if len(v.targets) == 0 || len(v.old) == 0 {
		return nil
	}
	m, before := v.movingNow(), v.gaveUp()
	if m.pods == 0 && before == nil {
		return nil
	}
	var o obstacles
	refusal := &api.Refusal{Pool: v.into(), Stay: m.home, GaveUp: m.started}
	v.obstruct(&o, m)
	lasting := len(o.reasons) > 0
	if v.guards.holds(guardOverdue) {
		v.outOfTime(&o, m)
		if len(o.reasons) > 0 && o.reasons[len(o.reasons)-1] == RefusedGrowth {
			refusal.GaveUp = true
		}
	}
	if !lasting && !m.started && v.lackOfNodes(&o) {
		// What the provider said is forgotten with the next resize.
		refusal.GaveUp = true
	}
	if v.disruption.Closed != "" && !m.started && v.plan.Nodes.Refusal == nil {
		o.add(RefusedWindow, "no maintenance window is open %s", v.disruption.Closed)
	}
	if before != nil {
		refusal.Stay, refusal.GaveUp = before.Pool, false
		o.add(RefusedRetry, "the move was given up at %s and is not tried again before %s",
			before.GaveUpAt.UTC().Format(time.RFC3339), before.GaveUpAt.Add(v.disruption.RetryAfter).UTC().Format(time.RFC3339))
	}
	if len(o.reasons) == 0 {
		return nil
	}
	refusal.Reason, refusal.Message = o.reasons[0], strings.Join(o.messages, "; ")
	return refusal
}

// moving is how far a move has got.
type moving struct {
	started bool      // old nodes bear its cordon
	since   time.Time // the oldest cordon; zero if not told
	pods    int       // of workloads, on old nodes or not Ready anywhere yet
	home    string    // the pool that workloads stay on if it is refused
}

func (v *view) movingNow() moving {
	var m moving
	if len(v.targets) == 0 || len(v.old) == 0 { // without looking at all pods
		return m
	}
	count := map[string]int{}
	for i := range v.snapshot.Nodes {
		n := &v.snapshot.Nodes[i]
		if v.dying[n.Name] || !v.old[n.Name] && !v.isTarget(n.Pool) {
			continue
		}
		on := 0
		for _, p := range v.podsOn[n.Name] {
			if !p.Terminating && v.moved(p.Workload) {
				on++
			}
		}
		count[n.Pool] += on
		if !v.old[n.Name] {
			continue
		}
		m.pods += on
		if n.CordonedFor == api.CordonMigration {
			m.started = true
			if !n.CordonedAt.IsZero() && (m.since.IsZero() || n.CordonedAt.Before(m.since)) {
				m.since = n.CordonedAt
			}
		}
	}
	if m.started {
		m.pods += v.arriving()
	}
	// A move that has begun goes back to where it came from; one that has not
	// leaves workloads where most of their pods are.
	for _, mp := range v.pools {
		switch {
		case m.started && v.isTarget(mp.Name):
		case m.home == "" || count[mp.Name] > count[m.home] || count[mp.Name] == count[m.home] && v.isTarget(m.home):
			m.home = mp.Name
		}
	}
	return m
}

// arriving counts the pods of workloads that can't surge which are not Ready: a
// move is not over, and its way back not given up, while one has left its node
// and doesn't run on another. Those that surge leave when enough are Ready.
func (v *view) arriving() int {
	n := int32(0)
	v.planned(func(w *api.Workload, wp *api.WorkloadPlan) {
		// A StatefulSet whose only pod is between two nodes has none to tell it by.
		ready, surges := int32(0), w.Target.Kind != statefulSet
		for _, p := range v.podsOf[w.Key] {
			surges = surges && p.ControllerKind == replicaSet
			if p.Ready && !p.Terminating {
				ready++
			}
		}
		if !surges {
			n += max(wp.Replicas-ready, 0)
		}
	})
	return int(n)
}

// obstruct finds the pods that can't be moved. Pods of nobody's workload hold a
// move up only before it has begun; afterwards their nodes are kept.
func (v *view) obstruct(o *obstacles, m moving) {
	budget, protected, zonal := map[string][]string{}, map[string][]string{}, map[string][]string{}
	for i := range v.snapshot.Nodes {
		name := v.snapshot.Nodes[i].Name
		if !v.old[name] || v.dying[name] {
			continue
		}
		for _, p := range v.podsOn[name] {
			ours := v.moved(p.Workload)
			if p.DaemonSet || p.Mirror || p.Terminating || !ours && m.started {
				continue
			}
			switch why := v.blocker(p); {
			case why != "" && why == v.forbids(p):
				budget[why] = append(budget[why], p.Key.String())
			case why != "" && ours:
				protected[why] = append(protected[why], p.Key.String())
			case why == "" && p.Zones != nil && !slices.ContainsFunc(v.zonesFor(p.Workload), func(z string) bool { return slices.Contains(p.Zones, z) }):
				why = "its volumes have no zone in common"
				if len(p.Zones) > 0 {
					why = "its volumes are in zone " + strings.Join(p.Zones, ", ")
				}
				zonal[why] = append(zonal[why], p.Key.String())
			}
		}
	}
	o.names(RefusedBudget, budget)
	o.names(RefusedProtected, protected)
	o.names(RefusedZone, zonal)
	if !m.started {
		moved := func(do func(*api.Workload, *api.WorkloadPlan)) {
			v.planned(func(w *api.Workload, wp *api.WorkloadPlan) {
				if v.moved(w.Key) {
					do(w, wp)
				}
			})
		}
		moved(func(w *api.Workload, _ *api.WorkloadPlan) { v.stuck(o, w) })
		moved(func(w *api.Workload, wp *api.WorkloadPlan) { v.crowd(o, v.home(w.Key), w, wp) })
	}
}

// stuck finds a workload on nodes being left that would not have moved in time: a pod of it
// has not been Ready for longer than a move may take, so that those made for it need not
// get Ready either; or its pods wait for a rollout that has made none for so long. A rollout
// that goes on is waited for when the others move.
func (v *view) stuck(o *obstacles, w *api.Workload) {
	long := func(since time.Time) bool {
		return !since.IsZero() && v.snapshot.Time.Sub(since) > v.disruption.MoveTimeout
	}
	leaving, replaces := false, false
	var newest time.Time
	for _, p := range v.podsOf[w.Key] {
		if p.Created.After(newest) {
			newest = p.Created
		}
		n := v.nodes[p.Node]
		switch {
		case p.Terminating:
			replaces = true
		case n == nil || !v.old[n.Name]:
		case n.Ready && !p.Ready && long(p.UnreadySince):
			o.add(RefusedStuck, "pod %s of workload %s has not been Ready since %s", p.Key, w.Key, p.UnreadySince.UTC().Format(time.RFC3339))
			return
		default:
			leaving = true
		}
	}
	if leaving && w.RollingOut && !replaces && long(newest) {
		o.add(RefusedStuck, "the rollout of workload %s is not over, and has made no pod since %s", w.Key, newest.UTC().Format(time.RFC3339))
	}
}

// zonesFor are the zones of the pool that a workload is to run on, those of all targets
// for pods of nobody's.
func (v *view) zonesFor(workload api.Key) []string {
	if home := v.home(workload); home.Name != "" {
		return home.Zones
	}
	var zones []string
	for _, name := range v.targets {
		zones = append(zones, v.pool(name).Zones...)
	}
	return zones
}

// crowd finds a workload that can't run its old and new pods side by side: a zone takes
// few of them, or few more than another zone has, and the old ones count. One that can't
// surge makes room pod by pod.
func (v *view) crowd(o *obstacles, target api.Pool, w *api.Workload, wp *api.WorkloadPlan) {
	if w.Shape == nil || !placement.Spreads(w.Shape) || !siteIn(target).Admits(w.Shape) {
		return
	}
	leaving, stay, surges := 0, int32(0), true
	in := map[string]int32{}
	for _, p := range v.podsOf[w.Key] {
		n := v.nodes[p.Node]
		if n == nil || p.Terminating {
			continue
		}
		in[n.Zone]++
		if !v.old[n.Name] {
			stay++
			continue
		}
		leaving++
		surges = surges && p.ControllerKind == replicaSet
	}
	most, why := func(string) int32 { return math.MaxInt32 }, ""
	if w.Shape.MaxPerZone > 0 {
		most = func(string) int32 { return w.Shape.MaxPerZone }
		why = fmt.Sprintf("at most %d pods of %s may run in a zone", w.Shape.MaxPerZone, w.Key)
	}
	if least, zone := v.leastElsewhere(w.Shape, target, in); w.Shape.ZoneSkew > 0 && zone != "" {
		bound := most
		most = func(z string) int32 { return min(bound(z), least+w.Shape.ZoneSkew) }
		why = fmt.Sprintf("%s may have at most %d pods more in a zone than in another, and zone %s has %d", w.Key, w.Shape.ZoneSkew, zone, least)
	}
	room := int64(0)
	for _, zone := range target.Zones {
		room += int64(max(most(zone)-in[zone], 0))
	}
	if lack := int64(wp.Replicas-stay) - room; leaving > 0 && surges && lack > 0 {
		o.add(RefusedCopies, "%s: %d of its new pods can't start in zones %s while the old ones run",
			why, lack, strings.Join(target.Zones, ", "))
	}
}

// leastElsewhere is the zone without nodes of the target that has fewest pods of a shape,
// of the zones that its topology spread counts: those of nodes that it selects, tainted or
// not. Zone is empty when there is none: where new pods go to every zone none lags behind.
func (v *view) leastElsewhere(shape *api.PodShape, target api.Pool, in map[string]int32) (least int32, zone string) {
	for i := range v.snapshot.Nodes {
		n := &v.snapshot.Nodes[i]
		if n.Zone == "" || slices.Contains(target.Zones, n.Zone) || v.dying[n.Name] || !(placement.Site{Name: n.Name, Labels: n.Labels}).Admits(shape) {
			continue
		}
		if zone == "" || in[n.Zone] < least || in[n.Zone] == least && n.Zone < zone {
			least, zone = in[n.Zone], n.Zone
		}
	}
	return least, zone
}

// lackOfNodes finds why the targets will not hold all that must move. A move that
// has begun had its nodes; what is wanted beyond them since is waited for. It
// reports whether the provider could not give them.
func (v *view) lackOfNodes(o *obstacles) bool {
	if !v.guards.holds(guardRoom) || v.missing(v.gone(), true) == "" {
		return false
	}
	for _, name := range v.targets {
		if e := v.pool(name).Error; e != nil && (e.At.IsZero() || v.snapshot.Time.Sub(e.At) < v.disruption.RetryAfter) {
			o.add("Pool"+string(e.Kind), "pool %s: %s", name, e.Message)
			return true
		}
	}
	if _, missing := v.sizeForMove(); missing != "" {
		o.add(RefusedTooSmall, "pool %s at its maximum size has no room for %s", v.into(), missing)
	}
	return false
}

// sizeForMove are the sizes per zone at which the targets hold all that must move
// and first fit finds the places, the planned ones if they are enough; missing names
// what doesn't fit even at the largest sizes.
func (v *view) sizeForMove() (sizes map[string]int32, missing string) {
	sizes, limits := map[string]int32{}, map[string]int32{}
	for _, mp := range v.pools {
		if !v.isTarget(mp.Name) {
			continue
		}
		size := mp.plan.SizePerZone
		limit := size + max(1, size/10)
		if mp.MaxPerZone > 0 {
			size, limit = min(size, mp.MaxPerZone), min(limit, mp.MaxPerZone)
		}
		sizes[mp.Name], limits[mp.Name] = size, limit
	}
	if len(sizes) == 0 {
		return nil, ""
	}
	for {
		missing = v.missingAt(sizes)
		more := false
		for name := range sizes {
			more = more || sizes[name] < limits[name]
		}
		if missing == "" || !more {
			return sizes, missing
		}
		for name := range sizes {
			sizes[name] = min(sizes[name]+1, max(limits[name], sizes[name]))
		}
	}
}

// outOfTime finds what took too long.
func (v *view) outOfTime(o *obstacles, m moving) {
	now, limits := v.snapshot.Time, v.disruption
	if m.started && !m.since.IsZero() && now.Sub(m.since) > limits.MoveTimeout {
		o.add(RefusedOverdue, "the move began at %s, and not all pods have moved within %v",
			m.since.UTC().Format(time.RFC3339), limits.MoveTimeout)
	}
	for _, name := range v.targets {
		target, ready := v.pool(name), int32(0)
		for i := range v.snapshot.Nodes {
			if n := &v.snapshot.Nodes[i]; n.Pool == name && n.Ready && !v.dying[n.Name] {
				ready++
			}
		}
		if !target.ResizedAt.IsZero() && now.Sub(target.ResizedAt) > limits.GrowTimeout && ready < target.Nodes() &&
			v.missing(v.gone(), true) != "" {
			o.add(RefusedGrowth, "pool %s has %d of %d nodes Ready; they were requested at %s, more than %v ago",
				name, ready, target.Nodes(), target.ResizedAt.UTC().Format(time.RFC3339), limits.GrowTimeout)
		}
	}
}

// gaveUp is a node on which it is noted that moving to the targets was given up
// not long ago; nil if there is none.
func (v *view) gaveUp() *api.Node {
	if !v.guards.holds(guardGaveUp) {
		return nil
	}
	for i := range v.snapshot.Nodes {
		n := &v.snapshot.Nodes[i]
		if n.GaveUp == v.into() && !v.isTarget(n.Pool) && v.old[n.Name] && v.snapshot.Time.Sub(n.GaveUpAt) < v.disruption.RetryAfter {
			return n
		}
	}
	return nil
}

// gone are the nodes that nothing is to be placed on after the move.
func (v *view) gone() map[string]bool {
	out := make(map[string]bool, len(v.old)+len(v.leaving))
	for _, set := range []map[string]bool{v.leaving, v.old} {
		for name := range set {
			out[name] = true
		}
	}
	return out
}

// stay makes every node that would be left one that stays.
func (v *view) stay() {
	for name := range v.old {
		delete(v.leaving, name)
	}
	clear(v.old)
}
