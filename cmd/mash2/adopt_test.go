package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/adoption"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// scaleAudit logs who writes the scale of anything in the experiment.
const scaleAudit = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    namespaces: ["` + testbed.Mash2 + `"]
    verbs: [update, patch]
    resources: [{group: apps, resources: [deployments/scale]}]
  - level: None
`

// TestAdoption: a workload under the real HPA is adopted, watched in Shadow,
// taken over and released, under a load that never rests. The API server's audit
// log shows one writer at every moment: the HPA, then mash2, then the HPA.
func TestAdoption(t *testing.T) {
	dir := t.TempDir()
	policyFile, auditLog := filepath.Join(dir, "audit.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policyFile, []byte(scaleAudit), 0o644); err != nil {
		t.Fatal(err)
	}
	// Every lull outlasts the window in which the HPA, and mash2 without a forecast,
	// keep what they have (5 minutes): whoever is in charge scales in each of them,
	// whatever the one before had left.
	var swings []scenarios.Stage
	for range 40 {
		swings = append(swings,
			scenarios.Stage{Duration: time.Minute, Target: 250}, scenarios.Stage{Duration: 2 * time.Minute, Target: 250},
			scenarios.Stage{Duration: time.Minute, Target: 30}, scenarios.Stage{Duration: 8 * time.Minute, Target: 30})
	}
	w := newWorld(t, testbed.Options{
		Scenario: scenario(t, 10, swings...), Speed: 10,
		APIServerArgs: []string{"--audit-policy-file=" + policyFile, "--audit-log-path=" + auditLog},
	})
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Mash2, Name: testbed.WorkloadName}}
	if err := w.Client.Delete(t.Context(), mw); err != nil {
		t.Fatal(err)
	}
	theirs := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: testbed.Mash2, Name: "theirs", Labels: map[string]string{"team": "shop"}},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: testbed.WorkloadName},
			MinReplicas:    ptr.To[int32](2), MaxReplicas: 8,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](60)},
			}}},
		},
	}
	if err := w.Client.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	key := testbed.Mash2 + "/" + testbed.WorkloadName
	o := w.operator()
	w.Load.Begin()

	// 1. Imported, in Shadow.
	var made cli.AdoptResult
	w.decode(&made, "adopt", "--in", testbed.Mash2, "-o", "json")
	if len(made.Workloads) != 1 {
		t.Fatalf("adopted %+v, want the one HPA", made)
	}
	if a := made.Workloads[0]; a.Outcome != "made" || a.MinReplicas != 2 || a.MaxReplicas != 8 || *a.TargetPercent != 60 || a.Namespace+"/"+a.Name != key {
		t.Errorf("adopted %+v", a)
	}
	w.decode(&made, "adopt", "--in", testbed.Mash2, "-o", "json")
	if a := made.Workloads[0]; a.Outcome != "managed already" {
		t.Errorf("adopted again: %+v", a)
	}

	// 2. Agreement, while the HPA scales.
	w.eventually("the HPA to scale", func() string { return wantWriters(t, auditLog, "theirs") })
	var report adoption.Report
	w.eventually("a plan in Shadow", func() string {
		w.decode(&report, "adopt", "report", "--for", "5s", "--every", "1s", "-o", "json")
		if a := report.Workloads[0].Agreement; a == nil || a.Samples < 3 || a.Planned < 1 || a.Desired < 1 {
			return fmt.Sprintf("%+v", a)
		}
		return ""
	})
	t.Logf("in Shadow: %+v", report)
	if got := report.Workloads[0]; got.Mode != "Shadow" || got.From != "HorizontalPodAutoscaler/theirs" {
		t.Errorf("report %+v", got)
	}

	// 3. Taken over.
	w.mash2("adopt", "take-over", key)
	w.eventually("mash2 to scale", func() string { return wantWriters(t, auditLog, "theirs", "mash2") })

	// 4. And back.
	w.mash2("release", key)
	back := &autoscalingv2.HorizontalPodAutoscaler{}
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: testbed.Mash2, Name: "theirs"}, back); err != nil {
		t.Fatal(err)
	}
	if *back.Spec.MinReplicas != 2 || back.Spec.MaxReplicas != 8 || back.Labels["team"] != "shop" {
		t.Errorf("the HPA has come back as %+v %v", back.Spec, back.Labels)
	}
	w.eventually("the HPA to scale again", func() string { return wantWriters(t, auditLog, "theirs", "mash2", "theirs") })
	if d := w.deployment(testbed.Mash2); d.Annotations["mash2.io/taken-over"] != "" || slices.ContainsFunc(d.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "mash2" }) {
		t.Errorf("marks of mash2 are left: %v, %v", d.Annotations, d.ManagedFields)
	}
	w.stop(o)
}

// decode runs a command and reads its JSON.
func (w *world) decode(into any, args ...string) {
	w.t.Helper()
	if err := json.Unmarshal([]byte(w.mash2(args...)), into); err != nil {
		w.t.Fatal(err)
	}
}

// wantWriters says how those who wrote the scale, in their order, differ from
// want; another order than wanted ends the test.
func wantWriters(t *testing.T, log string, want ...string) string {
	t.Helper()
	data, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	var got []string
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var event struct {
			UserAgent string
			Response  struct{ Code int } `json:"responseStatus"`
		}
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.Response.Code != 200 {
			continue // a line that is still being written, or no write
		}
		who := "theirs"
		if strings.HasPrefix(event.UserAgent, "mash2/") {
			who = "mash2"
		}
		if len(got) == 0 || got[len(got)-1] != who {
			got = append(got, who)
		}
	}
	if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
		t.Fatalf("writers were %v, want %v: two wrote at a time", got, want)
	}
	if len(got) < len(want) {
		return fmt.Sprintf("writers so far: %v", got)
	}
	return ""
}
