package queueing

import (
	"fmt"
	"time"
)

type outcome int

const (
	succeeded outcome = iota
	refused           // no endpoint, or one that doesn't accept
	reset             // the pod went away
	timedOut
	outcomes
)

// Counts of requests.
type Counts struct {
	Started   uint64
	Succeeded uint64
	Refused   uint64
	Reset     uint64
	TimedOut  uint64
}

// Failed is the number of requests that failed.
func (c Counts) Failed() uint64 { return c.Refused + c.Reset + c.TimedOut }

// Ended is the number of requests that ended, one way or the other.
func (c Counts) Ended() uint64 { return c.Succeeded + c.Failed() }

// Plus returns c + o.
func (c Counts) Plus(o Counts) Counts {
	return Counts{
		Started:   c.Started + o.Started,
		Succeeded: c.Succeeded + o.Succeeded,
		Refused:   c.Refused + o.Refused,
		Reset:     c.Reset + o.Reset,
		TimedOut:  c.TimedOut + o.TimedOut,
	}
}

func (c Counts) minus(o Counts) Counts {
	return Counts{
		Started:   c.Started - o.Started,
		Succeeded: c.Succeeded - o.Succeeded,
		Refused:   c.Refused - o.Refused,
		Reset:     c.Reset - o.Reset,
		TimedOut:  c.TimedOut - o.TimedOut,
	}
}

// Window is what happened in a stream over some time.
type Window struct {
	Counts
	// Latency of the requests that succeeded or timed out; one that timed out
	// counts as long as its user waited. Refused and reset requests have none.
	Latency Histogram
}

// Add merges another window into w.
func (w *Window) Add(o Window) {
	w.Counts = w.Plus(o.Counts)
	w.Latency.Add(o.Latency)
}

// StreamState is a stream as it is now.
type StreamState struct {
	Users     int // virtual users that think or wait
	Waiting   int // requests in flight
	Endpoints int
	Usage     float64 // core seconds of its pods, gone ones too; only grows
	Work      float64 // the same in reference core seconds
}

// PodState is a pod as it is now. Counters only grow.
type PodState struct {
	Pod
	Usage            float64 // core seconds of its node
	Starting         bool    // its startup isn't over
	InFlight         int
	Periods          uint64 // quota periods in which it ran
	ThrottledPeriods uint64 // in which the quota was spent
	Throttled        time.Duration
}

type stats struct {
	started uint64
	ended   [outcomes]uint64
	latency Histogram // since the last window
	taken   Counts    // totals at the last window
}

func (s *stats) record(o outcome, latency time.Duration) {
	s.ended[o]++
	if o == succeeded || o == timedOut {
		s.latency.Record(latency)
	}
}

func (s *stats) totals() Counts {
	return Counts{
		Started:   s.started,
		Succeeded: s.ended[succeeded],
		Refused:   s.ended[refused],
		Reset:     s.ended[reset],
		TimedOut:  s.ended[timedOut],
	}
}

// TakeWindow returns what happened in a stream since it was last called.
func (m *Model) TakeWindow(name string) (Window, error) {
	s := m.streams[name]
	if s == nil {
		return Window{}, fmt.Errorf("stream %q: %w", name, ErrUnknown)
	}
	totals := s.stats.totals()
	w := Window{Counts: totals.minus(s.stats.taken), Latency: s.stats.latency}
	s.stats.taken, s.stats.latency = totals, Histogram{}
	return w, nil
}

// StreamState returns how a stream is now.
func (m *Model) StreamState(name string) (StreamState, error) {
	s := m.streams[name]
	if s == nil {
		return StreamState{}, fmt.Errorf("stream %q: %w", name, ErrUnknown)
	}
	for _, n := range m.nodes {
		n.settle(m.now)
	}
	t := s.stats.totals()
	running := 0
	for _, from := range s.sources {
		running += from.running
	}
	return StreamState{
		Users: running, Waiting: int(t.Started - t.Ended()), Endpoints: len(s.endpoints),
		Usage: s.usage, Work: s.work,
	}, nil
}

// PodState returns how a pod is now; false if it is unknown.
func (m *Model) PodState(id string) (PodState, bool) {
	p := m.pods[id]
	if p == nil {
		return PodState{}, false
	}
	p.node.settle(m.now)
	return PodState{
		Pod: p.Pod, Usage: p.usage, Starting: p.startup > 0, InFlight: len(p.jobs),
		Periods: p.periods, ThrottledPeriods: p.throttledPeriods, Throttled: p.throttledTime,
	}, true
}
