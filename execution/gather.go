package execution

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
)

// A workload that is moved by itself leaves a pool that others stay on, so that no cordon
// can keep its new pods away from there. They are made to prefer their pool when they are
// admitted; what is done here waits until that is seen. From then on it is a move as any
// other:
//
//	the pool grown, as planned
//	→ the status seen to say that new pods prefer it
//	→ the workload surges, as far as the pool's Ready nodes have room
//	→ wanted pods Ready there
//	→ a negative pod-deletion-cost on those astray
//	→ scaled to wanted: the ReplicaSet deletes those
//
// The scheduler may still choose another pool. So a move by itself goes on for MoveTimeout,
// rests for RetryAfter and is tried again, by the time at which new pods began to prefer
// their pool. While it rests pods stay where they are.

// only is the pool that new pods of a workload are counted on; empty for any.
func (q *sequencer) only(w *api.Workload) string {
	if q.restricted != "" {
		return q.restricted
	}
	return q.view.only(w)
}

// settling is for how long a new pod astray keeps others from being made: they would
// follow it.
const settling = 5 * time.Minute

// admitted is how long admission may take to see what a status says: API servers look at it
// through caches. A pod made before that would go astray.
const admitted = 5 * time.Second

// only is the pool that new pods of a workload are counted on: its own where workloads are
// on several and new pods are seen to go there, if they can at all; empty for any.
func (v *view) only(w *api.Workload) string {
	if len(v.targets) < 2 || !v.brings(w) {
		return ""
	}
	if home := v.home(w.Key); home.Name != "" && siteIn(home).Admits(w.Shape) {
		return home.Name
	}
	return ""
}

// astray reports whether a pod is on another target than its workload, and may be moved.
func (v *view) astray(p *api.Pod) bool {
	if len(v.targets) < 2 || p.Terminating || p.ControllerKind != replicaSet || !v.acting[p.Workload] || v.leaving[p.Node] {
		return false
	}
	n := v.nodes[p.Node]
	return n != nil && v.isTarget(n.Pool) && v.notOf(p.Workload, n.Pool) && v.blocker(p) == ""
}

// notOf reports whether a target is none that a workload is planned on, as far as is known.
func (v *view) notOf(workload api.Key, target string) bool {
	if d, ok := v.divided[workload]; ok {
		return v.isTarget(d.base) && target != d.base && target != d.beside && (d.beside != "" || !v.pool(target).Spot)
	}
	home := v.homes[workload]
	return v.isTarget(home) && target != home
}

// brings reports whether pods of a workload that are astray are being moved now.
func (v *view) brings(w *api.Workload) bool {
	there := w.PlacedOn == v.homes[w.Key]
	if d, ok := v.divided[w.Key]; ok {
		there = w.PlacedOn == d.base || w.PlacedOn == d.beside
	}
	if w.PlacedOn == "" || !there {
		return false // new pods would not go there
	}
	since := v.snapshot.Time.Sub(w.PlacedSince)
	return since >= admitted && since%(v.disruption.MoveTimeout+v.disruption.RetryAfter) < v.disruption.MoveTimeout
}

// gathering reports whether some pods are being moved to their workload's pool: what they
// leave is no surplus yet.
func (q *sequencer) gathering() bool {
	found := false
	q.planned(func(w *api.Workload, _ *api.WorkloadPlan) {
		found = found || q.brings(w) && slices.ContainsFunc(q.podsOf[w.Key], q.astray)
	})
	return found
}

// gather moves pods that are astray to their workload's pool.
func (q *sequencer) gather(w *api.Workload, wp *api.WorkloadPlan, ps pods) {
	home := q.homes[w.Key]
	move := pods{old: ps.astray, readyAll: ps.readyAll, stuck: ps.stuck}
	// A new pod that went elsewhere a short time ago tells that others would; it goes last,
	// so that it is there to tell.
	followed := func(p *api.Pod) bool {
		return p.Created.After(w.PlacedSince.Add(admitted)) && q.snapshot.Time.Sub(p.Created) < settling
	}
	for _, p := range ps.stay {
		if q.astray(p) {
			continue
		}
		move.stay = append(move.stay, p)
		if p.Ready {
			move.ready++
		}
	}
	begun := w.Replicas > wp.Replicas
	switch {
	case w.RollingOut:
		q.note(api.HorizontalScalingAgent, "MigrationWaitsForRollout", api.WorkloadRef(w.Key), "its pods move after its rollout has finished")
		q.grow(w, wp)
	case w.PlacedOn != home || w.PlacedOn == "":
		q.note(api.HorizontalScalingAgent, "MigrationWaitsForPods", api.WorkloadRef(w.Key), "its status does not say yet that new pods prefer pool %s", home)
		q.scale(w, wp, ps)
	case q.snapshot.Time.Sub(w.PlacedSince) < admitted:
		q.note(api.HorizontalScalingAgent, "MigrationWaitsForPods", api.WorkloadRef(w.Key), "its status has said for less than %v that new pods prefer pool %s", admitted, home)
		q.scale(w, wp, ps)
	case q.disruption.Closed != "" && !begun:
		q.note(api.NodeScalingAgent, "MoveRefused", api.WorkloadRef(w.Key), "its pods stay where they are: no maintenance window is open %s", q.disruption.Closed)
		q.scale(w, wp, ps)
	case !q.brings(w):
		q.warn(api.NodeScalingAgent, "MoveRefused", api.WorkloadRef(w.Key),
			"%d of its pods are not on pool %s after %v; the next attempt is made within %v", len(ps.astray), home, q.disruption.MoveTimeout, q.disruption.RetryAfter)
		q.settle(w, wp, ps, move)
	case slices.ContainsFunc(ps.astray, followed) && move.ready < wp.Replicas:
		q.note(api.HorizontalScalingAgent, "MigrationWaitsForPods", api.WorkloadRef(w.Key),
			"a new pod did not go to pool %s: no other one is made for %v", home, settling)
		move.old = slices.DeleteFunc(slices.Clone(move.old), followed)
		q.settle(w, wp, ps, move)
	default:
		q.move(w, wp, move)
	}
}

// settle brings replicas to the plan without making pods that move: where there are too
// many, those astray go first.
func (q *sequencer) settle(w *api.Workload, wp *api.WorkloadPlan, ps, move pods) {
	if w.Replicas > wp.Replicas && q.bounds != nil {
		move = q.sparing(w, wp, move)
	}
	if w.Replicas <= wp.Replicas || q.mark(w, move) {
		q.scale(w, wp, ps)
	}
}

// sparing is a move in which, of as many pods as are too many, those that are not Ready off
// spot machines go first, and of the others none by which fewer than the policy's floor are
// left.
func (q *sequencer) sparing(w *api.Workload, wp *api.WorkloadPlan, move pods) pods {
	out := pods{readyAll: move.readyAll, stuck: move.stuck}
	all, steady := slices.Concat(move.old, move.stay), int32(0)
	for _, p := range all {
		steady += int32(boolRank(q.steady(p)))
	}
	slices.SortStableFunc(all, func(a, b *api.Pod) int {
		return cmp.Or(cmp.Compare(boolRank(q.steady(a)), boolRank(q.steady(b))), cmp.Compare(boolRank(!a.DeletionCostOurs), boolRank(!b.DeletionCostOurs)),
			cmp.Compare(boolRank(a.Ready), boolRank(b.Ready)))
	})
	spare := steady - min(q.bounds.Floor, wp.Replicas)
	for _, p := range all {
		switch {
		case int32(len(out.old)) < q.live(w.Key)-wp.Replicas && (!q.steady(p) || spare > 0):
			spare -= int32(boolRank(q.steady(p)))
			out.old = append(out.old, p)
			q.victims[p] = true
			continue
		case slices.Contains(move.old, p):
			q.kept[p] = true
		}
		if out.stay = append(out.stay, p); p.Ready {
			out.ready++
		}
	}
	return out
}

// explainAstray names the pods that keep a workload from leaving a pool by itself.
func (q *sequencer) explainAstray() {
	const most = 3
	if len(q.targets) < 2 {
		return
	}
	q.planned(func(w *api.Workload, _ *api.WorkloadPlan) {
		home := q.homes[w.Key]
		if w.PlacedOn == "" || w.PlacedOn != home {
			return
		}
		var names []string
		for _, p := range q.podsOf[w.Key] {
			n := q.nodes[p.Node]
			if n == nil || p.Terminating || n.Pool == home || !q.isTarget(n.Pool) {
				continue
			}
			if why := q.blocker(p); why != "" {
				names = append(names, fmt.Sprintf("%s (%s)", p.Key, why))
			}
		}
		if len(names) == 0 {
			return
		}
		text := strings.Join(names[:min(len(names), most)], ", ")
		if len(names) > most {
			text += fmt.Sprintf(" and %d more", len(names)-most)
		}
		q.warn(api.NodeScalingAgent, "MoveRefused", api.WorkloadRef(w.Key), "pods that can't be moved to pool %s stay where they are: %s", home, text)
	})
}
