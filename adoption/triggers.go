package adoption

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api/v1alpha1"
)

// maxTriggers is the most that a ManagedWorkload may have.
const maxTriggers = 16

// unsuited are the letters that a trigger's name can't have.
var unsuited = regexp.MustCompile(`[^a-z0-9]+`)

// add takes a trigger over, under a name of its own made from another.
func (c *Candidate) add(name string, t v1alpha1.Trigger) {
	triggers := &c.Workload.Spec.Triggers
	if len(*triggers) == maxTriggers {
		c.note("%s is left out: it would be more than %d triggers", name, maxTriggers)
		return
	}
	base := strings.Trim(unsuited.ReplaceAllString(strings.ToLower(name), "-"), "-")
	base = cmp.Or(strings.Trim(base[:min(len(base), 50)], "-"), "trigger")
	t.Name = base
	for i := 2; slices.ContainsFunc(*triggers, func(o v1alpha1.Trigger) bool { return o.Name == t.Name }); i++ {
		t.Name = fmt.Sprintf("%s-%d", base, i)
	}
	*triggers = append(*triggers, t)
}

// metric takes a metric of an HPA over.
func (c *Candidate) metric(m autoscalingv2.MetricSpec) {
	switch {
	case m.Resource != nil:
		c.resource(string(m.Resource.Name), "", m.Resource.Target)
	case m.ContainerResource != nil:
		c.resource(string(m.ContainerResource.Name), m.ContainerResource.Container, m.ContainerResource.Target)
	case m.External != nil:
		if target, ok := c.aim("External metric", m.External.Metric.Name, m.External.Target); ok {
			c.add(m.External.Metric.Name, v1alpha1.Trigger{
				Type: v1alpha1.TriggerExternal, Target: target, External: &v1alpha1.MetricTrigger{Metric: *m.External.Metric.DeepCopy()},
			})
		}
	case m.Object != nil:
		if target, ok := c.aim("Object metric", m.Object.Metric.Name, m.Object.Target); ok {
			c.add(m.Object.Metric.Name, v1alpha1.Trigger{
				Type: v1alpha1.TriggerObject, Target: target,
				Object: &v1alpha1.ObjectTrigger{DescribedObject: m.Object.DescribedObject, Metric: *m.Object.Metric.DeepCopy()},
			})
		}
	case m.Pods != nil:
		if target, ok := c.aim("Pods metric", m.Pods.Metric.Name, m.Pods.Target); ok && target.AverageValue != nil {
			c.add(m.Pods.Metric.Name, v1alpha1.Trigger{
				Type: v1alpha1.TriggerPods, Target: target, Pods: &v1alpha1.MetricTrigger{Metric: *m.Pods.Metric.DeepCopy()},
			})
		}
	default:
		c.note("a metric of type %q is left out: it has no known field", m.Type)
	}
}

// resource takes a target of CPU or memory over: that of the CPU utilisation of
// whole pods is mash2's own.
func (c *Candidate) resource(name, container string, target autoscalingv2.MetricTarget) {
	if name == string(corev1.ResourceCPU) && container == "" && target.AverageUtilization != nil {
		c.target(int64(*target.AverageUtilization))
		c.cpu = true
		return
	}
	label := strings.Trim(name+" "+container, " ")
	if name != string(corev1.ResourceCPU) && name != string(corev1.ResourceMemory) {
		c.note("the resource %q is left out: it is neither cpu nor memory", label)
		return
	}
	out := v1alpha1.Trigger{Type: v1alpha1.TriggerResource, Resource: &v1alpha1.ResourceTrigger{Name: name, Container: container}}
	switch {
	case target.AverageUtilization != nil:
		if u := *target.AverageUtilization; u < 1 || u > 1000 {
			c.note("the resource %q is left out: a target of %d %% is impossible", label, u)
			return
		}
		out.Target = &v1alpha1.TriggerTarget{AverageUtilization: ptr.To(*target.AverageUtilization)}
	case positive(target.AverageValue):
		out.Target = &v1alpha1.TriggerTarget{AverageValue: ptr.To(target.AverageValue.DeepCopy())}
	default:
		c.note("the resource %q is left out: it has no target", label)
		return
	}
	c.add(label, out)
}

// aim takes over what a metric should be.
func (c *Candidate) aim(what, name string, target autoscalingv2.MetricTarget) (*v1alpha1.TriggerTarget, bool) {
	switch {
	case positive(target.AverageValue):
		return &v1alpha1.TriggerTarget{AverageValue: ptr.To(target.AverageValue.DeepCopy())}, true
	case positive(target.Value):
		return &v1alpha1.TriggerTarget{Value: ptr.To(target.Value.DeepCopy())}, true
	}
	c.note("the %s %q is left out: it has no target above 0", what, name)
	return nil, false
}

func positive(q *resource.Quantity) bool { return q != nil && q.Sign() > 0 }

// scaledTrigger is a trigger of a ScaledObject.
type scaledTrigger struct {
	Type       string            `json:"type"`
	Name       string            `json:"name"`
	MetricType string            `json:"metricType"`
	Metadata   map[string]string `json:"metadata"`
}

// trigger takes a trigger of a ScaledObject over. What only KEDA can read is
// taken from KEDA: by the external metric that its own HPA asks for.
func (c *Candidate) trigger(i int, t scaledTrigger, theirs *autoscalingv2.HorizontalPodAutoscaler) {
	switch t.Type {
	case "cpu", "memory":
		c.scaledResource(t)
	case "prometheus":
		c.scaledQuery(t)
	case "cron":
		c.scaledCron(t)
	default:
		prefix := fmt.Sprintf("s%d-", i)
		if theirs != nil {
			for _, m := range theirs.Spec.Metrics {
				if m.External != nil && strings.HasPrefix(m.External.Metric.Name, prefix) {
					before := len(c.Workload.Spec.Triggers)
					c.metric(m)
					if made := c.Workload.Spec.Triggers[before:]; len(made) == 1 {
						made[0].ActivationThreshold = activation(t.Metadata)
					}
					return
				}
			}
		}
		c.note("the trigger %q is left out: KEDA's own HPA, which has the name of its metric, does not exist", t.Type)
	}
}

func (c *Candidate) scaledResource(t scaledTrigger) {
	var target autoscalingv2.MetricTarget
	text := t.Metadata["value"]
	switch kind := cmp.Or(t.MetricType, t.Metadata["type"], "Utilization"); kind {
	case "Utilization":
		value, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(value) {
			c.note("the trigger %q is left out: its value %q is no number", t.Type, text)
			return
		}
		target.AverageUtilization = ptr.To(int32(min(max(value, math.MinInt32), math.MaxInt32)))
	default:
		q, err := v1alpha1.ParseQuantity(text)
		if err != nil {
			c.note("the trigger %q is left out: its value %q is no quantity", t.Type, text)
			return
		}
		target.AverageValue = &q
	}
	c.resource(t.Type, t.Metadata["containerName"], target)
}

func (c *Candidate) scaledQuery(t scaledTrigger) {
	threshold, ok := quantity(t.Metadata["threshold"])
	query := t.Metadata["query"]
	if !ok || !positive(threshold) || query == "" || len(query) > 4096 {
		c.note("the trigger %q is left out: it needs a query and a threshold above 0", t.Type)
		return
	}
	target := &v1alpha1.TriggerTarget{AverageValue: threshold}
	if t.MetricType == "Value" {
		target = &v1alpha1.TriggerTarget{Value: threshold}
	}
	c.note("its query goes to mash2's own Prometheus, not to %q, and sees only namespace %s; an empty answer counts as missing and not as 0: add `or vector(0)` if it means 0",
		t.Metadata["serverAddress"], c.Namespace)
	c.add(cmp.Or(t.Name, t.Metadata["metricName"], "prometheus"), v1alpha1.Trigger{
		Type: v1alpha1.TriggerPrometheus, Target: target, ActivationThreshold: activation(t.Metadata),
		Prometheus: &v1alpha1.PrometheusTrigger{Query: query},
	})
}

func (c *Candidate) scaledCron(t scaledTrigger) {
	n, err := strconv.ParseInt(t.Metadata["desiredReplicas"], 10, 32)
	start, end := t.Metadata["start"], t.Metadata["end"]
	if err != nil || n < 1 || n > maxReplicas || len(start) < 9 || len(end) < 9 || max(len(start), len(end)) > 200 || len(t.Metadata["timezone"]) > 63 {
		c.note("the trigger %q is left out: it needs a start, an end and desiredReplicas of 1 or more", t.Type)
		return
	}
	c.add(cmp.Or(t.Name, "cron"), v1alpha1.Trigger{Type: v1alpha1.TriggerCron, Cron: &v1alpha1.CronTrigger{
		TimeZone: t.Metadata["timezone"], Start: start, End: end, Replicas: int32(n),
	}})
}

// activation is what KEDA's scalers call activationThreshold, activationValue,
// activationLagThreshold and so on; nil for none.
func activation(metadata map[string]string) *resource.Quantity {
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if q, ok := quantity(metadata[key]); ok && strings.HasPrefix(strings.ToLower(key), "activation") && q.Sign() > 0 {
			return q
		}
	}
	return nil
}

// quantity reads a decimal number as KEDA does.
func quantity(text string) (*resource.Quantity, bool) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.Abs(v) > 1e15 {
		return nil, false
	}
	q, err := resource.ParseQuantity(strconv.FormatFloat(v, 'f', -1, 64))
	if err != nil {
		return nil, false
	}
	return &q, true
}

// settle decides what demand is once all metrics were taken over: without a
// target of CPU utilisation the triggers alone, as it was before; and a minimum
// of 0 where none of them could raise it is 1.
func (c *Candidate) settle(least int32) {
	spec := &c.Workload.Spec
	switch {
	case c.cpu:
	case len(spec.Triggers) > 0:
		spec.Metric.Type = v1alpha1.MetricNone
	default:
		c.note("it has no target that mash2 supports: the policy's target of CPU utilisation is used")
	}
	if least > 0 {
		return
	}
	if slices.ContainsFunc(spec.Triggers, func(t v1alpha1.Trigger) bool {
		return t.Type != v1alpha1.TriggerPods && t.Type != v1alpha1.TriggerResource
	}) {
		spec.MinReplicas = ptr.To[int32](0)
		return
	}
	c.note("a minimum of %d becomes 1: it has no trigger that could ask for the first replica", least)
}
