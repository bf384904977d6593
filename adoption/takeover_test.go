package adoption

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mash2-io/mash2/api/v1alpha1"
)

// Without an operator nobody would scale once the other autoscaler is gone: it stays until an operator has
// seen that mash2 is to scale.
func TestTakeOverNeedsTheOperatorToHaveSeenIt(t *testing.T) {
	b := newBed(t, false, hpa(), adopted(t), target())
	if err := b.adoption.TakeOver(t.Context(), web); !errors.Is(err, ErrNotSeen) || b.theirs() == nil {
		t.Errorf("without an operator: %v, HPA %v", err, b.theirs())
	}
	c := FromScaledObject(scaledObject(), nil)
	b = newBed(t, false, scaledObject(), &c.Workload, target())
	if err := b.adoption.TakeOver(t.Context(), web); !errors.Is(err, ErrNotSeen) {
		t.Errorf("without an operator: %v", err)
	}
	if slices.Contains(b.writes, "patch ScaledObject") {
		t.Errorf("writes %v: the ScaledObject is paused", b.writes)
	}
	b = newBed(t, false, adopted(t), target())
	if err := b.adoption.TakeOver(t.Context(), web); err != nil || b.workload().Spec.Mode != v1alpha1.ModeFull {
		t.Errorf("where nobody else scales: %v, mode %s", err, b.workload().Spec.Mode)
	}
}

func TestKEDAIsPausedAndResumed(t *testing.T) {
	c := FromScaledObject(scaledObject(), nil)
	b := newBed(t, true, scaledObject(), &c.Workload, target())
	paused := func() bool {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(scaledObjectKind)
		if err := b.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web-so"}, u); err != nil {
			t.Fatal(err)
		}
		return u.GetAnnotations()[annotationKEDAPaused] == "true"
	}
	if err := b.adoption.TakeOver(t.Context(), web); err != nil || !paused() {
		t.Errorf("take-over: %v, paused %v", err, paused())
	}
	if err := b.adoption.Release(t.Context(), web, false); err != nil || paused() {
		t.Errorf("release: %v, paused %v", err, paused())
	}
}

// TestWhatKEDAScalesForMash2StaysWithIt: mash2 does not write the replicas of what KEDA scales by its plan, so that a
// pause of KEDA would leave them to nobody, and a safety net would be a Conflict.
func TestWhatKEDAScalesForMash2StaysWithIt(t *testing.T) {
	c := FromScaledObject(scaledObject(), nil)
	c.Workload.Spec.Actuator, c.Workload.Spec.Mode = v1alpha1.ActuatorKEDA, v1alpha1.ModeFull
	b := newBed(t, true, scaledObject(), &c.Workload, target())
	for what, do := range map[string]func() error{
		"take-over":  func() error { return b.adoption.TakeOver(t.Context(), web) },
		"safety net": func() error { return b.adoption.SafetyNet(t.Context(), web, time.Minute) },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "spec.actuator is KEDA") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if len(b.writes) != 0 {
		t.Errorf("it wrote %v", b.writes)
	}
}

// TestAPauseOfTheirsStays: somebody had paused the ScaledObject, and that is what release gives back, also where
// the take-over was run twice.
func TestAPauseOfTheirsStays(t *testing.T) {
	for _, before := range []string{"true", "false", ""} {
		so := scaledObject()
		if before != "" {
			so.SetAnnotations(map[string]string{annotationKEDAPaused: before})
		}
		c := FromScaledObject(so, nil)
		b := newBed(t, true, so, &c.Workload, target())
		paused := func() string {
			if err := b.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web-so"}, so); err != nil {
				t.Fatal(err)
			}
			return so.GetAnnotations()[annotationKEDAPaused]
		}
		for range 2 {
			if err := b.adoption.TakeOver(t.Context(), web); err != nil || paused() != "true" {
				t.Errorf("paused %q, take-over: %v, paused %q", before, err, paused())
			}
		}
		if err := b.adoption.Release(t.Context(), web, false); err != nil || paused() != before {
			t.Errorf("paused %q, release: %v, paused %q", before, err, paused())
		}
		if _, left := b.workload().Annotations[AnnotationPaused]; left {
			t.Errorf("paused %q: the note stays", before)
		}
	}
}
