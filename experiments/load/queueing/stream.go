package queueing

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Ramp is the wanted number of virtual users at times since the stream began.
type Ramp interface {
	VUs(t time.Duration) int
	// Next is the first time after t at which VUs may change; false if it
	// doesn't any more.
	Next(t time.Duration) (time.Duration, bool)
}

// Arrivals are requests that come whatever becomes of those before, as a Poisson
// process whose rate changes.
type Arrivals interface {
	// RPS is the rate at time t since the stream began, MaxRPS a bound of it
	// for at least a second from t on.
	RPS(t time.Duration) float64
	MaxRPS(t time.Duration) float64
}

// Sampler draws durations in seconds.
type Sampler interface {
	Sample(r *rand.Rand) float64
}

// Stream is a service and, unless Think is nil, a closed population of virtual
// users who ask it and no other.
type Stream struct {
	Name string
	// Work of a request in reference CPU seconds.
	Work Sampler
	// Think is the time between a response and the next request.
	Think Sampler
	// Timeout after which a user gives up.
	Timeout time.Duration
}

// Source is who sends one kind of request.
type Source struct {
	Name string
	// Think is the time between a response and the next request of a virtual
	// user; arrivals have no use for it.
	Think   Sampler
	Timeout time.Duration
	// Request is the first visit. What becomes of requests counts for its stream.
	Request Call
}

// Call is a visit to a stream's pods: one of them does the work, then the calls
// below are made, and the visit is over when all of them are. One that fails
// makes the whole request fail, and what else is being done for it is given up.
type Call struct {
	Stream string
	Work   Sampler
	// Probability that the call is made; 0 counts as 1.
	Probability float64
	// Times it is made, one after the other; 0 counts as 1.
	Times int
	// Parallel makes the calls below at once; else they are made one after the
	// other.
	Parallel bool
	// Optional calls are left out while the stream has no endpoint.
	Optional bool
	Calls    []Call
}

// stream is the state of a service.
type stream struct {
	Stream
	endpoints []*pod
	route     *rand.Rand
	sources   []*source // whose requests begin here
	stats     stats
	usage     float64 // core seconds of whichever nodes
	work      float64 // reference core seconds
}

// source is the state of a Source. Its entry is the next change of the number
// of users, or the next arrival.
type source struct {
	Source
	*entry
	stream   *stream // of the first visit
	root     *call
	seed     uint64 // of its first user
	ramp     Ramp
	arrivals Arrivals      // instead of a ramp; nil for none
	idle     []*user       // who send arrivals and have none now
	bound    float64       // of the rate of the arrival that is due
	begin    time.Duration // of the ramp
	users    []*user
	active   int // users[:active] go on after a response
	running  int // users that think or wait
}

// call is a Call whose streams were found.
type call struct {
	stream      *stream
	work        Sampler
	probability float64
	times       int
	parallel    bool
	optional    bool
	calls       []*call
}

func (m *Model) compile(c Call) (*call, error) {
	s := m.streams[c.Stream]
	if s == nil {
		return nil, fmt.Errorf("stream %q: %w", c.Stream, ErrUnknown)
	}
	if c.Work == nil || c.Probability < 0 || c.Probability > 1 || c.Times < 0 {
		return nil, fmt.Errorf("call of %q: work, a probability and a number of times are needed", c.Stream)
	}
	out := &call{stream: s, work: c.Work, probability: c.Probability, times: max(1, c.Times), parallel: c.Parallel, optional: c.Optional}
	if out.probability == 0 {
		out.probability = 1
	}
	for _, below := range c.Calls {
		next, err := m.compile(below)
		if err != nil {
			return nil, err
		}
		out.calls = append(out.calls, next)
	}
	return out, nil
}

func (s *source) fire(m *Model) {
	if s.arrivals != nil {
		s.arrive(m)
		return
	}
	t := m.now - s.begin
	want := s.ramp.VUs(t)
	for len(s.users) < want {
		// One generator per user, the same in every stream: which requests
		// are slow must not depend on how a scaler fares.
		s.newUser(m)
	}
	before := s.active
	s.active = want
	for _, u := range s.users[min(before, want):want] {
		if u.state == stopped {
			s.running++
			u.request(m)
		}
	}
	for _, u := range s.users[want:max(before, want)] {
		if u.state == thinking {
			u.stop(m)
		}
	}
	if next, more := s.ramp.Next(t); more {
		m.schedule(s.entry, s.begin+next)
	}
}

func (s *source) newUser(m *Model) *user {
	i := len(s.users)
	u := &user{source: s, index: i, rng: rand.New(rand.NewPCG(m.seed, s.seed+uint64(i)))}
	u.entry = m.newEntry(u)
	s.users = append(s.users, u)
	return u
}

// arrive lets a request come and draws when the next one does, by thinning: of
// the arrivals of a process with the bounding rate, as many count as the rate is
// of the bound. A request is sent by a user that has none.
func (s *source) arrive(m *Model) {
	const look = time.Second // for as long the bound holds
	t, rng := m.now-s.begin, s.stream.route
	if rng.Float64()*s.bound < s.arrivals.RPS(t) {
		var u *user
		if n := len(s.idle); n > 0 {
			u, s.idle = s.idle[n-1], s.idle[:n-1]
		} else {
			u = s.newUser(m)
		}
		s.running++
		u.request(m)
	}
	s.bound = s.arrivals.MaxRPS(t)
	wait := look
	if s.bound > 0 {
		wait = min(look, time.Duration(rng.ExpFloat64()/s.bound*float64(time.Second)))
	}
	if wait == look {
		s.bound = math.Inf(1) // nobody comes then, only the bound is looked at anew
	}
	m.schedule(s.entry, m.now+wait)
}

// user is a virtual user. Its entry is the end of its thinking, or the timeout
// of its request.
type user struct {
	*entry
	source *source
	index  int
	rng    *rand.Rand
	state  userState

	// The request it waits for.
	sent time.Duration
	root visit
	open []*visit // that pods work on
	// requests ended so far: tells whether one that began is still the same.
	ended int
}

type userState int

const (
	stopped userState = iota
	thinking
	waiting
)

// visit is a call that is being made.
type visit struct {
	user   *user
	call   *call
	parent *visit // nil of the first
	times  int    // to be made still, with this one
	next   int    // of the calls below, one after the other
	left   int    // of the calls below, at once

	pod    *pod
	finish float64 // attained service of the pod at which its work is done
	pos    int     // in pod.jobs
}

func (u *user) fire(m *Model) {
	if u.state == waiting {
		u.fail(m, timedOut)
		return
	}
	u.request(m)
}

func (u *user) request(m *Model) {
	s := u.source
	u.state, u.sent = waiting, m.now
	s.stream.stats.started++
	m.schedule(u.entry, m.now+s.Timeout)
	u.root = visit{user: u, call: s.root, times: s.root.times}
	u.root.begin(m)
}

// begin sends a visit to a pod.
func (v *visit) begin(m *Model) {
	s := v.call.stream
	work := max(v.call.work.Sample(v.user.rng), 0)
	if len(s.endpoints) == 0 {
		v.user.fail(m, refused)
		return
	}
	p := s.endpoints[s.route.IntN(len(s.endpoints))]
	if !p.accepting && !p.node.lost {
		v.user.fail(m, refused)
		return
	}
	p.node.settle(m.now)
	v.pod, v.finish = p, p.attained+work
	v.next, v.left = 0, 0
	heap.Push(&p.jobs, v)
	v.user.open = append(v.user.open, v)
	p.node.reallocate(m)
}

// served is told when the pod has done the work; the visit has left its jobs.
func (v *visit) served(m *Model) {
	v.user.close(v)
	if !v.call.parallel {
		v.goOn(m)
		return
	}
	var made []*visit
	for _, c := range v.call.calls {
		if c.made(v.user.rng) {
			made = append(made, &visit{user: v.user, call: c, parent: v, times: c.times})
		}
	}
	v.left = len(made)
	if v.left == 0 {
		v.done(m)
		return
	}
	request := v.user.ended
	for _, below := range made {
		if v.user.ended != request {
			return // one was refused at once
		}
		below.begin(m)
	}
}

func (c *call) made(rng *rand.Rand) bool {
	made := c.probability >= 1 || rng.Float64() < c.probability
	left := c.optional && len(c.stream.endpoints) == 0
	return made && !left
}

// goOn makes the next of the calls below, or ends the visit.
func (v *visit) goOn(m *Model) {
	for v.next < len(v.call.calls) {
		c := v.call.calls[v.next]
		v.next++
		if c.made(v.user.rng) {
			(&visit{user: v.user, call: c, parent: v, times: c.times}).begin(m)
			return
		}
	}
	v.done(m)
}

// done ends a visit with all below it.
func (v *visit) done(m *Model) {
	if v.times--; v.times > 0 {
		v.begin(m)
		return
	}
	switch p := v.parent; {
	case p == nil:
		v.user.respond(m, succeeded)
	case p.call.parallel:
		if p.left--; p.left == 0 {
			p.done(m)
		}
	default:
		p.goOn(m)
	}
}

// close takes a visit from those that pods work on.
func (u *user) close(v *visit) {
	for i, o := range u.open {
		if o == v {
			u.open[i] = u.open[len(u.open)-1]
			u.open[len(u.open)-1] = nil
			u.open = u.open[:len(u.open)-1]
			return
		}
	}
}

// fail ends the request, and what pods do for it.
func (u *user) fail(m *Model, o outcome) {
	for _, v := range u.open {
		p := v.pod
		p.node.settle(m.now)
		p.drop(v)
		p.node.reallocate(m)
	}
	clear(u.open)
	u.open = u.open[:0]
	u.respond(m, o)
}

// respond ends the request with an outcome and begins to think, or stops.
func (u *user) respond(m *Model, o outcome) {
	s := u.source
	s.stream.stats.record(o, m.now-u.sent)
	u.ended++
	if s.arrivals != nil {
		u.stop(m)
		s.idle = append(s.idle, u)
		return
	}
	if u.index >= s.active {
		u.stop(m)
		return
	}
	u.state = thinking
	think := time.Duration(max(s.Think.Sample(u.rng), 0) * float64(time.Second))
	m.schedule(u.entry, m.now+think)
}

func (u *user) stop(m *Model) {
	u.state = stopped
	u.source.running--
	m.schedule(u.entry, never)
}

func (s *stream) join(p *pod) {
	if !p.routed {
		p.routed = true
		s.endpoints = append(s.endpoints, p)
	}
}

func (s *stream) leave(p *pod) {
	if p.routed {
		p.routed = false
		s.endpoints = slices.DeleteFunc(s.endpoints, func(o *pod) bool { return o == p })
	}
}

// jobs is a heap of the visits that a pod works on, first to finish first.
type jobs []*visit

func (h jobs) Len() int { return len(h) }

func (h jobs) Less(i, j int) bool {
	if h[i].finish != h[j].finish {
		return h[i].finish < h[j].finish
	}
	return h[i].user.index < h[j].user.index
}

func (h jobs) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

func (h *jobs) Push(x any) {
	v := x.(*visit)
	v.pos = len(*h)
	*h = append(*h, v)
}

func (h *jobs) Pop() any {
	old := *h
	v := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	v.pos = -1
	return v
}
