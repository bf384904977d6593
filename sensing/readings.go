package sensing

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	custommetrics "k8s.io/metrics/pkg/client/custom_metrics"
	externalmetrics "k8s.io/metrics/pkg/client/external_metrics"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/demand"
)

// readings reads the triggers of workloads and remembers what they were.
type readings struct {
	cfg      Config
	grid     demand.Grid
	prom     *prometheus
	external externalmetrics.ExternalMetricsClient
	custom   custommetrics.CustomMetricsClient
	known    map[triggerID]*triggerState
	slos     map[triggerID]*sloState

	// all and queries are places for those that are being asked for, slowAll and
	// slowQueries the part of them for those that took long the last time.
	all, queries, slowAll, slowQueries chan struct{}
	mu                                 sync.Mutex
	namespaces                         map[string]chan struct{} // places by namespace
}

// triggerID tells triggers apart; another definition is another trigger.
type triggerID struct {
	workload         api.Key
	name, definition string
}

// triggerState is what is known of a trigger.
type triggerState struct {
	mu      sync.Mutex // guards what is below: questions outlive cycles
	history *demand.History
	// value is the last one, of so many pods (0 where it is of none in
	// particular), read at a time; err why there is no newer one.
	value float64
	pods  int32
	at    time.Time
	err   error
	// older is the newest step of a Prometheus trigger's past that was not asked
	// for yet, and oldest the oldest one worth it; attempts of the present part.
	older, oldest int64
	attempts      int
	// busy while it is being asked for; slow if that took long the last time. After
	// so many times in a row that were tooMuch for Prometheus it is not asked for
	// before resume.
	busy, slow bool
	tooMuch    int
	resume     time.Time
}

func newReadings(cfg Config, prom *prometheus) (*readings, error) {
	s := &readings{
		cfg: cfg, grid: demand.Grid{Step: cfg.Step}, prom: prom, known: map[triggerID]*triggerState{}, slos: map[triggerID]*sloState{},
	}
	s.makePlaces()
	rc := rest.CopyConfig(cfg.REST)
	rc.Timeout = cfg.QueryTimeout // these clients take no context
	rc.ContentType, rc.AcceptContentTypes = "", ""
	var err error
	if s.external, err = externalmetrics.NewForConfig(rc); err != nil {
		return nil, fmt.Errorf("making the external.metrics.k8s.io client: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making the discovery client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	s.custom = custommetrics.NewForConfig(rc, mapper, custommetrics.NewAvailableAPIsGetter(disco))
	return s, nil
}

// What the users of a namespace may cost the rest. Their triggers are read apart
// from the cycle's own queries, which they never delay.
const (
	// triggersAtOnce is how many triggers are read at the same time, of which
	// queriesAtOnce ask Prometheus, and namespaceAtOnce are of one namespace. At most half
	// of either took long the last time: a few namespaces with slow ones keep no others waiting.
	triggersAtOnce  = 16
	queriesAtOnce   = 8
	namespaceAtOnce = 4
	// triggerWait is how long a cycle waits for them; what comes later is for the
	// next one. One that took longer the last time isn't waited for.
	triggerWait = time.Second
	// olderAtOnce is how many of the older parts of Prometheus triggers one cycle
	// asks for.
	olderAtOnce = 8
	// slowBackoff is how long a trigger that took Prometheus too long is not asked
	// for, the first time; twice as long each time after, up to slowestBackoff.
	slowBackoff    = time.Minute
	slowestBackoff = time.Hour
)

func (s *readings) makePlaces() {
	s.all, s.queries = make(chan struct{}, triggersAtOnce), make(chan struct{}, queriesAtOnce)
	s.slowAll, s.slowQueries = make(chan struct{}, triggersAtOnce/2), make(chan struct{}, queriesAtOnce/2)
	s.namespaces = map[string]chan struct{}{}
}

// read asks for what the triggers of all workloads are now, those that are not
// being asked for already. It fails none: what can't be read keeps its last value,
// which ages. Questions outlive the cycle, by life at most.
func (s *readings) read(ctx, life context.Context, now time.Time, v *view) {
	seen := map[triggerID]bool{}
	older := olderAtOnce
	var asked []chan struct{}
	for target, m := range v.managed {
		r := m.first
		if r.workload.Mode == api.ModeOff {
			continue
		}
		for _, t := range r.triggers {
			id := triggerID{r.key, t.name, t.definition}
			seen[id] = true
			state := s.known[id]
			if state == nil {
				newest := s.grid.At(now)
				state = &triggerState{
					history: demand.NewHistory(s.cfg.steps(), slackOf(target, s.cfg.steps())),
					older:   newest - int64(s.cfg.NewestSteps), oldest: newest - int64(s.cfg.steps()) + 1,
				}
				s.known[id] = state
			}
			var ask func(context.Context) error
			switch t.kind {
			case v1alpha1.TriggerExternal:
				ask = func(context.Context) error { return s.readExternal(state, t, r.key.Namespace, now) }
			case v1alpha1.TriggerObject:
				ask = func(context.Context) error { return s.readObject(state, t, r.key.Namespace, now) }
			case v1alpha1.TriggerPods:
				ask = func(context.Context) error { return s.readPods(state, t, v, target, now) }
			case v1alpha1.TriggerPrometheus:
				ask = func(ctx context.Context) error { return s.readPrometheus(ctx, state, t, now) }
			default:
				continue
			}
			state.mu.Lock()
			free := !state.busy && !now.Before(state.resume)
			back := free && t.kind == v1alpha1.TriggerPrometheus && older > 0 && !t.ratio && state.older >= state.oldest
			state.busy = state.busy || free
			waitFor := free && !state.slow
			state.mu.Unlock()
			if !free {
				continue
			}
			if back {
				older--
			}
			done := make(chan struct{})
			go s.ask(life, state, t, r.key.Namespace, back, ask, done)
			if waitFor {
				asked = append(asked, done)
			}
		}
	}
	for id := range s.known {
		if !seen[id] {
			delete(s.known, id)
		}
	}
	asked = append(asked, s.readObjectives(life, now, v)...)
	await(ctx, s.cfg.Clock.After(triggerWait), asked)
}

// ask for one trigger when it is its turn.
func (s *readings) ask(life context.Context, state *triggerState, t trigger, namespace string, back bool, ask func(context.Context) error, done chan struct{}) {
	defer close(done)
	state.mu.Lock()
	slow := state.slow
	state.mu.Unlock()
	defer s.turn(life, t, namespace, slow)()
	begun := s.cfg.Clock.Now()
	ctx, cancel := context.WithTimeout(life, s.cfg.QueryTimeout)
	defer cancel()
	err := s.cfg.guarded("a query or trigger "+t.name, api.Key{Namespace: namespace}, func() error {
		if err := ask(ctx); err != nil || !back {
			return err
		}
		return s.readOlder(life, state, t)
	})
	now := s.cfg.Clock.Now()
	state.mu.Lock()
	defer state.mu.Unlock()
	state.busy, state.slow = false, now.Sub(begun) > triggerWait
	if err == nil || classify(err) != tooMuch {
		state.err, state.tooMuch = err, 0
		return
	}
	wait := min(slowBackoff<<min(state.tooMuch, 20), slowestBackoff)
	state.tooMuch++
	state.resume = now.Add(wait)
	state.err = fmt.Errorf("the query is too slow or its answer too large, so it is sent again after %v: %w", wait, err)
}

// turn waits until a trigger may be asked for, and returns what ends its turn.
func (s *readings) turn(life context.Context, t trigger, namespace string, slow bool) (end func()) {
	s.mu.Lock()
	if s.namespaces[namespace] == nil {
		s.namespaces[namespace] = make(chan struct{}, namespaceAtOnce)
	}
	slots := []chan struct{}{s.namespaces[namespace]}
	s.mu.Unlock()
	places, ofSlow := s.all, s.slowAll
	if t.kind == v1alpha1.TriggerPrometheus {
		places, ofSlow = s.queries, s.slowQueries
	}
	if slow {
		slots = append(slots, ofSlow)
	}
	slots = append(slots, places)
	var taken []chan struct{}
	for _, slot := range slots {
		select {
		case slot <- struct{}{}:
			taken = append(taken, slot)
		case <-life.Done():
		}
	}
	return func() {
		for _, slot := range taken {
			<-slot
		}
	}
}

// takeLocked notes the answer to a question.
func (s *triggerState) takeLocked(value float64, pods int32, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.take(value, pods, at)
}

// take notes a value.
func (s *triggerState) take(value float64, pods int32, at time.Time) error {
	if !demand.Usable(value) {
		return fmt.Errorf("it is %v", value)
	}
	s.value, s.pods, s.at = value, pods, at
	return nil
}

func (s *readings) readExternal(state *triggerState, t trigger, namespace string, now time.Time) error {
	list, err := s.external.NamespacedMetrics(namespace).List(t.metric, t.selector)
	if err != nil {
		return fmt.Errorf("external.metrics.k8s.io: %w", err)
	}
	if len(list.Items) == 0 {
		return fmt.Errorf("external.metrics.k8s.io has no value of %s", t.metric)
	}
	var sum float64
	for _, m := range list.Items {
		sum += m.Value.AsApproximateFloat64()
	}
	return state.takeLocked(sum, 0, now)
}

func (s *readings) readObject(state *triggerState, t trigger, namespace string, now time.Time) error {
	kind := schema.GroupKind{Group: t.object.Group, Kind: t.object.Kind}
	m, err := s.custom.NamespacedMetrics(namespace).GetForObject(kind, t.objectName, t.metric, t.selector)
	if err != nil {
		return fmt.Errorf("custom.metrics.k8s.io: %w", err)
	}
	return state.takeLocked(m.Value.AsApproximateFloat64(), 0, now)
}

func (s *readings) readPods(state *triggerState, t trigger, v *view, target targetID, now time.Time) error {
	record := v.targets[target]
	if record == nil || record.selector == nil || len(v.members(target)) == 0 {
		return errors.New("there are no pods")
	}
	list, err := s.custom.NamespacedMetrics(target.namespace).GetForObjects(schema.GroupKind{Kind: "Pod"}, record.selector, t.metric, t.selector)
	if err != nil {
		return fmt.Errorf("custom.metrics.k8s.io: %w", err)
	}
	values := make(map[string]float64, len(list.Items))
	for _, m := range list.Items {
		values[m.DescribedObject.Name] = m.Value.AsApproximateFloat64()
	}
	var sum float64
	var pods int32
	for _, p := range v.members(target) {
		if value, ok := values[p.key.Name]; ok && countsAsReady(p) {
			sum += value
			pods++
		}
	}
	if pods == 0 {
		return fmt.Errorf("custom.metrics.k8s.io has no value of %s of a Ready pod", t.metric)
	}
	return state.takeLocked(sum, pods, now)
}

// readPrometheus asks for the newest steps.
func (s *readings) readPrometheus(ctx context.Context, state *triggerState, t trigger, now time.Time) error {
	newest := s.grid.At(now.Add(-s.cfg.EvaluationDelay))
	samples, err := s.samplesOf(ctx, t, newest-int64(s.cfg.NewestSteps)+1, newest)
	if err != nil {
		return err
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.at.After(now) { // the clock was ahead
		state.at = time.Time{}
	}
	last, at := math.NaN(), int64(math.MinInt64)
	s.prom.samples(samples, newest-int64(s.cfg.NewestSteps)+1, newest, func(step int64, v float64) {
		if !t.ratio {
			state.history.Set(step, v)
		}
		if step >= at {
			last, at = v, step
		}
	})
	if at == math.MinInt64 || s.grid.Time(at).Before(state.at) {
		return errors.New("the query gives no recent sample")
	}
	return state.take(last, 0, s.grid.Time(at))
}

// readOlder goes back in the past by one part. The error is that of one that is too
// much for Prometheus; others are no reason to wait.
func (s *readings) readOlder(ctx context.Context, state *triggerState, t trigger) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.QueryTimeout)
	defer cancel()
	from, to := max(state.oldest, state.older-int64(s.cfg.MaxPoints)+1), state.older // only questions change it
	samples, err := s.samplesOf(ctx, t, from, to)
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.attempts++; err == nil || state.attempts >= s.cfg.BackfillAttempts {
		s.prom.samples(samples, from, to, state.history.Set)
		state.older, state.attempts = from-1, 0
	}
	if err != nil && classify(err) == tooMuch {
		return fmt.Errorf("its past: %w", err)
	}
	return nil
}

// samplesOf the one series that a query gives.
func (s *readings) samplesOf(ctx context.Context, t trigger, from, to int64) ([]model.SamplePair, error) {
	a, err := s.prom.queryRange(ctx, t.query, from, to, s.cfg.QueryTimeout)
	switch {
	case err != nil:
		return nil, err
	case partial(a.warnings) != "":
		return nil, errors.New(partial(a.warnings))
	case len(a.series) == 0:
		return nil, errors.New("the query gives no series")
	case len(a.series) > 1:
		return nil, fmt.Errorf("the query gives %d series and must give one: sum() combines them", len(a.series))
	}
	return a.series[0].Values, nil
}

// of hands out the readings of a workload.
func (s *readings) of(now time.Time, r *workloadRecord, v *view, w api.Workload, usage *usageSource) []api.Trigger {
	out := make([]api.Trigger, 0, len(r.triggers))
	for _, t := range r.triggers {
		read := api.Trigger{
			Name: t.name, Target: t.target, Ratio: t.ratio, Activates: t.activates(), Activation: t.activation,
		}
		if t.kind == v1alpha1.TriggerCron {
			read.Value, _ = t.at(now)
			read.At = now
			read.Known = t.scheduled(now, s.cfg.Step, s.cfg.KnownAhead)
			out = append(out, read)
			continue
		}
		state := s.known[triggerID{r.key, t.name, t.definition}]
		if state == nil {
			read.Missing = "it was not read yet"
			out = append(out, read)
			continue
		}
		state.mu.Lock()
		if t.kind == v1alpha1.TriggerResource {
			read.Target, state.err = readResource(state, t, now, r, v, w, usage, s.cfg.UsageStaleAfter)
		}
		read.Value, read.Pods, read.At = state.value, state.pods, state.at
		switch age := now.Sub(state.at); {
		case !(read.Target > 0):
			read.Missing = state.err.Error()
		case state.at.IsZero() || age > s.cfg.StaleAfter+s.cfg.EvaluationDelay:
			read.Missing = "there is no recent value"
			if state.err != nil {
				read.Missing = state.err.Error()
			}
		case t.kind != v1alpha1.TriggerPrometheus || t.ratio:
			total := read.Total(w.ReadyReplicas)
			if read.Pods > 0 && w.ReadyReplicas > 0 {
				total *= float64(w.ReadyReplicas) / float64(read.Pods)
			}
			state.history.Set(s.grid.At(now), total)
		}
		read.History = state.history.Series(s.grid)
		state.mu.Unlock()
		out = append(out, read)
	}
	return out
}

// readResource sums what metrics.k8s.io says of the Ready pods, in cores or
// bytes, and returns the target of one replica in the same unit.
func readResource(state *triggerState, t trigger, now time.Time, r *workloadRecord, v *view, w api.Workload, usage *usageSource, stale time.Duration) (float64, error) {
	target := t.target
	if t.utilization {
		request := requested(t, v.targets[r.target], w)
		if request <= 0 {
			return 0, fmt.Errorf("its pods request no %s, so utilisation is undefined", t.resource)
		}
		target *= request
	}
	var sum float64
	var pods int32
	var cpu demand.Readings // of which what pods take to start is left out
	for _, p := range v.members(r.target) {
		u, ok := usage.reading(p.key)
		if !ok || !countsAsReady(p) || now.Sub(u.at).Abs() > stale || u.at.Before(p.pod.Created) {
			continue
		}
		value, ok := u.of(t.resource, t.container)
		if !ok {
			continue
		}
		if t.resource == "cpu" {
			cpu.Add(measuredPod(p, 0, u.window), u.at, u.window, 1000*value)
			continue
		}
		sum += value
		pods++
	}
	if u := cpu.Usage(); u != nil {
		sum, pods = u.MilliCPU/1000, u.Pods
	}
	if pods == 0 {
		return target, errors.New("metrics.k8s.io has no reading of a Ready pod")
	}
	return target, state.take(sum, pods, now)
}

// requested is what a replica, or one container of it, requests: cores or bytes.
func requested(t trigger, target *targetRecord, w api.Workload) float64 {
	var r api.Resources
	switch {
	case t.container != "" && target != nil:
		r = target.requests[t.container]
	case t.container == "" && w.Shape != nil:
		r = w.Shape.Requests
	}
	if t.resource == "memory" {
		return float64(r.Memory)
	}
	return float64(r.MilliCPU) / 1000
}

// missingFinding names the triggers of a workload that can't be read.
func missingFinding(w api.Workload) (api.Finding, bool) {
	f := api.Finding{
		Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Reason: ReasonTriggerMissing, Object: api.WorkloadRef(w.Key),
	}
	for i, s := range w.Triggers {
		if s.Missing == "" || w.Replicas == 0 && !s.Activates {
			continue
		}
		if f.Message != "" {
			f.Message += "; "
		}
		f.Message += fmt.Sprintf("spec.triggers[%d] %s: %s", i, s.Name, s.Missing)
	}
	return f, f.Message != ""
}
