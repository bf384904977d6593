// Package adoption moves workloads from other autoscalers to mash2 and back:
// what an HPA or a ScaledObject says becomes a ManagedWorkload in Shadow; a
// take-over and a release change who writes, never two at a moment.
package adoption

import (
	"cmp"
	"encoding/json"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// Kinds of autoscalers that can be adopted.
const (
	KindHPA          = "HorizontalPodAutoscaler"
	KindScaledObject = "ScaledObject"
)

// Annotations of a ManagedWorkload.
const (
	// AnnotationFrom names the autoscaler that it was made from: kind/name.
	AnnotationFrom = api.Group + "/adopted-from"
	// AnnotationSaved keeps, as JSON, the HPA that a take-over deleted.
	AnnotationSaved = api.Group + "/adopted-object"
	// AnnotationPaused keeps what KEDA's annotation of a pause said before a take-over, where there was one.
	AnnotationPaused = api.Group + "/adopted-paused"
)

// maxReplicas is the most that a ManagedWorkload may say.
const maxReplicas = 100_000

var scaledObjectKind = schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: KindScaledObject}

// Candidate is an autoscaler and the ManagedWorkload that takes its bounds and
// target over.
type Candidate struct {
	Kind, Namespace, Name string
	Workload              v1alpha1.ManagedWorkload
	// Notes say what could not be taken over as it is.
	Notes []string
	// Refused says why there can be no ManagedWorkload; empty if there can.
	Refused string

	cpu bool // it has a target of CPU utilisation
}

func (c *Candidate) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// candidate has what all kinds share: target, bounds, Shadow.
func candidate(kind, namespace, name string, target v1alpha1.TargetRef, least, most int32) Candidate {
	c := Candidate{Kind: kind, Namespace: namespace, Name: name}
	if gv, err := schema.ParseGroupVersion(target.APIVersion); err != nil || gv.Group != "apps" ||
		target.Kind != "Deployment" && target.Kind != "StatefulSet" {
		c.Refused = fmt.Sprintf("spec.scaleTargetRef: a %s of %q can't be scaled: only Deployments and StatefulSets can", target.Kind, target.APIVersion)
		return c
	}
	least = max(least, 1) // see settle
	if most > maxReplicas {
		c.note("a maximum of %d becomes %d", most, maxReplicas)
		most = maxReplicas
	}
	if most < least {
		c.Refused = fmt.Sprintf("its maximum of %d is below its minimum of %d", most, least)
		return c
	}
	c.Workload = v1alpha1.ManagedWorkload{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ManagedWorkload"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: target.Name, Annotations: map[string]string{AnnotationFrom: kind + "/" + name},
		},
		Spec: v1alpha1.ManagedWorkloadSpec{
			TargetRef: target, MinReplicas: ptr.To(least), MaxReplicas: most, Mode: v1alpha1.ModeShadow,
			Planner: v1alpha1.PlannerHorizontal, Metric: v1alpha1.Metric{Type: v1alpha1.MetricCPU},
		},
	}
	return c
}

// target sets the highest utilisation, percent of requests.
func (c *Candidate) target(percent int64) {
	switch {
	case percent < 1:
		c.note("a target of %d %% is impossible: the policy's is used", percent)
	case percent > 100:
		c.note("a target of %d %% of the requests becomes 100 %%: mash2 doesn't plan beyond them", percent)
		c.Workload.Spec.TargetUtilizationPercent = ptr.To[int32](100)
	default:
		c.Workload.Spec.TargetUtilizationPercent = ptr.To(int32(percent))
	}
}

// FromHPA makes a Candidate of a HorizontalPodAutoscaler.
func FromHPA(h *autoscalingv2.HorizontalPodAutoscaler) Candidate {
	ref := h.Spec.ScaleTargetRef
	c := candidate(KindHPA, h.Namespace, h.Name, v1alpha1.TargetRef{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name},
		ptr.Deref(h.Spec.MinReplicas, 1), h.Spec.MaxReplicas)
	if c.Refused != "" {
		return c
	}
	c.Workload.Spec.Behavior = h.Spec.Behavior.DeepCopy()
	metrics := h.Spec.Metrics
	if len(metrics) == 0 { // the HPA's own default
		metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{AverageUtilization: ptr.To[int32](80)},
		}}}
	}
	for _, m := range metrics {
		c.metric(m)
	}
	c.settle(ptr.Deref(h.Spec.MinReplicas, 1))
	return c
}

// scaledObjectSpec is what is taken over of a ScaledObject's spec.
type scaledObjectSpec struct {
	ScaleTargetRef struct {
		APIVersion, Kind, Name string
	} `json:"scaleTargetRef"`
	MinReplicaCount  *int32 `json:"minReplicaCount"`
	MaxReplicaCount  *int32 `json:"maxReplicaCount"`
	IdleReplicaCount *int32 `json:"idleReplicaCount"`
	Advanced         *struct {
		HorizontalPodAutoscalerConfig *struct {
			Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
		} `json:"horizontalPodAutoscalerConfig"`
		ScalingModifiers struct {
			Formula string `json:"formula"`
		} `json:"scalingModifiers"`
	} `json:"advanced"`
	Fallback *struct {
		Replicas int32 `json:"replicas"`
	} `json:"fallback"`
	CooldownPeriod *int32          `json:"cooldownPeriod"`
	Triggers       []scaledTrigger `json:"triggers"`
}

// FromScaledObject makes a Candidate of a ScaledObject of KEDA, with the help of
// the HPA that KEDA made for it; nil if there is none.
func FromScaledObject(u *unstructured.Unstructured, theirs *autoscalingv2.HorizontalPodAutoscaler) Candidate {
	var spec scaledObjectSpec
	raw, err := json.Marshal(u.Object["spec"])
	if err == nil {
		err = json.Unmarshal(raw, &spec)
	}
	if err != nil {
		return Candidate{Kind: KindScaledObject, Namespace: u.GetNamespace(), Name: u.GetName(), Refused: "spec can't be read: " + err.Error()}
	}
	ref, least := spec.ScaleTargetRef, ptr.Deref(spec.MinReplicaCount, 0)
	c := candidate(KindScaledObject, u.GetNamespace(), u.GetName(),
		v1alpha1.TargetRef{APIVersion: cmp.Or(ref.APIVersion, "apps/v1"), Kind: cmp.Or(ref.Kind, "Deployment"), Name: ref.Name},
		least, ptr.Deref(spec.MaxReplicaCount, 100))
	if c.Refused != "" {
		return c
	}
	if spec.Advanced != nil && spec.Advanced.ScalingModifiers.Formula != "" {
		c.Refused = "spec.advanced.scalingModifiers.formula: mash2 takes the largest of what triggers ask for, which a formula need not do: write it as one trigger, a query of Prometheus"
		return c
	}
	if spec.Advanced != nil && spec.Advanced.HorizontalPodAutoscalerConfig != nil {
		c.Workload.Spec.Behavior = spec.Advanced.HorizontalPodAutoscalerConfig.Behavior
	}
	c.Workload.Spec.CooldownSeconds = ptr.To(min(max(ptr.Deref(spec.CooldownPeriod, 300), 0), 86400))
	for i, t := range spec.Triggers {
		c.trigger(i, t, theirs)
	}
	if idle := spec.IdleReplicaCount; idle != nil && *idle == 0 && least > 0 {
		c.note("idleReplicaCount 0 becomes a minimum of 0: while a trigger is active the least is the policy's, not %d", least)
		least = 0
	} else if idle != nil {
		c.note("idleReplicaCount %d is left out", *idle)
	}
	if spec.Fallback != nil {
		c.note("fallback of %d replicas is left out: while a trigger is not known, replicas stay or go up", spec.Fallback.Replicas)
	}
	for _, key := range []string{annotationKEDAPaused, annotationKEDAPausedReplicas} {
		if v, ok := u.GetAnnotations()[key]; ok {
			c.note("it is paused (%s: %q): mash2 would scale in mode Full", key, v)
		}
	}
	c.settle(least)
	return c
}

// ownerOfKEDA names the ScaledObject that an HPA is of; empty if it is of none.
func ownerOfKEDA(h *autoscalingv2.HorizontalPodAutoscaler) string {
	for _, o := range h.OwnerReferences {
		if o.Kind == KindScaledObject {
			return o.Name
		}
	}
	return ""
}
