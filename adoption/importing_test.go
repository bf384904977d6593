package adoption

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/api/v1alpha1"
)

// imported is what a case is about of a Candidate.
type imported struct {
	Least, Most int32
	Target      int32 // percent; 0 for none
	Notes       []string
	Refused     string
}

func of(c Candidate) imported {
	w := c.Workload.Spec
	return imported{w.MinReplicas, w.MaxReplicas, ptr.Deref(w.TargetUtilizationPercent, 0), c.Notes, c.Refused}
}

func TestFromHPA(t *testing.T) {
	const head = "metadata: {namespace: shop, name: web-hpa}\nspec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n"
	cpu := func(target string) string {
		return "  metrics: [{type: Resource, resource: {name: cpu, target: " + target + "}}]\n"
	}
	noTarget := "it has no target of CPU utilisation: the policy's is taken"
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
			imported{Least: 1, Most: 9, Notes: []string{`the Resource metric "cpu" is left out: mash2 plans from the CPU usage relative to requests`, noTarget}},
		},
		"an external metric beside": {
			head + "  maxReplicas: 9\n  metrics: [{type: Resource, resource: {name: cpu, target: {averageUtilization: 70}}}, {type: External, external: {metric: {name: queue}, target: {value: 3}}}]\n",
			imported{Least: 1, Most: 9, Target: 70, Notes: []string{`the External metric "queue" is left out: mash2 plans from the CPU usage relative to requests`}},
		},
		"a container's": {
			head + "  maxReplicas: 9\n  metrics: [{type: ContainerResource, containerResource: {name: cpu, container: main, target: {averageUtilization: 70}}}]\n",
			imported{Least: 1, Most: 9, Target: 70, Notes: []string{"its target is of container main, mash2's of the whole pod"}},
		},
		"down to zero": {
			head + "  minReplicas: 0\n  maxReplicas: 9\n" + cpu("{averageUtilization: 70}"),
			imported{Least: 1, Most: 9, Target: 70, Notes: []string{"a minimum of 0 becomes 1: mash2 doesn't scale to zero"}},
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
	const left = "is left out: mash2 plans from the CPU usage relative to requests"
	for name, c := range map[string]struct {
		spec string
		want imported
	}{
		"a CPU trigger": {
			"{scaleTargetRef: {name: web}, minReplicaCount: 2, maxReplicaCount: 9, triggers: [{type: cpu, metricType: Utilization, metadata: {value: '65'}}]}",
			imported{Least: 2, Most: 9, Target: 65},
		},
		"KEDA's defaults": {
			"{scaleTargetRef: {name: web}, triggers: [{type: cpu, metadata: {value: '65'}}]}",
			imported{Least: 1, Most: 100, Target: 65, Notes: []string{"a minimum of 0 becomes 1: mash2 doesn't scale to zero"}},
		},
		"a queue": {
			"{scaleTargetRef: {name: web}, minReplicaCount: 1, idleReplicaCount: 0, triggers: [{type: kafka, metadata: {topic: orders}}]}",
			imported{Least: 1, Most: 100, Notes: []string{"idleReplicaCount 0 is left out", `the trigger "kafka" ` + left, "it has no trigger of CPU utilisation: the policy's target is taken"}},
		},
		"a value that is none": {
			"{scaleTargetRef: {name: web}, minReplicaCount: 1, triggers: [{type: cpu, metadata: {value: NaN}}]}",
			imported{Least: 1, Most: 100, Notes: []string{`the trigger "cpu" ` + left, "it has no trigger of CPU utilisation: the policy's target is taken"}},
		},
		"a negative value": {
			"{scaleTargetRef: {name: web}, minReplicaCount: 1, triggers: [{type: cpu, metadata: {value: '-1e99'}}]}",
			imported{Least: 1, Most: 100, Notes: []string{"a target of -2147483648 % can't be: the policy's is taken"}},
		},
		"another kind": {"{scaleTargetRef: {apiVersion: x.io/v1, kind: Thing, name: web}}",
			imported{Refused: `spec.scaleTargetRef: a Thing of "x.io/v1" can't be scaled: only Deployments and StatefulSets can`}},
		"not what it should be": {"{minReplicaCount: many}", imported{Refused: "spec can't be read: json: cannot unmarshal string into Go struct field scaledObjectSpec.minReplicaCount of type int32"}},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte("metadata: {namespace: shop, name: web-so}\nspec: "+c.spec), &u.Object); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, of(FromScaledObject(u))); diff != "" {
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
	f.Add(`{scaleTargetRef: [], advanced: 3}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, spec string) {
		u := &unstructured.Unstructured{}
		if yaml.Unmarshal([]byte("metadata: {namespace: shop, name: so}\nspec: "+strings.ReplaceAll(spec, "\n", " ")), &u.Object) != nil {
			return
		}
		c := FromScaledObject(u)
		w := c.Workload.Spec
		if c.Refused != "" {
			return
		}
		if w.Mode != v1alpha1.ModeShadow || w.MinReplicas < 1 || w.MaxReplicas < w.MinReplicas || w.MaxReplicas > 100_000 {
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
