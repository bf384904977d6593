package kube

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"

	"github.com/mash2-io/mash2/api"
)

// ReasonNotSettled of an eviction that was refused by a look at the API server.
const ReasonNotSettled = "PodNotSettled"

// settled looks at the API server, not at a cache, before a pod is evicted. One that is
// Ready goes only from a node that bears a cordon of ours, and only while all other pods
// of its controller are Ready; of a StatefulSet as many as it is to have. Otherwise the
// error is an *api.NotTriedError. One that is not Ready serves nobody, and one that is gone
// needs no eviction: both pass.
//
// Another pod can still stop being Ready between this look and the eviction: a
// PodDisruptionBudget is what the API server itself holds.
func (a *Actuator) settled(ctx context.Context, action api.EvictPod) error {
	wrap := func(err error) error {
		return fmt.Errorf("looking at pod %s before it is evicted: %w", action.Pod, err)
	}
	refuse := func(format string, args ...any) error {
		return &api.NotTriedError{Reason: ReasonNotSettled, Why: fmt.Sprintf(format, args...)}
	}
	pod, err := a.client.CoreV1().Pods(action.Pod.Namespace).Get(ctx, action.Pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return wrap(err)
	case string(pod.UID) != action.UID || pod.DeletionTimestamp != nil || !isReady(pod):
		return nil
	}
	if action.Unready {
		return refuse("it is Ready")
	}
	if action.Node != "" {
		n, err := a.client.CoreV1().Nodes().Get(ctx, action.Node, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return wrap(err)
		}
		if _, ours := n.Annotations[api.AnnotationCordonedFor]; err == nil && (!ours || !n.Spec.Unschedulable) {
			return refuse("it is Ready, and node %s does not bear the cordon of mash2", action.Node)
		}
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return nil
	}
	others, err := a.others(ctx, pod, owner)
	if err != nil || others.unsettled != "" {
		if err != nil {
			return wrap(err)
		}
		return refuse("pod %s/%s of the same %s %s, as the API server says", pod.Namespace, others.name, owner.Kind, others.unsettled)
	}
	if owner.Kind != "StatefulSet" {
		return nil
	}
	sets, err := a.client.AppsV1().StatefulSets(pod.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", owner.Name).String(),
	})
	if err != nil {
		return wrap(err)
	}
	for _, set := range sets.Items {
		if want := set.Spec.Replicas; set.UID == owner.UID && want != nil && others.ready+1 < *want {
			return refuse("%d of %d pods of its StatefulSet are Ready, as the API server says", others.ready+1, *want)
		}
	}
	return nil
}

// spares looks at the API server, not at a cache, before a StatefulSet is scaled down. It
// deletes its highest ordinals, Ready or not: a Ready one goes only while all that stay
// are Ready. Otherwise the error is an *api.NotTriedError. (A ReplicaSet deletes what is
// not Ready first, by what the API server has.)
func (a *Actuator) spares(ctx context.Context, action api.ScaleWorkload, target *unstructured.Unstructured) error {
	if action.Target.Kind != "StatefulSet" || action.To >= action.From {
		return nil
	}
	first, _, err := unstructured.NestedInt64(target.Object, "spec", "ordinals", "start")
	if err != nil {
		return fmt.Errorf("spec.ordinals.start of StatefulSet %s/%s: %w", target.GetNamespace(), target.GetName(), err)
	}
	var stay, going int32 // Ready ones
	err = a.podsOf(ctx, target.GetNamespace(), target.GetUID(), func(p *corev1.Pod) {
		if p.DeletionTimestamp != nil || !isReady(p) {
			return
		}
		if n := ordinal(p.Name); n >= first && n < first+int64(action.To) {
			stay++
		} else {
			going++
		}
	})
	switch {
	case err != nil:
		return fmt.Errorf("looking at the pods of StatefulSet %s/%s before it is scaled down: %w", target.GetNamespace(), target.GetName(), err)
	case going > 0 && stay < action.To:
		return &api.NotTriedError{Reason: ReasonNotSettled, Why: fmt.Sprintf(
			"%d of the %d pods that would stay are Ready, as the API server says, and %d that would go", stay, action.To, going)}
	}
	return nil
}

// ordinal of a StatefulSet's pod; of a name that has none a large one.
func ordinal(pod string) int64 {
	n, err := strconv.ParseInt(pod[strings.LastIndex(pod, "-")+1:], 10, 32)
	if err != nil {
		return math.MaxInt64
	}
	return n
}

// siblings are the other pods of a controller.
type siblings struct {
	ready           int32
	name, unsettled string // one that is not Ready, and what it is; empty if all are
}

// others looks at the pods that have a pod's controller, but for finished ones.
func (a *Actuator) others(ctx context.Context, pod *corev1.Pod, owner *metav1.OwnerReference) (siblings, error) {
	var out siblings
	err := a.podsOf(ctx, pod.Namespace, owner.UID, func(p *corev1.Pod) {
		switch {
		case p.UID == pod.UID:
		case p.DeletionTimestamp != nil:
			out.name, out.unsettled = p.Name, "is terminating"
		case !isReady(p):
			out.name, out.unsettled = p.Name, "is not Ready"
		default:
			out.ready++
		}
	})
	return out, err
}

// podsOf are the pods that a controller has now, but for finished ones.
func (a *Actuator) podsOf(ctx context.Context, namespace string, controller types.UID, do func(*corev1.Pod)) error {
	// Without a resource version the answer is of now, not of a cache.
	pages := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) {
		return a.client.CoreV1().Pods(namespace).List(ctx, o)
	}))
	return pages.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		p, ok := o.(*corev1.Pod)
		if !ok || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			return nil
		}
		if of := metav1.GetControllerOf(p); of != nil && of.UID == controller {
			do(p)
		}
		return nil
	})
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
