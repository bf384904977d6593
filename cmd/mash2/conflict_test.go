package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// TestConflict: another controller on our field is said and not opposed, and
// mash2 goes on when it is gone. First an HPA, then a VPA, then a node
// autoscaler; then a quota and a LimitRange that refuse pods; then somebody who
// takes the field by hand.
func TestConflict(t *testing.T) {
	w := newWorld(t, testbed.Options{
		Scenario: scenario(t, 10,
			scenarios.Stage{Duration: 2 * time.Minute, Target: 10},
			scenarios.Stage{Duration: time.Minute, Target: 250},
			scenarios.Stage{Duration: 10 * time.Hour, Target: 250},
		),
		Speed: 10,
	})
	o := w.operator()
	w.cyclesAfter(time.Now(), 2)

	foreign := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Mash2, Name: "theirs"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: testbed.WorkloadName},
			MaxReplicas:    3,
		},
	}
	if err := w.Client.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	seen := w.until("a cycle that holds for the HPA", func(c api.Cycle) bool { return held(c, "HorizontalPodAutoscaler theirs") })
	w.eventually("the condition", func() string { return w.condition(metav1.ConditionFalse, "Conflict", "theirs") })

	// The load now asks for many more; nothing is written all the same.
	w.Load.Begin()
	w.eventually("the load", func() string {
		if now := w.Load.ScenarioTime(time.Now()); now < 5*time.Minute {
			return now.String()
		}
		return ""
	})
	for _, c := range w.records() {
		if c.ID < seen.ID {
			continue
		}
		for _, out := range c.Outcomes {
			if strings.Contains(out.Object.String(), testbed.WorkloadName) {
				t.Errorf("cycle %d writes against the HPA: %s", c.ID, out.Action)
			}
		}
	}
	if err := w.Client.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	least := w.replicas(testbed.Mash2)
	w.eventually("mash2 to go on", func() string {
		if now := w.replicas(testbed.Mash2); now <= max(least, 3) {
			return fmt.Sprintf("still at %d replicas", now)
		}
		return w.condition(metav1.ConditionTrue, "", "")
	})

	w.testVertical()
	w.testNodeAutoscaler(w.records()[0].Plan.PoolsInUse()[0])

	w.testRefused()

	// Somebody scales by hand: that is an order too.
	if out, err := w.Cluster.Kubectl(t.Context(), "scale", "-n", testbed.Mash2, "deployment/"+testbed.WorkloadName, "--replicas=5"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.eventually("the condition", func() string { return w.condition(metav1.ConditionFalse, "Conflict", "kubectl") })
	w.cyclesAfter(time.Now(), 4)
	if now := w.replicas(testbed.Mash2); now != 5 {
		t.Errorf("%d replicas although somebody has set 5", now)
	}
	w.stop(o)
}

func held(c api.Cycle, why string) bool {
	return len(c.Workloads) > 0 && c.Workloads[0].HoldReason == "Conflict" && strings.Contains(c.Workloads[0].Hold, why)
}

// condition says how the Ready condition of the ManagedWorkload differs from
// this; "" if it doesn't.
func (w *world) condition(status metav1.ConditionStatus, reason, message string) string {
	w.t.Helper()
	mw := &v1alpha1.ManagedWorkload{}
	if err := w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: testbed.Mash2, Name: testbed.WorkloadName}, mw); err != nil {
		return err.Error()
	}
	ready := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != status || (reason != "" && ready.Reason != reason) || !strings.Contains(ready.Message, message) {
		return fmt.Sprintf("it is %+v", ready)
	}
	return ""
}
