// Package queueing is the pure model of a loaded cluster: closed streams of
// virtual users send requests to pods, which share the CPU of their nodes. It
// is a discrete-event simulation, seeded and deterministic: it has no clock but
// the time it is advanced to, and knows pods only by the calls that report
// them.
//
// What is modelled:
//
//   - A virtual user sends a request, waits for the response or gives up after
//     a timeout, thinks, and begins again: a closed system, whose throughput
//     falls when responses are slow.
//   - A request goes to one of the endpoints at random, as kube-proxy picks one
//     per connection; every request is a new connection.
//   - The requests in a pod share its CPU equally (processor sharing), each at
//     most one core.
//   - A pod with a CPU limit has a quota of limit × 100 ms per period of
//     100 ms. Once spent, the pod stands still until the next period, as under
//     the Linux CFS bandwidth controller.
//   - When pods want more than the node has, it is shared in proportion to
//     their requests, and what one does not use goes to the others (weighted
//     max–min fairness; CFS shares).
//   - A core of a node does Speed seconds of reference work per second.
//   - A pod that starts may have work of its own to do first, on as many cores as
//     its limit and its node let it have.
//   - A pod that does not accept, or no endpoint at all, refuses at once; a pod
//     that vanishes resets its requests; a lost node answers nothing, so its
//     requests run into the timeout.
package queueing

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Period of the CPU quota: the kernel's default cfs_period_us, which the
// kubelet uses too.
const Period = 100 * time.Millisecond

// minShares is the weight of a pod without a CPU request: 2 of the 1024 shares
// of a core, the kernel's minimum.
const minShares = 2.0 / 1024

// Errors that name what a call does not fit to.
var (
	ErrUnknown = errors.New("unknown")
	ErrExists  = errors.New("exists already")
)

// never is later than any event.
const never = time.Duration(1<<63 - 1)

// Node is a machine.
type Node struct {
	Name string
	// Cores that pods can use together.
	Cores float64
	// Speed is the reference CPU seconds one core does per second.
	Speed float64
}

// Pod is a running container.
type Pod struct {
	ID     string // unique for ever, such as a UID
	Stream string // whose requests it serves
	Node   string
	// Request in cores is its weight when the node is saturated.
	Request float64
	// Limit in cores; 0 is none.
	Limit float64
	// Startup is the reference CPU seconds that it takes before it can serve, on as many cores
	// as it gets.
	Startup float64
	// Base is the reference cores that it uses without any request once it has started, before
	// its requests get what is left.
	Base float64
}

// Model is the state of the simulation. It is not safe for concurrent use.
type Model struct {
	seed    uint64
	now     time.Duration
	events  events
	serial  uint64 // entries made, to break ties in time
	streams map[string]*stream
	sources map[string]*source
	nodes   map[string]*node
	pods    map[string]*pod
}

// New returns an empty model at time 0.
func New(seed uint64) *Model {
	return &Model{
		seed:    seed,
		streams: map[string]*stream{},
		sources: map[string]*source{},
		nodes:   map[string]*node{},
		pods:    map[string]*pod{},
	}
}

// Now is the time the model was advanced to.
func (m *Model) Now() time.Duration { return m.now }

// Advance lets everything happen up to and including time to. Going back does
// nothing.
func (m *Model) Advance(to time.Duration) {
	for len(m.events) > 0 && m.events[0].at <= to {
		e := m.events[0]
		m.now = max(m.now, e.at)
		m.schedule(e, never)
		e.owner.fire(m)
	}
	m.now = max(m.now, to)
}

// AddStream adds a service that nobody asks yet, and unless Think is nil a
// source of the same name whose requests ask it alone.
func (m *Model) AddStream(c Stream) error {
	if m.streams[c.Name] != nil {
		return fmt.Errorf("stream %q: %w", c.Name, ErrExists)
	}
	if c.Think != nil && (c.Work == nil || c.Timeout <= 0) {
		return fmt.Errorf("stream %q: work, think and a positive timeout are needed", c.Name)
	}
	m.streams[c.Name] = &stream{Stream: c, route: rand.New(rand.NewPCG(m.seed, 1<<63))}
	if c.Think == nil {
		return nil
	}
	return m.AddSource(Source{Name: c.Name, Think: c.Think, Timeout: c.Timeout, Request: Call{Stream: c.Name, Work: c.Work}})
}

// AddSource adds a source that has no users yet.
func (m *Model) AddSource(c Source) error {
	if m.sources[c.Name] != nil {
		return fmt.Errorf("source %q: %w", c.Name, ErrExists)
	}
	if c.Think == nil || c.Timeout <= 0 {
		return fmt.Errorf("source %q: think and a positive timeout are needed", c.Name)
	}
	root, err := m.compile(c.Request)
	if err != nil {
		return fmt.Errorf("source %q: %w", c.Name, err)
	}
	s := &source{Source: c, stream: root.stream, root: root, seed: uint64(len(root.stream.sources)) << 32}
	s.entry = m.newEntry(s)
	root.stream.sources = append(root.stream.sources, s)
	m.sources[c.Name] = s
	return nil
}

// StartUsers lets the users of a source come and go by a ramp that begins now.
// Sources of the same configuration and ramp, in models of the same seed or in
// one model, have the same users: the n-th request of a user asks the same work
// and is followed by the same thinking.
func (m *Model) StartUsers(name string, r Ramp) error {
	s := m.sources[name]
	if s == nil {
		return fmt.Errorf("source %q: %w", name, ErrUnknown)
	}
	s.ramp, s.begin = r, m.now
	m.schedule(s.entry, m.now)
	return nil
}

// StartArrivals lets requests come from a source from now on. The same seed has
// the same arrivals, whatever becomes of the requests.
func (m *Model) StartArrivals(name string, a Arrivals) error {
	s := m.sources[name]
	if s == nil {
		return fmt.Errorf("source %q: %w", name, ErrUnknown)
	}
	s.arrivals, s.begin, s.bound = a, m.now, math.Inf(1)
	m.schedule(s.entry, m.now)
	return nil
}

// SetNode adds a node, or changes the cores and speed of the one of that name.
// A node that was lost works again.
func (m *Model) SetNode(n Node) error {
	if !(n.Cores > 0) || !(n.Speed > 0) {
		return fmt.Errorf("node %q: cores and speed must be positive", n.Name)
	}
	have := m.nodes[n.Name]
	if have == nil {
		have = &node{settled: m.now}
		have.entry = m.newEntry(have)
		m.nodes[n.Name] = have
	}
	have.settle(m.now)
	have.Node = n
	have.lost = false
	have.reallocate(m)
	return nil
}

// LoseNode stops a node dead: its pods answer nothing any more, until they are
// removed. An unknown node is ignored.
func (m *Model) LoseNode(name string) {
	if n := m.nodes[name]; n != nil {
		n.settle(m.now)
		n.lost = true
		n.reallocate(m)
		m.forgetNode(n)
	}
}

// forgetNode drops a lost node once its last pod is gone.
func (m *Model) forgetNode(n *node) {
	if n.lost && len(n.pods) == 0 && m.nodes[n.Name] == n {
		m.schedule(n.entry, never)
		delete(m.nodes, n.Name)
	}
}

// AddPod starts a container that accepts connections. It gets none until it
// joins the endpoints.
func (m *Model) AddPod(c Pod) error {
	if m.pods[c.ID] != nil {
		return fmt.Errorf("pod %q: %w", c.ID, ErrExists)
	}
	s, n := m.streams[c.Stream], m.nodes[c.Node]
	if s == nil {
		return fmt.Errorf("pod %q: stream %q: %w", c.ID, c.Stream, ErrUnknown)
	}
	if n == nil {
		return fmt.Errorf("pod %q: node %q: %w", c.ID, c.Node, ErrUnknown)
	}
	if c.Request < 0 || c.Limit < 0 || c.Startup < 0 || c.Base < 0 {
		return fmt.Errorf("pod %q: request, limit, startup and base must not be negative", c.ID)
	}
	p := &pod{Pod: c, stream: s, node: n, accepting: true, periodBegin: m.now, startup: c.Startup,
		joinAt: never, leaveAt: never, closeAt: never, killAt: never}
	p.entry = m.newEntry(p)
	m.pods[c.ID] = p
	n.settle(m.now)
	n.pods = append(n.pods, p)
	n.reallocate(m)
	return nil
}

// ResizePod changes the CPU request and limit of a pod in place. An unknown pod
// is ignored.
func (m *Model) ResizePod(id string, request, limit float64) {
	p := m.pods[id]
	if p == nil || request < 0 || limit < 0 || p.Request == request && p.Limit == limit {
		return
	}
	p.node.settle(m.now)
	p.Request, p.Limit = request, limit
	p.throttled = p.throttled && limit > 0
	p.node.reallocate(m)
}

// Join makes a pod an endpoint from time at on. A Leave that has not happened
// yet is superseded. Join, Leave, Close and Kill ignore an unknown pod, and a
// time that has passed is now.
func (m *Model) Join(id string, at time.Duration) {
	if p := m.pods[id]; p != nil {
		p.joinAt, p.leaveAt = at, never
		p.reschedule(m)
	}
}

// Leave takes a pod from the endpoints at time at. A Join that has not happened
// yet is superseded.
func (m *Model) Leave(id string, at time.Duration) {
	if p := m.pods[id]; p != nil {
		p.joinAt, p.leaveAt = never, at
		p.reschedule(m)
	}
}

// Close makes a pod refuse new connections from time at on; the requests it
// has go on.
func (m *Model) Close(id string, at time.Duration) {
	if p := m.pods[id]; p != nil {
		p.closeAt = at
		p.reschedule(m)
	}
}

// Kill ends a pod's process at time at: it refuses new connections and resets
// those it has. Its counters remain until RemovePod.
func (m *Model) Kill(id string, at time.Duration) {
	if p := m.pods[id]; p != nil {
		p.killAt = at
		p.reschedule(m)
	}
}

// RemovePod ends a pod's process now and forgets its counters. While it is
// still an endpoint, its requests are refused; it leaves at leaveBy unless a
// Leave is due before.
func (m *Model) RemovePod(id string, leaveBy time.Duration) {
	p := m.pods[id]
	if p == nil {
		return
	}
	n := p.node
	n.settle(m.now)
	p.die(m)
	n.remove(p)
	n.reallocate(m)
	m.forgetNode(n)
	delete(m.pods, id)
	p.joinAt, p.closeAt, p.killAt = never, never, never
	p.leaveAt = min(p.leaveAt, leaveBy)
	if !p.routed {
		p.leaveAt = never
	}
	p.reschedule(m)
}

// An entry is the next event of its owner.
type entry struct {
	at     time.Duration
	serial uint64
	pos    int // in the heap, −1 when not in it
	owner  interface{ fire(m *Model) }
}

func (m *Model) newEntry(owner interface{ fire(m *Model) }) *entry {
	m.serial++
	return &entry{at: never, serial: m.serial, pos: -1, owner: owner}
}

// schedule moves an entry to time at, never takes it out.
func (m *Model) schedule(e *entry, at time.Duration) {
	if at != never {
		at = max(at, m.now)
	}
	e.at = at
	switch {
	case at == never && e.pos >= 0:
		heap.Remove(&m.events, e.pos)
	case at == never:
	case e.pos >= 0:
		heap.Fix(&m.events, e.pos)
	default:
		heap.Push(&m.events, e)
	}
}

// events is a heap by time, then by who was there first.
type events []*entry

func (h events) Len() int { return len(h) }

func (h events) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].serial < h[j].serial
}

func (h events) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

func (h *events) Push(x any) {
	e := x.(*entry)
	e.pos = len(*h)
	*h = append(*h, e)
}

func (h *events) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.pos = -1
	return e
}
