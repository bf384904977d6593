package scenarios

import (
	"math"
	"math/rand/v2"
	"time"
)

// load is stages or arrivals and the share of them that a type of users has.
type load struct {
	start    int
	stages   []Stage
	arrivals *Arrivals
	share    float64
}

// loads of the types of users, in their order.
func (s Scenario) loads() []load {
	start := 1
	if s.StartVUs != nil {
		start = *s.StartVUs
	}
	whole := load{start: start, stages: s.Stages, arrivals: s.Arrivals, share: 1}
	if len(s.Users) == 0 {
		return []load{whole}
	}
	out := make([]load, len(s.Users))
	for i, u := range s.Users {
		out[i] = whole
		out[i].share = u.Share
		if len(u.Stages) > 0 || u.Arrivals != nil {
			out[i] = load{start: 1, stages: u.Stages, arrivals: u.Arrivals, share: 1}
			if u.StartVUs != nil {
				out[i].start = *u.StartVUs
			}
		}
	}
	return out
}

// Traffic is what asks for service over time, with the scenario's events and
// noise in it: virtual users where there are stages, else arrivals.
type Traffic struct {
	load
	ramp   Ramp // one pass
	pass   time.Duration
	passes int
	warmup int
	events []Event     // that concern the load
	work   []Event     // that concern the work of every request
	noise  []float64   // factor by second, from time 0
	storms [][]float64 // by event, with noise; else nil
	// Shift moves the load within the pass: what is due at this time comes
	// first. Events and noise stay where they are.
	Shift time.Duration
}

// shifted is the time of a pass whose load comes at time at of it.
func (l Traffic) shifted(at time.Duration) time.Duration { return (at + l.Shift) % l.pass }

// Traffic of the first type of users over a number of passes, warm-up included;
// scenarios without types have one. The seed is that of the noise.
func (s Scenario) Traffic(passes int, seed uint64) Traffic { return s.TrafficOf(0, passes, seed) }

// TrafficOf is the traffic of the type of users with this index in UserTypes.
func (s Scenario) TrafficOf(user, passes int, seed uint64) Traffic {
	l := Traffic{load: s.loads()[user], pass: s.PassDuration(), passes: passes, warmup: min(s.Warmup.Passes, passes)}
	l.ramp = Ramp{Start: l.start, Stages: l.stages, Passes: 1}
	name := s.UserTypes()[user].Name
	service := s.UserTypes()[user].Request.Service
	seconds := int(l.pass.Seconds())*passes + 1
	stream := 11 + 1000*uint64(user)
	l.noise = s.Noise.factors(seed, stream, seconds)
	for i, e := range s.Events {
		if e.WorkFactor > 0 && (e.Service == "" || e.Service == service) {
			l.work = append(l.work, e)
		}
		if e.LoadFactor > 0 && (e.Users == "" || e.Users == name) || e.Noise != nil {
			if e.Users != "" && e.Users != name {
				e.LoadFactor = 0
			}
			l.events = append(l.events, e)
			l.storms = append(l.storms, e.Noise.factors(seed, stream+1+uint64(i), seconds))
		}
	}
	return l
}

// factors of the noise by second, with mean 1.
func (n *Noise) factors(seed, stream uint64, seconds int) []float64 {
	if n == nil || n.Deviation == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(seed, stream))
	keep := math.Exp(-1 / n.Correlation.Seconds())
	kick := n.Deviation * math.Sqrt(1-keep*keep)
	out := make([]float64, seconds)
	x := n.Deviation * rng.NormFloat64()
	for i := range out {
		out[i] = math.Exp(x - n.Deviation*n.Deviation/2)
		x = keep*x + kick*rng.NormFloat64()
	}
	return out
}

// Open tells whether load is arrivals.
func (l Traffic) Open() bool { return l.arrivals != nil }

func (l Traffic) plain() bool { return l.share == 1 && len(l.noise) == 0 && len(l.events) == 0 }

func (l Traffic) end() time.Duration { return time.Duration(l.passes) * l.pass }

// factor is what share, noise and events make of the load at time t.
func (l Traffic) factor(t time.Duration) float64 {
	f := l.share
	second := int(t / time.Second)
	if len(l.noise) > 0 {
		f *= l.noise[min(second, len(l.noise)-1)]
	}
	at := t % l.pass
	for i, e := range l.events {
		if !e.during(at) {
			continue
		}
		if e.LoadFactor > 0 {
			f *= e.LoadFactor
		}
		if storm := l.storms[i]; len(storm) > 0 {
			f *= storm[min(second, len(storm)-1)]
		}
	}
	return f
}

// Work is what events make of the work of a request's first visit at time t.
func (l Traffic) Work(t time.Duration) float64 {
	f := 1.0
	for _, e := range l.work {
		if e.during(t % l.pass) {
			f *= e.WorkFactor
		}
	}
	return f
}

// VUs are the virtual users at time t; it implements queueing.Ramp with Next.
func (l Traffic) VUs(t time.Duration) int {
	if t < 0 || l.pass <= 0 || t >= l.end() || l.Open() {
		return 0
	}
	n := l.ramp.VUs(l.shifted(t % l.pass))
	if n == 0 || l.plain() {
		return n
	}
	return int(math.Round(float64(n) * l.factor(t)))
}

// Next is the next time at which VUs may change.
func (l Traffic) Next(t time.Duration) (time.Duration, bool) {
	if t < 0 {
		return 0, l.end() > 0
	}
	if l.pass <= 0 || t >= l.end() {
		return 0, false
	}
	begin := t / l.pass * l.pass
	next := l.pass
	if at, more := l.ramp.Next(t - begin); more {
		next = min(next, at)
	}
	next += begin
	if l.plain() && l.Shift == 0 {
		return next, true
	}
	return min(next, t.Truncate(time.Second)+time.Second), true
}

// RPS are the arrivals per second at time t, linear between the rows.
func (l Traffic) RPS(t time.Duration) float64 {
	if !l.Open() || t < 0 || l.pass <= 0 || t >= l.end() {
		return 0
	}
	return l.arrivals.rate(l.shifted(t%l.pass), l.ahead(t)) * l.factor(t)
}

// ahead is how many passes of warm-up are still to come at time t.
func (l Traffic) ahead(t time.Duration) int { return max(0, l.warmup-int(t/l.pass)) }

// MaxRPS is no less than RPS at any time within the next second.
func (l Traffic) MaxRPS(t time.Duration) float64 {
	if !l.Open() || l.pass <= 0 {
		return 0
	}
	const window = time.Second
	// RPS is a product of a piecewise linear function and of piecewise constant
	// ones: look at all their corners, from both sides.
	most := 0.0
	look := func(at time.Duration) {
		for _, x := range []time.Duration{at - 1, at, at + 1} {
			if x >= t && x <= t+window {
				most = max(most, l.RPS(x))
			}
		}
	}
	look(t)
	look(t + window)
	look(t.Truncate(time.Second) + time.Second)
	begin := t / l.pass * l.pass
	for _, b := range []time.Duration{begin, begin + l.pass} {
		look(b)
		for _, e := range l.events {
			look(b + e.At.Duration)
			look(b + e.At.Duration + e.For.Duration)
		}
		if l.Shift != 0 { // corners are elsewhere: a bound between seconds is near enough
			for at := t; at <= t+window; at += window / 4 {
				look(at)
			}
			continue
		}
		l.arrivals.corners(t-b, t-b+window, l.ahead(b), func(at time.Duration) { look(b + at) })
	}
	if l.Shift != 0 {
		most *= 1.05
	}
	return most * (1 + 1e-6) // between corner and neighbour lies a nanosecond
}

// Peak is the highest load of one pass: users or arrivals per second.
func (s Scenario) Peak() float64 {
	quiet := s
	quiet.Noise = nil
	most := 0.0
	for i := range s.UserTypes() {
		most += quiet.TrafficOf(i, 1, 0).Peak()
	}
	return most
}

// Peak is the highest load of one pass: users or arrivals per second.
func (l Traffic) Peak() float64 {
	l.warmup = 0
	most := 0.0
	for t := time.Duration(0); t < l.pass; t += max(time.Second, l.pass/20_000) {
		if l.Open() {
			most = max(most, l.RPS(t))
		} else {
			most = max(most, float64(l.VUs(t)))
		}
	}
	return most
}
