package execution

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// The cluster that is explored: an old and a new pool, a Deployment "web" and a
// StatefulSet "db" of the same number of pods that makes them in parallel, pods
// "dns" of nobody's workload under a ReplicaSet, and budgets on the latter two.
// Each node holds two pods; the scheduler takes the emptiest of a pool. Whatever
// may happen next is a move; nothing has a probability, and time is only whether
// something took too long.

const (
	maxNodes = 4 // of a pool
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
	dying // being deleted
)

// Whose cordon a node bears; the reasons are cordonReasons.
const (
	forMigration = iota + 1
	forShrink
	foreign
)

// Pods that can't surge, the index of box.fixed.
const (
	db = iota
	dns
)

// box is a node with what is on it.
type box struct {
	phase, cordoned uint8
	kept            bool // emptying it was given up, not long ago
	web             [kinds]uint8
	fixed           [2][2]uint8 // pods of db and dns: starting, Ready
}

func (b box) pods() int {
	n := 0
	for _, w := range b.web {
		n += int(w)
	}
	for _, f := range b.fixed {
		n += int(f[0] + f[1])
	}
	return n
}

// serving are its Ready pods.
func (b box) serving() int {
	return int(b.web[isReady] + b.web[isReady|marked] + b.fixed[db][1] + b.fixed[dns][1])
}

func (b box) open() bool { return b.phase != absent && b.cordoned == 0 && b.pods() < perNode }

// ours tells whether mash2 cordoned the node.
func (b box) ours() bool { return b.cordoned == forMigration || b.cordoned == forShrink }

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
	opRenew // evict a pod that doesn't get Ready
)

// How the watch of pods is.
const (
	current  = iota
	stalled  // and nobody knows yet
	unproven // the snapshot says so
)

// pictured are the pods that the operator sees on a node.
type pictured struct {
	web   [kinds]uint8
	fixed [2][2]uint8
}

// op is an action of the operator: on a node, or on a pool or the workload.
type op struct {
	kind opKind
	node uint8 // the first maxNodes are of the old pool, the others of the new one
	arg  uint8
}

// cluster is a state. It is a value but for ops, which is never written to.
type cluster struct {
	nodes  [2 * maxNodes]box
	size   [2]uint8
	web    uint8 // spec.replicas; those without a node are pending
	target uint8 // the pool that the policy wants
	pick   uint8 // which node the planner calls surplus: 0 the emptiest; none when it wants them all
	// counted and allowed are the status of the budgets of db and dns: how many pods
	// are healthy, and how many more evictions are allowed.
	counted, allowed [2]uint8
	// What took too long, by pool: a cordon, a resize; and what is not long ago:
	// a move away that was given up, a stockout.
	late, overdue, gaveUp, stockout [2]bool
	// stray is a node of a pool that was asked for, is wanted no more and may come
	// all the same.
	stray [2]bool
	// denied: not long ago the provider didn't let mash2 say which node goes.
	denied bool
	// lag is how far the operator is from seeing pods as they are, and seen what it sees
	// of each node's instead.
	lag  uint8
	seen [2 * maxNodes]pictured
	// ops are left of the operator's last sequence, seen `stale` events ago.
	ops   []op
	stale uint8
}

// rules of an exploration.
type rules struct {
	pods, nodes int // of each workload, of each pool
	dns         int // pods of nobody's workload
	stale       int // events that may happen within a sequence
	// Budgets allow one pod of db and of dns to be away; with loose two, and with
	// forbidden none.
	loose, forbidden bool
	tight            bool // the maximum is what is wanted: a surge may exceed it by one
	stalls           bool // the watch of pods may stall at any time, for any time; pods may cease to be Ready meanwhile
	lags             bool // budgets count pods some time after they get Ready
	turns            bool // the policy may turn round at any time; so may the planner in a pool
	surplus          bool // no switch: the old pool has one node too many
	spare            bool // the new pool has one node too many, from the beginning
	anywhere         bool // pods begin in every arrangement
	kubectl          bool // somebody has cordoned a node of the old pool
	denies           bool // the provider picks the nodes that go itself
	lingers          bool // nodes being deleted are there for a while
	dead             bool // the operator may be dead for so long that anything is overdue
	guards           guards
}

func (r rules) wanted() uint8 { return uint8(r.pods) }

// most is the maximum of replicas.
func (r rules) most() int32 {
	if r.tight {
		return int32(r.pods)
	}
	return 10
}

// total is how many pods of db or dns there are to be.
func (r rules) total(fixed int) int {
	if fixed == dns {
		return r.dns
	}
	return r.pods
}

func (r rules) begins() (keys [][]byte) {
	for _, c := range r.clusters() {
		keys = append(keys, c.appendKey(nil))
	}
	return keys
}

// clusters at rest on the old pool: the policy wants the new one, or a node less.
func (r rules) clusters() []cluster {
	c := cluster{web: r.wanted(), target: 1}
	for which := range c.counted {
		r.count(&c, which, r.total(which))
	}
	c.size[0] = uint8(r.nodes)
	if r.surplus {
		c.target = 0
		c.size[0]++
	}
	for i := range int(c.size[0]) {
		c.nodes[i].phase = present
	}
	if r.spare {
		c.size[1] = uint8(r.nodes) + 1
		for i := range c.size[1] {
			c.nodes[maxNodes+i].phase = present
		}
	}
	var todo []func(*box)
	var kind []int
	for k, put := range []func(*box){
		func(b *box) { b.web[isReady]++ }, func(b *box) { b.fixed[db][1]++ }, func(b *box) { b.fixed[dns][1]++ },
	} {
		for range []int{r.pods, r.pods, r.dns}[k] {
			todo, kind = append(todo, put), append(kind, k)
		}
	}
	var out []cluster
	var place func(c cluster, at, from int)
	place = func(c cluster, at, from int) {
		if at == len(todo) {
			out = append(out, c)
			return
		}
		if at > 0 && kind[at] != kind[at-1] {
			from = 0
		}
		for i := from; i < int(c.size[0]); i++ {
			if c.nodes[i].pods() < perNode {
				to := c
				todo[at](&to.nodes[i])
				place(to, at+1, i)
				if !r.anywhere {
					return
				}
			}
		}
	}
	place(c, 0, 0)
	if !r.kubectl {
		return out
	}
	var cordoned []cluster
	for _, c := range out {
		for i := range int(c.size[0]) {
			to := c
			to.nodes[i].cordoned = foreign
			cordoned = append(cordoned, to)
		}
	}
	return cordoned
}

func poolOf(node int) int { return node / maxNodes }

func nodeName(node int) string { return fmt.Sprintf("pool-%d-%d", poolOf(node), node%maxNodes) }

var poolNames = [...]string{"pool-0", "pool-1", "pool-2"}

var exploreNow = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// age is a time long ago or not.
func age(long bool) time.Time {
	if long {
		return exploreNow.Add(-time.Hour)
	}
	return exploreNow.Add(-2 * Dwell) // the model has no clock: a cordon has always been borne for long enough
}

var (
	webKey        = api.Key{Namespace: "shop", Name: "web"}
	fixedNames    = [2]string{db: "db", dns: "dns"}
	fixedKeys     = [2]api.Key{db: {Namespace: "shop", Name: "db"}} // dns is nobody's workload
	fixedKinds    = [2]string{db: statefulSet, dns: replicaSet}
	fixedBudgets  = [2][]string{db: {"db"}, dns: {"dns"}}
	cordonReasons = [4]string{forMigration: api.CordonMigration, forShrink: api.CordonShrink}
	podShape      = &api.PodShape{ID: "s", Requests: api.Resources{MilliCPU: 1000, Pods: 1}}
	allocation    = api.Resources{MilliCPU: perNode * 1000, Pods: 10}
	poolZones     = []string{"a"}
)

// snapshot is what the operator sees of a cluster.
func (r rules) snapshot(c cluster) api.Snapshot {
	s := api.Snapshot{Time: exploreNow}
	if c.lag == unproven {
		s.Unproven = "the watch of pods fails"
	}
	for p, name := range poolNames[:2] {
		pool := api.Pool{
			Name: name, Zones: poolZones, Sizes: []int32{int32(c.size[p])}, MaxPerZone: int32(max(r.nodes, int(c.size[p]))), Allocatable: allocation,
			ResizedAt: age(c.late[p]), ResizeOnly: c.denied,
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
	fixedPod := func(which, ordinal int, node string, ready bool) *api.Pod {
		p := pod(fmt.Sprintf("%s-%d", fixedNames[which], ordinal), node, ready)
		p.Workload, p.ControllerKind, p.ControllerName = fixedKeys[which], fixedKinds[which], fixedNames[which]
		if r.total(which) > 1 { // of one pod that is not Ready the API evicts none, whatever its budget allows
			p.Budgets = fixedBudgets[which]
		}
		return p
	}
	var placedFixed [2]int
	placed := uint8(0)
	for i, b := range c.nodes {
		p := poolOf(i)
		if c.lag != current {
			b.web, b.fixed = c.seen[i].web, c.seen[i].fixed
		}
		n := api.Node{
			Name: nodeName(i), Pool: poolNames[p], Zone: "a", ProviderID: "gce://p/a/" + nodeName(i),
			Allocatable: allocation, Ready: true, Cordoned: b.cordoned != 0,
		}
		if n.Cordoned {
			n.CordonedFor, n.CordonedAt = cordonReasons[b.cordoned], age(c.overdue[p])
		}
		switch {
		case b.kept:
			n.GaveUp, n.GaveUpAt = poolNames[p], age(false)
		case c.gaveUp[p]:
			n.GaveUp, n.GaveUpAt = poolNames[1-p], age(false)
		}
		if b.phase != absent {
			s.Nodes = append(s.Nodes, n)
		}
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
		for which, counts := range b.fixed {
			for ready, count := range counts {
				for range count {
					fixedPod(which, placedFixed[which], n.Name, ready == 1)
					placedFixed[which]++
				}
			}
		}
	}
	for i := range max(c.web, placed) - placed {
		w := pod(fmt.Sprintf("web-pending-%d", i), "", false)
		w.Phase, w.Workload, w.ControllerKind, w.ControllerName = "Pending", webKey, replicaSet, "web"
	}
	for ; placedFixed[dns] < r.dns; placedFixed[dns]++ {
		fixedPod(dns, placedFixed[dns], "", false).Phase = "Pending"
	}
	for which, name := range fixedNames {
		budget := api.DisruptionBudget{
			Key: api.Key{Namespace: "shop", Name: name}, MaxUnavailable: &api.Amount{Value: r.tolerated()},
			Healthy: int32(c.counted[which]), Desired: int32(r.desired(which)), Allowed: int32(c.allowed[which]),
		}
		s.Budgets = append(s.Budgets, budget)
	}
	for _, w := range []struct {
		key      api.Key
		kind     string
		replicas uint8
	}{{fixedKeys[db], statefulSet, r.wanted()}, {webKey, "Deployment", c.web}} {
		s.Workloads = append(s.Workloads, api.Workload{
			Key: w.key, Target: api.TargetRef{Kind: w.kind}, Mode: api.ModeFull, Replicas: int32(w.replicas), MinReplicas: 1, MaxReplicas: r.most(), Shape: podShape,
		})
	}
	return s
}

// tolerated is how many pods budgets allow to be away.
func (r rules) tolerated() int32 {
	switch {
	case r.forbidden:
		return 0
	case r.loose:
		return 2
	}
	return 1
}

// desired is how many healthy pods a budget wants.
func (r rules) desired(which int) int { return max(0, r.total(which)-int(r.tolerated())) }

// count is what the disruption controller does when a budget's pods have changed.
func (r rules) count(c *cluster, which, healthy int) {
	c.counted[which] = uint8(healthy)
	c.allowed[which] = uint8(max(0, healthy-r.desired(which)))
}

// everyNode is a pick of the planner that calls no node surplus.
const everyNode = 3

// planned is the plan of a planner that knows what is wanted, for one pool.
func (r rules) planned(c cluster, pool int) api.Plan {
	var plan api.Plan
	for _, key := range []api.Key{fixedKeys[db], webKey} {
		plan.Workloads = append(plan.Workloads, api.WorkloadPlan{Key: key, Scale: api.Scale{Replicas: int32(r.pods)}, Pools: []api.PoolShare{{Pool: poolNames[pool], Replicas: int32(r.pods)}}, Reason: "demand"})
	}
	for p, name := range poolNames[:2] {
		pp := api.PoolPlan{Pool: name}
		if p == pool {
			pp.SizePerZone = int32(r.nodes)
			if c.pick == everyNode {
				pp.SizePerZone++
			}
			pp.Nodes = pp.SizePerZone
			if surplus := c.surplus(p); int32(c.size[p]) > pp.SizePerZone && surplus >= 0 {
				pp.Surplus = []string{nodeName(surplus)}
			}
		}
		plan.Nodes.Pools = append(plan.Nodes.Pools, pp)
	}
	return plan
}

// surplus is the node of a pool that the planner picks, cordoned ones first, the
// emptier ones before the others; -1 if there is none.
func (c cluster) surplus(pool int) int {
	var have []int
	for i := pool * maxNodes; i < (pool+1)*maxNodes; i++ {
		if c.nodes[i].phase == present && c.nodes[i].cordoned != foreign {
			have = append(have, i)
		}
	}
	if len(have) == 0 {
		return -1
	}
	slices.SortStableFunc(have, func(x, y int) int {
		return cmp.Or(
			-cmp.Compare(c.nodes[x].cordoned, c.nodes[y].cordoned), cmp.Compare(c.nodes[x].pods(), c.nodes[y].pods()))
	})
	return have[min(int(c.pick), len(have)-1)]
}
