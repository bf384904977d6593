package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mash2-io/mash2/experiments/load/queueing"
)

// Mean is a distribution that knows its mean, in seconds.
type Mean interface{ MeanSeconds() float64 }

// fluid is the fluid counterpart of queueing.Model: instead of requests it
// moves rates, in steps of at most [fluidStep], each in its stationary state.
//
// A stream is a closed network: its N users think for Z and share k pods at
// random, so that its throughput X solves X·(Z + R(X)) = N, with X/k through
// each pod. A pod that may use c cores of speed s, and whose requests take S
// reference seconds, answers after
//
//	R = b + Wₘ + W_q,  b = S/s
//
// Wₘ is the queueing for the node's m cores, by Sakasegawa's approximation of
// M/M/m. W_q is what the CFS quota adds when c < m: work drains at rate c with
// mean b' = b/c, as in M/M/1, except that what is left of a period's quota
// passes at once, on average half of it (50 ms of draining). So a share
//
//	P = ρ · exp(−(1−ρ)·0.05 s/b')
//
// of requests is throttled, for b'/(1−ρ) on average: W_q = P·b'/(1−ρ). Both
// kinds of requests have latencies that are taken to be exponential, which is
// exact without queueing (the work of a request is exponential). Timeouts are
// the part of that beyond the timeout. Load that arrives at a pod
// varies as a compound Poisson process does, so that what metrics read has the
// noise that planners have to live with.
type fluid struct {
	now     time.Duration
	due     time.Duration // how far it is to have come once somebody looks
	steps   int
	rng     *rand.Rand
	streams []*fluidStream
	sources []*graphSource // of a graph; else streams have users of their own
	nodes   map[string]*fluidNode
	pods    map[string]*fluidPod
	pending []fluidEvent // joins, leaves, closes and kills to come
	// starting are the pods whose startup isn't over, in the order in which they came.
	starting []*fluidPod
	// idling are the pods that use CPU without any request, likewise.
	idling []*fluidPod
}

const (
	// fluidStep is the longest step while users come and go by the second,
	// openStep where there are only arrivals.
	fluidStep = time.Second
	openStep  = 3 * time.Second
	// Of more pods than crowd, changes that come within crowdedGrain happen together, and of
	// more than throng those within throngedGrain: a surge of a thousand would else be
	// thousands of steps of a millisecond, each over all pods.
	crowd, throng = 200, 1000
	grain         = time.Millisecond
	crowdedGrain  = 100 * time.Millisecond
	throngedGrain = time.Second
)

// apart is how far changes are from each other at least.
func (f *fluid) apart() time.Duration {
	switch n := len(f.pods); {
	case n > throng:
		return throngedGrain
	case n > crowd:
		return crowdedGrain
	}
	return grain
}

type fluidStream struct {
	queueing.Stream
	ramp        queueing.Ramp
	arrivals    queueing.Arrivals // instead of a ramp
	backlog     float64           // requests that wait for capacity, of open load
	begin       time.Duration
	begun       bool
	mean        Mean
	work, think float64 // means, seconds
	endpoints   []*fluidPod
	counts      fluidCounts
	latency     queueing.Histogram
	taken       queueing.Histogram // lent out by TakeWindow
	usage, done float64
	users       int

	rate float64 // of requests in the last step, per second

	// Of the present step: kinds of endpoints that answer, which of them each
	// endpoint is (−1 for none), and those that don't.
	classes        []class
	classOf        []int
	live           float64
	refusing, lost float64
	// Of a graph, in the present step.
	visits, asked float64 // per second; reference cores
	visit         float64 // mean seconds
	visitSquare   float64 // the same of their squares, over endpoints
	dt, patience  float64 // of the step and of the users that wait for longest, seconds
	// shape of gamma's last latencies, and the logarithms of their quantiles relative to the mean.
	shape float64
	logs  [len(normals)]float64
	// Since the beginning: visits, and the seconds that they took all together.
	visited, visitSeconds float64
}

type fluidNode struct {
	queueing.Node
	pods []*fluidPod
	lost bool
	// wanted is the sum of what its pods wanted in the last step, cores, as of a step.
	wanted float64
	asOf   int
}

// fluidPod has first what each step looks at.
type fluidPod struct {
	node      *fluidNode
	stream    *fluidStream
	wants     float64 // cores in the last step
	owed      float64 // reference seconds of work that noise put off
	usage     float64
	inFlight  float64
	accepting bool
	routed    bool
	dead      bool
	queue     float64 // of a graph: requests, a mean
	startup   float64 // reference seconds that are left of it
	own       float64 // cores that it uses without any request
	queueing.Pod
}

type fluidEvent struct {
	at  time.Duration
	id  string
	pod *fluidPod
	do  func(*fluid, *fluidPod)
	// kind tells joins from leaves, of which the later call wins.
	kind int
}

func newFluid(seed uint64) *fluid {
	return &fluid{rng: rand.New(rand.NewPCG(seed, 3)), nodes: map[string]*fluidNode{}, pods: map[string]*fluidPod{}}
}

func (f *fluid) stream(name string) *fluidStream {
	for _, s := range f.streams {
		if s.Name == name {
			return s
		}
	}
	return nil
}

func (f *fluid) AddStream(c queueing.Stream) error {
	s := &fluidStream{Stream: c}
	if c.Think != nil {
		work, ok := c.Work.(Mean)
		think, ok2 := c.Think.(Mean)
		if !ok || !ok2 {
			return fmt.Errorf("stream %q: the fluid model needs means of work and thinking", c.Name)
		}
		s.mean, s.work, s.think = work, work.MeanSeconds(), think.MeanSeconds()
	}
	f.streams = append(f.streams, s)
	return nil
}

func (f *fluid) StartUsers(name string, r queueing.Ramp) error {
	f.catchUp()
	s, err := f.loaded(name)
	if err != nil {
		return err
	}
	s.ramp, s.begin, s.begun = r, f.now, true
	return nil
}

func (f *fluid) StartArrivals(name string, a queueing.Arrivals) error {
	f.catchUp()
	s, err := f.loaded(name)
	if err != nil {
		return err
	}
	s.arrivals, s.begin, s.begun = a, f.now, true
	return nil
}

// loaded is what has load of its own: a source of a graph, or a stream.
func (f *fluid) loaded(name string) (*fluidStream, error) {
	if s := f.graphSourceOf(name); s != nil {
		return &s.fluidStream, nil
	}
	if s := f.stream(name); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("source %q: %w", name, queueing.ErrUnknown)
}

func (f *fluid) SetNode(n queueing.Node) error {
	if f.nodes[n.Name] == nil {
		f.nodes[n.Name] = &fluidNode{}
	}
	f.nodes[n.Name].Node, f.nodes[n.Name].lost = n, false
	return nil
}

func (f *fluid) LoseNode(name string) {
	if n := f.nodes[name]; n != nil {
		n.lost = true
		delete(f.nodes, name)
	}
}

func (f *fluid) AddPod(p queueing.Pod) error {
	s, n := f.stream(p.Stream), f.nodes[p.Node]
	if s == nil || n == nil {
		return fmt.Errorf("pod %q: stream %q or node %q: %w", p.ID, p.Stream, p.Node, queueing.ErrUnknown)
	}
	pod := &fluidPod{Pod: p, stream: s, node: n, accepting: true, startup: p.Startup, own: p.Base / n.Speed}
	if pod.own > 0 {
		f.idling = append(f.idling, pod)
	}
	if pod.startup > 0 {
		f.starting = append(f.starting, pod)
	}
	n.pods = append(n.pods, pod)
	f.pods[p.ID] = pod
	return nil
}

// ResizePod changes the CPU request and limit of a pod in place. An unknown pod
// is ignored.
func (f *fluid) ResizePod(id string, request, limit float64) {
	if p := f.pods[id]; p != nil {
		p.Request, p.Limit = request, limit
	}
}

const (
	routing = iota
	closing
	killing
)

func (f *fluid) plan(id string, at time.Duration, kind int, do func(*fluid, *fluidPod)) {
	p := f.pods[id]
	if p == nil {
		return
	}
	f.pending = slices.DeleteFunc(f.pending, func(e fluidEvent) bool { return e.pod == p && e.kind == kind })
	f.pending = append(f.pending, fluidEvent{at, id, p, do, kind})
}

func (f *fluid) Join(id string, at time.Duration) {
	f.plan(id, at, routing, func(_ *fluid, p *fluidPod) {
		if !p.routed {
			p.routed = true
			p.stream.endpoints = append(p.stream.endpoints, p)
		}
	})
}

func (f *fluid) Leave(id string, at time.Duration) {
	f.plan(id, at, routing, func(_ *fluid, p *fluidPod) { p.unroute() })
}

func (f *fluid) Close(id string, at time.Duration) {
	f.plan(id, at, closing, func(_ *fluid, p *fluidPod) { p.accepting = false })
}

func (f *fluid) Kill(id string, at time.Duration) {
	f.plan(id, at, killing, func(_ *fluid, p *fluidPod) { p.kill() })
}

func (p *fluidPod) unroute() {
	p.routed = false
	p.stream.endpoints = slices.DeleteFunc(p.stream.endpoints, func(q *fluidPod) bool { return q == p })
}

// kill resets what is in flight.
func (p *fluidPod) kill() {
	if !p.dead {
		p.dead, p.accepting = true, false
		p.stream.counts.reset += p.inFlight
		p.inFlight = 0
	}
}

func (f *fluid) RemovePod(id string, leaveBy time.Duration) {
	p := f.pods[id]
	if p == nil {
		return
	}
	p.kill()
	p.node.pods = slices.DeleteFunc(p.node.pods, func(q *fluidPod) bool { return q == p })
	delete(f.pods, id)
	leave := leaveBy
	for _, e := range f.pending {
		if e.pod == p && e.kind == routing && p.routed {
			leave = min(leave, e.at)
		}
	}
	f.pending = slices.DeleteFunc(f.pending, func(e fluidEvent) bool { return e.pod == p })
	if p.routed {
		f.pending = append(f.pending, fluidEvent{leave, id, p, func(_ *fluid, p *fluidPod) { p.unroute() }, routing})
	}
}

// Advance moves on, once that is worth a step or somebody looks.
func (f *fluid) Advance(to time.Duration) {
	f.due = max(f.due, to)
	if apart := f.apart(); apart == grain || f.due-f.now >= apart {
		f.catchUp()
	}
}

// catchUp moves to where it is to be, stopping where pods change.
func (f *fluid) catchUp() {
	to, apart := f.due, f.apart()
	longest := openStep
	for _, s := range f.streams {
		if s.arrivals == nil && (len(f.sources) == 0 || s.begun) {
			longest = fluidStep
		}
	}
	for _, s := range f.sources {
		if s.arrivals == nil {
			longest = fluidStep
		}
	}
	for {
		f.change()
		if f.now >= to {
			return
		}
		next := min(to, f.now+longest)
		for _, e := range f.pending {
			next = min(next, max(e.at, f.now+apart))
		}
		f.step((next - f.now).Seconds())
		f.now = next
	}
}

// change makes the changes whose time has come, in the order they were asked for.
func (f *fluid) change() {
	for i := 0; i < len(f.pending); {
		e := f.pending[i]
		if e.at > f.now {
			i++
			continue
		}
		f.pending = slices.Delete(f.pending, i, i+1)
		e.do(f, e.pod)
	}
}

// start lets the pods that start do what they have to do first, for dt seconds.
func (f *fluid) start(dt float64) {
	f.starting = slices.DeleteFunc(f.starting, func(p *fluidPod) bool {
		if p.dead || p.node.lost {
			return true
		}
		cores := min(p.startup/dt/p.node.Speed, p.capacity())
		if p.startup -= cores * dt * p.node.Speed; p.startup < 1e-9 {
			p.startup = 0
		}
		p.usage += cores * dt
		p.stream.usage += cores * dt
		p.stream.done += cores * dt * p.node.Speed
		p.wants = cores
		if p.startup == 0 {
			p.wants = 0
		}
		return p.startup == 0
	})
}

// idle lets the pods that have started use what they use without any request, for dt seconds.
func (f *fluid) idle(dt float64) {
	f.idling = slices.DeleteFunc(f.idling, func(p *fluidPod) bool {
		if p.dead || p.node.lost {
			return true
		}
		if p.startup == 0 {
			p.usage += p.own * dt
			p.stream.usage += p.own * dt
			p.stream.done += p.own * dt * p.node.Speed
			p.wants = max(p.wants, p.own)
		}
		return false
	})
}

func (f *fluid) step(dt float64) {
	f.start(dt)
	f.idle(dt)
	f.steps++
	for _, s := range f.streams {
		s.prepare(f.steps)
	}
	if len(f.sources) > 0 {
		f.stepGraph(dt)
		return
	}
	for _, s := range f.streams {
		s.users, s.work = 0, s.mean.MeanSeconds()
		switch {
		case s.arrivals != nil:
			f.serveOpen(s, s.arrivals.RPS(f.now-s.begin), dt)
		case s.begun:
			s.users = s.ramp.VUs(f.now - s.begin)
			f.serve(s, dt)
		}
	}
}

// capacityAt is capacity, quicker where a node has enough for all: what its pods want is added
// up once a step, of a number.
func (p *fluidPod) capacityAt(step int) float64 {
	n := p.node
	if n.asOf != step {
		n.wanted, n.asOf = 0, step
		for _, q := range n.pods {
			n.wanted += q.wants
		}
	}
	c := n.Cores
	if p.Limit > 0 {
		c = min(c, p.Limit)
	}
	if n.wanted+c <= n.Cores { // there is enough for all, whatever p wanted
		return c
	}
	return p.capacity()
}

// capacity is the cores that a pod may use on average: its limit, within its
// share of a node that is full.
func (p *fluidPod) capacity() float64 {
	cores := p.node.Cores
	c := cores
	if p.Limit > 0 {
		c = min(c, p.Limit)
	}
	var wanted, weights float64
	for _, q := range p.node.pods {
		w := q.wants
		if q == p {
			w = c
		}
		wanted += w
		weights += max(q.Request, 0.002)
	}
	if wanted > cores {
		c = min(c, max(cores-(wanted-c), cores*max(p.Request, 0.002)/weights))
	}
	return c
}
