package sensing

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/sensing/promql"
)

// trigger is a demand input as its author wrote it, checked and taken apart.
type trigger struct {
	name string
	kind v1alpha1.TriggerType
	// target of one replica in the metric's own unit; of a utilisation, the
	// share of the requests.
	target      float64
	utilization bool
	ratio       bool
	activation  float64

	metric     string
	selector   labels.Selector // of the metric; everything if not given
	object     metav1.GroupKind
	objectName string
	resource   string
	container  string
	query      string // confined to the namespace
	start, end cron.Schedule
	location   *time.Location
	replicas   int32
	definition string // tells it from another one of the same name
}

// activates tells whether it has a meaning without pods.
func (t trigger) activates() bool {
	return t.kind != v1alpha1.TriggerPods && t.kind != v1alpha1.TriggerResource
}

// cronFields are the usual five.
var cronFields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// triggersOf checks the triggers of a ManagedWorkload. The error names the field.
func triggersOf(w *v1alpha1.ManagedWorkload, cfg Config) ([]trigger, error) {
	var out []trigger
	for i := range w.Spec.Triggers {
		in := &w.Spec.Triggers[i]
		at := fmt.Sprintf("spec.triggers[%d]", i)
		if slices.ContainsFunc(out, func(t trigger) bool { return t.name == in.Name }) {
			return nil, fmt.Errorf("%s.name: there is another trigger %q", at, in.Name)
		}
		t, field, err := triggerOf(in, w.Namespace, cfg)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", at, field, err)
		}
		out = append(out, t)
	}
	return out, nil
}

// triggerOf checks one trigger; with an error it names the field within it.
func triggerOf(in *v1alpha1.Trigger, namespace string, cfg Config) (t trigger, field string, err error) {
	definition, err := json.Marshal(in)
	if err != nil {
		return t, "target", err
	}
	t = trigger{name: in.Name, kind: in.Type, selector: labels.Everything(), definition: string(definition)}
	missing := func(field string) (trigger, string, error) {
		return t, field, fmt.Errorf("is required with type %s", in.Type)
	}
	metric := func(name string, selector *metav1.LabelSelector) error {
		t.metric = name
		if name == "" || strings.ContainsAny(name, "/%?") {
			return fmt.Errorf("can't be %q", name)
		}
		if selector == nil {
			return nil
		}
		t.selector, err = metav1.LabelSelectorAsSelector(selector)
		return err
	}
	switch in.Type {
	case v1alpha1.TriggerExternal:
		if in.External == nil {
			return missing("external")
		}
		if err := metric(in.External.Metric.Name, in.External.Metric.Selector); err != nil {
			return t, "external.metric", err
		}
	case v1alpha1.TriggerPods:
		if in.Pods == nil {
			return missing("pods")
		}
		if err := metric(in.Pods.Metric.Name, in.Pods.Metric.Selector); err != nil {
			return t, "pods.metric", err
		}
	case v1alpha1.TriggerObject:
		if in.Object == nil {
			return missing("object")
		}
		if err := metric(in.Object.Metric.Name, in.Object.Metric.Selector); err != nil {
			return t, "object.metric", err
		}
		o := in.Object.DescribedObject
		if o.Kind == "" || o.Name == "" {
			return t, "object.describedObject", fmt.Errorf("must have a kind and a name")
		}
		group, _, found := strings.Cut(o.APIVersion, "/")
		if !found {
			group = ""
		}
		t.object, t.objectName = metav1.GroupKind{Group: group, Kind: o.Kind}, o.Name
	case v1alpha1.TriggerResource:
		if in.Resource == nil {
			return missing("resource")
		}
		t.resource, t.container = in.Resource.Name, in.Resource.Container
		if t.resource != "cpu" && t.resource != "memory" {
			return t, "resource.name", fmt.Errorf("must be cpu or memory, is %q", t.resource)
		}
	case v1alpha1.TriggerPrometheus:
		if in.Prometheus == nil {
			return missing("prometheus")
		}
		if t.query, err = promql.Confine(in.Prometheus.Query, cfg.NamespaceLabel, namespace, cfg.Matchers); err != nil {
			return t, "prometheus.query", err
		}
	case v1alpha1.TriggerCron:
		return t.schedule(in.Cron)
	default:
		return t, "type", fmt.Errorf("can't be %q", in.Type)
	}
	if a := in.ActivationThreshold; a != nil {
		if t.activation = a.AsApproximateFloat64(); !(t.activation >= 0) || math.IsInf(t.activation, 0) {
			return t, "activationThreshold", fmt.Errorf("must not be negative, is %s", a)
		}
	}
	return t.aim(in)
}

// aim takes the target over.
func (t trigger) aim(in *v1alpha1.Trigger) (trigger, string, error) {
	g := in.Target
	field := "target.averageValue"
	switch {
	case g == nil:
		return t, "target", fmt.Errorf("is required with type %s", in.Type)
	case g.AverageUtilization != nil && in.Type == v1alpha1.TriggerResource:
		field = "target.averageUtilization"
		t.target, t.utilization = float64(*g.AverageUtilization)/100, true
	case g.Value != nil && in.Type != v1alpha1.TriggerResource && in.Type != v1alpha1.TriggerPods:
		field = "target.value"
		t.target, t.ratio = g.Value.AsApproximateFloat64(), true
	case g.AverageValue != nil:
		t.target = g.AverageValue.AsApproximateFloat64()
	default:
		return t, "target", fmt.Errorf("has none of the fields that type %s can use", in.Type)
	}
	if !(t.target > 0) || math.IsInf(t.target, 0) {
		return t, field, fmt.Errorf("must be above 0, is %g", t.target)
	}
	return t, "", nil
}

// schedule takes a cron trigger over.
func (t trigger) schedule(in *v1alpha1.CronTrigger) (trigger, string, error) {
	if in == nil {
		return t, "cron", fmt.Errorf("is required with type Cron")
	}
	var err error
	if t.location, err = time.LoadLocation(in.TimeZone); err != nil || in.TimeZone == "Local" {
		return t, "cron.timeZone", fmt.Errorf("%q is no IANA time zone", in.TimeZone)
	}
	for _, f := range []struct {
		name, text string
		to         *cron.Schedule
	}{{"cron.start", in.Start, &t.start}, {"cron.end", in.End, &t.end}} {
		if strings.Contains(f.text, "TZ=") {
			return t, f.name, fmt.Errorf("the time zone goes into timeZone")
		}
		if *f.to, err = cronFields.Parse(f.text); err != nil {
			return t, f.name, err
		}
		if (*f.to).Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
			return t, f.name, fmt.Errorf("%q never comes", f.text)
		}
	}
	if in.Replicas < 1 {
		return t, "cron.replicas", fmt.Errorf("must be 1 or more, is %d", in.Replicas)
	}
	t.replicas, t.target = in.Replicas, 1
	return t, "", nil
}

// at is what a cron trigger asks for at a time, and until when at least. It is within its
// time when its end comes before its next start, as clocks on the wall show both: one that falls into
// the hour that summer time leaves out comes all the same.
func (t trigger) at(now time.Time) (replicas float64, until time.Time) {
	local := now.In(t.location)
	wall := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), local.Nanosecond(), time.UTC)
	start, end := t.start.Next(wall), t.end.Next(wall)
	next := start
	if end.Before(start) {
		replicas, next = float64(t.replicas), end
	}
	until = time.Date(next.Year(), next.Month(), next.Day(), next.Hour(), next.Minute(), next.Second(), 0, t.location)
	if !until.After(now) { // in an hour that comes twice, or not at all
		until = now.Add(time.Minute)
	}
	return replicas, until
}

// scheduled is what a cron trigger will ask for.
func (t trigger) scheduled(now time.Time, step, ahead time.Duration) *api.Forecast {
	f := &api.Forecast{Model: "schedule", Start: now, Step: step, Levels: []float64{0.5}, Skill: 1}
	value, until := t.at(now)
	peak := 0.0
	for i := range int(ahead/step) + 1 {
		if at := now.Add(time.Duration(i) * step); !at.Before(until) {
			value, until = t.at(at)
		}
		f.Mean = append(f.Mean, value)
		peak = max(peak, value)
	}
	f.Quantiles, f.PeakQuantiles = [][]float64{f.Mean}, []float64{peak}
	return f
}
