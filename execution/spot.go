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

// division is where the pods of a workload that is on and off spot machines are, and which
// are to go.
type division struct {
	sides
	// floor is how many must be off spot machines.
	floor int32
	// excess are pods that are to run on pool to instead, going those that are to go as fewer
	// replicas are wanted.
	excess, going []*api.Pod
	to            string
	// steady and spot are the pods that stay off spot machines and on them, loose those
	// without a node. Of those on nodes to be left now are moved, and later are not yet.
	steady, spot, loose int32
	now, later          []*api.Pod
	// astray counts the pods that are on none of its pools.
	astray int
	// strayed is true when a new pod that was to be on pool to is not.
	strayed bool
}

// divide finds the divisions of all workloads that have one.
func (q *sequencer) divide() {
	q.divisions = map[api.Key]*division{}
	if q.bounds == nil {
		return
	}
	q.planned(func(w *api.Workload, wp *api.WorkloadPlan) {
		if s, ok := q.divided[w.Key]; ok {
			d := q.divideOne(w, wp, s)
			q.divisions[w.Key] = d
			if ps := q.podsOfWorkload(w.Key); len(ps.old) > 0 && ps.surges() && q.shut(ps) {
				q.inTurn(w, wp, ps.old, d)
			}
		}
	})
}

func (q *sequencer) divideOne(w *api.Workload, wp *api.WorkloadPlan, s sides) *division {
	d := &division{sides: s, floor: min(q.bounds.Floor, wp.Replicas), to: s.base}
	var on, others, astray []*api.Pod
	loose, leaving, otherwise := int32(0), int32(0), int32(0) // otherwise: off spot machines, and to move
	for _, p := range q.podsOf[w.Key] {
		n := q.nodes[p.Node]
		switch {
		case p.Terminating:
		case q.leaving[p.Node]:
			leaving++
			if n != nil && !q.pool(n.Pool).Spot {
				otherwise++
			}
		case n == nil:
			loose++
		case q.astray(p):
			astray = append(astray, p)
			if !q.pool(n.Pool).Spot {
				otherwise++
			}
		case q.pool(n.Pool).Spot:
			on = append(on, p)
		default:
			others = append(others, p)
		}
	}
	surplus := map[string]bool{}
	for _, pp := range q.plan.Nodes.Pools {
		for _, name := range pp.Surplus {
			surplus[name] = true
		}
	}
	// Those that bear a cost already are chosen again; of the rest those that serve nobody,
	// those whose node is to go, and the youngest.
	order := func(a, b *api.Pod) int {
		return cmp.Or(cmp.Compare(boolRank(!a.DeletionCostOurs), boolRank(!b.DeletionCostOurs)), cmp.Compare(boolRank(a.Ready), boolRank(b.Ready)),
			cmp.Compare(boolRank(!surplus[a.Node]), boolRank(!surplus[b.Node])), b.Created.Compare(a.Created), cmp.Compare(a.Key.Name, b.Key.Name))
	}
	slices.SortFunc(on, order)
	slices.SortFunc(others, order)
	slices.SortFunc(astray, func(a, b *api.Pod) int { return cmp.Or(q.spotFirst(a, b), order(a, b)) })
	d.astray = len(astray)
	have := int32(len(others))
	d.steady, d.spot, d.loose = have, int32(len(on)), loose
	lack := max(0, d.floor-have-otherwise)
	if more := d.off - have - otherwise; more > lack && wp.Replicas <= w.Replicas && !slices.ContainsFunc(on, func(p *api.Pod) bool { return q.snapshot.Time.Sub(p.Created) < sharePatience }) {
		lack = more
	}
	// As with a move by itself: where new pods don't go where they should, that is tried for
	// a while, and again after a rest.
	tried := q.snapshot.Time.Sub(w.PlacedSince) % (q.disruption.MoveTimeout + q.disruption.RetryAfter)
	if w.PlacedOn == d.base && tried >= q.disruption.MoveTimeout {
		lack = 0
	}
	if lack -= loose; lack > 0 {
		d.excess = on[:min(int(lack), len(on))]
		d.strayed = slices.ContainsFunc(on, func(p *api.Pod) bool {
			return w.PlacedOn == d.base && p.Created.After(w.PlacedSince) && q.snapshot.Time.Sub(p.Created) < settling
		})
		return d
	}
	if len(astray) > 0 && leaving == 0 && q.brings(w) && (q.disruption.Closed == "" || w.Replicas > wp.Replicas) {
		if n := min(d.turn(w, wp), int32(len(astray))); n > 0 {
			d.excess, d.to = astray[:n], w.PlacedOn
			d.strayed = slices.ContainsFunc(astray, func(p *api.Pod) bool {
				return p.Created.After(w.PlacedSince.Add(admitted)) && q.snapshot.Time.Sub(p.Created) < settling
			})
			return d
		}
	}
	if fewer := w.Replicas - leaving - wp.Replicas; fewer > 0 {
		gone := min(int32(len(astray)), fewer)
		fewer -= gone
		fromSpot := min(max(int32(len(on))-(wp.Replicas-d.off), 0), fewer)
		elsewhere := min(max(have-d.off, 0), fewer-fromSpot)
		fromSpot = min(fewer-elsewhere, int32(len(on)))
		d.going = slices.Concat(astray[:gone], on[:fromSpot], others[:elsewhere])
	}
	return d
}

// part sorts a workload's pods anew: those that are to go for its division count as on
// nodes to be left.
func (d *division) part(ps pods, leave []*api.Pod) pods {
	out := pods{old: slices.Clone(ps.old), readyAll: ps.readyAll, stuck: ps.stuck}
	for _, p := range ps.stay {
		if slices.Contains(leave, p) {
			out.old = append(out.old, p)
			continue
		}
		out.stay = append(out.stay, p)
		if p.Ready {
			out.ready++
		}
	}
	return out
}

// turn is how many pods are moved now of those on none of the workload's pools, or on nodes to
// be left: those that others have been made for, else as many as are missing on the pool that
// new ones prefer. All at once they would take the room there that is another workload's.
func (d *division) turn(w *api.Workload, wp *api.WorkloadPlan) int32 {
	switch {
	case w.Replicas > wp.Replicas:
		return w.Replicas - wp.Replicas
	case w.PlacedOn == d.beside:
		return max(0, wp.Replicas-d.off-d.spot-d.loose)
	}
	return max(0, d.off-d.steady-d.loose)
}

// spotFirst orders pods that are to go: what is off spot machines counts for the floor until
// others are there.
func (q *sequencer) spotFirst(a, b *api.Pod) int {
	spot := func(p *api.Pod) bool { n := q.nodes[p.Node]; return n != nil && q.pool(n.Pool).Spot }
	return cmp.Compare(boolRank(!spot(a)), boolRank(!spot(b)))
}

// inTurn says which pods on nodes to be left are moved now.
func (q *sequencer) inTurn(w *api.Workload, wp *api.WorkloadPlan, old []*api.Pod, d *division) {
	slices.SortStableFunc(old, func(a, b *api.Pod) int {
		return cmp.Or(q.spotFirst(a, b), cmp.Compare(boolRank(!a.DeletionCostOurs), boolRank(!b.DeletionCostOurs)))
	})
	n := min(int(d.turn(w, wp)), len(old))
	d.now, d.later = old[:n], old[n:]
}

// leave moves the pods on nodes to be left whose turn it is.
func (q *sequencer) leave(w *api.Workload, wp *api.WorkloadPlan, ps pods, d *division) {
	switch {
	case len(d.now) > 0:
	case ps.stuck > 0:
		q.warn(api.HorizontalScalingAgent, "MigrationWaitsForPods", api.WorkloadRef(w.Key), "the scheduler finds no node for %d of its pods", ps.stuck)
		q.grow(w, wp)
		return
	case d.loose > 0:
		q.note(api.HorizontalScalingAgent, "MigrationWaitsForPods", api.WorkloadRef(w.Key), "%d of its pods have no node yet", d.loose)
		q.grow(w, wp)
		return
	default:
		q.note(api.HorizontalScalingAgent, "MigrationWaitsForPods", api.WorkloadRef(w.Key), "its status says that new pods prefer pool %s, where enough are", w.PlacedOn)
		q.grow(w, wp)
		return
	}
	for _, p := range d.later {
		if ps.stay = append(ps.stay, p); p.Ready {
			ps.ready++
		}
	}
	ps.old = d.now
	if w.PlacedOn == d.base || w.PlacedOn == d.beside {
		q.restricted = w.PlacedOn
	}
	q.move(w, wp, d.part(ps, d.going))
	q.restricted = ""
}

// scaleDivided brings a workload on and off spot machines to its plan.
func (q *sequencer) scaleDivided(w *api.Workload, wp *api.WorkloadPlan, ps pods, d *division) {
	object := api.WorkloadRef(w.Key)
	if since := q.snapshot.Time.Sub(w.PlacedSince); d.astray > 0 && since >= q.disruption.MoveTimeout && !q.brings(w) {
		q.warn(api.NodeScalingAgent, "MoveRefused", object, "%d of its pods are on none of its pools after %v; the next attempt is made within %v",
			d.astray, q.disruption.MoveTimeout, q.disruption.RetryAfter)
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
		if !p.Ready && q.snapshot.Time.Sub(p.Created) <= q.disruption.MoveTimeout {
			q.note(api.HorizontalScalingAgent, "ShrinkWaitsForPods", api.WorkloadRef(w.Key), "%d of the %d pods that stay are Ready", ps.ready, len(ps.stay))
			return
		}
	}
	if q.mark(w, ps) {
		q.downs = append(q.downs, scaleTo(w, wp.Replicas, wp.Reason))
	}
}

// keepFloor leaves out what could take so many pods off spot machines that fewer Ready
// ones than the floor are left: of pods that a ReplicaSet may choose among the worst is
// expected.
func (q *sequencer) keepFloor() {
	q.downs = slices.DeleteFunc(q.downs, func(a api.Action) bool {
		down, ok := a.(api.ScaleWorkload)
		if !ok || q.divisions[down.Workload] == nil {
			return false
		}
		d := q.divisions[down.Workload]
		var all []*api.Pod
		for _, p := range q.podsOf[down.Workload] {
			if !p.Terminating {
				all = append(all, p)
			}
		}
		steady := func(p *api.Pod) bool {
			n := q.nodes[p.Node]
			return p.Ready && n != nil && !q.pool(n.Pool).Spot
		}
		slices.SortStableFunc(all, func(a, b *api.Pod) int {
			return cmp.Or(cmp.Compare(boolRank(a.Ready), boolRank(b.Ready)), cmp.Compare(a.DeletionCost, b.DeletionCost),
				cmp.Compare(boolRank(!steady(a)), boolRank(!steady(b))))
		})
		before, left := int32(0), int32(0)
		gone := max(0, len(all)-int(down.To))
		for i, p := range all {
			if steady(p) {
				before++
				if i >= gone {
					left++
				}
			}
		}
		if left >= min(d.floor, before) {
			return false
		}
		q.note(api.HorizontalScalingAgent, "ShrinkWaitsForPods", api.WorkloadRef(down.Workload),
			"%d pods of it would be left Ready off spot machines, and the policy keeps %d there", left, d.floor)
		return true
	})
}
