package strategic

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
)

// signalStates are what the signals are now, in their order. A signal turns on at one
// value and off at another; between them, while it can't be read, and until it has stayed
// as long as it must, it is what it was. One that was never read is off.
func signalStates(signals []api.Signal, c api.Context, now time.Time) []api.SignalState {
	var out []api.SignalState
	for _, s := range signals {
		last := api.SignalState{Name: s.Name}
		for _, l := range c.Last {
			if l.Name == s.Name {
				last = l
			}
		}
		out = append(out, turn(s, reading(s, c), last, now))
	}
	return out
}

// reading of a signal in a context. One of another source is none.
func reading(s api.Signal, c api.Context) api.SignalReading {
	source := s.Source()
	for _, r := range c.Signals {
		if r.Name != s.Name || r.Source != source {
			continue
		}
		if r.Missing == "" && s.Compare != api.CompareEquals && (math.IsNaN(r.Value) || math.IsInf(r.Value, 0)) {
			r.Missing = fmt.Sprintf("it reads %s, which is no finite number", r)
		}
		return r
	}
	return api.SignalReading{Name: s.Name, Source: source, Missing: "it was not read yet"}
}

// turn is what a signal becomes of what it was.
func turn(s api.Signal, r api.SignalReading, last api.SignalState, now time.Time) api.SignalState {
	next := last
	if r.Missing != "" {
		next.Reason = fmt.Sprintf("it can't be read (%s), so it stays %s", r.Missing, onOff(last.On))
		return next
	}
	on, why := compare(s, r, last.On)
	if on == last.On {
		next.Reason = why
		return next
	}
	if stays := last.Since.Add(s.MinStay); !last.Since.IsZero() && now.Before(stays) {
		next.Reason = fmt.Sprintf("it stays %s until %s at least, although %s", onOff(last.On), stays.UTC().Format(time.RFC3339), why)
		return next
	}
	return api.SignalState{Name: s.Name, On: on, Since: now, Reason: why}
}

// compare says whether a reading means on, for a signal that was on or off.
func compare(s api.Signal, r api.SignalReading, was bool) (on bool, why string) {
	switch s.Compare {
	case api.CompareEquals:
		if on = strings.TrimSpace(r.Text) == s.Text; on {
			return on, fmt.Sprintf("it reads %q", r.Text)
		}
		return on, fmt.Sprintf("it reads %q, not %q", r.Text, s.Text)
	case api.CompareBelow:
		switch {
		case r.Value <= s.On:
			return true, fmt.Sprintf("%s is not above %g", r, s.On)
		case was && r.Value <= s.Off:
			return true, fmt.Sprintf("%s is not above %g, from which it is off", r, s.Off)
		}
		return false, fmt.Sprintf("%s is above %g", r, limit(s, was))
	default: // CompareAbove
		switch {
		case r.Value >= s.On:
			return true, fmt.Sprintf("%s is not below %g", r, s.On)
		case was && r.Value >= s.Off:
			return true, fmt.Sprintf("%s is not below %g, from which it is off", r, s.Off)
		}
		return false, fmt.Sprintf("%s is below %g", r, limit(s, was))
	}
}

// limit that a signal, on or off, would have to reach to be on.
func limit(s api.Signal, was bool) float64 {
	if was {
		return s.Off
	}
	return s.On
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// Unread says which signals can't be read, and what they do meanwhile.
func Unread(spec api.PolicySpec, s api.Snapshot) []api.Finding {
	var out []api.Finding
	for i, signal := range spec.Signals {
		r := reading(signal, s.Context)
		if r.Missing == "" {
			continue
		}
		out = append(out, api.Finding{
			Severity: api.Warning, Agent: api.StrategicAgent, Reason: "SignalUnreadable", Object: api.PolicyRef,
			Message: fmt.Sprintf("signals[%d] %s: %s; its last choice stays in force", i, signal.Name, r.Missing),
		})
	}
	return out
}
