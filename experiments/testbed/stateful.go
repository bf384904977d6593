package testbed

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api/v1alpha1"
)

// StatefulName of the StatefulSet, where Options ask for one, and of its budget.
const StatefulName = "db"

// stateful is a StatefulSet in mash2's namespace, always of as many pods, and a budget
// that lets one of them be away. They ask for an eighth of the Deployment's CPU, so
// that its plan and its nodes are hardly others than without them, and may use three
// times as much as it asks for, as they are few.
func (t *Testbed) stateful() []client.Object {
	labels := map[string]string{"app": StatefulName}
	meta := metav1.ObjectMeta{Namespace: Mash2, Name: StatefulName, Labels: labels}
	n := t.options.StatefulReplicas
	template := t.deployment(Mash2, nil, nil).Spec.Template
	template.Labels = labels
	c := template.Spec.Containers[0].Resources
	asked := c.Requests.Cpu().MilliValue()
	c.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(asked/8, resource.DecimalSI)
	c.Limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(3*asked, resource.DecimalSI)
	selector := &metav1.LabelSelector{MatchLabels: labels}
	return []client.Object{
		&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(n), Selector: selector, Template: template, ServiceName: StatefulName,
		}},
		&policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: selector, MaxUnavailable: ptr.To(intstr.FromInt32(1)),
		}},
		&v1alpha1.ManagedWorkload{ObjectMeta: meta, Spec: v1alpha1.ManagedWorkloadSpec{
			TargetRef:   v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "StatefulSet", Name: StatefulName},
			MinReplicas: ptr.To(n), MaxReplicas: n, Mode: t.options.Mode,
			Metric: v1alpha1.Metric{Type: v1alpha1.MetricCPU},
		}},
	}
}
