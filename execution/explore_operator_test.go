package execution

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
)

// What happened in a cycle that no state shows, for an exploration to count.
const (
	budgetWithheld  = "EvictionWaitsForBudget"
	emptyingGivenUp = "emptying a node was given up"
)

// at is what there is to see in a state.
func (r rules) at(key []byte, told bool) (seen sight) {
	c := decode(key)
	var ops []op
	if len(c.ops) == 0 {
		ops, seen.happened = r.decide(c)
	}
	seen.wrong = r.violated(c, len(c.ops)+len(ops) == 0)
	for _, o := range ops {
		if seen.wrong == "" && c.takenAwayBy(o) && c.lag == unproven {
			seen.wrong = "the operator sees this, and is to " + o.String() + ", although pods are not proven to be as they are seen"
		}
	}
	for _, m := range r.moves(c, ops, told) {
		seen.moves = append(seen.moves, step{m.to.appendKey(nil), m.class, m.what, m.wrong})
	}
	seen.rest = r.restOf(c, ops)
	return seen
}

func (r rules) show(key []byte) string { return decode(key).String() }

// decide is a cycle of the loop up to its actions: planned again for the other
// pool when the move is refused.
func (r rules) decide(c cluster) (ops []op, happened []string) {
	s := r.snapshot(c)
	policy := api.Policy{NodePools: poolNames[c.target : c.target+1], ManagedPools: poolNames[:2]}
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
		name := a.Pod.Name[:strings.LastIndex(a.Pod.Name, "-")]
		return op{kind: opEvict, node: node(a.Node), arg: uint8(slices.Index(fixedNames[:], name))}
	}
	panic(a)
}

func (o op) onNode() bool { return o.kind != opResize && o.kind != opScale }

// takenAwayBy reports whether an action takes away what can't be given back: pods that
// serve, or nodes.
func (c cluster) takenAwayBy(o op) bool {
	switch o.kind {
	case opScale:
		return o.arg < c.web
	case opResize:
		return o.arg < c.size[poolOf(int(o.node))]
	case opEvict, opRemove:
		return true
	}
	return false
}

func (o op) String() string {
	names := [...]string{"scale web to", "resize", "remove", "cordon", "uncordon", "mark a pod on", "clear a pod on", "evict", "give up moving from", "evict a pod from"}
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
	if o.arg&noNode != 0 && (o.kind == opMark || o.kind == opClear) {
		return strings.Replace(names[o.kind], " on", " without a node", 1)
	}
	return names[o.kind] + " " + nodeName(int(o.node))
}
