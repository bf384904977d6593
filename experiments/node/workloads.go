package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// Names of what is in the cluster. A scaler's workload has a namespace of the
// scaler's name.
const (
	hpa             = "hpa"
	mash2           = "mash2"
	workload        = "web"
	systemNamespace = "mash2-system"
	policyConfigMap = "mash2-policy"
)

// growing is mash2 with agents that let pods grow in place.
const growing = "mash2-agents"

// scalers that are compared, each with a workload of its own.
func (o options) scalers() []string {
	if o.Grow {
		return []string{mash2, growing}
	}
	return []string{hpa, mash2}
}

// prepare creates the CRDs, mash2's namespace and the policy.
func (n *realNode) prepare(ctx context.Context) error {
	for _, args := range [][]string{
		{"apply", "-f", filepath.Join("charts", "mash2", "crds")},
		{"wait", "--for=condition=Established", "crd/managedworkloads." + api.Group, "--timeout=60s"},
	} {
		if _, err := n.cluster.Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	var err error
	if n.typed, err = client.New(n.cluster.RESTConfig(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	policies := fmt.Sprintf("policies:\n  %s: {nodePools: [%s]}\n  %s: {nodePools: [%s]}\n", api.CostSaving, poolName, api.Performance, poolName)
	return n.create(ctx, []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: policyConfigMap},
			Data:       map[string]string{"policy": api.CostSaving, "policies.yaml": policies},
		},
	})
}

// create objects in their order.
func (n *realNode) create(ctx context.Context, objects []client.Object) error {
	for _, object := range objects {
		if err := n.typed.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// deploy creates both workloads, which are equal, and what scales them.
func (n *realNode) deploy(ctx context.Context, o options, s scenarios.Scenario) error {
	if err := n.prepare(ctx); err != nil {
		return err
	}
	var objects []client.Object
	for _, scaler := range o.scalers() {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: scaler}},
			o.deployment(scaler, s),
			&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: scaler, Name: workload},
				Spec: corev1.ServiceSpec{
					Selector: map[string]string{"app": workload},
					Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
				},
			})
	}
	bounds := s.Workload.Replicas
	managed := func(scaler string) *v1alpha1.ManagedWorkload {
		return &v1alpha1.ManagedWorkload{
			ObjectMeta: metav1.ObjectMeta{Namespace: scaler, Name: workload},
			Spec: v1alpha1.ManagedWorkloadSpec{
				TargetRef:   v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: workload},
				MinReplicas: ptr.To(bounds.Min), MaxReplicas: bounds.Max,
				Metric: v1alpha1.Metric{Type: v1alpha1.MetricCPU},
			},
		}
	}
	objects = append(objects, managed(mash2))
	if o.Grow {
		objects = append(objects, o.grown(managed(growing), s))
	} else {
		objects = append(objects, &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: hpa, Name: workload},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: workload},
				MinReplicas:    ptr.To(bounds.Min), MaxReplicas: bounds.Max,
				Metrics: []autoscalingv2.MetricSpec{{
					Type: autoscalingv2.ResourceMetricSourceType,
					Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
						Type:               autoscalingv2.UtilizationMetricType,
						AverageUtilization: ptr.To(int32(s.Workload.TargetUtilization*100 + 0.5)),
					}},
				}},
			},
		})
	}
	return n.create(ctx, objects)
}

// grown lets the pods of a workload grow in place from their template's limit up to five times
// their request, as docs/how-to/agents.md has it.
func (o options) grown(w *v1alpha1.ManagedWorkload, s scenarios.Scenario) *v1alpha1.ManagedWorkload {
	milli := func(of float64) *resource.Quantity {
		return resource.NewMilliQuantity(int64(of*o.Scale+0.5), resource.DecimalSI)
	}
	request, limit := float64(s.Workload.CPU.Request.MilliValue()), float64(s.Workload.CPU.Limit.MilliValue())
	w.Spec.CountRequests = v1alpha1.CountTemplate
	w.Spec.Vertical = &v1alpha1.Vertical{
		Model: "proportional", MinCPU: milli(limit), MaxCPU: milli(5 * request), CPU: milli(5 * request * float64(s.Workload.Replicas.Max)),
	}
	return w
}

// deployment is the scenario's workload with pods of the given share of its size.
func (o options) deployment(namespace string, s scenarios.Scenario) *appsv1.Deployment {
	scale := o.Scale
	labels := map[string]string{"app": workload}
	share := func(cpu, memory resource.Quantity) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(float64(cpu.MilliValue())*scale+0.5), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(int64(float64(memory.Value())*scale+0.5), resource.BinarySI),
		}
	}
	w := s.Workload
	spec := podSpec(share(w.CPU.Request.Quantity, w.Memory.Request.Quantity), share(w.CPU.Limit.Quantity, w.Memory.Limit.Quantity))
	spec.Containers[0].ReadinessProbe.InitialDelaySeconds = int32(o.StartUp.Seconds())
	spec.TerminationGracePeriodSeconds = ptr.To(int64(w.TerminationGrace.Seconds()))
	spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: int64(w.PreStop.Seconds())}}}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: workload, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(w.Replicas.Min),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
}
