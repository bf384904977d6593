package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/mash2-io/mash2/api"
)

// ReasonNotVacant of a removal that was refused by a look at the API server.
const ReasonNotVacant = "NodeNotVacant"

// listedApart is the most nodes whose pods are asked for node by node; those of
// more are listed all at once.
const listedApart = 32

// Vacant looks at the API server, not at a cache, before an action takes nodes
// away: each of them must still bear a cordon of ours, and have no pods but those
// of DaemonSets, static ones and finished ones. Otherwise the error is an
// *api.NotTriedError. Other actions pass, and nodes that are gone.
//
// A pod can still come between this look and the removal, if the cordon is taken
// back meanwhile or somebody binds the pod by hand.
func (a *Actuator) Vacant(ctx context.Context, action api.Action) error {
	var names []string
	switch action := action.(type) {
	case api.RemoveNode:
		names = []string{action.Node}
	case api.ResizePool:
		names = strings.FieldsFunc(action.Nodes, func(r rune) bool { return r == ',' })
	}
	if len(names) == 0 {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return &api.NotTriedError{Reason: ReasonNotVacant, Why: fmt.Sprintf(format, args...)}
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		n, err := a.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking at node %s before it is removed: %w", name, err)
		}
		if _, ours := n.Annotations[api.AnnotationCordonedFor]; !ours || !n.Spec.Unschedulable {
			return refuse("node %s does not bear the cordon of mash2 any more", name)
		}
		there[name] = true
	}
	check := func(p *corev1.Pod) error {
		if !there[p.Spec.NodeName] || leavesWithNode(p) {
			return nil
		}
		return refuse("pod %s/%s is on node %s, as the API server says", p.Namespace, p.Name, p.Spec.NodeName)
	}
	selectors := []string{""}
	if len(there) <= listedApart {
		selectors = nil
		for name := range there {
			selectors = append(selectors, fields.OneTermEqualSelector("spec.nodeName", name).String())
		}
		slices.Sort(selectors)
	}
	for _, selector := range selectors {
		// Without a resource version the answer is of now, not of a cache.
		pages := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) {
			return a.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		}))
		err := pages.EachListItem(ctx, metav1.ListOptions{FieldSelector: selector}, func(o runtime.Object) error {
			if p, ok := o.(*corev1.Pod); ok {
				return check(p)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("listing the pods of nodes that are to be removed: %w", err)
		}
	}
	return nil
}

// leavesWithNode reports whether a pod is no reason to keep its node.
func leavesWithNode(p *corev1.Pod) bool {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return true
	}
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "DaemonSet"
}
