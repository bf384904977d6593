package sensing

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/sensing/promql"
	"github.com/mash2-io/mash2/strategic/strategy"
	"github.com/mash2-io/mash2/strategic/strategy/when"
)

// strategyRecord is what the cache keeps of a Strategy: as decisions take it, and the sensors
// that are to be read, none where it can't be used.
type strategyRecord struct {
	identity
	strategy api.Strategy
	sensors  []v1alpha1.Sensor
	invalid  bool // and not Off
}

func strategyRecordOf(o *unstructured.Unstructured) *strategyRecord {
	r := &strategyRecord{identity: identify(o)}
	r.strategy.Key, r.strategy.Generation = r.key, o.GetGeneration()
	body, err := json.Marshal(o.Object["spec"])
	r.strategy.Spec = string(body)
	if err != nil || strategy.Check(r.strategy) != nil {
		r.invalid = strategy.ModeOf(r.strategy.Spec) != v1alpha1.ModeOff
		return r // deciding says why
	}
	r.strategy.Triggered = handTriggers(o.GetAnnotations()[api.AnnotationTriggered])
	var spec v1alpha1.StrategySpec
	if err := json.Unmarshal(body, &spec); err == nil && spec.Mode != v1alpha1.ModeOff {
		r.sensors = spec.Sensors
	}
	return r
}

// handTriggers reads what a person wrote; what can't be read is none.
func handTriggers(text string) []api.HandTrigger {
	const most = 4 << 10
	var by map[string]time.Time
	if text == "" || len(text) > most || json.Unmarshal([]byte(text), &by) != nil {
		return nil
	}
	var out []api.HandTrigger
	for _, target := range slices.Sorted(maps.Keys(by)) {
		out = append(out, api.HandTrigger{Target: target, At: by[target].UTC()})
	}
	return out
}

// strategies reads the sensors of users' strategies, as triggers are read: confined to their
// namespace, bounded, and never in a cycle's way.
type strategies struct {
	cfg      Config
	readings *readings
	sources  *sources
	known    map[sensorID]*sensorState
	// last are the sensors of each strategy as it was when it could be used: it decides by them until it can be
	// again.
	last  map[api.Key][]v1alpha1.Sensor
	begun time.Time // of the first cycle; what became of calls before isn't known
}

// sensorID tells sensors apart; another source is another sensor.
type sensorID struct {
	strategy     api.Key
	name, source string
}

// sensorIDOf is false for what is not read, an output of another strategy.
func sensorIDOf(of api.Key, s v1alpha1.Sensor) (sensorID, bool) {
	switch {
	case s.Prometheus != nil:
		return sensorID{of, s.Name, s.Prometheus.Query}, true
	case s.HTTP != nil:
		return sensorID{of, s.Name, fmt.Sprintf("%+v", *s.HTTP)}, true
	case s.Object != nil:
		return sensorID{of, s.Name, fmt.Sprintf("%+v", *s.Object)}, true
	}
	return sensorID{}, false
}

// sensorState is what is known of a sensor.
type sensorState struct {
	triggerState
	query   string // of prometheus, confined
	refused error  // with its field
	// value that was read for the time read, and so often as it was due; guarded by mu.
	value   float64
	read    time.Time
	missing error // of the last question
}

// observe returns the strategies in order of key, with what is known of their sensors after
// those were asked for that are due.
func (s *strategies) observe(ctx, life context.Context, now time.Time, records []*strategyRecord) []api.Strategy {
	slices.SortFunc(records, func(a, b *strategyRecord) int { return compareKeys(a.key, b.key) })
	if s.begun.IsZero() {
		s.begun = now
	}
	last := s.last
	s.last = make(map[api.Key][]v1alpha1.Sensor, len(records))
	for _, r := range records {
		if s.last[r.key] = r.sensors; r.invalid {
			s.last[r.key] = last[r.key]
		}
	}
	seen := map[sensorID]bool{}
	var asked []chan struct{}
	for _, r := range records {
		for _, sensor := range s.last[r.key] {
			id, is := sensorIDOf(r.key, sensor)
			if !is {
				continue
			}
			seen[id] = true
			if s.known[id] == nil {
				s.known[id] = s.newSensor(r.key.Namespace, sensor)
			}
			byHand := r.strategy.TriggeredAt(api.SensorTarget(sensor.Name), now)
			if done := s.ask(life, now, byHand, id, sensor); done != nil {
				asked = append(asked, done)
			}
		}
	}
	for id := range s.known {
		if !seen[id] {
			delete(s.known, id)
		}
	}
	if len(asked) > 0 {
		await(ctx, s.cfg.Clock.After(triggerWait), asked)
	}
	var out []api.Strategy
	for _, r := range records {
		with := r.strategy
		if s.cfg.Deliveries != nil {
			with.Deliveries, with.CallsSince = s.cfg.Deliveries(r.key), s.begun
		}
		for _, sensor := range s.last[r.key] {
			if id, is := sensorIDOf(r.key, sensor); is {
				with.Readings = append(with.Readings, s.known[id].reading(sensor.Name))
			}
		}
		out = append(out, with)
	}
	return out
}

// newSensor checks what no definition can: what a namespace may see.
func (s *strategies) newSensor(namespace string, sensor v1alpha1.Sensor) *sensorState {
	state := &sensorState{}
	switch {
	case sensor.Prometheus != nil:
		var err error
		if state.query, err = promql.Confine(sensor.Prometheus.Query, s.cfg.NamespaceLabel, namespace, s.cfg.Matchers); err != nil {
			state.refused = fmt.Errorf("prometheus.query: %w", err)
		}
	case sensor.HTTP != nil:
		if err := api.HostAllowed(s.cfg.SensorHosts, namespace, sensor.HTTP.URL); err != nil {
			state.refused = fmt.Errorf("http.url: %w (--sensor-host)", err)
		}
	}
	return state
}

// read asks once.
func (s *strategies) read(ctx context.Context, now time.Time, id sensorID, sensor v1alpha1.Sensor, query string) (value float64, err error) {
	err = s.cfg.guarded("sensor "+id.name, id.strategy, func() (err error) {
		switch {
		case sensor.HTTP != nil:
			value, err = s.sources.http(ctx, *sensor.HTTP)
		case sensor.Object != nil:
			value, err = s.sources.object(ctx, id.strategy.Namespace, *sensor.Object)
		default:
			value, err = s.readings.prom.one(ctx, query, now.Add(-s.cfg.EvaluationDelay))
		}
		return err
	})
	if err == nil && (math.IsNaN(value) || math.IsInf(value, 0)) {
		err = fmt.Errorf("it is %v", value)
	}
	return value, err
}

// ask for a sensor that is due, or that a person triggers who did so after it was read; nil
// where there is nothing to wait for.
func (s *strategies) ask(life context.Context, now, byHand time.Time, id sensorID, sensor v1alpha1.Sensor) chan struct{} {
	state := s.known[id]
	state.mu.Lock()
	defer state.mu.Unlock()
	due, ever := when.Next(sensor.When, id.strategy.String()+" "+id.name, state.read)
	if (!ever || due.After(now)) && !byHand.After(state.read) || state.refused != nil || state.busy || now.Before(state.resume) {
		return nil
	}
	state.busy = true
	done := make(chan struct{})
	var slot trigger
	if sensor.Prometheus != nil {
		slot.kind = v1alpha1.TriggerPrometheus
	}
	go s.readings.ask(life, &state.triggerState, slot, id.strategy.Namespace, false, func(ctx context.Context) error {
		value, err := s.read(ctx, now, id, sensor, state.query)
		state.mu.Lock()
		defer state.mu.Unlock()
		if state.missing = err; err == nil {
			state.value, state.read = value, now
		}
		return err
	}, done)
	if state.slow {
		return nil
	}
	return done
}

// reading is what is known of a sensor. One that could not be read when it was due has no
// value until it can be.
func (s *sensorState) reading(name string) api.SensorReading {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := api.SensorReading{Sensor: name, Value: s.value, At: s.read}
	switch {
	case s.refused != nil:
		r.Missing = s.refused.Error()
	case s.missing != nil:
		r.Missing = s.missing.Error()
	case s.read.IsZero():
		r.Missing = "it was not read yet"
	}
	return r
}
