package execution

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
)

// The second cluster that is explored: a Deployment "web" with replicas on and off
// spot machines. Pool 0 and pool 1 are of machines that stay, either may be its base;
// those of pool 2 may be taken away at any time. New pods go to the pool that the
// status says, if it has room, and may go elsewhere all the same.

const (
	steadyPools = 2
	spotPool    = steadyPools
	spotPools   = steadyPools + 1
)

// young is a kind of pod beside marked and isReady: made not long ago.
const young = 4

// machine is a node with what is on it.
type machine struct {
	phase, cordoned uint8
	web             [2 * kinds]uint8
}

func (m machine) pods() int {
	n := 0
	for _, w := range m.web {
		n += int(w)
	}
	return n
}

func (m machine) serving() int {
	return int(m.web[isReady] + m.web[isReady|marked] + m.web[isReady|young] + m.web[isReady|marked|young])
}

// How long ago it is that the status said where new pods go.
const (
	lately  = iota // they may not go there yet
	trying         // pods elsewhere are moved
	waiting        // that took too long, and is tried again later
)

// split is a state. It is a value but for ops, which is never written to.
type split struct {
	nodes [spotPools * maxNodes]machine
	size  [spotPools]uint8
	web   uint8 // spec.replicas
	// pending pods have no node, those marked apart. They are made at once.
	pending [2]uint8
	wish    uint8 // what the planner wants, of splitRules.wishes
	// placed is the pool that new pods go to by the status, plus one; since when, as above.
	placed, since uint8
	// overdue: the cordons of a pool are borne for too long. gaveUp are, as bits, the pools to
	// which a move away from it was given up not long ago.
	overdue [spotPools]bool
	gaveUp  [spotPools]uint8
	// reached: as many as the floor were Ready off spot machines, and none of them about to go.
	reached bool
	ops     []op
	stale   uint8
}

// pods of web that there are.
func (c split) pods() uint8 {
	n := c.pending[0] + c.pending[marked]
	for _, m := range c.nodes {
		n += uint8(m.pods())
	}
	return n
}

// steady are the Ready pods off spot machines.
func (c split) steady() int {
	n := 0
	for _, m := range c.nodes[:steadyPools*maxNodes] {
		n += m.serving()
	}
	return n
}

// lasting are those of them that bear no cost.
func (c split) lasting() int {
	n := 0
	for _, m := range c.nodes[:steadyPools*maxNodes] {
		n += int(m.web[isReady] + m.web[isReady|young])
	}
	return n
}

// wish is where the planner wants web: so many replicas, and so many of them on its base. The
// others are on spot machines; nothing says so where all are on the base.
type wish struct {
	base          int
	replicas, off uint8
	spot          bool
}

// splitRules are those of an exploration.
type splitRules struct {
	// wishes are what the planner may want, the first one at first; begin is what it wanted
	// before.
	wishes   []wish
	begin    wish
	floor    int32
	nodes    int  // of each pool
	stale    int  // events that may happen within a sequence
	turns    bool // the planner may want something else at any time
	mixed    bool // there is another workload on pool 0, which stays there
	wayward  bool // pods may go elsewhere although the pool that they prefer has room
	anywhere bool // pods begin in every arrangement
	// prompt: a ReplicaSet deletes pods without a node before anything else happens.
	prompt bool
	calm   bool // no machine is taken away
	guards guards
}

func (r splitRules) begins() (keys [][]byte) {
	c := split{web: r.begin.replicas, since: trying}
	use := func(w wish) {
		c.size[w.base] = uint8(r.nodes)
		if w.spot {
			c.size[spotPool] = uint8(r.nodes)
		}
	}
	use(r.begin)
	if r.mixed {
		c.size[0] = uint8(r.nodes)
	}
	if r.anywhere {
		use(r.wishes[0])
	}
	for p, size := range c.size {
		for i := range int(size) {
			c.nodes[p*maxNodes+i].phase = present
		}
	}
	finish := func(c split) {
		if r.begin.spot {
			c.placed = uint8(r.prefers(c, r.begin)) + 1
		}
		keys = append(keys, r.key(c))
	}
	var place func(c split, left, from int)
	place = func(c split, left, from int) {
		if left == 0 {
			finish(c)
			return
		}
		for i := from; i < len(c.nodes); i++ {
			if r.open(c, i) {
				to := c
				to.nodes[i].web[isReady]++
				place(to, left-1, i)
			}
		}
	}
	if r.anywhere {
		place(c, int(c.web), 0)
		return keys
	}
	put := func(n uint8, pool int) {
		for i := pool * maxNodes; n > 0; {
			if !r.open(c, i) {
				i++
				continue
			}
			c.nodes[i].web[isReady]++
			n--
		}
	}
	put(r.begin.off, r.begin.base)
	put(r.begin.replicas-r.begin.off, spotPool)
	finish(c)
	return keys
}

// open reports whether a node takes another pod: one place is the other workload's.
func (r splitRules) open(c split, node int) bool {
	n := c.nodes[node]
	have := n.pods()
	if r.mixed && node == 0 {
		have++
	}
	return n.phase == present && n.cordoned == 0 && have < perNode
}

// onBase is how many pods count as off spot machines for where new ones go: where pools are
// mixed only those of the base do.
func (r splitRules) onBase(c split, base int) (count uint8) {
	for i, n := range c.nodes {
		if p := poolOf(i); p < steadyPools && !n.ours() && (p == base || !r.mixed) {
			count += uint8(n.pods())
		}
	}
	return count
}

func (m machine) ours() bool { return m.cordoned == forMigration || m.cordoned == forShrink }

// prefers is the pool that new pods are to go to.
func (r splitRules) prefers(c split, w wish) int {
	if r.onBase(c, w.base) < w.off {
		return w.base
	}
	return spotPool
}

var apiKey = api.Key{Namespace: "shop", Name: "api"}

// podYoung is how long ago young pods were made: not long for anything. Those that are not
// have had longer than a move.
const podYoung = 2 * time.Minute

// snapshot is what the operator sees of a cluster.
func (r splitRules) snapshot(c split) api.Snapshot {
	s := api.Snapshot{Time: exploreNow}
	for p, name := range poolNames {
		s.Pools = append(s.Pools, api.Pool{
			Name: name, Zones: poolZones, Sizes: []int32{int32(c.size[p])}, MaxPerZone: int32(r.nodes), Allocatable: allocation, Spot: p == spotPool,
		})
	}
	pod := func(key api.Key, name, node string, ready bool, created time.Duration) *api.Pod {
		s.Pods = append(s.Pods, api.Pod{
			Key: api.Key{Namespace: "shop", Name: name}, UID: name, Shape: podShape, Node: node, Phase: "Running", Ready: ready,
			Workload: key, ControllerKind: replicaSet, ControllerName: key.Name, Created: exploreNow.Add(-created),
		})
		return &s.Pods[len(s.Pods)-1]
	}
	if r.mixed {
		pod(apiKey, "api-0", nodeName(0), true, time.Hour)
	}
	for i, m := range c.nodes {
		if m.phase == absent {
			continue
		}
		p := poolOf(i)
		n := api.Node{
			Name: nodeName(i), Pool: poolNames[p], Zone: "a", ProviderID: "gce://p/a/" + nodeName(i),
			Allocatable: allocation, Ready: true, Cordoned: m.cordoned != 0,
		}
		if n.Cordoned {
			n.CordonedFor, n.CordonedAt = cordonReasons[m.cordoned], age(c.overdue[p])
		}
		if c.gaveUp[p] != 0 {
			n.GaveUp, n.GaveUpAt = poolsOf(c.gaveUp[p]), age(false)
		}
		s.Nodes = append(s.Nodes, n)
		for kind, count := range m.web {
			created := time.Hour
			if kind&young != 0 {
				created = podYoung
			}
			for serial := range count {
				w := pod(webKey, fmt.Sprintf("web-%d-%d", i, 10*kind+int(serial)), n.Name, kind&isReady != 0, created)
				if kind&marked != 0 {
					w.DeletionCost, w.DeletionCostOurs = deletionCost, true
				}
			}
		}
	}
	for kind, count := range c.pending {
		for serial := range count {
			w := pod(webKey, fmt.Sprintf("web-pending-%d-%d", kind, serial), "", false, podYoung)
			if w.Phase = "Pending"; kind == marked {
				w.DeletionCost, w.DeletionCostOurs = deletionCost, true
			}
		}
	}
	web := api.Workload{
		Key: webKey, Target: api.TargetRef{Kind: "Deployment"}, Mode: api.ModeFull, Replicas: int32(c.web), MinReplicas: 1, MaxReplicas: 10, Shape: podShape,
	}
	if c.placed > 0 {
		web.PlacedOn = poolNames[c.placed-1]
		limits := Defaults(api.Disruption{})
		ago := [...]time.Duration{lately: admitted / 2, trying: 5 * podYoung, waiting: limits.MoveTimeout + limits.RetryAfter/2}
		web.PlacedSince = exploreNow.Add(-ago[c.since])
	}
	s.Workloads = append(s.Workloads, web)
	if r.mixed {
		other := web
		other.Key, other.Replicas, other.PlacedOn, other.PlacedSince = apiKey, 1, poolNames[0], exploreNow.Add(-time.Hour)
		s.Workloads = append(s.Workloads, other)
	}
	return s
}

// poolsOf are the names of pools given as bits, as a note has them.
func poolsOf(bits uint8) string {
	var names []string
	for p, name := range poolNames {
		if bit(bits, p) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " + ")
}

// planned is the plan of a planner that knows what is wanted.
func (r splitRules) planned(c split, w wish) api.Plan {
	web := api.WorkloadPlan{Key: webKey, Scale: api.Scale{Replicas: int32(w.replicas)}, Reason: "demand"}
	web.Pools = append(web.Pools, api.PoolShare{Pool: poolNames[w.base], Replicas: int32(w.off)})
	if w.spot {
		web.Prefers = poolNames[r.prefers(c, w)]
		if w.off < w.replicas {
			web.Pools = append(web.Pools, api.PoolShare{Pool: poolNames[spotPool], Replicas: int32(w.replicas - w.off)})
		}
	}
	plan := api.Plan{Workloads: []api.WorkloadPlan{web}}
	if r.mixed {
		plan.Workloads = append(plan.Workloads, api.WorkloadPlan{
			Key: apiKey, Scale: api.Scale{Replicas: 1}, Reason: "demand", Pools: []api.PoolShare{{Pool: poolNames[0], Replicas: 1}},
		})
	}
	used := plan.PoolsInUse()
	for _, name := range poolNames {
		pp := api.PoolPlan{Pool: name}
		if slices.Contains(used, name) {
			pp.SizePerZone, pp.Nodes = int32(r.nodes), int32(r.nodes)
		}
		plan.Nodes.Pools = append(plan.Nodes.Pools, pp)
	}
	return plan
}

// stays is the wish that leaves web on the pools that most of its pods are on, as it can't be
// moved from one: what planning does of a refusal. What goes back does so to where it came from.
func (r splitRules) stays(c split, w wish, pool string, targets []string) wish {
	var on [spotPools]int
	for i, n := range c.nodes {
		on[poolOf(i)] += n.pods()
	}
	out := wish{base: w.base, replicas: w.replicas, off: w.off, spot: on[spotPool] > 0}
	if stay := slices.Index(poolNames[:steadyPools], pool); stay >= 0 {
		out.base = stay
	}
	most := 0
	for p, n := range on[:steadyPools] {
		if n > 0 && !slices.Contains(targets, pool) && !slices.Contains(targets, poolNames[p]) {
			n += int(c.web)
		}
		if n > most {
			out.base, most = p, n
		}
	}
	if !out.spot {
		out.off = out.replicas
	}
	return out
}

// key is the same for states that differ in the names of equal nodes only.
func (r splitRules) key(c split) []byte {
	key := make([]byte, 0, 48)
	if len(c.ops) == 0 {
		c.ops, c.stale = nil, 0
	}
	c.pending[0] += max(c.web, c.pods()) - c.pods()
	for _, kind := range []int{marked, 0} {
		if r.prompt && c.pods() > c.web {
			c.pending[kind] -= min(c.pending[kind], c.pods()-c.web)
		}
	}
	if c.placed == 0 {
		c.since = trying
	}
	c.reached = c.reached || c.pods() <= c.web && c.lasting() >= int(r.floor)
	var first, at, to [spotPools * maxNodes]uint8
	for i := len(c.ops) - 1; i >= 0; i-- {
		if c.ops[i].onNode() {
			first[c.ops[i].node] = uint8(i + 1)
		}
	}
	var content [spotPools * maxNodes]uint32
	for p := range spotPools {
		nodes, cordons := 0, 0
		for i := p * maxNodes; i < (p+1)*maxNodes; i++ {
			m := c.nodes[i]
			at[i] = uint8(i)
			content[i] = uint32(m.phase)<<18 | uint32(m.cordoned)<<16
			for kind, n := range m.web {
				content[i] |= uint32(n) << (2 * kind)
			}
			if m.phase != absent {
				nodes++
			}
			if m.ours() {
				cordons++
			}
		}
		c.overdue[p] = c.overdue[p] && cordons > 0
		if nodes == 0 {
			c.gaveUp[p] = 0
		}
		slices.SortStableFunc(at[p*maxNodes:(p+1)*maxNodes], func(x, y uint8) int {
			return cmp.Or(cmp.Compare(content[y], content[x]), cmp.Compare(first[x], first[y]))
		})
	}
	for i, from := range at {
		to[from] = uint8(i)
		if n := content[from]; n != 0 {
			key = append(key, uint8(i), uint8(n>>16), uint8(n>>8), uint8(n))
		}
	}
	key = append(key, endOfNodes, c.size[0]|c.size[1]<<4, c.size[2]|c.web<<4, c.wish|c.placed<<2|c.since<<4|c.stale<<6,
		bits(c.overdue[0], c.overdue[1], c.overdue[2], c.reached), c.gaveUp[0]|c.gaveUp[1]<<4, c.gaveUp[2], c.pending[0]|c.pending[1]<<4)
	for _, o := range c.ops {
		if o.onNode() {
			o.node = to[o.node]
		}
		key = append(key, uint8(o.kind)<<4|o.node, o.arg)
	}
	return key
}

// decodeSplit is a state of a key.
func decodeSplit(key []byte) split {
	var c split
	for ; key[0] != endOfNodes; key = key[4:] {
		m := &c.nodes[key[0]]
		m.phase, m.cordoned = key[1]>>2&3, key[1]&3
		for kind := range m.web {
			m.web[kind] = uint8((uint16(key[2])<<8|uint16(key[3]))>>(2*kind)) & 3
		}
	}
	c.size = [spotPools]uint8{key[1] & 15, key[1] >> 4, key[2] & 15}
	c.web = key[2] >> 4
	c.wish, c.placed, c.since, c.stale = key[3]&3, key[3]>>2&3, key[3]>>4&3, key[3]>>6
	for p := range c.overdue {
		c.overdue[p] = bit(key[4], p)
	}
	c.reached = bit(key[4], spotPools)
	c.gaveUp = [spotPools]uint8{key[5] & 15, key[5] >> 4, key[6]}
	c.pending = [2]uint8{key[7] & 15, key[7] >> 4}
	for ops := key[8:]; len(ops) > 0; ops = ops[2:] {
		c.ops = append(c.ops, op{kind: opKind(ops[0] >> 4), node: ops[0] & 15, arg: ops[1]})
	}
	return c
}
