package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/strategic/strategy"
	"github.com/mash2-io/mash2/strategic/strategy/when"
)

// StrategyView is a user's Strategy as the newest cycle saw it.
type StrategyView struct {
	Key api.Key `json:"key"`
	// Spec, with empty addresses of hosts for who may not list Strategies.
	Spec v1alpha1.StrategySpec `json:"spec"`
	// Error names the fields that can't be used; empty for a Strategy that can.
	Error string `json:"error,omitempty"`
	// Rules, Choice and Outputs of the last cycle.
	Rules   []api.RuleState      `json:"rules"`
	Choice  *api.Choice          `json:"choice,omitempty"`
	Outputs []api.StrategyOutput `json:"outputs,omitempty"`
	// Learning without the sums that it is computed from.
	Learning *api.Learning `json:"learning,omitempty"`
	Sensors  []SensorView  `json:"sensors"`
	// Actions that it wants.
	Actions []api.StrategyAction `json:"actions"`
}

// SensorView is a sensor as the newest cycle saw it.
type SensorView struct {
	// ID is NAMESPACE/STRATEGY/SENSOR.
	ID     string `json:"id"`
	Name   string `json:"name"`
	Source string `json:"source"` // prometheus, http, object or strategy
	// Trigger says when it is read, such as interval[0:05:00].
	Trigger string `json:"trigger"`
	// Next is when it is due; null if it never is again.
	Next *time.Time `json:"next"`
	// Value of the last reading, At that time; null if there is none, and Missing says why.
	Value   *float64   `json:"value"`
	At      *time.Time `json:"at"`
	Missing string     `json:"missing,omitempty"`
}

// Lists of strategies and of what they have.
type (
	// StrategyList is the answer to strategies.
	StrategyList struct {
		Strategies []StrategyView `json:"strategies"`
	}
	// SensorList is the answer to sensors.
	SensorList struct {
		Sensors []SensorView `json:"sensors"`
	}
	// ActuatorList is the answer to actuators: what strategies want now.
	ActuatorList struct {
		Actuators []api.StrategyAction `json:"actuators"`
	}
)

// strategies are those that a viewer may see, in order of key.
func (s *Store) strategies(v Viewer) []StrategyView {
	s.mu.RLock()
	read, policy, at := s.last.Snapshot.Context.Strategies, s.last.Cycle.Policy, s.last.Cycle.Time
	s.mu.RUnlock()
	out := []StrategyView{}
	for _, of := range read {
		if !v.sees(of.Key.Namespace) {
			continue
		}
		view := StrategyView{Key: of.Key, Rules: []api.RuleState{}, Sensors: []SensorView{}, Actions: []api.StrategyAction{}}
		if err := json.Unmarshal([]byte(of.Spec), &view.Spec); err != nil {
			view.Error = err.Error()
		} else if err := strategy.Check(of); err != nil {
			view.Error = err.Error()
		}
		for _, state := range policy.Strategies {
			if state.Key == of.Key {
				if state = strategyViews([]api.StrategyState{state})[0]; state.Stays && view.Error != "" {
					view.Error += "; until it can be used, it decides as before it was changed"
				}
				view.Rules, view.Choice, view.Outputs, view.Learning = append(view.Rules, state.Rules...), state.Choice, state.Outputs, state.Learning
			}
		}
		for _, a := range policy.StrategyActions {
			if a.Strategy == of.Key {
				view.Actions = append(view.Actions, a)
			}
		}
		view.Actions = v.actions(view.Actions)
		if !v.addresses(of.Key.Namespace) {
			withoutAddresses(&view.Spec)
		}
		for _, sensor := range view.Spec.Sensors {
			view.Sensors = append(view.Sensors, sensorView(of, sensor, at))
		}
		out = append(out, view)
	}
	return out
}

// withoutAddresses leaves empty what a Strategy asks and calls: so it can't be written back by
// mistake, as an empty address is refused.
func withoutAddresses(spec *v1alpha1.StrategySpec) {
	for i := range spec.Sensors {
		if http := spec.Sensors[i].HTTP; http != nil {
			http.URL = ""
		}
	}
	for i := range spec.Rules {
		for _, a := range spec.Rules[i].Actions {
			if a.CallWebhook != nil {
				a.CallWebhook.URL = ""
			}
		}
	}
}

func sensorView(of api.Strategy, sensor v1alpha1.Sensor, now time.Time) SensorView {
	out := SensorView{ID: of.Key.String() + "/" + sensor.Name, Name: sensor.Name, Source: "strategy", Trigger: trigger(sensor.When)}
	switch {
	case sensor.Prometheus != nil:
		out.Source = "prometheus"
	case sensor.HTTP != nil:
		out.Source = "http"
	case sensor.Object != nil:
		out.Source = "object"
	}
	var last time.Time
	for _, r := range of.Readings {
		if r.Sensor != sensor.Name {
			continue
		}
		if out.Missing = r.Missing; r.Missing == "" {
			out.Value = &r.Value
		}
		if last = r.At; !last.IsZero() {
			out.At = &last
		}
	}
	if next, ever := when.Next(sensor.When, of.Key.String()+" "+sensor.Name, last); ever {
		if next.Before(now) {
			next = now // with the next cycle
		}
		out.Next = &next
	}
	return out
}

// trigger is when a sensor is read, in a word: interval[0:05:00], cron[*/5 * * * *],
// date[TIME], and[…], or[…], or cycle for every cycle.
func trigger(w *v1alpha1.When) string {
	if w == nil {
		return "cycle"
	}
	one := func(a v1alpha1.At) string {
		switch {
		case a.Interval != nil:
			d := a.Interval.Every.Round(time.Second)
			return fmt.Sprintf("interval[%d:%02d:%02d]", d/time.Hour, d/time.Minute%60, d/time.Second%60)
		case a.Date != nil:
			return "date[" + a.Date.UTC().Format(time.RFC3339) + "]"
		case a.Cron != nil:
			return "cron[" + a.Cron.Schedule + "]"
		}
		return ""
	}
	several := func(word string, list []v1alpha1.At) string {
		var all []string
		for _, a := range list {
			all = append(all, one(a))
		}
		return word + "[" + strings.Join(all, ", ") + "]"
	}
	switch {
	case len(w.AllOf) > 0:
		return several("and", w.AllOf)
	case len(w.AnyOf) > 0:
		return several("or", w.AnyOf)
	}
	return one(w.At)
}

// strategy is one that a viewer may see.
func (s *Store) strategy(v Viewer, key api.Key) (StrategyView, error) {
	for _, of := range s.strategies(v) {
		if of.Key == key {
			return of, nil
		}
	}
	return StrategyView{}, errNotThere
}

// strategyRoutes are those of strategies, their sensors and their rules. What they write is
// the Strategy in the cluster, with the rights of who asks: the API server checks these, and
// those that the strategy's actions need.
func (s *Server) strategyRoutes() []route {
	const one = "strategies/{namespace}/{name}"
	out := []route{
		{
			Path: "strategies", Summary: "Strategies with their sensors, rules and actions.", Query: []parameter{namespaceParameter}, Answer: StrategyList{},
			get: func(v Viewer, _ *http.Request) (any, error) { return StrategyList{s.Store.strategies(v)}, nil },
		},
		{
			Path: one, Summary: "A strategy.", Answer: StrategyView{},
			get: func(v Viewer, r *http.Request) (any, error) { return s.Store.strategy(v, keyOf(r)) },
		},
		{
			Path: "sensors", Summary: "The sensors of all strategies.", Query: []parameter{namespaceParameter}, Answer: SensorList{},
			get: func(v Viewer, _ *http.Request) (any, error) { return SensorList{s.Store.sensors(v)}, nil },
		},
		{
			Path: "actuators", Summary: "What strategies want now, and why it is not done where it is not.", Query: []parameter{namespaceParameter}, Answer: ActuatorList{},
			get: func(v Viewer, _ *http.Request) (any, error) {
				out := ActuatorList{[]api.StrategyAction{}}
				for _, of := range s.Store.strategies(v) {
					out.Actuators = append(out.Actuators, of.Actions...)
				}
				return out, nil
			},
		},
		{
			Method: http.MethodPut, Path: one, Summary: "Writes a strategy's spec; makes the strategy if it is not there.", Body: v1alpha1.StrategySpec{},
			act: func(r *http.Request, body []byte) error {
				var spec v1alpha1.StrategySpec
				if err := strategy.Decode(body, &spec); err != nil {
					return badf("%v", err)
				}
				if err := checkSpec(keyOf(r), spec); err != nil {
					return err
				}
				return s.Actor.PutStrategy(r.Context(), r, keyOf(r), spec)
			},
		},
		{
			Method: http.MethodDelete, Path: one, Summary: "Deletes a strategy.",
			act: func(r *http.Request, _ []byte) error { return s.Actor.DeleteStrategy(r.Context(), r, keyOf(r)) },
		},
		{
			Method: http.MethodPut, Path: one + "/sensors/{sensor}", Summary: "Adds a sensor, or replaces it.", Body: v1alpha1.Sensor{},
			act: func(r *http.Request, body []byte) error { return s.putSensor(r, keyOf(r), r.PathValue("sensor"), body) },
		},
		{
			Method: http.MethodDelete, Path: one + "/sensors/{sensor}", Summary: "Removes a sensor that no expression reads.",
			act: func(r *http.Request, _ []byte) error { return s.removeSensor(r, keyOf(r), r.PathValue("sensor")) },
		},
		{
			Method: http.MethodPost, Path: one + "/sensors/{sensor}/read", Summary: "Reads a sensor in the next cycle.",
			act: func(r *http.Request, _ []byte) error {
				return s.trigger(r, keyOf(r), api.SensorTarget(r.PathValue("sensor")))
			},
		},
		{
			Method: http.MethodPut, Path: one + "/rules/{rule}", Summary: "Adds a rule with its actions, or replaces it.", Body: v1alpha1.Rule{},
			act: func(r *http.Request, body []byte) error {
				var rule v1alpha1.Rule
				if err := strategy.Decode(body, &rule); err != nil {
					return badf("%v", err)
				}
				rule.Name = r.PathValue("rule")
				return s.change(r, keyOf(r), func(spec *v1alpha1.StrategySpec) error {
					spec.Rules = put(spec.Rules, rule, func(x v1alpha1.Rule) bool { return x.Name == rule.Name })
					return nil
				})
			},
		},
		{
			Method: http.MethodDelete, Path: one + "/rules/{rule}", Summary: "Removes a rule with its actions.",
			act: func(r *http.Request, _ []byte) error {
				return s.change(r, keyOf(r), func(spec *v1alpha1.StrategySpec) (err error) {
					spec.Rules, err = without(spec.Rules, func(x v1alpha1.Rule) bool { return x.Name == r.PathValue("rule") })
					return err
				})
			},
		},
		{
			Method: http.MethodPost, Path: one + "/rules/{rule}/trigger", Summary: "Turns a rule on in the next cycle, so that its actions are carried out.",
			act: func(r *http.Request, _ []byte) error {
				return s.trigger(r, keyOf(r), api.RuleTarget(r.PathValue("rule")))
			},
		},
	}
	// To check what is sent takes work: nobody who is unknown asks for it.
	for i, r := range out {
		if act := r.act; act != nil {
			out[i].act = func(q *http.Request, body []byte) error {
				if _, err := s.viewer(q); err != nil && !errors.Is(err, errNoCycle) {
					return err
				}
				return act(q, body)
			}
		}
	}
	return out
}

// sensors of all strategies that a viewer may see.
func (s *Store) sensors(v Viewer) []SensorView {
	out := []SensorView{}
	for _, of := range s.strategies(v) {
		out = append(out, of.Sensors...)
	}
	return out
}

func (s *Server) putSensor(r *http.Request, key api.Key, name string, body []byte) error {
	var sensor v1alpha1.Sensor
	if err := strategy.Decode(body, &sensor); err != nil {
		return badf("%v", err)
	}
	sensor.Name = name
	return s.change(r, key, func(spec *v1alpha1.StrategySpec) error {
		spec.Sensors = put(spec.Sensors, sensor, func(x v1alpha1.Sensor) bool { return x.Name == name })
		return nil
	})
}

func (s *Server) removeSensor(r *http.Request, key api.Key, name string) error {
	return s.change(r, key, func(spec *v1alpha1.StrategySpec) (err error) {
		spec.Sensors, err = without(spec.Sensors, func(x v1alpha1.Sensor) bool { return x.Name == name })
		return err
	})
}

// put replaces the one that is it, or adds it at the end.
func put[T any](list []T, x T, is func(T) bool) []T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		list[i] = x
		return list
	}
	return append(list, x)
}

// without takes it out, and says so where it isn't in.
func without[T any](list []T, is func(T) bool) ([]T, error) {
	i := slices.IndexFunc(list, is)
	if i < 0 {
		return nil, errNotThere
	}
	return slices.Delete(list, i, i+1), nil
}

// checkSpec names what can't be used by its path.
func checkSpec(key api.Key, spec v1alpha1.StrategySpec) error {
	of, err := strategy.Of(&v1alpha1.Strategy{Spec: spec})
	if err == nil {
		of.Key = key
		err = strategy.CheckOnce(of) // who sends it may not be allowed to write it
	}
	if err != nil {
		return badf("%v", err)
	}
	return nil
}

// change of a spec, which must be one that can be used afterwards.
func (s *Server) change(r *http.Request, key api.Key, change func(*v1alpha1.StrategySpec) error) error {
	return s.Actor.ChangeStrategy(r.Context(), r, key, func(o *v1alpha1.Strategy) error {
		if err := change(&o.Spec); err != nil {
			return err
		}
		return checkSpec(key, o.Spec)
	})
}

// trigger notes that a person wants a sensor read, or a rule on.
func (s *Server) trigger(r *http.Request, key api.Key, target string) error {
	return s.Actor.ChangeStrategy(r.Context(), r, key, func(o *v1alpha1.Strategy) error {
		there := slices.ContainsFunc(o.Spec.Sensors, func(x v1alpha1.Sensor) bool { return api.SensorTarget(x.Name) == target && x.Strategy == nil }) ||
			slices.ContainsFunc(o.Spec.Rules, func(x v1alpha1.Rule) bool { return api.RuleTarget(x.Name) == target })
		if !there {
			return errNotThere
		}
		now := time.Now().UTC()
		by := map[string]time.Time{}
		_ = json.Unmarshal([]byte(o.Annotations[api.AnnotationTriggered]), &by) // what can't be read is replaced
		for t, at := range by {
			if now.Sub(at) > api.HandTriggerCounts {
				delete(by, t)
			}
		}
		by[target] = now
		text, err := json.Marshal(by)
		if err != nil {
			return err
		}
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		o.Annotations[api.AnnotationTriggered] = string(text)
		return nil
	})
}
