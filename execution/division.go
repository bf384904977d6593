package execution

import (
	"cmp"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// division is where the pods of a workload that is on and off spot machines are, and which
// are to go.
type division struct {
	sides
	// floor is how many must be off spot machines.
	floor int32
	// onBase and onSpot are the pods on its two pools, astray those on neither, and loose
	// those without a node: of each, those that are to go first come first. leaving counts
	// those on nodes to be left, and otherwise those of them and of the ones astray that are
	// off spot machines.
	onBase, onSpot, astray, loose []*api.Pod
	leaving, otherwise            int32
	// awaited is how many of the loose ones are to get their node off spot machines, in place
	// of others.
	awaited int32
	// excess are pods that are to run on pool to instead, going those that are to go as fewer
	// replicas are wanted. Of those on nodes to be left now are moved, and later are not yet.
	excess, going, now, later []*api.Pod
	to                        string
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
		s, ok := q.divided[w.Key]
		if !ok || q.staying[w.Key] {
			return
		}
		d := q.sorted(w, wp, s)
		q.divisions[w.Key] = d
		leave := d.leaving
		if ps := q.podsOfWorkload(w.Key); len(ps.old) > 0 && ps.surges() && q.shut(ps) {
			q.inTurn(w, wp, ps.old, d)
			leave = int32(len(d.now))
		}
		if !q.exceeds(w, wp, d) && !q.strays(w, wp, d) {
			q.lessen(w, wp, d, leave)
		}
	})
}

// sorted is where a workload's pods are.
func (q *sequencer) sorted(w *api.Workload, wp *api.WorkloadPlan, s sides) *division {
	d := &division{sides: s, floor: min(q.bounds.Floor, wp.Replicas), to: s.base}
	for _, p := range q.podsOf[w.Key] {
		n := q.nodes[p.Node]
		switch {
		case p.Terminating:
		case q.leaving[p.Node]:
			d.leaving++
			if n != nil && !q.pool(n.Pool).Spot {
				d.otherwise++
			}
		case n == nil:
			d.loose = append(d.loose, p)
		case q.astray(p):
			d.astray = append(d.astray, p)
			if !q.pool(n.Pool).Spot {
				d.otherwise++
			}
		case q.pool(n.Pool).Spot:
			d.onSpot = append(d.onSpot, p)
		default:
			d.onBase = append(d.onBase, p)
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
	for _, some := range [][]*api.Pod{d.onSpot, d.onBase, d.loose} {
		slices.SortFunc(some, order)
	}
	slices.SortFunc(d.astray, func(a, b *api.Pod) int { return cmp.Or(q.spotFirst(a, b), order(a, b)) })
	return d
}

// exceeds chooses the pods on spot machines that others are made for off them: as many as are
// missing there. It reports whether there are any.
func (q *sequencer) exceeds(w *api.Workload, wp *api.WorkloadPlan, d *division) bool {
	have := int32(len(d.onBase)) + d.otherwise
	lack := max(0, d.floor-have)
	if more := d.off - have; more > lack && wp.Replicas <= w.Replicas &&
		!slices.ContainsFunc(d.onSpot, func(p *api.Pod) bool { return q.snapshot.Time.Sub(p.Created) < sharePatience }) {
		lack = more
	}
	// As with a move by itself: where new pods don't go where they should, that is tried for
	// a while, and again after a rest.
	tried := q.snapshot.Time.Sub(w.PlacedSince) % (q.disruption.MoveTimeout + q.disruption.RetryAfter)
	if w.PlacedOn == d.base && tried >= q.disruption.MoveTimeout {
		lack = 0
	}
	d.awaited = min(lack, int32(len(d.loose)))
	if lack -= d.awaited; lack == 0 {
		return false
	}
	// What is too much goes in the same step.
	surplus := int32(len(d.onBase)+len(d.onSpot)+len(d.astray)) - wp.Replicas
	d.excess = d.onSpot[:min(max(lack, surplus), int32(len(d.onSpot)))]
	d.strayed = slices.ContainsFunc(d.onSpot, func(p *api.Pod) bool {
		return w.PlacedOn == d.base && p.Created.After(w.PlacedSince) && q.snapshot.Time.Sub(p.Created) < settling
	})
	return true
}

// strays chooses the pods on none of the workload's pools that others are made for now, and
// reports whether there are any.
func (q *sequencer) strays(w *api.Workload, wp *api.WorkloadPlan, d *division) bool {
	if d.leaving > 0 || !q.brings(w) || q.disruption.Closed != "" || w.Replicas > wp.Replicas {
		return false
	}
	n := q.turn(w, wp, d, d.astray)
	if n == 0 {
		return false
	}
	d.excess, d.to = d.astray[:n], w.PlacedOn
	d.strayed = slices.ContainsFunc(d.astray, func(p *api.Pod) bool {
		return p.Created.After(w.PlacedSince.Add(admitted)) && q.snapshot.Time.Sub(p.Created) < settling
	})
	return true
}

// inTurn says which pods on nodes to be left are moved now.
func (q *sequencer) inTurn(w *api.Workload, wp *api.WorkloadPlan, old []*api.Pod, d *division) {
	slices.SortStableFunc(old, func(a, b *api.Pod) int {
		return cmp.Or(q.spotFirst(a, b), cmp.Compare(boolRank(!a.DeletionCostOurs), boolRank(!b.DeletionCostOurs)))
	})
	n := q.turn(w, wp, d, old)
	d.now, d.later = old[:n], old[n:]
}

// turn is how many are moved now of pods on none of the workload's pools, or on nodes to be
// left: those that others have been made for, else as many as are missing on the pool that new
// ones prefer. All at once they would take the room there that is another workload's.
func (q *sequencer) turn(w *api.Workload, wp *api.WorkloadPlan, d *division, of []*api.Pod) int {
	loose := len(d.loose)
	n := int(d.off) - len(d.onBase) - loose
	switch {
	case w.Replicas > wp.Replicas:
		n = min(int(w.Replicas-wp.Replicas), q.spare(d, of))
	case w.PlacedOn == d.beside:
		n = int(wp.Replicas-d.off) - len(d.onSpot) - loose
	}
	return min(max(0, n), len(of))
}

// spare is how many of such pods may go, those on spot machines first, before others are made
// off them: these may be on spot machines instead.
func (q *sequencer) spare(d *division, of []*api.Pod) int {
	if !q.guards.holds(guardReplaced) {
		return len(of)
	}
	spot := 0
	for spot < len(of) && !q.offSpot(of[spot]) {
		spot++
	}
	there := len(d.loose) + int(d.otherwise)
	for _, p := range d.onBase {
		there += boolRank(!q.failed(p))
	}
	return min(len(of), spot+max(0, there-int(d.off)))
}

// lessen chooses the pods that go as fewer replicas are wanted, beside so many that leave.
// Those that a ReplicaSet has still to delete are among them. Those without a node that nothing
// waits for serve nobody, nor do those that have failed: they go first.
func (q *sequencer) lessen(w *api.Workload, wp *api.WorkloadPlan, d *division, leave int32) {
	live := len(d.onBase) + len(d.onSpot) + len(d.loose) + len(d.astray) + int(d.leaving)
	fewer := max(0, max(int(w.Replicas), live)-int(leave+wp.Replicas))
	take := func(n int, from []*api.Pod) {
		n = max(0, min(n, fewer, len(from)))
		d.going = append(d.going, from[:n]...)
		fewer -= n
	}
	sides := [2][]*api.Pod{d.onSpot, d.onBase}
	take(len(d.loose)-int(d.awaited), d.loose)
	for i, side := range sides {
		failed, others := []*api.Pod(nil), []*api.Pod(nil)
		for _, p := range side {
			if q.failed(p) {
				failed = append(failed, p)
			} else {
				others = append(others, p)
			}
		}
		n := min(fewer, len(failed))
		take(n, failed)
		sides[i] = append(failed[n:], others...)
	}
	take(q.spare(d, d.astray), d.astray)
	spot := min(max(len(sides[0])-int(wp.Replicas-d.off), 0), fewer)
	base := min(max(len(sides[1])-int(d.off), 0), fewer-spot)
	take(fewer-base, sides[0])
	take(base, sides[1])
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

// spotFirst orders pods that are to go: what is off spot machines counts for the floor until
// others are there.
func (q *sequencer) spotFirst(a, b *api.Pod) int {
	return cmp.Compare(boolRank(q.offSpot(a)), boolRank(q.offSpot(b)))
}

// offSpot reports whether a pod has a node that is no spot machine.
func (q *sequencer) offSpot(p *api.Pod) bool {
	n := q.nodes[p.Node]
	return n != nil && !q.pool(n.Pool).Spot
}
