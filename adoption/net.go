package adoption

import (
	"context"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

const (
	// netSuffix ends the name of a safety net, after that of its ManagedWorkload.
	netSuffix = "-mash2-net"
	// netMargin is how many points of utilisation a net's target is above the
	// workload's, so that what a living operator lets pass doesn't wake it.
	netMargin = 10
	// netTarget is taken where the workload leaves its target to the policy:
	// none of the built-in ones goes above 80 %.
	netTarget = 80
)

// isNet tells whether an HPA is a safety net.
func isNet(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	return h.Labels[api.LabelSafetyNet] == "true"
}

// SafetyNet makes, or updates, the HorizontalPodAutoscaler that scales a
// workload up when its operator is dead: it acts on the least of its
// recommendations over a time (behavior.scaleUp.stabilizationWindowSeconds), so
// only when replicas were too few all that while, and never lowers them. It goes
// with its ManagedWorkload, and knows bounds but no budget.
func (a Adoption) SafetyNet(ctx context.Context, key types.NamespacedName, after time.Duration) error {
	w := &v1alpha1.ManagedWorkload{}
	if err := a.Client.Get(ctx, key, w); err != nil {
		return fmt.Errorf("reading ManagedWorkload %s: %w", key, err)
	}
	if w.Spec.Mode != v1alpha1.ModeFull && w.Spec.Mode != "" {
		return fmt.Errorf("ManagedWorkload %s is in %s: a safety net is for those in Full", key, w.Spec.Mode)
	}
	if w.Spec.Actuator == v1alpha1.ActuatorKEDA {
		return fmt.Errorf("ManagedWorkload %s: spec.actuator is KEDA, beside which a safety net is a Conflict: give its ScaledObject a fallback instead", key)
	}
	net := netOf(w, after)
	err := a.Client.Create(ctx, net, client.FieldOwner(FieldManager))
	if apierrors.IsAlreadyExists(err) {
		there := &autoscalingv2.HorizontalPodAutoscaler{}
		if err := a.Client.Get(ctx, client.ObjectKeyFromObject(net), there); err != nil {
			return fmt.Errorf("safety net of %s: %w", key, err)
		}
		if !isNet(there) {
			return fmt.Errorf("safety net of %s: HorizontalPodAutoscaler %s belongs to somebody else", key, there.Name)
		}
		before := there.DeepCopy()
		there.Spec = net.Spec
		err = a.Client.Patch(ctx, there, client.MergeFrom(before), client.FieldOwner(FieldManager))
	}
	if err != nil {
		return fmt.Errorf("safety net of %s: %w", key, err)
	}
	return nil
}

func netOf(w *v1alpha1.ManagedWorkload, after time.Duration) *autoscalingv2.HorizontalPodAutoscaler {
	target := min(100, ptr.Deref(w.Spec.TargetUtilizationPercent, netTarget)+netMargin)
	ref := w.Spec.TargetRef
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: w.Name + netSuffix, Labels: map[string]string{api.LabelSafetyNet: "true"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "ManagedWorkload", Name: w.Name, UID: w.UID,
			}},
		},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name},
			MinReplicas:    ptr.To(max(1, ptr.Deref(w.Spec.MinReplicas, 1))), MaxReplicas: w.Spec.MaxReplicas,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &target},
			}}},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleUp:   &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To(int32(after.Seconds()))},
				ScaleDown: &autoscalingv2.HPAScalingRules{SelectPolicy: ptr.To(autoscalingv2.DisabledPolicySelect)},
			},
		},
	}
}

// removeNet deletes the safety nets of a target.
func (a Adoption) removeNet(ctx context.Context, namespace string, target v1alpha1.TargetRef) error {
	hpas, err := a.hpas(ctx, namespace)
	if err != nil {
		return err
	}
	for i := range hpas {
		if ref := hpas[i].Spec.ScaleTargetRef; !isNet(&hpas[i]) || ref.Kind != target.Kind || ref.Name != target.Name {
			continue
		}
		if err := client.IgnoreNotFound(a.Client.Delete(ctx, &hpas[i])); err != nil {
			return fmt.Errorf("deleting safety net %s/%s: %w", namespace, hpas[i].Name, err)
		}
	}
	return nil
}
