package main

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// rising is a load that asks for ever more replicas.
func rising(t *testing.T) testbed.Options {
	t.Helper()
	return testbed.Options{Speed: 15, Scenario: scenario(t, 10,
		scenarios.Stage{Duration: 2 * time.Minute, Target: 10},
		scenarios.Stage{Duration: 10 * time.Minute, Target: 400},
		scenarios.Stage{Duration: 10 * time.Hour, Target: 400},
	)}
}

// TestPause: mash2 pause stops every write within one cycle, while planning
// goes on; mash2 resume takes it back.
func TestPause(t *testing.T) {
	w := newWorld(t, rising(t))
	o := w.operator()
	w.Load.Begin()
	least := w.replicas(testbed.Mash2)
	w.eventually("a first scale-up", func() string {
		if w.replicas(testbed.Mash2) == least {
			return "still at the least"
		}
		return ""
	})

	w.mash2("pause")
	paused := time.Now()
	if got := w.mash2("policy", "get"); !strings.Contains(got, "paused") {
		t.Errorf("policy get does not say that it is paused: %s", got)
	}
	// The cycle that was under way may end; the next one must not write.
	w.cyclesAfter(paused, 1)
	held := w.replicas(testbed.Mash2)
	skipped := 0
	wanted := func() string {
		skipped = 0
		after := w.cyclesAfter(paused, 2)
		for _, c := range after {
			for _, out := range c.Outcomes {
				if out.Skipped == "paused" {
					skipped++
				}
			}
		}
		if last := after[len(after)-1]; skipped == 0 || len(last.Plan.Workloads) == 0 || last.Plan.Workloads[0].Replicas <= held+1 {
			return "the plan has not gone on"
		}
		return ""
	}
	w.eventually("plans beyond what is written", wanted)
	writing := 0
	for i, c := range w.cyclesAfter(paused, 2) {
		if !c.Paused {
			writing++
			if i > 0 {
				t.Errorf("cycle %d, the %d. after the pause, is not paused", c.ID, i+1)
			}
			continue
		}
		for _, out := range c.Outcomes {
			if out.Skipped != "paused" {
				t.Errorf("cycle %d is paused and did: %s", c.ID, out.Action)
			}
		}
	}
	if got := w.replicas(testbed.Mash2); got != held {
		t.Errorf("replicas went from %d to %d during the pause", held, got)
	}
	t.Logf("held at %d replicas; %d actions skipped; %d cycles still wrote", held, skipped, writing)

	w.mash2("resume")
	w.eventually("scaling to go on", func() string {
		if w.replicas(testbed.Mash2) <= held {
			return "still at what the pause held"
		}
		return ""
	})
	w.stop(o)
}

// TestShadow: a workload in Shadow is planned and shown, and never written.
func TestShadow(t *testing.T) {
	options := rising(t)
	options.Mode = v1alpha1.ModeShadow
	w := newWorld(t, options)
	before := w.deployment(testbed.Mash2)
	o := w.operator()
	w.Load.Begin()
	w.until("a plan for more replicas", func(c api.Cycle) bool {
		return len(c.Plan.Workloads) == 1 && c.Plan.Workloads[0].Shadow && c.Plan.Workloads[0].Replicas > *before.Spec.Replicas
	})
	w.cyclesAfter(time.Now(), 5)
	for _, c := range w.records() {
		for _, out := range c.Outcomes {
			t.Errorf("cycle %d acted on a shadow: %s", c.ID, out.Action)
		}
	}
	after := w.deployment(testbed.Mash2)
	if after.Generation != before.Generation || *after.Spec.Replicas != *before.Spec.Replicas {
		t.Errorf("the Deployment was changed: generation %d → %d, replicas %d → %d",
			before.Generation, after.Generation, *before.Spec.Replicas, *after.Spec.Replicas)
	}
	w.stop(o)
}

// TestLastGoodPolicySurvivesKill: a broken ConfigMap and a crash leave the last
// good policy in force.
func TestLastGoodPolicySurvivesKill(t *testing.T) {
	w := newWorld(t, steady(t))
	o := w.operator()
	w.Load.Begin()
	w.mash2("policy", "set", api.Performance)
	w.until("the policy to be in force", func(c api.Cycle) bool { return c.Policy.Name == api.Performance })

	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Namespace, Name: testbed.PolicyConfigMap}}
	broken := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"policy":"COST_SAVING","policies.yaml":"policies: {COST_SAVING: {nodePool: [x]}}"}}`))
	if err := w.Client.Patch(t.Context(), cm, broken); err != nil {
		t.Fatal(err)
	}
	o.Kill()
	killed := time.Now()

	o = w.operator()
	for _, c := range w.cyclesAfter(killed, 3)[:3] {
		if c.Policy.Name != api.Performance {
			t.Errorf("cycle %d has policy %s, want %s", c.ID, c.Policy.Name, api.Performance)
		}
		said := false
		for _, f := range c.Findings {
			said = said || f.Reason == "InvalidPolicy"
		}
		if !said {
			t.Errorf("cycle %d has no finding InvalidPolicy", c.ID)
		}
	}
	w.stop(o)
}
