package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// TestCanaryStatus: what the status says of a trial, and that it goes with the mode.
func TestCanaryStatus(t *testing.T) {
	var status v1alpha1.ManagedWorkloadStatus
	for _, c := range []struct {
		phase api.CanaryPhase
		mode  api.Mode
		want  metav1.ConditionStatus // empty for none
	}{
		{api.CanaryWaiting, api.ModeCanary, metav1.ConditionUnknown},
		{api.CanaryRunning, api.ModeCanary, metav1.ConditionUnknown},
		{api.CanaryPromoted, api.ModeCanary, metav1.ConditionTrue},
		{api.CanaryStopped, api.ModeCanary, metav1.ConditionFalse},
		{api.CanaryRunning, api.ModeShadow, ""}, // a control
		{"", api.ModeFull, ""},
	} {
		plan := api.WorkloadPlan{Key: api.Key{Namespace: "shop", Name: "web"}}
		if c.phase != "" {
			plan.Canary = &api.CanaryPlan{Phase: c.phase, Role: api.CanaryCanary, With: "cart", Acts: true, Since: now, Waits: "it runs"}
		}
		status = statusOf(cycle(now, nil), plan, api.WorkloadStatus{Key: plan.Key, Mode: c.mode, Generation: 3}, status)
		got := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPromoted)
		if (got == nil) != (c.want == "") || got != nil && (got.Status != c.want || got.Reason != string(c.phase) || got.Message != "it runs" || got.ObservedGeneration != 3) {
			t.Errorf("%s, %s: %+v", c.phase, c.mode, got)
		}
		if s := status.Canary; (s == nil) != (c.phase == "") || s != nil && (s.Phase != string(c.phase) || s.With != "cart" || s.Role != "Canary" || !s.Acts) {
			t.Errorf("%s, %s: %+v", c.phase, c.mode, s)
		}
	}
	off := statusOff(cycle(now, nil), api.WorkloadStatus{Mode: api.ModeOff}, v1alpha1.ManagedWorkloadStatus{
		Canary:     &v1alpha1.CanaryStatus{},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionPromoted}},
	})
	if off.Canary != nil || meta.FindStatusCondition(off.Conditions, v1alpha1.ConditionPromoted) != nil {
		t.Errorf("Off: %+v", off)
	}
}

// TestCanaryMetrics: one phase a workload, and the evidence once a namespace.
func TestCanaryMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	m.Report(t.Context(), cycle(now, func(c *api.Cycle) {
		c.Plan.Workloads = nil
		for _, name := range []string{"cart", "web"} {
			c.Plan.Workloads = append(c.Plan.Workloads, api.WorkloadPlan{
				Key: api.Key{Namespace: "shop", Name: name}, Demand: -1, PeakDemand: -1,
				Canary: &api.CanaryPlan{Phase: api.CanaryRunning, Role: api.CanaryControl, Worse: 2, Fine: 3, Since: now.Add(-time.Hour)},
			})
		}
	}))
	want := `# HELP mash2_canary_evidence Evidence, 1 to begin with, that a namespace's canaries are worse than they may be, and that they are fine.
# TYPE mash2_canary_evidence gauge
mash2_canary_evidence{namespace="shop",of="fine"} 3
mash2_canary_evidence{namespace="shop",of="worse"} 2
# HELP mash2_workload_canary 1 for the phase of the trial that a workload is in, and its role there.
# TYPE mash2_workload_canary gauge
mash2_workload_canary{namespace="shop",phase="Running",role="Control",workload="cart"} 1
mash2_workload_canary{namespace="shop",phase="Running",role="Control",workload="web"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "mash2_canary_evidence", "mash2_workload_canary"); err != nil {
		t.Error(err)
	}
}
