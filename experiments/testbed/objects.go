package testbed

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

const baselineTaint = "example.com/baseline"

func (t *Testbed) objects() ([]client.Object, error) {
	s := t.options.Scenario
	if len(s.Pools) < 2 {
		return nil, fmt.Errorf("scenario %s needs two pools, one for each policy", s.Name)
	}
	content := map[string]any{}
	for i, name := range []string{api.CostSaving, api.Performance} {
		// A pool that autoscaling is off for has no bounds in GKE: the policy
		// says them.
		p := s.Pools[i]
		policy := map[string]any{"nodePools": []string{p.Name}}
		if per := int32(max(1, len(p.Zones))); p.NodesPerZone.Min > 0 {
			policy["minNodesPerPool"] = p.NodesPerZone.Min * per
		}
		content[name] = policy
	}
	policies, err := yaml.Marshal(map[string]any{"policies": content})
	if err != nil {
		return nil, err
	}
	namespace := func(name string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	initial := s.Policy.Initial
	if initial == "" {
		initial = api.CostSaving
	}
	objects := []client.Object{
		namespace(Namespace), namespace(Mash2),
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: PolicyConfigMap},
			Data:       map[string]string{"policy": initial, "policies.yaml": string(policies)},
		},
		t.deployment(Mash2, nil, nil),
		&v1alpha1.ManagedWorkload{
			ObjectMeta: metav1.ObjectMeta{Namespace: Mash2, Name: WorkloadName},
			Spec: v1alpha1.ManagedWorkloadSpec{
				TargetRef:   v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: WorkloadName},
				MinReplicas: ptr.To(s.Workload.Replicas.Min), MaxReplicas: s.Workload.Replicas.Max, Mode: t.options.Mode,
				Metric: v1alpha1.Metric{Type: v1alpha1.MetricCPU},
			},
		},
	}
	if t.options.StatefulReplicas > 0 {
		objects = append(objects, t.stateful()...)
	}
	if t.options.Baseline {
		objects = append(objects, t.stock(Baseline, BaselinePool, baselineTaint)...)
	}
	if t.options.Karpenter != "" {
		objects = append(objects, t.stock(Karpenter, Karpenter, karpenterTaint)...)
	}
	return objects, nil
}

// stock is the workload on a pool of its own, with the stock HPA at the scenario's
// target.
func (t *Testbed) stock(scaler, pool, taint string) []client.Object {
	w := t.options.Scenario.Workload
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: scaler}},
		t.deployment(scaler, map[string]string{api.LabelNodePool: pool},
			[]corev1.Toleration{{Key: taint, Operator: corev1.TolerationOpExists}}),
		&autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: scaler, Name: WorkloadName},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: WorkloadName},
				MinReplicas:    ptr.To(w.Replicas.Min), MaxReplicas: w.Replicas.Max,
				Metrics: []autoscalingv2.MetricSpec{{
					Type: autoscalingv2.ResourceMetricSourceType,
					Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
						Type:               autoscalingv2.UtilizationMetricType,
						AverageUtilization: ptr.To(int32(w.TargetUtilization*100 + 0.5)),
					}},
				}},
			},
		},
	}
}

// deployment is the scenario's workload; every scaler gets the same.
func (t *Testbed) deployment(namespace string, selector map[string]string, tolerations []corev1.Toleration) *appsv1.Deployment {
	w := t.options.Scenario.Workload
	labels := map[string]string{"app": WorkloadName}
	requests := corev1.ResourceList{corev1.ResourceCPU: w.CPU.Request.Quantity, corev1.ResourceMemory: w.Memory.Request.Quantity}
	limits := corev1.ResourceList{}
	for name, q := range map[corev1.ResourceName]resource.Quantity{corev1.ResourceCPU: w.CPU.Limit.Quantity, corev1.ResourceMemory: w.Memory.Limit.Quantity} {
		if !q.IsZero() {
			limits[name] = q
		}
	}
	container := corev1.Container{
		Name: "nginx", Image: "nginx:1.29", Resources: corev1.ResourceRequirements{Requests: maps.Clone(requests), Limits: limits},
		Ports: []corev1.ContainerPort{{ContainerPort: 80}},
	}
	if w.PreStop.Duration > 0 {
		container.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: int64(w.PreStop.Seconds())}}}
	}
	spec := corev1.PodSpec{Containers: []corev1.Container{container}, NodeSelector: selector, Tolerations: tolerations}
	if w.TerminationGrace.Duration > 0 {
		spec.TerminationGracePeriodSeconds = ptr.To(int64(w.TerminationGrace.Seconds()))
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: WorkloadName, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(w.Replicas.Min),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
}
