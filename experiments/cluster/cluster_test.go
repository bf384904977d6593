package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestPodsLiveThroughTheirPhases(t *testing.T) {
	c := ForTest(t, func(o *Options) { o.Speed = 4 })
	ctx, client := t.Context(), newClient(t, c)
	createNodes(t, client, "one", "two")
	createDeployment(t, client, "web", 10)

	// A pod that runs must be seen not Ready first.
	runningNotReady := map[string]bool{}
	eventually(t, "10 pods Ready", func(ctx context.Context) bool {
		pods := listPods(ctx, t, client)
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
		pods := listPods(ctx, t, client)
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

// The controller-manager itself tells which windows are in effect.
func TestHPAWindowsReachTheControllerManager(t *testing.T) {
	want := StockHPAWindows(10)
	c := ForTest(t, func(o *Options) { o.HPA = want })
	client, err := rest.HTTPClientFor(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/configz", c.Ports["kube-controller-manager"]))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Config struct {
			HPAController struct {
				SyncPeriod              metav1.Duration `json:"HorizontalPodAutoscalerSyncPeriod"`
				DownscaleStabilization  metav1.Duration `json:"HorizontalPodAutoscalerDownscaleStabilizationWindow"`
				CPUInitializationPeriod metav1.Duration `json:"HorizontalPodAutoscalerCPUInitializationPeriod"`
				InitialReadinessDelay   metav1.Duration `json:"HorizontalPodAutoscalerInitialReadinessDelay"`
			}
		} `json:"kubecontrollermanager.config.k8s.io"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	hpa := answer.Config.HPAController
	got := HPAWindows{
		SyncPeriod:              hpa.SyncPeriod.Duration,
		DownscaleStabilization:  hpa.DownscaleStabilization.Duration,
		CPUInitializationPeriod: hpa.CPUInitializationPeriod.Duration,
		InitialReadinessDelay:   hpa.InitialReadinessDelay.Duration,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("windows in effect (-want +got):\n%s", diff)
	}
}

// Each of these would stay for ever if a stage of kwok's missed it.
func TestPodsOfEveryKindGoAway(t *testing.T) {
	c := ForTest(t, func(o *Options) { o.Speed = 10 })
	ctx, client := t.Context(), newClient(t, c)
	createNodes(t, client, "one", "two")

	labels := map[string]string{"app": "agent"}
	_, err := client.AppsV1().DaemonSets("default").Create(ctx, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podTemplate(labels)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.BatchV1().Jobs("default").Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "once"},
		Spec: batchv1.JobSpec{Template: func() corev1.PodTemplateSpec {
			template := podTemplate(nil)
			template.Spec.RestartPolicy = corev1.RestartPolicyNever
			return template
		}()},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	template := podTemplate(nil)
	const finalizer = "example.com/keep"
	bare := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "bare", Finalizers: []string{finalizer}},
		Spec:       template.Spec,
	}
	bare.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init"}}
	if _, err = client.CoreV1().Pods("default").Create(ctx, bare, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the DaemonSet's and the bare pod Ready and the Job complete", func(ctx context.Context) bool {
		ready := 0
		for _, pod := range listPods(ctx, t, client) {
			if podReady(pod) {
				ready++
			}
		}
		job, err := client.BatchV1().Jobs("default").Get(ctx, "once", metav1.GetOptions{})
		return err == nil && job.Status.Succeeded == 1 && ready == 3
	})

	foreground := metav1.DeletePropagationForeground
	remove := metav1.DeleteOptions{PropagationPolicy: &foreground}
	for what, err := range map[string]error{
		"DaemonSet": client.AppsV1().DaemonSets("default").Delete(ctx, "agent", remove),
		"Job":       client.BatchV1().Jobs("default").Delete(ctx, "once", remove),
		"pod":       client.CoreV1().Pods("default").Delete(ctx, "bare", metav1.DeleteOptions{}),
	} {
		if err != nil {
			t.Fatalf("deleting the %s: %v", what, err)
		}
	}
	eventually(t, "only the pod with a finalizer left, its containers gone", func(ctx context.Context) bool {
		pods := listPods(ctx, t, client)
		return len(pods) == 1 && pods[0].Name == "bare" && *pods[0].DeletionGracePeriodSeconds == 0
	})
	_, err = client.CoreV1().Pods("default").Patch(ctx, "bare", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "no pods", func(ctx context.Context) bool { return len(listPods(ctx, t, client)) == 0 })
}

func TestResizeInPlace(t *testing.T) {
	c := ForTest(t, func(o *Options) { o.Speed = 10 })
	ctx, client := t.Context(), newClient(t, c)
	createNodes(t, client, "one")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: podTemplate(nil).Spec}
	if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod Ready", func(ctx context.Context) bool {
		pods := listPods(ctx, t, client)
		return len(pods) == 1 && podReady(pods[0])
	})
	_, err := client.CoreV1().Pods("default").Patch(ctx, "web", types.StrategicMergePatchType,
		[]byte(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"250m"}}}]}}`),
		metav1.PatchOptions{}, "resize")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the status to report the new request", func(ctx context.Context) bool {
		status := listPods(ctx, t, client)[0].Status.ContainerStatuses[0]
		return status.Ready && status.RestartCount == 0 && status.Resources.Requests.Cpu().MilliValue() == 250 &&
			status.AllocatedResources.Cpu().MilliValue() == 250
	})
}

func TestRegisterMetricsAPI(t *testing.T) {
	c := ForTest(t)
	for range 2 { // the second time it moves
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch r.URL.Path {
			case "/apis/metrics.k8s.io/v1beta1":
				_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"metrics.k8s.io/v1beta1",
					"resources":[{"name":"pods","namespaced":true,"kind":"PodMetrics","verbs":["get","list"]}]}`)
			case "/apis/metrics.k8s.io/v1beta1/pods":
				_, _ = fmt.Fprintf(w, `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},
					"items":[{"metadata":{"name":"%s","namespace":"default"}}]}`, r.Host)
			default:
				http.NotFound(w, r)
			}
		}))
		defer server.Close()
		address := server.Listener.Addr().String()
		if err := RegisterMetricsAPI(t.Context(), c.RESTConfig(), address); err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(address)
		eventually(t, "pod metrics from "+address, func(ctx context.Context) bool {
			out, err := c.Kubectl(ctx, "get", "--raw", "/apis/metrics.k8s.io/v1beta1/pods")
			return err == nil && strings.Contains(out, port)
		})
	}
	for name, address := range map[string]string{
		"no port":             "localhost",
		"a port with a name":  "localhost:https",
		"not on the loopback": "192.0.2.1:443",
	} {
		t.Run(name, func(t *testing.T) {
			if err := RegisterMetricsAPI(t.Context(), c.RESTConfig(), address); err == nil {
				t.Errorf("%s was accepted", address)
			}
		})
	}
}

func newClient(t *testing.T, c *Cluster) kubernetes.Interface {
	t.Helper()
	return clientFor(t, c.RESTConfig())
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
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

func listPods(ctx context.Context, t *testing.T, client kubernetes.Interface) []corev1.Pod {
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
