package adoption

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// Release gives a workload's target back: to the autoscaler that a take-over
// took away, or to nobody. The order keeps it at one writer: the operator has
// seen the mode Shadow, and so writes no more, before the other one returns.
// Without an operator that answers it fails with ErrNotSeen, unless gone says
// that there is none.
//
// In the midst of a move between pools it takes back what that has added:
// replicas beside the old ones and deletion costs, and with the last workload in
// Full, or without an operator, cordons and parked nodes. As long as there are
// others in Full their operator goes on with nodes. Running pods get back the size that their
// author wrote, where mash2 made it smaller. Interrupted anywhere, it can be run again.
func (a Adoption) Release(ctx context.Context, key types.NamespacedName, gone bool) error {
	w := &v1alpha1.ManagedWorkload{}
	if err := a.Client.Get(ctx, key, w); err != nil {
		return fmt.Errorf("reading ManagedWorkload %s: %w", key, err)
	}
	return a.release(ctx, w, gone, time.Now().Add(a.Patience))
}

// release of a workload, whose operator is waited for until a time.
func (a Adoption) release(ctx context.Context, w *v1alpha1.ManagedWorkload, gone bool, until time.Time) error {
	// 1. Shadow, and seen: mash2 writes no more.
	wanted, seen, err := a.silence(ctx, w, gone, until)
	if err != nil {
		return err
	}
	// 2. What is mash2's goes: from the target, from nodes, from pods.
	nodes, err := a.takeBack(ctx, w, wanted, seen)
	if err != nil {
		return err
	}
	// 3. The other writer returns, instead of the safety net.
	if err := a.handOver(ctx, w); err != nil {
		return err
	}
	// 4. What only an operator that sees Shadow would do.
	if !seen {
		return errors.Join(nodes, a.forget(ctx, w))
	}
	return nodes
}

// silence sets a workload to Shadow and waits until the operator has seen it. It
// returns the replicas that the operator wanted last, nil if it never said, and
// whether it has seen the change. An operator that does not answer until a time is
// an error unless gone says that there is none.
func (a Adoption) silence(ctx context.Context, w *v1alpha1.ManagedWorkload, gone bool, until time.Time) (wanted *int32, seen bool, err error) {
	if err := a.shadow(ctx, w); err != nil {
		return nil, false, err
	}
	now, err := a.seen(ctx, w, time.Until(until))
	switch {
	case err == nil:
		return now.Status.PlannedReplicas, true, nil
	case gone && errors.Is(err, ErrNotSeen):
		return w.Status.PlannedReplicas, false, nil
	}
	return nil, false, fmt.Errorf("ManagedWorkload %s is in Shadow: %w", client.ObjectKeyFromObject(w), err)
}

// seen waits until the operator has seen a workload as it was written last, and returns it as it
// is then. Without that in time it is ErrNotSeen.
func (a Adoption) seen(ctx context.Context, w *v1alpha1.ManagedWorkload, patience time.Duration) (*v1alpha1.ManagedWorkload, error) {
	var now *v1alpha1.ManagedWorkload
	err := a.waitFor(ctx, patience, func() error {
		now = &v1alpha1.ManagedWorkload{}
		if err := a.Client.Get(ctx, client.ObjectKeyFromObject(w), now); err != nil {
			return err
		}
		if now.Status.ObservedGeneration < w.Generation {
			return ErrNotSeen
		}
		return nil
	})
	return now, err
}

// takeBack removes what mash2 left on the target, its pods and the nodes. Whoever
// may not touch nodes may release all the same: that refusal is nodes, to be told
// at the end.
func (a Adoption) takeBack(ctx context.Context, w *v1alpha1.ManagedWorkload, wanted *int32, seen bool) (nodes, err error) {
	o, err := a.target(ctx, w.Namespace, w.Spec.TargetRef)
	if err != nil {
		return nil, err
	}
	pods, err := a.podsOf(ctx, o)
	if err != nil {
		return nil, err
	}
	// Without an operator the plan that is known is of another time, and more
	// replicas than it wanted may be needed, unless a move has been left half done.
	surged := seen
	if !seen {
		if surged, err = a.moving(ctx, pods); err != nil {
			return nil, err
		}
	}
	if !surged {
		wanted = nil
	}
	if err := a.clean(ctx, w.Namespace, w.Spec.TargetRef, ptr.Deref(wanted, 0)); err != nil {
		return nil, err
	}
	others, err := a.othersInFull(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case others && seen:
	case a.all != nil: // for the first of them, and what fails is told once, at the end
		a.all.once.Do(func() { _ = a.GiveBackNodes(ctx) })
	default:
		nodes = a.GiveBackNodes(ctx)
	}
	if err := a.clearCosts(ctx, pods); err != nil {
		return nil, err
	}
	return errors.Join(nodes, a.giveBackSizes(ctx, o, pods)), nil // told at the end, too
}

// forget takes the note of the take-over and sizes that act from the status, as the operator does
// that sees Shadow. With the note, the next operator would take a later take-over for a Conflict; with
// the sizes, new pods would still be admitted with them.
func (a Adoption) forget(ctx context.Context, w *v1alpha1.ManagedWorkload) error {
	now := &v1alpha1.ManagedWorkload{}
	if err := a.Client.Get(ctx, client.ObjectKeyFromObject(w), now); err != nil {
		return client.IgnoreNotFound(err)
	}
	sized := now.Status.Sizing != nil && api.SizingMode(now.Status.Sizing.Mode).Acts()
	if now.Status.TakenOver == "" && !sized {
		return nil
	}
	before := now.DeepCopy()
	now.Status.TakenOver = ""
	if sized {
		now.Status.Sizing = nil
	}
	if err := a.Client.Status().Patch(ctx, now, client.MergeFrom(before), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("taking the note of the take-over, and sizes, from the status of ManagedWorkload %s/%s: %w", w.Namespace, w.Name, err)
	}
	return nil
}

// handOver removes the safety net and brings back the autoscaler that the
// take-over removed or paused.
func (a Adoption) handOver(ctx context.Context, w *v1alpha1.ManagedWorkload) error {
	if err := a.removeNet(ctx, w.Namespace, w.Spec.TargetRef); err != nil {
		return err
	}
	if err := a.restoreHPA(ctx, w); err != nil {
		return err
	}
	_, keda, _, err := a.scalersOf(ctx, w.Namespace, w.Spec.TargetRef)
	if err != nil {
		return err
	}
	for i := range keda {
		if _, paused := keda[i].GetAnnotations()[annotationKEDAPaused]; paused && w.Annotations[AnnotationFrom] == KindScaledObject+"/"+keda[i].GetName() {
			if err := a.pauseKEDA(ctx, &keda[i], w.Annotations[AnnotationPaused]); err != nil {
				return fmt.Errorf("resuming ScaledObject %s/%s: %w", w.Namespace, keda[i].GetName(), err)
			}
		}
	}
	before := w.DeepCopy()
	delete(w.Annotations, AnnotationSaved)
	delete(w.Annotations, AnnotationPaused)
	if len(w.Annotations) == len(before.Annotations) {
		return nil
	}
	if err := a.Client.Patch(ctx, w, client.MergeFrom(before), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("ManagedWorkload %s/%s: %w", w.Namespace, w.Name, err)
	}
	return nil
}

// restoreHPA creates the HorizontalPodAutoscaler that the take-over saved; without
// one it does nothing, nor where another one scales the target by now: of two that
// do, Kubernetes lets neither.
func (a Adoption) restoreHPA(ctx context.Context, w *v1alpha1.ManagedWorkload) error {
	saved := w.Annotations[AnnotationSaved]
	if saved == "" {
		return nil
	}
	key := client.ObjectKeyFromObject(w)
	h := &autoscalingv2.HorizontalPodAutoscaler{}
	if err := json.Unmarshal([]byte(saved), h); err != nil {
		return fmt.Errorf("ManagedWorkload %s: metadata.annotations[%s]: %w", key, AnnotationSaved, err)
	}
	// The annotation is its author's word, and this runs with the rights of
	// somebody who may have more.
	if ref := h.Spec.ScaleTargetRef; ref.Kind != w.Spec.TargetRef.Kind || ref.Name != w.Spec.TargetRef.Name || h.Namespace != w.Namespace {
		return fmt.Errorf("ManagedWorkload %s: metadata.annotations[%s]: is of %s %s in namespace %q, not of its target", key, AnnotationSaved, ref.Kind, ref.Name, h.Namespace)
	}
	others, _, _, err := a.scalersOf(ctx, w.Namespace, w.Spec.TargetRef)
	if err != nil {
		return err
	}
	others = slices.DeleteFunc(others, func(o autoscalingv2.HorizontalPodAutoscaler) bool { return o.Name == h.Name })
	if len(others) > 0 {
		a.warn("HorizontalPodAutoscaler %s/%s is not created again: %s scales %s %s by now", w.Namespace, h.Name, others[0].Name, w.Spec.TargetRef.Kind, w.Spec.TargetRef.Name)
		return nil
	}
	if err := a.Client.Create(ctx, h, client.FieldOwner(FieldManager)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating HorizontalPodAutoscaler %s/%s again: %w", w.Namespace, h.Name, err)
	}
	return nil
}

// atOnce is how many workloads ReleaseAll releases side by side.
const atOnce = 16

// ReleaseAll releases every ManagedWorkload, several at a time, and then nodes, which may
// bear marks of a move whose workloads are gone. It goes on after a failure, and returns
// what it has released. Operators are waited for once, and what is told by a list is
// listed once, not for each workload.
func (a Adoption) ReleaseAll(ctx context.Context, gone bool) (released []types.NamespacedName, err error) {
	var list v1alpha1.ManagedWorkloadList
	if err := a.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing ManagedWorkloads: %w", err)
	}
	a.all, err = a.lookAtAll(ctx)
	if err != nil {
		return nil, err
	}
	errs := make([]error, 2*len(list.Items))
	each := func(do func(i int)) {
		var g errgroup.Group
		g.SetLimit(atOnce)
		for i := range list.Items {
			g.Go(func() error { do(i); return nil })
		}
		_ = g.Wait()
	}
	each(func(i int) { errs[i] = a.shadow(ctx, &list.Items[i]) })
	a.all.othersInFull = errors.Join(errs...) != nil // those that could not be set to Shadow
	until, ok := time.Now().Add(a.Patience), make([]bool, len(list.Items))
	each(func(i int) {
		err := a.release(ctx, &list.Items[i], gone, until)
		errs[len(list.Items)+i], ok[i] = err, err == nil
	})
	for i := range list.Items {
		if ok[i] {
			released = append(released, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	a.all = nil
	return released, errors.Join(append(errs, a.GiveBackNodes(ctx))...)
}

// everything is what a release of all workloads looks at once, before it changes anything.
type everything struct {
	// By namespace.
	hpas          map[string][]autoscalingv2.HorizontalPodAutoscaler
	scaledObjects map[string][]unstructured.Unstructured
	// left are nodes that a move leaves: the first workload that is released gives them back.
	left         map[string]bool
	othersInFull bool
	once         sync.Once // gives nodes back
	warns        sync.Mutex
}

// lookAtAll lists what a release of all workloads needs.
func (a Adoption) lookAtAll(ctx context.Context) (*everything, error) {
	all := everything{hpas: map[string][]autoscalingv2.HorizontalPodAutoscaler{}, scaledObjects: map[string][]unstructured.Unstructured{}}
	hpas, err := a.hpas(ctx, metav1.NamespaceAll)
	if err != nil {
		return nil, err
	}
	for _, h := range hpas {
		all.hpas[h.Namespace] = append(all.hpas[h.Namespace], h)
	}
	objects, err := a.scaledObjects(ctx, metav1.NamespaceAll)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		all.scaledObjects[o.GetNamespace()] = append(all.scaledObjects[o.GetNamespace()], o)
	}
	if all.left, err = a.leftNodes(ctx); err != nil {
		return nil, err
	}
	return &all, nil
}

// shadow sets the mode of a workload that is in Full, or in Canary.
func (a Adoption) shadow(ctx context.Context, w *v1alpha1.ManagedWorkload) error {
	if w.Spec.Mode != v1alpha1.ModeFull && w.Spec.Mode != v1alpha1.ModeCanary && w.Spec.Mode != "" {
		return nil
	}
	before := w.DeepCopy()
	w.Spec.Mode = v1alpha1.ModeShadow
	delete(w.Annotations, api.AnnotationHandedOver)
	if err := a.Client.Patch(ctx, w, client.MergeFrom(before), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("setting ManagedWorkload %s/%s to Shadow: %w", w.Namespace, w.Name, err)
	}
	return nil
}
