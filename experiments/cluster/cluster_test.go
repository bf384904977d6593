package cluster

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

func TestPodsLiveThroughTheirPhases(t *testing.T) {
	c := ForTest(t, func(o *Options) { o.Speed = 4 })
	ctx, client := t.Context(), newClient(t, c)
	createNodes(t, client, "one", "two")
	createDeployment(t, client, "web", 10)

	// A pod that runs must be seen not Ready first.
	runningNotReady := map[string]bool{}
	eventually(t, "10 pods Ready", func(ctx context.Context) bool {
		pods := listPods(t, ctx, client)
		ready := 0
		for _, pod := range pods {
			switch {
			case podReady(pod):
				ready++
				if pod.Status.PodIP == "" || pod.Status.StartTime == nil || !pod.Status.ContainerStatuses[0].Ready {
					t.Fatalf("Ready pod with status %+v", pod.Status)
				}
			case pod.Status.Phase == corev1.PodRunning:
				runningNotReady[pod.Name] = true
			}
		}
		return ready == 10
	})
	if len(runningNotReady) == 0 {
		t.Error("no pod was seen Running and not yet Ready")
	}

	if err := client.AppsV1().Deployments("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	terminating := 0
	eventually(t, "no pods", func(ctx context.Context) bool {
		pods := listPods(t, ctx, client)
		for _, pod := range pods {
			if pod.DeletionTimestamp != nil {
				terminating++
			}
		}
		return len(pods) == 0
	})
	if terminating == 0 {
		t.Error("no pod was seen terminating")
	}
}

func newClient(t *testing.T, c *Cluster) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func createNodes(t *testing.T, client kubernetes.Interface, names ...string) {
	t.Helper()
	size := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("4"),
		corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	for _, name := range names {
		_, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{FakeNodeAnnotation: FakeNodeValue}},
			Status:     corev1.NodeStatus{Capacity: size, Allocatable: size},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func podTemplate(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name:  "main",
			Image: "web",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"),
			}},
		}}},
	}
}

func createDeployment(t *testing.T, client kubernetes.Interface, name string, replicas int32) {
	t.Helper()
	labels := map[string]string{"app": name}
	_, err := client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: podTemplate(labels),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func listPods(t *testing.T, ctx context.Context, client kubernetes.Interface) []corev1.Pod {
	t.Helper()
	pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

func podReady(pod corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func eventually(t *testing.T, what string, condition func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) { return condition(ctx), nil })
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}
