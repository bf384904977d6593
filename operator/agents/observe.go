package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/mash2-io/mash2/api"
)

// Usage is a reading of a pod's container: millicores over a time up to At, and the bytes of
// its working set, NaN without one, and of the files in it, 0 where they aren't known.
type Usage struct {
	MilliCPU, Memory, Files float64
	At                      time.Time
}

// Meter reads what pods use, by UID. Who has no reading is not in the answer.
type Meter interface {
	Read(ctx context.Context, pods []Pod) (map[string]Usage, error)
}

// Observer lists the pods that agents can have.
type Observer interface {
	// Observe returns pods in the order of their names, without usage.
	Observe(ctx context.Context) ([]Pod, []Refused, error)
}

// Kubernetes observes pods by their labels and by whose they are.
type Kubernetes struct {
	Client    kubernetes.Interface
	Namespace string
	// Selector of labels; Container, or empty for the only one.
	Selector, Container string
	// Of, if it has a name, limits it to the pods of that Deployment or StatefulSet.
	Of api.TargetRef
	// Node, if set, limits it to that node's pods.
	Node string
}

// Observe implements Observer.
func (k Kubernetes) Observe(ctx context.Context) ([]Pod, []Refused, error) {
	options := metav1.ListOptions{LabelSelector: k.Selector, ResourceVersion: "0"}
	if k.Node != "" {
		options.FieldSelector = "spec.nodeName=" + k.Node
	}
	list, err := k.Client.CoreV1().Pods(k.Namespace).List(ctx, options)
	if err != nil {
		return nil, nil, fmt.Errorf("listing pods: %w", err)
	}
	var pods []Pod
	var refused []Refused
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || !k.has(pod) {
			continue
		}
		p, err := Takes(pod, k.Container)
		if err != nil {
			refused = append(refused, refusal(pod, k.Container, p, err))
			continue
		}
		pods = append(pods, p)
	}
	return pods, refused, nil
}

// has reports whether a pod is the target's: labels alone may be those of others, too.
func (k Kubernetes) has(pod *corev1.Pod) bool {
	if k.Of.Name == "" {
		return true
	}
	owner := metav1.GetControllerOf(pod)
	switch {
	case owner == nil:
		return false
	case k.Of.Kind == "Deployment":
		return owner.Kind == "ReplicaSet" && owner.Name == k.Of.Name+"-"+pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	}
	return owner.Kind == k.Of.Kind && owner.Name == k.Of.Name
}

// MetricsAPI reads metrics.k8s.io: samples of the kubelet, which are 10 to 60 seconds
// old. An agent decides once on each.
type MetricsAPI struct {
	Client    kubernetes.Interface
	Namespace string
	Selector  string
}

// Read implements Meter.
func (m MetricsAPI) Read(ctx context.Context, pods []Pod) (map[string]Usage, error) {
	text, err := m.Client.CoreV1().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/namespaces/"+m.Namespace+"/pods").
		Param("labelSelector", m.Selector).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading metrics.k8s.io: %w", err)
	}
	return usages(text, pods)
}

// usages of a PodMetricsList's JSON. Samples have names, not UIDs: one that began before
// a pod was there can't be told from its predecessor's, but is gone with the next.
func usages(text []byte, pods []Pod) (map[string]Usage, error) {
	var list metricsv1beta1.PodMetricsList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("reading metrics.k8s.io: %w", err)
	}
	named := map[types.NamespacedName]*metricsv1beta1.PodMetrics{}
	for i := range list.Items {
		named[types.NamespacedName{Namespace: list.Items[i].Namespace, Name: list.Items[i].Name}] = &list.Items[i]
	}
	out := map[string]Usage{}
	for _, p := range pods {
		sample := named[types.NamespacedName{Namespace: p.Key.Namespace, Name: p.Key.Name}]
		if sample == nil {
			continue
		}
		for _, c := range sample.Containers {
			if v := c.Usage.Cpu().AsApproximateFloat64() * 1000; c.Name == p.Container && v >= 0 && !math.IsInf(v, 0) {
				memory := math.NaN()
				if q, ok := c.Usage[corev1.ResourceMemory]; ok {
					memory = q.AsApproximateFloat64()
				}
				out[p.ID] = Usage{v, memory, 0, sample.Timestamp.Time}
			}
		}
	}
	return out, nil
}
