package sim

import (
	"fmt"
	"math"
	"slices"

	"github.com/mash2-io/mash2/experiments/load/queueing"
)

// graphSource is a source whose requests go through several services. All
// sources of such a world are solved together: the rate of a source depends on
// its response, this on the load of all services it visits, and that on the
// rates of all sources.
//
// The mean of a request is that of its tree of visits: visits one after the
// other add up, of visits at once the slowest counts, as if each were
// exponential: E max(a, b) = a + b − ab/(a+b). A visit varies as its work does:
// under processor sharing one that asks for twice the work takes twice as long.
// Latencies are taken to be gamma with that mean and the variance of the whole
// tree, which is exact for equal exponential visits in a row.
type graphSource struct {
	fluidStream // rates, users and the clock of its load
	root        *fluidCall
	entry       *fluidStream // for which it counts
	asks        []ask        // of each service it visits
	hang        float64      // share of requests that a lost node never answers
}

// ask is what one request asks of a service.
type ask struct {
	stream *fluidStream
	visits float64
	work   float64 // reference seconds
	// others is what the other sources ask of it, per second, in the present step.
	othersVisits, othersAsked float64
}

// fluidCall is a visit.
type fluidCall struct {
	stream      *fluidStream
	mean        Mean
	probability float64
	times       float64
	parallel    bool
	optional    bool
	calls       []*fluidCall
	variation   float64 // of the work: deviation by mean
	slot        int     // of its service in the source's asks
}

func (f *fluid) compile(c queueing.Call) (*fluidCall, error) {
	s := f.stream(c.Stream)
	mean, ok := c.Work.(Mean)
	if s == nil || !ok {
		return nil, fmt.Errorf("call of %q: %w, or its work has no mean", c.Stream, queueing.ErrUnknown)
	}
	out := &fluidCall{stream: s, mean: mean, probability: c.Probability, times: float64(max(1, c.Times)), parallel: c.Parallel, optional: c.Optional}
	if out.probability == 0 {
		out.probability = 1
	}
	out.variation = 1 // exponential
	if v, ok := c.Work.(interface{ Variation() float64 }); ok {
		out.variation = v.Variation()
	}
	for _, below := range c.Calls {
		next, err := f.compile(below)
		if err != nil {
			return nil, err
		}
		out.calls = append(out.calls, next)
	}
	return out, nil
}

// AddSource adds a source that has no users yet.
func (f *fluid) AddSource(c queueing.Source) error {
	root, err := f.compile(c.Request)
	if err != nil {
		return fmt.Errorf("source %q: %w", c.Name, err)
	}
	think, ok := c.Think.(Mean)
	if !ok {
		return fmt.Errorf("source %q: the fluid model needs the mean of thinking", c.Name)
	}
	s := &graphSource{root: root, entry: root.stream}
	s.Name, s.Timeout, s.think = c.Name, c.Timeout, think.MeanSeconds()
	s.collect(root)
	f.sources = append(f.sources, s)
	return nil
}

// collect finds the services of a call and all below it.
func (s *graphSource) collect(c *fluidCall) {
	c.slot = slices.IndexFunc(s.asks, func(a ask) bool { return a.stream == c.stream })
	if c.slot < 0 {
		c.slot = len(s.asks)
		s.asks = append(s.asks, ask{stream: c.stream})
	}
	for _, below := range c.calls {
		s.collect(below)
	}
}

// left reports whether an optional call is left out.
func (c *fluidCall) left() bool { return c.optional && len(c.stream.endpoints) == 0 }

// add sums what one request asks of each service: visits and work.
func (c *fluidCall) add(times float64, to []ask) {
	if c.left() {
		return
	}
	times *= c.probability * c.times
	to[c.slot].visits += times
	to[c.slot].work += times * c.mean.MeanSeconds()
	for _, below := range c.calls {
		below.add(times, to)
	}
}

// response is the mean and the variance of the time that the call takes with all
// below it, not being made counting as none.
func (c *fluidCall) response() (mean, variance float64) {
	if c.left() {
		return 0, 0
	}
	var below, spread float64
	for _, next := range c.calls {
		m, v := next.response()
		if c.parallel {
			below, spread = slower(below, spread, m, v)
		} else {
			below, spread = below+m, spread+v
		}
	}
	visit, square := c.stream.visit, c.stream.visitSquare
	mean, variance = visit+below, (1+c.variation*c.variation)*square-visit*visit+spread
	mean, variance = c.times*mean, c.times*variance
	// Made or not made.
	return c.probability * mean, c.probability * (variance + (1-c.probability)*mean*mean)
}

// slower is the mean and the variance of the longer of two times. Both are those of
// exponential ones, the variance in the proportion that theirs have to an
// exponential's.
func slower(a, va, b, vb float64) (mean, variance float64) {
	if a == 0 || b == 0 || math.IsInf(a+b, 1) {
		return a + b, va + vb
	}
	both := a * b / (a + b)
	mean = a + b - both
	variance = 2*(a*a+b*b-both*both) - mean*mean
	return mean, variance * (va + vb) / (a*a + b*b)
}

// stepGraph lets all sources of a graph go on for dt seconds.
func (f *fluid) stepGraph(dt float64) {
	for _, s := range f.sources {
		s.prepareAsks()
		s.users = 0
		switch {
		case s.arrivals != nil:
			s.rate = max(0, s.arrivals.RPS(f.now-s.begin))
			s.rate = max(0, s.rate+f.rng.NormFloat64()*math.Sqrt(s.rate/dt))
		case s.begun:
			s.users = s.ramp.VUs(f.now - s.begin)
			s.rate = min(s.rate, float64(s.users)/max(s.think, 1e-3))
		default:
			s.rate = 0
		}
	}
	patience := 0.0 // of the users that wait for longest
	for _, s := range f.sources {
		patience = max(patience, s.Timeout.Seconds())
	}
	for _, s := range f.streams {
		s.dt, s.patience = dt, patience
	}
	f.load()
	// Gauss–Seidel over the sources; each is solved given the others.
	const rounds, precision = 12, 1e-5
	for range rounds {
		change := 0.0
		for _, s := range f.sources {
			if s.arrivals == nil && s.begun {
				before := s.rate
				f.solve(s)
				change = max(change, math.Abs(s.rate-before)/max(s.rate, 1e-3))
			}
		}
		if change < precision {
			break
		}
	}
	for _, s := range f.sources {
		s.count(dt)
	}
	for _, s := range f.streams {
		if k := float64(len(s.endpoints)); k > 0 {
			f.spend(s, s.visits/k*dt, math.Sqrt2, dt)
			s.visited += s.visits * dt
			s.visitSeconds += s.visits * dt * min(s.visit, patience)
			for i, p := range s.endpoints {
				if kind := s.classOf[i]; kind >= 0 {
					p.queue = s.classes[kind].queueAfter(s.visits/k, s.work, dt, patience)
					p.inFlight = s.visits / k * min(s.visit, patience)
				}
			}
		}
	}
}

// prepareAsks sums what a request asks now, and how likely it is to hang.
func (s *graphSource) prepareAsks() {
	for i := range s.asks {
		s.asks[i].visits, s.asks[i].work = 0, 0
	}
	s.root.add(1, s.asks)
	answered := 1.0
	for _, a := range s.asks {
		if a.stream.lost > 0 {
			answered *= math.Pow(1-a.stream.lost/float64(len(a.stream.endpoints)), a.visits)
		}
	}
	s.hang = 1 - answered
}

// load computes the load and the response of every service from the sources'
// rates.
func (f *fluid) load() {
	for _, s := range f.streams {
		s.visits, s.asked = 0, 0
	}
	for _, src := range f.sources {
		for _, a := range src.asks {
			a.stream.visits += src.rate * a.visits
			a.stream.asked += src.rate * a.work
		}
	}
	for _, s := range f.streams {
		s.respond()
	}
}

// respond computes how long a visit that is answered takes on average, at the end of a step.
func (s *fluidStream) respond() {
	if s.visits > 0 {
		s.work = s.asked / s.visits
	}
	s.visit, s.visitSquare = 0, 0
	if s.live == 0 {
		return // refused at once, or never answered
	}
	k := float64(len(s.endpoints))
	for _, c := range s.classes {
		mean := c.answer(c.served(c.queueAfter(s.visits/k, s.work, s.dt, s.patience), s.work), s.work).mean()
		s.visit += c.count / s.live * mean
		s.visitSquare += c.count / s.live * mean * mean
	}
}

// served is the rate that a queue of so many requests is served at: that of which it would be
// the mean length in M/M/1.
func (c class) served(queue, work float64) float64 {
	if queue == 0 {
		return 0
	}
	return queue / (1 + queue) * c.capacity * c.speed / work
}

// queueAfter is the queue of a pod, a mean number of requests, after dt seconds at a rate: it comes
// nearer to that of the stationary state, and grows by what comes beyond the capacity until who
// waits gives up. It is the pointwise stationary fluid flow approximation of M/M/1 (Wang, Tipper
// and Banerjee 1996),
//
//	dL/dt = λ − μ·L/(1+L)
//
// by one step of the implicit Euler method. Rounded, so that pods remain alike that are.
func (c class) queueAfter(rate, work, dt, patience float64) float64 {
	if work == 0 { // nobody came yet
		return 0
	}
	const precision = 1e3
	most := c.capacity * c.speed / work // μ
	a := c.queue + rate*dt
	b := a - 1 - most*dt
	after := (b + math.Sqrt(b*b+4*a)) / 2
	return math.Round(precision*min(after, most*patience)) / precision
}

// solve finds the rate at which a closed source's users are all accounted for,
// and leaves the services with the load and the response of that.
func (f *fluid) solve(s *graphSource) {
	for i := range s.asks {
		a := &s.asks[i]
		a.othersVisits = max(0, a.stream.visits-s.rate*a.visits)
		a.othersAsked = max(0, a.stream.asked-s.rate*a.work)
	}
	timeout := s.Timeout.Seconds()
	at := func(rate float64) float64 {
		for i := range s.asks {
			a := &s.asks[i]
			a.stream.visits, a.stream.asked = a.othersVisits+rate*a.visits, a.othersAsked+rate*a.work
			a.stream.respond()
		}
		r, _ := s.root.response()
		return s.hang*timeout + (1-s.hang)*min(r, timeout)
	}
	if n := float64(s.users); n > 0 {
		s.rate = closedRate(n, s.think, s.rate, at)
	} else {
		s.rate = 0
	}
	at(s.rate)
}

// count notes what became of a source's requests: some hang on a lost node, some
// are refused if any of their visits is, and some wait in vain where a service
// can't keep up.
func (s *graphSource) count(dt float64) {
	n := s.rate * dt
	if n == 0 {
		return
	}
	timeout := s.Timeout.Seconds()
	s.entry.timedOut(n*s.hang, timeout)
	n *= 1 - s.hang
	pass, keep := 1.0, 1.0
	for _, a := range s.asks {
		v := a.stream
		switch k := float64(len(v.endpoints)); {
		case k == 0 && a.visits > 0:
			pass = 0
		case v.refusing > 0:
			pass *= math.Pow(1-v.refusing/k, a.visits)
		}
		if able := v.able(); v.asked > able && v.live > 0 {
			keep = min(keep, able/v.asked)
		}
	}
	s.entry.counts.refused += n * (1 - pass)
	n *= pass
	mean, variance := s.root.response()
	if math.IsInf(mean, 1) || mean > timeout {
		s.entry.timedOut(n*(1-keep), timeout)
		s.entry.saturated(n*keep, keep, timeout)
		return
	}
	s.entry.gamma(n, mean, variance, timeout)
}

// normals are the standard normal quantiles at the middles of equal shares.
var normals = func() (out [20]float64) {
	for i := range out {
		out[i] = math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/float64(len(out))-1)
	}
	return out
}()

// gamma counts n requests whose latency is gamma with this mean and variance,
// by Wilson and Hilferty's quantiles.
func (s *fluidStream) gamma(n, mean, variance, timeout float64) {
	if n <= 0 || mean <= 0 {
		return
	}
	shape := max(mean*mean/max(variance, 1e-18), 0.25)
	if s.shape != shape { // it seldom changes: that of pods that are alike is 1
		s.shape = shape
		for i, z := range normals {
			s.logs[i] = 3 * math.Log(max(1-1/(9*shape)+z/(3*math.Sqrt(shape)), 0))
		}
	}
	each := n / float64(len(normals))
	scale, longest := math.Log(mean), math.Log(timeout)
	for _, x := range s.logs {
		if x += scale; x >= longest {
			s.counts.timedOut += each
			x = longest
		} else {
			s.counts.succeeded += each
		}
		s.record(x, each)
	}
}

// graphSourceOf finds a source by name; nil if there is none.
func (f *fluid) graphSourceOf(name string) *graphSource {
	i := slices.IndexFunc(f.sources, func(s *graphSource) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return f.sources[i]
}
