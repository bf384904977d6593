package sensing

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/cluster"
)

// published is a resource as its authors publish it, moved to the workload's namespace.
func published(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	body, err := os.ReadFile("slo/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(body, &o.Object); err != nil {
		t.Fatal(err)
	}
	o.SetNamespace(ns)
	return o
}

// TestObjectivesAgainstPrometheus: an objective in four formats, as others publish it, is
// one and the same reading of a real Prometheus, of the workload's own namespace.
func TestObjectivesAgainstPrometheus(t *testing.T) {
	end := time.Now().Add(-3 * time.Hour).Truncate(time.Minute)
	start := end.Add(-10 * time.Minute)
	var text strings.Builder
	text.WriteString("# TYPE http_request_duration_seconds histogram\n")
	requests := func(namespace, job, code string, perSecond float64) {
		n := 0.0
		for at := start; !at.After(end); at = at.Add(15 * time.Second) {
			fmt.Fprintf(&text, "http_request_duration_seconds_count{namespace=%q,job=%q,code=%q} %v %d\n", namespace, job, code, n, at.Unix())
			n += 15 * perSecond
		}
	}
	requests(ns, "myservice", "200", 95)
	requests(ns, "myservice", "429", 2)
	requests(ns, "myservice", "503", 3)
	requests(ns, "healthy", "200", 10)
	requests(ns, "other", "503", 50)
	requests("another", "myservice", "503", 100)
	text.WriteString("# EOF\n")
	prom, err := cluster.StartPrometheus(t.Context(), cluster.PrometheusOptions{History: strings.NewReader(text.String())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = prom.Stop() })

	w := newWorld(t, func(c *Config) { c.PrometheusURL, c.QueryTimeout = prom.URL, 30*time.Second })
	w.clock.SetTime(end)
	w.shop("web", 1)
	openSLO, err := os.ReadFile("slo/testdata/openslo-getting-started.yaml")
	if err != nil {
		t.Fatal(err)
	}
	osko := published(t, "openslo-getting-started.yaml")
	osko.SetAPIVersion("openslo.com/v1")
	osko.SetName("osko")
	w.put(published(t, "sloth-getting-started.yaml"), published(t, "pyrra-getting-started.yaml"), published(t, "pyrra-latency.yaml"), osko)
	const sum = `sum(rate(http_request_duration_seconds_count{job="%s"%s}[{{.window}}]))`
	inline := func(name, job, matcher string) v1alpha1.SLO {
		return v1alpha1.SLO{Name: name, Prometheus: &v1alpha1.PrometheusSLO{
			Objective: "99.9", ErrorQuery: fmt.Sprintf(sum, job, matcher), TotalQuery: fmt.Sprintf(sum, job, ""),
		}}
	}
	ref := func(name string, kind v1alpha1.SLOKind, of, slo string) v1alpha1.SLO {
		return v1alpha1.SLO{Name: name, Ref: &v1alpha1.SLORef{Kind: kind, Name: of, SLO: slo}}
	}
	mw := managed("web")
	mw.Spec.SLOs = []v1alpha1.SLO{
		inline("promql", "myservice", `,code=~"(5..|429)"`),
		ref("sloth", v1alpha1.SLOSloth, "sloth-slo-my-service", "requests-availability"),
		ref("pyrra", v1alpha1.SLOPyrra, "requests-availability", ""),
		ref("openslo", v1alpha1.SLOOpenSLO, "osko", ""),
		{Name: "document", OpenSLO: string(openSLO)},
		inline("healthy", "healthy", `,code=~"5.."`),
		inline("gone", "nobody", `,code=~"5.."`),
		ref("no-such", v1alpha1.SLOSloth, "gone", "x"),
		ref("no-such-objective", v1alpha1.SLOSloth, "sloth-slo-my-service", "latency"),
		inline("elsewhere", "myservice", `,namespace="another"`),
		ref("no-errors-known", v1alpha1.SLOPyrra, "apiserver-read-resource-latency", ""),
	}
	w.put(mw)
	got, _ := w.workload("web")
	if len(got.SLOs) != len(mw.Spec.SLOs) {
		t.Fatalf("%d SLOs of %d: %s %s", len(got.SLOs), len(mw.Spec.SLOs), got.HoldReason, got.Hold)
	}
	for i, want := range []struct {
		perSecond, bad float64
		missing        string
	}{
		{100, 5, ""}, {100, 5, ""}, {100, 5, ""}, {100, 5, ""}, {100, 5, ""},
		{10, 0, ""},
		{0, 0, "gives no series"},
		{0, 0, "there is no PrometheusServiceLevel shop/gone"},
		{0, 0, `has no objective "latency"`},
		{0, 0, "is not of namespace shop"},
		{0, 0, "gives no series"},
	} {
		s := got.SLOs[i]
		if s.Name != mw.Spec.SLOs[i].Name || !strings.Contains(s.Missing, want.missing) || (want.missing == "") != (s.Missing == "") {
			t.Errorf("%s: %+v, want %q", mw.Spec.SLOs[i].Name, s, want.missing)
			continue
		}
		if want.missing == "" && (s.Objective != 0.999 || s.Window != 45*time.Second || !s.At.Equal(end) ||
			math.Abs(s.Total-45*want.perSecond) > 0.5 || math.Abs(s.Bad-45*want.bad) > 0.5) {
			t.Errorf("%s: %+v, want %g of %g a second", s.Name, s, want.bad, want.perSecond)
		}
	}
	// A resource that goes, and an objective that is changed, are seen in the next cycle.
	if err := w.caches.informers[kindPyrra].GetStore().Replace(nil, ""); err != nil {
		t.Fatal(err)
	}
	mw.Spec.SLOs[0].Prometheus.Objective = "90"
	w.put(mw)
	got, _ = w.workload("web")
	if s := got.SLOs[2]; !strings.Contains(s.Missing, "there is no ServiceLevelObjective") {
		t.Errorf("a resource that is gone: %+v", s)
	}
	if s := got.SLOs[0]; s.Objective != 0.9 || s.Missing != "" {
		t.Errorf("a changed objective: %+v", s)
	}
	if err := prom.Kill(); err != nil {
		t.Fatal(err)
	}
	if got, _ = w.workload("web"); got.SLOs[0].Missing == "" {
		t.Errorf("without Prometheus: %+v", got.SLOs[0])
	}
}
