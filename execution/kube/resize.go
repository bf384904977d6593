package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mash2-io/mash2/api"
)

// resize sets what one container of exactly this pod requests, and its limits, through the
// pod's resize subresource; the pod's template is never written. What the API server
// refused is not asked for again at once: a size that a quota or an old kubelet doesn't
// allow now is not one of the next second.
func (a *Actuator) resize(ctx context.Context, action api.ResizePod) error {
	now := a.options.Clock.Now()
	id := fmt.Sprintf("%s %s %v %v", action.UID, action.Container, action.To, action.Limits)
	if a.refused.IsInBackOffSinceUpdate(id, now) {
		return &api.NotTriedError{Why: fmt.Sprintf("it was refused and is requested again after %v", a.refused.Get(id))}
	}
	resources := map[string]any{"requests": quantities(action.To)}
	if limits := quantities(action.Limits); len(limits) > 0 {
		resources["limits"] = limits
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": action.UID},
		"spec":     map[string]any{"containers": []map[string]any{{"name": action.Container, "resources": resources}}},
	})
	if err != nil {
		return fmt.Errorf("resizing pod %s: %w", action.Pod, err)
	}
	pod, err := a.client.CoreV1().Pods(action.Pod.Namespace).Patch(ctx, action.Pod.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: cmp.Or(a.options.ResizesAs, api.FieldManager)}, "resize")
	switch {
	case a.gone(ctx, action.Pod, action.UID, err):
		return nil
	case err != nil:
		a.refused.Next(id, now)
		a.refused.GC()
		return fmt.Errorf("resizing container %s of pod %s to %s: %w", action.Container, action.Pod, action.To, err)
	}
	a.refused.DeleteEntry(id)
	a.options.Written("Pod", action.Pod, pod.ResourceVersion)
	return nil
}

// quantities of what is not 0, as the API has them.
func quantities(of api.Amounts) map[string]string {
	out := map[string]string{}
	if of.MilliCPU > 0 {
		out["cpu"] = fmt.Sprintf("%dm", of.MilliCPU)
	}
	if of.Memory > 0 {
		out["memory"] = api.Bytes(of.Memory)
	}
	return out
}
