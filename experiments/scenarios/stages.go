package scenarios

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Stage ramps the number of virtual users linearly to Target over Duration, as
// a stage of k6's ramping-vus executor does.
type Stage struct {
	Duration time.Duration
	Target   int
}

// UnmarshalText parses "duration:target".
func (s *Stage) UnmarshalText(text []byte) error {
	d, target, ok := strings.Cut(string(text), ":")
	if !ok {
		return fmt.Errorf(`%q is not a stage such as "30s:400"`, text)
	}
	var err error
	if s.Duration, err = time.ParseDuration(strings.TrimSpace(d)); err != nil || s.Duration < 0 {
		return fmt.Errorf(`%q: duration %q is not one such as 30s`, text, d)
	}
	if s.Target, err = strconv.Atoi(strings.TrimSpace(target)); err != nil || s.Target < 0 {
		return fmt.Errorf(`%q: target %q is not a number of virtual users`, text, target)
	}
	return nil
}

// MarshalText writes the stage as "duration:target".
func (s Stage) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%s:%d", s.Duration, s.Target), nil
}

// Ramp is the number of virtual users over time: Passes times the same stages,
// each pass beginning anew at Start. The zero value has none.
type Ramp struct {
	Start  int
	Stages []Stage
	Passes int
}

// Ramp of the scenario over a number of passes.
func (s Scenario) Ramp(passes int) Ramp {
	return Ramp{Start: *s.StartVUs, Stages: s.Stages, Passes: passes}
}

// PassDuration is the length of one pass: that of the longest load in it. It is
// 0 for arrivals whose trace was not read.
func (s Scenario) PassDuration() time.Duration {
	longest := time.Duration(0)
	for _, l := range s.loads() {
		if l.arrivals != nil {
			longest = max(longest, l.arrivals.Duration())
		} else {
			longest = max(longest, Ramp{Stages: l.stages, Passes: 1}.Duration())
		}
	}
	return longest
}

// Duration of all passes together.
func (r Ramp) Duration() time.Duration { return time.Duration(r.Passes) * r.pass() }

func (r Ramp) pass() time.Duration {
	var d time.Duration
	for _, s := range r.Stages {
		d += s.Duration
	}
	return d
}

// Max is the largest number of virtual users.
func (r Ramp) Max() int {
	n := r.Start
	for _, s := range r.Stages {
		n = max(n, s.Target)
	}
	return n
}

// VUs at time t. As in k6, the n-th user of a ramp up starts when the straight
// line reaches n, and the n-th user of a ramp down stops when it has come down
// to n−1: VUs is the line rounded towards the earlier value. Outside the
// passes there are none.
func (r Ramp) VUs(t time.Duration) int {
	pass := r.pass()
	if t < 0 || pass <= 0 || t >= r.Duration() {
		return 0
	}
	at := t % pass
	from := r.Start
	for _, s := range r.Stages {
		if at < s.Duration {
			return from + int(int64(s.Target-from)*int64(at)/int64(s.Duration))
		}
		at -= s.Duration
		from = s.Target
	}
	return from
}

// Next is the first time after t at which VUs may change; false if it doesn't
// any more.
func (r Ramp) Next(t time.Duration) (time.Duration, bool) {
	pass := r.pass()
	if t < 0 {
		return 0, r.Duration() > 0
	}
	if pass <= 0 || t >= r.Duration() {
		return 0, false
	}
	begin := t / pass * pass
	at, from := t-begin, r.Start
	for _, s := range r.Stages {
		if at < s.Duration {
			diff := int64(s.Target - from)
			if diff < 0 {
				diff = -diff
			}
			if diff == 0 {
				return begin + s.Duration, true
			}
			// The k-th step is at ⌈duration·k/diff⌉, the least time at which
			// VUs' rounded-down product reaches k.
			k := diff*int64(at)/int64(s.Duration) + 1
			step := (int64(s.Duration)*k + diff - 1) / diff
			return begin + time.Duration(step), true
		}
		at -= s.Duration
		begin += s.Duration
		from = s.Target
	}
	return begin, true
}
