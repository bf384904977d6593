package sensing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsscheme "k8s.io/metrics/pkg/client/clientset/versioned/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// epoch is when the test worlds begin; a step of the grid.
var epoch = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// world is an Observer whose caches are filled by hand, with a Prometheus and
// a metrics.k8s.io that answer from functions.
type world struct {
	*Observer
	t     testing.TB
	clock *clocktesting.FakeClock
	pools []api.Pool
	// poolsErr is returned by Pools.
	poolsErr error
	// owned are the provider ids of the pools' machines.
	owned map[string]bool

	mu sync.Mutex
	// series of the CPU metric, already as rates in cores.
	series []rateSeries
	// recorded: series with an owner among these are also recorded, from then on.
	recorded map[string]time.Time
	// prometheus answers instead when it returns true.
	prometheus func(w http.ResponseWriter, r *http.Request) bool
	// queries that Prometheus got.
	queries []rangeQuery
	// usage by pod in millicores; nil: metrics.k8s.io is down.
	usage map[api.Key]int64
	// protobuf: metrics.k8s.io answers in that form who asks for it.
	protobuf bool
	// usageReady is answered instead, if there is any.
	usageReady []byte
	// inProtobuf is how often it did.
	inProtobuf int
	// nodeUsage by node in millicores; nil: metrics.k8s.io has no nodes.
	nodeUsage map[string]int64
	// memory is the same in bytes; 0 if a pod isn't there.
	memory map[api.Key]int64
	// adapter serves external.metrics.k8s.io, custom.metrics.k8s.io and discovery.
	adapter http.Handler
}

// rateSeries is the result of the inner rate() for one container. Its labels
// are those of both queries.
type rateSeries struct {
	namespace, pod, node string
	owner                string
	rate                 func(time.Time) float64 // NaN: no sample
}

type rangeQuery struct {
	query    string
	from, to time.Time
	steps    int
}

func (q rangeQuery) recorded() bool { return strings.Contains(q.query, "recorded_usage") }

func (q rangeQuery) history() bool { return strings.Contains(q.query, labelOwner) }

func (w *world) Pools(context.Context) ([]api.Pool, error) {
	if w.poolsErr != nil {
		return nil, w.poolsErr
	}
	return w.pools, nil
}

func (w *world) Owns(_, providerID string) bool { return w.owned[providerID] }

func newWorld(t testing.TB, change func(*Config)) *world {
	t.Helper()
	w := &world{t: t, clock: clocktesting.NewFakeClock(epoch), usage: map[api.Key]int64{}, nodeUsage: map[string]int64{}}
	prom := httptest.NewServer(http.HandlerFunc(w.servePrometheus))
	t.Cleanup(prom.Close)
	kube := httptest.NewServer(http.HandlerFunc(w.serveUsage))
	t.Cleanup(kube.Close)
	cfg := DefaultConfig()
	cfg.REST = &rest.Config{Host: kube.URL, QPS: -1}
	cfg.PrometheusURL = prom.URL
	cfg.Clock = w.clock
	cfg.Pools = w
	cfg.EvaluationDelay = 0
	cfg.UsageInterval = 0
	cfg.History, cfg.Past = 2*time.Hour, 0
	cfg.RecordedUsage = ""
	if change != nil {
		change(&cfg)
	}
	var err error
	if w.Observer, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return w
}

// put adds an object to its cache, through the cache's transform.
func (w *world) put(objs ...runtime.Object) {
	w.t.Helper()
	for _, o := range objs {
		kind := ""
		var in any = o
		switch o := o.(type) {
		case *corev1.Pod:
			kind = kindPod
		case *corev1.Node:
			kind = kindNode
		case *appsv1.DaemonSet:
			kind = kindDaemonSet
		case *appsv1.Deployment:
			kind = kindDeployment
		case *appsv1.StatefulSet:
			kind = kindStatefulSet
		case *policyv1.PodDisruptionBudget:
			kind = kindBudget
		case *corev1.PersistentVolumeClaim:
			kind = kindClaim
		case *corev1.PersistentVolume:
			kind = kindVolume
		case *corev1.ResourceQuota:
			kind = kindQuota
		case *corev1.LimitRange:
			kind = kindRange
		case *metav1.PartialObjectMetadata:
			kind = kindReplicaSet
		case *v1alpha1.ManagedWorkload:
			kind = kindManagedWorkload
			m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				w.t.Fatal(err)
			}
			in = &unstructured.Unstructured{Object: m}
		case *unstructured.Unstructured:
			kind = o.GetKind()
		default:
			kind = kindScaler
		}
		record, err := w.caches.transform(w.cfg)(in)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := w.caches.informers[kind].GetStore().Add(record); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) observe() api.Snapshot {
	w.t.Helper()
	s, err := w.Observe(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// answer sets how Prometheus answers from now on; nil is as it should.
func (w *world) answer(f func(http.ResponseWriter, *http.Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prometheus = f
}

// asked returns the queries that Prometheus got since the last call.
func (w *world) asked() []rangeQuery {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.queries
	w.queries = nil
	return out
}

// workload observes and returns one workload.
func (w *world) workload(name string) (api.Workload, api.Snapshot) {
	w.t.Helper()
	s := w.observe()
	i := slices.IndexFunc(s.Workloads, func(x api.Workload) bool { return x.Key.Name == name })
	if i < 0 {
		w.t.Fatalf("no workload %s in the snapshot", name)
	}
	return s.Workloads[i], s
}

func (w *world) servePrometheus(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = r.ParseForm()
	num := func(name string) float64 { v, _ := strconv.ParseFloat(r.Form.Get(name), 64); return v }
	start, end, step := num("start"), num("end"), num("step")
	q := rangeQuery{
		query: r.Form.Get("query"),
		from:  time.UnixMilli(int64(math.Round(start * 1000))), to: time.UnixMilli(int64(math.Round(end * 1000))),
		steps: int(math.Round((end-start)/step)) + 1,
	}
	w.queries = append(w.queries, q)
	if w.prometheus != nil && w.prometheus(rw, r) {
		return
	}
	groups := map[string]map[string]any{}
	asked := podsAsked(w.t, q.query)
	for _, s := range w.series {
		if !asked(s.pod) {
			continue
		}
		metric := map[string]string{"namespace": s.namespace, "pod": s.pod}
		if s.node != "" {
			metric["node"] = s.node
		}
		if q.history() {
			metric = map[string]string{"namespace": s.namespace, labelOwner: s.owner, labelNodes: s.node}
		}
		id, _ := json.Marshal(metric)
		if groups[string(id)] == nil {
			groups[string(id)] = map[string]any{"metric": metric, "sums": map[int]float64{}}
		}
		sums := groups[string(id)]["sums"].(map[int]float64)
		for i := range q.steps {
			at := q.from.Add(time.Duration(float64(i) * step * float64(time.Second)))
			if since, ok := w.recorded[s.owner]; q.recorded() && (!ok || at.Before(since)) {
				continue
			}
			if v := s.rate(at); !math.IsNaN(v) {
				sums[i] += v
			}
		}
	}
	result := []any{}
	for _, g := range groups {
		values := [][2]any{}
		sums := g["sums"].(map[int]float64)
		for i := range q.steps {
			if v, ok := sums[i]; ok {
				values = append(values, [2]any{start + float64(i)*step, strconv.FormatFloat(v, 'f', -1, 64)})
			}
		}
		if len(values) > 0 {
			result = append(result, map[string]any{"metric": g["metric"], "values": values})
		}
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(map[string]any{
		"status": "success", "data": map[string]any{"resultType": "matrix", "result": result},
	})
}

// podsAsked tells which pods a query's matchers leave.
func podsAsked(t testing.TB, query string) func(pod string) bool {
	expr, err := parser.ParseExpr(query)
	if err != nil {
		t.Errorf("a query that is none: %v", err)
		return func(string) bool { return false }
	}
	return func(pod string) bool {
		for _, selector := range parser.ExtractSelectors(expr) {
			for _, m := range selector {
				if m.Name == "pod" && !m.Matches(pod) {
					return false
				}
			}
		}
		return true
	}
}

func (w *world) serveUsage(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !strings.HasPrefix(r.URL.Path, "/apis/metrics.k8s.io/") && w.adapter != nil {
		w.adapter.ServeHTTP(rw, r)
		return
	}
	if w.usage == nil {
		http.Error(rw, "the server is currently unable to handle the request", http.StatusServiceUnavailable)
		return
	}
	if r.URL.Path == "/apis/metrics.k8s.io/v1beta1/nodes" {
		if w.nodeUsage == nil {
			http.Error(rw, "forbidden", http.StatusForbidden)
			return
		}
		list := metricsv1beta1.NodeMetricsList{TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "NodeMetricsList"}}
		for name, milli := range w.nodeUsage {
			list.Items = append(list.Items, metricsv1beta1.NodeMetrics{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Timestamp: metav1.NewTime(w.clock.Now().Add(-10 * time.Second)),
				Window: metav1.Duration{Duration: 15 * time.Second},
				Usage:  corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)},
			})
		}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(list)
		return
	}
	if w.usageReady != nil {
		rw.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		_, _ = rw.Write(w.usageReady)
		return
	}
	list := w.podMetrics()
	if w.protobuf && strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
		w.inProtobuf++
		rw.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		_, _ = rw.Write(inProtobuf(&list))
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(list)
}

func inProtobuf(list *metricsv1beta1.PodMetricsList) []byte {
	form, _ := runtime.SerializerInfoForMediaType(metricsscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	var out bytes.Buffer
	_ = metricsscheme.Codecs.EncoderForVersion(form.Serializer, metricsv1beta1.SchemeGroupVersion).Encode(list, &out)
	return out.Bytes()
}

func (w *world) podMetrics() metricsv1beta1.PodMetricsList {
	list := metricsv1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "PodMetricsList"}}
	// In the order of keys, as metrics-server answers (pkg/api/pod.go).
	for _, key := range slices.SortedFunc(maps.Keys(w.usage), compareKeys) {
		milli := w.usage[key]
		list.Items = append(list.Items, metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Timestamp:  metav1.NewTime(w.clock.Now().Add(-10 * time.Second)),
			Window:     metav1.Duration{Duration: 15 * time.Second},
			Containers: []metricsv1beta1.ContainerMetrics{{
				Name: "main", Usage: corev1.ResourceList{
					corev1.ResourceCPU:    *resource.NewMilliQuantity(milli, resource.DecimalSI),
					corev1.ResourceMemory: *resource.NewQuantity(w.memory[key], resource.BinarySI),
				},
			}},
		})
	}
	return list
}

// constant is a rate that never changes.
func constant(cores float64) func(time.Time) float64 {
	return func(time.Time) float64 { return cores }
}

// Objects.

const ns = "shop"

func template(cpu string) corev1.PodTemplateSpec {
	c := corev1.Container{Name: "main", Image: "web"}
	if cpu != "" {
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{c}},
	}
}

func deployment(name string, replicas int32, cpu string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To(replicas), Template: template(cpu)},
	}
}

func replicaSet(deployment string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: deployment + "-5d4f8c7b9",
		OwnerReferences: []metav1.OwnerReference{{Kind: kindDeployment, Name: deployment, Controller: ptr.To(true)}},
	}}
}

func managed(name string) *v1alpha1.ManagedWorkload {
	return &v1alpha1.ManagedWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID("mw-" + name), CreationTimestamp: metav1.NewTime(epoch)},
		Spec: v1alpha1.ManagedWorkloadSpec{
			TargetRef:   v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: kindDeployment, Name: name},
			MinReplicas: ptr.To[int32](1), MaxReplicas: 10,
		},
	}
}

// podOn is a pod of a Deployment, bound at a time and Ready 20 s later.
func podOn(deployment string, i int, node string, bound time.Time) *corev1.Pod {
	t := template("100m")
	const letters = "bcdfghjklmnpqrstvwxz"
	suffix := fmt.Sprintf("%c%c%c%c%c", letters[i/8000%20], letters[i/400%20], letters[i/20%20], letters[i%20], 'x')
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: deployment + "-5d4f8c7b9-" + suffix, UID: types.UID(deployment + suffix),
			ResourceVersion: "1", CreationTimestamp: metav1.NewTime(bound), Labels: t.Labels,
			OwnerReferences: []metav1.OwnerReference{{Kind: kindReplicaSet, Name: deployment + "-5d4f8c7b9", Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: t.Spec.Containers},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(bound)},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(bound.Add(20 * time.Second))},
		}},
	}
}

func node(name, pool string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1", CreationTimestamp: metav1.NewTime(epoch.Add(-time.Hour)),
			Labels: map[string]string{api.LabelNodePool: pool, corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1930m"), corev1.ResourceMemory: resource.MustParse("6Gi"), corev1.ResourcePods: resource.MustParse("110"),
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(epoch.Add(-time.Hour))}},
		},
	}
}

// shop puts a managed Deployment of n Ready pods, 400 millicores each, on a
// node of a pool whose cores do half the work of reference ones.
func (w *world) shop(name string, n int) []api.Key {
	w.t.Helper()
	w.pools = []api.Pool{{Name: "e2", MachineType: "e2-medium", Zones: []string{"a"}, Sizes: []int32{1}, CPUSpeed: 0.5}}
	w.put(node("node-1", "e2"), deployment(name, int32(n), "100m"), replicaSet(name), managed(name))
	var keys []api.Key
	for i := range n {
		p := podOn(name, i, "node-1", epoch.Add(-time.Hour))
		w.put(p)
		w.series = append(w.series, rateSeries{ns, p.Name, "node-1", kindDeployment + "/" + name, constant(0.4)})
		w.usage[api.Key{Namespace: ns, Name: p.Name}] = 400
		keys = append(keys, api.Key{Namespace: ns, Name: p.Name})
	}
	return keys
}

// findings with a reason.
func findings(s api.Snapshot, reason string) []api.Finding {
	var out []api.Finding
	for _, f := range s.Findings {
		if f.Reason == reason {
			out = append(out, f)
		}
	}
	return out
}
