package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// TestSafetyNet: with the operator dead, a safety net of ten minutes scales up
// all the same, and the operator goes on when it is back. While it lives the net
// never writes, although the load rises by as much.
func TestSafetyNet(t *testing.T) {
	const speed = 15
	s := scenario(t, 10,
		scenarios.Stage{Duration: 2 * time.Minute, Target: 10},
		scenarios.Stage{Duration: time.Minute, Target: 80},
		scenarios.Stage{Duration: 14 * time.Minute, Target: 80},
		scenarios.Stage{Duration: time.Minute, Target: 250},
		scenarios.Stage{Duration: 10 * time.Hour, Target: 250},
	)
	s.Pools[0].Nodes, s.Pools[0].NodesPerZone.Min = 6, 6 // nodes are nobody's affair here
	w := newWorld(t, testbed.Options{Scenario: s, Speed: speed})
	o := w.operator()
	w.mash2("adopt", "safety-net", testbed.Mash2+"/"+testbed.WorkloadName, "--after", (10 * time.Minute / speed).String())
	w.Load.Begin()
	at := func(what string, then time.Duration) {
		w.eventually(what, func() string {
			if now := w.Load.ScenarioTime(time.Now()); now < then {
				return now.String()
			}
			return ""
		})
	}
	at("the first rise to be long ago", 16*time.Minute)
	if net := w.writers(); slices.Contains(net, "kube-controller-manager") || !slices.Contains(net, "mash2") {
		t.Errorf("while the operator lives, replicas are written by %v", net)
	}
	if left := w.condition(metav1.ConditionTrue, "", ""); left != "" {
		t.Errorf("beside its safety net: %s", left)
	}
	o.Kill()
	before := w.replicas(testbed.Mash2)
	w.eventually("the net to scale up", func() string {
		if now := w.replicas(testbed.Mash2); now <= before {
			return fmt.Sprintf("%d replicas after %v", now, w.Load.ScenarioTime(time.Now()))
		}
		return ""
	})
	t.Logf("dead at 16m, the load rises at 17m, the net acts at %v: %d → %d replicas",
		w.Load.ScenarioTime(time.Now()).Round(time.Second), before, w.replicas(testbed.Mash2))
	o = w.operator()
	w.eventually("mash2 to scale again", func() string {
		if net := w.writers(); !slices.Contains(net, "mash2") {
			return fmt.Sprint(net)
		}
		return w.condition(metav1.ConditionTrue, "", "")
	})
	w.stop(o)
}

// writers own the replicas of mash2's workload.
func (w *world) writers() []string {
	w.t.Helper()
	var out []string
	for _, e := range w.deployment(testbed.Mash2).ManagedFields {
		if e.Subresource == "scale" {
			out = append(out, e.Manager)
		}
	}
	return out
}
