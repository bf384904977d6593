package execution

import (
	"cmp"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// A workload that the plan has both on spot machines and off them is brought there by
// three means: new pods prefer the pool that has too few (WorkloadPlan.Prefers, by its
// status), of fewer replicas those that are too many in a pool go first, by their deletion
// cost, and where too few are off spot machines others are made there before as many on
// spot machines go. In no case does mash2 take a pod by which the Ready ones off spot
// machines would be fewer than the policy's floor.
//
// Where workloads are on several pools, one may have pods astray on a target that is neither
// its base nor its spot pool. They are moved to the one that new pods prefer: to its base
// until enough are there, the others to spot machines.

// sharePatience is how old the newest pods on spot machines must be, where there are more
// than their share, for some to be moved: a fall of demand may set that right at no price.
const sharePatience = 10 * time.Minute

// sides are the pools that the plan has a workload on, off spot machines and on them, and how
// many replicas off them. beside is empty where the plan doesn't say which: all are off.
type sides struct {
	base, beside string
	off          int32
}

func (v *view) sidesOf(wp *api.WorkloadPlan) (d sides) {
	for _, share := range wp.Pools {
		if v.pool(share.Pool).Spot {
			d.beside = share.Pool
		} else {
			d.base, d.off = share.Pool, share.Replicas
		}
	}
	if d.beside == "" && v.pool(wp.Prefers).Spot {
		d.beside = wp.Prefers
	}
	return d
}

// leave moves the pods on nodes to be left whose turn it is.
func (q *sequencer) leave(w *api.Workload, wp *api.WorkloadPlan, ps pods, d *division) {
	ps.old = d.now
	for _, p := range d.later {
		if ps.stay = append(ps.stay, p); p.Ready {
			ps.ready++
		}
	}
	switch {
	case len(d.now) > 0:
		if w.PlacedOn == d.base || w.PlacedOn == d.beside {
			q.restricted = w.PlacedOn
		}
		q.move(w, wp, d.part(ps, d.going))
		q.restricted = ""
	case wp.Replicas < w.Replicas:
		q.lower(w, wp, d.part(ps, d.going))
	case ps.stuck > 0:
		q.warn(api.HorizontalScalingAgent, "MigrationWaitsForPods", api.WorkloadRef(w.Key), "the scheduler finds no node for %d of its pods", ps.stuck)
		q.grow(w, wp)
	case len(d.loose) > 0:
		q.note(api.HorizontalScalingAgent, "MigrationWaitsForPods", api.WorkloadRef(w.Key), "%d of its pods have no node yet", len(d.loose))
		q.grow(w, wp)
	default:
		q.note(api.HorizontalScalingAgent, "MigrationWaitsForPods", api.WorkloadRef(w.Key), "its status says that new pods prefer pool %s, where enough are", w.PlacedOn)
		q.grow(w, wp)
	}
}

// scaleDivided brings a workload on and off spot machines to its plan.
func (q *sequencer) scaleDivided(w *api.Workload, wp *api.WorkloadPlan, ps pods, d *division) {
	object := api.WorkloadRef(w.Key)
	if since := q.snapshot.Time.Sub(w.PlacedSince); len(d.astray) > 0 && since >= q.disruption.MoveTimeout && !q.brings(w) {
		q.warn(api.NodeScalingAgent, "MoveRefused", object, "%d of its pods are on none of its pools after %v; the next attempt is made within %v",
			len(d.astray), q.disruption.MoveTimeout, q.disruption.RetryAfter)
	}
	switch {
	case w.RollingOut:
		q.grow(w, wp) // what is fewer, and where, waits for its end
	case len(d.excess) > 0 && w.PlacedOn != d.to:
		q.note(api.HorizontalScalingAgent, "MigrationWaitsForPods", object, "its status does not say yet that new pods prefer pool %s", d.to)
		q.grow(w, wp)
	case len(d.excess) > 0 && d.strayed:
		q.note(api.HorizontalScalingAgent, "MigrationWaitsForPods", object,
			"a new pod did not go to pool %s: no other one is made for %v", d.to, settling)
		q.grow(w, wp)
	case len(d.excess) > 0:
		if !q.astray(d.excess[0]) {
			q.note(api.HorizontalScalingAgent, "TooManyOnSpot", object,
				"%d of its pods are to run off spot machines, on pool %s: others are made there first", len(d.excess), d.to)
		}
		q.restricted = d.to
		q.move(w, wp, d.part(ps, d.excess))
		q.restricted = ""
	case len(ps.old) > 0:
		q.leave(w, wp, ps, d)
	case wp.Replicas < w.Replicas:
		q.lower(w, wp, d.part(ps, d.going))
	default:
		q.grow(w, wp)
	}
}

// lower takes the pods that are to go once all others are Ready, and seen to bear a higher
// cost: a ReplicaSet would delete those that are not Ready first.
func (q *sequencer) lower(w *api.Workload, wp *api.WorkloadPlan, ps pods) {
	for _, p := range ps.stay {
		if !p.Ready && !q.failed(p) {
			q.note(api.HorizontalScalingAgent, "ShrinkWaitsForPods", api.WorkloadRef(w.Key), "%d of the %d pods that stay are Ready", ps.ready, len(ps.stay))
			return
		}
	}
	if q.mark(w, ps) {
		q.downs = append(q.downs, scaleTo(w, wp.Replicas, wp.Reason))
	}
}

// keepFloor leaves out of what is scaled down, under a policy with spot machines, that which
// could leave fewer Ready pods off them than the floor. Of pods that a ReplicaSet may choose
// among the worst is expected: one that is not Ready yet may be when it chooses. Those that
// may go instead are marked, and make way for it in the next cycle.
func (q *sequencer) keepFloor() {
	if q.bounds == nil || !q.guards.holds(guardFloor) {
		return
	}
	q.downs = slices.DeleteFunc(q.downs, func(a api.Action) bool {
		down, ok := a.(api.ScaleWorkload)
		return ok && !q.keepsFloor(down)
	})
}

func (q *sequencer) keepsFloor(down api.ScaleWorkload) bool {
	floor := min(q.bounds.Floor, q.wanted[down.Workload])
	var all, others []*api.Pod
	before := int32(0)
	for _, p := range q.podsOf[down.Workload] {
		switch {
		case p.Terminating:
			continue
		case p.ControllerKind != replicaSet:
			return true // who goes is known, and costs are no matter
		case q.steady(p):
			before++
		default:
			others = append(others, p)
		}
		all = append(all, p)
	}
	gone := max(0, len(all)-int(down.To))
	left := q.steadyAfter(all, gone)
	if left >= min(floor, before) {
		return true
	}
	slices.SortStableFunc(others, func(a, b *api.Pod) int {
		return cmp.Or(cmp.Compare(boolRank(!a.DeletionCostOurs), boolRank(!b.DeletionCostOurs)), cmp.Compare(boolRank(a.Ready), boolRank(b.Ready)))
	})
	victims := others[:min(gone, len(others))]
	for _, p := range victims {
		q.victims[p] = true
	}
	if q.steadyAfter(all, gone) >= min(floor, before) {
		return true
	}
	stay := slices.DeleteFunc(slices.Clone(all), func(p *api.Pod) bool { return slices.Contains(victims, p) })
	q.mark(q.workloads[down.Workload], pods{old: victims, stay: stay})
	q.note(api.HorizontalScalingAgent, "ShrinkWaitsForPods", api.WorkloadRef(down.Workload),
		"%d pods of it could be left Ready off spot machines, and the policy keeps %d there", left, floor)
	return false
}

// steady reports whether a pod is Ready off spot machines.
func (q *sequencer) steady(p *api.Pod) bool { return p.Ready && q.offSpot(p) }

// steadyAfter is how many of a workload's pods are Ready off spot machines at least when so
// many of them are gone.
func (q *sequencer) steadyAfter(all []*api.Pod, gone int) int32 {
	// A cost that is being taken back may be borne all the same.
	cost := func(p *api.Pod) int32 {
		if p.DeletionCostOurs && !q.goes(p) && !q.steady(p) {
			return 0
		}
		return p.DeletionCost
	}
	slices.SortStableFunc(all, func(a, b *api.Pod) int {
		return cmp.Or(cmp.Compare(cost(a), cost(b)), cmp.Compare(boolRank(!q.steady(a)), boolRank(!q.steady(b))))
	})
	left := int32(0)
	for _, p := range all[gone:] {
		left += int32(boolRank(q.steady(p)))
	}
	return left
}
