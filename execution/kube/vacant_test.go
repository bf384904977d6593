package kube_test

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/kube"
)

// testVacant: what the API server has on a node decides whether it may be given
// up, whatever a snapshot showed.
func testVacant(b *bed, ns string) {
	node := func(name string) string {
		b.Helper()
		name = ns + "-" + name
		if _, err := b.client.CoreV1().Nodes().Create(b.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		return name
	}
	empty, busy, free := node("empty"), node("busy"), node("free")
	serial := 0
	pod := func(on string, change func(*corev1.Pod)) *corev1.Pod {
		b.Helper()
		serial++
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", serial)}, Spec: podTemplate("web").Spec}
		p.Spec.NodeName = on
		change(p)
		p, err := b.client.CoreV1().Pods(ns).Create(b.Context(), p, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	pod(empty, func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "1", Controller: ptr.To(true)}}
	})
	finished := pod(empty, func(*corev1.Pod) {})
	_, err := b.client.CoreV1().Pods(ns).Patch(b.Context(), finished.Name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		b.Fatal(err)
	}
	tenant := pod(busy, func(*corev1.Pod) {})

	remove := func(name string) api.Action { return api.RemoveNode{Pool: "p", Node: name} }
	shrink := func(names ...string) api.Action {
		return api.ResizePool{Pool: "p", From: 3, To: 0, Nodes: strings.Join(names, ",")}
	}
	want := func(what string, action api.Action, refused string) {
		b.Helper()
		err := b.actuator.Vacant(b.Context(), action)
		if refused == "" {
			if err != nil {
				b.Errorf("%s: %v", what, err)
			}
			return
		}
		var left *api.NotTriedError
		if !errors.As(err, &left) || left.Reason != kube.ReasonNotVacant || !strings.Contains(left.Why, refused) {
			b.Errorf("%s: %v, want a refusal that names %q", what, err, refused)
		}
	}
	want("a node without our cordon", remove(free), free)
	for _, name := range []string{empty, busy} {
		b.apply(api.CordonNode{Node: name, For: api.CordonShrink})
	}
	want("an empty node", remove(empty), "")
	want("a node with a pod", remove(busy), ns+"/"+tenant.Name)
	want("a node that is gone", remove(ns+"-gone"), "")
	want("a pool of an empty node", shrink(empty), "")
	want("a pool with a pod", shrink(empty, busy), ns+"/"+tenant.Name)
	want("a pool that grows", api.ResizePool{Pool: "p", From: 1, To: 2}, "")
	many := []string{empty, busy}
	for i := range 40 {
		name := node(fmt.Sprint(i))
		b.apply(api.CordonNode{Node: name, For: api.CordonShrink})
		many = append(many, name)
	}
	want("a large pool with a pod", shrink(many...), ns+"/"+tenant.Name)
	if err := b.client.CoreV1().Pods(ns).Delete(b.Context(), tenant.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		b.Fatal(err)
	}
	want("a large pool without one", shrink(many...), "")
	b.apply(api.UncordonNode{Node: empty})
	want("a node that was uncordoned meanwhile", remove(empty), empty)
}
