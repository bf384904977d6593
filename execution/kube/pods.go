package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2/api"
)

// evict asks the Eviction API for exactly this pod, another one that has taken its
// name is not meant; but not soon after it was refused.
func (a *Actuator) evict(ctx context.Context, action api.EvictPod) error {
	now := a.options.Clock.Now()
	if a.refused.IsInBackOffSinceUpdate(action.UID, now) {
		return &api.NotTriedError{Why: fmt.Sprintf("it was refused and is requested again after %v", a.refused.Get(action.UID))}
	}
	if err := a.settled(ctx, action); err != nil {
		return err
	}
	err := a.tryEviction(ctx, action)
	if err != nil {
		a.refused.Next(action.UID, now)
	} else {
		a.refused.DeleteEntry(action.UID)
	}
	a.refused.GC()
	return err
}

func (a *Actuator) tryEviction(ctx context.Context, action api.EvictPod) error {
	pods := a.client.CoreV1().Pods(action.Pod.Namespace)
	err := pods.EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: action.Pod.Namespace, Name: action.Pod.Name},
		DeleteOptions: &metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID(action.UID))},
		},
	})
	switch {
	case a.gone(ctx, action.Pod, action.UID, err):
		return nil
	case overBudget(err):
		return fmt.Errorf("evicting pod %s: %w: %w", action.Pod, ErrDisruptionBudget, err)
	case err != nil:
		return fmt.Errorf("evicting pod %s: %w", action.Pod, err)
	}
	// An eviction doesn't tell the version it made. What can't be read is not
	// waited for: the eviction itself has been accepted.
	if pod, err := pods.Get(ctx, action.Pod.Name, metav1.GetOptions{}); err == nil && string(pod.UID) == action.UID {
		a.options.Written("Pod", action.Pod, pod.ResourceVersion)
	}
	return nil
}

// setDeletionCost sets or removes the cost together with the mark that it is
// ours.
func (a *Actuator) setDeletionCost(ctx context.Context, action api.SetDeletionCost) error {
	annotations := map[string]any{
		api.AnnotationPodDeletionCost: strconv.Itoa(int(action.Cost)),
		api.AnnotationDeletionCostSet: "true",
	}
	if action.Clear {
		for k := range annotations {
			annotations[k] = nil
		}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": action.UID, "annotations": annotations},
	})
	if err != nil {
		return fmt.Errorf("deletion cost of pod %s: %w", action.Pod, err)
	}
	pod, err := a.client.CoreV1().Pods(action.Pod.Namespace).Patch(ctx, action.Pod.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: api.FieldManager})
	switch {
	case a.gone(ctx, action.Pod, action.UID, err):
		return nil
	case err != nil:
		return fmt.Errorf("deletion cost of pod %s: %w", action.Pod, err)
	}
	a.options.Written("Pod", action.Pod, pod.ResourceVersion)
	return nil
}
