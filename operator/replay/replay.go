// Package replay decides recorded cycles again and says where that differs from what
// was decided: nowhere, by the same program and architecture with the same policies.
package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/record"
)

// ErrNoPlanner is of a Planner that is not there.
var ErrNoPlanner = errors.New("there is no such planner")

// Options of a replay. The zero value replays everything as it was.
type Options struct {
	// From and To bound the cycles that are compared; zero for no bound. Replay
	// starts at the keyframe before From.
	From, To time.Time
	// Policies, if not nil, takes the place of what a cycle's policies were.
	Policies func(api.PolicySpec) (api.PolicySpec, error)
	// Planner, if not empty, plans every workload.
	Planner string
	// Configure, if not nil, changes the recorded configuration of the planners.
	Configure func(*core.Config)
	// FindForecaster, if not nil, is core.Config's: for records of runs by a
	// forecaster that forecast.ByName doesn't know.
	FindForecaster func(name string) (forecast.Forecaster, error)
	// Differences is the most that are listed; 0 is [DefaultDifferences].
	Differences int
	// Progress, if not nil, is told the time of each cycle.
	Progress func(at time.Time, cycles int)
}

// DefaultDifferences are listed unless stated.
const DefaultDifferences = 50

// changed reports whether something other than the program may differ.
func (o Options) changed() bool { return o.Policies != nil || o.Planner != "" || o.Configure != nil }

// Result of a replay.
type Result struct {
	// Cycles that were decided again, and how many of them to the same bytes: policy,
	// plan and actions.
	Cycles    int `json:"cycles"`
	Identical int `json:"identical"`
	// Held are cycles that decided nothing, as they saw nothing.
	Held int `json:"held,omitempty"`
	// First is the first cycle that differs; nil if none does.
	First *Cycle `json:"first"`
	// Differences of this and the cycles after it, as many as were asked for.
	Differences []Difference `json:"differences"`
	// Programs that recorded, and the time of the first and last cycle compared.
	Programs []string  `json:"programs,omitempty"`
	From     time.Time `json:"from,omitzero"`
	To       time.Time `json:"to,omitzero"`
	// Balance weighs cost and risk of both.
	Balance Balance `json:"balance"`
	// Torn says what of the log was lost.
	Torn []string `json:"torn,omitempty"`
}

// Cycle that differs, with the first of its differences.
type Cycle struct {
	Cycle uint64    `json:"cycle"`
	Time  time.Time `json:"time"`
	// Text is the difference in a line.
	Text        string       `json:"text"`
	Differences []Difference `json:"differences"`
}

// Run replays a log. The error is of a log that can't be read, or of options that
// can't be used on it.
func Run(ctx context.Context, l *record.Log, o Options) (Result, error) {
	out := Result{Differences: []Difference{}}
	limit := o.Differences
	if limit == 0 {
		limit = DefaultDifferences
	}
	var planner planning.Hierarchy
	var decide mash2.Decider
	var memory planning.Memory
	var weighed scales
	segment, broken := "", true
	for e, err := range l.Records(o.From) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return out, err
		}
		if !o.To.IsZero() && e.Cycle.Time.After(o.To) {
			break
		}
		if e.Segment.Name != segment {
			segment = e.Segment.Name
			if planner, decide, err = o.planners(e.Segment.Config); err != nil {
				return out, fmt.Errorf("records in %s: %w", segment, err)
			}
			if _, ok := planner.Planners[o.Planner]; o.Planner != "" && !ok {
				return out, fmt.Errorf("%w: %q; there is %s", ErrNoPlanner, o.Planner, strings.Join(slices.Sorted(maps.Keys(planner.Planners)), ", "))
			}
			if n := len(out.Programs); n == 0 || out.Programs[n-1] != e.Segment.Program {
				out.Programs = append(out.Programs, e.Segment.Program)
			}
		}
		// With something changed, its own memory is carried on, as far as nothing is
		// missing in between.
		if e.Key && (broken || !o.changed()) {
			if memory, err = memoryOf(e); err != nil {
				return out, err
			}
			broken = false
		}
		if len(e.Lost) > 0 {
			out.Torn = append(out.Torn, e.Lost...)
			broken = true
		}
		within := !e.Cycle.Time.Before(o.From)
		if e.Cycle.Error != "" {
			if within {
				out.Held++
			}
			continue
		}
		snapshot, spec, err := o.input(e.Record)
		if err != nil {
			return out, err
		}
		if o.changed() && out.First != nil {
			// Pools change as the recorded operator asked: that is nobody else's doing.
			memory = memory.Unwatched()
		}
		d := decide.Decide(snapshot, spec, memory)
		memory = d.Memory
		if !within {
			continue
		}
		if out.Cycles++; out.Cycles == 1 {
			out.From = e.Cycle.Time
		}
		out.To = e.Cycle.Time
		weighed.add(e.Snapshot, e.Cycle.Plan, d.Plan)
		if o.Progress != nil {
			o.Progress(e.Cycle.Time, out.Cycles)
		}
		digest, err := record.Digest(d.Policy, d.Plan, d.Actions)
		if err != nil {
			return out, err
		}
		if digest == e.Digest {
			out.Identical++
			continue
		}
		if len(out.Differences) >= limit {
			continue
		}
		found := differences(e.Record, d)
		if out.First == nil {
			out.First = &Cycle{Cycle: e.Cycle.ID, Time: e.Cycle.Time, Text: summary(found), Differences: found[:min(len(found), limit)]}
		}
		out.Differences = append(out.Differences, found[:min(len(found), limit-len(out.Differences))]...)
	}
	out.Balance = weighed.balance()
	if out.Cycles == 0 && out.Held == 0 {
		return out, errors.New("no cycle was recorded in that time")
	}
	return out, nil
}

// input is what a cycle is decided from, with what is changed.
func (o Options) input(r api.Record) (api.Snapshot, api.PolicySpec, error) {
	s, spec := r.Snapshot, r.Spec
	if o.Planner != "" {
		s.Workloads = append([]api.Workload(nil), s.Workloads...)
		for i := range s.Workloads {
			s.Workloads[i].Planner = o.Planner
		}
	}
	if o.Policies != nil {
		var err error
		if spec, err = o.Policies(spec); err != nil {
			return s, spec, err
		}
	}
	return s, spec, nil
}

// planners are those of a recorded configuration.
func (o Options) planners(recorded json.RawMessage) (p planning.Hierarchy, decide mash2.Decider, err error) {
	c := core.DefaultConfig()
	c.FindForecaster = o.FindForecaster
	if len(recorded) > 0 {
		if err := json.Unmarshal(recorded, &c); err != nil {
			return p, decide, fmt.Errorf("reading the recorded configuration: %w", err)
		}
	}
	if o.Configure != nil {
		o.Configure(&c)
	}
	if p, err = c.Hierarchy(); err != nil {
		return p, decide, err
	}
	models, err := c.StrategyModels()
	return p, mash2.Decider{Planner: p, Models: models}, err
}

// memoryOf is the memory of a keyframe.
func memoryOf(e record.Entry) (planning.Memory, error) {
	m, ok := e.Memory.(planning.Memory)
	if !ok {
		return m, fmt.Errorf("records in %s: the keyframe has no memory that this program can read", e.Segment.Name)
	}
	return m, nil
}
