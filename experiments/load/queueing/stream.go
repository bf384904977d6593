package queueing

import (
	"container/heap"
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

// Stream is a closed population of virtual users of one workload.
type Stream struct {
	Name string
	// Work of a request in reference CPU seconds.
	Work Sampler
	// Think is the time between a response and the next request.
	Think Sampler
	// Timeout after which a user gives up.
	Timeout time.Duration
}

// stream is the state of a Stream. Its entry is the next change of the number
// of users.
type stream struct {
	Stream
	*entry
	ramp      Ramp
	arrivals  Arrivals      // instead of a ramp; nil for none
	idle      []*user       // of an open stream
	bound     float64       // of the rate of the arrival that is due
	begin     time.Duration // of the ramp
	users     []*user
	active    int // users[:active] go on after a response
	running   int // users that think or wait
	endpoints []*pod
	route     *rand.Rand
	stats     stats
	usage     float64 // core seconds of whichever nodes
	work      float64 // reference core seconds
}

func (s *stream) fire(m *Model) {
	if s.arrivals != nil {
		s.arrive(m)
		return
	}
	t := m.now - s.begin
	want := s.ramp.VUs(t)
	for len(s.users) < want {
		i := uint64(len(s.users))
		// One generator per user, the same in every stream: which requests
		// are slow must not depend on how a scaler fares.
		s.newUser(m, i)
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

func (s *stream) newUser(m *Model, i uint64) *user {
	u := &user{stream: s, index: int(i), rng: rand.New(rand.NewPCG(m.seed, i)), pos: -1}
	u.entry = m.newEntry(u)
	s.users = append(s.users, u)
	return u
}

// arrive lets a request come and draws when the next one does, by thinning: of
// the arrivals of a process with the bounding rate, as many count as the rate is
// of the bound. A request is sent by a user that has none.
func (s *stream) arrive(m *Model) {
	const look = time.Second // for as long the bound holds
	t := m.now - s.begin
	if s.route.Float64()*s.bound < s.arrivals.RPS(t) {
		var u *user
		if n := len(s.idle); n > 0 {
			u, s.idle = s.idle[n-1], s.idle[:n-1]
		} else {
			u = s.newUser(m, uint64(len(s.users)))
		}
		s.running++
		u.request(m)
	}
	s.bound = s.arrivals.MaxRPS(t)
	wait := look
	if s.bound > 0 {
		wait = min(look, time.Duration(s.route.ExpFloat64()/s.bound*float64(time.Second)))
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
	stream *stream
	index  int
	rng    *rand.Rand
	state  userState

	// The request it waits for.
	sent   time.Duration
	pod    *pod
	finish float64 // attained service of the pod at which it is done
	pos    int     // in pod.jobs
}

type userState int

const (
	stopped userState = iota
	thinking
	waiting
)

func (u *user) fire(m *Model) {
	if u.state == waiting {
		p := u.pod
		p.node.settle(m.now)
		p.drop(u)
		p.node.reallocate(m)
		u.respond(m, timedOut)
		return
	}
	u.request(m)
}

func (u *user) request(m *Model) {
	s := u.stream
	work := max(s.Work.Sample(u.rng), 0)
	u.state, u.sent = waiting, m.now
	s.stats.started++
	if len(s.endpoints) == 0 {
		u.respond(m, refused)
		return
	}
	p := s.endpoints[s.route.IntN(len(s.endpoints))]
	if !p.accepting && !p.node.lost {
		u.respond(m, refused)
		return
	}
	m.schedule(u.entry, m.now+s.Timeout)
	p.node.settle(m.now)
	u.pod, u.finish = p, p.attained+work
	heap.Push(&p.jobs, u)
	p.node.reallocate(m)
}

// respond ends the request with an outcome and begins to think, or stops.
func (u *user) respond(m *Model, o outcome) {
	s := u.stream
	s.stats.record(o, m.now-u.sent)
	u.pod = nil
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
	think := time.Duration(max(u.stream.Think.Sample(u.rng), 0) * float64(time.Second))
	m.schedule(u.entry, m.now+think)
}

func (u *user) stop(m *Model) {
	u.state = stopped
	u.stream.running--
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

// jobs is a heap of the users whose requests a pod has, first to finish first.
type jobs []*user

func (h jobs) Len() int { return len(h) }

func (h jobs) Less(i, j int) bool {
	if h[i].finish != h[j].finish {
		return h[i].finish < h[j].finish
	}
	return h[i].index < h[j].index
}

func (h jobs) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

func (h *jobs) Push(x any) {
	u := x.(*user)
	u.pos = len(*h)
	*h = append(*h, u)
}

func (h *jobs) Pop() any {
	old := *h
	u := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	u.pos = -1
	return u
}
