package exposition

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	metrics "k8s.io/metrics/pkg/client/clientset/versioned"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func container(name string, cpu float64) Container {
	return Container{
		Namespace: "shop", Pod: name, UID: "uid-" + name, Labels: map[string]string{"app": "web"},
		Name: "nginx", Image: "nginx:1", Node: "n1", Started: start,
		CPU: cpu, Periods: 10, ThrottledPeriods: 3, ThrottledSeconds: 0.18, Memory: 48 << 20,
	}
}

func TestCadvisorSeries(t *testing.T) {
	containers := []Container{container("a", 12.5)}
	server := httptest.NewServer(Cadvisor(func() []Container { return containers }))
	defer server.Close()
	scrape := func() map[string]float64 {
		t.Helper()
		resp, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for name, f := range families {
			for _, m := range f.Metric {
				labels := ""
				for _, l := range m.Label {
					labels += l.GetName() + "=" + l.GetValue() + " "
				}
				out[name+" "+labels] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
		return out
	}
	series := func(labels string) map[string]float64 {
		return map[string]float64{
			"container_cpu_cfs_periods_total " + labels:           10,
			"container_cpu_cfs_throttled_periods_total " + labels: 3,
			"container_cpu_cfs_throttled_seconds_total " + labels: 0.18,
			"container_memory_working_set_bytes " + labels:        48 << 20,
			"container_start_time_seconds " + labels:              float64(start.Unix()),
		}
	}
	want := series("container=nginx id=/kubepods/poduid-a/nginx image=nginx:1 namespace=shop node=n1 pod=a ")
	for name, v := range series("container= id=/kubepods/poduid-a image= namespace=shop node=n1 pod=a ") {
		want[name] = v
	}
	want["container_cpu_usage_seconds_total container=nginx cpu=total id=/kubepods/poduid-a/nginx image=nginx:1 namespace=shop node=n1 pod=a "] = 12.5
	want["container_cpu_usage_seconds_total container= cpu=total id=/kubepods/poduid-a image= namespace=shop node=n1 pod=a "] = 12.5
	if diff := cmp.Diff(want, scrape()); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	containers = nil
	if got := scrape(); len(got) != 0 {
		t.Errorf("series of a pod that is gone: %v", got)
	}
}

// resourceServer serves what changing sources return.
type resourceServer struct {
	*ResourceMetrics
	containers []Container
	client     *metrics.Clientset
	url        string
}

func serve(t *testing.T) *resourceServer {
	t.Helper()
	s := &resourceServer{}
	s.ResourceMetrics = NewResourceMetrics(
		func() []Container { return s.containers },
		func() []Node { return []Node{{Name: "n1", Labels: map[string]string{"pool": "p"}}, {Name: "n0"}} },
		15*time.Second)
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	s.url = server.URL
	var err error
	if s.client, err = metrics.NewForConfig(&rest.Config{Host: server.URL}); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPodMetricsAreTheRateBetweenTwoReadings(t *testing.T) {
	ctx := context.Background()
	s := serve(t)
	s.containers = []Container{container("a", 100), container("b", 50)}
	s.Read(start.Add(time.Hour))
	list, err := s.client.MetricsV1beta1().PodMetricses("shop").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 0 {
		t.Errorf("metrics after one reading: %v", list.Items)
	}
	// 3.75 core seconds in 15 s are 250m; b's counter went back, as when its
	// container was restarted; c is fresh: 1.2 core seconds in 12 s are 100m;
	// d is too fresh.
	fresh, tooFresh := container("c", 1.2), container("d", 1)
	fresh.Started = start.Add(time.Hour + 3*time.Second)
	tooFresh.Started = start.Add(time.Hour + 8*time.Second)
	fresh.Labels = map[string]string{"app": "other"}
	s.containers = []Container{fresh, container("a", 103.75), container("b", 1), tooFresh}
	s.Read(start.Add(time.Hour + 15*time.Second))

	type row struct {
		Pod, CPU, Memory string
		Window           time.Duration
		At               time.Time
	}
	rows := func(selector string) []row {
		list, err := s.client.MetricsV1beta1().PodMetricses("shop").List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			t.Fatal(err)
		}
		var out []row
		for _, p := range list.Items {
			u := p.Containers[0].Usage
			out = append(out, row{p.Name, u.Cpu().String(), u.Memory().String(), p.Window.Duration, p.Timestamp.UTC()})
		}
		return out
	}
	at := start.Add(time.Hour + 15*time.Second)
	a := row{"a", "250m", "48Mi", 15 * time.Second, at}
	c := row{"c", "100m", "48Mi", 12 * time.Second, at}
	if diff := cmp.Diff([]row{a, c}, rows("")); diff != "" {
		t.Errorf("all pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]row{a}, rows("app=web")); diff != "" {
		t.Errorf("app=web (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]row(nil), rows("app notin (web, other)")); diff != "" {
		t.Errorf("neither (-want +got):\n%s", diff)
	}
	if other, err := s.client.MetricsV1beta1().PodMetricses("elsewhere").List(ctx, metav1.ListOptions{}); err != nil || len(other.Items) != 0 {
		t.Errorf("another namespace: %v, %v", other, err)
	}
	if p, err := s.client.MetricsV1beta1().PodMetricses("shop").Get(ctx, "a", metav1.GetOptions{}); err != nil || p.Containers[0].Usage.Cpu().MilliValue() != 250 {
		t.Errorf("get a = %v, %v", p, err)
	}
	if _, err := s.client.MetricsV1beta1().PodMetricses("shop").Get(ctx, "z", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get z: error = %v, want NotFound", err)
	}
	if _, err := s.client.MetricsV1beta1().PodMetricses("shop").List(ctx, metav1.ListOptions{LabelSelector: "=="}); !apierrors.IsBadRequest(err) {
		t.Errorf("bad selector: error = %v, want BadRequest", err)
	}
	if _, err := s.client.MetricsV1beta1().PodMetricses("shop").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=a"}); !apierrors.IsBadRequest(err) {
		t.Errorf("field selector: error = %v, want BadRequest", err)
	}

	nodes, err := s.client.MetricsV1beta1().NodeMetricses().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, n := range nodes.Items {
		got[n.Name] = n.Usage.Cpu().MilliValue()
	}
	if diff := cmp.Diff(map[string]int64{"n0": 0, "n1": 350}, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if n, err := s.client.MetricsV1beta1().NodeMetricses().Get(ctx, "n1", metav1.GetOptions{}); err != nil || n.Usage.Cpu().MilliValue() != 350 {
		t.Errorf("get n1 = %v, %v", n, err)
	}
	if _, err := s.client.MetricsV1beta1().NodeMetricses().Get(ctx, "nz", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get nz: error = %v, want NotFound", err)
	}
}

func TestDiscovery(t *testing.T) {
	s := serve(t)
	groups, err := s.client.Discovery().ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	if len(groups.Groups) != 1 || groups.Groups[0].Name != "metrics.k8s.io" {
		t.Errorf("groups = %v", groups.Groups)
	}
	resources, err := s.client.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range resources.APIResources {
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"nodes", "pods"}, names); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	resp, err := http.Get(s.url + "/apis/metrics.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || len(body) == 0 {
		t.Errorf("group: %s %s", resp.Status, body)
	}
}
