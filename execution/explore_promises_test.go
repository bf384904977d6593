package execution

import "fmt"

// violated is the promise that a state breaks; empty if it keeps all. Where
// somebody else has cordoned a node, mash2 may lack room for as long as it has
// something to do about it.
func (r rules) violated(c cluster, waits bool) string {
	webs, fixed, open, all := uint8(0), [2]int{}, 0, 0
	shut, budgeted := false, false
	for _, b := range c.nodes {
		webs += b.web[isReady] + b.web[isReady|marked]
		for which := range fixed {
			fixed[which] += int(b.fixed[which][1])
		}
		all += b.pods()
		if b.phase == present && b.cordoned == 0 {
			open += perNode - b.pods()
		}
		if b.ours() {
			shut = shut || b.pods() > 0
			budgeted = budgeted || b.fixed != [2][2]uint8{}
		}
	}
	switch {
	case webs < r.wanted():
		return fmt.Sprintf("%d web pods are Ready, %d must be", webs, r.wanted())
	case fixed[db] < r.total(db)-1:
		return fmt.Sprintf("%d db pods are Ready, %d must be while one moves", fixed[db], r.total(db)-1)
	case fixed[dns] < r.total(dns)-1:
		return fmt.Sprintf("%d dns pods are Ready, %d must be while one moves", fixed[dns], r.total(dns)-1)
	case c.web > 2*r.wanted():
		return fmt.Sprintf("%d web pods are asked for, more than twice the %d wanted", c.web, r.wanted())
	case r.tight && c.web > r.wanted()+1:
		return fmt.Sprintf("%d web pods are asked for, more than one above the maximum of %d", c.web, r.most())
	case shut && open == 0 && (waits || !r.kubectl && !r.stalls) && c.lag == current && all <= 2*r.pods+r.dns:
		return "a pod on a cordoned node that crashes finds no other node"
	case r.forbidden && budgeted:
		return "a node is cordoned although the budget of pods on it allows nothing"
	}
	return ""
}

// rest is how far a state is at rest.
type rest uint8

const (
	restless rest = iota
	// settled: nothing is to do, and nothing of a move left behind but what pods
	// of nobody's workload keep, and one pod of db that doesn't get Ready in a pool
	// which has no other to go back to.
	settled
	// resting: all are Ready on one pool.
	resting
)

// restOf a state in which the operator has this to do.
func (r rules) restOf(c cluster, ops []op) rest {
	if len(c.ops) > 0 || len(ops) > 0 || c.lag != current || c.web != r.wanted() {
		return restless
	}
	var on, all [2]int
	var ready [3]int
	full := true
	for i, b := range c.nodes {
		dnsHere := b.fixed[dns] != [2]uint8{}
		keptEmpty := r.denies && b.cordoned == forShrink && b.pods() == 0
		switch {
		case b.phase == dying || b.web[marked] > 0 || b.web[marked|isReady] > 0:
			return restless
		case b.ours() && !keptEmpty && !dnsHere:
			return restless
		case b.ours() && dnsHere:
			full = false
		}
		all[poolOf(i)] += b.pods()
		on[poolOf(i)] += b.pods() - int(b.fixed[dns][0]+b.fixed[dns][1])
		ready[0] += int(b.web[isReady])
		ready[1] += int(b.fixed[db][1])
		ready[2] += int(b.fixed[dns][1])
	}
	lacks := 0
	if r.surplus || r.spare || r.stalls {
		lacks = 1
	}
	switch {
	case ready[0] < r.pods || ready[1] < r.pods-lacks || max(on[0], on[1]) < 2*r.pods:
		return restless
	case full && ready[1] == r.pods && ready[2] == r.dns && max(all[0], all[1]) == 2*r.pods+r.dns:
		return resting
	}
	return settled
}
