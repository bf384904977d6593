package execution_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/api"
)

// The simulated cluster is nondeterministic on purpose: whatever Kubernetes and
// the provider may do next, in any order, happens in a random one. Between any
// two actions the operator may be killed, and what it sees is stale in the way
// caches are: pods, nodes and workloads each from another moment since its last
// write.

const (
	podCPU   = 400
	nodePods = 4 // pods of podCPU that a node holds
)

var shape = &api.PodShape{ID: "s", Requests: api.Resources{MilliCPU: podCPU, Pods: 1}}

type simPod struct {
	api.Pod
	owner *simOwner
}

// simOwner is a ReplicaSet or StatefulSet.
type simOwner struct {
	kind, name string
	workload   api.Key // zero for nobody's
	replicas   int32
	// floor is the least number of Ready pods that must be there from now on.
	floor int32
	// wanted by the plan in force; readyBefore is ratcheted.
	wanted int32
	// most is the maximum of its replicas, and quota what a quota has room for, 0 for
	// none.
	most, quota int32
}

type simNode struct {
	api.Node
	deleting bool
}

type simPool struct {
	name  string
	zones []string
	sizes []int32
	busy  int // events for which an operation is in flight
}

type world struct {
	t      *testing.T
	rng    *rand.Rand
	pods   []*simPod
	nodes  []*simNode
	pools  []*simPool
	owners []*simOwner
	serial int
	log    []string
	// findings of the last sequence.
	findings []api.Finding
	// scaled, if not nil, is told of what is asked for before it is done.
	scaled func(*simOwner, api.ScaleWorkload)
	tells  bool // whether the provider tells which nodes it is deleting
}

func (w *world) logf(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	tail := w.log[max(0, len(w.log)-120):]
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(tail, "\n"))
}

func (w *world) node(name string) *simNode {
	for _, n := range w.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

func (w *world) podsOn(node string) []*simPod {
	var out []*simPod
	for _, p := range w.pods {
		if p.Node == node {
			out = append(out, p)
		}
	}
	return out
}

func (w *world) ready(o *simOwner) int32 {
	var n int32
	for _, p := range w.pods {
		if p.owner == o && p.Ready && !p.Terminating {
			n++
		}
	}
	return n
}

// check holds the promise: never fewer Ready pods than min(Ready before, wanted).
// A StatefulSet can't surge, so it may miss the one that is moving.
func (w *world) check() {
	w.t.Helper()
	for _, o := range w.owners {
		if o.workload == (api.Key{}) {
			continue
		}
		floor := o.floor
		if o.kind == "StatefulSet" {
			floor--
		}
		if have := w.ready(o); have < floor {
			w.fail("%s has %d Ready pods, promised %d", o.name, have, floor)
		}
	}
}

// ratchet raises every promise to what has become Ready, up to wanted. Pods
// beyond the replicas asked for are already on their way out.
func (w *world) ratchet() {
	for _, o := range w.owners {
		o.floor = min(o.wanted, max(o.floor, min(w.ready(o), o.replicas)))
	}
}

// event lets something happen that the cluster may do now.
func (w *world) event() {
	type move func()
	var moves []move
	for _, o := range w.owners {
		var active []*simPod
		for _, p := range w.pods {
			if p.owner == o && !p.Terminating {
				active = append(active, p)
			}
		}
		if n := int32(len(active)); n < o.replicas && o.kind == "ReplicaSet" {
			moves = append(moves, func() { w.create(o, "") })
		} else if n > o.replicas && o.kind == "ReplicaSet" {
			moves = append(moves, func() { w.scaleDown(o, active, int(n-o.replicas)) })
		}
		if o.kind == "StatefulSet" {
			if m := w.stateful(o); m != nil {
				moves = append(moves, m)
			}
		}
	}
	for _, p := range w.pods {
		switch {
		case p.Terminating:
			moves = append(moves, func() { w.pods = slices.DeleteFunc(w.pods, func(q *simPod) bool { return q == p }) })
		case p.Node == "":
			moves = append(moves, func() { w.schedule(p) })
		case !p.Ready && w.node(p.Node).Ready:
			moves = append(moves, func() { p.Ready = true; p.Phase = "Running"; w.logf("  ready %s on %s", p.Key.Name, p.Node) })
		}
	}
	for _, pool := range w.pools {
		for i, zone := range pool.zones {
			var have int32
			for _, n := range w.nodes {
				if n.Pool == pool.name && n.Zone == zone && !n.deleting {
					have++
				}
			}
			if have < pool.sizes[i] {
				moves = append(moves, func() { w.boot(pool, zone) })
			}
		}
		if pool.busy > 0 {
			moves = append(moves, func() { pool.busy-- })
		}
	}
	for _, n := range w.nodes {
		switch {
		case n.deleting:
			moves = append(moves, func() { w.remove(n) })
		case !n.Ready:
			moves = append(moves, func() { n.Ready = true; w.logf("  node %s Ready", n.Name) })
		}
	}
	if len(moves) > 0 {
		moves[w.rng.IntN(len(moves))]()
	}
	w.check()
}

func (w *world) create(o *simOwner, name string) {
	w.serial++
	if name == "" {
		name = fmt.Sprintf("%s-%d", o.name, w.serial)
	}
	w.pods = append(w.pods, &simPod{owner: o, Pod: api.Pod{
		Key: api.Key{Namespace: "shop", Name: name}, UID: fmt.Sprint(w.serial), Shape: shape, Phase: "Pending",
		Workload: o.workload, ControllerKind: o.kind, ControllerName: o.name,
	}})
}

func (w *world) terminate(p *simPod) {
	p.Terminating, p.Ready = true, false
	w.logf("  terminating %s on %s", p.Key.Name, p.Node)
}

// scaleDown deletes in the order of a ReplicaSet's ActivePodsWithRanks, the
// ranks below the deletion cost being random.
func (w *world) scaleDown(o *simOwner, active []*simPod, n int) {
	w.rng.Shuffle(len(active), func(i, j int) { active[i], active[j] = active[j], active[i] })
	rank := func(p *simPod) int {
		switch {
		case p.Node == "":
			return 0
		case p.Phase == "Pending":
			return 1
		case !p.Ready:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(active, func(a, b *simPod) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.DeletionCost, b.DeletionCost))
	})
	for _, p := range active[:n] {
		w.terminate(p)
	}
}

// stateful is the next step of an OrderedReady StatefulSet, nil if none.
func (w *world) stateful(o *simOwner) func() {
	for i := range o.replicas {
		name := fmt.Sprintf("%s-%d", o.name, i)
		j := slices.IndexFunc(w.pods, func(p *simPod) bool { return p.Key.Name == name })
		if j < 0 {
			return func() { w.create(o, name) }
		}
		if !w.pods[j].Ready {
			return nil
		}
	}
	var last *simPod
	for _, p := range w.pods {
		if p.owner == o && (last == nil || p.Key.Name > last.Key.Name) {
			last = p
		}
	}
	if last != nil && last.Key.Name >= fmt.Sprintf("%s-%d", o.name, o.replicas) && !last.Terminating {
		return func() { w.terminate(last) }
	}
	return nil
}

func (w *world) schedule(p *simPod) {
	var fit []*simNode
	for _, n := range w.nodes {
		if n.Ready && !n.Cordoned && len(w.podsOn(n.Name)) < nodePods {
			fit = append(fit, n)
		}
	}
	p.Unschedulable = len(fit) == 0
	if len(fit) > 0 {
		p.Node = fit[w.rng.IntN(len(fit))].Name
	}
}

func (w *world) boot(pool *simPool, zone string) {
	w.serial++
	name := fmt.Sprintf("%s-%s-%d", pool.name, zone, w.serial)
	w.nodes = append(w.nodes, &simNode{Node: api.Node{
		Name: name, Pool: pool.name, Zone: zone, ProviderID: "gce://p/" + zone + "/" + name,
		Labels:      map[string]string{api.LabelNodePool: pool.name},
		Allocatable: api.Resources{MilliCPU: nodePods*podCPU + 100, Pods: 10},
	}})
	slices.SortFunc(w.nodes, func(a, b *simNode) int { return strings.Compare(a.Name, b.Name) })
}

func (w *world) remove(n *simNode) {
	w.logf("  node %s gone", n.Name)
	for _, p := range w.podsOn(n.Name) {
		w.pods = slices.DeleteFunc(w.pods, func(q *simPod) bool { return q == p })
	}
	w.nodes = slices.DeleteFunc(w.nodes, func(m *simNode) bool { return m == n })
}

// doom starts the deletion of a node: from now on it serves nobody.
func (w *world) doom(n *simNode) {
	n.deleting = true
	for _, p := range w.podsOn(n.Name) {
		if !p.Terminating {
			w.logf("  %s dies with node %s", p.Key.Name, n.Name)
			w.terminate(p)
		}
	}
}

// apply carries an action out as the API server or the provider would.
func (w *world) apply(a api.Action) {
	w.logf("%s", a)
	pod := func(key api.Key, uid string) *simPod {
		for _, p := range w.pods {
			if p.Key == key && p.UID == uid {
				return p
			}
		}
		return nil
	}
	switch a := a.(type) {
	case api.ScaleWorkload:
		for _, o := range w.owners {
			if o.workload == a.Workload {
				if w.scaled != nil {
					w.scaled(o, a)
				}
				o.replicas = a.To
			}
		}
	case api.CordonNode:
		if n := w.node(a.Node); n != nil && !n.Cordoned {
			n.Cordoned, n.CordonedFor = true, a.For
		}
	case api.UncordonNode:
		if n := w.node(a.Node); n != nil && n.CordonedFor != "" {
			n.Cordoned, n.CordonedFor = false, ""
		}
	case api.SetDeletionCost:
		if p := pod(a.Pod, a.UID); p != nil {
			p.DeletionCost, p.DeletionCostOurs = a.Cost, !a.Clear
			if a.Clear {
				p.DeletionCost = 0
			}
		}
	case api.EvictPod:
		if p := pod(a.Pod, a.UID); p != nil && w.rng.IntN(3) > 0 {
			w.terminate(p)
		}
	case api.ResizePool:
		w.resize(a)
	case api.RemoveNode:
		n := w.node(a.Node)
		if n == nil || n.deleting {
			return
		}
		for _, pool := range w.pools {
			if pool.name == a.Pool {
				pool.sizes[slices.Index(pool.zones, n.Zone)]--
			}
		}
		w.doom(n)
	}
	w.check()
}

func (w *world) resize(a api.ResizePool) {
	for _, pool := range w.pools {
		if pool.name != a.Pool || pool.busy > 0 {
			continue
		}
		pool.busy = 1 + w.rng.IntN(4)
		for i, zone := range pool.zones {
			pool.sizes[i] = a.To
			var have []*simNode
			for _, n := range w.nodes {
				if n.Pool == pool.name && n.Zone == zone && !n.deleting {
					have = append(have, n)
				}
			}
			// The provider picks its own victims.
			w.rng.Shuffle(len(have), func(i, j int) { have[i], have[j] = have[j], have[i] })
			for _, n := range have[min(int(a.To), len(have)):] {
				w.doom(n)
			}
		}
	}
}

// on is all of so many replicas on a pool; none for no pool.
func on(pool string, replicas int32) []api.PoolShare {
	if pool == "" {
		return nil
	}
	return []api.PoolShare{{Pool: pool, Replicas: replicas}}
}
