package sensing

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	"k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

func averageValue(q string) *v1alpha1.TriggerTarget {
	return &v1alpha1.TriggerTarget{AverageValue: ptr.To(resource.MustParse(q))}
}

func external(name, perReplica string) v1alpha1.Trigger {
	return v1alpha1.Trigger{
		Name: name, Type: v1alpha1.TriggerExternal, Target: averageValue(perReplica),
		External: &v1alpha1.MetricTrigger{Metric: autoscalingv2.MetricIdentifier{Name: name}},
	}
}

// adapter is what a metrics adapter (KEDA's, prometheus-adapter) is behind the
// API server: it speaks external.metrics.k8s.io and custom.metrics.k8s.io to the
// real clients.
type adapter struct {
	external map[string][]string // values by namespace/metric?selector
	pods     map[string]string   // values by pod
	objects  map[string]string   // values by resource/name/metric
	status   int                 // answered instead, if not 0
	asked    []string
}

func (a *adapter) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	answer := func(v any) {
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(v)
	}
	version := func(group, v string) metav1.APIGroup {
		gv := metav1.GroupVersionForDiscovery{GroupVersion: group + "/" + v, Version: v}
		return metav1.APIGroup{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: group,
			Versions: []metav1.GroupVersionForDiscovery{gv}, PreferredVersion: gv,
		}
	}
	path := r.URL.Path
	switch path {
	case "/api":
		answer(metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
		return
	case "/api/v1":
		answer(metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", SingularName: "pod", Namespaced: true, Kind: "Pod", Verbs: []string{"get"}},
			{Name: "services", SingularName: "service", Namespaced: true, Kind: "Service", Verbs: []string{"get"}},
		}})
		return
	case "/apis":
		answer(metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
			Groups: []metav1.APIGroup{version("custom.metrics.k8s.io", "v1beta2")}})
		return
	case "/apis/custom.metrics.k8s.io":
		answer(version("custom.metrics.k8s.io", "v1beta2"))
		return
	case "/apis/custom.metrics.k8s.io/v1beta2":
		answer(metav1.APIResourceList{GroupVersion: "custom.metrics.k8s.io/v1beta2"})
		return
	}
	a.asked = append(a.asked, path+"?"+r.URL.RawQuery)
	if a.status != 0 {
		http.Error(rw, "the server is currently unable to handle the request", a.status)
		return
	}
	if name, ok := strings.CutPrefix(path, "/apis/external.metrics.k8s.io/v1beta1/namespaces/"); ok {
		if s := r.URL.Query().Get("labelSelector"); s != "" {
			name += "?" + s
		}
		values, ok := a.external[name]
		if !ok {
			http.NotFound(rw, r)
			return
		}
		list := v1beta1.ExternalMetricValueList{TypeMeta: metav1.TypeMeta{APIVersion: "external.metrics.k8s.io/v1beta1", Kind: "ExternalMetricValueList"}}
		for _, v := range values {
			list.Items = append(list.Items, v1beta1.ExternalMetricValue{MetricName: "queue", Value: resource.MustParse(v)})
		}
		answer(list)
		return
	}
	list := v1beta2.MetricValueList{TypeMeta: metav1.TypeMeta{APIVersion: "custom.metrics.k8s.io/v1beta2", Kind: "MetricValueList"}}
	rest := strings.TrimPrefix(path, "/apis/custom.metrics.k8s.io/v1beta2/namespaces/"+ns+"/")
	if rest == "pods/*/rps" && r.URL.Query().Get("labelSelector") == "app=web" {
		for pod, v := range a.pods {
			list.Items = append(list.Items, v1beta2.MetricValue{
				DescribedObject: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: pod}, Value: resource.MustParse(v),
			})
		}
	} else if v, ok := a.objects[rest]; ok {
		list.Items = append(list.Items, v1beta2.MetricValue{Value: resource.MustParse(v)})
	}
	answer(list)
}

// triggered is a world with a Deployment of three pods and these triggers.
func triggered(t *testing.T, triggers ...v1alpha1.Trigger) (*world, *adapter, []api.Key) {
	w := newWorld(t, nil)
	keys := w.shop("web", 3)
	a := &adapter{external: map[string][]string{}, pods: map[string]string{}, objects: map[string]string{}}
	w.adapter = a
	d := deployment("web", 3, "100m")
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	mw := managed("web")
	mw.Spec.Triggers = triggers
	w.put(d, mw)
	return w, a, keys
}

func apiTriggerOf(t *testing.T, w *world) api.Trigger {
	t.Helper()
	got, _ := w.workload("web")
	if got.HoldReason != "" || len(got.Triggers) != 1 {
		t.Fatalf("held %s %s, readings %+v", got.HoldReason, got.Hold, got.Triggers)
	}
	return got.Triggers[0]
}

func TestExternalMetrics(t *testing.T) {
	queue := external("queue", "20")
	queue.External.Metric.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"scaledobject.keda.sh/name": "web"}}
	queue.ActivationThreshold = ptr.To(resource.MustParse("5"))
	w, a, _ := triggered(t, queue)
	const name = ns + "/queue?scaledobject.keda.sh/name=web"
	a.external[name] = []string{"30", "12500m"}

	s := apiTriggerOf(t, w)
	if s.Value != 42.5 || s.Target != 20 || s.Activation != 5 || !s.Activates || s.Ratio || s.Missing != "" || !s.At.Equal(epoch) {
		t.Errorf("%+v", s)
	}
	if v, at, ok := s.History.Last(); !ok || v != 42.5 || !at.Equal(epoch) {
		t.Errorf("history ends with %v at %v, %v", v, at, ok)
	}

	// While it can't be read its last value counts, until it is stale; the
	// finding says why. Nothing is made of the gap.
	a.status = http.StatusServiceUnavailable
	w.clock.Step(30 * time.Second)
	if s = apiTriggerOf(t, w); s.Missing != "" || s.Value != 42.5 {
		t.Errorf("after 30 s: %+v", s)
	}
	w.clock.Step(30 * time.Second)
	got, snapshot := w.workload("web")
	if s = got.Triggers[0]; !strings.Contains(s.Missing, "currently unable") {
		t.Errorf("after a minute: %+v", s)
	}
	if f := findings(snapshot, ReasonTriggerMissing); len(f) != 1 || !strings.Contains(f[0].Message, "spec.triggers[0] queue: external.metrics.k8s.io") {
		t.Errorf("findings %+v", f)
	}
	a.status = 0
	a.external[name] = nil
	if s = apiTriggerOf(t, w); !strings.Contains(s.Missing, "has no value of queue") {
		t.Errorf("without values: %+v", s)
	}
	a.external[name] = []string{"7"}
	if s = apiTriggerOf(t, w); s.Missing != "" || s.Value != 7 || len(s.History.Values) != 5 || !math.IsNaN(s.History.Values[3]) {
		t.Errorf("back again: %+v", s)
	}
	a.external[name] = []string{"-7"}
	w.clock.Step(time.Minute)
	if s = apiTriggerOf(t, w); s.Missing != "it is -7" {
		t.Errorf("below 0: %+v", s)
	}
}

// One trigger that doesn't answer keeps no other from being read, and the
// definition of one that changes is that of another.
func TestExternalMetricsAreApart(t *testing.T) {
	w, a, _ := triggered(t, external("queue", "20"), external("lag", "5"))
	a.external[ns+"/lag"] = []string{"9"}
	got, _ := w.workload("web")
	if got.Triggers[0].Missing == "" || got.Triggers[1].Missing != "" || got.Triggers[1].Value != 9 {
		t.Errorf("%+v", got.Triggers)
	}
	mw := managed("web")
	mw.Spec.Triggers = []v1alpha1.Trigger{external("lag", "7")}
	w.put(mw)
	a.status = http.StatusNotFound
	if s := apiTriggerOf(t, w); s.Missing == "" || len(s.History.Values) != 0 {
		t.Errorf("another target, but the value of before: %+v", s)
	}
}

func TestCustomMetrics(t *testing.T) {
	rps := v1alpha1.Trigger{
		Name: "rps", Type: v1alpha1.TriggerPods, Target: averageValue("10"),
		Pods: &v1alpha1.MetricTrigger{Metric: autoscalingv2.MetricIdentifier{Name: "rps"}},
	}
	t.Run("of pods", func(t *testing.T) {
		w, a, keys := triggered(t, rps)
		a.pods[keys[0].Name], a.pods[keys[1].Name], a.pods["web-of-yesterday"] = "12", "500m", "99"
		s := apiTriggerOf(t, w)
		if s.Value != 12.5 || s.Pods != 2 || s.Target != 10 || s.Activates || s.Missing != "" {
			t.Errorf("%+v", s)
		}
		if v, _, _ := s.History.Last(); v != 12.5*3/2 {
			t.Errorf("history has %v, want that of three pods", v)
		}
		clear(a.pods)
		w.clock.Step(time.Minute)
		if s := apiTriggerOf(t, w); !strings.Contains(s.Missing, "has no value of rps of a Ready pod") {
			t.Errorf("%+v", s)
		}
	})
	t.Run("of an object", func(t *testing.T) {
		w, a, _ := triggered(t, v1alpha1.Trigger{
			Name: "latency", Type: v1alpha1.TriggerObject, Target: &v1alpha1.TriggerTarget{Value: ptr.To(resource.MustParse("250m"))},
			Object: &v1alpha1.ObjectTrigger{
				DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "web"},
				Metric:          autoscalingv2.MetricIdentifier{Name: "latency"},
			},
		})
		a.objects["services/web/latency"] = "400m"
		s := apiTriggerOf(t, w)
		if s.Value != 0.4 || s.Target != 0.25 || !s.Ratio || s.Missing != "" {
			t.Errorf("%+v", s)
		}
		if v, _, _ := s.History.Last(); math.Abs(v-1.2) > 1e-6 {
			t.Errorf("history has %v, want that of three replicas", v)
		}
	})
}

func TestResourceTriggers(t *testing.T) {
	memory := func(target v1alpha1.TriggerTarget, container string) v1alpha1.Trigger {
		return v1alpha1.Trigger{
			Name: "memory", Type: v1alpha1.TriggerResource, Target: &target,
			Resource: &v1alpha1.ResourceTrigger{Name: "memory", Container: container},
		}
	}
	w, _, keys := triggered(t, memory(v1alpha1.TriggerTarget{AverageUtilization: ptr.To[int32](80)}, "main"))
	d := deployment("web", 3, "100m")
	d.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("100Mi")
	w.put(d)
	w.memory = map[api.Key]int64{keys[0]: 90 << 20, keys[1]: 70 << 20, keys[2]: 50 << 20}
	if s := apiTriggerOf(t, w); s.Value != 210<<20 || s.Pods != 3 || s.Target != 80<<20 || s.Missing != "" {
		t.Errorf("%+v", s)
	}
	mw := managed("web")
	mw.Spec.Triggers = []v1alpha1.Trigger{memory(v1alpha1.TriggerTarget{AverageUtilization: ptr.To[int32](80)}, "sidecar")}
	w.put(mw)
	if s := apiTriggerOf(t, w); s.Missing == "" {
		t.Errorf("a container that isn't there: %+v", s)
	}
	// What a pod takes to start is left out of CPU.
	p := podOn("web", 3, "node-1", w.clock.Now().Add(-time.Minute))
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: p.CreationTimestamp}}}}
	p.Status.Conditions[1].LastTransitionTime = metav1.NewTime(w.clock.Now().Add(-15 * time.Second))
	w.usage[api.Key{Namespace: ns, Name: p.Name}] = 4000
	mw.Spec.Triggers[0].Resource.Name, mw.Spec.Triggers[0].Resource.Container = "cpu", ""
	w.put(p, mw)
	if s := apiTriggerOf(t, w); math.Abs(s.Value-3*0.4) > 1e-9 || s.Pods != 3 {
		t.Errorf("beside a pod that has just started: %+v", s)
	}
}

func TestPrometheusTriggers(t *testing.T) {
	jobs := v1alpha1.Trigger{
		Name: "jobs", Type: v1alpha1.TriggerPrometheus, Target: averageValue("5"),
		Prometheus: &v1alpha1.PrometheusTrigger{Query: `sum(jobs_waiting{queue="mail"})`},
	}
	w, _, _ := triggered(t, jobs)
	values := []func(time.Time) float64{func(now time.Time) float64 { return 1000 + now.Sub(epoch).Minutes() }}
	down := false
	w.answer(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.Form.Get("query"), "jobs_waiting") {
			return false
		}
		if down {
			http.Error(rw, "no", http.StatusServiceUnavailable)
			return true
		}
		q := w.queries[len(w.queries)-1]
		result := []any{}
		for i, f := range values {
			var points [][2]any
			for step := range q.steps {
				at := q.from.Add(time.Duration(step) * 15 * time.Second)
				points = append(points, [2]any{float64(at.UnixMilli()) / 1000, fmt.Sprint(f(at))})
			}
			result = append(result, map[string]any{"metric": map[string]string{"i": fmt.Sprint(i)}, "values": points})
		}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": result}})
		return true
	})
	s := apiTriggerOf(t, w)
	if s.Value != 1000 || s.Missing != "" || !s.At.Equal(epoch) {
		t.Errorf("%+v", s)
	}
	for _, q := range w.asked() {
		if strings.Contains(q.query, "jobs_waiting") && q.query != `sum(jobs_waiting{namespace="shop",queue="mail"})` {
			t.Errorf("asked %s", q.query)
		}
	}
	// The past is there from the start: two hours of it here.
	if n := len(s.History.Values); n != 480 || s.History.Values[0] != 1000-119.75 {
		t.Errorf("%d steps of history, the first %v", n, s.History.Values[0])
	}
	values = append(values, values[0])
	w.clock.Step(time.Minute)
	if s = apiTriggerOf(t, w); !strings.Contains(s.Missing, "gives 2 series") {
		t.Errorf("%+v", s)
	}
	values = nil
	if s = apiTriggerOf(t, w); s.Missing != "the query gives no series" {
		t.Errorf("nothing counted as something: %+v", s)
	}
	values = []func(time.Time) float64{func(time.Time) float64 { return math.NaN() }}
	if s = apiTriggerOf(t, w); s.Missing != "it is NaN" {
		t.Errorf("%+v", s)
	}
	down = true
	if s = apiTriggerOf(t, w); !strings.Contains(s.Missing, "503") && !strings.Contains(s.Missing, "server error") {
		t.Errorf("%+v", s)
	}
}

func TestCronTriggers(t *testing.T) {
	w, _, _ := triggered(t, v1alpha1.Trigger{Name: "office", Type: v1alpha1.TriggerCron, Cron: &v1alpha1.CronTrigger{
		TimeZone: "Europe/Berlin", Start: "10 13 * * 1-6", End: "0 18 * * 1-6", Replicas: 6, // epoch is a Saturday, 13:00 there
	}})
	s := apiTriggerOf(t, w)
	if s.Value != 0 || s.Target != 1 || !s.Activates || s.Known == nil {
		t.Fatalf("%+v", s)
	}
	for i, v := range s.Known.Mean {
		if want := map[bool]float64{true: 6}[i >= 40]; v != want { // 10 minutes of 15 s
			t.Fatalf("step %d of the schedule is %v, want %v", i, v, want)
		}
	}
	w.clock.Step(10 * time.Minute)
	if s = apiTriggerOf(t, w); s.Value != 6 {
		t.Errorf("at the start: %+v", s)
	}
	w.clock.Step(5 * time.Hour)
	if s = apiTriggerOf(t, w); s.Value != 0 {
		t.Errorf("after the end: %+v", s)
	}
}

// At 0 replicas nobody asks for CPU: its samples are not missed.
func TestNoReplicasNoDoubt(t *testing.T) {
	w, a, _ := triggered(t, external("queue", "20"))
	d, mw := deployment("web", 0, "100m"), managed("web")
	mw.Spec.MinReplicas, mw.Spec.Triggers = ptr.To[int32](0), []v1alpha1.Trigger{external("queue", "20")}
	w.put(d, mw)
	for _, p := range records[*podRecord](w.caches, kindPod) {
		if err := w.caches.informers[kindPod].GetStore().Delete(p); err != nil {
			t.Fatal(err)
		}
	}
	w.series = nil
	a.external[ns+"/queue"] = []string{"0"}
	got, snapshot := w.workload("web")
	if got.DemandStale || got.HoldReason != "" || got.MinReplicas != 0 || len(got.Triggers) != 1 {
		t.Errorf("%+v", got)
	}
	if f := findings(snapshot, ReasonDemandStale); len(f) > 0 {
		t.Errorf("%+v", f)
	}
}

func TestInvalidTriggers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.Trigger)
		want   string
	}{
		"nothing of its type":    {func(x *v1alpha1.Trigger) { x.External = nil }, "spec.triggers[0].external: is required"},
		"an unknown type":        {func(x *v1alpha1.Trigger) { x.Type = "Kafka" }, `spec.triggers[0].type: can't be "Kafka"`},
		"no target":              {func(x *v1alpha1.Trigger) { x.Target = nil }, "spec.triggers[0].target: is required"},
		"a target of 0":          {func(x *v1alpha1.Trigger) { x.Target = averageValue("0") }, "spec.triggers[0].target.averageValue: must be above 0, is 0"},
		"a negative target":      {func(x *v1alpha1.Trigger) { x.Target = averageValue("-3") }, "must be above 0, is -3"},
		"a target without field": {func(x *v1alpha1.Trigger) { x.Target = &v1alpha1.TriggerTarget{} }, "has none of the fields"},
		"a metric that leads elsewhere": {
			func(x *v1alpha1.Trigger) { x.External.Metric.Name = "../../../bank/queue" }, "spec.triggers[0].external.metric: can't be",
		},
		"a negative threshold": {
			func(x *v1alpha1.Trigger) { x.ActivationThreshold = ptr.To(resource.MustParse("-1")) }, "spec.triggers[0].activationThreshold: must not be negative",
		},
		"a selector that can't be": {func(x *v1alpha1.Trigger) {
			x.External.Metric.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		}, "spec.triggers[0].external.metric: "},
		"a time that never comes": {func(x *v1alpha1.Trigger) {
			*x = v1alpha1.Trigger{Name: "c", Type: v1alpha1.TriggerCron, Cron: &v1alpha1.CronTrigger{Start: "0 0 30 2 *", End: "0 1 * * *", Replicas: 1}}
		}, `spec.triggers[0].cron.start: "0 0 30 2 *" never comes`},
		"a time zone that isn't": {func(x *v1alpha1.Trigger) {
			*x = v1alpha1.Trigger{Name: "c", Type: v1alpha1.TriggerCron, Cron: &v1alpha1.CronTrigger{TimeZone: "Moon/Sea", Start: "0 0 * * *", End: "0 1 * * *", Replicas: 1}}
		}, "spec.triggers[0].cron.timeZone: "},
		"PromQL that isn't": {func(x *v1alpha1.Trigger) {
			x.Type, x.Prometheus = v1alpha1.TriggerPrometheus, &v1alpha1.PrometheusTrigger{Query: "sum("}
		}, "spec.triggers[0].prometheus.query: "},
	} {
		t.Run(name, func(t *testing.T) {
			x := external("queue", "20")
			c.change(&x)
			w, a, _ := triggered(t, x)
			got, _ := w.workload("web")
			if got.HoldReason != HoldInvalidTrigger || !strings.Contains(got.Hold, c.want) {
				t.Errorf("%s: %s, want %s", got.HoldReason, got.Hold, c.want)
			}
			if len(a.asked) > 0 {
				t.Errorf("asked %v all the same", a.asked)
			}
		})
	}
}

// TestPartialAnswer: Thanos answers without one of its stores, and says so. What Prometheus says of a query is no reason.
func TestPartialAnswer(t *testing.T) {
	jobs := v1alpha1.Trigger{
		Name: "jobs", Type: v1alpha1.TriggerPrometheus, Target: averageValue("5"),
		Prometheus: &v1alpha1.PrometheusTrigger{Query: `sum(jobs_waiting)`},
	}
	w, _, _ := triggered(t, jobs)
	value, warnings := 100.0, []string{"PromQL warning: metric might not be a counter"}
	w.answer(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.Form.Get("query"), "jobs_waiting") {
			return false
		}
		q := w.queries[len(w.queries)-1]
		var points [][2]any
		for step := range q.steps {
			at := q.from.Add(time.Duration(step) * 15 * time.Second)
			points = append(points, [2]any{float64(at.UnixMilli()) / 1000, fmt.Sprint(value)})
		}
		body := map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": []any{map[string]any{"metric": map[string]string{}, "values": points}}}, "warnings": warnings}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(body)
		return true
	})
	if s := apiTriggerOf(t, w); s.Value != 100 {
		t.Fatalf("%+v", s)
	}
	value, warnings = 3, []string{"receive series from Addr: 10.0.0.7:10901: rpc error: code = Unavailable"}
	w.clock.Step(time.Minute)
	if s := apiTriggerOf(t, w); !strings.Contains(s.Missing, "a part only: receive series from Addr") {
		t.Errorf("a partial answer counts as all there is: value %v, missing %q", s.Value, s.Missing)
	}
}

// TestSummerTime: a time that ends in the hour that summer time leaves out, or that comes twice.
func TestSummerTime(t *testing.T) {
	in := &v1alpha1.Trigger{Name: "night", Type: v1alpha1.TriggerCron, Cron: &v1alpha1.CronTrigger{TimeZone: "Europe/London", Start: "0 22 * * *", End: "30 1 * * *", Replicas: 5}}
	night, field, err := triggerOf(in, ns, DefaultConfig())
	if err != nil {
		t.Fatal(field, err)
	}
	for text, want := range map[string]float64{
		"2026-03-27T21:59:00Z": 0, "2026-03-27T22:00:00Z": 5, "2026-03-28T01:29:00Z": 5, "2026-03-28T01:30:00Z": 0,
		"2026-03-28T23:00:00Z": 5, "2026-03-29T00:59:00Z": 5, "2026-03-29T01:00:00Z": 0, // two o'clock by then
		"2026-10-24T22:00:00Z": 5, "2026-10-25T00:29:00Z": 5, "2026-10-25T00:30:00Z": 0, "2026-10-25T01:10:00Z": 5, "2026-10-25T01:30:00Z": 0,
	} {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		if n, until := night.at(at); n != want || !until.After(at) {
			t.Errorf("%s: asks for %v until %v, want %v", text, n, until, want)
		}
	}
}
