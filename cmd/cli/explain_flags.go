package cli

import (
	"strings"
	"time"

	"github.com/mash2-io/mash2/record"
)

// endOfSecond is what to add to a time that was printed in whole seconds, as times are, to
// have the cycle that it was printed of.
const endOfSecond = time.Second - time.Nanosecond

// until is recordedTime, with the whole of the second that it names.
func until(l *record.Log, name, text string) (time.Time, error) {
	t, err := recordedTime(l, name, text)
	if err == nil && !t.IsZero() && t.Nanosecond() == 0 {
		t = t.Add(endOfSecond)
	}
	return t, err
}

// recordedTime is the time that a flag names: RFC 3339, a time of the last recorded day
// (UTC), of the day before if that is recorded and the last day is not so late yet, or how
// long before the last cycle.
func recordedTime(l *record.Log, name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	ago, err := time.ParseDuration(text)
	isAgo := err == nil && ago >= 0
	clock, isClock := time.Time{}, false
	for _, layout := range []string{time.TimeOnly, "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			clock, isClock = t, true
		}
	}
	if !isAgo && !isClock {
		return time.Time{}, Usagef("--%s must be a time such as 2026-01-02T15:04:05Z, 15:04 of the last recorded day (UTC), or 10m before the last cycle, not %q", name, text)
	}
	e, err := l.At(time.Time{})
	if err != nil {
		return time.Time{}, err
	}
	last := e.Cycle.Time.UTC()
	if isAgo {
		return last.Add(-ago), nil
	}
	h, m, s := clock.Clock()
	t := time.Date(last.Year(), last.Month(), last.Day(), h, m, s, 0, time.UTC)
	if before := t.AddDate(0, 0, -1); t.After(last) && !before.Before(l.Segments[0].Time) {
		return before, nil
	}
	return t, nil
}

// onlyWorkload is the workload of the last cycle if it is the only one; else empty.
func onlyWorkload(l *record.Log) (string, error) {
	e, err := l.At(time.Time{})
	if err != nil || len(e.Cycle.Plan.Workloads) != 1 {
		return "", err
	}
	return e.Cycle.Plan.Workloads[0].Key.String(), nil
}

// workloadFlag completes a name without a namespace from what the last cycle planned.
func workloadFlag(l *record.Log, name string) (string, error) {
	if name == "" || strings.Contains(name, "/") {
		return name, nil
	}
	e, err := l.At(time.Time{})
	if err != nil {
		return "", err
	}
	var found []string
	for _, w := range e.Cycle.Plan.Workloads {
		if w.Key.Name == name {
			found = append(found, w.Key.String())
		}
	}
	switch len(found) {
	case 0: // its error names what there is
		return name, nil
	case 1:
		return found[0], nil
	}
	return "", Usagef("--workload must be NAMESPACE/NAME: %s is in several namespaces: %s", name, strings.Join(found, ", "))
}
