package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/baseline/autoscaler"
	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/load/record"
)

// traffic is what happens to requests: a queueing.Model, or its fluid
// counterpart.
type traffic interface {
	AddStream(queueing.Stream) error
	AddSource(queueing.Source) error
	StartUsers(stream string, r queueing.Ramp) error
	StartArrivals(stream string, a queueing.Arrivals) error
	SetNode(queueing.Node) error
	LoseNode(name string)
	AddPod(queueing.Pod) error
	ResizePod(id string, request, limit float64)
	Join(id string, at time.Duration)
	Leave(id string, at time.Duration)
	Close(id string, at time.Duration)
	Kill(id string, at time.Duration)
	RemovePod(id string, leaveBy time.Duration)
	Advance(to time.Duration)
	PodState(id string) (queueing.PodState, bool)
	TakeWindow(stream string) (queueing.Window, error)
	StreamState(stream string) (queueing.StreamState, error)
}

// Epoch is time 0 of every simulation: a Monday.
var Epoch = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// Cluster is the world.
type Cluster struct {
	kernel
	params  Params
	rng     *rand.Rand
	traffic traffic
	record  *record.Recorder

	workloads []*workload
	// placeholders is a Deployment of pods that only hold room, nil for none.
	placeholders *workload
	budgets      []*budget
	pods         map[string]*pod // by UID
	loose        []*pod          // without a node, in order of creation; and some that are loose no more
	nodes        map[string]*node
	sorted       []*node // nodes by name
	pools        []*pool
	serial       int // of pods and nodes

	// quota of vCPUs over all pools, 0 unlimited.
	quota int64
	// faults that scenarios and tests switch on.
	stockout   map[string]bool // zones without machines
	scrapeDown bool            // Prometheus is away
	scrapeSees float64         // what Prometheus reads of CPU, as a share of what there is
	scheduling bool            // a pass of the scheduler is due
	nominated  map[*pod]*node  // pods that wait for victims to leave
	// silent instances boot and don't join; stuck pods start and are never
	// Ready. Nil: none.
	silent func(*pool) bool
	stuck  func(*node) bool
	// unaware is a node that the scheduler binds a pod to although it has been cordoned,
	// which it has not seen yet. Nil: none.
	unaware func(*pod) *node
	// becameReady and ended tell the sensors of a pod, unschedulable a node autoscaler
	// that watches pods.
	becameReady, ended, unschedulable func(*pod)
	// killed tells of a container that was ended for its memory, at a limit of bytes.
	killed func(*pod, float64)
	// memoryRNG is of working sets alone: what else happens is the same without them.
	memoryRNG *rand.Rand
	// spotRNG is of interruptions alone.
	spotRNG *rand.Rand
	// replaced tells whether the provider makes up for spot machines that it takes away, as
	// the instance groups of a node pool do.
	replaced bool
	oomKills []time.Duration
	// interruptions are when spot machines were taken away.
	interruptions []time.Duration
	ledger        []*Lifetime
	// The operator's evictions of Ready pods, those that a budget refused it, and
	// somebody else's right before one of them.
	evicted, overBudget, overtaken int
	// resizes of pods in place, by when they were written.
	resizes []time.Duration
	// looked are actions that a look at what is so has stopped, and harm what the operator
	// has done under watches that fail.
	looked int
	harm   harm
}

// Lifetime of an instance, as it is paid for.
type Lifetime struct {
	Pool, MachineType, Node string
	Price                   float64       // USD per hour
	Requested, Deleted      time.Duration // Deleted is negative while it exists
}

// workload is a Deployment, or a StatefulSet.
type workload struct {
	key      api.Key
	stateful bool
	stream   string
	shape    *api.PodShape
	request  float64 // cores
	limit    float64 // cores, 0 none
	priority int32   // of its PriorityClass
	min, max int32
	// memory of an idle pod, and of each request in flight, bytes.
	memoryBase, memoryPerRequest float64
	// memoryLimit of a pod, bytes, 0 for none; memorySpread is the standard deviation of the
	// logarithm of what an idle pod has, correlated over a time.
	memoryLimit, memorySpread float64
	memoryCorrelation         time.Duration
	startup                   float64 // reference CPU seconds that a container takes until it is Ready
	base                      float64 // reference cores that one uses without any request
	oom                       oom
	target                    float64 // utilisation that the HPA aims at
	preStop                   time.Duration
	grace                     time.Duration
	propagation               func(*rand.Rand) time.Duration
	replicas                  int32
	planned                   int32  // last published plan
	placed                    string // pool that new pods prefer, by the last published plan
	placedSince               time.Duration
	lastScaled                time.Duration
	reconciling               bool
	pods                      []*pod // in order of creation
	class                     int    // for the node autoscaler's rules: its number, from 1
}

// Phases of a pod's life.
const (
	pending = iota
	starting
	running
)

// pod of a workload.
type pod struct {
	uid, name string
	workload  *workload
	prefers   string // pool that it prefers since it was admitted; empty for none
	// shape, request and limit are what its spec asks for, cores as the
	// workload's; allocated is what the kubelet has granted, which a resize in
	// place may still have before it.
	shape          *api.PodShape
	request, limit float64
	allocated      api.Resources
	node           *node
	phase          int
	ready          bool
	terminating    bool
	unschedul      bool
	loose          bool // it has no node, and is there
	created        time.Duration
	scheduled      time.Duration
	started        time.Duration // container
	readyAt        time.Duration
	memoryLimit    float64 // bytes, 0 none
	memory         float64 // working set, bytes, as it was looked at last
	mood           float64 // of its working set
	backoff        time.Duration
	killed         time.Duration // its container, for its memory
	deletionCost   int32
	costOurs       bool
	// What metrics read: the counter at the scrapes of the rate window, and at
	// metrics-server's last two readings.
	scrapes            []point
	scraped, scrapedOf float64 // the newest value, and the counter it is of
	reads              [2]point
	nreads             int
	unit               autoscaler.Pod // what the autoscaler's rules see of it
}

type point struct {
	at    time.Duration
	value float64 // core seconds
}

// node of a pool.
type node struct {
	name        string
	pool        *pool
	zone        string
	labels      map[string]string
	ready       bool
	cordoned    bool
	cordonedFor string
	cordonedAt  time.Duration
	gaveUp      string // the pool that a move was given up to
	gaveUpAt    time.Duration
	created     time.Duration
	readyAt     time.Duration
	deleting    bool
	used        api.Resources // requests of its pods, DaemonSets' included
	pods        []*pod        // in order of their UIDs
	at, zoneAt  int           // its place among nodes, and its zone's among zones, of a pass of the scheduler
	paid        *Lifetime
	daemon      *api.Pod
}

func newCluster(p Params, seed uint64, t traffic) *Cluster {
	c := &Cluster{
		params: p, rng: rand.New(rand.NewPCG(seed, 7)), traffic: t,
		pods: map[string]*pod{}, nodes: map[string]*node{}, stockout: map[string]bool{}, nominated: map[*pod]*node{}, scrapeSees: 1,
	}
	c.before = t.Advance
	c.becameReady, c.ended, c.unschedulable, c.killed = func(*pod) {}, func(*pod) {}, func(*pod) {}, func(*pod, float64) {}
	c.memoryRNG = rand.New(rand.NewPCG(seed, 11))
	c.spotRNG, c.replaced = rand.New(rand.NewPCG(seed, 13)), true
	return c
}

func (c *Cluster) time() time.Time { return Epoch.Add(c.now) }

// scale sets spec.replicas.
func (c *Cluster) scale(w *workload, n int32) {
	if n == w.replicas {
		return
	}
	w.replicas, w.lastScaled = n, c.now
	c.record.Replicas(c.now, w.key.String(), n)
	c.reconcile(w)
	c.syncBudgets(w)
}

// reconcile makes the ReplicaSet or StatefulSet controller look at a workload soon.
func (c *Cluster) reconcile(w *workload) {
	if w.reconciling {
		return
	}
	w.reconciling = true
	c.after(c.params.Controller.sample(c.rng), func() {
		w.reconciling = false
		if w.stateful {
			c.reconcileSet(w)
			return
		}
		var members []*pod
		for _, p := range w.pods {
			if !p.terminating {
				members = append(members, p)
			}
		}
		for n := len(members); n < int(w.replicas); n++ {
			c.create(w, "")
		}
		if surplus := len(members) - int(w.replicas); surplus > 0 {
			c.rank(members)
			for _, p := range members[:surplus] {
				c.delete(p)
			}
		}
	})
}

// rank sorts pods into the order in which a ReplicaSet deletes them
// (pkg/controller/controller_utils.go, ActivePodsWithRanks.Less): unassigned
// first, then pending, not Ready, of lower deletion cost, on nodes with more of
// the same, Ready for a shorter time, younger; the last two by powers of two
// (LogarithmicScaleDown) and then by UID.
func (c *Cluster) rank(pods []*pod) {
	doubled := map[*node]int{}
	for _, p := range pods {
		if p.node != nil && p.ready {
			doubled[p.node]++
		}
	}
	log := func(since time.Duration) int {
		if d := c.now - since; d > 0 {
			return int(math.Log2(float64(d)))
		}
		return 0
	}
	flag := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	type member struct {
		*pod
		doubled, sinceReady, sinceCreated int
	}
	members := make([]member, len(pods))
	for i, p := range pods {
		members[i] = member{p, doubled[p.node], 0, log(p.created)}
		if p.ready {
			members[i].sinceReady = log(p.readyAt)
		}
	}
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(
			cmp.Compare(flag(a.node != nil), flag(b.node != nil)),
			cmp.Compare(a.phase, b.phase),
			cmp.Compare(flag(a.ready), flag(b.ready)),
			cmp.Compare(a.deletionCost, b.deletionCost),
			cmp.Compare(b.doubled, a.doubled),
			cmp.Compare(a.sinceReady, b.sinceReady),
			cmp.Compare(a.sinceCreated, b.sinceCreated),
			cmp.Compare(a.uid, b.uid),
		)
	})
	for i, m := range members {
		pods[i] = m.pod
	}
}

// create makes a pod; one without a suffix of its own gets one that no other has.
func (c *Cluster) create(w *workload, suffix string) {
	c.serial++
	id := fmt.Sprintf("%08d", c.serial)
	p := &pod{
		prefers: w.placed,
		loose:   true,
		uid:     id, name: w.key.Name + "-" + cmp.Or(suffix, id), workload: w, created: c.now, readyAt: -1,
		shape: w.shape, request: w.request, limit: w.limit, memoryLimit: w.memoryLimit,
	}
	c.pods[p.uid], c.loose = p, append(c.loose, p)
	w.pods = append(w.pods, p)
	c.observe(p)
	c.schedule()
}

// pending reports whether a pod is in phase Pending: one whose container was killed never is again.
func (p *pod) pending() bool { return p.phase != running && p.backoff == 0 }

// observe tells the recorder how a pod is.
func (c *Cluster) observe(p *pod) {
	r := record.Pod{
		ID: p.uid, Workload: p.workload.key.String(), Pending: p.pending(), Ready: p.ready && !p.terminating,
		MilliCPU: p.shape.Requests.MilliCPU, Memory: p.shape.Requests.Memory,
	}
	if p.workload == c.placeholders { // room that they hold is free
		r.MilliCPU, r.Memory = 0, 0
	}
	if p.node != nil {
		r.Node = p.node.name
	}
	c.record.Pod(c.now, r)
	c.syncBudgets(p.workload)
}

// bind puts a pod on a node and starts it.
func (c *Cluster) bind(p *pod, n *node) {
	p.node, p.unschedul, p.scheduled, p.phase = n, false, c.now, starting
	p.allocated = p.shape.Requests
	n.used = n.used.Plus(p.held())
	n.hold(p)
	p.loose = false
	delete(c.nominated, p)
	c.observe(p)
	if p.workload == c.placeholders {
		p.phase = running
		c.observe(p)
		return
	}
	c.begin(p, n, func() { c.becameReady(p) })
}

// begin starts a pod's container; ready is told when it is.
func (c *Cluster) begin(p *pod, n *node, ready func()) {
	alive := func() bool { return c.pods[p.uid] == p && !p.terminating && !n.deleting }
	stuck := c.stuck != nil && c.stuck(n)
	c.after(c.params.Startup.sample(c.rng), func() {
		if !alive() {
			return
		}
		p.phase, p.started = running, c.now
		c.must(c.traffic.AddPod(queueing.Pod{
			ID: p.uid, Stream: p.workload.stream, Node: n.name, Request: p.request, Limit: p.limit, Startup: p.workload.startup, Base: p.workload.base,
		}))
		c.observe(p)
		c.started(p, func() {
			c.after(c.params.Readiness.sample(c.rng), func() {
				if !alive() || stuck {
					return
				}
				p.ready, p.readyAt = true, c.now
				ready()
				c.traffic.Join(p.uid, c.now+p.workload.propagation(c.rng))
				c.observe(p)
				if p.workload.stateful {
					c.reconcile(p.workload)
				}
			})
		})
	})
}

// started calls then when a pod has done what its container does first: probed once a second.
func (c *Cluster) started(p *pod, then func()) {
	if p.workload.startup == 0 { // of the traffic, nobody needs to ask
		then()
		return
	}
	state, ok := c.traffic.PodState(p.uid)
	switch {
	case !ok: // it is gone
	case state.Starting:
		c.after(time.Second, func() { c.started(p, then) })
	default:
		then()
	}
}

// delete terminates a pod gracefully.
func (c *Cluster) delete(p *pod) {
	if p.terminating {
		return
	}
	p.terminating = true
	c.observe(p)
	if p.node == nil || p.workload == c.placeholders { // whose grace period is 0
		c.remove(p)
		return
	}
	if p.phase == running {
		c.traffic.Leave(p.uid, c.now+p.workload.propagation(c.rng))
		c.traffic.Close(p.uid, c.now+p.workload.preStop)
		c.traffic.Kill(p.uid, c.now+p.workload.grace)
	}
	c.after(c.params.Termination.sample(c.rng), func() { c.remove(p) })
	c.reconcile(p.workload)
}

// remove ends a pod: its object is gone.
func (c *Cluster) remove(p *pod) {
	if c.pods[p.uid] != p {
		return
	}
	delete(c.pods, p.uid)
	p.loose = false
	i := slices.Index(p.workload.pods, p)
	p.workload.pods = slices.Delete(p.workload.pods, i, i+1)
	delete(c.nominated, p)
	c.ended(p)
	if n := p.node; n != nil {
		n.pods = slices.DeleteFunc(n.pods, func(q *pod) bool { return q == p })
		n.used = n.used.Minus(p.held())
		c.traffic.RemovePod(p.uid, c.now+p.workload.propagation(c.rng))
		c.retryResizes(n)
	}
	c.record.PodGone(c.now, p.uid)
	c.reconcile(p.workload)
	c.syncBudgets(p.workload)
	c.schedule()
}

// must stops the simulation at what can't happen.
func (c *Cluster) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("sim at %v: %v", c.now, err))
	}
}
