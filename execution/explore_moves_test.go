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
	turning                    // the policy changes its mind
)

// move is a state that may come next.
type move struct {
	to    cluster
	class class
	what  string
	wrong string // what must not happen and did
}

// moves are all that may happen next.
func (r rules) moves(c cluster) []move {
	var out []move
	add := func(class class, to cluster, format string, args ...any) {
		out = append(out, move{to: to, class: class, what: fmt.Sprintf(format, args...)})
	}
	waits := false
	if len(c.ops) == 0 {
		ops := r.decide(c)
		waits = len(ops) == 0
		if !waits {
			to := c
			to.ops = ops
			add(doing, to, "the operator sees this, and is to: %v", ops)
		}
	} else {
		to, wrong := r.carryOut(c, c.ops[0])
		to.ops = c.ops[1:]
		out = append(out, move{to: to, class: doing, what: "the operator: " + c.ops[0].String(), wrong: wrong})
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
	before := len(out)
	r.podMoves(c, add)
	if to, n := r.deleteWeb(c); n > 0 {
		wrong := ""
		if !r.turns && !r.dead && !c.gaveUp[0] && !c.gaveUp[1] {
			wrong = wrongVictim(c, to)
		}
		out = append(out, move{to: to, class: progress, what: fmt.Sprintf("the ReplicaSet deletes %d pods", n), wrong: wrong})
	}
	for i, b := range c.nodes {
		if b.phase == dying {
			to, wrong := c, ""
			if b.serving() > 0 {
				wrong = "a node that was being deleted took Ready pods with it"
			}
			to.nodes[i] = box{}
			out = append(out, move{to: to, class: progress, what: nodeName(i) + " is gone", wrong: wrong})
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
		if have < int(c.size[p]) {
			if free >= 0 {
				to := c
				to.nodes[free] = box{phase: present}
				add(boots, to, "a node of %s boots", poolNames[p])
			}
		}
	}
}

// outlook: the policy turns, provider and time tell.
func (r rules) outlook(c cluster, long bool, add func(class, cluster, string, ...any)) {
	if r.turns {
		to := c
		to.target = 1 - c.target
		add(turning, to, "the policy wants %s", poolNames[to.target])
	}
	for p := range 2 {
		if !long {
			break
		}
		have, cordons := 0, 0
		for _, b := range c.nodes[p*maxNodes : (p+1)*maxNodes] {
			if b.phase == present {
				have++
			}
			cordons += int(b.cordoned & 1)
		}
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
}

// podMoves: controllers make and delete pods, the scheduler places them, they
// get Ready.
func (r rules) podMoves(c cluster, add func(class, cluster, string, ...any)) {
	webs, dbs := uint8(0), uint8(0)
	for i, b := range c.nodes {
		dbs += b.db[0] + b.db[1]
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
				add(readiness, to, "a web pod gets Ready on %s", nodeName(i))
			}
		}
		if b.db[0] > 0 {
			to := c
			to.nodes[i].db[0]--
			to.nodes[i].db[1]++
			add(readiness, to, "a db pod gets Ready on %s", nodeName(i))
		}
	}
	for p := range 2 {
		best := -1
		for i := p * maxNodes; i < (p+1)*maxNodes; i++ {
			if c.nodes[i].open() && (best < 0 || c.nodes[i].pods() < c.nodes[best].pods()) {
				best = i
			}
		}
		if best < 0 {
			continue
		}
		if webs < c.web {
			to := c
			to.nodes[best].web[0]++
			add(progress, to, "a web pod is bound to %s", nodeName(best))
		}
		if dbs < r.wanted() {
			to := c
			to.nodes[best].db[0]++
			add(progress, to, "a db pod is bound to %s", nodeName(best))
		}
	}
}

// deleteWeb takes the pods beyond spec.replicas in a ReplicaSet's order: not
// Ready, of lower cost, and Ready for a shorter time: those are on the pool that
// the policy wants.
func (r rules) deleteWeb(c cluster) (to cluster, deleted uint8) {
	webs := uint8(0)
	for _, b := range c.nodes {
		for _, n := range b.web {
			webs += n
		}
	}
	n := max(webs, c.web) - c.web
	deleted = n
	for _, kind := range []int{marked, 0, marked | isReady, isReady} {
		for _, pool := range []int{int(c.target), 1 - int(c.target)} {
			for i := pool * maxNodes; i < (pool+1)*maxNodes; i++ {
				take := min(n, c.nodes[i].web[kind])
				c.nodes[i].web[kind] -= take
				n -= take
			}
		}
	}
	return c, deleted
}

// wrongVictim: a ReplicaSet must not take a Ready pod without a mark for one that is
// to go.
func wrongVictim(from, to cluster) string {
	for i, b := range from.nodes {
		if b.cordoned != 0 || b.web[isReady] == to.nodes[i].web[isReady] {
			continue
		}
		for _, left := range to.nodes {
			if left.cordoned != 0 && left.web != [kinds]uint8{} {
				return "it takes a Ready pod from " + nodeName(i) + ", and leaves one on a cordoned node"
			}
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
		// The provider picks its own victims: the worst ones.
		slices.SortStableFunc(have, func(x, y int) int { return c.nodes[x].pods() - c.nodes[y].pods() })
		for _, i := range have[min(len(have), int(o.arg)):] {
			wrong = cmp.Or(wrong, r.doom(&c, i))
			if r.lingers {
				c.nodes[i].cordoned = 1 // as GKE does
			}
		}
		c.size[pool] = o.arg
		c.late[pool], c.stockout[pool] = false, false
	case opRemove:
		if b.phase == present {
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
		healthy := 0
		for _, n := range c.nodes {
			healthy += int(n.db[1])
		}
		desired := r.pods - int(r.tolerated())
		switch {
		case b.db[0] > 0 && healthy >= desired:
			b.db[0]--
		case b.db[0] == 0 && b.db[1] > 0 && healthy > desired:
			b.db[1]--
		}
	case opGiveUp:
		c.gaveUp[pool] = true
	}
	return c, wrong
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

// violated is the promise that a state breaks; empty if it keeps all.
func (r rules) violated(c cluster) string {
	webs, dbs, open, cordons, all := uint8(0), 0, 0, uint8(0), 0
	shut := false
	for _, b := range c.nodes {
		webs += b.web[isReady] + b.web[isReady|marked]
		dbs += int(b.db[1])
		cordons += b.cordoned
		all += b.pods()
		if b.phase == present && b.cordoned == 0 {
			open += perNode - b.pods()
		}
		shut = shut || b.cordoned != 0 && b.pods() > 0
	}
	switch {
	case webs < r.wanted():
		return fmt.Sprintf("%d web pods are Ready, %d must be", webs, r.wanted())
	case dbs < r.pods-1:
		return fmt.Sprintf("%d db pods are Ready, %d must be while one moves", dbs, r.pods-1)
	case c.web > 2*r.wanted():
		return fmt.Sprintf("%d web pods are asked for, more than twice the %d wanted", c.web, r.wanted())
	case shut && open == 0 && all <= 2*r.pods:
		return "a pod on a cordoned node that crashes finds no other node"
	case r.forbidden && cordons > 0:
		return "nodes are cordoned although the budget allows nothing"
	}
	return ""
}

// atRest: all on one pool, nothing left behind.
func (r rules) atRest(c cluster) bool {
	var on [2]int
	ready := 0
	for i, b := range c.nodes {
		if b.cordoned != 0 || b.phase == dying || b.web[marked] > 0 || b.web[marked|isReady] > 0 {
			return false
		}
		on[poolOf(i)] += b.pods()
		ready += int(b.web[isReady] + b.db[1])
	}
	all := 2 * r.pods
	return c.web == r.wanted() && len(c.ops) == 0 && ready == all && max(on[0], on[1]) == all && len(r.decide(c)) == 0
}
