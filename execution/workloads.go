package execution

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/placement"
)

// replicaSet is the kind of controller that surges and respects deletion costs.
const replicaSet = "ReplicaSet"

// pods of a workload that are not terminating.
type pods struct {
	old  []*api.Pod // on nodes to be left, cordoned or not yet, and may be moved
	stay []*api.Pod // everywhere else, pending ones too
	// astray are those of stay that are on another target than their workload's.
	astray []*api.Pod
	// ready are the Ready ones that stay, readyAll all Ready ones.
	ready, readyAll int32
	// stuck are those for which the scheduler found no node.
	stuck int32
}

func (q *sequencer) podsOfWorkload(key api.Key) pods {
	of := q.podsOf[key]
	ps := pods{stay: make([]*api.Pod, 0, len(of))}
	for _, p := range of {
		if p.Terminating {
			continue
		}
		if p.Ready {
			ps.readyAll++
		}
		if p.Unschedulable {
			ps.stuck++
		}
		if (q.leaving[p.Node] || q.old[p.Node]) && q.blocker(p) == "" {
			ps.old = append(ps.old, p)
			continue
		}
		ps.stay = append(ps.stay, p)
		if p.Ready {
			ps.ready++
		}
		if q.astray(p) {
			ps.astray = append(ps.astray, p)
		}
	}
	return ps
}

// surges reports whether more replicas make more pods elsewhere and fewer
// delete the cheapest, as under a ReplicaSet.
func (ps pods) surges() bool {
	return !slices.ContainsFunc(ps.old, func(p *api.Pod) bool { return p.ControllerKind != replicaSet })
}

// shut reports whether pods that leave can't come back to nodes being left: a
// surge or eviction before that would land there.
func (q *sequencer) shut(ps pods) bool {
	return q.migrating || !q.guards.holds(guardShut) || !slices.ContainsFunc(ps.old, func(p *api.Pod) bool { return q.old[p.Node] })
}

// scaleWorkloads brings replicas to the plan. What the reactive floor asks for
// takes the free room first, then the workloads in their order.
func (q *sequencer) scaleWorkloads() {
	q.planned(func(w *api.Workload, wp *api.WorkloadPlan) {
		q.room.place(replicas(w), min(wp.Floor, wp.Replicas)-w.Replicas, q.only(w))
	})
	q.planned(func(w *api.Workload, wp *api.WorkloadPlan) {
		ps := q.podsOfWorkload(w.Key)
		if d := q.divisions[w.Key]; d != nil && ps.surges() && q.shut(ps) {
			q.scaleDivided(w, wp, ps, d)
			return
		}
		switch {
		case len(ps.old) == 0 && len(ps.astray) > 0:
			q.gather(w, wp, ps)
		case len(ps.old) == 0:
			q.scale(w, wp, ps)
		case w.RollingOut && !q.shut(ps):
			q.scale(w, wp, ps)
		case w.RollingOut:
			q.note(api.HorizontalScalingAgent, "MigrationWaitsForRollout", api.WorkloadRef(w.Key), "its pods move after its rollout has finished")
			q.grow(w, wp)
		case !ps.surges():
			q.scale(w, wp, ps)
			if q.shut(ps) {
				q.evictOne(w, wp, ps)
			}
		default:
			q.move(w, wp, ps)
		}
	})
}

// scale sets replicas to the plan where no make before break is called for.
func (q *sequencer) scale(w *api.Workload, wp *api.WorkloadPlan, ps pods) {
	if wp.Replicas >= w.Replicas {
		q.grow(w, wp)
		return
	}
	to := q.safeDown(w, wp, ps)
	if to < w.Replicas {
		q.downs = append(q.downs, scaleTo(w, to, wp.Reason))
	}
	if to > wp.Replicas {
		q.note(api.HorizontalScalingAgent, "ShrinkWaitsForPods", api.WorkloadRef(w.Key),
			"%d of %d pods are Ready: scaled to %d instead of %d", ps.readyAll, w.Replicas, to, wp.Replicas)
	}
}

// grow scales up to the plan: up to the reactive floor at once, beyond it only
// as far as pods find room on Ready nodes, so that none is left pending. Where
// nodes are not managed, pending pods are how others learn of a need, and
// growth is not capped.
func (q *sequencer) grow(w *api.Workload, wp *api.WorkloadPlan) {
	if wp.Replicas <= w.Replicas {
		return
	}
	to := wp.Replicas
	if q.lockstep {
		// Room for the floor has been taken already.
		base := max(w.Replicas, min(wp.Floor, wp.Replicas))
		to = base + q.room.place(replicas(w), wp.Replicas-base, q.only(w))
	}
	if to < wp.Replicas {
		q.note(api.HorizontalScalingAgent, "GrowthWaitsForNodes", api.WorkloadRef(w.Key),
			"%d of %d wanted replicas have room on Ready nodes", to, wp.Replicas)
	}
	if to > w.Replicas {
		q.ups = append(q.ups, scaleTo(w, to, wp.Reason))
	}
}

// safeDown is the lowest replica count, not under the plan, that leaves at
// least min(Ready now, wanted) pods Ready.
func (q *sequencer) safeDown(w *api.Workload, wp *api.WorkloadPlan, ps pods) int32 {
	all := append(slices.Clone(ps.stay), ps.old...)
	if !slices.ContainsFunc(all, func(p *api.Pod) bool { return p.ControllerKind != replicaSet }) {
		// A ReplicaSet deletes pods that are not Ready first.
		return wp.Replicas
	}
	keep := min(ps.readyAll, wp.Replicas)
	if slices.ContainsFunc(all, func(p *api.Pod) bool { return p.ControllerKind != statefulSet }) {
		// Nobody knows which pods go: count on Ready ones.
		return max(wp.Replicas, w.Replicas-(ps.readyAll-keep))
	}
	// A StatefulSet deletes the highest ordinals, one after the other: those beyond the
	// present replicas, and before the first, are going anyway, Ready or not.
	first := int64(w.FirstOrdinal)
	all = slices.DeleteFunc(all, func(p *api.Pod) bool {
		return ordinal(p) >= first+int64(w.Replicas) || ordinal(p) >= 0 && ordinal(p) < first
	})
	slices.SortFunc(all, func(a, b *api.Pod) int { return cmp.Compare(ordinal(b), ordinal(a)) })
	ready := int32(0)
	for _, p := range all {
		if p.Ready {
			ready++
		}
	}
	to := w.Replicas
	for _, p := range all {
		if p.Ready && ready <= keep {
			break
		}
		if p.Ready {
			ready--
		}
		to = int32(ordinal(p) - first)
	}
	return max(to, wp.Replicas)
}

const statefulSet = "StatefulSet"

// ordinal of a StatefulSet's pod; -1 if its name has none.
func ordinal(p *api.Pod) int64 {
	n, err := strconv.ParseInt(p.Key.Name[strings.LastIndex(p.Key.Name, "-")+1:], 10, 32)
	if err != nil {
		return -1
	}
	return n
}

// move takes the workload's pods off nodes to be left: surge, wait until enough
// are Ready, mark the old ones, scale down. While new pods may still land on the
// old nodes there is no surge, but a scaling down takes the old ones first.
func (q *sequencer) move(w *api.Workload, wp *api.WorkloadPlan, ps pods) {
	wanted := wp.Replicas
	wave := q.wave(w, wp, ps)
	switch {
	case wave:
	case ps.ready >= wanted || !q.guards.holds(guardReady) && int32(len(ps.stay)) >= wanted:
	case q.shut(ps):
		q.surge(w, wp, ps)
		return
	case w.Replicas <= wanted:
		q.grow(w, wp)
		return
	}
	if !q.mark(w, ps) {
		return
	}
	switch {
	case w.Replicas > wanted:
		reason := wp.Reason
		if ps.ready >= wanted {
			reason = fmt.Sprintf("%d pods are Ready on nodes that stay: the %d on nodes being drained go", ps.ready, len(ps.old))
		} else if wave {
			reason = fmt.Sprintf("%d pods are Ready on nodes that stay: %d of the %d on nodes being drained go now and the others later, because %s",
				ps.ready, w.Replicas-wanted, len(ps.old), q.whyLimit(w, wp))
		}
		q.downs = append(q.downs, scaleTo(w, wanted, reason))
	case w.Replicas < wanted:
		q.grow(w, wp)
	}
}

// surgeShare is which part of its maximum a workload may have beyond it while its
// pods move; at least one.
const surgeShare = 4

// surgeLimit is the most replicas that a move asks for. What a maximum protects,
// connections or trust, may bear a quarter more for a while, not twice as much; a
// ResourceQuota bears none.
func (q *sequencer) surgeLimit(w *api.Workload, wp *api.WorkloadPlan) int32 {
	limit := max(w.MaxReplicas, wp.Replicas) + max(1, (w.MaxReplicas+surgeShare-1)/surgeShare)
	if w.QuotaReplicas > 0 {
		limit = min(limit, w.QuotaReplicas)
	}
	return limit
}

func (q *sequencer) whyLimit(w *api.Workload, wp *api.WorkloadPlan) string {
	if limit := q.surgeLimit(w, wp); limit == w.QuotaReplicas {
		return fmt.Sprintf("a ResourceQuota has room for %d pods", limit)
	} else {
		return fmt.Sprintf("maxReplicas %d allows a surge to %d", w.MaxReplicas, limit)
	}
}

// wave reports whether a move that the limit leaves too little room for has surged
// as far as it may, and its new pods are all Ready: as many of the old ones go, which
// makes room for the next.
func (q *sequencer) wave(w *api.Workload, wp *api.WorkloadPlan, ps pods) bool {
	limit, old, stay := q.surgeLimit(w, wp), int32(len(ps.old)), int32(len(ps.stay))
	return q.shut(ps) && w.Replicas >= limit && w.Replicas > wp.Replicas &&
		stay > 0 && ps.ready == stay && old+stay == w.Replicas
}

// surge asks for the pods that are still missing outside the leaving nodes,
// beside the ones there, as far as they have room. Replicas may pass the
// workload's maximum up to surgeLimit until the old pods are gone.
func (q *sequencer) surge(w *api.Workload, wp *api.WorkloadPlan, ps pods) {
	old, stay := int32(len(ps.old)), int32(len(ps.stay))+q.uncreated(w)
	if excess := old + stay - w.Replicas; excess > 0 && w.Replicas >= wp.Replicas {
		// Surging for pods that are about to go would make twice as many.
		q.note(api.HorizontalScalingAgent, "MigrationWaitsForPods", api.WorkloadRef(w.Key), "%d surplus pods are not deleted yet", excess)
		return
	}
	missing := wp.Replicas - stay
	fits := int32(0)
	if missing > 0 {
		fits = q.room.place(replicas(w), missing, q.only(w))
	}
	to := max(old+min(wp.Replicas, stay+fits), min(wp.Floor, wp.Replicas))
	if most := max(2*wp.Replicas, w.Replicas); to > most && q.guards.holds(guardTwice) {
		// A surge on top of another one, by a policy that turned round: those
		// beyond what is wanted go first.
		to = most
		if to == w.Replicas {
			q.trim(w, wp, ps)
			return
		}
	}
	bounded := ""
	if limit := max(q.surgeLimit(w, wp), w.Replicas, min(wp.Floor, wp.Replicas)); to > limit {
		to, bounded = limit, "; no more are asked for, because "+q.whyLimit(w, wp)
		if to == w.Replicas && old > wp.Replicas {
			// There is no room for a first new pod before those beyond what is wanted
			// are gone.
			q.trim(w, wp, ps)
			return
		}
	}
	if to > w.Replicas {
		reason := fmt.Sprintf("%d new pods beside the %d on nodes being drained", to-old, old)
		if to > w.MaxReplicas {
			reason += fmt.Sprintf(", above maxReplicas %d until the old ones are gone", w.MaxReplicas)
		}
		q.ups = append(q.ups, scaleTo(w, to, reason))
		return
	}
	q.renew(ps)
	switch {
	case ps.stuck > 0:
		q.warn(api.HorizontalScalingAgent, "MigrationWaitsForPods", api.WorkloadRef(w.Key),
			"%d of %d wanted pods are Ready on nodes that stay; the scheduler finds no node for %d", ps.ready, wp.Replicas, ps.stuck)
	case fits < missing:
		q.note(api.HorizontalScalingAgent, "MigrationWaitsForNodes", api.WorkloadRef(w.Key),
			"Ready nodes have room for %d of the %d pods that have to move", fits, missing)
	default:
		q.note(api.HorizontalScalingAgent, "MigrationWaitsForPods", api.WorkloadRef(w.Key),
			"%d of %d wanted pods are Ready on nodes that stay%s", ps.ready, wp.Replicas, bounded)
	}
}

// renew evicts pods elsewhere that have failed: an attempt before this one may have
// left them, and waiting for them would end this one in the same way. Their
// controller makes others, which land in the room that they leave or in that of the
// move. Of what can't surge one is enough to keep all others where they are.
func (q *sequencer) renew(ps pods) {
	for _, p := range ps.stay {
		if p.Node == "" || !q.failed(p) || q.evicted >= int(q.disruption.MaxEvictions) || q.blocker(p) != "" {
			continue
		}
		if q.allowed(p) {
			q.evicted++
			q.evictions = append(q.evictions, api.EvictPod{
				Pod: p.Key, UID: p.UID, Node: p.Node,
				Reason: fmt.Sprintf("it has not been Ready since %s: its replacement may get Ready", unreadySince(p).UTC().Format(time.RFC3339)),
			})
		}
	}
}

// failed reports whether a pod has not been Ready for longer than a whole move may take.
// One that has served for days and misses a probe now has not.
func (q *sequencer) failed(p *api.Pod) bool {
	since := unreadySince(p)
	return !p.Ready && !since.IsZero() && q.snapshot.Time.Sub(since) > q.disruption.MoveTimeout
}

// unreadySince is since when a pod that is not Ready has not been: since it was made,
// where no more is known.
func unreadySince(p *api.Pod) time.Time {
	if p.UnreadySince.IsZero() {
		return p.Created
	}
	return p.UnreadySince
}

// trim takes the pods on leaving nodes that are more than wanted, once no pod
// that stays can be taken in their place: a ReplicaSet deletes the ones that are
// not Ready first, and then those of the lowest cost.
func (q *sequencer) trim(w *api.Workload, wp *api.WorkloadPlan, ps pods) {
	if ps.ready < int32(len(ps.stay)) || q.uncreated(w) > 0 {
		q.note(api.HorizontalScalingAgent, "MigrationWaitsForPods", api.WorkloadRef(w.Key), "%d of %d pods on nodes that stay are Ready", ps.ready, len(ps.stay))
		return
	}
	if !q.mark(w, ps) {
		return
	}
	excess := int32(len(ps.old)) - wp.Replicas
	q.downs = append(q.downs, scaleTo(w, w.Replicas-excess, fmt.Sprintf("%d pods on nodes being drained are surplus", excess)))
}

// evictOne moves a workload that can't surge, one pod at a time, each while all
// the others are Ready and it has a place to go. One that is not Ready serves
// nobody: it goes first, and doesn't wait for others.
func (q *sequencer) evictOne(w *api.Workload, wp *api.WorkloadPlan, ps pods) {
	// The highest ordinal first, as a StatefulSet itself does.
	pod := slices.MaxFunc(ps.old, func(a, b *api.Pod) int {
		return cmp.Or(cmp.Compare(boolRank(!a.Ready), boolRank(!b.Ready)),
			cmp.Compare(ordinal(a), ordinal(b)), cmp.Compare(b.Key.Name, a.Key.Name))
	})
	all := int32(len(ps.old) + len(ps.stay))
	complete := all == w.Replicas && w.Replicas == wp.Replicas &&
		!slices.ContainsFunc(q.podsOf[w.Key], func(p *api.Pod) bool { return p.Terminating })
	if q.guards.holds(guardOneByOne) && (!complete || pod.Ready && ps.readyAll < all) {
		q.renew(ps)
		q.note(api.HorizontalScalingAgent, "MigrationWaitsForPods", api.WorkloadRef(w.Key),
			"%d of %d pods are Ready: the next one is evicted when all are", ps.readyAll, wp.Replicas)
		return
	}
	q.evict(pod)
}

// evictOthers moves pods of nobody's workload off leaving nodes: a few at a
// time, at most one per controller and only while its other pods are Ready.
func (q *sequencer) evictOthers() {
	type owner struct{ namespace, kind, name string }
	ownerOf := func(p *api.Pod) owner { return owner{p.Key.Namespace, p.ControllerKind, p.ControllerName} }
	var unsettled map[owner]bool // looked for once a node is emptied
	for i := range q.snapshot.Nodes {
		node := q.snapshot.Nodes[i].Name
		if !q.leaving[node] || q.dying[node] || q.old[node] && !q.migrating {
			continue
		}
		if unsettled == nil {
			unsettled = map[owner]bool{}
			for i := range q.snapshot.Pods {
				if p := &q.snapshot.Pods[i]; p.Terminating || !p.Ready {
					unsettled[ownerOf(p)] = true
				}
			}
		}
		for _, p := range q.podsOn[node] {
			if q.evicted >= int(q.disruption.MaxEvictions) {
				return
			}
			if !q.movable(p) || q.acting[p.Workload] {
				continue
			}
			// One that is not Ready itself serves nobody: it may go.
			if unsettled[ownerOf(p)] && p.Ready && q.guards.holds(guardSettled) {
				continue
			}
			if q.evict(p) {
				unsettled[ownerOf(p)] = true
			}
		}
	}
}

// evict asks for an eviction if the pod's budget allows it and it has a place to
// go. What is refused all the same is asked for again in the next cycle.
func (q *sequencer) evict(p *api.Pod) bool {
	if !q.allowed(p) {
		return false
	}
	if q.room.place(placement.PodsOf(p), 1, "") == 0 {
		q.note(api.HorizontalScalingAgent, "EvictionWaitsForRoom", api.PodRef(p.Key), "no Ready node that stays has room for it")
		return false
	}
	q.evicted++
	q.evictions = append(q.evictions, api.EvictPod{
		Pod: p.Key, UID: p.UID, Node: p.Node, Reason: "its node is being drained",
	})
	return true
}

// allowed takes an eviction from the pod's budget, or says that it must wait.
func (q *sequencer) allowed(p *api.Pod) bool {
	budget, ok := q.budgets.allow(p)
	if !q.guards.holds(guardAllowed) {
		return true
	}
	if !ok {
		q.note(api.HorizontalScalingAgent, "EvictionWaitsForBudget", api.PodRef(p.Key),
			"PodDisruptionBudget %s allows no eviction now: %d pods are healthy, %d must be", budget, budget.Healthy, budget.Desired)
	}
	return ok
}

func scaleTo(w *api.Workload, to int32, reason string) api.ScaleWorkload {
	return api.ScaleWorkload{Workload: w.Key, Target: w.Target, From: w.Replicas, To: to, TakeFrom: w.SafetyNet, Reason: reason}
}
