package execution

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
)

// at is what there is to see in a state.
func (r splitRules) at(key []byte, told bool) (seen sight) {
	c := decodeSplit(key)
	var ops []op
	var to uint8
	if len(c.ops) == 0 {
		ops, to, seen.happened = r.decide(c)
	}
	if most := 2 * r.most(); c.web > most {
		seen.wrong = fmt.Sprintf("%d web pods are asked for, more than twice the %d wanted", c.web, r.most())
	}
	seen.moves = r.moves(c, ops, to, told)
	seen.rest = r.restOf(c, ops, to)
	return seen
}

// decide is a cycle of the loop up to its actions, planned again for where pods are when the
// move is refused; to is the pool that the status is to say, plus one.
func (r splitRules) decide(c split) (ops []op, to uint8, happened []string) {
	s, w := r.snapshot(c), r.wishes[c.wish]
	policy := api.Policy{NodePools: []string{poolNames[w.base]}, ManagedPools: poolNames[:], Spot: &api.Spot{MaxShare: 1, Floor: r.floor}}
	if w.spot {
		policy.NodePools = append(policy.NodePools, poolNames[spotPool])
	}
	if r.mixed && w.base != 0 {
		policy.NodePools = append(policy.NodePools, poolNames[0])
	}
	plan := r.planned(c, w)
	if refusal := preflight(s, plan, policy, r.guards); refusal != nil && refusal.Stay != "" && refusal.Stay != refusal.Pool {
		plan = r.planned(c, r.stays(c, w, refusal.Stay, plan.PoolsInUse()))
		plan.Nodes.Refusal = refusal
	}
	actions, findings := sequence(s, plan, policy, r.guards)
	for _, a := range actions {
		ops = append(ops, opOfSplit(a))
	}
	for _, f := range findings {
		happened = append(happened, f.Reason)
	}
	return ops, uint8(slices.Index(poolNames[:], plan.PlacedOn(plan.Workloads[0])) + 1), happened
}

// gaveUpBits tells an argument that are pools as bits from one that is a pool.
const gaveUpBits = 1 << spotPools

// noNode is a flag in an argument that is the kind of a pod without a node.
const noNode = 1 << 7

// opOfSplit is an action in the words of the model: of a pod by its node and kind, of giving
// up with all pools that were moved to.
func opOfSplit(a api.Action) op {
	ofPod := func(kind opKind, key api.Key) op {
		var n, serial uint8
		if _, err := fmt.Sscanf(key.Name, "web-pending-%d-%d", &n, &serial); err == nil {
			return op{kind: kind, arg: n | noNode}
		}
		if _, err := fmt.Sscanf(key.Name, "web-%d-%d", &n, &serial); err != nil {
			panic(err)
		}
		return op{kind: kind, node: n, arg: serial / 10}
	}
	switch a := a.(type) {
	case api.SetDeletionCost:
		if a.Clear {
			return ofPod(opClear, a.Pod)
		}
		return ofPod(opMark, a.Pod)
	case api.EvictPod:
		return ofPod(opRenew, a.Pod)
	case api.GiveUpMove:
		to := uint8(gaveUpBits)
		for p, name := range poolNames {
			if slices.Contains(strings.Split(a.Pool, " + "), name) {
				to |= 1 << p
			}
		}
		o := opOf(api.GiveUpMove{Node: a.Node, Pool: poolNames[0]})
		o.arg = to
		return o
	}
	return opOf(a)
}

// most and least are of the replicas that may be wanted.
func (r splitRules) most() uint8 {
	n := r.begin.replicas
	for _, w := range r.wishes {
		n = max(n, w.replicas)
	}
	return n
}

func (r splitRules) least() uint8 {
	n := r.wishes[0].replicas
	for _, w := range r.wishes {
		n = min(n, w.replicas)
	}
	return n
}

// moves are all that may happen next.
func (r splitRules) moves(c split, ops []op, says uint8, told bool) (out []step) {
	add := func(class class, to split, format string, args ...any) *step {
		m := step{to: r.key(to), class: class}
		if told {
			m.what = fmt.Sprintf(format, args...)
		}
		out = append(out, m)
		return &out[len(out)-1]
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
		add(doing, to, "the operator: %v", c.ops[0]).wrong = wrong
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
	r.deletions(c, add)
	if len(c.ops) == 0 && says != c.placed {
		to := c
		to.placed, to.since = says, lately
		name := "none"
		if says > 0 {
			name = poolNames[says-1]
		}
		add(progress, to, "the status says that new pods prefer %s", name)
	}
	soon := waits && !slices.ContainsFunc(out[before:], func(m step) bool { return m.class == progress })
	r.poolMoves(c, add)
	if len(c.ops) == 0 {
		r.outlook(c, soon, add)
	}
	return out
}

// podMoves: the scheduler places pods, and they get Ready.
func (r splitRules) podMoves(c split, add func(class, split, string, ...any) *step) {
	for i, m := range c.nodes {
		if slices.Contains(c.nodes[poolOf(i)*maxNodes:i], m) {
			continue
		}
		for kind, n := range m.web {
			if n > 0 && kind&isReady == 0 {
				to := c
				to.nodes[i].web[kind]--
				to.nodes[i].web[kind|isReady]++
				class := ready0
				if poolOf(i) == spotPool {
					class = ready1
				}
				add(class, to, "a web pod gets Ready on %s", name(i))
			}
		}
	}
	// The emptiest node of each pool.
	best := [spotPools]int{-1, -1, -1}
	for i := range c.nodes {
		p := poolOf(i)
		if r.open(c, i) && (best[p] < 0 || c.nodes[i].pods() < c.nodes[best[p]].pods()) {
			best[p] = i
		}
	}
	preferred := int(c.placed) - 1
	for p, i := range best {
		class := progress
		if preferred >= 0 && p != preferred && best[preferred] >= 0 {
			if class = fault; !r.wayward && c.since != lately {
				continue
			}
		}
		for kind, n := range c.pending {
			if i >= 0 && n > 0 {
				to := c
				to.pending[kind]--
				to.nodes[i].web[kind|young]++
				add(class, to, "a web pod is bound to %s", name(i))
			}
		}
	}
}

// deletions: a ReplicaSet deletes the pods beyond spec.replicas, those that are not Ready
// first, then those of lower cost; of equal ones any.
func (r splitRules) deletions(c split, add func(class, split, string, ...any) *step) {
	if c.pods() <= c.web {
		return
	}
	for _, kind := range []int{marked, 0} {
		if c.pending[kind] > 0 {
			c.pending[kind]--
			add(progress, c, "the ReplicaSet deletes a pod without a node")
			return
		}
	}
	serving, steady := 0, c.steady()
	for _, m := range c.nodes {
		serving += m.serving()
	}
	for _, kind := range []int{marked, 0, marked | isReady, isReady} {
		found := false
		for i, m := range c.nodes {
			if slices.Contains(c.nodes[poolOf(i)*maxNodes:i], m) {
				continue
			}
			for _, kind := range []int{kind, kind | young} {
				if m.web[kind] == 0 {
					continue
				}
				found = true
				to := c
				to.nodes[i].web[kind]--
				step := add(progress, to, "the ReplicaSet deletes a pod on %s", name(i))
				switch {
				case kind&isReady == 0:
				case serving <= int(r.least()):
					step.wrong = fmt.Sprintf("%d web pods are left Ready, %d must be", serving-1, r.least())
				case poolOf(i) < steadyPools && steady <= int(r.floor) && c.reached:
					step.wrong = fmt.Sprintf("%d web pods are left Ready off spot machines, the floor is %d", steady-1, r.floor)
				}
			}
		}
		if found {
			return
		}
	}
}

// poolMoves: nodes come, and spot machines are taken away.
func (r splitRules) poolMoves(c split, add func(class, split, string, ...any) *step) {
	for p := range spotPools {
		have, free := 0, -1
		for i := p * maxNodes; i < (p+1)*maxNodes; i++ {
			m := c.nodes[i]
			if m.phase == absent {
				free = i
				continue
			}
			have++
			if p == spotPool && !r.calm && !slices.Contains(c.nodes[p*maxNodes:i], m) {
				to := c
				to.nodes[i] = machine{}
				add(fault, to, "%s is taken away", name(i))
			}
		}
		if have < int(c.size[p]) && free >= 0 {
			to := c
			to.nodes[free] = machine{phase: present}
			add(boots, to, "a node of %s boots", poolNames[p])
		}
	}
}

// outlook: the planner wants something else, and time tells.
func (r splitRules) outlook(c split, long bool, add func(class, split, string, ...any) *step) {
	if r.turns {
		to := c
		to.wish = (c.wish + 1) % uint8(len(r.wishes))
		add(turning, to, "the planner wants %v", r.wishes[to.wish])
	}
	if c.placed > 0 && c.since == lately {
		to := c
		to.since = trying
		add(passing, to, "new pods go to %s", poolNames[c.placed-1])
	}
	if !long {
		return
	}
	if c.placed > 0 && c.since != lately {
		to := c
		to.since = trying + waiting - c.since
		add(passing, to, "where new pods go has been known for long")
	}
	old := c
	for i := range old.nodes {
		m := &old.nodes[i]
		for kind := range kinds {
			m.web[kind] += m.web[kind|young]
			m.web[kind|young] = 0
		}
	}
	if old.nodes != c.nodes {
		add(passing, old, "all pods were made long ago")
	}
	for p := range spotPools {
		if slices.ContainsFunc(c.nodes[p*maxNodes:(p+1)*maxNodes], machine.ours) && !c.overdue[p] {
			to := c
			to.overdue[p] = true
			add(passing, to, "the move from %s is overdue", poolNames[p])
		}
		if c.gaveUp[p] != 0 {
			to := c
			to.gaveUp[p] = 0
			add(passing, to, "giving up the move from %s was long ago", poolNames[p])
		}
	}
}

// carryOut is what an action does by now, and what is wrong with it.
func (r splitRules) carryOut(c split, o op) (to split, wrong string) {
	m, pool := &c.nodes[o.node], poolOf(int(o.node))
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
		slices.SortStableFunc(have, func(x, y int) int { return c.nodes[x].pods() - c.nodes[y].pods() })
		for _, i := range have[min(len(have), int(o.arg)):] {
			if c.nodes[i].serving() > 0 {
				wrong = "Ready pods died with " + nodeName(i)
			}
			c.nodes[i] = machine{}
		}
		c.size[pool] = o.arg
	case opRemove:
		if m.phase == present {
			if m.serving() > 0 {
				wrong = "Ready pods died with " + nodeName(int(o.node))
			}
			c.size[pool]--
			*m = machine{}
		}
	case opCordon:
		if m.phase != absent {
			m.cordoned = o.arg
		}
	case opUncordon:
		m.cordoned = 0
	case opMark, opClear:
		from, to := int(o.arg)&^marked, int(o.arg)|marked
		if o.kind == opClear {
			from, to = to, from
		}
		if o.arg&noNode != 0 {
			if from, to = from&marked, to&marked; c.pending[from] > 0 {
				c.pending[from]--
				c.pending[to]++
			}
			break
		}
		for _, ready := range []int{0, isReady} { // it may have got Ready since
			if m.web[from|ready] > 0 {
				m.web[from|ready]--
				m.web[to|ready]++
				break
			}
		}
	case opRenew:
		// Its cost may have been set or taken back by an action before this one, and in an
		// event since it may have got Ready: it is evicted all the same.
		kind := int(o.arg)
		same := []int{kind, kind ^ marked, kind | isReady, kind ^ marked | isReady}
		if c.stale == 0 {
			same = same[:2]
		}
		for _, kind := range same {
			if m.web[kind] > 0 {
				m.web[kind]--
				break
			}
		}
	case opGiveUp:
		if m.phase != absent {
			c.gaveUp[pool] = o.arg &^ gaveUpBits
		}
	}
	return c, wrong
}

// restOf a state in which the operator has this to do, and the status is to say that.
func (r splitRules) restOf(c split, ops []op, says uint8) rest {
	w := r.wishes[c.wish]
	if len(c.ops) > 0 || len(ops) > 0 || c.web != w.replicas || c.pods() != c.web {
		return restless
	}
	ready, onBase, elsewhere, marks := uint8(0), uint8(0), uint8(0), uint8(0)
	for i, m := range c.nodes {
		for kind, n := range m.web {
			if kind&marked != 0 {
				marks += n
			}
		}
		if m.ours() {
			return restless
		}
		ready += uint8(m.serving())
		switch p := poolOf(i); {
		case p == w.base:
			onBase += uint8(m.serving())
		case p != spotPool || !w.spot:
			elsewhere += uint8(m.pods())
		}
	}
	if says != c.placed || marks > 0 || ready < w.replicas || onBase < w.off || elsewhere > 0 {
		return settled
	}
	return resting
}

func (r splitRules) show(key []byte) string {
	c := decodeSplit(key)
	var out strings.Builder
	status := "nothing"
	if c.placed > 0 {
		status = poolNames[c.placed-1] + [...]string{lately: ", since a moment", trying: "", waiting: ", for long"}[c.since]
	}
	fmt.Fprintf(&out, "web %d replicas, %d without a node and %d of these marked; the planner wants %v; the status says %s; sizes %v, overdue %v, gave up %v; to do %v\n",
		c.web, c.pending[0]+c.pending[marked], c.pending[marked], r.wishes[c.wish], status, c.size, c.overdue, c.gaveUp, c.ops)
	for i, m := range c.nodes {
		if m.phase == absent {
			continue
		}
		var flags []string
		if m.cordoned > 0 {
			flags = append(flags, "cordoned")
		}
		for kind, n := range m.web {
			if n == 0 {
				continue
			}
			what := fmt.Sprintf("%d web starting", n)
			if kind&isReady != 0 {
				what = fmt.Sprintf("%d web Ready", n)
			}
			if kind&marked != 0 {
				what += ", marked"
			}
			if kind&young != 0 {
				what += ", young"
			}
			flags = append(flags, what)
		}
		fmt.Fprintf(&out, "  %s: %s\n", nodeName(i), cmp.Or(strings.Join(flags, "; "), "empty"))
	}
	return out.String()
}

func (w wish) String() string {
	if !w.spot {
		return fmt.Sprintf("%d on %s", w.replicas, poolNames[w.base])
	}
	return fmt.Sprintf("%d on %s and %d on %s", w.off, poolNames[w.base], w.replicas-w.off, poolNames[spotPool])
}
