// Package strategic is the Strategic Agent (MAS-H² §3.1): it picks the policy
// in force from those a user defined. It is pure; reading them is the task of
// strategic/configmap.
package strategic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the same zones on every machine, and in an image without any

	"github.com/robfig/cron/v3"

	"github.com/mash2-io/mash2/api"
)

// Defaults are the policies every installation has. They name no node pools,
// which only the user knows: until a ConfigMap does, nodes are left alone.
//
// COST_SAVING runs close to the requests and covers nine futures in ten;
// PERFORMANCE keeps half of the requests free, because the response time of a
// processor-sharing server goes with 1/(1−utilisation), and never runs alone:
// nor does it let the last replicas of an idle workload go.
func Defaults() map[string]api.Policy {
	return map[string]api.Policy{
		api.CostSaving: {
			Name:        api.CostSaving,
			Weights:     api.Weights{Performance: 0.2, Cost: 1, Resilience: 0.05},
			MinReplicas: 1, Objective: 0.999, Burst: true, Quantile: 0.9, TargetUtilization: 0.8, ScaleToZero: true,
		},
		api.Performance: {
			Name:        api.Performance,
			Weights:     api.Weights{Performance: 1, Cost: 0.2, Resilience: 0.2},
			MinReplicas: 2, Objective: 0.9995, Quantile: 0.97, TargetUtilization: 0.5,
		},
	}
}

// Decide picks the policy in force: the one set by hand, else that of the first
// signal that is on, else the one of the schedule entry that fired last before the snapshot's time, else the default.
// A spec that names an unknown policy, which Validate refuses, falls through
// to the next rule. Decide never returns a policy that is not in the spec,
// unless the spec has none: then it is the built-in COST_SAVING.
func Decide(spec api.PolicySpec, s api.Snapshot) api.Policy {
	signals := signalStates(spec.Signals, s.Context, s.Time)
	return complete(spec, s, signals, choose(spec, signals, s.Time))
}

// Instead is Decide where a strategy has chosen a policy of the spec, since a time.
func Instead(spec api.PolicySpec, s api.Snapshot, name string, since time.Time, reason string) api.Policy {
	policy := spec.Policies[name]
	policy.Source, policy.Since, policy.Reason = api.SourceStrategy, since, reason
	return complete(spec, s, signalStates(spec.Signals, s.Context, s.Time), policy)
}

// complete fills in what a policy has besides its own fields.
func complete(spec api.PolicySpec, s api.Snapshot, signals []api.SignalState, policy api.Policy) api.Policy {
	policy.Signals = signals
	pools := map[string]bool{}
	for _, p := range spec.Policies {
		for _, pool := range p.NodePools {
			pools[pool] = true
		}
	}
	policy.ManagedPools = slices.Sorted(maps.Keys(pools))
	policy.Disruption.Closed = closed(policy.Disruption.Windows, s.Time)
	policy.Rollback.Ended = spec.RollbackEnded
	policy.Canary.Paused = spec.Paused
	return policy
}

// closed says until when the maintenance windows are closed; empty inside one,
// and when there are none. A window that can't be read, which Validate refuses,
// never opens.
func closed(windows []api.Window, now time.Time) string {
	if len(windows) == 0 {
		return ""
	}
	var next time.Time
	for _, w := range windows {
		entry := api.ScheduleEntry{Cron: w.Cron, TimeZone: w.TimeZone}
		schedule, zone, err := parse(entry)
		if err != nil {
			continue
		}
		if opened, err := lastFiring(entry, now); err == nil && !opened.IsZero() && now.Before(opened.Add(w.Duration)) {
			return ""
		}
		if at := schedule.Next(now.In(zone)); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if next.IsZero() {
		return "for good: none of them opens again"
	}
	return "until " + next.Format(time.RFC3339)
}

func choose(spec api.PolicySpec, signals []api.SignalState, now time.Time) api.Policy {
	if p, ok := spec.Policies[spec.Manual]; ok {
		p.Source, p.Reason = api.SourceManual, fmt.Sprintf("%s is set by hand", p.Name)
		return p
	}
	for i, state := range signals {
		if p, ok := spec.Policies[spec.Signals[i].Policy]; ok && state.On {
			p.Source, p.Since = api.SourceSignal, state.Since
			p.Reason = fmt.Sprintf("signal %s is on: %s", state.Name, state.Reason)
			return p
		}
	}
	if entry, at, ok := scheduled(spec, now); ok {
		p := spec.Policies[entry.Policy]
		p.Source, p.Since = api.SourceSchedule, at
		p.Reason = fmt.Sprintf("schedule %q (%s) fired at %s", entry.Cron, zoneName(entry), at.Format(time.RFC3339))
		return p
	}
	name := spec.Default
	if _, ok := spec.Policies[name]; !ok {
		name = api.CostSaving
	}
	p, ok := spec.Policies[name]
	if !ok {
		p = Defaults()[api.CostSaving]
	}
	p.Source, p.Reason = api.SourceDefault, fmt.Sprintf("nothing else chooses, and %s is the default", p.Name)
	return p
}

// scheduled returns the entry that fired last, and when. Of entries that fired
// at the same moment the later one in the list wins.
func scheduled(spec api.PolicySpec, now time.Time) (entry api.ScheduleEntry, at time.Time, ok bool) {
	for _, e := range spec.Schedule {
		if _, known := spec.Policies[e.Policy]; !known {
			continue
		}
		fired, err := lastFiring(e, now)
		if err != nil || fired.IsZero() {
			continue
		}
		if !ok || !fired.Before(at) {
			entry, at, ok = e, fired, true
		}
	}
	return entry, at, ok
}

// lookback is as far as a firing is looked for in the past: cron's rarest
// expression, 29 February, comes every four years, eight around a century that
// is not a leap year.
const lookback = 8*366*24*time.Hour + 24*time.Hour

// lastFiring is the newest time at or before now at which e fires, zero if it
// did not within lookback. cron.Schedule only looks forward; so windows of
// growing length are searched, the nearest first.
func lastFiring(e api.ScheduleEntry, now time.Time) (time.Time, error) {
	schedule, zone, err := parse(e)
	if err != nil {
		return time.Time{}, err
	}
	now = now.In(zone)
	for window := time.Hour; ; window *= 4 {
		window = min(window, lookback)
		var last time.Time
		// A window that has a firing has few: the ones before it had none in
		// a quarter of its length. Firings are at least a minute apart.
		for t := schedule.Next(now.Add(-window)); !t.IsZero() && !t.After(now); t = schedule.Next(t) {
			last = t
		}
		if !last.IsZero() || window == lookback {
			return last, nil
		}
	}
}

// parser takes the five standard fields; descriptors such as @daily are not
// part of the contract.
var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

func parse(e api.ScheduleEntry) (cron.Schedule, *time.Location, error) {
	zone, err := time.LoadLocation(zoneName(e))
	if err != nil || e.TimeZone == "Local" {
		return nil, nil, fmt.Errorf("timeZone: %q is not an IANA time zone such as Europe/London", e.TimeZone)
	}
	if strings.Contains(e.Cron, "=") {
		// cron would take it for a time zone, and panics on some.
		return nil, nil, fmt.Errorf("cron: %q is not a cron expression of five fields; a time zone goes into timeZone", e.Cron)
	}
	schedule, err := parser.Parse(e.Cron)
	if err != nil {
		return nil, nil, fmt.Errorf("cron: %q is not a cron expression of five fields: %w", e.Cron, err)
	}
	return OnTheWall(schedule, zone), zone, nil
}

// OnTheWall is a schedule by the clocks of a zone: what falls into the hour that summer time leaves
// out comes as clocks are put forward.
func OnTheWall(s cron.Schedule, zone *time.Location) cron.Schedule { return onTheWall{s, zone} }

// onTheWall is a schedule by the clocks of a zone. What falls into the hour that summer time
// leaves out comes as clocks are put forward.
type onTheWall struct {
	cron.Schedule
	zone *time.Location
}

// Next is the first time after t; the zero time if there is none.
func (s onTheWall) Next(t time.Time) time.Time {
	next := s.Schedule.Next(t.In(s.zone))
	shown := s.Schedule.Next(asShown(t.In(s.zone), time.UTC))
	if shown.IsZero() {
		return next
	}
	at := asShown(shown, s.zone)
	before, after := at.ZoneBounds()
	switch is := asShown(at, time.UTC); {
	case is.After(shown):
		at = before
	case is.Before(shown):
		at = after
	default:
		return next // it is on the clocks
	}
	if at.After(t) && (next.IsZero() || at.Before(next)) {
		return at
	}
	return next
}

// asShown is the time at which clocks of a zone show what t shows.
func asShown(t time.Time, zone *time.Location) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone)
}

func zoneName(e api.ScheduleEntry) string {
	if e.TimeZone == "" {
		return "UTC"
	}
	return e.TimeZone
}
