package execution

import (
	"cmp"
	"fmt"
	"slices"
)

// class of a move: what liveness may count on.
type class uint8

const (
	doing    class = 1 << iota // the operator sees, or does what it was about to
	progress                   // controllers, scheduler, provider do their part
	boots                      // a node comes
	ready0                     // a pod gets Ready on the old pool
	ready1                     // on the new one
	passing                    // something has taken too long, or was long ago
	fault                      // the operator dies, an eviction is refused, a stockout
	turning                    // the policy or the planner changes its mind
)

// move is a state that may come next.
type move struct {
	to    cluster
	class class
	what  string
	wrong string // what must not happen and did
}

// moves are all that may happen next; ops is what the operator would do, if it
// has done what it was about to. They are put into words if somebody is to be told.
func (r rules) moves(c cluster, ops []op, told bool) []move {
	out := make([]move, 0, 16)
	add := func(class class, to cluster, format string, args ...any) {
		m := move{to: to, class: class}
		if told {
			m.what = fmt.Sprintf(format, args...)
		}
		out = append(out, m)
	}
	waits := len(c.ops) == 0 && len(ops) == 0
	switch {
	case waits:
	case len(c.ops) == 0:
		to := c
		to.ops = ops
		add(doing, to, "the operator sees this, and is to: %v", ops)
	default:
		to, wrong := r.carryOut(c, c.ops[0])
		to.ops = c.ops[1:]
		add(doing, to, "the operator: %v", c.ops[0])
		out[len(out)-1].wrong = wrong
		to = c
		to.ops = nil
		add(fault, to, "the operator dies before: %s", c.ops[0])
		to.ops = c.ops[1:]
		add(fault, to, "refused: %s", c.ops[0])
		if int(c.stale) == r.stale {
			return out
		}
		c.stale++
	}
	if r.stalls && len(c.ops) == 0 {
		r.watchMoves(c, add)
	}
	before := len(out)
	r.podMoves(c, waits, add)
	r.deletions(c, func(to cluster, node int, wrong string) {
		add(progress, to, "the ReplicaSet deletes a pod on %s", name(node))
		out[len(out)-1].wrong = wrong
	})
	for i, b := range c.nodes {
		if b.phase == dying {
			to, wrong := c, ""
			if b.serving() > 0 {
				wrong = "a node that was being deleted took Ready pods with it"
			}
			to.nodes[i] = box{}
			add(progress, to, "%s is gone", name(i))
			out[len(out)-1].wrong = wrong
		}
	}
	soon := waits && !slices.ContainsFunc(out[before:], func(m move) bool { return m.class == progress })
	r.poolMoves(c, add)
	// What only the next look at the cluster tells happens before one; what takes
	// long, while nobody has anything to do.
	if len(c.ops) == 0 {
		r.outlook(c, soon || r.dead, add)
	}
	return out
}

// name is a node, named when it is told of.
type name int

func (n name) String() string { return nodeName(int(n)) }

// watchMoves: the watch of pods stalls, which is not known at first, and goes on.
// Meanwhile a pod may cease to be Ready, of those that can't surge.
func (r rules) watchMoves(c cluster, add func(class, cluster, string, ...any)) {
	if c.lag == current {
		to := c
		to.lag = stalled
		for i, b := range c.nodes {
			to.seen[i] = pictured{b.web, b.fixed}
		}
		add(fault, to, "the watch of pods stalls")
		return
	}
	to := c
	to.lag = current
	add(progress, to, "the watch of pods goes on")
	if c.lag == stalled {
		to := c
		to.lag = unproven
		add(passing, to, "pods are not proven to be as they are seen any more")
	}
	for which := range fixedNames {
		if c.healthy(which) < r.total(which) {
			continue
		}
		for i, b := range c.nodes {
			if b.fixed[which][1] == 0 {
				continue
			}
			to := c
			to.nodes[i].fixed[which][1]--
			to.nodes[i].fixed[which][0]++
			r.follow(&to, which)
			add(fault, to, "a %s pod on %s is not Ready any more", fixedNames[which], name(i))
		}
	}
}

// looks reports whether the actuator looks at the API server, by such a guard. Where the
// watch doesn't stall, promises are kept without.
func (r rules) looks(guard guards) bool { return r.stalls && r.guards.holds(guard) }

// healthy are the Ready pods of db or dns.
func (c cluster) healthy(which int) int {
	n := 0
	for _, b := range c.nodes {
		n += int(b.fixed[which][1])
	}
	return n
}

// poolMoves: nodes come.
func (r rules) poolMoves(c cluster, add func(class, cluster, string, ...any)) {
	for p := range 2 {
		have, free := 0, -1
		for i := p * maxNodes; i < (p+1)*maxNodes; i++ {
			switch c.nodes[i].phase {
			case present:
				have++
			case absent:
				free = i
			}
		}
		if free < 0 {
			continue
		}
		if have < int(c.size[p]) {
			to := c
			to.nodes[free] = box{phase: present}
			add(boots, to, "a node of %s boots", poolNames[p])
		}
		if c.stray[p] {
			to := c
			to.nodes[free], to.stray[p] = box{phase: dying}, false
			add(boots, to, "a node of %s boots that is not wanted any more, and is being deleted", poolNames[p])
		}
	}
}

// outlook: the policy turns, provider and time tell.
func (r rules) outlook(c cluster, long bool, add func(class, cluster, string, ...any)) {
	if r.turns {
		to := c
		if r.surplus {
			to.pick = (c.pick + 1) % (everyNode + 1)
			add(turning, to, "the planner thinks again of which node is surplus")
		} else {
			to.target = 1 - c.target
			add(turning, to, "the policy wants %s", poolNames[to.target])
		}
	}
	for p := range 2 {
		if !long {
			break
		}
		have := 0
		for i, b := range c.nodes[p*maxNodes : (p+1)*maxNodes] {
			if b.phase == present {
				have++
			}
			if b.kept {
				to := c
				to.nodes[p*maxNodes+i].kept = false
				add(passing, to, "giving up emptying %s was long ago", name(p*maxNodes+i))
			}
		}
		_, cordons := c.inPool(p)
		if have < int(c.size[p]) {
			if !c.stockout[p] {
				to := c
				to.stockout[p] = true
				add(fault, to, "%s: no such machines", poolNames[p])
			}
			if !c.late[p] {
				to := c
				to.late[p] = true
				add(passing, to, "nodes of %s are overdue", poolNames[p])
			}
		}
		if c.stockout[p] {
			to := c
			to.stockout[p] = false
			add(passing, to, "the stockout of %s was long ago", poolNames[p])
		}
		if cordons > 0 && !c.overdue[p] {
			to := c
			to.overdue[p] = true
			add(passing, to, "the move from %s is overdue", poolNames[p])
		}
		if c.gaveUp[p] {
			to := c
			to.gaveUp[p] = false
			add(passing, to, "giving up the move from %s was long ago", poolNames[p])
		}
	}
	if c.denied && long {
		c.denied = false
		add(passing, c, "that the provider picked itself was long ago")
	}
}

// podMoves: controllers make pods, the scheduler places them, they get Ready, and
// budgets count them. A node that is being deleted takes pods only when the
// operator has seen it: what it can't prevent is not its fault.
func (r rules) podMoves(c cluster, waits bool, add func(class, cluster, string, ...any)) {
	webs, have, healthy := uint8(0), [2]int{}, [2]int{}
	for i, b := range c.nodes {
		for which, n := range b.fixed {
			have[which] += int(n[0] + n[1])
			healthy[which] += int(n[1])
		}
		for _, n := range b.web {
			webs += n
		}
		if slices.Contains(c.nodes[poolOf(i)*maxNodes:i], b) {
			continue
		}
		readiness := ready0 << poolOf(i)
		for _, kind := range []int{0, marked} {
			if b.web[kind] > 0 {
				to := c
				to.nodes[i].web[kind]--
				to.nodes[i].web[kind|isReady]++
				add(readiness, to, "a web pod gets Ready on %s", name(i))
			}
		}
		for which, n := range b.fixed {
			if n[0] > 0 {
				to := c
				to.nodes[i].fixed[which][0]--
				to.nodes[i].fixed[which][1]++
				r.follow(&to, which)
				add(readiness, to, "a %s pod gets Ready on %s", fixedNames[which], name(i))
			}
		}
	}
	for which, n := range healthy {
		to := c
		if r.count(&to, which, n); to.counted != c.counted || to.allowed != c.allowed {
			add(progress, to, "the budget of %s counts %d healthy pods", fixedNames[which], n)
		}
	}
	for p := range 2 {
		best := -1
		for i := p * maxNodes; i < (p+1)*maxNodes; i++ {
			b := c.nodes[i]
			if b.open() && (b.phase == present || waits) && (best < 0 || b.pods() < c.nodes[best].pods()) {
				best = i
			}
		}
		if best < 0 {
			continue
		}
		if webs < c.web {
			to := c
			to.nodes[best].web[0]++
			add(progress, to, "a web pod is bound to %s", name(best))
		}
		for which, n := range have {
			if n < r.total(which) {
				to := c
				to.nodes[best].fixed[which][0]++
				add(progress, to, "a %s pod is bound to %s", fixedNames[which], name(best))
			}
		}
	}
}

// deletions: a ReplicaSet deletes the pods beyond spec.replicas, those that are
// not Ready first, then those of lower cost, then those that are Ready for a
// shorter time: these are on the pool that the policy wants, on any node of it.
func (r rules) deletions(c cluster, deleted func(to cluster, node int, wrong string)) {
	webs := uint8(0)
	for _, b := range c.nodes {
		for _, n := range b.web {
			webs += n
		}
	}
	if webs <= c.web {
		return
	}
	for _, kind := range []int{marked, 0, marked | isReady, isReady} {
		for _, pool := range []int{int(c.target), 1 - int(c.target)} {
			found := false
			for i := pool * maxNodes; i < (pool+1)*maxNodes; i++ {
				if c.nodes[i].web[kind] == 0 || slices.Contains(c.nodes[pool*maxNodes:i], c.nodes[i]) {
					continue
				}
				found = true
				to, wrong := c, ""
				to.nodes[i].web[kind]--
				if kind == isReady && !r.turns && !r.dead && !r.spare && !r.stalls {
					wrong = wrongVictim(c, i)
				}
				deleted(to, i, wrong)
			}
			if found {
				return
			}
		}
	}
}

// wrongVictim: a ReplicaSet must not take a Ready pod without a mark for one that is
// to go; but what a move that was given up has surged may go before it is known
// what is to go next.
func wrongVictim(c cluster, victim int) string {
	if c.nodes[victim].ours() || c.gaveUp[0] || c.gaveUp[1] || slices.ContainsFunc(c.nodes[:], func(b box) bool { return b.kept }) {
		return ""
	}
	for _, b := range c.nodes {
		if b.ours() && b.web != [kinds]uint8{} {
			return "it takes a Ready pod from " + nodeName(victim) + ", and leaves one on a cordoned node"
		}
	}
	return ""
}

// carryOut is what an action does by now, and what is wrong with it.
func (r rules) carryOut(c cluster, o op) (to cluster, wrong string) {
	b := &c.nodes[o.node]
	pool := poolOf(int(o.node))
	switch o.kind {
	case opScale:
		c.web = o.arg
	case opResize:
		var have []int
		for i := pool * maxNodes; i < (pool+1)*maxNodes; i++ {
			if c.nodes[i].phase == present {
				have = append(have, i)
			}
		}
		if o.arg < c.size[pool] && r.looks(guardVacant) &&
			slices.ContainsFunc(have, func(i int) bool { return c.nodes[i].pods() > 0 || !c.nodes[i].ours() }) {
			return c, ""
		}
		c.stray[pool] = c.stray[pool] || r.lingers && len(have) < int(c.size[pool]) && o.arg < c.size[pool]
		// The provider picks its own victims: the worst ones.
		slices.SortStableFunc(have, func(x, y int) int { return c.nodes[x].pods() - c.nodes[y].pods() })
		for _, i := range have[min(len(have), int(o.arg)):] {
			wrong = cmp.Or(wrong, r.doom(&c, i))
			if r.lingers {
				c.nodes[i].cordoned = forMigration // as GKE does
			}
		}
		c.size[pool] = o.arg
		c.late[pool], c.stockout[pool] = false, false
	case opRemove:
		switch {
		case r.denies:
			c.denied = true
		case b.phase == present && r.looks(guardVacant) && (b.pods() > 0 || !b.ours()):
		case b.phase == present:
			c.size[pool]--
			wrong = r.doom(&c, int(o.node))
		}
	case opCordon:
		if b.phase != absent {
			b.cordoned = o.arg
		}
	case opUncordon:
		b.cordoned = 0
	case opMark, opClear:
		from, to := 0, marked
		if o.kind == opClear {
			from, to = marked, 0
		}
		for _, kind := range []int{0, isReady} {
			if b.web[kind|from] > 0 {
				b.web[kind|from]--
				b.web[kind|to]++
				break
			}
		}
	case opEvict:
		wrong = r.evict(&c, int(o.node), int(o.arg))
	case opGiveUp:
		if int(o.arg) == pool {
			b.kept = b.phase != absent
		} else {
			c.gaveUp[pool], b.kept = true, false // the one note in the place of the other
		}
	}
	return c, wrong
}

// evict is what the Eviction API does. A pod that is not Ready goes while its
// budget counts as many healthy ones as it wants, and wants any; all others are
// allowed ones. What was asked for on what is still so is not refused.
func (r rules) evict(c *cluster, node, which int) (wrong string) {
	pods := &c.nodes[node].fixed[which]
	ready := 0
	if pods[0] == 0 {
		ready = 1
	}
	if c.lag != current {
		seen := c.seen[node].fixed[which]
		if pods[0]+pods[1] < seen[0]+seen[1] {
			return "" // that one is gone, another one is not meant
		}
	}
	settled := c.nodes[node].ours() && c.healthy(which) == r.total(which)
	if ready == 1 && pods[1] > 0 && !settled && r.looks(guardLook) {
		return ""
	}
	budgeted := r.total(which) > 1
	free := ready == 0 && r.desired(which) > 0 && int(c.counted[which]) >= r.desired(which)
	switch {
	case pods[ready] == 0:
		return ""
	case budgeted && !free && c.allowed[which] == 0 && (c.stale > 0 || c.lag != current):
		return ""
	case budgeted && !free && c.allowed[which] == 0:
		return "its budget refuses that, and nothing has happened since the operator looked"
	case budgeted && !free:
		c.allowed[which]--
	}
	if ready == 1 && c.lag != current && !settled {
		wrong = "a Ready " + fixedNames[which] + " pod is killed on a stale view"
	}
	pods[ready]--
	r.follow(c, which)
	return wrong
}

// follow has a budget count at once, unless it lags.
func (r rules) follow(c *cluster, which int) {
	if !r.lags {
		r.count(c, which, c.healthy(which))
	}
}

// doom begins the deletion of a node: its pods are gone.
func (r rules) doom(c *cluster, i int) (wrong string) {
	if c.nodes[i].serving() > 0 {
		wrong = "Ready pods died with " + nodeName(i)
	}
	if !r.lingers {
		c.nodes[i] = box{}
		return wrong
	}
	c.nodes[i] = box{phase: dying, cordoned: c.nodes[i].cordoned}
	return wrong
}
