package sensing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/sensing/promql"
	"github.com/mash2-io/mash2/sensing/slo"
)

// sloWindows is how many scrapes the window of an SLO's reading has: two of them are a
// rate, and one may be missed.
const sloWindows = 3

// labelSLO tells bad events from all of them in the one answer that has both.
const labelSLO = "mash2_slo"

// sloID names a resource with objectives.
type sloID struct {
	kind string
	key  api.Key
}

// sloRecord is what the cache keeps of it: its objectives by name, and what is wrong with
// those that can't be read. Kinds with one objective have it under the empty name.
type sloRecord struct {
	identity
	definitions map[string]slo.Definition
	wrong       map[string]error
}

func sloRecordOf(o *unstructured.Unstructured) *sloRecord {
	r := &sloRecord{identity: identify(o), definitions: map[string]slo.Definition{}, wrong: map[string]error{}}
	body, err := json.Marshal(o.Object)
	if o.GetKind() != kindOpenSLO && err == nil {
		body, err = json.Marshal(o.Object["spec"])
	}
	if err != nil {
		r.wrong[""] = err
		return r
	}
	var d slo.Definition
	switch o.GetKind() {
	case kindSloth:
		if r.definitions, r.wrong, err = slo.FromSloth(body); err != nil {
			r.wrong = map[string]error{"": err}
		}
		return r
	case kindPyrra:
		d, err = slo.FromPyrra(body)
	default:
		d, err = slo.FromOpenSLO(body)
	}
	if err != nil {
		r.wrong[""] = err
		return r
	}
	r.definitions[""] = d
	return r
}

// objective of a workload as its author wrote it.
type objective struct {
	name       string
	ref        *v1alpha1.SLORef // nil where it is written in the ManagedWorkload
	definition slo.Definition
	err        error
}

func objectivesOf(w *v1alpha1.ManagedWorkload) []objective {
	var out []objective
	for i := range w.Spec.SLOs {
		in := &w.Spec.SLOs[i]
		o := objective{name: in.Name, ref: in.Ref}
		field := "ref"
		switch {
		case in.Ref != nil:
		case in.Prometheus != nil:
			field = "prometheus"
			o.definition, o.err = slo.FromPromQL(in.Prometheus.Objective, in.Prometheus.ErrorQuery, in.Prometheus.TotalQuery)
		default:
			field = "openSLO"
			o.definition, o.err = slo.FromOpenSLO([]byte(in.OpenSLO))
		}
		if o.err != nil {
			o.err = fmt.Errorf("spec.slos[%d].%s: %w", i, field, o.err)
		}
		out = append(out, o)
	}
	return out
}

// resolve finds what an objective is now.
func (o objective) resolve(namespace string, v *view) (slo.Definition, error) {
	if o.ref == nil {
		return o.definition, o.err
	}
	r := v.slos[sloID{string(o.ref.Kind), api.Key{Namespace: namespace, Name: o.ref.Name}}]
	if r == nil {
		return slo.Definition{}, fmt.Errorf("there is no %s %s/%s", o.ref.Kind, namespace, o.ref.Name)
	}
	if d, ok := r.definitions[o.ref.SLO]; ok {
		return d, nil
	}
	for _, name := range []string{o.ref.SLO, ""} {
		if err := r.wrong[name]; err != nil {
			return slo.Definition{}, fmt.Errorf("%s %s/%s: %w", o.ref.Kind, namespace, o.ref.Name, err)
		}
	}
	return slo.Definition{}, fmt.Errorf("%s %s/%s has no objective %q", o.ref.Kind, namespace, o.ref.Name, o.ref.SLO)
}

// sloState is what is known of an objective.
type sloState struct {
	triggerState
	definition slo.Definition
	query      string // of bad and of all events, confined to the namespace
	refused    error
	reading    api.SLO
}

// readObjectives asks for the SLOs of all workloads, those that are not being asked for
// already, and returns what is to be waited for.
func (s *readings) readObjectives(life context.Context, now time.Time, v *view) (asked []chan struct{}) {
	seen := map[triggerID]bool{}
	for _, m := range v.managed {
		r := m.first
		if r.workload.Mode == api.ModeOff {
			continue
		}
		for _, o := range r.slos {
			d, err := o.resolve(r.key.Namespace, v)
			if err != nil {
				continue // objectives says so
			}
			id := sloTrigger(r.key, o.name, d)
			seen[id] = true
			state := s.slos[id]
			if state == nil {
				state = s.newObjective(r.key.Namespace, d)
				s.slos[id] = state
			}
			state.mu.Lock()
			free := state.refused == nil && !state.busy && !now.Before(state.resume)
			state.busy = state.busy || free
			waitFor := free && !state.slow
			state.mu.Unlock()
			if !free {
				continue
			}
			done := make(chan struct{})
			go s.ask(life, &state.triggerState, trigger{kind: v1alpha1.TriggerPrometheus}, r.key.Namespace, false,
				func(ctx context.Context) error { return s.readObjective(ctx, state, now) }, done)
			if waitFor {
				asked = append(asked, done)
			}
		}
	}
	for id := range s.slos {
		if !seen[id] {
			delete(s.slos, id)
		}
	}
	return asked
}

func sloTrigger(workload api.Key, name string, d slo.Definition) triggerID {
	return triggerID{workload, name, d.Bad + "\n" + d.Total}
}

// window has three samples at least, where the window of rates has four.
func (s *readings) window() time.Duration {
	return max(sloWindows*s.cfg.Step, s.cfg.RateWindow*3/4)
}

// newObjective confines its queries to a namespace.
func (s *readings) newObjective(namespace string, d slo.Definition) *sloState {
	state := &sloState{definition: d}
	bad, total := d.Over(s.window())
	for _, q := range []*string{&bad, &total} {
		confined, err := promql.Confine(*q, s.cfg.NamespaceLabel, namespace, s.cfg.Matchers)
		if err != nil {
			state.refused = err
			return state
		}
		*q = confined
	}
	marked := func(q, as string) string {
		return fmt.Sprintf("label_replace(%s, %q, %q, %q, %q)", q, labelSLO, as, "", "")
	}
	state.query = marked(bad, "bad") + " or " + marked(total, "total")
	return state
}

// readObjective asks for the events of the newest window.
func (s *readings) readObjective(ctx context.Context, state *sloState, now time.Time) error {
	at := now.Add(-s.cfg.EvaluationDelay)
	vector, err := s.prom.instant(ctx, state.query, at)
	if err != nil {
		return err
	}
	values := map[model.LabelValue][]float64{}
	for _, sample := range vector {
		as := sample.Metric[labelSLO]
		values[as] = append(values[as], float64(sample.Value))
	}
	bad, total := values["bad"], values["total"]
	switch {
	case len(total) == 0:
		return errors.New("the query of all events gives no series")
	case len(total) > 1 || len(bad) > 1:
		return fmt.Errorf("the queries give %d series of bad and %d of all events, and each must give one: sum() combines them", len(bad), len(total))
	case len(bad) == 0 && !state.definition.SameMetric:
		return errors.New("the query of bad events gives no series; where that means none, and not that all are bad, add `or vector(0)`")
	case len(bad) == 0:
		bad = []float64{0}
	}
	reading := api.SLO{Objective: state.definition.Objective, At: at, Window: s.window(), Total: total[0], Bad: bad[0]}
	if state.definition.PerSecond {
		reading.Total *= reading.Window.Seconds()
		reading.Bad *= reading.Window.Seconds()
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	state.reading = reading
	return nil
}

// objectives hands out the readings of a workload's SLOs.
func (s *readings) objectives(r *workloadRecord, v *view) []api.SLO {
	var out []api.SLO
	for _, o := range r.slos {
		reading := api.SLO{Name: o.name}
		d, err := o.resolve(r.key.Namespace, v)
		if err == nil {
			if state := s.slos[sloTrigger(r.key, o.name, d)]; state != nil {
				state.mu.Lock()
				reading, err = state.reading, errors.Join(state.refused, state.err)
				state.mu.Unlock()
			}
			reading.Name, reading.Objective = o.name, d.Objective
			if err == nil && reading.At.IsZero() {
				err = errors.New("it was not read yet")
			}
		}
		if err != nil {
			reading.Missing = err.Error()
		}
		out = append(out, reading)
	}
	return out
}
