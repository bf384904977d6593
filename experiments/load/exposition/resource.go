package exposition

import (
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// freshShare of the resolution is the least age at which a container that has
// been read once has metrics, measured from its start: metrics-server's 10 s of
// its default resolution of 15 s.
const freshShare = 10.0 / 15

// Node is a node that has metrics.
type Node struct {
	Name   string
	Labels map[string]string
}

// ResourceMetrics serves metrics.k8s.io/v1beta1 as metrics-server does: every
// resolution the counters are read, and what is served is the mean rate between
// the last two readings. A container that was read only once has metrics if it
// started since the reading before and is old enough.
//
// A node's usage is that of the containers of Source on it; nothing is known
// of others.
type ResourceMetrics struct {
	source     Source
	nodes      func() []Node
	resolution time.Duration

	mu     sync.RWMutex
	points map[string]point // by UID
	pods   []metricsv1beta1.PodMetrics
	byNode []metricsv1beta1.NodeMetrics
}

type point struct {
	at  time.Time
	cpu float64
}

// NewResourceMetrics returns a server that knows nothing until Read is called,
// which should be every resolution.
func NewResourceMetrics(source Source, nodes func() []Node, resolution time.Duration) *ResourceMetrics {
	return &ResourceMetrics{source: source, nodes: nodes, resolution: resolution, points: map[string]point{}}
}

// Read reads the counters at time now.
func (r *ResourceMetrics) Read(now time.Time) {
	containers, nodes := r.source(), r.nodes()
	r.mu.Lock()
	defer r.mu.Unlock()

	points := make(map[string]point, len(containers))
	used := map[string]corev1.ResourceList{}
	r.pods = nil
	for _, c := range containers {
		last := point{now, c.CPU}
		points[c.UID] = last
		before, known := r.points[c.UID]
		age := now.Sub(c.Started)
		if !known && age < r.resolution && age >= time.Duration(freshShare*float64(r.resolution)) {
			before, known = point{at: c.Started}, true
		}
		if !known || !before.at.Before(now) || before.cpu > c.CPU {
			continue
		}
		window := now.Sub(before.at)
		usage := corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(math.Ceil((c.CPU-before.cpu)/window.Seconds()*1e9)), resource.Nano),
			corev1.ResourceMemory: *resource.NewQuantity(c.Memory, resource.BinarySI),
		}
		r.pods = append(r.pods, metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Pod, Labels: c.Labels, CreationTimestamp: metav1.NewTime(now)},
			Timestamp:  metav1.NewTime(now),
			Window:     metav1.Duration{Duration: window},
			Containers: []metricsv1beta1.ContainerMetrics{{Name: c.Name, Usage: usage}},
		})
		used[c.Node] = plus(used[c.Node], usage)
	}
	r.points = points
	slices.SortFunc(r.pods, func(a, b metricsv1beta1.PodMetrics) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	r.byNode = nil
	for _, n := range nodes {
		r.byNode = append(r.byNode, metricsv1beta1.NodeMetrics{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, CreationTimestamp: metav1.NewTime(now)},
			Timestamp:  metav1.NewTime(now),
			Window:     metav1.Duration{Duration: r.resolution},
			Usage:      plus(used[n.Name], nil),
		})
	}
	slices.SortFunc(r.byNode, func(a, b metricsv1beta1.NodeMetrics) int { return cmp.Compare(a.Name, b.Name) })
}

func plus(a, b corev1.ResourceList) corev1.ResourceList {
	cpu, memory := a.Cpu().DeepCopy(), a.Memory().DeepCopy()
	cpu.Add(*b.Cpu())
	memory.Add(*b.Memory())
	return corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}
}

const (
	groupPath   = "/apis/" + metricsv1beta1.GroupName
	versionPath = groupPath + "/v1beta1"
)

// Handler serves the API.
func (r *ResourceMetrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
			Groups:   []metav1.APIGroup{apiGroup()},
		})
	})
	mux.HandleFunc("GET "+groupPath, func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, apiGroup()) })
	mux.HandleFunc("GET "+versionPath, func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, apiResources()) })
	mux.HandleFunc("GET "+versionPath+"/pods", r.servePods)
	mux.HandleFunc("GET "+versionPath+"/namespaces/{namespace}/pods", r.servePods)
	mux.HandleFunc("GET "+versionPath+"/namespaces/{namespace}/pods/{name}", r.servePod)
	mux.HandleFunc("GET "+versionPath+"/nodes", r.serveNodes)
	mux.HandleFunc("GET "+versionPath+"/nodes/{name}", r.serveNode)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

func apiGroup() metav1.APIGroup {
	v := metav1.GroupVersionForDiscovery{GroupVersion: metricsv1beta1.SchemeGroupVersion.String(), Version: "v1beta1"}
	return metav1.APIGroup{
		TypeMeta:         metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"},
		Name:             metricsv1beta1.GroupName,
		Versions:         []metav1.GroupVersionForDiscovery{v},
		PreferredVersion: v,
	}
}

func apiResources() metav1.APIResourceList {
	verbs := metav1.Verbs{"get", "list"}
	return metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: metricsv1beta1.SchemeGroupVersion.String(),
		APIResources: []metav1.APIResource{
			{Name: "nodes", SingularName: "", Kind: "NodeMetrics", Verbs: verbs},
			{Name: "pods", SingularName: "", Kind: "PodMetrics", Namespaced: true, Verbs: verbs},
		},
	}
}

func kind(name string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: name, APIVersion: metricsv1beta1.SchemeGroupVersion.String()}
}

func (r *ResourceMetrics) servePods(w http.ResponseWriter, q *http.Request) {
	selector, ok := selectorOf(w, q)
	if !ok {
		return
	}
	list := metricsv1beta1.PodMetricsList{TypeMeta: kind("PodMetricsList"), Items: []metricsv1beta1.PodMetrics{}}
	namespace := q.PathValue("namespace")
	r.mu.RLock()
	for _, p := range r.pods {
		if (namespace == "" || p.Namespace == namespace) && selector.Matches(labels.Set(p.Labels)) {
			list.Items = append(list.Items, p)
		}
	}
	r.mu.RUnlock()
	reply(w, http.StatusOK, list)
}

func (r *ResourceMetrics) servePod(w http.ResponseWriter, q *http.Request) {
	namespace, name := q.PathValue("namespace"), q.PathValue("name")
	r.mu.RLock()
	i := slices.IndexFunc(r.pods, func(p metricsv1beta1.PodMetrics) bool { return p.Namespace == namespace && p.Name == name })
	var found metricsv1beta1.PodMetrics
	if i >= 0 {
		found = r.pods[i]
	}
	r.mu.RUnlock()
	if i < 0 {
		notFound(w, "pods", namespace+"/"+name)
		return
	}
	found.TypeMeta = kind("PodMetrics")
	reply(w, http.StatusOK, found)
}

func (r *ResourceMetrics) serveNodes(w http.ResponseWriter, q *http.Request) {
	selector, ok := selectorOf(w, q)
	if !ok {
		return
	}
	list := metricsv1beta1.NodeMetricsList{TypeMeta: kind("NodeMetricsList"), Items: []metricsv1beta1.NodeMetrics{}}
	r.mu.RLock()
	for _, n := range r.byNode {
		if selector.Matches(labels.Set(n.Labels)) {
			list.Items = append(list.Items, n)
		}
	}
	r.mu.RUnlock()
	reply(w, http.StatusOK, list)
}

func (r *ResourceMetrics) serveNode(w http.ResponseWriter, q *http.Request) {
	name := q.PathValue("name")
	r.mu.RLock()
	i := slices.IndexFunc(r.byNode, func(n metricsv1beta1.NodeMetrics) bool { return n.Name == name })
	var found metricsv1beta1.NodeMetrics
	if i >= 0 {
		found = r.byNode[i]
	}
	r.mu.RUnlock()
	if i < 0 {
		notFound(w, "nodes", name)
		return
	}
	found.TypeMeta = kind("NodeMetrics")
	reply(w, http.StatusOK, found)
}

// selectorOf parses the label selector. Field selectors are refused rather than
// ignored.
func selectorOf(w http.ResponseWriter, q *http.Request) (labels.Selector, bool) {
	query := q.URL.Query()
	selector, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		status(w, apierrors.NewBadRequest(err.Error()))
		return nil, false
	}
	if query.Get("fieldSelector") != "" {
		status(w, apierrors.NewBadRequest("field selectors are not supported"))
		return nil, false
	}
	return selector, true
}

func notFound(w http.ResponseWriter, what, name string) {
	status(w, apierrors.NewNotFound(schema.GroupResource{Group: metricsv1beta1.GroupName, Resource: what}, name))
}

func status(w http.ResponseWriter, err *apierrors.StatusError) {
	s := err.Status()
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	reply(w, int(s.Code), s)
}

func reply(w http.ResponseWriter, code int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(data) // the client is gone
}
