package sensing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/cluster"
)

// bed is a real control plane with an Observer on it.
type bed struct {
	*testing.T
	client kubernetes.Interface
	dyn    dynamic.Interface
	o      *Observer
}

// TestControlPlane walks one cluster through what an Observer must notice. Its
// steps build on each other.
func TestControlPlane(t *testing.T) {
	c := cluster.ForTest(t)
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(cfg *Config) {
		cfg.REST = c.RESTConfig()
		cfg.REST.QPS = -1
		cfg.Clock = clock.RealClock{}
		cfg.CacheWait = patience
	})
	w.pools = []api.Pool{{Name: "e2", Zones: []string{"a"}, Sizes: []int32{1}, CPUSpeed: 0.5}}
	b := &bed{T: t, client: client, dyn: dyn, o: w.Observer}

	b.testMissingDefinition(w.cfg)
	b.install()
	if err := b.o.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.node("node-1", "e2")
	b.daemonSet()
	created := time.Now().Truncate(time.Second) // as the API writes times
	b.deployment("web", 3)
	b.manage("web")
	// Each kind comes by a watch of its own.
	s := b.until("three Ready pods on a node without taints", func(s api.Snapshot) bool {
		return len(s.Workloads) == 1 && s.Workloads[0].ReadyReplicas == 3 && len(s.Nodes) == 1 && s.Nodes[0].Ready && len(s.Nodes[0].Taints) == 0
	})
	b.checkWorkload(s, created)
	b.until("the DaemonSet's pod as overhead", func(s api.Snapshot) bool {
		return s.Pools[0].Overhead.MilliCPU == 50 && s.Pools[0].Allocatable.MilliCPU == 4000
	})
	b.testOwnWrites()
	b.testSecondScaler()
	b.testRefusedPods()
	b.testCordon()
	b.testTakenBack()
	b.testDeletion()
}

// patience is how long a step may take on a machine with much else to do.
const patience = 3 * time.Minute

// until observes until a snapshot is as wanted.
func (b *bed) until(what string, ok func(api.Snapshot) bool) api.Snapshot {
	b.Helper()
	var s api.Snapshot
	for begun := time.Now(); time.Since(begun) < patience; {
		var err error
		if s, err = b.o.Observe(b.Context()); err != nil {
			b.Fatal(err)
		}
		if ok(s) {
			return s
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.Fatalf("no snapshot with %s; the last: workloads %+v, pools %+v, findings %v", what, s.Workloads, s.Pools, s.Findings)
	return s
}

// However long one waits, the kind that isn't defined is missing; what else is
// named only took longer than that.
func (b *bed) testMissingDefinition(cfg Config) {
	b.Helper()
	for cfg.SyncTimeout = 2 * time.Second; ; cfg.SyncTimeout *= 2 {
		o, err := New(cfg)
		if err != nil {
			b.Fatal(err)
		}
		ctx, stop := context.WithCancel(b.Context())
		err = o.Start(ctx)
		stop()
		if err == nil || !strings.Contains(err.Error(), kindManagedWorkload) {
			b.Fatalf("without the definition: %v, want an error that names %s", err, kindManagedWorkload)
		}
		others := slices.ContainsFunc(slices.Collect(maps.Keys(o.caches.informers)), func(kind string) bool {
			return kind != kindManagedWorkload && strings.Contains(err.Error(), kind)
		})
		if !others {
			return
		}
		if cfg.SyncTimeout > patience {
			b.Fatalf("without the definition: %v, want an error that names %s only", err, kindManagedWorkload)
		}
	}
}

func (b *bed) install() {
	b.Helper()
	raw, err := os.ReadFile("../charts/mash2/crds/mash2.io_managedworkloads.yaml")
	if err != nil {
		b.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(raw, &crd.Object); err != nil {
		b.Fatal(err)
	}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := b.dyn.Resource(crds).Create(b.Context(), crd, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	if _, err := b.client.CoreV1().Namespaces().Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (b *bed) node(name, pool string) {
	b.Helper()
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110")}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{cluster.FakeNodeAnnotation: cluster.FakeNodeValue},
			Labels: map[string]string{api.LabelNodePool: pool, api.LabelZone: "a", corev1.LabelHostname: name},
		},
		Spec:   corev1.NodeSpec{ProviderID: "gce://p/a/" + name},
		Status: corev1.NodeStatus{Capacity: size, Allocatable: size},
	}
	if _, err := b.client.CoreV1().Nodes().Create(b.Context(), n, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (b *bed) daemonSet() {
	b.Helper()
	d := daemonSet("agent", "50m", nil)
	d.Namespace = ns
	d.Spec.Template.Labels = map[string]string{"app": "agent"}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: d.Spec.Template.Labels}
	if _, err := b.client.AppsV1().DaemonSets(ns).Create(b.Context(), d, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (b *bed) deployment(name string, replicas int32) {
	b.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: template("100m"),
	}}
	if _, err := b.client.AppsV1().Deployments(ns).Create(b.Context(), d, metav1.CreateOptions{FieldManager: "helm"}); err != nil {
		b.Fatal(err)
	}
}

func (b *bed) manage(name string) {
	b.Helper()
	w := managed(name)
	w.APIVersion, w.Kind = v1alpha1.GroupVersion.String(), kindManagedWorkload
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w)
	if err != nil {
		b.Fatal(err)
	}
	unstructured.RemoveNestedField(m, "metadata", "uid")
	unstructured.RemoveNestedField(m, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(m, "status")
	gvr := v1alpha1.GroupVersion.WithResource("managedworkloads")
	for begun := time.Now(); time.Since(begun) < patience; { // until the definition is served
		_, err = b.dyn.Resource(gvr).Namespace(ns).Create(b.Context(), &unstructured.Unstructured{Object: m}, metav1.CreateOptions{})
		if err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.Fatal(err)
}

func (b *bed) checkWorkload(s api.Snapshot, created time.Time) {
	b.Helper()
	w := s.Workloads[0]
	if w.Replicas != 3 || w.Mode != api.ModeFull || w.Planner != "horizontal" || w.MaxReplicas != 10 || w.HoldReason != "" || w.SpeedNow != 0.5 {
		b.Errorf("workload = %+v", w)
	}
	if w.LastScaledBy != "helm" || w.LastScaled.Before(created) || w.LastScaled.After(s.Time) {
		b.Errorf("last scaled by %q at %v, want by helm between %v and %v", w.LastScaledBy, w.LastScaled, created, s.Time)
	}
	n := 0
	for _, p := range s.Pods {
		if p.Workload != w.Key {
			continue
		}
		n++
		if p.Shape != w.Shape {
			b.Errorf("pod %s and the workload have shapes %+v and %+v", p.Key, p.Shape, w.Shape)
		}
		if p.Node != "node-1" || p.ControllerKind != kindReplicaSet || p.DaemonSet {
			b.Errorf("pod = %+v", p)
		}
		// What history guesses from names must hold for the real ones.
		if id, ok := ownerByName(p.Key.Namespace, p.Key.Name); !ok || id != (targetID{ns, kindDeployment, "web"}) {
			b.Errorf("by its name %s is of %v", p.Key, id)
		}
	}
	if n != 3 {
		b.Errorf("%d pods of the workload", n)
	}
	if s.PodStartup.Samples != 3 {
		b.Errorf("pod startup latency = %+v, want of 3 samples", s.PodStartup)
	}
	if len(s.Nodes) != 1 || !s.Nodes[0].Ready || s.Nodes[0].Pool != "e2" || s.Nodes[0].Zone != "a" || s.Nodes[0].ProviderID != "gce://p/a/node-1" || len(s.Nodes[0].Taints) > 0 {
		b.Errorf("nodes = %+v", s.Nodes)
	}
	// This cluster has no metrics.k8s.io.
	if len(findings(s, ReasonMetricsAPIUnreachable)) != 1 || s.ResourceMetrics.Reachable {
		b.Errorf("resource metrics = %+v, findings %v", s.ResourceMetrics, s.Findings)
	}
}

// scale applies spec.replicas as mash2 does.
func (b *bed) scale(replicas int32) string {
	b.Helper()
	body := fmt.Sprintf(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web","namespace":%q},"spec":{"replicas":%d}}`, ns, replicas)
	gvr := appsv1.SchemeGroupVersion.WithResource("deployments")
	scaled, err := b.dyn.Resource(gvr).Namespace(ns).Patch(b.Context(), "web", types.ApplyPatchType, []byte(body),
		metav1.PatchOptions{FieldManager: api.FieldManager, Force: ptr.To(true)}, "scale")
	if err != nil {
		b.Fatal(err)
	}
	return scaled.GetResourceVersion()
}

// Each write is in the very next snapshot.
func (b *bed) testOwnWrites() {
	b.Helper()
	for i := range 20 {
		want := int32(3 + i%2)
		b.o.NoteWrite(kindDeployment, api.Key{Namespace: ns, Name: "web"}, b.scale(want))
		s, err := b.o.Observe(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if w := s.Workloads[0]; w.Replicas != want || w.LastScaledBy != api.FieldManager {
			b.Fatalf("after write %d: %d replicas by %s; want %d by mash2", i, w.Replicas, w.LastScaledBy, want)
		}
	}
	b.until("that is no rollout, once its controller has seen it", func(s api.Snapshot) bool { return !s.Workloads[0].RollingOut })
	// A version that never comes.
	cfg := b.o.cfg
	b.o.cfg.CacheWait = 100 * time.Millisecond
	b.o.NoteWrite(kindDeployment, api.Key{Namespace: ns, Name: "web"}, "99999999")
	if _, err := b.o.Observe(b.Context()); !errors.Is(err, ErrCacheBehind) {
		b.Errorf("error = %v, want %v", err, ErrCacheBehind)
	}
	b.o.cfg = cfg
	b.o.watermark.writes = nil
}

func (b *bed) testSecondScaler() {
	b.Helper()
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web-hpa"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: kindDeployment, Name: "web"}, MaxReplicas: 5,
		},
	}
	if _, err := b.client.AutoscalingV2().HorizontalPodAutoscalers(ns).Create(b.Context(), hpa, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	s := b.until("a conflict", func(s api.Snapshot) bool { return s.Workloads[0].HoldReason == HoldConflict })
	if !strings.Contains(s.Workloads[0].Hold, "web-hpa") {
		b.Errorf("hold = %q, want the HPA's name", s.Workloads[0].Hold)
	}
	if err := b.client.AutoscalingV2().HorizontalPodAutoscalers(ns).Delete(b.Context(), "web-hpa", metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	b.until("no conflict any more", func(s api.Snapshot) bool { return s.Workloads[0].HoldReason == "" })
}

// A LimitRange that no new pod of the target is within.
func (b *bed) testRefusedPods() {
	b.Helper()
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Spec: corev1.LimitRangeSpec{
		Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypePod, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}}},
	}}
	if _, err := b.client.CoreV1().LimitRanges(ns).Create(b.Context(), limits, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	// The API server keeps LimitRanges in a cache: what comes too early is let in.
	asked := int32(4)
	s := b.until("pods that are refused", func(s api.Snapshot) bool {
		if len(findings(s, ReasonPodsRefused)) > 0 {
			return true
		}
		if w := s.Workloads[0]; w.ReadyReplicas >= asked && asked < 9 {
			asked++
			b.scale(asked)
		}
		return false
	})
	const want, why = "spec.targetRef: the API server refuses pods of Deployment web: forbidden: ", "maximum cpu usage per Pod is 50m"
	if f := findings(s, ReasonPodsRefused); len(f) != 1 || !strings.HasPrefix(f[0].Message, want) || !strings.Contains(f[0].Message, why) {
		b.Errorf("findings %v, want %s… %s", f, want, why)
	}
	if w := s.Workloads[0]; w.HoldReason != "" || w.Replicas != asked || w.ReadyReplicas >= asked || w.MaxReplicas != 10 {
		b.Errorf("of %d asked for: workload %+v", asked, w)
	}
	if err := b.client.CoreV1().LimitRanges(ns).Delete(b.Context(), "small", metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	b.until("the pods that were refused", func(s api.Snapshot) bool {
		return len(findings(s, ReasonPodsRefused)) == 0 && s.Workloads[0].ReadyReplicas == asked
	})
}

func (b *bed) testCordon() {
	b.Helper()
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}},"spec":{"unschedulable":true}}`, api.AnnotationCordonedFor, api.CordonMigration)
	n, err := b.client.CoreV1().Nodes().Patch(b.Context(), "node-1", types.MergePatchType, []byte(body), metav1.PatchOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.o.NoteWrite(kindNode, api.Key{Name: "node-1"}, n.ResourceVersion)
	s, err := b.o.Observe(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if !s.Nodes[0].Cordoned || s.Nodes[0].CordonedFor != api.CordonMigration || len(s.Nodes[0].Taints) > 0 {
		b.Errorf("node = %+v", s.Nodes[0])
	}
	// The cordon's taint comes later; it is not among the taints either.
	s = b.until("a pod that finds no node", func(s api.Snapshot) bool {
		b.scale(10)
		return slices.ContainsFunc(s.Pods, func(p api.Pod) bool { return p.Unschedulable })
	})
	if len(s.Nodes[0].Taints) > 0 {
		b.Errorf("taints = %v", s.Nodes[0].Taints)
	}
}

// Somebody scales after mash2 has taken the field over.
func (b *bed) testTakenBack() {
	b.Helper()
	d, err := b.client.AppsV1().Deployments(ns).Get(b.Context(), "web", metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	note := fmt.Sprintf(`{"status":{"takenOver":%q}}`, d.UID)
	if _, err := b.dyn.Resource(v1alpha1.GroupVersion.WithResource("managedworkloads")).Namespace(ns).
		Patch(b.Context(), "web", types.MergePatchType, []byte(note), metav1.PatchOptions{}, "status"); err != nil {
		b.Fatal(err)
	}
	b.scale(4)
	b.until("4 replicas without a conflict", func(s api.Snapshot) bool {
		return s.Workloads[0].Replicas == 4 && s.Workloads[0].HoldReason == ""
	})
	if _, err := b.client.AppsV1().Deployments(ns).Patch(b.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`),
		metav1.PatchOptions{FieldManager: "somebody"}, "scale"); err != nil {
		b.Fatal(err)
	}
	s := b.until("a conflict", func(s api.Snapshot) bool { return s.Workloads[0].HoldReason == HoldConflict })
	if w := s.Workloads[0]; !strings.Contains(w.Hold, "somebody") || w.LastScaledBy != "somebody" || w.Replicas != 2 {
		b.Errorf("workload = %+v", w)
	}
}

func (b *bed) testDeletion() {
	b.Helper()
	if err := b.client.AppsV1().Deployments(ns).Delete(b.Context(), "web", metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	b.o.NoteWrite(kindDeployment, api.Key{Namespace: ns, Name: "web"}, "99999999") // gone is not behind
	b.until("a missing target without pods", func(s api.Snapshot) bool {
		w := s.Workloads[0]
		return w.HoldReason == HoldTargetMissing && !slices.ContainsFunc(s.Pods, func(p api.Pod) bool { return p.Workload == w.Key })
	})
}
