package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/testbed"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/horizontal"
)

// verticalCRD defines the Vertical Pod Autoscaler's objects, as far as mash2
// reads them.
const verticalCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: verticalpodautoscalers.autoscaling.k8s.io
  annotations: {api-approved.kubernetes.io: https://github.com/kubernetes/kubernetes/pull/63797}
spec:
  group: autoscaling.k8s.io
  scope: Namespaced
  names: {kind: VerticalPodAutoscaler, plural: verticalpodautoscalers, singular: verticalpodautoscaler}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func verticalOf(mode string) string {
	return fmt.Sprintf(`apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {namespace: %s, name: tall}
spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: %s}, updatePolicy: {updateMode: %q}}
`, testbed.Mash2, testbed.WorkloadName, mode)
}

// apply and remove are kubectl's.
func (w *world) apply(manifest string) {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o644); err != nil {
		w.t.Fatal(err)
	}
	if out, err := w.Cluster.Kubectl(w.t.Context(), "apply", "-f", path); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
}

func (w *world) remove(args ...string) {
	w.t.Helper()
	if out, err := w.Cluster.Kubectl(w.t.Context(), append([]string{"delete", "--wait"}, args...)...); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
}

func (w *world) installVerticals() {
	w.t.Helper()
	w.apply(verticalCRD)
	if out, err := w.Cluster.Kubectl(w.t.Context(), "wait", "--for=condition=Established",
		"crd/verticalpodautoscalers.autoscaling.k8s.io", "--timeout=60s"); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
}

// testVertical: a VPA that comes, installation and all, while the operator runs
// is a conflict while it acts, and within one cycle once the kind is known.
func (w *world) testVertical() {
	w.t.Helper()
	const name = "VerticalPodAutoscaler tall"
	w.installVerticals()
	w.apply(verticalOf("Recreate"))
	w.eventually("the condition for the VPA", func() string { return w.condition(metav1.ConditionFalse, "Conflict", name) })
	w.apply(verticalOf("Off"))
	w.eventually("mash2 beside a VPA that is Off", func() string { return w.condition(metav1.ConditionTrue, "", "") })
	w.apply(verticalOf("Initial"))
	// The cycle that has begun may have looked already; the next one has not.
	if c := w.cyclesAfter(time.Now(), 2)[1]; !held(c, name) {
		w.t.Errorf("cycle %d, the first whole one since, doesn't hold: %q", c.ID, c.Workloads[0].Hold)
	}
	w.remove("verticalpodautoscalers.autoscaling.k8s.io", "-n", testbed.Mash2, "tall")
	w.eventually("mash2 to go on without the VPA", func() string { return w.condition(metav1.ConditionTrue, "", "") })
}

// testNodeAutoscaler: the Cluster Autoscaler says that it resizes a pool, and
// then says nothing of it.
func (w *world) testNodeAutoscaler(pool string) {
	w.t.Helper()
	status := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "cluster-autoscaler-status", Annotations: map[string]string{
			"cluster-autoscaler.kubernetes.io/last-updated": time.Now().UTC().Format("2006-01-02 15:04:05.999999999 -0700 MST"),
		}},
		Data: map[string]string{"status": "autoscalerStatus: Running\nnodeGroups:\n- name: MachineDeployment/default/" + pool + "\n"},
	}
	if err := w.Client.Create(w.t.Context(), status); err != nil {
		w.t.Fatal(err)
	}
	from := w.cyclesAfter(time.Now(), 2)[1]
	w.eventually("the condition for Cluster Autoscaler", func() string { return w.movable(metav1.ConditionFalse, "Conflict", "Cluster Autoscaler") })
	for _, c := range w.cyclesAfter(from.Time, 2) {
		for _, o := range c.Outcomes {
			if strings.Contains(o.Object.String(), "pool ") || strings.Contains(o.Object.String(), "node ") {
				w.t.Errorf("cycle %d writes against Cluster Autoscaler: %s", c.ID, o.Action)
			}
		}
	}
	if err := w.Client.Delete(w.t.Context(), status); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("mash2 to have its pool again", func() string { return w.movable(metav1.ConditionTrue, "", "") })
}

// movable says how the Movable condition differs from this.
func (w *world) movable(status metav1.ConditionStatus, reason, message string) string {
	w.t.Helper()
	mw := &v1alpha1.ManagedWorkload{}
	if err := w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: testbed.Mash2, Name: testbed.WorkloadName}, mw); err != nil {
		return err.Error()
	}
	c := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionMovable)
	if c == nil || c.Status != status || reason != "" && c.Reason != reason || !strings.Contains(c.Message, message) {
		return fmt.Sprintf("it is %+v", c)
	}
	return ""
}

// TestWhyAVerticalIsAConflict: under a constant load a VPA for CPU and mash2's
// horizontal planner drive each other to a bound, as they would the HPA; with a
// request that stays the same planner rests at once.
func TestWhyAVerticalIsAConflict(t *testing.T) {
	const (
		demand = 2000 // millicores, constant
		most   = 60
		rounds = 100
	)
	for name, c := range map[string]struct {
		target float64 // utilisation of requests
		factor float64 // VPA's request over mean usage: its margin of 1.15, times peak over mean
		want   int32
	}{
		"a low target: to the maximum": {target: 0.5, factor: 1.15, want: most},
		"a peaky load: to the minimum": {target: 0.8, factor: 2.5, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			plan := func(replicas int32, request float64) int32 {
				now := time.Unix(0, 0)
				out, err := horizontal.Planner{}.PlanWorkload(planning.Input{
					Time: now,
					Workload: api.Workload{
						Key: api.Key{Namespace: "shop", Name: "web"}, Mode: api.ModeFull, MinReplicas: 1, MaxReplicas: most,
						Replicas: replicas, ReadyReplicas: replicas, TargetUtilization: c.target, SpeedNow: 1,
						Shape:  &api.PodShape{Requests: api.Resources{MilliCPU: int64(math.Round(request)), Pods: 1}},
						Demand: api.Series{Start: now.Add(-time.Minute), Step: 15 * time.Second, Values: []float64{demand, demand, demand, demand, demand}},
						Usage:  &api.Usage{At: now, Window: 15 * time.Second, MilliCPU: demand, Pods: replicas},
					},
					Speed:   1,
					Metrics: api.SourceHealth{Reachable: true, LastOK: now}, ResourceMetrics: api.SourceHealth{Reachable: true, LastOK: now},
				})
				if err != nil || out.Held {
					t.Fatalf("%+v, %v", out, err)
				}
				return min(max(out.Replicas, 1), most)
			}
			alone := int32(8)
			for range rounds {
				alone = plan(alone, 500)
			}
			if want := int32(math.Ceil(demand / (500 * c.target))); alone < want-1 || alone > want+1 {
				t.Errorf("alone it comes to %d replicas, want %d within the tolerance", alone, want)
			}
			together := int32(8)
			for range rounds {
				together = plan(together, c.factor*demand/float64(together))
			}
			if together != c.want {
				t.Errorf("together they come to %d replicas, want the bound of %d", together, c.want)
			}
		})
	}
}
