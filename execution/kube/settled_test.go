package kube_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/kube"
)

// testSettled: what the API server has of a pod, its node and the other pods of its
// controller decides whether it may be evicted, whatever a snapshot showed.
func testSettled(b *bed, ns string) {
	nodes := map[string]string{}
	for _, name := range []string{"leaving", "staying"} {
		nodes[name] = ns + "-" + name
		if _, err := b.client.CoreV1().Nodes().Create(b.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodes[name]}}, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.apply(api.CordonNode{Node: nodes["leaving"], For: api.CordonMigration})
	template := podTemplate("db")
	template.Spec.ServiceAccountName = "missing" // so that its controller makes no pods
	set, err := b.client.AppsV1().StatefulSets(ns).Create(b.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: template,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	ready := func(name, status string) {
		b.Helper()
		patch := fmt.Sprintf(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":%q}]}}`, status)
		if _, err := b.client.CoreV1().Pods(ns).Patch(b.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			b.Fatal(err)
		}
	}
	// A controller of a kind that nobody acts for.
	controller := func(name string) *metav1.OwnerReference {
		b.Helper()
		o, err := b.client.CoreV1().ConfigMaps(ns).Create(b.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
		return &metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: o.UID, Controller: ptr.To(true)}
	}
	pod := func(name, node string, owner *metav1.OwnerReference, finalizers ...string) api.EvictPod {
		b.Helper()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}, Spec: podTemplate("x").Spec}
		p.Spec.NodeName = nodes[node]
		if owner != nil {
			p.OwnerReferences = []metav1.OwnerReference{*owner}
			p.Labels = map[string]string{"app": owner.Name}
		}
		p, err := b.client.CoreV1().Pods(ns).Create(b.Context(), p, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
		ready(name, "True")
		return api.EvictPod{Pod: api.Key{Namespace: ns, Name: name}, UID: string(p.UID), Node: nodes[node]}
	}
	want := func(what string, action api.EvictPod, refused string) {
		b.Helper()
		err := b.actuator.Apply(b.Context(), action)
		var left *api.NotTriedError
		switch {
		case refused == "" && err != nil:
			b.Errorf("%s: %v", what, err)
		case refused != "" && (!errors.As(err, &left) || left.Reason != kube.ReasonNotSettled || !strings.Contains(left.Why, refused)):
			b.Errorf("%s: %v, want a refusal that names %q", what, err, refused)
		}
		p, err := b.client.CoreV1().Pods(ns).Get(b.Context(), action.Pod.Name, metav1.GetOptions{})
		if evicted := apierrors.IsNotFound(err) || err == nil && (p.DeletionTimestamp != nil || string(p.UID) != action.UID); evicted != (refused == "") {
			b.Errorf("%s: evicted %v", what, evicted)
		}
	}
	// A Ready pod whose node is not being left, as when it was seen before it got Ready.
	bystander := pod("bystander", "staying", nil)
	want("a Ready pod on a node that stays", bystander, nodes["staying"])
	bystander.Unready = true
	want("a Ready pod that is to go only while it is not", bystander, "it is Ready")
	ready("bystander", "False")
	want("one that is not Ready", bystander, "")
	want("one that is gone", bystander, "")
	want("a Ready pod without a controller on a leaving node", pod("bare", "leaving", nil), "")

	// Pods of one controller, and one of another.
	owner := controller("dns")
	first, second := pod("dns-1", "leaving", owner), pod("dns-2", "leaving", owner)
	pod("other", "leaving", controller("other"))
	ready("other", "False")
	ready("dns-2", "False")
	want("while another pod of its controller is not Ready", first, "dns-2")
	want("the one that is not Ready itself", second, "")
	third := pod("dns-3", "leaving", owner, "example.com/slow")
	for _, name := range []string{"dns-2", "dns-3"} { // as a kubelet does when they have ended
		if err := b.client.CoreV1().Pods(ns).Delete(b.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
			b.Fatal(err)
		}
	}
	want("while another one terminates", first, "dns-3")
	if _, err := b.client.CoreV1().Pods(ns).Patch(b.Context(), third.Pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
	b.eventuallyGone(ns, "dns-2", "dns-3")
	want("when none does any more", first, "")

	// A pod of a StatefulSet that there are too few of is not known by any other pod.
	db := pod("db-0", "leaving", &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: set.UID, Controller: ptr.To(true)})
	scale := func(n int) {
		b.Helper()
		patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)
		if _, err := b.client.AppsV1().StatefulSets(ns).Patch(b.Context(), "db", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	want("while its StatefulSet lacks pods", db, "1 of 3")
	scale(1)
	want("when it lacks none", db, "")
}

// testSpares: a StatefulSet is scaled down past a Ready pod only while the API server has
// all that stay as Ready, whatever the number of its first pod.
func testSpares(b *bed, ns string) {
	for _, first := range []int32{0, 2} {
		testSparesFrom(b, ns, fmt.Sprintf("db%d", first), first)
	}
}

func testSparesFrom(b *bed, ns, db string, first int32) {
	named := func(i int32) string { return fmt.Sprintf("%s-%d", db, first+i) }
	template := podTemplate(db)
	template.Spec.ServiceAccountName = "missing" // so that its controller makes no pods
	set, err := b.client.AppsV1().StatefulSets(ns).Create(b.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: db},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](4), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": db}}, Template: template,
			Ordinals:            &appsv1.StatefulSetOrdinals{Start: first},
			PodManagementPolicy: appsv1.ParallelPodManagement,                                                   // else its controller itself waits for all before
			UpdateStrategy:      appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}, // these pods are of no revision
		},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	ready := func(name, status string) {
		b.Helper()
		patch := fmt.Sprintf(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":%q}]}}`, status)
		if _, err := b.client.CoreV1().Pods(ns).Patch(b.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			b.Fatal(err)
		}
	}
	for i := range int32(4) {
		name := named(i)
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"app": db},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: db, UID: set.UID, Controller: ptr.To(true)}},
		}, Spec: podTemplate(db).Spec}
		if _, err := b.client.CoreV1().Pods(ns).Create(b.Context(), p, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		ready(name, "True")
	}
	scale := func(from, to int32, refused string) {
		b.Helper()
		err := b.actuator.Apply(b.Context(), api.ScaleWorkload{
			Workload: api.Key{Namespace: ns, Name: "some-mw"}, Target: api.TargetRef{APIVersion: "apps/v1", Kind: "StatefulSet", Name: db}, From: from, To: to,
		})
		var left *api.NotTriedError
		switch {
		case refused == "" && err != nil:
			b.Errorf("%d to %d: %v", from, to, err)
		case refused != "" && (!errors.As(err, &left) || left.Reason != kube.ReasonNotSettled || !strings.Contains(left.Why, refused)):
			b.Errorf("%d to %d: %v, want a refusal that says %q", from, to, err, refused)
		}
		now, err := b.client.AppsV1().StatefulSets(ns).Get(b.Context(), db, metav1.GetOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if want := map[bool]int32{true: to, false: from}[refused == ""]; *now.Spec.Replicas != want {
			b.Errorf("%d to %d: it has %d replicas, want %d", from, to, *now.Spec.Replicas, want)
		}
	}
	ready(named(0), "False")
	scale(4, 3, "2 of the 3 pods that would stay are Ready, as the API server says, and 1 that would go")
	ready(named(3), "False")
	scale(4, 3, "") // nobody that serves goes
	b.eventuallyGone(ns, named(3))
	scale(3, 4, "") // up at any time
	scale(4, 3, "")
	ready(named(0), "True")
	scale(3, 2, "")
}

func (b *bed) eventuallyGone(ns string, names ...string) {
	b.Helper()
	for _, name := range names {
		b.eventually(name+" to be gone", func(ctx context.Context) (bool, error) {
			_, err := b.client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
	}
}
