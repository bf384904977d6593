package agents

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/vertical"
)

// Fleet runs a Loop for each workload whose plan has agents. It is a reporter: each cycle's
// plan gives the loops their envelopes, and without a newer one they stop changing anything.
type Fleet struct {
	Client   kubernetes.Interface
	Actuator Actuator
	// Minds are the models that there are, by name, besides the rules.
	Minds map[string]Mind
	// Stale is how old a reading of usage may be.
	Stale time.Duration
	// Panicked is told of a panic in a workload's loop, which ends that loop until the next
	// cycle.
	Panicked func(what string, workload api.Key, value any, stack []byte)
	Clock    clock.WithTicker // nil is the real one
	// Open makes what a loop observes and measures; nil is the cluster and metrics.k8s.io.
	Open func(api.Key, api.Agents) (Observer, Meter)

	mu      sync.Mutex
	base    context.Context // of loops; nil before Start and after its end
	running sync.WaitGroup
	loops   map[api.Key]*fleetLoop
}

// fleetLoop is a workload's loop.
type fleetLoop struct {
	loop *Loop
	stop context.CancelFunc
	// where it looks: a loop that looks elsewhere is another one.
	selector, container string
	target              api.TargetRef
	mind                string
	ended               bool // by a panic, or as its model has changed
	renewed             bool // the models are not those that it began with
	refusal             string
}

// Start lets loops run until ctx ends. It waits for them when end is called.
func (f *Fleet) Start(ctx context.Context) (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	f.base, f.loops = ctx, map[api.Key]*fleetLoop{}
	return func() {
		f.mu.Lock()
		f.base = nil
		f.mu.Unlock()
		cancel()
		f.running.Wait()
	}
}

// Report implements mash2.Reporter: it gives each loop what the cycle's plan says, and begins
// and ends loops. It does not wait for them.
func (f *Fleet) Report(_ context.Context, c api.Cycle) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.base == nil || c.Error != "" {
		return // the envelopes of before end by themselves
	}
	there := map[api.Key]bool{}
	for i := range c.Plan.Workloads {
		w := &c.Plan.Workloads[i]
		if w.Agents == nil || w.Agents.Selector == "" { // everything is nobody's
			continue
		}
		there[w.Key] = true
		f.follow(w.Key, *w.Agents, c.Paused)
	}
	for key, l := range f.loops {
		if !there[key] {
			l.stop()
			delete(f.loops, key)
		}
	}
}

// Renew replaces the models. Loops that decide by one that has changed begin anew with the
// next plan, as does their trust in it.
func (f *Fleet) Renew(minds map[string]Mind, changed []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Minds = minds
	for _, l := range f.loops {
		if slices.Contains(changed, l.mind) {
			l.ended = true
		}
		l.renewed = true
	}
}

// follow a plan.
func (f *Fleet) follow(key api.Key, plan api.AgentsPlan, paused bool) {
	l := f.loops[key]
	if l != nil && (l.ended || l.renewed && l.mind != plan.Model || l.loop == nil || l.selector != plan.Selector || l.container != plan.Container || l.target != plan.Target) {
		l.stop()
		l = nil
	}
	set := f.settings(key, plan, paused)
	if l == nil {
		f.loops[key] = f.begin(key, plan, set)
		return
	}
	l.refusal, l.mind = "", plan.Model
	if err := l.loop.change(set); err != nil {
		l.refusal = err.Error()
	}
}

// settings that a plan asks for.
func (f *Fleet) settings(key api.Key, plan api.AgentsPlan, paused bool) func(*Options) {
	return func(o *Options) {
		o.Budget, o.Floor, o.Ceiling, o.Until, o.Hold = plan.Budget, plan.Least, plan.Most, plan.Until, plan.Hold
		if plan.Budget <= 0 {
			o.Budget, o.Hold = plan.Least, cmp.Or(plan.Hold, "there is no budget") // nothing is given out
		}
		if paused {
			o.Hold = "every write is stopped by mash2 pause"
		}
		o.Memory = api.MemoryBounds{}
		if plan.Memory != nil {
			o.Memory = *plan.Memory
		}
		o.Interval, o.PodPriorities = plan.Interval, plan.Priorities
		mind := cmp.Or(plan.Model, SpreadMind)
		if len(o.Minds[mind]) == 0 {
			o.Hold = fmt.Sprintf("spec.vertical.model: the operator has no model of agents %q", plan.Model)
			mind = SpreadMind
		}
		o.Algorithm = mind
	}
}

// begin a loop; one that can't be tells why.
func (f *Fleet) begin(key api.Key, plan api.AgentsPlan, set func(*Options)) *fleetLoop {
	out := &fleetLoop{selector: plan.Selector, container: plan.Container, target: plan.Target, mind: plan.Model, stop: func() {}}
	minds := Rules()
	for name, mind := range f.Minds {
		minds[name] = []vertical.Planner{mind()}
	}
	observer, meter := f.open(key, plan.Agents)
	asks := &paced{observer: observer, meter: meter, actuator: f.Actuator, clock: cmp.Or[clock.PassiveClock](f.Clock, clock.RealClock{})}
	o := Options{Observer: asks, Meter: asks, Actuator: asks, Minds: minds, Stale: f.Stale, Clock: f.Clock, Seed: uint64(plan.Until.UnixNano())}
	set(&o)
	loop, err := New(o)
	if err != nil {
		out.refusal = err.Error()
		return out
	}
	ctx, cancel := context.WithCancel(f.base)
	out.loop, out.stop = loop, cancel
	f.running.Go(func() {
		defer func() {
			if value := recover(); value != nil {
				f.Panicked("the agents of running pods", key, value, debug.Stack())
				f.mu.Lock()
				out.ended, out.refusal = true, fmt.Sprintf("panicked: %v", value)
				f.mu.Unlock()
			}
		}()
		loop.Run(ctx)
	})
	return out
}

func (f *Fleet) open(key api.Key, a api.Agents) (Observer, Meter) {
	if f.Open != nil {
		return f.Open(key, a)
	}
	return Kubernetes{Client: f.Client, Namespace: key.Namespace, Selector: a.Selector, Container: a.Container, Of: a.Target},
		MetricsAPI{Client: f.Client, Namespace: key.Namespace, Selector: a.Selector}
}

// State of a workload's agents; nil where it has no loop.
func (f *Fleet) State(key api.Key) *api.AgentsState {
	f.mu.Lock()
	l := f.loops[key]
	var refusal string
	if l != nil {
		refusal = l.refusal
	}
	models := slices.Sorted(maps.Keys(f.Minds))
	f.mu.Unlock()
	if l == nil {
		return nil
	}
	s := &api.AgentsState{}
	if l.loop != nil {
		s = l.loop.state()
	}
	if refusal != "" {
		s.Error = refusal
	}
	s.Models = models
	return s
}

// memory returns what was decided about a pod's memory; nil where memory stays as it is.
func (t *Tick) memory() func(*Pod) *api.AgentMemory {
	decided := map[string]vertical.Decision{}
	for _, d := range t.Memory.Decisions {
		decided[d.ID] = d
	}
	return func(p *Pod) *api.AgentMemory {
		d, ok := decided[p.ID]
		switch {
		case len(decided) == 0:
			return nil
		case !ok:
			return &api.AgentMemory{Stays: p.MemoryStays}
		}
		m := &api.AgentMemory{Limit: d.From, Next: d.To, Binding: string(d.Binding)}
		if !p.Memory.At.IsZero() && p.Memory.Usage >= 0 {
			m.Used = new(p.Memory.Usage)
		}
		return m
	}
}

// mostTold of the reasons for which pods take no part.
const mostTold = 5

// state is the last tick, for people.
func (l *Loop) state() *api.AgentsState {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.last
	s := &api.AgentsState{Time: t.Time, Mind: t.Mind, Waits: t.Held}
	if t.OverBudget {
		s.Waits = "the least limits of all pods together are above the budget: all are at their least"
	}
	if !isRule(l.o.Algorithm) {
		s.Trusted = new(l.trial == nil || l.trial.online.Trusted())
		if l.trial != nil {
			s.Trial = l.trial.text()
		}
	}
	if t.Memory.OverBudget {
		s.Waits = strings.TrimPrefix(s.Waits+"; what pods use of memory, and its headroom, is above the budget: limits that have it keep it", "; ")
	}
	memory := t.memory()
	for i := range t.Decisions { // parallel to the pods
		p, d := &t.Pods[i], &t.Decisions[i]
		state := api.AgentState{Pod: p.Key.Name, Limit: d.From, Next: d.To, Priority: p.Priority, Binding: string(d.Binding)}
		if !p.At.IsZero() {
			state.Usage = new(p.Usage)
		}
		state.Memory = memory(p)
		s.Pods = append(s.Pods, state)
	}
	slices.SortFunc(s.Pods, func(a, b api.AgentState) int { return cmp.Compare(a.Pod, b.Pod) })
	for i, r := range t.Refused {
		if i == mostTold {
			s.Refused = append(s.Refused, fmt.Sprintf("and %d more", len(t.Refused)-i))
			break
		}
		s.Refused = append(s.Refused, r.text())
	}
	if err := t.Err(); err != nil {
		s.Error = err.Error()
	}
	return s
}
