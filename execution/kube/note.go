package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/mash2-io/mash2/api"
)

// managedWorkloads is the collection that notes of take-overs are in.
var managedWorkloads = schema.GroupVersionResource{Group: api.Group, Version: "v1alpha1", Resource: "managedworkloads"}

// ErrOldDefinition is a definition of ManagedWorkloads without the field that a
// take-over is noted in: every scaling would be by force, whoever else scales.
var ErrOldDefinition = errors.New("the definition of ManagedWorkloads is older than this operator: it has no status.takenOver; apply that of the chart")

// note of a take-over is status.takenOver of a ManagedWorkload: the UID of the
// target whose replicas were taken.
type note struct {
	workload *unstructured.Unstructured
	uid      string // empty without a note
}

// of reports whether it is of this very target, not of an earlier one of the same
// name.
func (n note) of(target *unstructured.Unstructured) bool {
	return n.uid != "" && n.uid == string(target.GetUID())
}

// readNote reads it from the API server, not from a cache, which may not have it yet.
func (a *Actuator) readNote(ctx context.Context, workload api.Key) (note, error) {
	w, err := named(ctx, a.dynamic.Resource(managedWorkloads).Namespace(workload.Namespace), managedWorkloads.Resource, workload.Name)
	if err != nil {
		return note{}, fmt.Errorf("reading whether it was taken over: %w", err)
	}
	uid, _, err := unstructured.NestedString(w.Object, "status", "takenOver")
	if err != nil {
		return note{}, fmt.Errorf("reading whether it was taken over: %w", err)
	}
	return note{w, uid}, nil
}

// rehearse writes the note without keeping it. What can't be noted is not taken.
func (a *Actuator) rehearse(ctx context.Context, n note, target *unstructured.Unstructured) error {
	_, err := a.patchNote(ctx, n, target, metav1.DryRunAll)
	return err
}

// write writes the note, and tells that.
func (a *Actuator) write(ctx context.Context, n note, target *unstructured.Unstructured) error {
	w, err := a.patchNote(ctx, n, target)
	if err != nil {
		return err
	}
	a.options.Written("ManagedWorkload", api.Key{Namespace: w.GetNamespace(), Name: w.GetName()}, w.GetResourceVersion())
	return nil
}

func (a *Actuator) patchNote(ctx context.Context, n note, target *unstructured.Unstructured, dryRun ...string) (*unstructured.Unstructured, error) {
	// The UID keeps the note from a ManagedWorkload made anew meanwhile.
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": n.workload.GetUID()},
		"status":   map[string]any{"takenOver": target.GetUID()},
	})
	if err != nil {
		return nil, err
	}
	w, err := a.dynamic.Resource(managedWorkloads).Namespace(n.workload.GetNamespace()).Patch(ctx, n.workload.GetName(), types.MergePatchType, body,
		metav1.PatchOptions{FieldManager: api.FieldManager, DryRun: dryRun}, "status")
	if err != nil {
		return nil, fmt.Errorf("noting the take-over: %w", err)
	}
	if kept, _, _ := unstructured.NestedString(w.Object, "status", "takenOver"); kept == "" {
		return nil, fmt.Errorf("noting the take-over: %w", ErrOldDefinition)
	}
	return w, nil
}

// named returns the object of that name as the API server has it now. It lists, which
// the role allows for watching anyway: a get would be a right of its own.
func named(ctx context.Context, resource dynamic.ResourceInterface, kind, name string) (*unstructured.Unstructured, error) {
	list, err := resource.List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].GetName() == name {
			return &list.Items[i], nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}
