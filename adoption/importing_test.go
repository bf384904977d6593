package adoption

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/api/v1alpha1"
)

// imported is what a case is about of a Candidate.
type imported struct {
	Least, Most int32
	Target      int32 // percent; 0 for none
	// Triggers as name, type and target, such as "queue External 20", and Metric
	// where it is not CPU.
	Triggers []string
	Metric   v1alpha1.MetricType
	Notes    []string
	Refused  string
}

func of(c Candidate) imported {
	w := c.Workload.Spec
	out := imported{
		Least: ptr.Deref(w.MinReplicas, 0), Most: w.MaxReplicas, Target: ptr.Deref(w.TargetUtilizationPercent, 0),
		Notes: c.Notes, Refused: c.Refused,
	}
	if w.Metric.Type != v1alpha1.MetricCPU {
		out.Metric = w.Metric.Type
	}
	for _, t := range w.Triggers {
		text := t.Name + " " + string(t.Type)
		switch g := t.Target; {
		case g == nil:
			text += fmt.Sprintf(" %d from %s to %s in %s", t.Cron.Replicas, t.Cron.Start, t.Cron.End, t.Cron.TimeZone)
		case g.AverageValue != nil:
			text += " " + g.AverageValue.String()
		case g.Value != nil:
			text += " = " + g.Value.String()
		default:
			text += fmt.Sprintf(" %d %%", *g.AverageUtilization)
		}
		switch {
		case t.Resource != nil:
			text += " of " + t.Resource.Name + " " + t.Resource.Container
		case t.Prometheus != nil:
			text += " of " + t.Prometheus.Query
		case t.External != nil:
			text += " of " + t.External.Metric.Name + " " + metav1.FormatLabelSelector(t.External.Metric.Selector)
		case t.Object != nil:
			text += " of " + t.Object.DescribedObject.Name
		}
		if t.ActivationThreshold != nil {
			text += " above " + t.ActivationThreshold.String()
		}
		out.Triggers = append(out.Triggers, text)
	}
	return out
}

func TestFromHPA(t *testing.T) {
	const head = "metadata: {namespace: shop, name: web-hpa}\nspec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n"
	cpu := func(target string) string {
		return "  metrics: [{type: Resource, resource: {name: cpu, target: " + target + "}}]\n"
	}
	for name, c := range map[string]struct {
		text string
		want imported
	}{
		"bounds and target": {
			head + "  minReplicas: 2\n  maxReplicas: 9\n" + cpu("{type: Utilization, averageUtilization: 65}"),
			imported{Least: 2, Most: 9, Target: 65},
		},
		"what it leaves out is the HPA's default": {head + "  maxReplicas: 9\n", imported{Least: 1, Most: 9, Target: 80}},
		"a target beyond the requests": {
			head + "  maxReplicas: 9\n" + cpu("{type: Utilization, averageUtilization: 150}"),
			imported{Least: 1, Most: 9, Target: 100, Notes: []string{"a target of 150 % of the requests becomes 100 %: mash2 doesn't plan beyond them"}},
		},
		"an absolute target": {
			head + "  maxReplicas: 9\n" + cpu("{type: AverageValue, averageValue: 500m}"),
			imported{Least: 1, Most: 9, Triggers: []string{"cpu Resource 500m of cpu "}, Metric: v1alpha1.MetricNone},
		},
		"an external metric beside": {
			head + "  maxReplicas: 9\n  metrics: [{type: Resource, resource: {name: cpu, target: {averageUtilization: 70}}}, {type: External, external: {metric: {name: Queue_Length, selector: {matchLabels: {q: a}}}, target: {value: 3}}}]\n",
			imported{Least: 1, Most: 9, Target: 70, Triggers: []string{"queue-length External = 3 of Queue_Length q=a"}},
		},
		"metrics of pods, of an object, of memory": {
			head + "  maxReplicas: 9\n  metrics:\n" +
				"  - {type: Pods, pods: {metric: {name: rps}, target: {type: AverageValue, averageValue: 10}}}\n" +
				"  - {type: Object, object: {describedObject: {apiVersion: v1, kind: Service, name: web}, metric: {name: rps}, target: {type: Value, value: 500m}}}\n" +
				"  - {type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 150}}}\n",
			imported{Least: 1, Most: 9, Metric: v1alpha1.MetricNone,
				Triggers: []string{"rps Pods 10", "rps-2 Object = 500m of web", "memory Resource 150 % of memory "}},
		},
		"a container's": {
			head + "  maxReplicas: 9\n  metrics: [{type: ContainerResource, containerResource: {name: cpu, container: main, target: {averageUtilization: 70}}}]\n",
			imported{Least: 1, Most: 9, Metric: v1alpha1.MetricNone, Triggers: []string{"cpu-main Resource 70 % of cpu main"}},
		},
		"a metric without target": {
			head + "  maxReplicas: 9\n  metrics: [{type: External, external: {metric: {name: queue}, target: {type: Value}}}]\n",
			imported{Least: 1, Most: 9, Notes: []string{`the External metric "queue" is left out: it has no target above 0`, "it has no target that mash2 supports: the policy's target of CPU utilisation is used"}},
		},
		"down to zero by CPU": {
			head + "  minReplicas: 0\n  maxReplicas: 9\n" + cpu("{averageUtilization: 70}"),
			imported{Least: 1, Most: 9, Target: 70, Notes: []string{"a minimum of 0 becomes 1: it has no trigger that could ask for the first replica"}},
		},
		"down to zero by a queue": {
			head + "  minReplicas: 0\n  maxReplicas: 9\n  metrics: [{type: External, external: {metric: {name: queue}, target: {averageValue: 20}}}]\n",
			imported{Least: 0, Most: 9, Metric: v1alpha1.MetricNone, Triggers: []string{"queue External 20 of queue <none>"}},
		},
		"a huge maximum": {
			head + "  maxReplicas: 2000000\n" + cpu("{averageUtilization: 70}"),
			imported{Least: 1, Most: 100000, Target: 70, Notes: []string{"a maximum of 2000000 becomes 100000"}},
		},
		"bounds that contradict": {head + "  minReplicas: 5\n  maxReplicas: 3\n", imported{Refused: "its maximum of 3 is below its minimum of 5"}},
		"a target of another kind": {
			"spec: {scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: web}, maxReplicas: 3}",
			imported{Refused: `spec.scaleTargetRef: a Rollout of "argoproj.io/v1alpha1" can't be scaled: only Deployments and StatefulSets can`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var h autoscalingv2.HorizontalPodAutoscaler
			if err := yaml.UnmarshalStrict([]byte(c.text), &h); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, of(FromHPA(&h))); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("behaviour is taken as it is, and nothing acts", func(t *testing.T) {
		var h autoscalingv2.HorizontalPodAutoscaler
		text := head + "  maxReplicas: 9\n  behavior: {scaleDown: {stabilizationWindowSeconds: 60, selectPolicy: Min}}\n"
		if err := yaml.UnmarshalStrict([]byte(text), &h); err != nil {
			t.Fatal(err)
		}
		w := FromHPA(&h).Workload
		if diff := cmp.Diff(h.Spec.Behavior, w.Spec.Behavior); diff != "" {
			t.Error(diff)
		}
		if w.Spec.Mode != v1alpha1.ModeShadow || w.Name != "web" || w.Annotations[AnnotationFrom] != "HorizontalPodAutoscaler/web-hpa" {
			t.Errorf("%+v", w)
		}
	})
}

func TestFromScaledObject(t *testing.T) {
	const nothing = "it has no target that mash2 supports: the policy's target of CPU utilisation is used"
	const query = "its query goes to mash2's own Prometheus, not to \"http://prom:9090\", and sees only namespace shop; an empty answer counts as missing and not as 0: add `or vector(0)` if it means 0"
	// theirs is what KEDA makes of its own triggers.
	theirs := &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: []autoscalingv2.MetricSpec{
		{External: &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: "s1-kafka-orders", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"scaledobject.keda.sh/name": "web-so"}}},
			Target: autoscalingv2.MetricTarget{AverageValue: ptr.To(resource.MustParse("50"))},
		}},
	}}}
	for name, c := range map[string]struct {
		spec string
		want imported
	}{
		"KEDA's own metrics, by its HPA": {
			"{scaleTargetRef: {name: web}, cooldownPeriod: 60, triggers: [{type: cpu, metadata: {value: '65'}}, {type: kafka, metadata: {topic: orders, activationLagThreshold: '7'}}]}",
			imported{Least: 0, Most: 100, Target: 65, Triggers: []string{"s1-kafka-orders External 50 of s1-kafka-orders scaledobject.keda.sh/name=web-so above 7"}},
		},
		"Prometheus": {
			"{scaleTargetRef: {name: web}, triggers: [{type: prometheus, metadata: {serverAddress: 'http://prom:9090', query: sum(jobs), threshold: '5.5', activationThreshold: '2'}}]}",
			imported{Least: 0, Most: 100, Metric: v1alpha1.MetricNone, Triggers: []string{"prometheus Prometheus 5500m of sum(jobs) above 2"}, Notes: []string{query}},
		},
		"memory and a cron": {
			"{scaleTargetRef: {name: web}, minReplicaCount: 1, triggers: [{type: memory, metricType: AverageValue, metadata: {value: 100Mi, containerName: main}}, {type: cron, metadata: {timezone: Europe/London, start: 0 8 * * *, end: 0 18 * * *, desiredReplicas: '6'}}]}",
			imported{Least: 1, Most: 100, Metric: v1alpha1.MetricNone,
				Triggers: []string{"memory-main Resource 100Mi of memory main", "cron Cron 6 from 0 8 * * * to 0 18 * * * in Europe/London"}},
		},
		"idle at zero": {
			"{scaleTargetRef: {name: web}, minReplicaCount: 2, idleReplicaCount: 0, triggers: [{type: cpu, metadata: {value: '65'}}, {type: kafka, metadata: {topic: orders}}]}",
			imported{Least: 0, Most: 100, Target: 65, Triggers: []string{"s1-kafka-orders External 50 of s1-kafka-orders scaledobject.keda.sh/name=web-so"},
				Notes: []string{"idleReplicaCount 0 becomes a minimum of 0: while a trigger is active the least is the policy's, not 2"}},
		},
		"a CPU trigger": {
			"{scaleTargetRef: {name: web}, minReplicaCount: 2, maxReplicaCount: 9, triggers: [{type: cpu, metricType: Utilization, metadata: {value: '65'}}]}",
			imported{Least: 2, Most: 9, Target: 65},
		},
		"KEDA's defaults": {
			"{scaleTargetRef: {name: web}, triggers: [{type: cpu, metadata: {value: '65'}}]}",
			imported{Least: 1, Most: 100, Target: 65, Notes: []string{"a minimum of 0 becomes 1: it has no trigger that could ask for the first replica"}},
		},
		"a queue whose metric nobody names": {
			"{scaleTargetRef: {name: web}, minReplicaCount: 1, triggers: [{type: kafka, metadata: {topic: orders}}]}",
			imported{Least: 1, Most: 100, Notes: []string{`the trigger "kafka" is left out: KEDA's own HPA, which has the name of its metric, does not exist`, nothing}},
		},
		"a value that is none": {
			"{scaleTargetRef: {name: web}, minReplicaCount: 1, triggers: [{type: cpu, metadata: {value: NaN}}]}",
			imported{Least: 1, Most: 100, Notes: []string{`the trigger "cpu" is left out: its value "NaN" is no number`, nothing}},
		},
		"a query without a threshold": {
			"{scaleTargetRef: {name: web}, minReplicaCount: 1, triggers: [{type: prometheus, metadata: {query: up, threshold: '-1'}}, {type: cron, metadata: {start: x}}]}",
			imported{Least: 1, Most: 100, Notes: []string{`the trigger "prometheus" is left out: it needs a query and a threshold above 0`,
				`the trigger "cron" is left out: it needs a start, an end and desiredReplicas of 1 or more`, nothing}},
		},
		"a negative value": {
			"{scaleTargetRef: {name: web}, minReplicaCount: 1, triggers: [{type: cpu, metadata: {value: '-1e99'}}]}",
			imported{Least: 1, Most: 100, Notes: []string{"a target of -2147483648 % is impossible: the policy's is used"}},
		},
		"a sum of metrics": {"{scaleTargetRef: {name: web}, advanced: {scalingModifiers: {formula: a + b, target: '5'}}, triggers: [{type: cpu, metadata: {value: '65'}}]}",
			imported{Least: 1, Most: 100, Refused: "spec.advanced.scalingModifiers.formula: mash2 takes the largest of what triggers ask for, which a formula need not do: write it as one trigger, a query of Prometheus"}},
		"a fallback": {"{scaleTargetRef: {name: web}, minReplicaCount: 1, fallback: {failureThreshold: 3, replicas: 6}, triggers: [{type: cpu, metadata: {value: '65'}}]}",
			imported{Least: 1, Most: 100, Target: 65, Notes: []string{"fallback of 6 replicas is left out: while a trigger is not known, replicas stay or go up"}}},
		"another kind": {"{scaleTargetRef: {apiVersion: x.io/v1, kind: Thing, name: web}}",
			imported{Refused: `spec.scaleTargetRef: a Thing of "x.io/v1" can't be scaled: only Deployments and StatefulSets can`}},
		"not what it should be": {"{minReplicaCount: many}", imported{Refused: "spec can't be read: json: cannot unmarshal string into Go struct field scaledObjectSpec.minReplicaCount of type int32"}},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte("metadata: {namespace: shop, name: web-so}\nspec: "+c.spec), &u.Object); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, of(FromScaledObject(u, theirs))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever stands in a cluster: no panic, and what is not refused is a
// ManagedWorkload that the API server would take.
func FuzzFromScaledObject(f *testing.F) {
	f.Add(`{scaleTargetRef: {name: web}, minReplicaCount: 2, maxReplicaCount: 9, triggers: [{type: cpu, metadata: {value: '65'}}]}`)
	f.Add(`{scaleTargetRef: {name: web}, minReplicaCount: -2147483648, maxReplicaCount: 2147483647, triggers: [{type: cpu, metadata: {value: 1e400}}]}`)
	f.Add(`{scaleTargetRef: {name: web}, cooldownPeriod: -9, idleReplicaCount: 0, triggers: [{type: prometheus, metadata: {query: sum(a), threshold: '1e-30', activationThreshold: '2'}}, {type: memory, metadata: {value: '80', containerName: main}}]}`)
	f.Add(`{scaleTargetRef: {name: web}, triggers: [{type: cron, name: "Ä/..", metadata: {timezone: UTC, start: 0 8 * * *, end: 0 9 * * *, desiredReplicas: '3'}}, {type: kafka}]}`)
	f.Add(`{scaleTargetRef: [], advanced: 3}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, spec string) {
		u := &unstructured.Unstructured{}
		if yaml.Unmarshal([]byte("metadata: {namespace: shop, name: so}\nspec: "+strings.ReplaceAll(spec, "\n", " ")), &u.Object) != nil {
			return
		}
		c := FromScaledObject(u, nil)
		w := c.Workload.Spec
		if c.Refused != "" {
			return
		}
		if w.Mode != v1alpha1.ModeShadow || *w.MinReplicas < 0 || w.MaxReplicas < max(*w.MinReplicas, 1) || w.MaxReplicas > 100_000 {
			t.Errorf("%+v", w)
		}
		for _, x := range w.Triggers {
			if len(x.Name) == 0 || len(x.Name) > 63 || x.Name != strings.Trim(unsuited.ReplaceAllString(x.Name, "-"), "-") ||
				x.Target != nil && x.Target.AverageValue != nil && x.Target.AverageValue.Sign() <= 0 || (x.Target == nil) != (x.Cron != nil) {
				t.Errorf("trigger %+v", x)
			}
		}
		if s := w.CooldownSeconds; *s < 0 || *s > 86400 || len(w.Triggers) > maxTriggers || *w.MinReplicas == 0 && len(w.Triggers) == 0 {
			t.Errorf("%+v", w)
		}
		if p := w.TargetUtilizationPercent; p != nil && (*p < 1 || *p > 100) {
			t.Errorf("a target of %d %%", *p)
		}
	})
}

func TestAgreement(t *testing.T) {
	var a Agreement
	for _, d := range [][2]int32{{3, 3}, {4, 3}, {5, 3}, {108, 100}, {89, 100}, {0, 0}} {
		a.Add(d[0], d[1])
	}
	// The same: 3 of 3, 4 of 3 (one replica), 108 of 100 (a tenth), 0 of 0.
	want := Agreement{Samples: 6, Same: 4.0 / 6, Mean: (0.0 + 1 + 2 + 8 - 11 + 0) / 6, Largest: -11}
	if diff := cmp.Diff(want, a, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".same" || p.Last().String() == ".sum" }, cmp.Ignore())); diff != "" {
		t.Error(diff)
	}
}
