package execution

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// The cluster that is explored: an old and a new pool, a Deployment "web" and a
// StatefulSet "db" of the same number of pods that makes them in parallel, and a
// budget on one of them. Each node holds two pods; the scheduler takes the
// emptiest of a pool. Whatever may happen next is a move; nothing has a
// probability, and time is only whether something took too long.

const (
	maxNodes = 3 // of a pool
	perNode  = 2 // pods
)

// Kinds of a web pod on a node, the index of box.web.
const (
	marked = 1 << iota // bears our deletion cost
	isReady
	kinds = 4
)

// Phases of a node.
const (
	absent = iota
	present
	dying // being deleted: nothing is on it any more
)

// box is a node with what is on it.
type box struct {
	phase, cordoned uint8 // not, for a migration, for a shrink
	web             [kinds]uint8
	db              [2]uint8 // pods of db: starting, Ready
}

func (b box) pods() int {
	n := 0
	for _, w := range b.web {
		n += int(w)
	}
	return n + int(b.db[0]+b.db[1])
}

// serving are its Ready pods.
func (b box) serving() int {
	return int(b.web[isReady] + b.web[isReady|marked] + b.db[1])
}

func (b box) open() bool { return b.phase != absent && b.cordoned == 0 && b.pods() < perNode }

// opKind is a kind of action that is still to be carried out.
type opKind uint8

const (
	opScale opKind = iota
	opResize
	opRemove
	opCordon
	opUncordon
	opMark
	opClear
	opEvict
	opGiveUp
)

// op is an action of the operator: on a node, or on a pool or the workload.
type op struct {
	kind opKind
	node uint8 // nodes 0…2 are of the old pool, 3…5 of the new one
	arg  uint8
}

// cluster is a state. It is a value but for ops, which is never written to.
type cluster struct {
	nodes  [2 * maxNodes]box
	size   [2]uint8
	web    uint8 // spec.replicas; those without a node are pending
	target uint8 // the pool that the policy wants
	// What took too long, by pool: a cordon, a resize; and what is not long ago:
	// a move away that was given up, a stockout.
	late, overdue, gaveUp, stockout [2]bool
	// ops are left of the operator's last sequence, seen `stale` events ago.
	ops   []op
	stale uint8
}

// rules of an exploration.
type rules struct {
	pods, nodes int  // of each workload, of each pool
	stale       int  // events that may happen within a sequence
	turns       bool // the policy may turn round at any time
	surplus     bool // no switch: the old pool has one node too many
	lingers     bool // nodes being deleted are there for a while
	dead        bool // the operator may be dead for so long that anything is overdue
	forbidden   bool // the budget allows no disruption at all
	guards      guards
}

func (r rules) wanted() uint8 { return uint8(r.pods) }

// begin is a cluster at rest on the old pool, and the policy wants the new one.
func (r rules) begin() cluster {
	c := cluster{web: r.wanted(), target: 1}
	c.size[0] = uint8(r.nodes)
	at := 0
	place := func(put func(*box)) {
		for c.nodes[at].pods() == perNode {
			at++
		}
		put(&c.nodes[at])
	}
	for range r.pods {
		place(func(b *box) { b.web[isReady]++ })
	}
	for range r.pods {
		place(func(b *box) { b.db[1]++ })
	}
	if r.surplus {
		c.target = 0
		c.size[0]++
		c.nodes[r.nodes].web[isReady]++
		c.nodes[0].web[isReady]--
	}
	for i := range int(c.size[0]) {
		c.nodes[i].phase = present
	}
	return c
}

func poolOf(node int) int { return node / maxNodes }

func nodeName(node int) string { return fmt.Sprintf("pool-%d-%d", poolOf(node), node%maxNodes) }

var poolNames = [2]string{"pool-0", "pool-1"}

var exploreNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// age is a time long ago or not.
func age(long bool) time.Time {
	if long {
		return exploreNow.Add(-time.Hour)
	}
	return exploreNow.Add(-time.Second)
}

var (
	webKey        = api.Key{Namespace: "shop", Name: "web"}
	dbKey         = api.Key{Namespace: "shop", Name: "db"}
	cordonReasons = [3]string{"", api.CordonMigration, api.CordonShrink}
	podShape      = &api.PodShape{ID: "s", Requests: api.Resources{MilliCPU: 1000, Pods: 1}}
	allocation    = api.Resources{MilliCPU: perNode * 1000, Pods: 10}
	poolZones     = []string{"a"}
	dbBudget      = []string{"db"}
)

// snapshot is what the operator sees of a cluster.
func (r rules) snapshot(c cluster) api.Snapshot {
	s := api.Snapshot{Time: exploreNow}
	for p, name := range poolNames {
		pool := api.Pool{
			Name: name, Zones: poolZones, Sizes: []int32{int32(c.size[p])}, MaxPerZone: int32(max(r.nodes, int(c.size[p]))), Allocatable: allocation,
			ResizedAt: age(c.late[p]),
		}
		if c.stockout[p] {
			pool.Error = &api.PoolError{Kind: api.PoolStockout, At: age(false)}
		}
		for i := range c.nodes {
			if poolOf(i) == p && c.nodes[i].phase == dying {
				pool.Deleting = append(pool.Deleting, nodeName(i))
			}
		}
		s.Pools = append(s.Pools, pool)
	}
	pod := func(name string, node string, ready bool) *api.Pod {
		s.Pods = append(s.Pods, api.Pod{
			Key: api.Key{Namespace: "shop", Name: name}, UID: name, Shape: podShape, Node: node, Phase: "Running", Ready: ready,
		})
		return &s.Pods[len(s.Pods)-1]
	}
	healthy, ordinal := int32(0), 0
	placed := uint8(0)
	for i, b := range c.nodes {
		if b.phase == absent {
			continue
		}
		p := poolOf(i)
		n := api.Node{
			Name: nodeName(i), Pool: poolNames[p], Zone: "a", ProviderID: "gce://p/a/" + nodeName(i),
			Allocatable: allocation, Ready: true, Cordoned: b.cordoned != 0,
		}
		if n.Cordoned {
			n.CordonedFor, n.CordonedAt = cordonReasons[b.cordoned], age(c.overdue[p])
		}
		if c.gaveUp[p] {
			n.GaveUp, n.GaveUpAt = poolNames[1-p], age(false)
		}
		s.Nodes = append(s.Nodes, n)
		serial := 0
		for kind, count := range b.web {
			placed += count
			for range count {
				w := pod(fmt.Sprintf("web-%d-%d", i, serial), n.Name, kind&isReady != 0)
				w.Workload, w.ControllerKind, w.ControllerName = webKey, replicaSet, "web"
				if kind&marked != 0 {
					w.DeletionCost, w.DeletionCostOurs = deletionCost, true
				}
				serial++
			}
		}
		for ready, count := range b.db {
			for range count {
				d := pod(fmt.Sprintf("db-%d", ordinal), n.Name, ready == 1)
				d.Workload, d.ControllerKind, d.ControllerName, d.Budgets = dbKey, statefulSet, "db", dbBudget
				healthy += int32(ready)
				ordinal++
			}
		}
	}
	for i := range max(c.web, placed) - placed {
		w := pod(fmt.Sprintf("web-pending-%d", i), "", false)
		w.Phase, w.Workload, w.ControllerKind, w.ControllerName = "Pending", webKey, replicaSet, "web"
	}
	budget := api.DisruptionBudget{
		Key: api.Key{Namespace: "shop", Name: "db"}, MaxUnavailable: &api.Amount{Value: r.tolerated()},
		Healthy: healthy, Desired: int32(r.pods) - r.tolerated(),
	}
	budget.Allowed = max(0, budget.Healthy-budget.Desired)
	s.Budgets = []api.DisruptionBudget{budget}
	for _, w := range []struct {
		key      api.Key
		replicas uint8
	}{{dbKey, r.wanted()}, {webKey, c.web}} {
		s.Workloads = append(s.Workloads, api.Workload{
			Key: w.key, Mode: api.ModeFull, Replicas: int32(w.replicas), MinReplicas: 1, MaxReplicas: 10, Shape: podShape,
		})
	}
	return s
}

// tolerated is what the budget allows: more than one, so that it isn't the
// budget that keeps evictions apart.
func (r rules) tolerated() int32 {
	if r.forbidden {
		return 0
	}
	return 2
}

// planned is the plan of a planner that knows what is wanted, for one pool.
func (r rules) planned(c cluster, pool int) api.Plan {
	plan := api.Plan{Nodes: api.NodePlan{Pool: poolNames[pool]}}
	for _, key := range []api.Key{dbKey, webKey} {
		plan.Workloads = append(plan.Workloads, api.WorkloadPlan{Key: key, Replicas: int32(r.pods), Reason: "demand"})
	}
	for p, name := range poolNames {
		pp := api.PoolPlan{Pool: name}
		if p == pool {
			pp.SizePerZone, pp.Nodes = int32(r.nodes), int32(r.nodes)
			if least := c.emptiest(p); int(c.size[p]) > r.nodes && least >= 0 {
				pp.Surplus = []string{nodeName(least)}
			}
		}
		plan.Nodes.Pools = append(plan.Nodes.Pools, pp)
	}
	return plan
}

// emptiest node of a pool, cordoned ones first; -1 if it has none.
func (c cluster) emptiest(pool int) int {
	best := -1
	for i := pool * maxNodes; i < (pool+1)*maxNodes; i++ {
		b := c.nodes[i]
		if b.phase == present && (best < 0 || b.cordoned > c.nodes[best].cordoned ||
			b.cordoned == c.nodes[best].cordoned && b.pods() < c.nodes[best].pods()) {
			best = i
		}
	}
	return best
}

// decide is a cycle of the loop up to its actions: planned again for the other
// pool when the move is refused.
func (r rules) decide(c cluster) []op {
	s := r.snapshot(c)
	policy := api.Policy{NodePools: poolNames[c.target : c.target+1], ManagedPools: poolNames[:]}
	plan := r.planned(c, int(c.target))
	if refusal := preflight(s, plan, policy, r.guards); refusal != nil && refusal.Stay != refusal.Pool {
		plan = r.planned(c, slices.Index(poolNames[:], refusal.Stay))
		plan.Nodes.Refusal = refusal
	}
	actions, _ := sequence(s, plan, policy, r.guards)
	out := make([]op, 0, len(actions))
	for _, a := range actions {
		out = append(out, opOf(a))
	}
	return out
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
		return op{kind: opResize, node: uint8(slices.Index(poolNames[:], a.Pool)) * maxNodes, arg: uint8(a.To)}
	case api.RemoveNode:
		return op{kind: opRemove, node: node(a.Node)}
	case api.CordonNode:
		return op{kind: opCordon, node: node(a.Node), arg: uint8(slices.Index(cordonReasons[:], a.For))}
	case api.UncordonNode:
		return op{kind: opUncordon, node: node(a.Node)}
	case api.GiveUpMove:
		return op{kind: opGiveUp, node: node(a.Node)}
	case api.SetDeletionCost:
		if a.Clear {
			return op{kind: opClear, node: ofPod(a.Pod)}
		}
		return op{kind: opMark, node: ofPod(a.Pod)}
	case api.EvictPod:
		return op{kind: opEvict, node: node(a.Node)}
	}
	panic(a)
}

func (o op) String() string {
	names := [...]string{"scale web to", "resize", "remove", "cordon", "uncordon", "mark a pod on", "clear a pod on", "evict db from", "give up moving from"}
	switch o.kind {
	case opScale:
		return fmt.Sprintf("%s %d", names[o.kind], o.arg)
	case opResize:
		return fmt.Sprintf("%s %s to %d", names[o.kind], poolNames[poolOf(int(o.node))], o.arg)
	}
	return names[o.kind] + " " + nodeName(int(o.node))
}

// key is the same for states that differ in the names of equal nodes only.
func (c cluster) key() (cluster, string) {
	c.normalise()
	// Nodes of a pool in order of what is on them, then of who is acted on first.
	first := [2 * maxNodes]uint8{}
	for i := len(c.ops) - 1; i >= 0; i-- {
		first[c.ops[i].node] = uint8(i + 1)
	}
	var at, to [2 * maxNodes]uint8
	for i := range at {
		at[i] = uint8(i)
	}
	content := func(i uint8) uint64 {
		b := c.nodes[i]
		out := uint64(b.phase)<<2 | uint64(b.cordoned)
		for _, w := range b.web {
			out = out<<4 | uint64(w)
		}
		return (out<<4|uint64(b.db[0]))<<4 | uint64(b.db[1])
	}
	for p := range 2 {
		slices.SortStableFunc(at[p*maxNodes:(p+1)*maxNodes], func(x, y uint8) int {
			return cmp.Or(cmp.Compare(content(y), content(x)), cmp.Compare(first[x], first[y]))
		})
	}
	out := c
	for i, from := range at {
		out.nodes[i] = c.nodes[from]
		to[from] = uint8(i)
	}
	key := make([]byte, 0, 80)
	for i := range out.nodes {
		b := &out.nodes[i]
		key = append(key, b.phase<<2|b.cordoned, b.web[0]|b.web[1]<<2|b.web[2]<<4|b.web[3]<<6, b.db[0]|b.db[1]<<4)
	}
	flags := out.target
	for p := range 2 {
		for _, f := range []bool{out.late[p], out.overdue[p], out.gaveUp[p], out.stockout[p]} {
			flags <<= 1
			if f {
				flags |= 1
			}
		}
	}
	key = append(key, out.size[0]|out.size[1]<<2, out.web|out.target<<4|out.stale<<5, flags)
	if len(c.ops) > 0 {
		out.ops = make([]op, len(c.ops))
		for i, o := range c.ops {
			if o.kind != opResize && o.kind != opScale {
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
		nodes, cordons := 0, 0
		for _, b := range c.nodes[p*maxNodes : (p+1)*maxNodes] {
			if b.phase != absent {
				nodes++
				cordons += int(b.cordoned & 1)
			}
		}
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
