package mash2

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
	"github.com/mash2-io/mash2/parallel"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/strategic"
	"github.com/mash2-io/mash2/strategic/strategy"
)

// Observer is the sensing port: everything one cycle knows of the world.
type Observer interface {
	// Observe returns the present state. An error means that no safe picture
	// could be had; the cycle then holds everything.
	Observe(ctx context.Context) (api.Snapshot, error)
}

// PolicySource reads the policies a user has set. With bad input it returns
// the last good specification together with a finding; an error means that not
// even that could be had.
type PolicySource interface {
	Spec(ctx context.Context) (api.PolicySpec, []api.Finding, error)
}

// Planner turns a snapshot and a policy into a plan. It is pure: memory goes
// in and comes out as a value.
type Planner interface {
	Plan(s api.Snapshot, p api.Policy, m planning.Memory) (api.Plan, planning.Memory)
}

// Actuator is the acting port.
type Actuator interface {
	// Apply carries one action out, idempotently.
	Apply(ctx context.Context, a api.Action) error
}

// Reporter is told every cycle: logs, metrics, Events, status.
type Reporter interface {
	Report(ctx context.Context, c api.Cycle)
}

// Recorder keeps records.
type Recorder interface {
	// Record keeps one and returns what somebody should know of that. It must not
	// take long, and fails without an effect on what is decided.
	Record(r api.Record) []api.Finding
}

// Checkpoints keep the planner's memory for the next process. Without, a restart knows
// only what can be read from history.
type Checkpoints interface {
	// Load returns the newest one and when it was kept, the zero time without one. The error is of a
	// place that can't be read now: it may have one.
	Load() (m planning.Memory, kept time.Time, notes []api.Finding, err error)
	// Save keeps one, at most once a minute unless it is urgent, and returns what
	// somebody should know.
	Save(m planning.Memory, at time.Time, urgent bool) []api.Finding
}

// Config of a Loop.
type Config struct {
	// Period between the starts of cycles.
	Period time.Duration
	// ActionTimeout bounds one action.
	ActionTimeout time.Duration
	// ActFor is for how long actions of a cycle begin, 0 for as long as it takes. What is left
	// then, as the API server is slow or much changes at once, is for the next cycle to
	// decide: of what is so by then, and of whether mash2 is paused. Sequences have what takes
	// away at their ends.
	ActFor time.Duration
	// Parallel is how many actions are carried out at once; 0 and 1 are one
	// after the other.
	Parallel int
	// Wake starts a cycle ahead of its time when something is received: a
	// changed policy, a node that became Ready. Nil for none.
	Wake <-chan struct{}
	// WakeGap is the least time between the starts of two cycles.
	WakeGap time.Duration
}

// Validate reports the first field that can't be used.
func (c Config) Validate() error {
	switch {
	case c.Period <= 0:
		return fmt.Errorf("loop config: Period must be positive, is %v", c.Period)
	case c.ActionTimeout <= 0:
		return fmt.Errorf("loop config: ActionTimeout must be positive, is %v", c.ActionTimeout)
	case c.ActFor < 0:
		return fmt.Errorf("loop config: ActFor must not be negative, is %v", c.ActFor)
	case c.Parallel < 0:
		return fmt.Errorf("loop config: Parallel must not be negative, is %d", c.Parallel)
	case c.WakeGap < 0:
		return fmt.Errorf("loop config: WakeGap must not be negative, is %v", c.WakeGap)
	}
	return nil
}

// loadTries is for how many cycles what was learnt before is waited for, where it can't be read.
const loadTries = 8

// Loop walks the corridor. It is the only owner of the planner's memory.
type Loop struct {
	Config   Config
	Observer Observer
	Policies PolicySource
	Planner  Planner
	// Models that users' strategies ask, by name; nil for none.
	Models   map[string]strategy.Model
	Actuator Actuator
	Reporter Reporter
	// Recorder is told every cycle before the Reporter; nil for none.
	Recorder Recorder
	// Checkpoints are loaded in the first cycle and saved after each; nil for none.
	Checkpoints Checkpoints
	// Renew is called before each cycle, where nothing else runs: it may replace Planner and
	// Models, and returns what somebody should know. Nil for nobody.
	Renew func() []api.Finding
	// Panicked is told of a panic in a cycle, with its stack, for the log. The cycle then
	// changes nothing more, and the next one tries again. Nil lets it end the process, as a
	// simulation should.
	Panicked func(what string, value any, stack []byte)

	memory planning.Memory
	loaded bool
	loads  int // that failed
	cycles uint64
}

// Start runs cycles until the context ends, one every Period and earlier when
// woken. A cycle that fails is reported and the next one tries again.
func (l *Loop) Start(ctx context.Context) error {
	if err := l.Config.Validate(); err != nil {
		return err
	}
	tick := time.NewTicker(l.Config.Period)
	defer tick.Stop()
	for {
		started := time.Now()
		// The record carries the error; the loop goes on regardless.
		_, _ = l.RunOnce(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-l.Config.Wake:
			if !sleep(ctx, l.Config.WakeGap-time.Since(started)) {
				return nil
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// RunOnce walks the corridor once and reports the record of it. The error is
// that of the step that ended the cycle early, and is in the record too;
// actions that failed are only in the record.
func (l *Loop) RunOnce(ctx context.Context) (api.Cycle, error) {
	l.cycles++
	r := api.Record{Cycle: api.Cycle{ID: l.cycles, Time: time.Now().Round(0)}}
	c := &r.Cycle
	err := l.attempt("the cycle", func() error {
		if l.Renew != nil {
			c.Findings = l.Renew()
		}
		return l.walk(ctx, &r)
	})
	if err != nil {
		c.Error = err.Error()
		c.Findings = append(c.Findings, api.Finding{
			Severity: api.Warning, Reason: "CycleHeld", Object: api.CycleRef,
			Message: fmt.Sprintf("nothing was changed: %v", err),
		})
	}
	if l.Recorder != nil {
		began := time.Now()
		// Its panic holds no cycle: the actions are done.
		if err := l.attempt("recording", func() error { c.Findings = append(c.Findings, l.Recorder.Record(r)...); return nil }); err != nil {
			c.Findings = append(c.Findings, api.Finding{
				Severity: api.Warning, Reason: "RecordsStopped", Object: api.CycleRef, Message: fmt.Sprintf("this cycle is not recorded: %v", err),
			})
		}
		c.Steps = append(c.Steps, api.StepTime{Step: "record", Duration: time.Since(began)})
	}
	_ = l.attempt("reporting", func() error { l.Reporter.Report(ctx, *c); return nil }) // the log has it
	return *c, err
}

// attempt does something, and returns a panic of it as an error. A process that ended of
// what it sees would end again after its restart, and its standby too: better that nothing
// is changed, that this is said, and that metrics and status go on.
func (l *Loop) attempt(what string, do func() error) (err error) {
	if l.Panicked == nil {
		return do()
	}
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		err = fmt.Errorf("%s panicked: %v", what, value)
		l.Panicked(what, value, parallel.Stack(value))
	}()
	return do()
}

// walk is the corridor: its numbered steps are timed one by one.
func (l *Loop) walk(ctx context.Context, r *api.Record) error {
	c := &r.Cycle
	mark := time.Now()
	step := func(name string) {
		now := time.Now()
		c.Steps = append(c.Steps, api.StepTime{Step: name, Duration: now.Sub(mark)})
		mark = now
	}

	// 1. Sense: the world and the intent.
	snapshot, err := l.Observer.Observe(ctx)
	if err != nil {
		step("observe")
		return fmt.Errorf("observing: %w", err)
	}
	// Replay knows no monotonic clock.
	snapshot.Time = snapshot.Time.Round(0)
	r.Snapshot = snapshot
	c.Time = snapshot.Time
	c.Findings = append(c.Findings, snapshot.Findings...)
	spec, findings, err := l.Policies.Spec(ctx)
	c.Findings = append(c.Findings, findings...)
	step("observe")
	if err != nil {
		return fmt.Errorf("reading policies: %w", err)
	}
	c.Paused, r.Spec = spec.Paused, spec

	if !l.loaded && l.Checkpoints != nil {
		m, kept, notes, err := l.Checkpoints.Load()
		c.Findings = append(c.Findings, notes...)
		if l.loads++; err != nil && l.loads < loadTries { // what is decided without it would take its place
			return fmt.Errorf("reading what was learnt before: %w", err)
		}
		if !kept.IsZero() {
			l.memory = m.Resumed(kept, snapshot.Time)
		}
	}
	l.loaded = true
	r.Memory = l.memory
	snapshot.Context.Last, snapshot.Context.LastStrategies = l.memory.Signals, l.memory.Strategies
	r.Snapshot = snapshot

	// 2. Strategic: which intent is in force, and what users' strategies make of it.
	var said []api.Finding
	c.Policy, snapshot, said = strategy.Steer(spec, snapshot, l.Models)
	c.Findings = append(c.Findings, said...)
	c.Findings = append(c.Findings, strategic.Check(spec, snapshot)...)
	c.Findings = append(c.Findings, strategic.Unread(spec, snapshot)...)
	c.Pools, c.Workloads = api.Observed(snapshot, c.Policy)
	for _, w := range c.Workloads {
		if w.Hold != "" {
			c.Findings = append(c.Findings, api.Finding{
				Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Reason: w.HoldReason,
				Object: api.WorkloadRef(w.Key), Message: w.Hold,
			})
		}
	}
	step("decide")

	// 3. Plan pods and nodes together.
	before := l.memory
	c.Plan, l.memory = l.Planner.Plan(snapshot, c.Policy, before)
	c.MemoryHash = l.memory.Hash()
	c.Findings = append(c.Findings, c.Plan.Findings...)
	step("plan")

	// 4. Sequence: what of it is safe to do now.
	actions, notes := execution.Sequence(snapshot, c.Plan, c.Policy)
	r.Actions = actions
	c.Findings = append(c.Findings, notes...)
	step("sequence")

	// 5. Act. The actions of one sequence don't build on each other's success,
	// so that one failure doesn't hold the rest.
	c.Outcomes = l.act(ctx, actions, spec.Paused)
	left := false
	for _, o := range c.Outcomes {
		left = left || o.Skipped == leftOver
		if o.Reason != "" {
			c.Findings = append(c.Findings, api.Finding{
				Severity: api.Warning, Agent: o.Agent, Reason: o.Reason, Object: o.Object, Message: o.Skipped,
			})
		}
	}
	if left {
		c.Findings = append(c.Findings, api.Finding{
			Severity: api.Warning, Reason: "ActionsLeft", Object: api.CycleRef,
			// Without how many: each cycle would have an Event of its own.
			Message: fmt.Sprintf("some actions were not begun within %v, and are decided anew: the API server is slow, or --kube-api-qps is low for so many", l.Config.ActFor),
		})
	}
	step("act")

	// 6. Keep what the next process can't read from history.
	if l.Checkpoints != nil {
		// Whoever leads next must know of a rollback.
		err := l.attempt("keeping the memory", func() error {
			c.Findings = append(c.Findings, l.Checkpoints.Save(l.memory, snapshot.Time, l.memory.Turned(before))...)
			return nil
		})
		// The actions are done: that is no held cycle.
		if err != nil {
			c.Findings = append(c.Findings, api.Finding{
				Severity: api.Warning, Reason: "StateNotSaved", Object: api.CycleRef,
				Message: fmt.Sprintf("a restart would lose what has been learnt: %v", err),
			})
		}
		step("checkpoint")
	}
	return nil
}

// leftOver is why an action was skipped whose time was over.
const leftOver = "the actions before it took too long: the next cycle decides anew"

// act carries actions out, several at once, and returns their outcomes in
// order.
func (l *Loop) act(ctx context.Context, actions []api.Action, paused bool) []api.Outcome {
	begun := time.Now()
	if len(actions) == 0 {
		return nil
	}
	outcomes := make([]api.Outcome, len(actions))
	if l.Config.Parallel <= 1 {
		for i, a := range actions {
			outcomes[i] = l.apply(ctx, a, paused, begun)
		}
		return outcomes
	}
	var group sync.WaitGroup
	room := make(chan struct{}, l.Config.Parallel)
	for i, a := range actions {
		room <- struct{}{}
		group.Go(func() {
			outcomes[i] = l.apply(ctx, a, paused, begun)
			<-room
		})
	}
	group.Wait()
	return outcomes
}

func (l *Loop) apply(ctx context.Context, a api.Action, paused bool, begun time.Time) api.Outcome {
	o := api.Outcome{Agent: a.ActionAgent(), Kind: a.Kind(), Object: a.Object(), Action: a.String()}
	switch {
	case paused:
		o.Skipped = "paused"
		return o
	case ctx.Err() != nil:
		o.Skipped = "stopping"
		return o
	case l.Config.ActFor > 0 && time.Since(begun) > l.Config.ActFor:
		o.Skipped = leftOver
		return o
	}
	ctx, cancel := context.WithTimeout(ctx, l.Config.ActionTimeout)
	defer cancel()
	started := time.Now()
	err := l.attempt("the action", func() error { return l.Actuator.Apply(ctx, a) })
	o.Duration = time.Since(started)
	var left *api.NotTriedError
	switch {
	case errors.As(err, &left):
		o.Skipped, o.Reason = left.Why, left.Reason
	case errors.Is(err, context.DeadlineExceeded):
		o.Error = fmt.Errorf("gave up after %v: %w", l.Config.ActionTimeout, err).Error()
	case err != nil:
		o.Error = err.Error()
	}
	return o
}
