package adoption

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// clean takes from a target, in one write, the note of the take-over, mash2's
// claim on its replicas, and those replicas that a move between pools has added
// for a while: giving a field up by an apply without it would reset it to its
// default. wanted is the number without these, 0 to leave the number alone.
//
// A ReplicaSet deletes pods that are not Ready first, so that at least as many
// stay Ready as were or as are wanted.
func (a Adoption) clean(ctx context.Context, namespace string, target v1alpha1.TargetRef, wanted int32) error {
	return a.wait(ctx, func() error {
		o, err := a.target(ctx, namespace, target)
		if err != nil || o == nil {
			return err
		}
		patch := []map[string]any{{"op": "test", "path": "/metadata/resourceVersion", "value": o.GetResourceVersion()}}
		if _, ok := o.GetAnnotations()[api.AnnotationTakenOver]; ok {
			patch = append(patch, map[string]any{"op": "remove", "path": "/metadata/annotations/mash2.io~1taken-over"})
		}
		fields := o.GetManagedFields()
		others := slices.DeleteFunc(slices.Clone(fields), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == api.FieldManager })
		if len(others) < len(fields) { // whoever has taken the replicas from mash2 has set them
			if now, ok, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); ok && wanted > 0 && now > int64(wanted) && target.Kind == kindDeployment {
				patch = append(patch, map[string]any{"op": "replace", "path": "/spec/replicas", "value": wanted})
			}
		}
		if len(others) < len(fields) && len(others) > 0 { // an empty list would mean no change
			patch = append(patch, map[string]any{"op": "replace", "path": "/metadata/managedFields", "value": others})
		}
		if len(patch) == 1 {
			return nil
		}
		body, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		if err := a.Client.Patch(ctx, o, client.RawPatch(types.JSONPatchType, body), client.FieldOwner(FieldManager)); err != nil {
			return fmt.Errorf("taking mash2's marks from %s %s/%s: %w", target.Kind, namespace, target.Name, err)
		}
		return nil
	})
}

// kindDeployment is the kind of target that a move adds replicas to.
const kindDeployment = "Deployment"

// target of a ManagedWorkload; nil when it is gone.
func (a Adoption) target(ctx context.Context, namespace string, target v1alpha1.TargetRef) (*unstructured.Unstructured, error) {
	gv, err := schema.ParseGroupVersion(target.APIVersion)
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gv.WithKind(target.Kind))
	err = a.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: target.Name}, o)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, err
}

// podsOf a target, by its selector.
func (a Adoption) podsOf(ctx context.Context, o *unstructured.Unstructured) ([]corev1.Pod, error) {
	if o == nil {
		return nil, nil
	}
	field, _, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "selector")
	fields, ok := field.(map[string]any)
	if err != nil || !ok {
		return nil, err
	}
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &selector); err != nil {
		return nil, err
	}
	matches, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil || matches.Empty() {
		return nil, err
	}
	var list corev1.PodList
	if err := a.Client.List(ctx, &list, client.InNamespace(o.GetNamespace()), client.MatchingLabelsSelector{Selector: matches}); err != nil {
		return nil, fmt.Errorf("listing the pods of %s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
	}
	return list.Items, nil
}

// moving reports whether a move of a target's pods has been left half done: one
// of them bears a deletion cost of mash2's, or is on a node that mash2 has
// cordoned, as far as nodes may be read. Only then may more replicas than the
// last plan wanted be a surge.
func (a Adoption) moving(ctx context.Context, pods []corev1.Pod) (bool, error) {
	if len(pods) == 0 {
		return false, nil
	}
	left, err := a.leftNodes(ctx)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool {
		return p.Annotations[api.AnnotationDeletionCostSet] != "" || left[p.Spec.NodeName]
	}), nil
}

// leftNodes are those that mash2 has cordoned, by name, as far as nodes may be read.
func (a Adoption) leftNodes(ctx context.Context) (map[string]bool, error) {
	if a.all != nil {
		return a.all.left, nil
	}
	nodes, err := a.nodes(ctx)
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	left := map[string]bool{}
	for _, n := range nodes {
		left[n.Name] = n.Annotations[api.AnnotationCordonedFor] != ""
	}
	return left, nil
}

// clearCosts takes mash2's deletion costs from the pods of a target.
func (a Adoption) clearCosts(ctx context.Context, pods []corev1.Pod) error {
	for i := range pods {
		if pods[i].Annotations[api.AnnotationDeletionCostSet] == "" {
			continue
		}
		err := a.annotate(ctx, &pods[i], map[string]any{api.AnnotationPodDeletionCost: nil, api.AnnotationDeletionCostSet: nil}, nil)
		if err != nil {
			return fmt.Errorf("taking the deletion cost from pod %s/%s: %w", pods[i].Namespace, pods[i].Name, err)
		}
	}
	return nil
}

// nodes of the cluster without what they are: thousands of whole ones are more than the Job of helm
// uninstall has memory for.
func (a Adoption) nodes(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	err := a.Client.List(ctx, &list)
	return list.Items, err
}

// GiveBackNodes takes mash2's cordons back, and its notes, and every parked node
// into use. The operator must not be there, or have no workload in Full: then it
// leaves nodes alone. It tries them all, and can be run again.
func (a Adoption) GiveBackNodes(ctx context.Context) error {
	nodes, err := a.nodes(ctx)
	if err != nil {
		return fmt.Errorf("listing nodes, to take mash2's cordons back: %w", err)
	}
	var errs []error
	for _, m := range nodes {
		n := &corev1.Node{ObjectMeta: m.ObjectMeta}
		notes := map[string]any{}
		for _, key := range []string{api.AnnotationCordonedFor, api.AnnotationCordonedAt, api.AnnotationGaveUp, api.AnnotationParked} {
			if _, ok := n.Annotations[key]; ok {
				notes[key] = nil
			}
		}
		if len(notes) == 0 {
			continue
		}
		var spec map[string]any
		if n.Annotations[api.AnnotationCordonedFor] != "" || n.Annotations[api.AnnotationParked] != "" {
			spec = map[string]any{"unschedulable": nil}
		}
		if err := a.annotate(ctx, n, notes, spec); err != nil {
			errs = append(errs, fmt.Errorf("giving node %s back: %w", n.Name, err))
		}
	}
	return errors.Join(errs...)
}

// annotate patches annotations, and the spec where there is one. What is gone
// needs no patch.
func (a Adoption) annotate(ctx context.Context, o client.Object, annotations, spec map[string]any) error {
	patch := map[string]any{"metadata": map[string]any{"annotations": annotations}}
	if spec != nil {
		patch["spec"] = spec
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(a.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, body), client.FieldOwner(FieldManager)))
}

// othersInFull reports whether the operator still acts for somebody.
func (a Adoption) othersInFull(ctx context.Context) (bool, error) {
	if a.all != nil {
		return a.all.othersInFull, nil
	}
	var list v1alpha1.ManagedWorkloadList
	if err := a.Client.List(ctx, &list); err != nil {
		return false, fmt.Errorf("listing ManagedWorkloads: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(w v1alpha1.ManagedWorkload) bool {
		return w.Spec.Mode == v1alpha1.ModeFull || w.Spec.Mode == v1alpha1.ModeCanary || w.Spec.Mode == ""
	}), nil
}
