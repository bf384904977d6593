package adoption

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

var web = types.NamespacedName{Namespace: "shop", Name: "web"}

func hpa() *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-hpa", UID: "h", Labels: map[string]string{"team": "a"}},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			MinReplicas:    ptr.To[int32](2), MaxReplicas: 7,
		},
	}
}

func scaledObject() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"scaleTargetRef": map[string]any{"name": "web"}},
	}}
	u.SetGroupVersionKind(scaledObjectKind)
	u.SetNamespace("shop")
	u.SetName("web-so")
	return u
}

// bed is an API server with an operator that sees every generation at once,
// where it is told so.
type bed struct {
	*testing.T
	client.Client
	adoption Adoption
	// writes in their order, as "verb kind".
	writes []string
	// fail makes the n-th write fail, from 1.
	fail int
	// refuse is asked before each write; nil refuses none.
	refuse func(client.Object) error
	// refuseLists is asked before each list; nil refuses none.
	refuseLists func() error
	// refuseStatus is the answer to each write of a status; nil refuses none.
	refuseStatus error
	mu           sync.Mutex // of writes and requests
	requests     int
}

func newBed(t *testing.T, operator bool, objects ...client.Object) *bed {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	scheme.AddKnownTypeWithName(scaledObjectKind, &unstructured.Unstructured{})
	list := scaledObjectKind
	list.Kind += "List"
	scheme.AddKnownTypeWithName(list, &unstructured.UnstructuredList{})
	b := &bed{T: t}
	write := func(verb string, o client.Object) error {
		kind := o.GetObjectKind().GroupVersionKind().Kind
		switch o.(type) {
		case *v1alpha1.ManagedWorkload:
			kind = "ManagedWorkload"
		case *autoscalingv2.HorizontalPodAutoscaler:
			kind = KindHPA
		case *corev1.Node:
			kind = "Node"
		case *corev1.Pod:
			kind = "Pod"
		}
		if b.refuse != nil {
			if err := b.refuse(o); err != nil {
				return err
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.requests++
		b.writes = append(b.writes, verb+" "+kind)
		if len(b.writes) == b.fail {
			return apierrors.NewInternalError(errors.New("killed here"))
		}
		return nil
	}
	b.Client = interceptor.NewClient(
		fake.NewClientBuilder().WithStatusSubresource(&v1alpha1.ManagedWorkload{}).WithScheme(scheme).WithReturnManagedFields().WithObjects(objects...).Build(),
		interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if err := write("create", o); err != nil {
					return err
				}
				return c.Create(ctx, o, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if err := write("delete", o); err != nil {
					return err
				}
				return c.Delete(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if err := write("patch", o); err != nil {
					return err
				}
				err := c.Patch(ctx, o, p, opts...)
				if w, ok := o.(*v1alpha1.ManagedWorkload); ok {
					w.Generation = 2
				}
				return err
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if b.refuseStatus != nil {
					return b.refuseStatus
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.requests++
				if b.refuseLists != nil {
					if err := b.refuseLists(); err != nil {
						return err
					}
				}
				return c.List(ctx, list, opts...)
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				b.mu.Lock()
				b.requests++
				b.mu.Unlock()
				err := c.Get(ctx, key, o, opts...)
				if w, ok := o.(*v1alpha1.ManagedWorkload); ok { // the fake server counts no generations
					w.Generation = 2
					w.Status.ObservedGeneration = 1
					if operator {
						w.Status.ObservedGeneration = 2
					}
				}
				return err
			},
		})
	b.adoption = Adoption{Client: b.Client, Patience: 200 * time.Millisecond, Poll: time.Millisecond}
	return b
}

func (b *bed) workload() *v1alpha1.ManagedWorkload {
	b.Helper()
	w := &v1alpha1.ManagedWorkload{}
	if err := b.Get(b.Context(), web, w); err != nil {
		b.Fatal(err)
	}
	return w
}

func (b *bed) theirs() (spec *autoscalingv2.HorizontalPodAutoscalerSpec) {
	b.Helper()
	h := &autoscalingv2.HorizontalPodAutoscaler{}
	switch err := b.Get(b.Context(), types.NamespacedName{Namespace: "shop", Name: "web-hpa"}, h); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		b.Fatal(err)
	}
	return &h.Spec
}

func target() *appsv1.Deployment {
	owns := &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:replicas":{}}}`)} //nolint:staticcheck // as it comes from the API server
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", Annotations: map[string]string{api.AnnotationTakenOver: "true", "other": "stays"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: api.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: owns, Subresource: "scale"},
				{Manager: "helm", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: owns},
			},
		},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](5)},
	}
}

func adopted(t *testing.T) client.Object {
	t.Helper()
	c := FromHPA(hpa())
	return &c.Workload
}

// A workload in Canary stays in that, marked as handed over, and comes back likewise.
func TestThereAndBackInCanary(t *testing.T) {
	mw := adopted(t).(*v1alpha1.ManagedWorkload)
	mw.Spec.Mode = v1alpha1.ModeCanary
	b := newBed(t, true, hpa(), mw, target())
	if err := b.adoption.TakeOver(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch ManagedWorkload", "delete HorizontalPodAutoscaler"}, b.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if w := b.workload(); w.Spec.Mode != v1alpha1.ModeCanary || w.Annotations[api.AnnotationHandedOver] == "" || b.theirs() != nil {
		t.Errorf("after the take-over: mode %s, annotations %v, HPA %v", w.Spec.Mode, w.Annotations, b.theirs())
	}
	b.writes = nil
	if err := b.adoption.Release(t.Context(), web, false); err != nil {
		t.Fatal(err)
	}
	if w := b.workload(); w.Spec.Mode != v1alpha1.ModeShadow || w.Annotations[api.AnnotationHandedOver] != "" || b.theirs() == nil {
		t.Errorf("after the release: mode %s, annotations %v, HPA %v", w.Spec.Mode, w.Annotations, b.theirs())
	}
	i, j := slices.Index(b.writes, "patch ManagedWorkload"), slices.Index(b.writes, "create HorizontalPodAutoscaler")
	if i < 0 || j < i {
		t.Errorf("writes %v: Shadow must come before the HPA", b.writes)
	}
}

// From Shadow to Full and back: the HPA is saved before it is deleted, and comes
// back as it was, after mash2 writes no more.
func TestThereAndBack(t *testing.T) {
	b := newBed(t, true, hpa(), adopted(t), target())
	if err := b.adoption.TakeOver(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch ManagedWorkload", "delete HorizontalPodAutoscaler"}, b.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if w := b.workload(); w.Spec.Mode != v1alpha1.ModeFull || w.Annotations[AnnotationSaved] == "" || b.theirs() != nil {
		t.Errorf("after the take-over: mode %s, HPA %v", w.Spec.Mode, b.theirs())
	}
	b.writes = nil
	if err := b.adoption.Release(t.Context(), web, false); err != nil {
		t.Fatal(err)
	}
	if got := b.theirs(); got == nil || *got.MinReplicas != 2 || got.MaxReplicas != 7 {
		t.Errorf("the HPA has come back as %+v", got)
	}
	if w := b.workload(); w.Spec.Mode != v1alpha1.ModeShadow || w.Annotations[AnnotationSaved] != "" {
		t.Errorf("after the release: %+v", w)
	}
	i, j := slices.Index(b.writes, "patch ManagedWorkload"), slices.Index(b.writes, "create HorizontalPodAutoscaler")
	if i < 0 || j < i {
		t.Errorf("writes %v: Shadow must come before the HPA", b.writes)
	}
	d := &appsv1.Deployment{}
	if err := b.Get(t.Context(), web, d); err != nil {
		t.Fatal(err)
	}
	if *d.Spec.Replicas != 5 || d.Annotations[api.AnnotationTakenOver] != "" || d.Annotations["other"] != "stays" {
		t.Errorf("the target has %d replicas and annotations %v", *d.Spec.Replicas, d.Annotations)
	}
}

// Killed at any write, running it again completes it, and at no moment may both
// write: as long as the HPA is there mash2 holds, and mash2 is in Full only
// while the HPA is saved or there.
func TestKilledOnTheWay(t *testing.T) {
	takeOver := func(b *bed) error { return b.adoption.TakeOver(t.Context(), web) }
	release := func(b *bed) error { return b.adoption.Release(t.Context(), web, false) }
	for at := 1; at <= 8; at++ {
		b := newBed(t, true, hpa(), adopted(t), target())
		b.fail = at
		failures := 0
		for i, step := range []func(*bed) error{takeOver, takeOver, release, release} {
			if err := step(b); err != nil {
				failures++
				if len(b.writes) != at {
					t.Fatalf("killed at write %d: step %d: %v", at, i, err)
				}
			}
			if w := b.workload(); b.theirs() == nil && w.Annotations[AnnotationSaved] == "" {
				t.Errorf("killed at write %d: after step %d the HPA is lost", at, i)
			} else if i >= 2 && b.theirs() != nil && w.Spec.Mode != v1alpha1.ModeShadow {
				t.Errorf("killed at write %d: after step %d the HPA is back and mash2 in %s", at, i, w.Spec.Mode)
			}
		}
		if failures > 1 { // what comes after a refused write of marks is tried again by itself
			t.Errorf("killed at write %d of %v: %d steps failed", at, b.writes, failures)
		}
		if err := release(b); err != nil || b.theirs() == nil {
			t.Errorf("killed at write %d: in the end %v, HPA %v", at, err, b.theirs())
		}
	}
}

// An HPA that changes between being saved and deleted is saved again: within Patience, and then
// mash2 holds until it is gone.
func TestAnHPAThatChangesIsSavedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		changes int // as often it is another than the one saved
		taken   bool
	}{"twice": {2, true}, "always": {1 << 30, false}} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, true, hpa(), adopted(t), target())
			deletes, began := 0, time.Now()
			b.refuse = func(o client.Object) error {
				if _, ok := o.(*autoscalingv2.HorizontalPodAutoscaler); !ok {
					return nil
				}
				if deletes++; deletes > c.changes {
					return nil
				}
				if time.Since(began) > 10*time.Second {
					return errors.New("it goes on for ever")
				}
				return apierrors.NewConflict(schema.GroupResource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}, "web-hpa", errors.New("it has changed"))
			}
			err := b.adoption.TakeOver(t.Context(), web)
			if (err == nil) != c.taken || (b.theirs() == nil) != c.taken {
				t.Errorf("taken over: %v, HPA %v, want it taken over: %v", err, b.theirs(), c.taken)
			}
			if !c.taken && (!apierrors.IsConflict(err) || !strings.Contains(err.Error(), "mash2 holds until it is gone")) {
				t.Errorf("error = %v", err)
			}
			if b.workload().Annotations[AnnotationSaved] == "" {
				t.Error("the HPA is not saved")
			}
		})
	}
}

// TestNoSecondHPAIsMade: of two HorizontalPodAutoscalers of a target neither scales it, so the one that was saved stays
// away where somebody has made another one.
func TestNoSecondHPAIsMade(t *testing.T) {
	for name, all := range map[string]bool{"one workload": false, "all": true} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, true, hpa(), adopted(t), target())
			if err := b.adoption.TakeOver(t.Context(), web); err != nil {
				t.Fatal(err)
			}
			another := hpa()
			another.Name, another.UID = "web-new", "n"
			if err := b.Create(t.Context(), another); err != nil {
				t.Fatal(err)
			}
			var said []string
			b.adoption.Warn = func(text string) { said = append(said, text) }
			var err error
			if all {
				_, err = b.adoption.ReleaseAll(t.Context(), false)
			} else {
				err = b.adoption.Release(t.Context(), web, false)
			}
			if err != nil || b.theirs() != nil {
				t.Errorf("released: %v, HPA %v beside another", err, b.theirs())
			}
			if len(said) != 1 || !strings.Contains(said[0], "shop/web-hpa is not created again: web-new scales Deployment web by now") {
				t.Errorf("it said %q", said)
			}
		})
	}
}

// TestAnHPAThatNobodyLookedAt: what was only just created has said nothing yet.
func TestAnHPAThatNobodyLookedAt(t *testing.T) {
	for name, c := range map[string]struct {
		status autoscalingv2.HorizontalPodAutoscalerStatus
		want   int32
		known  bool
	}{
		"just created":        {},
		"it wants three":      {autoscalingv2.HorizontalPodAutoscalerStatus{DesiredReplicas: 3}, 3, true},
		"it was told to stop": {autoscalingv2.HorizontalPodAutoscalerStatus{Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScalingActive}}}, 0, true},
	} {
		h := hpa()
		h.Status = c.status
		b := newBed(t, true, h, adopted(t), target())
		if got, known, err := b.adoption.Desired(t.Context(), b.workload()); err != nil || got != c.want || known != c.known {
			t.Errorf("%s: %d, %v, %v", name, got, known, err)
		}
	}
}

// A comparison of a day outlives an API server that does not answer for a moment, but not a name that nobody has.
func TestOneLookThatFails(t *testing.T) {
	h, mw := hpa(), adopted(t).(*v1alpha1.ManagedWorkload)
	h.Status.DesiredReplicas, mw.Status.PlannedReplicas = 3, ptr.To[int32](3)
	b := newBed(t, true, h, mw, target())
	lists, told := 0, 0
	b.refuseLists = func() error {
		if lists++; lists > 2 && lists < 6 {
			return apierrors.NewTimeoutError("it is busy", 1)
		}
		return nil
	}
	b.adoption.Warn = func(string) { told++ }
	r, err := b.adoption.Watch(t.Context(), nil, 200*time.Millisecond, 10*time.Millisecond)
	if err != nil || len(r.Workloads) != 1 || r.Workloads[0].Agreement == nil || r.Workloads[0].Samples < 2 || told == 0 || r.Seconds < 0.1 {
		t.Errorf("%+v, %v, told %d times", r, err, told)
	}
	lists = 2
	if _, err := b.adoption.Watch(t.Context(), nil, 0, time.Second); !apierrors.IsTimeout(err) {
		t.Errorf("the first look fails: %v", err)
	}
	lists = 6
	other := types.NamespacedName{Namespace: "shop", Name: "wbe"}
	if _, err := b.adoption.Watch(t.Context(), []types.NamespacedName{web, other}, 0, time.Second); err == nil || !strings.Contains(err.Error(), "no ManagedWorkload shop/wbe") {
		t.Errorf("of a name that nobody has: %v", err)
	}
}

func TestReleaseNeedsTheOperatorToHaveSeenIt(t *testing.T) {
	w := adopted(t)
	w.(*v1alpha1.ManagedWorkload).Status.TakenOver = "a"
	b := newBed(t, false, w, target())
	if err := b.adoption.Release(t.Context(), web, false); !errors.Is(err, ErrNotSeen) {
		t.Errorf("without an operator: %v, want %v", err, ErrNotSeen)
	}
	if err := b.adoption.Release(t.Context(), web, true); err != nil {
		t.Errorf("where there is none: %v", err)
	}
	// Nobody else takes the note of the take-over back.
	now := &v1alpha1.ManagedWorkload{}
	if err := b.adoption.Client.Get(t.Context(), web, now); err != nil || now.Status.TakenOver != "" {
		t.Errorf("noted as taken over by %q; %v", now.Status.TakenOver, err)
	}
}

// Who may not write a status may release all the same, and is told.
func TestReleaseWithoutRightsOnStatus(t *testing.T) {
	objects := midMove(t)
	for _, o := range objects {
		if w, ok := o.(*v1alpha1.ManagedWorkload); ok {
			w.Status.TakenOver = "a"
		}
	}
	b := newBed(t, false, objects...)
	b.refuseStatus = apierrors.NewForbidden(schema.GroupResource{Resource: "managedworkloads/status"}, "web", nil)
	if err := b.adoption.Release(t.Context(), web, true); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "note of the take-over") {
		t.Errorf("error = %v", err)
	}
	if b.theirs() == nil {
		t.Error("the HPA is not back")
	}
}

func TestASavedObjectOfSomethingElseIsRefused(t *testing.T) {
	c := FromHPA(hpa())
	c.Workload.Annotations[AnnotationSaved] = `{"metadata":{"namespace":"shop","name":"x"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"till"},"maxReplicas":900}}`
	b := newBed(t, true, &c.Workload, target())
	if err := b.adoption.Release(t.Context(), web, false); err == nil || !strings.Contains(err.Error(), "metadata.annotations["+AnnotationSaved+"]") {
		t.Errorf("error = %v", err)
	}
}

func TestFindAndCreate(t *testing.T) {
	theirs := hpa()
	theirs.Name, theirs.UID = "keda-hpa-web-so", "k"
	theirs.OwnerReferences = []metav1.OwnerReference{{Kind: KindScaledObject, Name: "web-so"}}
	b := newBed(t, true, hpa(), theirs, scaledObject())
	found, err := b.adoption.Find(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range found {
		names = append(names, c.Kind+"/"+c.Name)
	}
	if diff := cmp.Diff([]string{"HorizontalPodAutoscaler/web-hpa", "ScaledObject/web-so"}, names); diff != "" {
		t.Error(diff)
	}
	for i, want := range []bool{true, false} { // both are of one target
		if made, err := b.adoption.Create(t.Context(), found[i]); err != nil || made != want {
			t.Errorf("%s: made %v, %v", names[i], made, err)
		}
	}
}
