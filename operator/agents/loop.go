package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/vertical"
)

// Actuator carries actions out; it is idempotent.
type Actuator interface {
	Apply(ctx context.Context, action api.Action) error
}

// Options of a Loop.
type Options struct {
	Observer Observer
	Meter    Meter
	Actuator Actuator
	// Minds by name: those of RuleNames, and the families dqn, ppo and ddpg as far as there
	// are models. Several minds of a family are those of the first, second … agent.
	Minds map[string][]vertical.Planner
	// Algorithm is the name of the minds to begin with.
	Algorithm string
	// Budget of all limits, millicores; Floor and Ceiling of each, 0 for a ceiling at
	// the budget.
	Budget, Floor, Ceiling int64
	// Memory of all limits and of each, bytes; a zero budget leaves memory as it is.
	Memory api.MemoryBounds
	// MemoryWindow is how long a working set must have been lower before a limit falls; 0 for
	// that of vertical.DefaultMemoryConfig.
	MemoryWindow time.Duration
	// Interval between decisions: a second or more.
	Interval time.Duration
	// Stale is how old a reading may be.
	Stale time.Duration
	// Agents is how many pods take part at most, in the order of their names; 0 for all.
	Agents int
	// Priorities of pods in the order of their names; 1 for those beyond.
	Priorities []float64
	// PodPriorities by the pod's name go before them.
	PodPriorities map[string]float64
	// Until is when the envelope ends: from then on nothing is changed. Zero for never.
	Until time.Time
	// Hold is why nothing may be changed; empty if it may.
	Hold string
	// Untested lets a learned mind act at once. Otherwise it must be better than the rule in a
	// simulation of these pods first (rehearsal.Of), and then here: see vertical.Trial.
	Untested bool
	// Seed of the simulation, and of which of both acts when in a trial.
	Seed uint64
	// Report, if not nil, is told of each tick. It must not block.
	Report func(Tick)
	// Clock; nil is the real one.
	Clock clock.WithTicker
}

// Names of minds.
const (
	// SpreadMind is the rule that decides where no model is named, ProportionalMind the one
	// that gives nobody more than usage needs, ThresholdMind MARLISE's.
	SpreadMind       = "spread"
	ProportionalMind = "proportional"
	ThresholdMind    = "threshold"
	DQNMind          = "dqn"
	PPOMind          = "ppo"
	DDPGMind         = "ddpg"
)

// Rules are the minds that need no model.
func Rules() map[string][]vertical.Planner {
	return map[string][]vertical.Planner{
		SpreadMind: {vertical.DefaultRule()}, ProportionalMind: {vertical.DefaultProportional()}, ThresholdMind: {vertical.DefaultThreshold()},
	}
}

// isRule reports whether a mind is a rule, with its own settings or others.
func isRule(name string) bool {
	_, err := vertical.RuleByName(name)
	return err == nil
}

// RuleNames are the minds that need no model, the default first.
func RuleNames() []string { return []string{SpreadMind, ProportionalMind, ThresholdMind} }

// Validate returns an error that names the setting.
func (o Options) Validate() error {
	if err := o.envelope(time.Time{}).Validate(); err != nil {
		return err
	}
	if m := o.Memory; m.Budget < 0 {
		return fmt.Errorf("memory: want a budget of 0 or more, is %d", m.Budget)
	} else if m.Budget > 0 {
		if err := memoryEnvelope(m, time.Time{}).Validate(); err != nil {
			return fmt.Errorf("memory: %w", err)
		}
	}
	if err := o.memoryConfig().Validate(); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	if o.Interval < time.Second || o.Interval > time.Hour {
		return fmt.Errorf("interval: want 1s to 1h, is %v", o.Interval)
	}
	if o.Agents < 0 {
		return fmt.Errorf("agents: want 0 or more, is %d", o.Agents)
	}
	for i, p := range o.Priorities {
		if !(p > 0 && p <= 1) {
			return fmt.Errorf("priorities[%d]: want above 0 and up to 1, is %g", i, p)
		}
	}
	for name, p := range o.PodPriorities {
		if !(p > 0 && p <= 1) {
			return fmt.Errorf("priority of %s: want above 0 and up to 1, is %g", name, p)
		}
	}
	if len(o.Minds[o.Algorithm]) == 0 {
		return fmt.Errorf("algorithm: there is no model of %q", o.Algorithm)
	}
	return nil
}

func (o Options) envelope(until time.Time) vertical.Envelope {
	e := vertical.Envelope{Budget: o.Budget, Floor: o.Floor, Ceiling: o.Ceiling, Until: until}
	if e.Ceiling == 0 {
		e.Ceiling = max(e.Budget, e.Floor)
	}
	return e
}

func memoryEnvelope(m api.MemoryBounds, until time.Time) vertical.Envelope {
	e := vertical.Envelope{Budget: m.Budget, Floor: m.Least, Ceiling: m.Most, Until: until}
	if e.Ceiling == 0 {
		e.Ceiling = max(e.Budget, e.Floor)
	}
	return e
}

func (o Options) memoryConfig() vertical.MemoryConfig {
	c := vertical.DefaultMemoryConfig()
	if o.MemoryWindow != 0 {
		c.Window = o.MemoryWindow
	}
	if o.Stale > 0 {
		c.Stale = o.Stale
	}
	return c
}

// Tick is what happened in one interval.
type Tick struct {
	Time    time.Time
	Mind    string
	Pods    []Pod
	Refused []Refused
	vertical.Output
	// Trial says how far a learned mind has come with being trusted; empty without one.
	Trial string
	// Memory is what was decided about the memory of those pods whose memory may be changed.
	Memory vertical.Output
	// Errors of reading and of writing.
	Errors []error
}

// Loop is the fast loop. Run it once; the rest may be called at any time.
type Loop struct {
	mu      sync.Mutex
	o       Options
	config  vertical.Config
	memory  vertical.Memory
	sets    vertical.WorkingSets
	trial   *trial
	minds   assigned
	running bool
	wake    chan struct{}
	last    Tick
	refused map[string]time.Time // pods by UID whose node refused a resize, until when they take no part
}

// New makes a loop that is running.
func New(o Options) (*Loop, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	l := &Loop{o: o, config: vertical.DefaultConfig(), running: true, wake: make(chan struct{}, 1)}
	l.config.Every = o.Interval
	if o.Stale > 0 {
		l.config.Stale = o.Stale
	}
	l.use(o.Algorithm)
	return l, nil
}

// use minds by name, which there are.
func (l *Loop) use(name string) {
	l.o.Algorithm = name
	l.minds = assigned{name: name, minds: l.o.Minds[name], of: map[string]int{}}
	l.trial = nil
	if !isRule(name) && !l.o.Untested {
		l.trial = newTrial(l.o.Seed)
	}
}

// assigned gives each pod a mind of its own, the first free one, for as long as it lives.
type assigned struct {
	name  string
	minds []vertical.Planner
	of    map[string]int
}

// Name implements vertical.Planner.
func (a *assigned) Name() string { return a.name }

// Propose implements vertical.Planner.
func (a *assigned) Propose(v *vertical.View) float64 { return a.minds[a.of[v.ID]].Propose(v) }

// to the pods that there are: in their order, round and round.
func (a *assigned) to(pods []Pod) {
	next := map[string]int{}
	used := make([]int, len(a.minds))
	for _, p := range pods {
		if i, ok := a.of[p.ID]; ok {
			next[p.ID] = i
			used[i]++
		}
	}
	for _, p := range pods {
		if _, ok := next[p.ID]; !ok {
			least := slices.Index(used, slices.Min(used))
			next[p.ID] = least
			used[least]++
		}
	}
	a.of = next
}

// options are those of now: a setting may change them at any time.
func (l *Loop) options() Options {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.o
}

// Run decides until the context ends. Errors of single ticks are reported, not returned.
func (l *Loop) Run(ctx context.Context) {
	for {
		clock := l.options().Clock
		began := clock.Now()
		l.tick(ctx)
		timer := clock.NewTimer(max(l.options().Interval-clock.Since(began), 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		case <-l.wake:
			timer.Stop()
		}
	}
}

// tick is one interval.
func (l *Loop) tick(ctx context.Context) {
	l.mu.Lock()
	running, o := l.running, l.o
	l.mu.Unlock()
	if !running {
		return
	}
	// A second interval's worth of patience: late readings are no reason to hold longer.
	ctx, cancel := context.WithTimeout(ctx, 2*o.Interval)
	defer cancel()
	// 1. What is there, and what does it use?
	t := Tick{Mind: o.Algorithm}
	pods, refused, err := o.Observer.Observe(ctx)
	if err != nil {
		l.report(t, err)
		return
	}
	pods, t.Refused = l.apart(pods, refused, o.Clock.Now())
	if o.Agents > 0 && len(pods) > o.Agents {
		pods = pods[:o.Agents]
	}
	usage, err := o.Meter.Read(ctx, pods)
	if err != nil {
		t.Errors = append(t.Errors, err) // nobody has a reading: nobody is lowered
	}
	// 2. Decide.
	l.rehearse()
	actions := l.decide(&t, pods, usage)
	// 3. Act: what is given back first.
	for _, a := range actions {
		if err := o.Actuator.Apply(ctx, a); err != nil {
			t.Errors = append(t.Errors, err)
		}
	}
	l.report(t, nil)
}

// decide for pods, and return what makes it true.
func (l *Loop) decide(t *Tick, pods []Pod, usage map[string]Usage) []api.Action {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running { // stopped meanwhile
		return nil
	}
	t.Time = l.o.Clock.Now()
	until := l.o.Until
	if until.IsZero() {
		until = t.Time.Add(2 * l.o.Interval)
	}
	if l.o.Hold != "" {
		until = t.Time
	}
	in := vertical.Input{Time: t.Time, Envelope: l.o.envelope(until)}
	sets := vertical.Input{Time: t.Time, Envelope: memoryEnvelope(l.o.Memory, until)}
	cpu, memory := limits(pods, t.Refused)
	in.Envelope.Budget, sets.Envelope.Budget = cpu.of(in.Envelope.Budget), memory.of(sets.Envelope.Budget)
	for i := range pods {
		p := &pods[i]
		p.Priority, p.Floor = 1, p.floor()
		if i < len(l.o.Priorities) {
			p.Priority = l.o.Priorities[i]
		}
		if named, ok := l.o.PodPriorities[p.Key.Name]; ok {
			p.Priority = named
		}
		if u, ok := usage[p.ID]; ok {
			p.Usage, p.At = u.MilliCPU, u.At
			p.Memory.Usage, p.Memory.Files, p.Memory.At = u.Memory, u.Files, u.At
		}
		in.Pods = append(in.Pods, p.Pod)
		if p.Memory.Priority = p.Priority; p.MemoryStays == "" {
			sets.Pods = append(sets.Pods, p.Memory)
		}
	}
	t.Pods = pods
	l.minds.to(pods)
	var mind vertical.Planner = &l.minds
	if l.trial != nil && l.o.Hold == "" && !l.trial.learned(in, l.o.Interval) {
		mind = vertical.DefaultRule()
	}
	t.Mind = mind.Name()
	if l.trial != nil {
		t.Trial = l.trial.text()
	}
	t.Output = l.memory.Tick(l.config, mind, in)
	t.Decisions = slices.Clone(t.Decisions)
	if l.o.Hold != "" {
		t.Held = l.o.Hold
	}
	var down, up []api.Action
	if t.Time.Before(until) {
		down = back(t.Refused)
	}
	for i, d := range t.Decisions {
		switch {
		case d.To < d.From:
			down = append(down, pods[i].action(d))
		case d.To > d.From:
			up = append(up, pods[i].action(d))
		}
	}
	if l.o.Memory.Budget == 0 {
		return append(down, up...)
	}
	t.Memory = l.sets.Decide(l.o.memoryConfig(), sets)
	t.Memory.Decisions = slices.Clone(t.Memory.Decisions)
	for _, d := range t.Memory.Decisions {
		i := slices.IndexFunc(pods, func(p Pod) bool { return p.ID == d.ID })
		switch {
		case d.To < d.From:
			down = append(down, pods[i].memoryAction(d))
		case d.To > d.From:
			up = append(up, pods[i].memoryAction(d))
		}
	}
	return append(down, up...)
}

// report a tick.
func (l *Loop) report(t Tick, err error) {
	if err != nil {
		t.Errors = append(t.Errors, err)
	}
	l.mu.Lock()
	l.last = t
	report := l.o.Report
	l.mu.Unlock()
	if report != nil {
		report(t)
	}
}

// Err is what went wrong in a tick.
func (t Tick) Err() error { return errors.Join(t.Errors...) }

// SetDefaultLimits lowers or raises every pod to the floor, as MARLISE's /set_default_limits
// does.
func (l *Loop) SetDefaultLimits(ctx context.Context) error {
	o := l.options()
	pods, _, err := o.Observer.Observe(ctx)
	if err != nil {
		return err
	}
	floor, limit := o.Floor, o.Agents
	if limit > 0 && len(pods) > limit {
		pods = pods[:limit]
	}
	var errs []error
	for i := range pods {
		p := &pods[i]
		if to := max(floor, p.floor()); to != p.Limit {
			a := p.action(vertical.Decision{ID: p.ID, From: p.Limit, To: to, Binding: vertical.BoundFloor})
			errs = append(errs, o.Actuator.Apply(ctx, a))
		}
	}
	return errors.Join(errs...)
}
