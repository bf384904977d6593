// Package when says at what times a sensor is read. It is pure: the same definition gives
// the same times.
package when

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/strategic"
)

// Bounds of an interval.
const (
	minEvery = time.Second
	maxEvery = 31 * 24 * time.Hour
)

// Years that an interval starts and ends in: a time.Duration is from any of them to any other.
const firstYear, lastYear = 1970, 2199

// Check reports what of a definition can't be used, by its path. Nil is every cycle.
func Check(path string, w *v1alpha1.When) error {
	if w == nil {
		return nil
	}
	kinds := 0
	if w.At != (v1alpha1.At{}) {
		kinds++
	}
	var errs []error
	for _, of := range []struct {
		name string
		list []v1alpha1.At
	}{{"allOf", w.AllOf}, {"anyOf", w.AnyOf}} {
		if len(of.list) > 0 {
			kinds++
		}
		for i, a := range of.list {
			errs = append(errs, check(fmt.Sprintf("%s.%s[%d]", path, of.name, i), a))
		}
	}
	if kinds != 1 {
		return fmt.Errorf("%s: must have one of interval, date, cron, allOf and anyOf", path)
	}
	if w.At != (v1alpha1.At{}) {
		errs = append(errs, check(path, w.At))
	}
	return errors.Join(errs...)
}

func check(path string, a v1alpha1.At) error {
	kinds := 0
	for _, is := range []bool{a.Interval != nil, a.Date != nil, a.Cron != nil} {
		if is {
			kinds++
		}
	}
	if kinds != 1 {
		return fmt.Errorf("%s: must have one of interval, date and cron", path)
	}
	switch {
	case a.Cron != nil:
		s, zone, err := parse(*a.Cron)
		if err != nil {
			return fmt.Errorf("%s.cron.%w", path, err)
		}
		if s.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, zone)).IsZero() {
			return fmt.Errorf("%s.cron.schedule: %q never fires: there is no such day", path, a.Cron.Schedule)
		}
	case a.Interval != nil:
		return checkInterval(path+".interval", *a.Interval)
	}
	return nil
}

func checkInterval(path string, i v1alpha1.Interval) error {
	switch {
	case i.Every.Duration < minEvery || i.Every.Duration > maxEvery:
		return fmt.Errorf("%s.every: must be from %v to %v, is %v", path, minEvery, maxEvery, i.Every.Duration)
	case i.Jitter.Duration < 0 || i.Jitter.Duration >= i.Every.Duration && i.Jitter.Duration > 0:
		return fmt.Errorf("%s.jitter: must be less than every, which is %v, is %v", path, i.Every.Duration, i.Jitter.Duration)
	case i.Start != nil && !usable(i.Start.Time):
		return fmt.Errorf("%s.start: must be in the years %d to %d, is %v", path, firstYear, lastYear, i.Start)
	case i.End != nil && !usable(i.End.Time):
		return fmt.Errorf("%s.end: must be in the years %d to %d, is %v", path, firstYear, lastYear, i.End)
	case i.Start != nil && i.End != nil && !i.End.After(i.Start.Time):
		return fmt.Errorf("%s.end: must be after start", path)
	}
	return nil
}

func usable(t time.Time) bool { return t.UTC().Year() >= firstYear && t.UTC().Year() <= lastYear }

// Next returns when a sensor is due that was last read at a time, the zero time if it never
// was, and false if it is never due again. One without a definition is due at once. The
// name is what jitter is drawn from.
//
// allOf is due when each has come since the last reading, anyOf when one has. An interval,
// a cron expression and a sensor without a definition that were never read are due at
// once, an interval from its start on; a date is due once.
func Next(w *v1alpha1.When, name string, last time.Time) (time.Time, bool) {
	switch {
	case w == nil:
		return last, true
	case len(w.AllOf) > 0:
		var out time.Time
		for _, a := range w.AllOf {
			at, ok := next(a, name, last)
			if !ok {
				return at, false
			}
			if at.After(out) {
				out = at
			}
		}
		return out, true
	case len(w.AnyOf) > 0:
		var out time.Time
		found := false
		for _, a := range w.AnyOf {
			if at, ok := next(a, name, last); ok && (!found || at.Before(out)) {
				out, found = at, true
			}
		}
		return out, found
	}
	return next(w.At, name, last)
}

func next(a v1alpha1.At, name string, last time.Time) (time.Time, bool) {
	switch {
	case a.Date != nil:
		return a.Date.Time, last.Before(a.Date.Time)
	case a.Cron != nil:
		if last.IsZero() {
			return last, true
		}
		s, zone, err := parse(*a.Cron)
		if err != nil {
			return last, false // Check refuses it
		}
		at := s.Next(last.In(zone))
		return at, !at.IsZero()
	case a.Interval != nil:
		return nextInterval(*a.Interval, name, last)
	}
	return last, false
}

// nextInterval are the times start + k × every, or multiples of every, each delayed by its
// own jitter.
func nextInterval(i v1alpha1.Interval, name string, last time.Time) (time.Time, bool) {
	every := i.Every.Duration
	if checkInterval("", i) != nil || !last.IsZero() && last.UTC().Year() > lastYear {
		return last, false // Check refuses it, and no sensor is read then
	}
	start := time.Unix(0, 0).UTC()
	if i.Start != nil {
		start = i.Start.Time
	}
	out := start
	switch {
	case last.IsZero() && i.Start == nil:
		out = last
	case !last.Before(start):
		k := int64(last.Sub(start) / every)
		// A delay is less than every: of these the first beyond the last reading.
		for k--; ; k++ {
			if k < 0 {
				continue
			}
			out = start.Add(time.Duration(k)*every + delay(name, k, i.Jitter.Duration))
			if out.After(last) {
				break
			}
		}
	}
	return out, i.End == nil || !out.After(i.End.Time)
}

// delay in [0, jitter), the same for the same sensor and time each time.
func delay(name string, k int64, jitter time.Duration) time.Duration {
	if jitter <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d", name, k)
	return time.Duration(h.Sum64() % uint64(jitter))
}

// Stale is the age from which a reading counts no more where its author doesn't say: three
// intervals, a minute at least. 0: never.
func Stale(w *v1alpha1.When) time.Duration {
	if w == nil {
		return time.Minute
	}
	if w.Interval == nil {
		return 0
	}
	return max(3*w.Interval.Every.Duration, time.Minute)
}

var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

func parse(c v1alpha1.Cron) (cron.Schedule, *time.Location, error) {
	zone, err := time.LoadLocation(c.TimeZone)
	if err != nil || c.TimeZone == "Local" {
		return nil, nil, fmt.Errorf("timeZone: %q is not an IANA time zone such as Europe/London", c.TimeZone)
	}
	if strings.Contains(c.Schedule, "=") {
		// cron would take it for a time zone, and panics on some.
		return nil, nil, fmt.Errorf("schedule: %q is not a cron expression of five fields; a time zone goes into timeZone", c.Schedule)
	}
	s, err := parser.Parse(c.Schedule)
	if err != nil {
		return nil, nil, fmt.Errorf("schedule: %q is not a cron expression of five fields: %w", c.Schedule, err)
	}
	return strategic.OnTheWall(s, zone), zone, nil
}
