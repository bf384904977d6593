package sensing

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

func entry(manager, subresource, fields string, at time.Time) metav1.ManagedFieldsEntry {
	e := metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Time: ptr.To(metav1.NewTime(at))}
	if fields != "" {
		e.FieldsV1 = metav1.NewFieldsV1(fields)
	}
	return e
}

func TestScalingFields(t *testing.T) {
	const replicas, image = `{"f:spec":{"f:replicas":{}}}`, `{"f:spec":{"f:template":{}}}`
	tests := map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    scalingFields
	}{
		"nobody": {},
		"whoever created it": {
			entries: []metav1.ManagedFieldsEntry{entry("kubectl", "", replicas, epoch)},
			want:    scalingFields{[]string{"kubectl"}, epoch, "kubectl"},
		},
		"not who set something else later": {
			entries: []metav1.ManagedFieldsEntry{entry("kubectl", "", replicas, epoch), entry("ci", "", image, epoch.Add(time.Hour))},
			want:    scalingFields{[]string{"kubectl"}, epoch, "kubectl"},
		},
		"the scale subresource tells the time, another entry may be of another field": {
			entries: []metav1.ManagedFieldsEntry{entry("kubectl", "", replicas, epoch.Add(time.Hour)), entry("mash2", "scale", replicas, epoch)},
			want:    scalingFields{[]string{"kubectl", "mash2"}, epoch, "mash2"},
		},
		"the last of several": {
			entries: []metav1.ManagedFieldsEntry{entry("mash2", "scale", replicas, epoch.Add(time.Minute)), entry("kube-controller-manager", "scale", replicas, epoch)},
			want:    scalingFields{[]string{"kube-controller-manager", "mash2"}, epoch.Add(time.Minute), "mash2"},
		},
		"an apply, which has no time": {
			entries: []metav1.ManagedFieldsEntry{
				{Manager: "mash2", Subresource: "scale", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(replicas)},
				entry("kube-controller-manager", "scale", replicas, epoch),
				{Manager: "helm", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(replicas)},
			},
			want: scalingFields{[]string{"helm", "kube-controller-manager", "mash2"}, time.Time{}, "mash2"},
		},
		"fields that can't be read are nobody's": {
			entries: []metav1.ManagedFieldsEntry{entry("kubectl", "", `{"f:spec":`, epoch), entry("kubectl", "", `[]`, epoch), entry("x", "", "", epoch)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := scalingFieldsOf(tt.entries)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(scalingFields{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestHolds(t *testing.T) {
	const owned = `{"f:spec":{"f:replicas":{}}}`
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-hpa"},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: kindDeployment, Name: "web"}},
	}
	tests := map[string]struct {
		change     func(w *world, mw *v1alpha1.ManagedWorkload, d *appsv1.Deployment)
		wantReason string
		wantInText string
	}{
		"all is well": {},
		"a target of another kind": {
			func(_ *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
				mw.Spec.TargetRef.Kind = "DaemonSet"
			},
			HoldUnsupportedTarget, "DaemonSet",
		},
		"a target of another group": {
			func(_ *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
				mw.Spec.TargetRef.APIVersion = "argoproj.io/v1"
			}, HoldUnsupportedTarget, "argoproj.io",
		},
		"the target doesn't exist": {
			func(_ *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) { mw.Spec.TargetRef.Name = "nobody" },
			HoldTargetMissing, "nobody",
		},
		"the bounds contradict": {
			func(_ *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
				mw.Spec.MinReplicas = ptr.To[int32](11)
			},
			HoldInvalidBounds, "11",
		},
		"a negative minimum": {
			func(_ *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
				mw.Spec.MinReplicas = ptr.To[int32](-1)
			},
			HoldInvalidBounds, "spec.minReplicas: must be 0 or more, is -1",
		},
		"a minimum of 0 that nothing could raise": {
			func(_ *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
				mw.Spec.MinReplicas = ptr.To[int32](0)
			},
			HoldInvalidBounds, "spec.minReplicas: 0 needs a trigger",
		},
		"nothing to plan by": {
			func(_ *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
				mw.Spec.Metric.Type = v1alpha1.MetricNone
			},
			HoldInvalidTrigger, "spec.metric.type: None needs triggers",
		},
		"a query of another namespace": {
			func(_ *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
				mw.Spec.Triggers = []v1alpha1.Trigger{{
					Name: "jobs", Type: v1alpha1.TriggerPrometheus, Target: averageValue("5"),
					Prometheus: &v1alpha1.PrometheusTrigger{Query: `sum(jobs{namespace="bank"})`},
				}}
			},
			HoldInvalidTrigger, `spec.triggers[0].prometheus.query: namespace="bank" is not of namespace shop`,
		},
		"0 replicas, and a trigger that may raise them": {
			func(_ *world, mw *v1alpha1.ManagedWorkload, d *appsv1.Deployment) {
				d.Spec.Replicas, mw.Spec.MinReplicas = ptr.To[int32](0), ptr.To[int32](0)
				mw.Spec.Triggers = []v1alpha1.Trigger{external("queue", "20")}
			}, "", "",
		},
		"no CPU requests, where CPU is no demand": {
			func(_ *world, mw *v1alpha1.ManagedWorkload, d *appsv1.Deployment) {
				d.Spec.Template = template("")
				mw.Spec.Metric.Type = v1alpha1.MetricNone
				mw.Spec.Triggers = []v1alpha1.Trigger{external("queue", "20")}
			}, "", "",
		},
		"no maximum": {
			func(_ *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) { mw.Spec.MaxReplicas = 0 },
			HoldInvalidBounds, "spec.maxReplicas: must be 1 or more, is 0",
		},
		"a utilisation beyond all": {
			func(_ *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
				mw.Spec.TargetUtilizationPercent = ptr.To[int32](1000)
			},
			HoldInvalidBounds, "spec.targetUtilizationPercent: must be from 1 to 100, is 1000",
		},
		"it was switched off": {
			func(_ *world, _ *v1alpha1.ManagedWorkload, d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) },
			HoldScaledToZero, "",
		},
		"no CPU requests": {
			func(_ *world, _ *v1alpha1.ManagedWorkload, d *appsv1.Deployment) { d.Spec.Template = template("") },
			HoldNoRequests, "",
		},
		"no CPU requests in the template, but a LimitRange has put them into the pods": {
			func(w *world, _ *v1alpha1.ManagedWorkload, d *appsv1.Deployment) {
				d.Spec.Template = template("")
				w.put(replicaSet("web"), podOn("web", 1, "node-1", epoch))
			}, "", "",
		},
		"an older ManagedWorkload has the same target": {
			func(w *world, _ *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
				older := managed("web")
				older.Name, older.CreationTimestamp = "zzz", metav1.NewTime(epoch.Add(-time.Minute))
				w.put(older)
			}, HoldDuplicateTarget, "zzz",
		},
		"a younger one doesn't matter": {
			func(w *world, _ *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
				younger := managed("web")
				younger.Name, younger.CreationTimestamp = "aaa", metav1.NewTime(epoch.Add(time.Minute))
				w.put(younger)
			}, "", "",
		},
		"an HPA scales it": {
			func(w *world, _ *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) { w.put(hpa) }, HoldConflict, "web-hpa",
		},
		"a safety net": {
			func(w *world, _ *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) { w.put(safetyNet(nil)) }, "", "",
		},
		"a safety net that has scaled while there was no operator": {
			func(w *world, mw *v1alpha1.ManagedWorkload, d *appsv1.Deployment) {
				w.put(safetyNet(nil))
				mw.Status.TakenOver = d.UID
				d.ManagedFields = []metav1.ManagedFieldsEntry{entry(hpaManager, "scale", owned, epoch)}
			}, "", "",
		},
		"somebody else beside a safety net": {
			func(w *world, mw *v1alpha1.ManagedWorkload, d *appsv1.Deployment) {
				w.put(safetyNet(nil))
				mw.Status.TakenOver = d.UID
				d.ManagedFields = []metav1.ManagedFieldsEntry{entry("argocd", "", owned, epoch)}
			}, HoldConflict, "argocd",
		},
		"an HPA that calls itself a safety net, and lowers replicas": {
			func(w *world, _ *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
				w.put(safetyNet(func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.Behavior.ScaleDown.SelectPolicy = nil }))
			}, HoldConflict, "web-net",
		},
		"one that acts at once": {
			func(w *world, _ *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
				w.put(safetyNet(func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.Behavior.ScaleUp = nil }))
			}, HoldConflict, "web-net",
		},
		"KEDA's HPA scales what mash2 would": {
			func(w *world, _ *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) { w.put(ofKEDA()) },
			HoldConflict, "keda-hpa-web",
		},
		"KEDA's HPA scales what KEDA is to scale": {
			func(w *world, mw *v1alpha1.ManagedWorkload, d *appsv1.Deployment) {
				w.put(ofKEDA())
				mw.Spec.Actuator, mw.Status.TakenOver = v1alpha1.ActuatorKEDA, d.UID
				d.ManagedFields = []metav1.ManagedFieldsEntry{entry("keda", "scale", owned, epoch)}
			}, "", "",
		},
		"another HPA scales what KEDA is to scale": {
			func(w *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
				w.put(ofKEDA(), hpa)
				mw.Spec.Actuator = v1alpha1.ActuatorKEDA
			}, HoldConflict, "web-hpa scales",
		},
		"a safety net of what KEDA is to scale": {
			func(w *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
				w.put(ofKEDA(), safetyNet(nil))
				mw.Spec.Actuator = v1alpha1.ActuatorKEDA
			}, HoldConflict, "safety net",
		},
		"Shadow runs beside an HPA": {
			func(w *world, mw *v1alpha1.ManagedWorkload, _ *appsv1.Deployment) {
				w.put(hpa)
				mw.Spec.Mode = v1alpha1.ModeShadow
			}, "", "",
		},
		"somebody has taken the field back, as the version before noted the take-over": {
			func(_ *world, _ *v1alpha1.ManagedWorkload, d *appsv1.Deployment) {
				d.Annotations = map[string]string{api.AnnotationTakenOver: "true"}
				d.ManagedFields = []metav1.ManagedFieldsEntry{entry("argocd", "", owned, epoch)}
			}, HoldConflict, "remove its annotation mash2.io/taken-over",
		},
		"another target of the same name was taken over": {
			func(_ *world, mw *v1alpha1.ManagedWorkload, d *appsv1.Deployment) {
				mw.Status.TakenOver = "another"
				d.ManagedFields = []metav1.ManagedFieldsEntry{entry("argocd", "", owned, epoch)}
			}, "", "",
		},
		"somebody has taken the field back": {
			func(_ *world, mw *v1alpha1.ManagedWorkload, d *appsv1.Deployment) {
				mw.Status.TakenOver = d.UID
				d.ManagedFields = []metav1.ManagedFieldsEntry{entry("argocd", "", owned, epoch)}
			}, HoldConflict, "argocd",
		},
		"before take-over others own the field": {
			func(_ *world, _ *v1alpha1.ManagedWorkload, d *appsv1.Deployment) {
				d.ManagedFields = []metav1.ManagedFieldsEntry{entry("kubectl", "", owned, epoch)}
			}, "", "",
		},
		"after take-over mash2 does": {
			func(_ *world, mw *v1alpha1.ManagedWorkload, d *appsv1.Deployment) {
				mw.Status.TakenOver = d.UID
				d.ManagedFields = []metav1.ManagedFieldsEntry{entry("kubectl", "", owned, epoch), entry("mash2", "scale", owned, epoch)}
			}, "", "",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			mw, d := managed("web"), deployment("web", 2, "100m")
			if tt.change != nil {
				tt.change(w, mw, d)
			}
			w.put(mw, d)
			got, _ := w.workload("web")
			if got.HoldReason != tt.wantReason || !strings.Contains(got.Hold, tt.wantInText) || (got.Hold == "") != (tt.wantReason == "") {
				t.Errorf("held %q: %q, want %q with %q", got.HoldReason, got.Hold, tt.wantReason, tt.wantInText)
			}
			if tt.wantReason != HoldConflict {
				return
			}
			// It resumes when the other one is gone.
			if err := w.caches.informers[kindScaler].GetStore().Replace(nil, ""); err != nil {
				t.Fatal(err)
			}
			d.Annotations, mw.Status.TakenOver = nil, ""
			w.put(mw, d)
			if got, _ := w.workload("web"); got.HoldReason != "" {
				t.Errorf("still held: %s", got.Hold)
			}
		})
	}
}

// ofKEDA is the HPA that KEDA makes of a ScaledObject for Deployment web.
func ofKEDA() *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "keda-hpa-web", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: "web", Controller: ptr.To(true)},
		}},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: kindDeployment, Name: "web"}},
	}
}

// A workload that KEDA should scale and nobody does is told of, as long as it is planned.
func TestNobodyScales(t *testing.T) {
	for name, c := range map[string]struct {
		mode v1alpha1.Mode
		keda bool
		want bool
	}{
		"there is no ScaledObject": {mode: v1alpha1.ModeFull, want: true},
		"there is one":             {mode: v1alpha1.ModeFull, keda: true},
		"it is only shown":         {mode: v1alpha1.ModeShadow},
	} {
		w := newWorld(t, nil)
		mw := managed("web")
		mw.Spec.Actuator, mw.Spec.Mode = v1alpha1.ActuatorKEDA, c.mode
		w.put(mw, deployment("web", 2, "100m"))
		if c.keda {
			w.put(ofKEDA())
		}
		got, s := w.workload("web")
		told := slices.ContainsFunc(s.Findings, func(f api.Finding) bool {
			return f.Reason == ReasonNoScaledObject && f.Object == api.WorkloadRef(got.Key)
		})
		if told != c.want || got.Actuator != api.ActuatorKEDA {
			t.Errorf("%s: told %v, want %v; actuator %q", name, told, c.want, got.Actuator)
		}
	}
}

// safetyNet is one of Deployment web, as adoption makes it.
func safetyNet(change func(*autoscalingv2.HorizontalPodAutoscaler)) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-net", Labels: map[string]string{api.LabelSafetyNet: "true"}},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: kindDeployment, Name: "web"},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleUp:   &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](600)},
				ScaleDown: &autoscalingv2.HPAScalingRules{SelectPolicy: ptr.To(autoscalingv2.DisabledPolicySelect)},
			},
		},
	}
	if change != nil {
		change(h)
	}
	return h
}

// Every reason for a hold has a row in the runbooks.
func TestHoldsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("reasons.go")
	if err != nil {
		t.Fatal(err)
	}
	holds := regexp.MustCompile(`Hold\w+\s+= "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(holds) == 0 {
		t.Fatal("there are no reasons")
	}
	for _, h := range holds {
		if !regexp.MustCompile(`(?m)^\|[^|]*\b` + h[1] + `\b`).Match(text) {
			t.Errorf("docs/reference/runbooks.md has no row for %s", h[1])
		}
	}
}

func TestWorkloadSpec(t *testing.T) {
	def := DefaultConfig().Behavior
	w := managed("web")
	w.Generation = 7
	w.Spec.TargetUtilizationPercent = ptr.To[int32](65)
	w.Spec.Mode = v1alpha1.ModeShadow
	w.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleUp: &autoscalingv2.HPAScalingRules{
			Policies:  []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 2, PeriodSeconds: 60}},
			Tolerance: resource.NewMilliQuantity(50, resource.DecimalSI),
		},
		ScaleDown: &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: ptr.To[int32](0),
			SelectPolicy:               ptr.To(autoscalingv2.DisabledPolicySelect),
		},
	}
	w.Status.PlannedReplicas = ptr.To[int32](4)
	since := metav1.NewTime(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
	w.Status.Placement = &v1alpha1.Placement{NodePool: "edge", Since: &since}
	if got := workloadRecordOf(w, Config{Behavior: def, PlacesAtAdmission: true}).workload; got.PlacedOn != "edge" || !got.PlacedSince.Equal(since.Time) {
		t.Errorf("new pods prefer %q since %v", got.PlacedOn, got.PlacedSince)
	}
	got := workloadRecordOf(w, Config{Behavior: def}).workload // nobody has them prefer anything
	want := api.Workload{
		Key: api.Key{Namespace: ns, Name: "web"}, UID: "mw-web", Generation: 7, PlannedReplicas: 4,
		Target: api.TargetRef{APIVersion: "apps/v1", Kind: kindDeployment, Name: "web"},
		Mode:   api.ModeShadow, Planner: "horizontal", MinReplicas: 1, MaxReplicas: 10, TargetUtilization: 0.65, SpeedNow: 1, Cooldown: 5 * time.Minute,
		Behavior: api.Behavior{
			ScaleUp: api.ScalingRules{SelectPolicy: "Max", WindowStated: true,
				Policies: []api.ScalingPolicy{{Type: "Pods", Value: 2, Period: time.Minute}}},
			ScaleDown: api.ScalingRules{SelectPolicy: "Disabled", WindowStated: true, Policies: def.ScaleDown.Policies},
			Tolerance: 0.05,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLastScaledWithoutATime(t *testing.T) {
	w := newWorld(t, nil)
	d := deployment("web", 2, "100m")
	w.put(d, managed("web"))
	if got, _ := w.workload("web"); !got.LastScaled.IsZero() {
		t.Errorf("at first sight = %v, want unknown", got.LastScaled)
	}
	w.clock.Step(time.Minute)
	d.Spec.Replicas = ptr.To[int32](3)
	w.put(d)
	for range 2 {
		if got, _ := w.workload("web"); !got.LastScaled.Equal(epoch.Add(time.Minute)) {
			t.Errorf("after a change = %v, want %v", got.LastScaled, epoch.Add(time.Minute))
		}
		w.clock.Step(time.Minute)
	}
}

func TestFasterLeavesTheOriginalAlone(t *testing.T) {
	c := DefaultConfig()
	f := c.Faster(10)
	if diff := cmp.Diff(DefaultConfig().Behavior, c.Behavior); diff != "" {
		t.Errorf("the original has changed:\n%s", diff)
	}
	if f.Step != c.Step/10 || f.Behavior.ScaleDown.StabilizationWindow != 30*time.Second || f.QueryTimeout != c.QueryTimeout {
		t.Errorf("faster config = %+v", f)
	}
}

func TestPods(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 1)
	daemon := podOn("agent", 1, "node-1", epoch)
	daemon.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", Controller: ptr.To(true)}}
	stuck := podOn("other", 2, "", epoch)
	stuck.Spec.NodeName, stuck.Status.Phase = "", corev1.PodPending
	stuck.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	leaving := podOn("web", 3, "node-1", epoch.Add(-time.Hour))
	leaving.DeletionTimestamp = ptr.To(metav1.NewTime(epoch))
	leaving.Annotations = map[string]string{api.AnnotationPodDeletionCost: "-100", api.AnnotationDeletionCostSet: ""}
	w.put(daemon, stuck, leaving)

	got, s := w.workload("web")
	if got.ReadyReplicas != 1 {
		t.Errorf("%d ready, want 1: the terminating pod does not count", got.ReadyReplicas)
	}
	var text []string
	for _, p := range s.Pods {
		line := p.Key.Name + " on " + p.Node + " of " + p.Workload.Name
		for name, yes := range map[string]bool{"ready": p.Ready} {
			if yes {
				line += " " + name
			}
		}
		switch {
		case p.DaemonSet:
			line += " daemon"
		case p.Unschedulable:
			line += " unschedulable"
		case p.Terminating:
			line += " terminating"
		}
		if p.DeletionCostOurs {
			line += " deletion cost ours"
		}
		text = append(text, line)
	}
	want := []string{
		"agent-5d4f8c7b9-bbbcx on node-1 of  ready daemon",
		"other-5d4f8c7b9-bbbdx on  of  unschedulable",
		"web-5d4f8c7b9-bbbbx on node-1 of web ready",
		"web-5d4f8c7b9-bbbfx on node-1 of web ready terminating deletion cost ours",
	}
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}
