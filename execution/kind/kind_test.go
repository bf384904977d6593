package kind_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/kind"
	"github.com/mash2-io/mash2/execution/provider"
	"github.com/mash2-io/mash2/execution/provider/providertest"
	"github.com/mash2-io/mash2/experiments/cluster"
)

// machines of a cluster that nobody can add to: those whose number is above
// two are parked at the start.
type machines struct {
	*testing.T
	client kubernetes.Interface
}

func (m *machines) add(name, pool, zone string, parked bool, labels map[string]string) {
	m.Helper()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			kind.LabelPool: pool, corev1.LabelTopologyZone: zone, corev1.LabelInstanceTypeStable: "container",
		}},
		Spec: corev1.NodeSpec{ProviderID: "kind://docker/kind/" + name},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}},
	}
	for k, v := range labels {
		n.Labels[k] = v
	}
	if parked {
		n.Spec.Unschedulable = true
		n.Annotations = map[string]string{api.AnnotationParked: "true"}
	}
	if _, err := m.client.CoreV1().Nodes().Create(m.Context(), n, metav1.CreateOptions{}); err != nil {
		m.Fatal(err)
	}
}

// nodes that take part.
func (m *machines) nodes(pool string) []api.RemoveNode {
	m.Helper()
	list, err := m.client.CoreV1().Nodes().List(m.Context(), metav1.ListOptions{LabelSelector: kind.LabelPool + "=" + pool})
	if err != nil {
		m.Fatal(err)
	}
	var out []api.RemoveNode
	for i := range list.Items {
		if n := &list.Items[i]; !kind.Parked(n) {
			out = append(out, api.RemoveNode{Pool: pool, Zone: n.Labels[corev1.LabelTopologyZone], Node: n.Name, ProviderID: n.Spec.ProviderID})
		}
	}
	return out
}

func (m *machines) get(name string) *corev1.Node {
	m.Helper()
	n, err := m.client.CoreV1().Nodes().Get(m.Context(), name, metav1.GetOptions{})
	if err != nil {
		m.Fatal(err)
	}
	return n
}

func (m *machines) pod(node, owner string) {
	m.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-", Namespace: "default"},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "main"}}},
	}
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "x", UID: "x", Controller: &yes}}
	if _, err := m.client.CoreV1().Pods("default").Create(m.Context(), p, metav1.CreateOptions{}); err != nil {
		m.Fatal(err)
	}
}

func TestProvider(t *testing.T) {
	c := cluster.ForTest(t)
	cfg := c.RESTConfig()
	cfg.QPS = -1
	plain, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	world := func(t *testing.T) *machines {
		m := &machines{t, plain}
		// What the test before has left.
		for _, kind := range []string{"pods", "nodes"} {
			if out, err := c.Kubectl(t.Context(), "delete", kind, "--all", "--force", "--grace-period=0", "-n", "default"); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		return m
	}
	t.Run("conformance", func(t *testing.T) {
		providertest.Run(t, func(t *testing.T) *providertest.World {
			m := world(t)
			for _, zone := range []string{"a", "b"} {
				for i := range 3 {
					m.add(fmt.Sprintf("fast-%s-%d", zone, i), "fast", zone, i > 0, nil)
				}
			}
			m.add("cheap-0", "cheap", "a", false, nil)
			refusals := &providertest.Refusals{}
			wrapped := c.RESTConfig()
			wrapped.Wrap(refusals.Wrap)
			wrapped.QPS = -1
			client, err := kubernetes.NewForConfig(wrapped)
			if err != nil {
				t.Fatal(err)
			}
			faults := refusals.Faults()
			delete(faults, provider.ErrBusy) // a node that has changed is looked at again
			return &providertest.World{Provider: kind.New(client), Pool: "fast", Other: "cheap", Nodes: m.nodes, Faults: faults}
		})
	})
	t.Run("a pool can't have more machines than there are", func(t *testing.T) {
		m := world(t)
		m.add("one", "fast", "a", false, nil)
		err := kind.New(plain).Apply(t.Context(), api.ResizePool{Pool: "fast", To: 2})
		if !errors.Is(err, provider.ErrStockout) {
			t.Errorf("error = %v, want %v", err, provider.ErrStockout)
		}
	})
	t.Run("a node with pods is not parked, one with a DaemonSet's is", func(t *testing.T) {
		m := world(t)
		m.add("one", "fast", "a", false, nil)
		m.add("two", "fast", "a", false, nil)
		m.pod("one", "DaemonSet")
		m.pod("two", "ReplicaSet")
		p := kind.New(plain)
		if err := p.Apply(t.Context(), api.ResizePool{Pool: "fast", To: 1}); err != nil {
			t.Fatal(err)
		}
		if left := m.nodes("fast"); len(left) != 1 || left[0].Node != "two" {
			t.Errorf("left is %v, want the one with a pod", left)
		}
		if err := p.Apply(t.Context(), api.ResizePool{Pool: "fast", To: 0}); !errors.Is(err, provider.ErrBusy) {
			t.Errorf("error = %v, want %v", err, provider.ErrBusy)
		}
	})
	t.Run("taking a node back leaves nothing of ours on it", func(t *testing.T) {
		m := world(t)
		m.add("one", "fast", "a", true, nil)
		m.add("two", "fast", "a", true, nil)
		m.add("mine", "fast", "a", false, nil)
		if out, err := c.Kubectl(t.Context(), "cordon", "mine"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		p := kind.New(plain)
		if err := p.Apply(t.Context(), api.ResizePool{Pool: "fast", To: 2}); err != nil {
			t.Fatal(err)
		}
		if err := p.Apply(t.Context(), api.ResizePool{Pool: "fast", To: 3}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"one", "two"} {
			if n := m.get(name); n.Spec.Unschedulable || strings.Contains(fmt.Sprint(n.Annotations), api.Group) {
				t.Errorf("%s: cordoned %v, annotations %v", name, n.Spec.Unschedulable, n.Annotations)
			}
		}
		if !m.get("mine").Spec.Unschedulable {
			t.Error("somebody else's cordon was taken back")
		}
	})
	t.Run("an operator that has just begun gives nodes their time anew", func(t *testing.T) {
		m := world(t)
		m.add("one", "fast", "a", false, nil)
		ready := func(status string) {
			t.Helper()
			if out, err := c.Kubectl(t.Context(), "patch", "node", "one", "--subresource=status",
				`-p={"status":{"conditions":[{"type":"Ready","status":"`+status+`"}]}}`); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		at := func(p *kind.Provider) time.Time {
			t.Helper()
			pools, err := p.Pools(t.Context())
			if err != nil || len(pools) != 1 {
				t.Fatalf("%v, %v", pools, err)
			}
			return pools[0].ResizedAt
		}
		ready("True")
		p := kind.New(plain)
		if got := at(p); !got.IsZero() {
			t.Errorf("all are Ready: resized at %v", got)
		}
		ready("False")
		since := at(p)
		if time.Since(since).Abs() > time.Minute {
			t.Errorf("one is not Ready: resized at %v", since)
		}
		if got := at(p); !got.Equal(since) {
			t.Errorf("resized at %v, and read again at %v", since, got)
		}
		if got := at(kind.New(plain)); !got.After(since) {
			t.Errorf("resized at %v, and by the next operator at %v", since, got)
		}
		ready("True")
		if got := at(p); !got.IsZero() {
			t.Errorf("all are Ready again: resized at %v", got)
		}
	})
	t.Run("labels say price and speed, and are refused by name", func(t *testing.T) {
		m := world(t)
		m.add("one", "fast", "a", false, map[string]string{kind.LabelPrice: "0.5", kind.LabelSpeed: "1.5", api.LabelSpot: "true"})
		pools, err := kind.New(plain).Pools(t.Context())
		if err != nil || pools[0].Price != 0.5 || pools[0].CPUSpeed != 1.5 || !pools[0].Spot {
			t.Errorf("pools %+v, %v", pools, err)
		}
		for _, bad := range []string{"0", "NaN", "Inf", "cheap", "1e999"} {
			m := world(t)
			m.add("one", "fast", "a", false, map[string]string{kind.LabelPrice: bad})
			if _, err := kind.New(plain).Pools(t.Context()); err == nil || !strings.Contains(err.Error(), "metadata.labels["+kind.LabelPrice+"]") {
				t.Errorf("%q: %v", bad, err)
			}
		}
	})
}
