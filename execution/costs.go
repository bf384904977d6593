package execution

import (
	"math"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// deletionCost is what a pod that is to go bears: below the 0 of an unmarked
// pod, with room above it for users who mark some of theirs.
const deletionCost = -1000

// goes reports whether a pod bears its cost for good reason.
func (q *sequencer) goes(p *api.Pod) bool {
	if q.victims[p] || q.kept[p] {
		return q.victims[p]
	}
	d := q.divisions[p.Workload]
	if d == nil {
		return q.leaving[p.Node] || q.old[p.Node] || q.astray(p)
	}
	return slices.Contains(d.excess, p) || slices.Contains(d.going, p) || (q.leaving[p.Node] || q.old[p.Node]) && !slices.Contains(d.later, p)
}

// clearCosts takes back our deletion costs from pods that are not to go. While a ReplicaSet
// has still to delete some it would take others in their place.
func (q *sequencer) clearCosts() {
	if !q.guards.holds(guardCosts) {
		return
	}
	var back []api.Action
	for i := range q.snapshot.Pods {
		p := &q.snapshot.Pods[i]
		if !p.DeletionCostOurs || p.Terminating || q.goes(p) {
			continue
		}
		if q.guarded[p.Workload] != "" || q.deletes(p.Workload) {
			continue
		}
		back = append(back, api.SetDeletionCost{Pod: p.Key, UID: p.UID, Clear: true, Reason: "it stays"})
	}
	q.costs = append(back, q.costs...)
}

// deletes reports whether a workload has more pods than it asks for.
func (q *sequencer) deletes(workload api.Key) bool {
	w := q.workloads[workload]
	return w != nil && q.live(workload) > w.Replicas && q.guards.holds(guardPending)
}

// mark gives the old pods a cost below that of every pod that stays, and
// reports whether all of them are seen to bear one. While a ReplicaSet has still to delete
// pods, those marked now might go instead.
func (q *sequencer) mark(w *api.Workload, ps pods) bool {
	// Costs of ours on pods that stay are being cleared: count them as cleared
	// when choosing, and as what they are when checking.
	lowest, lowestCleared := int32(math.MaxInt32), int32(0)
	for _, p := range ps.stay {
		lowest = min(lowest, p.DeletionCost)
		if !p.DeletionCostOurs {
			lowestCleared = min(lowestCleared, p.DeletionCost)
		}
	}
	cost := int32(deletionCost)
	if lowestCleared <= cost {
		if lowestCleared == math.MinInt32 {
			q.warn(api.HorizontalScalingAgent, "MigrationBlocked", api.WorkloadRef(w.Key),
				"a pod that stays has the lowest possible pod-deletion-cost: no pod can be marked to go before it")
			return false
		}
		cost = lowestCleared - 1
	}
	marked := true
	for _, p := range ps.old {
		if p.DeletionCost < lowest && p.DeletionCost < 0 {
			continue
		}
		marked = false
		if p.DeletionCost != cost && !q.deletes(w.Key) {
			reason := "it goes before those that stay"
			if q.leaving[p.Node] || q.old[p.Node] {
				reason = "its node is being drained, so it goes first"
			}
			q.costs = append(q.costs, api.SetDeletionCost{Pod: p.Key, UID: p.UID, Cost: cost, Reason: reason})
		}
	}
	return marked || !q.guards.holds(guardMarked)
}
