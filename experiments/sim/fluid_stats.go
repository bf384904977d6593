package sim

import (
	"fmt"
	"math"

	"github.com/mash2-io/mash2/experiments/load/queueing"
)

// fluidCounts are requests; whole ones leave, the rest is carried on.
type fluidCounts struct{ succeeded, refused, reset, timedOut float64 }

// shares are the logarithms of an exponential distribution's quantiles, relative to
// its mean, at the middles of equal shares of requests.
var shares = func() (out [20]float64) {
	for i := range out {
		out[i] = math.Log(-math.Log(1 - (float64(i)+0.5)/float64(len(out))))
	}
	return out
}()

// answered counts n requests with this response.
func (s *fluidStream) answered(n float64, r response, timeout float64) {
	s.exponential(n*(1-r.share), r.base, timeout)
	s.exponential(n*r.share, r.base+r.throttled, timeout)
}

// exponential counts n requests whose latency is exponential with this mean.
func (s *fluidStream) exponential(n, mean, timeout float64) {
	if n <= 0 {
		return
	}
	late := math.Exp(-timeout / mean)
	s.counts.succeeded += n * (1 - late)
	s.counts.timedOut += n * late
	if 100*n < 0.5*float64(len(shares)) {
		return // nothing that record would note
	}
	scale, longest := math.Log(mean), math.Log(timeout)
	for _, x := range shares {
		s.record(min(x+scale, longest), n/float64(len(shares)))
	}
}

// timedOut counts n requests whose users gave up.
func (s *fluidStream) timedOut(n, timeout float64) {
	if n > 0 {
		s.counts.timedOut += n
		s.record(math.Log(timeout), n)
	}
}

// saturated counts n requests that were answered in time, as this share was of all
// that came while more came than can be served: latencies are exponential and such
// that the others take longer than the timeout.
func (s *fluidStream) saturated(n, share, timeout float64) {
	if n <= 0 {
		return
	}
	s.counts.succeeded += n
	share = min(share, 1-1e-9)
	mean := -timeout / math.Log1p(-share)
	for i := range shares {
		q := (float64(i) + 0.5) / float64(len(shares))
		s.record(math.Log(-mean*math.Log1p(-q*share)), n/float64(len(shares)))
	}
}

// record notes the latency of n requests, by the logarithm of its seconds, in
// hundredths of requests, so that small numbers leave their trace; quantiles don't
// mind.
func (s *fluidStream) record(latency, n float64) {
	if count := uint64(100*n + 0.5); count > 0 {
		s.latency.RecordLog(latency, count)
	}
}

// TakeWindow lends the latencies until it is called again.
func (f *fluid) TakeWindow(name string) (queueing.Window, error) {
	f.catchUp()
	s := f.stream(name)
	if s == nil {
		return queueing.Window{}, fmt.Errorf("stream %q: %w", name, queueing.ErrUnknown)
	}
	whole := func(x *float64) uint64 {
		n := math.Floor(*x)
		*x -= n
		return uint64(n)
	}
	w := queueing.Window{Latency: s.latency}
	w.Succeeded, w.Refused = whole(&s.counts.succeeded), whole(&s.counts.refused)
	w.Reset, w.TimedOut = whole(&s.counts.reset), whole(&s.counts.timedOut)
	w.Started = w.Ended()
	s.latency, s.taken = s.taken.Cleared(), s.latency
	return w, nil
}

func (f *fluid) StreamState(name string) (queueing.StreamState, error) {
	f.catchUp()
	s := f.stream(name)
	if s == nil {
		return queueing.StreamState{}, fmt.Errorf("stream %q: %w", name, queueing.ErrUnknown)
	}
	var waiting float64
	for _, p := range s.endpoints {
		waiting += p.inFlight
	}
	users := s.users
	for _, src := range f.sources {
		if src.entry == s {
			users += src.users
		}
	}
	return queueing.StreamState{Users: users, Waiting: int(waiting), Endpoints: len(s.endpoints), Usage: s.usage, Work: s.done}, nil
}

func (f *fluid) PodState(id string) (queueing.PodState, bool) {
	f.catchUp()
	p := f.pods[id]
	if p == nil {
		return queueing.PodState{}, false
	}
	return queueing.PodState{Pod: p.Pod, Usage: p.usage, Starting: p.startup > 0, InFlight: int(p.inFlight)}, true
}
