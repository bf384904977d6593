package slo

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// read a fixture in its own format.
func read(t *testing.T, name string) (Definition, error) {
	t.Helper()
	body, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var o struct {
		Kind string         `json:"kind"`
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(body, &o); err != nil {
		t.Fatal(err)
	}
	spec, err := yaml.Marshal(o.Spec)
	if err != nil {
		t.Fatal(err)
	}
	switch o.Kind {
	case KindSloth:
		all, wrong, err := FromSloth(spec)
		for _, e := range wrong {
			return Definition{}, e
		}
		for _, d := range all {
			return d, err
		}
		return Definition{}, err
	case KindPyrra:
		return FromPyrra(spec)
	}
	return FromOpenSLO(body)
}

// TestOneObjective: the same objective in four formats is one and the same.
func TestOneObjective(t *testing.T) {
	want := Definition{
		Objective: 0.999, PerSecond: true, SameMetric: true,
		Bad:   `sum(rate(http_request_duration_seconds_count{code=~"(5..|429)",job="myservice"}[{{.window}}]))`,
		Total: `sum(rate(http_request_duration_seconds_count{job="myservice"}[{{.window}}]))`,
	}
	inline, err := FromPromQL("99.90", `sum( rate(http_request_duration_seconds_count{code=~"(5..|429)", job="myservice"}[{{ .window }}]) )`,
		`sum(rate(http_request_duration_seconds_count{job='myservice'}[5m]))`)
	got := map[string]Definition{"PromQL": inline}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sloth-getting-started.yaml", "openslo-getting-started.yaml", "pyrra-getting-started.yaml"} {
		d, err := read(t, name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got[name] = d
	}
	for name, d := range got {
		if diff := cmp.Diff(sorted(t, want), sorted(t, d)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	bad, total := inline.Over(45 * time.Second)
	if !strings.Contains(bad, "[45s]") || !strings.Contains(total, "[45s]") {
		t.Errorf("over 45 s: %s, %s", bad, total)
	}
}

// sorted parses the queries, so that the test does not depend on how PromQL is printed.
func sorted(t *testing.T, d Definition) Definition {
	t.Helper()
	for _, text := range []*string{&d.Bad, &d.Total} {
		expr, err := parser.ParseExpr(strings.ReplaceAll(*text, placeholder, "1m"))
		if err != nil {
			t.Fatal(err)
		}
		*text = expr.String()
	}
	return d
}

// TestNoGoodEvents: all events less the good ones have no series where there are no good ones, and all are bad.
func TestNoGoodEvents(t *testing.T) {
	all := `sum(rate(http_requests_total{job="web"}[5m]))`
	for bad, want := range map[string]bool{
		`sum(rate(http_requests_total{job="web",code=~"5.."}[5m]))`:          true,
		`sum(rate(http_errors_total{job="web"}[5m]))`:                        false,
		all + ` - sum(rate(http_requests_total{job="web",code=~"2.."}[5m]))`: false,
	} {
		d, err := FromPromQL("99.9", bad, all)
		if err != nil || d.SameMetric != want {
			t.Errorf("%s: no series of it means no bad events: %t, want %t; %v", bad, d.SameMetric, want, err)
		}
	}
}

// TestPublished: what others publish is read.
func TestPublished(t *testing.T) {
	for name, want := range map[string]Definition{
		"pyrra-http-errors.yaml": {
			Objective: 0.995, PerSecond: true, SameMetric: true,
			Bad:   `sum(rate(prometheus_operator_kubernetes_client_http_requests_total{job="prometheus-operator",status_code=~"5.."}[{{.window}}]))`,
			Total: `sum(rate(prometheus_operator_kubernetes_client_http_requests_total{job="prometheus-operator"}[{{.window}}]))`,
		},
		"pyrra-latency.yaml": {
			Objective: 0.99, PerSecond: true,
			Bad: `(sum(rate(apiserver_request_sli_duration_seconds_count{component="apiserver",scope=~"resource|",verb=~"LIST|GET"}[{{.window}}]))) - ` +
				`(sum(rate(apiserver_request_sli_duration_seconds_bucket{component="apiserver",le="0.1",scope=~"resource|",verb=~"LIST|GET"}[{{.window}}])))`,
			Total: `sum(rate(apiserver_request_sli_duration_seconds_count{component="apiserver",scope=~"resource|",verb=~"LIST|GET"}[{{.window}}]))`,
		},
		"openslo-ratio.yaml": {
			Objective: 0.98, PerSecond: true,
			Bad: `(sum(rate(localhost_server_requests{code="total",host="*",instance="127.0.0.1:9090"}[{{.window}}]))) - ` +
				`(sum(rate(localhost_server_requests{code=~"2xx|3xx",host="*",instance="127.0.0.1:9090"}[{{.window}}])))`,
			Total: `sum(rate(localhost_server_requests{code="total",host="*",instance="127.0.0.1:9090"}[{{.window}}]))`,
		},
	} {
		got, err := read(t, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(sorted(t, want), sorted(t, got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestRefusedObjectives: what can't be read says why.
func TestRefusedObjectives(t *testing.T) {
	const sum = `sum(rate(x_total[{{.window}}]))`
	for name, c := range map[string]struct {
		read func() (Definition, error)
		want string
	}{
		"100 %":     {func() (Definition, error) { return FromPromQL("100", sum, sum) }, "below 100"},
		"no number": {func() (Definition, error) { return FromPromQL("high", sum, sum) }, `is "high"`},
		"no PromQL": {func() (Definition, error) { return FromPromQL("99", "sum(", sum) }, "of bad events"},
		"no query":  {func() (Definition, error) { return FromPromQL("99", sum, "") }, "there is no query"},
		"no range":  {func() (Definition, error) { return FromPromQL("99", "sum(x_total)", sum) }, "no range"},
		"patterns that repeat": {func() (Definition, error) {
			return FromPromQL("99", `sum(increase(x_total{a=~"`+strings.Repeat("a{1000}", 20)+`"}[{{.window}}]))`, sum)
		}, "of bad events: the regular expression"},
		"endless in length": {func() (Definition, error) { return FromPromQL("99", sum, sum+strings.Repeat(" ", maxText)) }, "of all events: is longer than 16384 bytes"},
		"two ways":          {func() (Definition, error) { return FromPromQL("99", "sum(increase(x_total[{{.window}}]))", sum) }, "the same function"},
		"Sloth's raw": {func() (Definition, error) {
			return sloth("slos: [{name: x, objective: 99, sli: {raw: {errorRatioQuery: x}}}]")
		}, "no count of events"},
		"Pyrra's gauge": {func() (Definition, error) {
			return FromPyrra([]byte(`{target: "99", indicator: {bool_gauge: {metric: up}}}`))
		}, "ratio or latency"},
		"OpenSLO v2": {func() (Definition, error) { return FromOpenSLO([]byte("apiVersion: openslo/v2alpha1\nkind: SLO")) }, "openslo/v1"},
		"an indicator elsewhere": {func() (Definition, error) {
			return FromOpenSLO([]byte("apiVersion: openslo/v1\nkind: SLO\nspec: {indicatorRef: x}"))
		}, "instead of a reference"},
		"another source": {func() (Definition, error) {
			return FromOpenSLO([]byte("apiVersion: openslo/v1\nkind: SLO\nspec: {objectives: [{target: 0.9}], indicator: {spec: {ratioMetric: {good: {metricSource: {type: Datadog}}}}}}"))
		}, "must be Prometheus"},
		"neither good nor bad": {func() (Definition, error) {
			return FromOpenSLO([]byte("apiVersion: openslo/v1\nkind: SLO\nspec: {objectives: [{targetPercent: 99}], indicator: {spec: {ratioMetric: {counter: true, total: {metricSource: {spec: {query: x}}}}}}}"))
		}, "no query of bad events"},
	} {
		_, err := c.read()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func sloth(spec string) (Definition, error) {
	_, wrong, err := FromSloth([]byte(spec))
	for _, e := range wrong {
		return Definition{}, e
	}
	return Definition{}, err
}

// FuzzOpenSLO: whatever is written, nothing panics, and what is accepted is PromQL.
func FuzzOpenSLO(f *testing.F) {
	for _, name := range []string{"openslo-getting-started.yaml", "openslo-ratio.yaml"} {
		body, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(body))
	}
	f.Fuzz(func(t *testing.T, document string) {
		d, err := FromOpenSLO([]byte(document))
		if err != nil {
			return
		}
		bad, total := d.Over(time.Minute)
		for _, q := range []string{bad, total} {
			if _, err := parser.ParseExpr(q); err != nil {
				t.Fatalf("%s: %v", q, err)
			}
		}
	})
}
