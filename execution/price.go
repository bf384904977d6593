package execution

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
)

// worthEmptying reports whether a surplus node may be emptied now: within the
// maintenance windows, when all that is on it may move, and when what the node
// costs within the payback time is more than what moving its pods is deemed to.
func (q *sequencer) worthEmptying(mp managedPool, n *api.Node) bool {
	object := api.NodeRef(n.Name)
	if blockers := q.blockers(n.Name); len(blockers) > 0 {
		q.note(api.NodeScalingAgent, "ShrinkRefused", object, "can't be emptied: pod %s: %s", blockers[0].Key, q.blocker(blockers[0]))
		return false
	}
	if q.disruption.Closed != "" {
		q.note(api.NodeScalingAgent, "ShrinkWaitsForWindow", object, "no maintenance window is open %s", q.disruption.Closed)
		return false
	}
	pods := q.movableOn(n.Name)
	price, saving := float64(pods)*q.disruption.PodPrice, mp.Price*q.disruption.Payback.Hours()
	if mp.Price > 0 && price > saving {
		q.note(api.NodeScalingAgent, "NotWorthMoving", object,
			"emptying it saves %.3f USD/h, %.3f USD within %v; moving its %d pods is priced at %.3f USD",
			mp.Price, saving, q.disruption.Payback, pods, price)
		return false
	}
	// Nobody knows for how long it will be of no use. Who waits until it has cost as much as
	// moving its pods would never pays more than twice what was best (Karlin et al. 1988,
	// "Competitive snoopy caching").
	if i := slices.Index(mp.plan.Surplus, n.Name); mp.Price > 0 && i >= 0 && i < len(mp.plan.SurplusSince) {
		paid := mp.plan.SurplusSince[i].Add(time.Duration(price / mp.Price * float64(time.Hour)))
		if q.snapshot.Time.Before(paid) {
			q.note(api.NodeScalingAgent, "NotWorthMoving", object,
				"emptying it saves %.3f USD/h, and moving its %d pods is priced at %.3f USD: kept until %s, when it has cost as much since it was needed last",
				mp.Price, pods, price, paid.UTC().Format(time.TimeOnly))
			return false
		}
	}
	return true
}

// trade is what emptying a node saves and moves, for its cordon's reason.
func (q *sequencer) trade(mp managedPool, n *api.Node) string {
	if mp.Price <= 0 {
		return ""
	}
	return fmt.Sprintf("; removing the node saves %.3f USD/h and moves %d pods", mp.Price, q.movableOn(n.Name))
}

func (q *sequencer) movableOn(node string) int {
	n := 0
	for _, p := range q.podsOn[node] {
		if q.movable(p) {
			n++
		}
	}
	return n
}

// explainCosts tells what the nodes being left cost until they are given up.
// The sentence stays the same throughout a move, so that it is told once.
func (q *sequencer) explainCosts() {
	for _, mp := range q.pools {
		if q.isTarget(mp.Name) || mp.Price <= 0 {
			continue
		}
		var since time.Time
		for _, n := range mp.nodes {
			if n.CordonedFor == api.CordonMigration && !n.CordonedAt.IsZero() && (since.IsZero() || n.CordonedAt.Before(since)) {
				since = n.CordonedAt
			}
		}
		if since.IsZero() || !slices.ContainsFunc(mp.nodes, func(n *api.Node) bool { return q.old[n.Name] }) {
			continue
		}
		if !q.workloadsOnOld() {
			q.explainKept(mp, since)
			continue
		}
		hourly := float64(len(mp.nodes)) * mp.Price
		q.note(api.NodeScalingAgent, "TwoPoolsPaid", api.PoolRef(mp.Name),
			"during the move its %d nodes cost %.3f USD/h beside those of pool %s, until %s at the latest: at most %.3f USD",
			len(mp.nodes), hourly, q.into(), since.Add(q.disruption.MoveTimeout).UTC().Format(time.RFC3339),
			hourly*q.disruption.MoveTimeout.Hours())
	}
}

// explainKept names what keeps nodes of a pool that workloads have left, and what they
// cost: pods of nobody's workload that wait for a budget, and such as don't end. It is a
// warning when they have had as long as workloads have to move.
func (q *sequencer) explainKept(mp managedPool, since time.Time) {
	const most = 3
	var names []string
	kept := 0
	for _, n := range mp.nodes {
		if q.dying[n.Name] || q.empty(n.Name) {
			continue
		}
		kept++
		for _, p := range q.podsOn[n.Name] {
			switch {
			case p.DaemonSet || p.Mirror:
			case p.Terminating:
				names = append(names, fmt.Sprintf("%s (terminating)", p.Key))
			default:
				names = append(names, p.Key.String())
			}
		}
	}
	if kept == 0 {
		return
	}
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	say := q.note
	if q.snapshot.Time.Sub(since) > q.disruption.MoveTimeout {
		say = q.warn
	}
	say(api.NodeScalingAgent, "OldNodesKept", api.PoolRef(mp.Name), "workloads have left this pool, but pods still keep %d of its nodes, which cost %.3f USD/h: %s",
		kept, float64(kept)*mp.Price, text)
}
