package adoption

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// annotationKEDAPaused makes KEDA let go of a target, its HPA included.
const annotationKEDAPaused = "autoscaling.keda.sh/paused"

// annotationKEDAPausedReplicas does so, too, at that number of replicas.
const annotationKEDAPausedReplicas = "autoscaling.keda.sh/paused-replicas"

// FieldManager of what this package writes itself.
const FieldManager = "mash2-cli"

// Adoption works on a cluster with the rights of whoever runs it.
type Adoption struct {
	Client client.Client
	// Patience bounds each wait for somebody else: the operator, KEDA.
	Patience time.Duration
	// Poll is the pause between two looks while waiting.
	Poll time.Duration
	// Warn gets what is to be known and is no failure; nil for nobody.
	Warn func(string)

	all *everything // of a release of all workloads; nil of others
}

func (a Adoption) warn(format string, args ...any) {
	if a.all != nil {
		a.all.warns.Lock()
		defer a.all.warns.Unlock()
	}
	if a.Warn != nil {
		a.Warn(fmt.Sprintf(format, args...))
	}
}

// ErrNotSeen means: the operator has not seen the change in time, so that it may
// still write.
var ErrNotSeen = errors.New("the operator has not seen the change in time")

// Find returns a Candidate for every autoscaler of some namespaces, all if there
// are none, in order of namespace, kind and name. HPAs that KEDA made are not
// among them.
func (a Adoption) Find(ctx context.Context, namespaces []string) ([]Candidate, error) {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var out []Candidate
	for _, ns := range namespaces {
		hpas, err := a.hpas(ctx, ns)
		if err != nil {
			return nil, err
		}
		theirs := map[string]*autoscalingv2.HorizontalPodAutoscaler{} // by ScaledObject
		for i := range hpas {
			if owner := ownerOfKEDA(&hpas[i]); owner != "" {
				theirs[hpas[i].Namespace+"/"+owner] = &hpas[i]
			} else if !isNet(&hpas[i]) {
				out = append(out, FromHPA(&hpas[i]))
			}
		}
		objects, err := a.scaledObjects(ctx, ns)
		if err != nil {
			return nil, err
		}
		for i := range objects {
			out = append(out, FromScaledObject(&objects[i], theirs[objects[i].GetNamespace()+"/"+objects[i].GetName()]))
		}
	}
	slices.SortFunc(out, func(x, y Candidate) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
	return out, nil
}

// hpas of a namespace, or of all. In a release of all workloads they are those of its beginning, of one namespace.
func (a Adoption) hpas(ctx context.Context, namespace string) ([]autoscalingv2.HorizontalPodAutoscaler, error) {
	if a.all != nil {
		return a.all.hpas[namespace], nil
	}
	var list autoscalingv2.HorizontalPodAutoscalerList
	if err := a.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing HorizontalPodAutoscalers: %w", err)
	}
	return list.Items, nil
}

// scaledObjects are none where KEDA isn't installed.
func (a Adoption) scaledObjects(ctx context.Context, namespace string) ([]unstructured.Unstructured, error) {
	if a.all != nil {
		return a.all.scaledObjects[namespace], nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(scaledObjectKind)
	err := a.Client.List(ctx, list, client.InNamespace(namespace))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing ScaledObjects: %w", err)
	}
	return list.Items, nil
}

// Managed reports whether the candidate's target has a ManagedWorkload.
func (a Adoption) Managed(ctx context.Context, c Candidate) (bool, error) {
	var list v1alpha1.ManagedWorkloadList
	if err := a.Client.List(ctx, &list, client.InNamespace(c.Namespace)); err != nil {
		return false, fmt.Errorf("listing ManagedWorkloads: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(w v1alpha1.ManagedWorkload) bool {
		return w.Spec.TargetRef.Kind == c.Workload.Spec.TargetRef.Kind && w.Spec.TargetRef.Name == c.Workload.Spec.TargetRef.Name
	}), nil
}

// Create makes the candidate's ManagedWorkload, in Shadow. It returns false if
// the target has one already.
func (a Adoption) Create(ctx context.Context, c Candidate) (bool, error) {
	if managed, err := a.Managed(ctx, c); managed || err != nil {
		return false, err
	}
	err := a.Client.Create(ctx, c.Workload.DeepCopy(), client.FieldOwner(FieldManager))
	if apierrors.IsAlreadyExists(err) {
		return false, fmt.Errorf("ManagedWorkload %s/%s exists, for another target", c.Namespace, c.Workload.Name)
	}
	if err != nil {
		return false, fmt.Errorf("creating ManagedWorkload %s/%s: %w", c.Namespace, c.Workload.Name, err)
	}
	return true, nil
}

// scalersOf are the autoscalers of a target: HPAs of their own, and
// ScaledObjects with whatever HPA KEDA made for them.
func (a Adoption) scalersOf(ctx context.Context, namespace string, target v1alpha1.TargetRef) (own []autoscalingv2.HorizontalPodAutoscaler, keda []unstructured.Unstructured, kedaHPAs int, err error) {
	hpas, err := a.hpas(ctx, namespace)
	if err != nil {
		return nil, nil, 0, err
	}
	for _, h := range hpas {
		switch ref := h.Spec.ScaleTargetRef; {
		case ref.Kind != target.Kind || ref.Name != target.Name || isNet(&h):
		case ownerOfKEDA(&h) != "":
			kedaHPAs++
		default:
			own = append(own, h)
		}
	}
	objects, err := a.scaledObjects(ctx, namespace)
	if err != nil {
		return nil, nil, 0, err
	}
	for _, o := range objects {
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "scaleTargetRef", "kind")
		name, _, _ := unstructured.NestedString(o.Object, "spec", "scaleTargetRef", "name")
		if cmp.Or(kind, "Deployment") == target.Kind && name == target.Name {
			keda = append(keda, o)
		}
	}
	return own, keda, kedaHPAs, nil
}

// Desired is what the other autoscalers of a workload's target want now, the
// most of them; ok is false when there is none, or none that has said it.
func (a Adoption) Desired(ctx context.Context, w *v1alpha1.ManagedWorkload) (desired int32, ok bool, err error) {
	hpas, err := a.hpas(ctx, w.Namespace)
	if err != nil {
		return 0, false, err
	}
	for _, h := range hpas {
		if h.Status.DesiredReplicas == 0 && len(h.Status.Conditions) == 0 {
			continue // nobody has looked at it yet
		}
		if ref := h.Spec.ScaleTargetRef; ref.Kind == w.Spec.TargetRef.Kind && ref.Name == w.Spec.TargetRef.Name && !isNet(&h) {
			desired, ok = max(desired, h.Status.DesiredReplicas), true
		}
	}
	return desired, ok, nil
}

// TakeOver makes mash2 the writer of a workload's target. The order keeps it at
// one writer: mode Full changes nothing while another autoscaler is there,
// because the operator holds for it; once the operator has seen that, the other one is taken
// away (an HPA is saved in an annotation and deleted, a ScaledObject paused), and the operator
// goes on in its next cycle. Without an operator that answers within Patience it fails with
// ErrNotSeen where there is another one, which goes on. Interrupted anywhere, it can be run again. A workload in
// mode Canary stays in that, where mash2 leaves alone what somebody else scales likewise. Where
// objects change between being read and written it is tried again within Patience. A workload that
// KEDA scales by mash2's plan is refused: paused, its ScaledObject would leave it to nobody.
func (a Adoption) TakeOver(ctx context.Context, key types.NamespacedName) error {
	end := time.Now().Add(a.Patience)
	for {
		err := a.takeOver(ctx, key)
		if !apierrors.IsConflict(err) || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(a.Poll):
		}
	}
}

// takeOver tries it once. A conflict is of an object that has changed since it was read.
func (a Adoption) takeOver(ctx context.Context, key types.NamespacedName) error {
	w := &v1alpha1.ManagedWorkload{}
	if err := a.Client.Get(ctx, key, w); err != nil {
		return fmt.Errorf("reading ManagedWorkload %s: %w", key, err)
	}
	if w.Spec.Actuator == v1alpha1.ActuatorKEDA {
		// Without the ScaledObject nobody would scale it.
		return fmt.Errorf("ManagedWorkload %s: spec.actuator is KEDA, which scales it as mash2 plans: to have mash2 scale it, set spec.actuator to %s first", key, v1alpha1.ActuatorMash2)
	}
	own, keda, _, err := a.scalersOf(ctx, key.Namespace, w.Spec.TargetRef)
	if err != nil {
		return err
	}
	if len(own) > 1 {
		return fmt.Errorf("%d HorizontalPodAutoscalers scale %s %s: they conflict already: keep only one", len(own), w.Spec.TargetRef.Kind, w.Spec.TargetRef.Name)
	}
	// 1. Saved before it is deleted, and Full in the same write.
	before := w.DeepCopy()
	if w.Annotations == nil {
		w.Annotations = map[string]string{}
	}
	_, handed := w.Annotations[api.AnnotationHandedOver]
	again := handed || w.Spec.Mode == v1alpha1.ModeFull || w.Spec.Mode == "" // KEDA's pause may be of this
	if w.Spec.Mode == v1alpha1.ModeCanary {
		// It is tried, and until that ends mash2 keeps to the reactive rule.
		w.Annotations[api.AnnotationHandedOver] = "true"
	} else {
		w.Spec.Mode = v1alpha1.ModeFull
	}
	for i := range own {
		saved, err := json.Marshal(stripped(&own[i]))
		if err != nil {
			return err
		}
		w.Annotations[AnnotationFrom], w.Annotations[AnnotationSaved] = KindHPA+"/"+own[i].Name, string(saved)
	}
	for i := range keda {
		w.Annotations[AnnotationFrom] = KindScaledObject + "/" + keda[i].GetName()
		if paused, ok := keda[i].GetAnnotations()[annotationKEDAPaused]; ok && !again {
			w.Annotations[AnnotationPaused] = paused
		}
	}
	if err := a.Client.Patch(ctx, w, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("setting ManagedWorkload %s to Full: %w", key, err)
	}
	// 2. Seen: somebody is there who goes on where the other one ends.
	if len(own)+len(keda) > 0 {
		if _, err := a.seen(ctx, w, a.Patience); err != nil {
			return fmt.Errorf("ManagedWorkload %s is in %s: %w: what scales it now goes on; see whether the operator runs, and run this again, or mash2 release", key, w.Spec.Mode, err)
		}
	}
	// 3. The other one, exactly as it was saved.
	for i := range own {
		uid, version := own[i].UID, own[i].ResourceVersion
		err := a.Client.Delete(ctx, &own[i], client.Preconditions{UID: &uid, ResourceVersion: &version})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting HorizontalPodAutoscaler %s/%s: %w; mash2 holds until it is gone", key.Namespace, own[i].Name, err)
		}
	}
	for i := range keda {
		if err := a.pauseKEDA(ctx, &keda[i], "true"); err != nil {
			return fmt.Errorf("pausing ScaledObject %s/%s: %w; mash2 holds until it is paused", key.Namespace, keda[i].GetName(), err)
		}
	}
	// 4. KEDA takes its HPA away itself.
	return a.wait(ctx, func() error {
		_, _, left, err := a.scalersOf(ctx, key.Namespace, w.Spec.TargetRef)
		if err == nil && left > 0 {
			err = errors.New("KEDA has not deleted its HorizontalPodAutoscaler in time; mash2 holds until it has")
		}
		return err
	})
}

// pauseKEDA sets the annotation, or removes it with an empty value.
func (a Adoption) pauseKEDA(ctx context.Context, o *unstructured.Unstructured, value string) error {
	var v any
	if value != "" {
		v = value
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotationKEDAPaused: v}}})
	if err != nil {
		return err
	}
	return a.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, body), client.FieldOwner(FieldManager))
}

// stripped is an HPA as its author wrote it.
func stripped(h *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta: metav1.TypeMeta{APIVersion: autoscalingv2.SchemeGroupVersion.String(), Kind: KindHPA},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: h.Namespace, Name: h.Name, Labels: h.Labels, Annotations: h.Annotations,
			OwnerReferences: h.OwnerReferences,
		},
		Spec: h.Spec,
	}
}

// wait tries until it succeeds, patience ends or ctx does; then the last error
// is returned.
func (a Adoption) wait(ctx context.Context, try func() error) error {
	return a.waitFor(ctx, a.Patience, try)
}

// waitFor is wait with a patience of its own. It tries at least once.
func (a Adoption) waitFor(ctx context.Context, patience time.Duration, try func() error) error {
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		err := try()
		if err == nil || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-end.C:
			return err
		case <-time.After(a.Poll):
		}
	}
}
