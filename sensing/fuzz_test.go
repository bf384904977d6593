package sensing

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mash2-io/mash2/api"
)

// Whatever a ManagedWorkload holds, also one that was stored under another
// version of its definition: no panic, bounds that can be planned with or a
// hold that says why.
func FuzzManagedWorkload(f *testing.F) {
	for _, spec := range []string{
		`{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"maxReplicas":10}`,
		`{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"minReplicas":-5,"maxReplicas":-1}`,
		`{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"minReplicas":11,"maxReplicas":10}`,
		`{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"minReplicas":1e9,"maxReplicas":99999999999}`,
		`{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"maxReplicas":1.5}`,
		`{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"maxReplicas":10,"targetUtilizationPercent":-7,"mode":"Sideways","planner":"magic"}`,
		`{"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"maxReplicas":10,"behavior":{"scaleDown":{"stabilizationWindowSeconds":2147483647,"tolerance":"1e99","policies":[{"type":"x","value":-1,"periodSeconds":-2147483648}]}}}`,
		`{"targetRef":null,"maxReplicas":null}`,
		`{"targetRef":{"kind":"Deployment"}}`, `{}`, `null`, `[]`, `"x"`,
	} {
		f.Add([]byte(spec))
	}
	f.Fuzz(func(t *testing.T, spec []byte) {
		var value any
		if json.Unmarshal(spec, &value) != nil {
			return
		}
		w := newWorld(t, func(c *Config) { c.History = 30 * c.Step })
		w.shop("web", 1)
		object := map[string]any{
			"apiVersion": "mash2.io/v1alpha1", "kind": "ManagedWorkload",
			"metadata": map[string]any{"namespace": ns, "name": "odd", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": value,
		}
		record, err := w.caches.transform(w.cfg)(&unstructured.Unstructured{Object: object})
		if err != nil {
			t.Fatalf("one bad object keeps the whole cache from filling: %v", err)
		}
		if err := w.caches.informers[kindManagedWorkload].GetStore().Add(record); err != nil {
			t.Fatal(err)
		}
		got, _ := w.workload("odd")
		if got.HoldReason == "" && (got.MinReplicas > got.MaxReplicas || got.MaxReplicas < 1 || got.Shape == nil) {
			t.Errorf("it would be planned between %d and %d", got.MinReplicas, got.MaxReplicas)
		}
		if (got.Hold == "") != (got.HoldReason == "") {
			t.Errorf("held for %q: %q", got.HoldReason, got.Hold)
		}
	})
}

// Whatever managedFields say, no panic; a time only with who it was.
func FuzzScalingFields(f *testing.F) {
	f.Add("kubectl", "", "Update", `{"f:spec":{"f:replicas":{}}}`)
	f.Add("mash2", "scale", "Apply", `{"f:spec":{"f:replicas":{}}}`)
	f.Add("", "", "", `{"f:spec":{"f:replicas":null}}`)
	f.Add("x", "scale", "Update", `{"f:spec":`)
	f.Add("x", "", "Apply", `[]`)
	f.Fuzz(func(t *testing.T, manager, subresource, operation, fields string) {
		at := metav1.NewTime(epoch)
		got := scalingFieldsOf([]metav1.ManagedFieldsEntry{
			{Manager: manager, Subresource: subresource, Operation: metav1.ManagedFieldsOperationType(operation), Time: &at, FieldsV1: metav1.NewFieldsV1(fields)},
			{Manager: "last", FieldsV1: nil},
		})
		if len(got.managers) > 1 || len(got.managers) == 0 && (got.lastBy != "" || !got.last.IsZero()) {
			t.Errorf("%+v", got)
		}
	})
}

// Whatever quotas say, the bounds stay bounds.
func FuzzQuota(f *testing.F) {
	f.Add(int64(2000), int64(200), int64(100), int64(0), int32(2), int32(10))
	f.Add(int64(-1), int64(math.MaxInt64), int64(1), int64(1), int32(0), int32(1))
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), int64(1), int64(1), int32(3), int32(math.MaxInt32))
	f.Fuzz(func(t *testing.T, hard, used, request, limit int64, replicas, most int32) {
		if most < 1 || replicas < 0 {
			return
		}
		q := &quotaRecord{left: map[corev1.ResourceName]int64{"requests.cpu": hard - used, "limits.cpu": hard - used, "pods": hard}}
		w := api.Workload{MinReplicas: min(2, most), MaxReplicas: most, Replicas: replicas, Shape: &api.PodShape{Requests: api.Resources{MilliCPU: request}}}
		_, told := withinQuota(&w, &targetRecord{limitCPU: limit}, nil, []*quotaRecord{q})
		if w.MaxReplicas < 1 || w.MaxReplicas > most || w.MinReplicas > w.MaxReplicas || w.MaxReplicas < min(replicas, most) {
			t.Errorf("%d to %d of %d, with %d there", w.MinReplicas, w.MaxReplicas, most, replicas)
		}
		if told != (w.MaxReplicas < most) {
			t.Errorf("told %v, at most %d of %d", told, w.MaxReplicas, most)
		}
	})
}

// A tenant's words can't leave the namespace that they are said in: what is
// asked of Prometheus names only namespaces with targets, quoted, and an answer
// about another namespace counts for nobody.
func TestQueriesStayInTheirNamespace(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 1)
	w.series = append(w.series, rateSeries{"other", w.series[0].pod, "node-1", "Deployment/web", constant(9)})
	got, _ := w.workload("web")
	for i, v := range got.Demand.Values {
		if v != 200 {
			t.Fatalf("sample %d is %v, want 200: another namespace's pod of the same name counts", i, v)
		}
	}
	for _, q := range w.asked() {
		if !strings.Contains(q.query, `namespace=~"shop"`) {
			t.Errorf("asked without the namespace: %s", q.query)
		}
	}
	// Names of namespaces are checked by the API server; the query doesn't rely on it.
	query := w.demand.prom.newestQuery([]string{`a"} or vector(1) #`, `.*`})
	if want := `namespace=~"a\"\\} or vector\\(1\\) #|\\.\\*"`; !strings.Contains(query, want) {
		t.Errorf("query %s, want %s in it", query, want)
	}
}
