package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/mash2-io/mash2/api"
)

// cordon marks a node unschedulable and notes why. A node that somebody else
// has cordoned meanwhile stays theirs.
func (a *Actuator) cordon(ctx context.Context, action api.CordonNode) error {
	err := a.changeNode(ctx, action.Node, func(n *corev1.Node) (map[string]any, error) {
		reason, ours := n.Annotations[api.AnnotationCordonedFor]
		if n.Spec.Unschedulable && (!ours || reason == action.For) {
			return nil, nil
		}
		return nodePatch(true, action.For, timestamp(action.At)), nil
	})
	if err != nil {
		return fmt.Errorf("cordoning node %s: %w", action.Node, err)
	}
	return nil
}

// uncordon takes our cordon back, and refuses to take anybody else's.
func (a *Actuator) uncordon(ctx context.Context, action api.UncordonNode) error {
	err := a.changeNode(ctx, action.Node, func(n *corev1.Node) (map[string]any, error) {
		_, ours := n.Annotations[api.AnnotationCordonedFor]
		switch {
		case ours:
			return nodePatch(nil, nil, nil), nil
		case n.Spec.Unschedulable:
			return nil, ErrForeignCordon
		}
		return nil, nil
	})
	if err != nil {
		return fmt.Errorf("uncordoning node %s: %w", action.Node, err)
	}
	return nil
}

// giveUpMove notes that a move was given up, beside whatever cordon is there.
func (a *Actuator) giveUpMove(ctx context.Context, action api.GiveUpMove) error {
	note := action.Pool + " " + action.At.UTC().Format(time.RFC3339)
	err := a.changeNode(ctx, action.Node, func(*corev1.Node) (map[string]any, error) {
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.AnnotationGaveUp: note}}}, nil
	})
	if err != nil {
		return fmt.Errorf("noting on node %s that the move was given up: %w", action.Node, err)
	}
	return nil
}

// timestamp is nil for a time that isn't told.
func timestamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}

// nodePatch sets the parts of a cordon; nil removes one.
func nodePatch(unschedulable, reason, at any) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{
			api.AnnotationCordonedFor: reason, api.AnnotationCordonedAt: at,
		}},
		"spec": map[string]any{"unschedulable": unschedulable},
	}
}

// changeNode patches a node on the condition that it is still as it was looked
// at. A node that is gone needs no change.
func (a *Actuator) changeNode(ctx context.Context, name string, change func(*corev1.Node) (map[string]any, error)) error {
	nodes := a.client.CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		patch, err := change(n)
		if err != nil || patch == nil {
			return err
		}
		// resourceVersion makes the patch fail if anything changed since.
		patch["metadata"].(map[string]any)["resourceVersion"] = n.ResourceVersion
		body, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		patched, err := nodes.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		a.options.Written("Node", api.Key{Name: name}, patched.ResourceVersion)
		return nil
	})
}
