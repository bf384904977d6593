package execution

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// What happened in a cycle that no state shows, for an exploration to count.
const (
	budgetWithheld  = "EvictionWaitsForBudget"
	emptyingGivenUp = "emptying a node was given up"
)

// decide is a cycle of the loop up to its actions: planned again for the other
// pool when the move is refused.
func (r rules) decide(c cluster) (ops []op, happened []string) {
	s := r.snapshot(c)
	policy := api.Policy{NodePools: poolNames[c.target : c.target+1], ManagedPools: poolNames[:]}
	plan := r.planned(c, int(c.target))
	if refusal := preflight(s, plan, policy, r.guards); refusal != nil && refusal.Stay != refusal.Pool {
		plan = r.planned(c, slices.Index(poolNames[:], refusal.Stay))
		plan.Nodes.Refusal = refusal
	}
	actions, findings := sequence(s, plan, policy, r.guards)
	ops = make([]op, 0, len(actions))
	for _, a := range actions {
		o := opOf(a)
		if o.kind == opGiveUp && int(o.arg) == poolOf(int(o.node)) {
			happened = append(happened, emptyingGivenUp)
		}
		ops = append(ops, o)
	}
	for _, f := range findings {
		happened = append(happened, f.Reason)
	}
	return ops, happened
}

// opOf is an action in the words of the model.
func opOf(a api.Action) op {
	node := func(name string) uint8 {
		var p, n uint8
		if _, err := fmt.Sscanf(name, "pool-%d-%d", &p, &n); err != nil {
			panic(err)
		}
		return p*maxNodes + n
	}
	pool := func(name string) uint8 { return uint8(slices.Index(poolNames[:], name)) }
	// A web pod is known by its node and its place there.
	ofPod := func(key api.Key) uint8 {
		var n, serial uint8
		if _, err := fmt.Sscanf(key.Name, "web-%d-%d", &n, &serial); err != nil {
			panic(err)
		}
		return n
	}
	switch a := a.(type) {
	case api.ScaleWorkload:
		return op{kind: opScale, arg: uint8(a.To)}
	case api.ResizePool:
		return op{kind: opResize, node: pool(a.Pool) * maxNodes, arg: uint8(a.To)}
	case api.RemoveNode:
		return op{kind: opRemove, node: node(a.Node)}
	case api.CordonNode:
		return op{kind: opCordon, node: node(a.Node), arg: uint8(slices.Index(cordonReasons[:], a.For))}
	case api.UncordonNode:
		return op{kind: opUncordon, node: node(a.Node)}
	case api.GiveUpMove:
		return op{kind: opGiveUp, node: node(a.Node), arg: pool(a.Pool)}
	case api.SetDeletionCost:
		if a.Clear {
			return op{kind: opClear, node: ofPod(a.Pod)}
		}
		return op{kind: opMark, node: ofPod(a.Pod)}
	case api.EvictPod:
		name, _, _ := cutLast(a.Pod.Name, "-")
		return op{kind: opEvict, node: node(a.Node), arg: uint8(slices.Index(fixedNames[:], name))}
	}
	panic(a)
}

func (o op) onNode() bool { return o.kind != opResize && o.kind != opScale }

func (o op) String() string {
	names := [...]string{"scale web to", "resize", "remove", "cordon", "uncordon", "mark a pod on", "clear a pod on", "evict", "give up moving from"}
	switch o.kind {
	case opScale:
		return fmt.Sprintf("%s %d", names[o.kind], o.arg)
	case opResize:
		return fmt.Sprintf("%s %s to %d", names[o.kind], poolNames[poolOf(int(o.node))], o.arg)
	case opEvict:
		return fmt.Sprintf("%s %s from %s", names[o.kind], fixedNames[o.arg], nodeName(int(o.node)))
	case opGiveUp:
		if int(o.arg) == poolOf(int(o.node)) {
			return "give up emptying " + nodeName(int(o.node))
		}
	}
	return names[o.kind] + " " + nodeName(int(o.node))
}

func flag8(flags ...bool) uint8 {
	out := uint8(0)
	for _, f := range flags {
		out <<= 1
		if f {
			out |= 1
		}
	}
	return out
}

// key is the same for states that differ in the names of equal nodes only.
func (c cluster) key() (cluster, string) {
	c.normalise()
	// Nodes of a pool in order of what is on them, then of who is acted on first.
	first := [2 * maxNodes]uint8{}
	for i := len(c.ops) - 1; i >= 0; i-- {
		if c.ops[i].onNode() {
			first[c.ops[i].node] = uint8(i + 1)
		}
	}
	var at, to [2 * maxNodes]uint8
	var content [2 * maxNodes]uint32
	for i, b := range c.nodes {
		at[i] = uint8(i)
		web := uint32(b.web[0] | b.web[1]<<2 | b.web[2]<<4 | b.web[3]<<6)
		fixed := uint32(b.fixed[0][0] | b.fixed[0][1]<<2 | b.fixed[1][0]<<4 | b.fixed[1][1]<<6)
		content[i] = uint32(flag8(b.kept)<<4|b.phase<<2|b.cordoned)<<16 | web<<8 | fixed
	}
	for p := range 2 {
		slices.SortStableFunc(at[p*maxNodes:(p+1)*maxNodes], func(x, y uint8) int {
			return cmp.Or(cmp.Compare(content[y], content[x]), cmp.Compare(first[x], first[y]))
		})
	}
	out := c
	key := make([]byte, 0, 80)
	for i, from := range at {
		out.nodes[i] = c.nodes[from]
		to[from] = uint8(i)
		if n := content[from]; n != 0 {
			key = append(key, uint8(i), uint8(n>>16), uint8(n>>8), uint8(n))
		}
	}
	key = append(key,
		0xff, out.size[0]|out.size[1]<<4, out.web|out.target<<4|out.stale<<5,
		flag8(out.late[0], out.late[1], out.overdue[0], out.overdue[1], out.gaveUp[0], out.gaveUp[1], out.stockout[0], out.stockout[1]),
		flag8(out.stray[0], out.stray[1], out.denied)<<2|out.pick,
		out.counted[0]|out.counted[1]<<2|out.allowed[0]<<4|out.allowed[1]<<6)
	if len(c.ops) > 0 {
		out.ops = make([]op, len(c.ops))
		for i, o := range c.ops {
			if o.onNode() {
				o.node = to[o.node]
			}
			out.ops[i] = o
			key = append(key, uint8(o.kind)<<4|o.node, o.arg)
		}
	}
	return out, string(key)
}

// normalise forgets what can't be seen any more.
func (c *cluster) normalise() {
	for p := range 2 {
		nodes, cordons := c.inPool(p)
		c.overdue[p] = c.overdue[p] && cordons > 0
		c.gaveUp[p] = c.gaveUp[p] && nodes > 0
		if int(c.size[p]) <= nodes {
			c.late[p], c.stockout[p] = false, false
		}
	}
	if len(c.ops) == 0 {
		c.ops, c.stale = nil, 0
	}
}

// inPool counts the nodes of a pool, and those that mash2 has cordoned.
func (c cluster) inPool(pool int) (nodes, cordons int) {
	for _, b := range c.nodes[pool*maxNodes : (pool+1)*maxNodes] {
		if b.phase != absent {
			nodes++
			if b.ours() {
				cordons++
			}
		}
	}
	return nodes, cordons
}
