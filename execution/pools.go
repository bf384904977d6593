package execution

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
)

// releaseCordons takes back every cordon of ours that nothing calls for any
// more, in whatever pool it is: a plan that turned back, a pool no longer
// managed, a node no longer surplus.
func (q *sequencer) releaseCordons() {
	if !q.guards.holds(guardRelease) {
		return
	}
	for i := range q.snapshot.Nodes {
		n := &q.snapshot.Nodes[i]
		if !n.Cordoned || n.CordonedFor == "" || q.leaving[n.Name] || q.dying[n.Name] {
			continue
		}
		reason := "its pool is not being left"
		if n.CordonedFor == api.CordonShrink {
			reason = "it is not surplus any more"
		}
		q.uncordons = append(q.uncordons, api.UncordonNode{Node: n.Name, Reason: reason})
	}
}

// forgetLifted takes the notes of cordons of ours off nodes that somebody else has
// uncordoned, unless they are cordoned again now: with the note the next cordon of a person
// would be taken for one of ours.
func (q *sequencer) forgetLifted() {
	if !q.guards.holds(guardRelease) {
		return
	}
	for i := range q.snapshot.Nodes {
		if n := &q.snapshot.Nodes[i]; n.Lifted && !q.cordoning[n.Name] && !q.dying[n.Name] {
			q.forgotten = append(q.forgotten, api.UncordonNode{Node: n.Name, Reason: "somebody else has uncordoned it: the note of the cordon goes"})
		}
	}
}

// growPools asks for more nodes where a zone has fewer than planned. The size
// is the same for all zones, so a zone that is ahead is never cut by growing
// the others.
func (q *sequencer) growPools() {
	for _, mp := range q.pools {
		if len(mp.Sizes) == 0 {
			continue
		}
		smallest, largest := slices.Min(mp.Sizes), slices.Max(mp.Sizes)
		to, reason := mp.plan.SizePerZone, fmt.Sprintf("the plan needs %d nodes", mp.plan.Nodes)
		if mp.plan.Reason != "" {
			reason = mp.plan.Reason
		}
		if size := q.moveSize[mp.Name]; size > to {
			to = size
			reason = fmt.Sprintf("the pods that move there need %d nodes per zone", to)
		}
		if mp.MaxPerZone > 0 {
			to = min(to, mp.MaxPerZone)
		}
		if smallest >= to || q.isTarget(mp.Name) && q.refused {
			continue
		}
		if q.held(mp, "grow") {
			continue
		}
		if smallest != largest {
			reason += fmt.Sprintf("; the smallest zone has %d", smallest)
		}
		q.growth = append(q.growth, api.ResizePool{Pool: mp.Name, From: largest, To: max(to, largest), Reason: reason})
	}
}

// held notes that a pool can't be resized now.
func (q *sequencer) held(mp managedPool, what string) bool {
	if mp.Hold == "" {
		return false
	}
	q.note(api.NodeScalingAgent, "PoolHeld", api.PoolRef(mp.Name), "can't %s now: %s", what, mp.Hold)
	return true
}

// cordon steers pods away from the nodes that are to go, once what is on them
// fits elsewhere.
func (q *sequencer) cordon() {
	q.cordoning = map[string]bool{}
	q.cordonOld()
	q.cordonDying()
	q.giveUpEmptying()
	if q.migrating && !q.moving() && !q.uncordonsFirst() {
		q.cordonSurplus()
	}
	q.explainCosts()
	gone := make(map[string]bool, len(q.leaving)+len(q.cordoning))
	for _, set := range []map[string]bool{q.leaving, q.cordoning} {
		for name := range set {
			gone[name] = true
		}
	}
	q.room = q.roomWithout(gone, nil)
	// Pods that controllers are still to make have their place reserved.
	q.planned(func(w *api.Workload, _ *api.WorkloadPlan) {
		q.room.place(replicas(w), q.uncreated(w), q.only(w))
	})
}

// uncreated is how many of a workload's replicas have no pod yet.
func (q *sequencer) uncreated(w *api.Workload) int32 { return max(w.Replicas-q.live(w.Key), 0) }

// giveUpEmptying notes on surplus nodes that their pods have not left in time, or
// find no room any more, as somebody else has taken it since: when that is seen
// they stay, uncordoned, and what was surged for them goes.
func (q *sequencer) giveUpEmptying() {
	leaving := maps.Clone(q.leaving)
	missing := ""
	known := false // missing is that of leaving
	for i := range q.snapshot.Nodes {
		n := &q.snapshot.Nodes[i]
		// The cordon may be that of a move which turned round, not taken back yet.
		if !q.shrink[n.Name] || n.CordonedFor == "" || q.empty(n.Name) {
			continue
		}
		late := !n.CordonedAt.IsZero() && q.snapshot.Time.Sub(n.CordonedAt) > q.disruption.MoveTimeout
		if !known {
			missing, known = q.missing(leaving, false), true
		}
		switch {
		case late && q.guards.holds(guardEmptying):
			q.giveUpNode(n, fmt.Sprintf("its pods did not leave it within %v", q.disruption.MoveTimeout))
		case q.guards.holds(guardShrinkRoom) && q.crampedBy(leaving, n, missing):
			q.giveUpNode(n, "the other Ready nodes no longer have room for "+missing)
		default:
			continue
		}
		delete(leaving, n.Name)
		known = false
	}
}

func (q *sequencer) giveUpNode(n *api.Node, reason string) {
	q.notes = append(q.notes, api.GiveUpMove{Node: n.Name, Pool: n.Pool, At: q.snapshot.Time, Reason: reason})
}

// crampedBy reports whether the nodes other than the leaving ones, which can't hold
// what is missing, could hold more of it with a node that is one of these.
func (q *sequencer) crampedBy(leaving map[string]bool, n *api.Node, missing string) bool {
	if missing == "" {
		return false
	}
	without := maps.Clone(leaving)
	delete(without, n.Name)
	return q.missing(without, false) != missing
}

// cordonDying cordons nodes that are being deleted without one, such as those
// that came after their pool was given up: until they are gone the scheduler
// would take them for room. Nothing surges before.
func (q *sequencer) cordonDying() {
	if !q.guards.holds(guardStray) {
		return
	}
	for _, mp := range q.pools {
		for _, n := range mp.nodes {
			if !q.dying[n.Name] || n.Cordoned {
				continue
			}
			q.migrating = false
			q.cordons = append(q.cordons, api.CordonNode{
				Node: n.Name, For: api.CordonShrink, At: q.snapshot.Time, Reason: "it is being deleted",
			})
		}
	}
}

// cordonOld cordons the nodes of the pools being left, all or none.
func (q *sequencer) cordonOld() {
	var pending []*api.Node
	for _, mp := range q.pools {
		for _, n := range mp.nodes {
			if q.old[n.Name] && !n.Cordoned && !q.dying[n.Name] {
				pending = append(pending, n)
			}
		}
	}
	q.migrating = len(pending) == 0 && !q.frozen
	if len(pending) == 0 {
		return
	}
	if q.uncordonsFirst() {
		q.note(api.NodeScalingAgent, "MigrationWaitsForNodes", api.PoolRef(q.into()), "%d nodes have to be uncordoned first", len(q.uncordons))
		return
	}
	if missing := q.missing(q.gone(), true); missing != "" && q.guards.holds(guardRoom) {
		q.note(api.NodeScalingAgent, "MigrationWaitsForNodes", api.PoolRef(q.into()),
			"its Ready nodes have no room yet for %s: nothing is cordoned", missing)
		q.explainPool()
		return
	}
	for _, n := range pending {
		q.cordoning[n.Name] = true
		q.cordons = append(q.cordons, api.CordonNode{
			Node: n.Name, For: api.CordonMigration, At: q.snapshot.Time,
			Reason: fmt.Sprintf("workloads move from pool %s to %s", n.Pool, q.into()),
		})
	}
}

// uncordonsFirst reports whether nodes are being uncordoned. That may fail: until
// it is seen, pods on them have no way back to where they are.
func (q *sequencer) uncordonsFirst() bool {
	return len(q.uncordons) > 0 && q.guards.holds(guardUncordoned)
}

// explainPool tells what keeps a target from its planned size.
func (q *sequencer) explainPool() {
	for _, mp := range q.pools {
		if q.isTarget(mp.Name) && mp.Error != nil {
			q.warn(api.NodeScalingAgent, "Pool"+string(mp.Error.Kind), api.PoolRef(mp.Name), "%s", mp.Error.Message)
		}
	}
}

// cordonSurplus cordons the targets' surplus nodes one by one, each if the rest
// can hold what is wanted without it.
func (q *sequencer) cordonSurplus() {
	for _, mp := range q.pools {
		if mp.Hold != "" {
			continue
		}
		var nodes []*api.Node
		for _, n := range mp.nodes {
			if q.shrink[n.Name] && !n.Cordoned && q.worthEmptying(mp, n) {
				nodes = append(nodes, n)
			}
		}
		if len(nodes) == 0 {
			continue
		}
		spared, why := nodes, map[string]string(nil)
		var dead []*api.Node
		if q.guards.holds(guardShrinkRoom) {
			// The others have no less room without a node that is no room and holds nothing.
			var alive []*api.Node
			for _, n := range nodes {
				if !n.Ready && q.empty(n.Name) {
					dead = append(dead, n)
				} else {
					alive = append(alive, n)
				}
			}
			spared, why = q.spared(q.leaving, alive)
			fit, missing := q.spreads(q.leaving, spared)
			for _, n := range spared[len(fit):] {
				why[n.Name] = missing + " as the scheduler spreads pods"
			}
			spared = fit
		}
		for _, n := range nodes {
			if missing := why[n.Name]; missing != "" {
				q.note(api.NodeScalingAgent, "ShrinkWaitsForRoom", api.NodeRef(n.Name),
					"the other Ready nodes have no room for %s", missing)
			}
		}
		for _, n := range slices.Concat(dead, spared) {
			q.cordoning[n.Name] = true
			q.cordons = append(q.cordons, api.CordonNode{
				Node: n.Name, For: api.CordonShrink, At: q.snapshot.Time,
				Reason: fmt.Sprintf("pool %s needs %d nodes per zone%s", mp.Name, mp.plan.SizePerZone, q.trade(mp, n)),
			})
		}
	}
}

// moving reports whether pods are still to leave old nodes.
func (q *sequencer) moving() bool {
	for name := range q.old {
		if slices.ContainsFunc(q.podsOn[name], q.movable) {
			return true
		}
	}
	return q.gathering()
}

// giveUpNodes returns what is empty. The provider chooses its own victims when
// a pool is resized, so a resize needs every node of the pool to be empty;
// otherwise exactly the empty nodes are removed, one by one.
func (q *sequencer) giveUpNodes() {
	for _, mp := range q.pools {
		var empty []*api.Node
		all := true
		for _, n := range mp.nodes {
			switch {
			case q.dying[n.Name]:
			case n.DoNotDisrupt != "":
				all = false
			case q.leaving[n.Name] && q.dwelled(n) && (q.empty(n.Name) || !q.guards.holds(guardEmpty)):
				empty = append(empty, n)
			default:
				all = false
			}
		}
		if q.old[firstName(mp.nodes)] && q.guards.holds(guardTogether) && q.workloadsOnOld() {
			continue
		}
		to := max(mp.plan.SizePerZone, mp.MinPerZone)
		if len(mp.Sizes) == 0 || slices.Max(mp.Sizes) <= to {
			continue
		}
		if !q.isTarget(mp.Name) && (all || !q.guards.holds(guardAllEmpty)) {
			if !q.held(mp, "shrink") && !q.unknown(mp) {
				q.removals = append(q.removals, api.ResizePool{
					Pool: mp.Name, From: slices.Max(mp.Sizes), To: to, Nodes: q.picks(mp, to),
					Reason: fmt.Sprintf("workloads have moved to %s and its nodes are empty", q.into()),
				})
			}
			continue
		}
		switch {
		case len(empty) == 0 || q.held(mp, "shrink"):
		case mp.ResizeOnly:
			q.resizeDown(mp, to)
		default:
			q.remove(mp, empty)
		}
	}
}

// unknown notes that nodes of a pool may be there which don't bear its label: it has fewer
// nodes that do than its size says, and pods run on a node of no pool. Without such a node
// those that are missing are still to come.
func (q *sequencer) unknown(mp managedPool) bool {
	missing := int(mp.Nodes())
	for _, n := range mp.nodes {
		if !q.dying[n.Name] {
			missing--
		}
	}
	if missing <= 0 {
		return false
	}
	for i := range q.snapshot.Nodes {
		n := &q.snapshot.Nodes[i]
		_, controlPlane := n.Labels[labelControlPlane]
		if controlPlane || q.pool(n.Pool).Name != "" || q.empty(n.Name) {
			continue
		}
		q.warn(api.NodeScalingAgent, "PoolHeld", api.PoolRef(mp.Name),
			"can't shrink now: %d of its %d nodes are not seen, and node %s, on which pods run, is of no pool", missing, mp.Nodes(), n.Name)
		return true
	}
	return false
}

// labelControlPlane is on the nodes of the control plane, which are of no pool.
const labelControlPlane = "node-role.kubernetes.io/control-plane"

// Dwell is how long a node has borne its cordon before it is given up: until then a
// scheduler that has not seen the cordon yet may still bind a pod to it, and a
// cache may not show that pod. At the usual period these are two cycles.
const Dwell = 30 * time.Second

// dwelled reports whether a node has borne a cordon of ours for long enough. One
// that doesn't tell since when is of a version that didn't note it: long ago.
func (q *sequencer) dwelled(n *api.Node) bool {
	return n.CordonedFor != "" && q.snapshot.Time.Sub(n.CordonedAt) >= Dwell
}

// picks are the nodes that the provider may pick when it shrinks a pool to a size
// per zone, as ResizePool names them.
func (q *sequencer) picks(mp managedPool, to int32) string {
	var names []string
	for _, n := range mp.nodes {
		zone := slices.Index(mp.Zones, mp.ZoneOf(n))
		if !q.dying[n.Name] && (zone < 0 || zone >= len(mp.Sizes) || mp.Sizes[zone] > to) {
			names = append(names, n.Name)
		}
	}
	return strings.Join(names, ",")
}

func firstName(nodes []*api.Node) string {
	if len(nodes) == 0 {
		return ""
	}
	return nodes[0].Name
}

// workloadsOnOld reports whether a workload still has pods to take off the
// pools being left, or ones that have not arrived elsewhere.
func (q *sequencer) workloadsOnOld() bool {
	for name := range q.old {
		if slices.ContainsFunc(q.podsOn[name], func(p *api.Pod) bool { return q.acting[p.Workload] && q.movable(p) }) {
			return true
		}
	}
	return q.arriving() > 0
}

// resizeDown shrinks a pool of which the provider picks the nodes that go: only
// when all that it might pick are empty and stay so, and no zone would grow.
func (q *sequencer) resizeDown(mp managedPool, to int32) {
	const reason = "ShrinkNeedsPermission"
	for i, zone := range mp.Zones {
		if i < len(mp.Sizes) && mp.Sizes[i] < to {
			q.note(api.NodeScalingAgent, reason, api.PoolRef(mp.Name), "a resize to %d per zone would grow zone %s", to, zone)
			return
		}
	}
	for _, n := range mp.nodes {
		zone := slices.Index(mp.Zones, mp.ZoneOf(n))
		if zone < 0 || zone >= len(mp.Sizes) || mp.Sizes[zone] == to || q.dying[n.Name] {
			continue
		}
		if q.guards.holds(guardPicked) && (!q.leaving[n.Name] || !q.dwelled(n) || !q.empty(n.Name)) || n.DoNotDisrupt != "" {
			q.warn(api.NodeScalingAgent, reason, api.PoolRef(mp.Name),
				"mash2 may not tell the provider which node to remove, and the provider could choose %s, which stays or is not empty yet: empty nodes are kept", n.Name)
			return
		}
	}
	q.removals = append(q.removals, api.ResizePool{
		Pool: mp.Name, From: slices.Max(mp.Sizes), To: to, Nodes: q.picks(mp, to), Reason: "every node that the provider could choose is empty",
	})
}

// remove gives up empty nodes as far as each zone has more than planned.
func (q *sequencer) remove(mp managedPool, empty []*api.Node) {
	for i, zone := range mp.Zones {
		if i >= len(mp.Sizes) {
			break
		}
		excess := mp.Sizes[i] - max(mp.plan.SizePerZone, mp.MinPerZone)
		for _, n := range empty {
			if excess <= 0 {
				break
			}
			if mp.ZoneOf(n) != zone || n.ProviderID == "" {
				continue
			}
			q.removals = append(q.removals, api.RemoveNode{
				Pool: mp.Name, Zone: zone, Node: n.Name, ProviderID: n.ProviderID,
				Reason: "it is empty and the plan does not need it",
			})
			excess--
		}
	}
}

// explainBlockers names the pods that keep leaving nodes from being given up.
func (q *sequencer) explainBlockers() {
	const most = 5
	for i := range q.snapshot.Nodes {
		n := &q.snapshot.Nodes[i]
		if !q.leaving[n.Name] || q.dying[n.Name] {
			continue
		}
		if n.CordonedFor == "" {
			q.note(api.NodeScalingAgent, "ForeignCordon", api.NodeRef(n.Name), "somebody else cordoned this node: mash2 does not remove it")
		}
		if n.DoNotDisrupt != "" {
			q.warn(api.NodeScalingAgent, "NodeBlocked", api.NodeRef(n.Name), "can't be removed: its %s forbids it", n.DoNotDisrupt)
			continue
		}
		blockers := q.blockers(n.Name)
		if len(blockers) == 0 {
			continue
		}
		var names []string
		for _, p := range blockers[:min(len(blockers), most)] {
			names = append(names, fmt.Sprintf("%s (%s)", p.Key, q.blocker(p)))
		}
		if len(blockers) > most {
			names = append(names, fmt.Sprintf("and %d more", len(blockers)-most))
		}
		q.warn(api.NodeScalingAgent, "NodeBlocked", api.NodeRef(n.Name), "can't be emptied: %s", strings.Join(names, ", "))
	}
}
