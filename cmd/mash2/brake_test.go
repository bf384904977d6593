package main

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/experiments/testbed"
)

// TestPauseWithNothingThere: the brake works before any operator runs and without a
// policy ConfigMap, and resume takes it back.
func TestPauseWithNothingThere(t *testing.T) {
	w := newWorld(t, rising(t))
	gone := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Namespace, Name: testbed.PolicyConfigMap}}
	if err := w.Client.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	w.mash2("pause")
	o := w.operator()
	w.Load.Begin()
	least := w.replicas(testbed.Mash2)
	w.eventually("plans that aren't carried out", func() string {
		for _, c := range w.cyclesAfter(time.Time{}, 1) {
			for _, out := range c.Outcomes {
				if out.Skipped != "paused" {
					t.Fatalf("cycle %d is paused and did: %s", c.ID, out.Action)
				}
			}
			if len(c.Outcomes) > 0 {
				return ""
			}
		}
		return "nothing is planned yet"
	})
	if got := w.replicas(testbed.Mash2); got != least {
		t.Errorf("replicas went from %d to %d during the pause", least, got)
	}
	w.mash2("resume")
	w.eventually("scaling to go on", func() string {
		if w.replicas(testbed.Mash2) <= least {
			return "still at what the pause held"
		}
		return ""
	})
	w.stop(o)
}
