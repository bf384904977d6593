// Package execution turns a plan into the actions that are safe now.
//
// Sequence is level-based: everything it does follows from what the snapshot
// shows and what the plan wants, so that an operator killed at any point, or a
// plan that changes its mind, goes on from wherever the cluster stands. An
// action never counts on another one of the same sequence having succeeded.
//
// A policy switch moves workloads from pool to pool by make before break:
//
//	nothing forbids it for good: budgets, protected pods, volumes, quota, windows
//	→ target pool grown and Ready, room for all that must move
//	→ nodes of the other managed pools cordoned
//	→ workloads surge: pods on leaving nodes + wanted
//	→ wanted pods Ready outside the leaving nodes
//	→ a negative pod-deletion-cost on every pod that is to go
//	→ scaled to wanted: the ReplicaSet deletes those
//	→ pods of nobody's workload evicted, a few at a time
//	→ empty nodes given up, when all workloads have left
//
// Preflight refuses a move before anything is cordoned, and gives it up when it
// takes too long; workloads then go back to where they came from by the same
// steps.
//
// Surging before the cordon would let pods land on the old pool; shrinking
// without the cost would delete the newest pods, which are the ones just made.
// Nodes that a pool is shrunk by leave in the same way, except that only their
// own pods have to move.
package execution

import (
	"fmt"

	"github.com/mash2-io/mash2/api"
)

// Sequence returns which actions bring the snapshot nearer to the plan and are
// safe now, in an order in which they may be carried out, and what somebody
// should know of why others are not. It is pure and deterministic. Only pools
// that both the plan and policy.ManagedPools name are touched.
//
// At every moment at least min(Ready before, wanted) pods of a workload that
// runs under a ReplicaSet stay Ready, as far as mash2's own actions go.
func Sequence(s api.Snapshot, p api.Plan, policy api.Policy) ([]api.Action, []api.Finding) {
	actions, findings := sequence(s, p, policy, everyGuard)
	calls, undelivered := webhooks(s, policy)
	return append(actions, calls...), append(findings, undelivered...)
}

func sequence(s api.Snapshot, p api.Plan, policy api.Policy, g guards) ([]api.Action, []api.Finding) {
	v, findings := newView(s, p, policy, g)
	q := &sequencer{view: v, findings: findings, victims: map[*api.Pod]bool{}, kept: map[*api.Pod]bool{}}
	q.explainRefusal()
	if len(q.notes) > 0 {
		// Going back begins when the note is seen: without it the next cycle would
		// turn round again. The reactive floor is not kept waiting.
		q.planned(func(w *api.Workload, wp *api.WorkloadPlan) {
			if to := min(wp.Floor, wp.Replicas); to > w.Replicas {
				q.ups = append(q.ups, scaleTo(w, to, wp.Reason))
			}
		})
		return q.actions(), q.findings
	}
	q.releaseCordons()
	q.growPools()
	q.cordon()
	q.forgetLifted()
	q.divide()
	q.scaleWorkloads()
	q.keepFloor()
	q.clearCosts()
	q.resizePods()
	q.evictOthers()
	q.giveUpNodes()
	q.holdIrreversible()
	q.explainBlockers()
	q.explainAstray()
	return q.actions(), q.findings
}

// sequencer collects actions in the order in which they are carried out,
// whatever the order in which they are found: what gives room, then what uses
// it, then what takes away.
type sequencer struct {
	*view
	findings []api.Finding

	notes, uncordons, forgotten, growth, cordons, costs, ups, grows, shrinks, downs, evictions, removals []api.Action

	// cordoning are the nodes cordoned by this very sequence.
	cordoning map[string]bool
	// migrating is true when every old node bears its cordon, as observed:
	// only then do new pods land outside the old pools.
	migrating bool
	// refused is true when nothing may move to the targets, and they are not where
	// workloads are.
	refused bool
	// moveSize are the sizes per zone that the targets need for what moves there.
	moveSize map[string]int32
	// room for pods on nodes that stay; what has been promised is taken.
	room room
	// divisions are those of workloads on and off spot machines; restricted is the pool that
	// new pods are counted on, empty for any.
	divisions  map[api.Key]*division
	restricted string
	// victims are pods that go so that the floor off spot machines is kept, and kept those that
	// stay for it.
	victims, kept map[*api.Pod]bool
	// evicted counts EvictPod actions.
	evicted int
}

func (q *sequencer) actions() []api.Action {
	var out []api.Action
	for _, part := range [][]api.Action{
		q.notes, q.uncordons, q.forgotten, q.growth, q.cordons, q.ups, q.grows, q.costs, q.shrinks, q.downs, q.evictions, q.removals,
	} {
		out = append(out, part...)
	}
	return out
}

// holdIrreversible leaves out what can't be undone while the snapshot may be out of
// date: what it shows as Ready, or as empty, need not be.
func (q *sequencer) holdIrreversible() {
	held := len(q.shrinks) + len(q.downs) + len(q.evictions) + len(q.removals)
	if q.snapshot.Unproven == "" || held == 0 || !q.guards.holds(guardProven) {
		return
	}
	q.shrinks, q.downs, q.evictions, q.removals = nil, nil, nil, nil
	q.warn(api.NodeScalingAgent, "NotCurrent", api.CycleRef, "%d scale-downs, evictions and removals wait: %s", held, q.snapshot.Unproven)
}

func (q *sequencer) note(agent api.Agent, reason string, object api.ObjectRef, format string, args ...any) {
	q.findings = append(q.findings, api.Finding{
		Severity: api.Normal, Agent: agent, Reason: reason, Object: object, Message: fmt.Sprintf(format, args...),
	})
}

func (q *sequencer) warn(agent api.Agent, reason string, object api.ObjectRef, format string, args ...any) {
	q.findings = append(q.findings, warn(agent, reason, object, fmt.Sprintf(format, args...)))
}

func warn(agent api.Agent, reason string, object api.ObjectRef, message string) api.Finding {
	return api.Finding{Severity: api.Warning, Agent: agent, Reason: reason, Object: object, Message: message}
}

// explainRefusal tells why nothing moves, notes that a move was given up, and
// lets every node stay when the plan's own move is refused.
func (q *sequencer) explainRefusal() {
	if r := q.plan.Nodes.Refusal; r != nil {
		q.warn(api.NodeScalingAgent, "MoveRefused", api.PoolRef(r.Pool), "workloads stay on pool %s: %s", r.Stay, r.Message)
		if r.GaveUp {
			q.giveUp(r)
		}
	}
	r := q.refusal()
	if r == nil {
		if q.movingNow().pods > 0 {
			q.moveSize, _ = q.sizeForMove()
		}
		return
	}
	q.warn(api.NodeScalingAgent, "MoveRefused", api.PoolRef(r.Pool), "workloads stay where they are: %s", r.Message)
	if r.GaveUp {
		q.giveUp(r)
	}
	q.refused = !q.isTarget(r.Stay)
	q.stay()
}

// giveUp notes on one node of the pool that workloads stay on that moving away
// was given up.
func (q *sequencer) giveUp(r *api.Refusal) {
	var best *api.Node
	for i := range q.snapshot.Nodes {
		n := &q.snapshot.Nodes[i]
		if n.Pool != r.Stay || q.dying[n.Name] {
			continue
		}
		if n.GaveUp == r.Pool && q.snapshot.Time.Sub(n.GaveUpAt) < q.disruption.RetryAfter {
			return
		}
		if best == nil || len(q.podsOn[n.Name]) > len(q.podsOn[best.Name]) {
			best = n
		}
	}
	if best != nil {
		q.notes = append(q.notes, api.GiveUpMove{Node: best.Name, Pool: r.Pool, At: q.snapshot.Time, Reason: r.Message})
	}
}
