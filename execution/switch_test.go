package execution_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/execution"
	"github.com/mash2-io/mash2/execution/gke"
	"github.com/mash2-io/mash2/execution/kind"
	"github.com/mash2-io/mash2/execution/kube"
	"github.com/mash2-io/mash2/experiments/cluster"
	"github.com/mash2-io/mash2/experiments/gkesim"
	"github.com/mash2-io/mash2/sensing"
)

// speed of the simulated provider and of the pods.
const switchSpeed = 20

// switchBed is a real control plane with the pools cheap and fast.
type switchBed struct {
	*testing.T
	cluster  *cluster.Cluster
	client   kubernetes.Interface
	provider func(context.Context) (machines, error)
	label    string // of a node, with its pool
	prom     string

	mu    sync.Mutex
	ready map[string]bool // pods of web that serve, by name
	least int             // of them at any moment since reset
}

// machines is a provider of nodes.
type machines interface {
	sensing.PoolReader
	Apply(context.Context, api.Action) error
}

// TestSwitchOnARealControlPlane moves a Deployment from pool to pool and back,
// by real ReplicaSets, a real scheduler and the real clients: the second time
// the operator dies after every single action and comes back knowing nothing.
func TestSwitchOnARealControlPlane(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	b := newSwitchBed(t)
	b.onGKE()
	b.workload("web", 4)
	b.until("four Ready pods", func() bool { return b.serving() == 4 })
	b.switches([]switchRun{
		{"to the fast pool, undisturbed", "fast", 0},
		{"back to the cheap pool, killed after every action", "cheap", 1},
	})
}

// TestSwitchOfFixedMachines does the same where nobody can boot a machine: the
// provider kind parks the nodes of one pool and takes back those of the other.
func TestSwitchOfFixedMachines(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	b := newSwitchBed(t)
	b.onKind()
	b.workload("web", 4)
	b.until("four Ready pods", func() bool { return b.serving() == 4 })
	b.switches([]switchRun{
		{"all on the cheap pool", "cheap", 0},
		{"to the fast pool, undisturbed", "fast", 0},
		{"back to the cheap pool, killed after every action", "cheap", 1},
	})
}

type switchRun struct {
	sentence, target string
	actionsPerLife   int // 0: as many as there are
}

// switches moves all pods, and never has fewer Ready than the four there are.
func (b *switchBed) switches(runs []switchRun) {
	for _, run := range runs {
		b.Run(run.sentence, func(t *testing.T) {
			b := &switchBed{T: t, cluster: b.cluster, client: b.client, provider: b.provider, label: b.label, prom: b.prom}
			b.follow()
			actions := b.operate(run.target, run.actionsPerLife)
			b.mu.Lock()
			defer b.mu.Unlock()
			t.Logf("%d actions; never fewer than %d Ready pods", actions, b.least)
			if b.least < 4 {
				t.Errorf("at a moment only %d of 4 pods were Ready", b.least)
			}
		})
	}
}

func newSwitchBed(t *testing.T) *switchBed {
	t.Helper()
	c := cluster.ForTest(t, func(o *cluster.Options) { o.Speed = switchSpeed })
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	// Demand plays no part here: a Prometheus that has seen nothing.
	prom := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
	}))
	t.Cleanup(prom.Close)
	b := &switchBed{T: t, cluster: c, client: client, prom: prom.URL}
	b.create(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, "", b.crd())
	return b
}

// onGKE has a simulated GKE, which boots machines.
func (b *switchBed) onGKE() {
	b.Helper()
	sim, err := gkesim.New(gkesim.Config{
		Project: "shop", Location: "us-central1", Cluster: "test", Seed: 3, Speed: switchSpeed,
		Pools: []gkesim.Pool{
			{Name: "cheap", MachineType: "e2-medium", Zones: []string{"us-central1-a"}, Size: 2},
			{Name: "fast", MachineType: "n2-standard-2", Zones: []string{"us-central1-a"}},
		},
	}, b.client)
	if err != nil {
		b.Fatal(err)
	}
	if err := sim.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := sim.Close(); err != nil {
			b.Error(err)
		}
	})
	b.label = api.LabelNodePool
	b.provider = func(ctx context.Context) (machines, error) {
		p, err := gke.New(ctx, gke.Config{
			Project: "shop", Location: "us-central1", Cluster: "test",
			Endpoint: sim.Endpoint(), ComputeEndpoint: sim.ComputeEndpoint(),
		})
		if err == nil {
			context.AfterFunc(ctx, func() { _ = p.Close() })
		}
		return p, err
	}
}

// onKind has two nodes of each pool, all of them there from the beginning.
func (b *switchBed) onKind() {
	b.Helper()
	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("940m"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	for _, pool := range []string{"cheap", "fast"} {
		for i := range 2 {
			name := fmt.Sprintf("kind-%s-%d", pool, i)
			_, err := b.client.CoreV1().Nodes().Create(b.Context(), &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{
					Name:        name,
					Annotations: map[string]string{cluster.FakeNodeAnnotation: cluster.FakeNodeValue},
					Labels: map[string]string{
						kind.LabelPool: pool, corev1.LabelHostname: name, corev1.LabelTopologyZone: "a", corev1.LabelInstanceTypeStable: "container",
					},
				},
				Spec:   corev1.NodeSpec{ProviderID: "kind://docker/kind/" + name},
				Status: corev1.NodeStatus{Capacity: size, Allocatable: size},
			}, metav1.CreateOptions{})
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.label = kind.LabelPool
	b.provider = func(context.Context) (machines, error) { return kind.New(b.client), nil }
}

func (b *switchBed) crd() map[string]any {
	b.Helper()
	raw, err := os.ReadFile("../charts/mash2/crds/mash2.io_managedworkloads.yaml")
	if err != nil {
		b.Fatal(err)
	}
	var crd map[string]any
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		b.Fatal(err)
	}
	return crd
}

// create retries until the object's kind is served.
func (b *switchBed) create(kind schema.GroupVersionResource, namespace string, object map[string]any) {
	b.Helper()
	object["apiVersion"] = kind.GroupVersion().String()
	client := dynamic.NewForConfigOrDie(b.cluster.RESTConfig()).Resource(kind).Namespace(namespace)
	b.until("creating one of "+kind.Resource, func() bool {
		_, err := client.Create(b.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			b.Fatal(err)
		}
		return err == nil
	})
}

// workload makes a Deployment of pods of 300m and its ManagedWorkload.
func (b *switchBed) workload(name string, replicas int32) {
	b.Helper()
	labels := map[string]string{"app": name}
	_, err := b.client.AppsV1().Deployments("default").Create(b.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "web", Image: "nginx",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m")}},
				}}},
			},
		},
	}, metav1.CreateOptions{FieldManager: "helm"})
	if err != nil {
		b.Fatal(err)
	}
	b.create(v1alpha1.GroupVersion.WithResource("managedworkloads"), "default", map[string]any{
		"kind": "ManagedWorkload", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"targetRef":   map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
			"minReplicas": int64(1), "maxReplicas": int64(10),
		},
	})
}

func (b *switchBed) until(what string, done func() bool) {
	b.Helper()
	err := wait.PollUntilContextTimeout(b.Context(), 50*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		b.Fatalf("waiting for %s: %v", what, err)
	}
}

func serves(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (b *switchBed) serving() int {
	b.Helper()
	list, err := b.client.CoreV1().Pods("default").List(b.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for i := range list.Items {
		if serves(&list.Items[i]) {
			n++
		}
	}
	return n
}

// follow counts the serving pods by watching them, so that no moment is missed.
func (b *switchBed) follow() {
	b.Helper()
	selector := metav1.ListOptions{LabelSelector: "app=web"}
	list, err := b.client.CoreV1().Pods("default").List(b.Context(), selector)
	if err != nil {
		b.Fatal(err)
	}
	b.ready = map[string]bool{}
	for i := range list.Items {
		if serves(&list.Items[i]) {
			b.ready[list.Items[i].Name] = true
		}
	}
	b.least = len(b.ready)
	selector.ResourceVersion = list.ResourceVersion
	events, err := b.client.CoreV1().Pods("default").Watch(b.Context(), selector)
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for e := range events.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			b.mu.Lock()
			if e.Type != watch.Deleted && serves(pod) {
				b.ready[pod.Name] = true
			} else {
				delete(b.ready, pod.Name)
			}
			b.least = min(b.least, len(b.ready))
			b.mu.Unlock()
		}
	}()
}

// operate runs the operator until the switch is complete and returns the number
// of actions. A life ends after actionsPerLife actions; the next one begins with
// nothing but what the cluster shows.
func (b *switchBed) operate(target string, actionsPerLife int) int {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 4*time.Minute)
	defer cancel()
	total := 0
	for {
		n, done := b.live(ctx, target, actionsPerLife)
		total += n
		if done {
			return total
		}
		if ctx.Err() != nil {
			b.Fatalf("the switch to %s was not complete after %d actions", target, total)
		}
	}
}

// live is one life of the operator.
func (b *switchBed) live(ctx context.Context, target string, actionsPerLife int) (actions int, done bool) {
	b.Helper()
	ctx, die := context.WithCancel(ctx)
	defer die()
	provider, err := b.provider(ctx)
	if err != nil {
		b.Fatal(err)
	}
	cfg := sensing.DefaultConfig()
	cfg.REST, cfg.Pools, cfg.PrometheusURL = b.cluster.RESTConfig(), provider, b.prom
	cfg.PoolLabel = b.label
	observer, err := sensing.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	if err := observer.Start(ctx); err != nil {
		b.Fatal(err)
	}
	actuator, err := kube.New(b.cluster.RESTConfig(), kube.Options{Written: observer.NoteWrite})
	if err != nil {
		b.Fatal(err)
	}
	var last []api.Finding
	for {
		s, err := observer.Observe(ctx)
		switch {
		case errors.Is(err, sensing.ErrCacheBehind):
			continue
		case err != nil:
			if ctx.Err() != nil {
				b.Logf("last findings: %v", last)
				return actions, false
			}
			b.Fatal(err)
		}
		if switched(s, target) {
			return actions, true
		}
		var todo []api.Action
		todo, last = execution.Sequence(s, fixedPlan(s, target), api.Policy{NodePools: []string{target}, ManagedPools: []string{"cheap", "fast"}})
		for _, a := range todo {
			switch a.(type) {
			case api.ResizePool, api.RemoveNode:
				err = provider.Apply(ctx, a)
			default:
				err = actuator.Apply(ctx, a)
			}
			b.Logf("%s (%v)", a, err)
			if err != nil && !errors.Is(err, gke.ErrBusy) && ctx.Err() == nil {
				b.Errorf("%s: %v", a, err)
			}
			actions++
			if actions == actionsPerLife {
				return actions, false
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// fixedPlan wants four replicas and two nodes of the target.
func fixedPlan(s api.Snapshot, target string) api.Plan {
	var plan api.Plan
	for _, w := range s.Workloads {
		plan.Workloads = append(plan.Workloads, api.WorkloadPlan{Key: w.Key, Scale: api.Scale{Replicas: 4}, Pools: on(target, 4), NodeReplicas: 4, Reason: "the plan is fixed"})
	}
	for _, p := range s.Pools {
		pp := api.PoolPlan{Pool: p.Name}
		if p.Name == target {
			pp.SizePerZone, pp.Nodes = 2, 2
		}
		plan.Nodes.Pools = append(plan.Nodes.Pools, pp)
	}
	return plan
}

// switched: all on the target, nothing of the move left behind.
func switched(s api.Snapshot, target string) bool {
	pool := map[string]string{}
	for _, n := range s.Nodes {
		if n.Pool != target || n.Cordoned {
			return false
		}
		pool[n.Name] = n.Pool
	}
	for _, p := range s.Pools {
		if p.Name != target && p.Nodes() > 0 {
			return false
		}
	}
	serving := 0
	for _, p := range s.Pods {
		if p.DaemonSet {
			continue
		}
		if p.Terminating || pool[p.Node] != target || p.DeletionCostOurs {
			return false
		}
		if p.Ready {
			serving++
		}
	}
	return len(s.Workloads) == 1 && s.Workloads[0].Replicas == 4 && serving == 4
}
