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
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
)

// giveBackSizes gives the running pods of a target what their author wrote for them, where mash2
// made that less: nobody raises it any more when they need it. What mash2 made more of stays. A pod
// whose node has no room for larger requests gets back its limits, as far as its quality of service
// lets it, and Adoption.Warn hears of it.
func (a Adoption) giveBackSizes(ctx context.Context, o *unstructured.Unstructured, pods []corev1.Pod) error {
	if o == nil {
		return nil
	}
	field, _, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "template")
	object, ok := field.(map[string]any)
	if err != nil || !ok {
		return err
	}
	var template corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &template); err != nil {
		return fmt.Errorf("the template of %s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
	}
	var errs []error
	for i := range pods {
		pod := &pods[i]
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || !sizedByMash2(pod) {
			continue
		}
		if err := a.giveBackSize(ctx, pod, template.Spec.Containers); err != nil {
			errs = append(errs, fmt.Errorf("giving pod %s/%s back what its author wrote: %w", pod.Namespace, pod.Name, err))
		}
	}
	return errors.Join(errs...)
}

// sizedByMash2 reports whether mash2 gave a pod its size, and nobody else after that.
func sizedByMash2(pod *corev1.Pod) bool {
	ours := pod.Annotations[api.AnnotationSizedBy] != ""
	for _, e := range pod.ManagedFields {
		if e.Subresource == "resize" {
			if e.Manager != api.FieldManager && e.Manager != api.AgentsManager {
				return false
			}
			ours = true
		}
	}
	return ours
}

// giveBackSize writes what a pod is to get back: all of it, or its limits where its node, a quota or
// whoever else has no room for the rest. What is refused keeps nobody from being released.
func (a Adoption) giveBackSize(ctx context.Context, pod *corev1.Pod, written []corev1.Container) error {
	want := asWritten(pod, written)
	if len(changed(pod, want)) == 0 {
		return nil
	}
	fits, err := a.fits(ctx, want)
	if err != nil {
		return err
	}
	why := fmt.Errorf("node %s has no room for it", pod.Spec.NodeName)
	if fits {
		why = a.resize(ctx, pod, want)
	}
	if why == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	a.warn("pod %s/%s requests less than its author wrote: %v; delete it, and a new one has it", pod.Namespace, pod.Name, why)
	if err := a.resize(ctx, pod, limitsOf(pod, want)); err != nil {
		a.warn("pod %s/%s is limited to less, too: %v", pod.Namespace, pod.Name, err)
	}
	return ctx.Err()
}

// resize makes a pod what it is to be, in one write.
func (a Adoption) resize(ctx context.Context, pod, want *corev1.Pod) error {
	containers := changed(pod, want)
	if len(containers) == 0 {
		return nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "spec": map[string]any{"containers": containers}})
	if err != nil {
		return err
	}
	// In mash2's name: who takes the workload over later must not find somebody else's size.
	err = a.Client.SubResource("resize").Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, body), client.FieldOwner(api.FieldManager))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone, or another one has its name
		return nil
	}
	return err
}

// changed are the containers of a patch that makes a pod what it is to be.
func changed(pod, want *corev1.Pod) (out []map[string]any) {
	for i, c := range want.Spec.Containers {
		if is := pod.Spec.Containers[i].Resources; !sameAmounts(c.Resources.Requests, is.Requests) || !sameAmounts(c.Resources.Limits, is.Limits) {
			out = append(out, map[string]any{"name": c.Name, "resources": map[string]any{"requests": c.Resources.Requests, "limits": c.Resources.Limits}})
		}
	}
	return out
}

// asWritten is a pod with what its author wrote where it has less, but for what a change restarts.
func asWritten(pod *corev1.Pod, written []corev1.Container) *corev1.Pod {
	want := pod.DeepCopy()
	for i := range want.Spec.Containers {
		c := &want.Spec.Containers[i]
		at := slices.IndexFunc(written, func(w corev1.Container) bool { return w.Name == c.Name })
		if at < 0 {
			continue
		}
		for _, p := range []struct{ is, written corev1.ResourceList }{
			{c.Resources.Requests, written[at].Resources.Requests}, {c.Resources.Limits, written[at].Resources.Limits},
		} {
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				is, has := p.is[name]
				if was, wrote := p.written[name]; has && wrote && is.Cmp(was) < 0 && !restarts(c, name) {
					p.is[name] = was
				}
			}
		}
	}
	return want
}

// limitsOf is a pod with the limits that it is to have and the requests that it has, unless that would
// be another quality of service.
func limitsOf(pod, want *corev1.Pod) *corev1.Pod {
	if pod.Status.QOSClass == corev1.PodQOSGuaranteed {
		return pod
	}
	out := want.DeepCopy()
	for i := range out.Spec.Containers {
		out.Spec.Containers[i].Resources.Requests = pod.Spec.Containers[i].Resources.Requests
	}
	return out
}

func sameAmounts(a, b corev1.ResourceList) bool {
	return a.Cpu().Equal(*b.Cpu()) && a.Memory().Equal(*b.Memory())
}

// restarts reports whether another amount of a resource restarts a container.
func restarts(c *corev1.Container, name corev1.ResourceName) bool {
	return slices.ContainsFunc(c.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		return p.ResourceName == name && p.RestartPolicy == corev1.RestartContainer
	})
}

// fits reports whether a pod's node has room for what it is to request.
func (a Adoption) fits(ctx context.Context, want *corev1.Pod) (bool, error) {
	var nodes corev1.NodeList
	named := fields.OneTermEqualSelector(metav1.ObjectNameField, want.Spec.NodeName)
	if err := a.Client.List(ctx, &nodes, client.MatchingFieldsSelector{Selector: named}); apierrors.IsForbidden(err) {
		return true, nil // its kubelet says it
	} else if err != nil || len(nodes.Items) != 1 {
		return false, err
	}
	var pods corev1.PodList
	if err := a.Client.List(ctx, &pods, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", want.Spec.NodeName)}); apierrors.IsForbidden(err) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	return roomFor(&nodes.Items[0], pods.Items, want), nil
}

// roomFor reports whether a node has room for a pod beside the others there.
func roomFor(node *corev1.Node, pods []corev1.Pod, want *corev1.Pod) bool {
	cpu, memory := node.Status.Allocatable.Cpu().DeepCopy(), node.Status.Allocatable.Memory().DeepCopy()
	take := func(p *corev1.Pod) {
		requests := resource.PodRequests(p, resource.PodResourcesOptions{})
		cpu.Sub(*requests.Cpu())
		memory.Sub(*requests.Memory())
	}
	take(want)
	for i := range pods {
		if p := &pods[i]; p.UID != want.UID && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			take(p)
		}
	}
	return cpu.Sign() >= 0 && memory.Sign() >= 0
}
