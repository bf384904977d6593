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
// exponential: E max(a, b) = a + b − ab/(a+b). Latencies are taken to be gamma
// with that mean and the sum of the visits' variances, which is exact for equal
// exponential visits in a row.
type graphSource struct {
	fluidStream // rates, users and the clock of its load
	root        *fluidCall
	entry       *fluidStream // for which it counts
	rate        float64      // requests per second in the last step
}

// fluidCall is a visit.
type fluidCall struct {
	stream      *fluidStream
	mean        Mean
	probability float64
	times       float64
	parallel    bool
	calls       []*fluidCall
}

func (f *fluid) compile(c queueing.Call) (*fluidCall, error) {
	s := f.stream(c.Stream)
	mean, ok := c.Work.(Mean)
	if s == nil || !ok {
		return nil, fmt.Errorf("call of %q: %w, or its work has no mean", c.Stream, queueing.ErrUnknown)
	}
	out := &fluidCall{stream: s, mean: mean, probability: c.Probability, times: float64(max(1, c.Times)), parallel: c.Parallel}
	if out.probability == 0 {
		out.probability = 1
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
	f.sources = append(f.sources, s)
	return nil
}

// add sums what one request asks of each service: visits and work.
func (c *fluidCall) add(times float64, each func(s *fluidStream, visits, work float64)) {
	times *= c.probability * c.times
	each(c.stream, times, times*c.mean.MeanSeconds())
	for _, below := range c.calls {
		below.add(times, each)
	}
}

// response is the mean and the variance of the time the visit takes.
func (c *fluidCall) response() (mean, variance float64) {
	mean = c.stream.visit
	variance = mean * mean
	var below, spread float64
	for _, next := range c.calls {
		m, v := next.response()
		switch {
		case !c.parallel:
			below, spread = below+m, spread+v
		case below+m > 0:
			below = below + m - below*m/(below+m)
			spread = max(spread, v)
		}
	}
	times := c.probability * c.times
	return times * (mean + below), times * (variance + spread)
}

// stepGraph lets all sources of a graph go on for dt seconds.
func (f *fluid) stepGraph(dt float64) {
	for _, s := range f.sources {
		s.users, s.rate = 0, 0
		switch {
		case s.arrivals != nil:
			s.rate = max(0, s.arrivals.RPS(f.now-s.begin))
			s.rate = max(0, s.rate+f.rng.NormFloat64()*math.Sqrt(s.rate/dt))
		case s.begun:
			s.users = s.ramp.VUs(f.now - s.begin)
		}
	}
	for _, s := range f.streams {
		s.prepare()
	}
	// Gauss–Seidel over the sources; each is a bisection, given the others.
	for range 6 {
		for _, s := range f.sources {
			if s.arrivals == nil {
				f.solve(s)
			}
		}
	}
	f.load()
	for _, s := range f.sources {
		f.count(s, dt)
	}
	for _, s := range f.streams {
		f.work(s, dt)
	}
}

// prepare looks at what a service can do.
func (s *fluidStream) prepare() {
	s.caps = s.caps[:0]
	for _, p := range s.endpoints {
		c := 0.0
		if p.accepting && !p.node.lost {
			c = p.capacity()
		}
		s.caps = append(s.caps, c)
	}
}

// load computes the load and the response of every service from the sources'
// rates.
func (f *fluid) load() {
	for _, s := range f.streams {
		s.visits, s.asked = 0, 0
	}
	for _, src := range f.sources {
		rate := src.rate
		src.root.add(1, func(s *fluidStream, visits, work float64) {
			s.visits += rate * visits
			s.asked += rate * work
		})
	}
	for _, s := range f.streams {
		s.respond()
	}
}

// respond computes how long a visit takes on average.
func (s *fluidStream) respond() {
	if s.visits > 0 {
		s.work = s.asked / s.visits
	}
	k := float64(len(s.endpoints))
	if k == 0 {
		s.visit = 0 // refused at once
		return
	}
	var sum float64
	var same sameAnswer
	for i, p := range s.endpoints {
		if s.caps[i] > 0 {
			sum += same.of(p, s.visits/k, s.caps[i]).mean()
		}
	}
	s.visit = sum / k
}

// solve finds the rate at which a closed source's users are all accounted for.
func (f *fluid) solve(s *graphSource) {
	n := float64(s.users)
	if n == 0 {
		s.rate = 0
		return
	}
	lo, hi := 0.0, n/max(s.think, 1e-3)
	for range 24 {
		s.rate = (lo + hi) / 2
		f.load()
		r, _ := s.root.response()
		if s.rate*(s.think+min(r, s.Timeout.Seconds())) < n {
			lo = s.rate
		} else {
			hi = s.rate
		}
	}
}

// count notes what became of a source's requests.
func (f *fluid) count(s *graphSource, dt float64) {
	n := s.rate * dt
	if n == 0 {
		return
	}
	// A request is refused if any of its visits is, and waits in vain where a
	// service can't keep up.
	pass, keep := 1.0, 1.0
	s.root.add(1, func(v *fluidStream, visits, _ float64) {
		closed, able := 0.0, 0.0
		for i, p := range v.endpoints {
			if !p.accepting && !p.node.lost {
				closed++
			}
			able += v.caps[i] * p.node.Speed
		}
		share := 1.0
		if k := float64(len(v.endpoints)); k > 0 {
			share = closed / k
		}
		pass *= math.Pow(1-share, visits)
		if v.asked > able {
			keep = min(keep, able/v.asked)
		}
	})
	s.entry.counts.refused += n * (1 - pass)
	n *= pass
	timeout := s.Timeout.Seconds()
	mean, variance := s.root.response()
	if math.IsInf(mean, 1) || mean > timeout {
		s.entry.counts.timedOut += n * (1 - keep)
		n *= keep
		mean, variance = timeout/2, timeout*timeout/4
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
	each := n / float64(len(normals))
	for _, z := range normals {
		root := 1 - 1/(9*shape) + z/(3*math.Sqrt(shape))
		latency := mean * math.Pow(max(root, 0), 3)
		if latency >= timeout {
			s.counts.timedOut += each
			latency = timeout
		} else {
			s.counts.succeeded += each
		}
		s.record(latency, each)
	}
}

// work lets a service's pods do what is asked of them.
func (f *fluid) work(s *fluidStream, dt float64) {
	k := float64(len(s.endpoints))
	for i, p := range s.endpoints {
		if s.caps[i] == 0 {
			p.wants, p.inFlight = 0, 0
			continue
		}
		arrivals := s.visits / k * dt
		noise := f.rng.NormFloat64() * math.Sqrt(2/max(arrivals, 1))
		cores := min(max(0, s.asked/k*(1+noise))/p.node.Speed, s.caps[i])
		p.usage += cores * dt
		s.usage += cores * dt
		s.done += cores * dt * p.node.Speed
		p.wants = cores
		p.inFlight = min(s.visits/k*s.visit, 1e6)
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
