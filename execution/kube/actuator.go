// Package kube carries out actions on workloads, pods and nodes through the
// Kubernetes API. Every action is idempotent: done again, or on something that
// is gone, it changes nothing and succeeds where that is what was wanted.
package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/mash2-io/mash2/api"
)

// Options of an Actuator.
type Options struct {
	// Written, if not nil, is told of every object that was written: its kind,
	// its name and the resource version that the write made, so that caches can
	// be waited for. It must not block.
	Written func(kind string, key api.Key, resourceVersion string)
	// EvictionBackoff is how long an eviction that was refused is not asked for
	// again, the first time; then twice as long each time, up to
	// longestEvictionBackoff times that. 0 is no such wait.
	EvictionBackoff time.Duration
	// ResizesAs is the field manager of resizes; empty for api.FieldManager.
	ResizesAs string
	// Clock of it; nil is the real one.
	Clock clock.Clock
}

// longestEvictionBackoff is the longest wait in first ones.
const longestEvictionBackoff = 32

// Actuator writes to a cluster. It may be used concurrently.
type Actuator struct {
	client  kubernetes.Interface
	dynamic dynamic.Interface
	mapper  meta.ResettableRESTMapper
	options Options
	// refused are evictions that were, by the pod's UID; an operator that has just
	// started knows of none and asks at once.
	refused *flowcontrol.Backoff
}

// New returns an Actuator for the cluster that cfg reaches. It makes no call
// yet.
func New(cfg *rest.Config, o Options) (*Actuator, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the Kubernetes client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the dynamic client: %w", err)
	}
	if o.Written == nil {
		o.Written = func(string, api.Key, string) {}
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	// The fake one is the real one with a clock of ours.
	refused := flowcontrol.NewFakeBackOff(o.EvictionBackoff, longestEvictionBackoff*o.EvictionBackoff, o.Clock)
	return &Actuator{client: client, dynamic: dyn, mapper: mapper, options: o, refused: refused}, nil
}

// Apply carries one action out. Errors to be told apart: *ConflictError,
// ErrDisruptionBudget, ErrForeignCordon, *api.NotTriedError; all others wrap the API
// server's.
// Resizing pools and removing nodes are the provider's affair and refused.
func (a *Actuator) Apply(ctx context.Context, action api.Action) error {
	switch action := action.(type) {
	case api.ScaleWorkload:
		return a.scale(ctx, action)
	case api.CordonNode:
		return a.cordon(ctx, action)
	case api.UncordonNode:
		return a.uncordon(ctx, action)
	case api.GiveUpMove:
		return a.giveUpMove(ctx, action)
	case api.EvictPod:
		return a.evict(ctx, action)
	case api.SetDeletionCost:
		return a.setDeletionCost(ctx, action)
	case api.ResizePod:
		return a.resize(ctx, action)
	default:
		return fmt.Errorf("kube: can't %s", action.Kind())
	}
}

// scale applies spec.replicas to the target's scale subresource as the field
// manager mash2; nothing else of a target is ever written. The first time it takes
// the field from whoever owns it and notes that in the ManagedWorkload's status; from
// then on somebody else's claim is a *ConflictError, but for that of its own safety
// net. The note comes after the field: killed in between, the field is taken once
// more, while the other order would look like a lost claim.
func (a *Actuator) scale(ctx context.Context, action api.ScaleWorkload) error {
	wrap := func(err error) error {
		return fmt.Errorf("scaling %s %s/%s to %d: %w", action.Target.Kind, action.Workload.Namespace, action.Target.Name, action.To, err)
	}
	resource, err := a.resource(action.Target, action.Workload.Namespace)
	if err != nil {
		return wrap(err)
	}
	target, err := named(ctx, resource, action.Target.Kind, action.Target.Name)
	if err != nil {
		return wrap(err)
	}
	if err := a.spares(ctx, action, target); err != nil {
		return err
	}
	note, err := a.readNote(ctx, action.Workload)
	if err != nil {
		return wrap(err)
	}
	noted := note.of(target)
	_, older := target.GetAnnotations()[api.AnnotationTakenOver]
	taken := noted || older
	if !taken {
		if err := a.rehearse(ctx, note, target); err != nil {
			return wrap(err)
		}
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "Scale",
		"metadata": map[string]any{"name": target.GetName(), "namespace": target.GetNamespace()},
		"spec":     map[string]any{"replicas": action.To},
	})
	if err != nil {
		return wrap(err)
	}
	force := !taken
	apply := func(force bool) (*unstructured.Unstructured, error) {
		return resource.Patch(ctx, target.GetName(), types.ApplyPatchType, body,
			metav1.PatchOptions{FieldManager: api.FieldManager, Force: &force}, "scale")
	}
	scaled, err := apply(force)
	manager, conflict := conflictingManager(err)
	if conflict && (manager == action.TakeFrom || manager == nobody) {
		scaled, err = apply(true)
		manager, conflict = conflictingManager(err)
	}
	if conflict {
		return &ConflictError{Workload: action.Workload, Target: action.Target, Manager: manager}
	}
	if err != nil {
		return wrap(err)
	}
	key := api.Key{Namespace: target.GetNamespace(), Name: target.GetName()}
	a.options.Written(action.Target.Kind, key, scaled.GetResourceVersion())
	if noted {
		return nil
	}
	if err := a.write(ctx, note, target); err != nil {
		return wrap(err)
	}
	return nil
}

// resource is the collection that a target is in.
func (a *Actuator) resource(t api.TargetRef, namespace string) (dynamic.ResourceInterface, error) {
	gv, err := schema.ParseGroupVersion(t.APIVersion)
	if err != nil {
		return nil, err
	}
	kind := gv.WithKind(t.Kind)
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		// It may have been installed since discovery.
		a.mapper.Reset()
		mapping, err = a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return nil, fmt.Errorf("%s is not namespaced", kind)
	}
	return a.dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}

// gone tells by a write's error that a pod, or the one with the UID that was meant, doesn't
// exist any more. A UID that differs is a conflict when it is a precondition, and a change of
// an immutable field when it is part of a patch. A conflict may as well be about another
// object, such as the pod's budget, or be one of the pod with itself: then it is there.
func (a *Actuator) gone(ctx context.Context, pod api.Key, uid string, err error) bool {
	if apierrors.IsConflict(err) {
		now, err := a.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && string(now.UID) != uid
	}
	if apierrors.IsNotFound(err) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}
