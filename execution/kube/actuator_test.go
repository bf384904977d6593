package kube_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/kube"
	"github.com/mash2-io/mash2/experiments/cluster"
)

// bed is a real control plane with an Actuator on it.
type bed struct {
	*testing.T
	client kubernetes.Interface
	// workloads of the case's namespace: there is one, some-mw.
	workloads dynamic.ResourceInterface
	actuator  *kube.Actuator

	mu      sync.Mutex
	written []string
}

// TestActuator runs everything on one cluster; each case has its own namespace.
func TestActuator(t *testing.T) {
	c := cluster.ForTest(t)
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]func(*bed, string){
		"a first scaling takes the replicas over from whoever has them":    testTakeOver,
		"a claim made after the take-over is a conflict naming who":        testConflict,
		"a claim after what an earlier version has taken over is one, too": testOldNote,
		"a target made anew is taken over anew":                            testNewTarget,
		"replicas that nobody owns any more are no conflict":               testNobodys,
		"under a definition without the note nothing is taken over": func(b *bed, namespace string) {
			testOldDefinition(b, namespace, c)
		},
		"what can't be noted is not taken over":                            testCannotNote,
		"scaling again to the same number changes nothing":                 testScaleTwice,
		"a StatefulSet is scaled as a Deployment is":                       testScaleStatefulSet,
		"scaling what is gone fails and creates nothing":                   testScaleMissing,
		"a cordon is set with its reason and taken back":                   testCordon,
		"a cordon of somebody else is neither taken over nor taken back":   testForeignCordon,
		"nodes go only when the API server has no pods on them":            testVacant,
		"a Ready pod goes only while the API server has the others Ready":  testSettled,
		"a StatefulSet shrinks past a Ready pod only while the others are": testSpares,
		"a deletion cost is set, marked, and cleared":                      testDeletionCost,
		"another pod of the same name is left alone":                       testOtherUID,
		"an eviction honours the disruption budget":                        testEvict,
		"what isn't Ready goes if the budget says always":                  testEvictUnhealthy,
		"a refused eviction is asked for ever more seldom": func(b *bed, namespace string) {
			testEvictionBackoff(b, namespace, c.RESTConfig())
		},
		"a conflict about something else is no eviction": func(b *bed, namespace string) {
			testEvictionConflict(b, namespace, c.RESTConfig())
		},
		"what RBAC refuses is said by name and changes nothing": func(b *bed, namespace string) {
			testForbidden(b, namespace, c.RESTConfig())
		},
	}
	workloads := installDefinition(t, c)
	i := 0
	for name, run := range cases {
		namespace := fmt.Sprintf("case-%d", i)
		i++
		t.Run(name, func(t *testing.T) {
			b := &bed{T: t, client: client, workloads: workloads.Namespace(namespace)}
			b.actuator, err = kube.New(c.RESTConfig(), kube.Options{Written: func(kind string, key api.Key, version string) {
				b.mu.Lock()
				defer b.mu.Unlock()
				if version == "" {
					t.Errorf("%s %s was written without a version", kind, key)
				}
				b.written = append(b.written, kind+" "+key.String())
			}})
			if err != nil {
				t.Fatal(err)
			}
			_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			b.manage()
			run(b, namespace)
		})
	}
}

func (b *bed) apply(a api.Action) {
	b.Helper()
	if err := b.actuator.Apply(b.Context(), a); err != nil {
		b.Fatalf("%s: %v", a, err)
	}
}

func (b *bed) wantWritten(want ...string) {
	b.Helper()
	if diff := cmp.Diff(want, b.written); diff != "" {
		b.Errorf("written (-want +got):\n%s", diff)
	}
}

func podTemplate(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	}
}

func (b *bed) deployment(namespace string, replicas int32) {
	b.Helper()
	_, err := b.client.AppsV1().Deployments(namespace).Create(b.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: podTemplate("web"),
		},
	}, metav1.CreateOptions{FieldManager: "helm"})
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bed) get(namespace string) *appsv1.Deployment {
	b.Helper()
	d, err := b.client.AppsV1().Deployments(namespace).Get(b.Context(), "web", metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return d
}

func testForbidden(b *bed, namespace string, cfg *rest.Config) {
	b.deployment(namespace, 2)
	cfg.Impersonate.UserName = "nobody"
	nobody, err := kube.New(cfg, kube.Options{Written: func(kind string, key api.Key, _ string) {
		b.Errorf("%s %s was written", kind, key)
	}})
	if err != nil {
		b.Fatal(err)
	}
	for _, action := range []api.Action{
		scaleTo(namespace, "Deployment", 3),
		api.CordonNode{Node: "node-1", For: api.CordonMigration},
		api.EvictPod{Pod: api.Key{Namespace: namespace, Name: "web-0"}, UID: "1"},
		api.SetDeletionCost{Pod: api.Key{Namespace: namespace, Name: "web-0"}, UID: "1", Cost: -1},
	} {
		err := nobody.Apply(b.Context(), action)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "nobody" cannot`) {
			b.Errorf("%s: %v, want it forbidden by name", action, err)
		}
	}
	if got := *b.get(namespace).Spec.Replicas; got != 2 {
		b.Errorf("%d replicas", got)
	}
}

func scaleTo(namespace, kind string, to int32) api.ScaleWorkload {
	return api.ScaleWorkload{
		Workload: api.Key{Namespace: namespace, Name: "some-mw"},
		Target:   api.TargetRef{APIVersion: "apps/v1", Kind: kind, Name: "web"}, To: to,
	}
}

func testConflict(b *bed, ns string) {
	b.deployment(ns, 2)
	b.apply(scaleTo(ns, "Deployment", 5))
	_, err := b.client.AppsV1().Deployments(ns).UpdateScale(b.Context(), "web", &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: ns}, Spec: autoscalingv1.ScaleSpec{Replicas: 3},
	}, metav1.UpdateOptions{FieldManager: "kubectl-scale"})
	if err != nil {
		b.Fatal(err)
	}
	err = b.actuator.Apply(b.Context(), scaleTo(ns, "Deployment", 7))
	var conflict *kube.ConflictError
	if !errors.As(err, &conflict) || conflict.Manager != "kubectl-scale" {
		b.Fatalf("error = %v, want a conflict with kubectl-scale", err)
	}
	if d := b.get(ns); *d.Spec.Replicas != 3 {
		b.Errorf("replicas = %d, want the other's 3", *d.Spec.Replicas)
	}
	// From a workload's own safety net they are taken back, from others not.
	action := scaleTo(ns, "Deployment", 7)
	action.TakeFrom = "kube-controller-manager"
	if err := b.actuator.Apply(b.Context(), action); !errors.As(err, &conflict) {
		b.Errorf("error = %v, want a conflict: kubectl is no safety net", err)
	}
	action.TakeFrom = "kubectl-scale"
	b.apply(action)
	if d := b.get(ns); *d.Spec.Replicas != 7 {
		b.Errorf("replicas = %d, want 7", *d.Spec.Replicas)
	}
}

func testScaleTwice(b *bed, ns string) {
	b.deployment(ns, 2)
	b.apply(scaleTo(ns, "Deployment", 2))
	before := b.get(ns).Generation
	b.apply(scaleTo(ns, "Deployment", 2))
	if after := b.get(ns).Generation; after != before {
		b.Errorf("generation %d → %d", before, after)
	}
}

func testScaleStatefulSet(b *bed, ns string) {
	_, err := b.client.AppsV1().StatefulSets(ns).Create(b.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: podTemplate("web"),
		},
	}, metav1.CreateOptions{FieldManager: "helm"})
	if err != nil {
		b.Fatal(err)
	}
	b.apply(scaleTo(ns, "StatefulSet", 3))
	s, err := b.client.AppsV1().StatefulSets(ns).Get(b.Context(), "web", metav1.GetOptions{})
	if err != nil || *s.Spec.Replicas != 3 {
		b.Errorf("replicas = %v, %v; want 3", s.Spec.Replicas, err)
	}
}

func testScaleMissing(b *bed, ns string) {
	err := b.actuator.Apply(b.Context(), scaleTo(ns, "Deployment", 3))
	if !apierrors.IsNotFound(err) {
		b.Errorf("error = %v, want not found", err)
	}
	list, err := b.client.AppsV1().Deployments(ns).List(b.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 0 {
		b.Errorf("%d deployments, %v; want none", len(list.Items), err)
	}
	missing := scaleTo(ns, "Deployment", 3)
	missing.Target.APIVersion, missing.Target.Kind = "example.com/v1", "Nothing"
	if err := b.actuator.Apply(b.Context(), missing); err == nil {
		b.Error("an unknown kind was scaled")
	}
}

func (b *bed) node(name string, unschedulable bool) {
	b.Helper()
	_, err := b.client.CoreV1().Nodes().Create(b.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"other": "stays"}},
		Spec:       corev1.NodeSpec{Unschedulable: unschedulable},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
}

// wantNode checks the cordon of a node: its reason, "-" for one without.
func (b *bed) wantNode(name, want string) {
	b.Helper()
	n, err := b.client.CoreV1().Nodes().Get(b.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	got := n.Annotations[api.AnnotationCordonedFor]
	if got == "" && n.Spec.Unschedulable {
		got = "-"
	}
	if got != want || n.Spec.Unschedulable != (want != "") || n.Annotations["other"] != "stays" {
		b.Errorf("node %s: unschedulable %v, annotations %v; want cordoned for %q", name, n.Spec.Unschedulable, n.Annotations, want)
	}
}

func testCordon(b *bed, ns string) {
	name := ns + "-node"
	b.node(name, false)
	b.apply(api.CordonNode{Node: name, For: api.CordonMigration})
	b.wantNode(name, api.CordonMigration)
	b.wantWritten("Node /" + name)
	b.apply(api.CordonNode{Node: name, For: api.CordonMigration})
	b.wantWritten("Node /" + name)
	b.apply(api.CordonNode{Node: name, For: api.CordonShrink})
	b.wantNode(name, api.CordonShrink)
	b.apply(api.UncordonNode{Node: name})
	b.wantNode(name, "")
	b.apply(api.UncordonNode{Node: name})
	b.wantNode(name, "")
	b.apply(api.CordonNode{Node: name, For: api.CordonShrink})
	lift := []byte(`{"spec":{"unschedulable":null}}`) // as kubectl uncordon does, which leaves the note
	if _, err := b.client.CoreV1().Nodes().Patch(b.Context(), name, types.MergePatchType, lift, metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
	b.apply(api.UncordonNode{Node: name})
	b.wantNode(name, "")
	b.apply(api.CordonNode{Node: "no-such-node", For: api.CordonShrink})
	b.apply(api.UncordonNode{Node: "no-such-node"})
}

func testForeignCordon(b *bed, ns string) {
	name := ns + "-node"
	b.node(name, true)
	b.apply(api.CordonNode{Node: name, For: api.CordonMigration})
	b.wantNode(name, "-")
	if err := b.actuator.Apply(b.Context(), api.UncordonNode{Node: name}); !errors.Is(err, kube.ErrForeignCordon) {
		b.Errorf("error = %v, want ErrForeignCordon", err)
	}
	b.wantNode(name, "-")
	b.wantWritten()
}

func (b *bed) pod(ns, name string) *corev1.Pod {
	b.Helper()
	pod, err := b.client.CoreV1().Pods(ns).Create(b.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       podTemplate("web").Spec,
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return pod
}

func (b *bed) annotations(ns, name string) map[string]string {
	b.Helper()
	pod, err := b.client.CoreV1().Pods(ns).Get(b.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return pod.Annotations
}

func testDeletionCost(b *bed, ns string) {
	pod := b.pod(ns, "a")
	cost := api.SetDeletionCost{Pod: api.Key{Namespace: ns, Name: "a"}, UID: string(pod.UID), Cost: -1000}
	for range 2 {
		b.apply(cost)
		want := map[string]string{api.AnnotationPodDeletionCost: "-1000", api.AnnotationDeletionCostSet: "true"}
		if diff := cmp.Diff(want, b.annotations(ns, "a")); diff != "" {
			b.Errorf("annotations (-want +got):\n%s", diff)
		}
	}
	cost.Clear = true
	for range 2 {
		b.apply(cost)
		if got := b.annotations(ns, "a"); len(got) != 0 {
			b.Errorf("annotations = %v, want none", got)
		}
	}
}

func testOtherUID(b *bed, ns string) {
	b.pod(ns, "a")
	key := api.Key{Namespace: ns, Name: "a"}
	b.apply(api.SetDeletionCost{Pod: key, UID: "another", Cost: -1})
	b.apply(api.EvictPod{Pod: key, UID: "another"})
	b.apply(api.SetDeletionCost{Pod: api.Key{Namespace: ns, Name: "gone"}, UID: "another", Cost: -1})
	b.apply(api.EvictPod{Pod: api.Key{Namespace: ns, Name: "gone"}, UID: "another"})
	if got := b.annotations(ns, "a"); len(got) != 0 {
		b.Errorf("annotations = %v, want none", got)
	}
	b.wantWritten()
}

func (b *bed) eventually(what string, done wait.ConditionWithContextFunc) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	if err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, done); err != nil {
		b.Fatalf("waiting for %s: %v", what, err)
	}
}
