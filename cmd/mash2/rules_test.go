package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/sensing"
	"github.com/mash2-io/mash2/serve"
)

// rendered writes a rule file of the chart as its values make it, and returns
// its content. helm's tpl is text/template with more functions, which the rules
// don't use.
func rendered(t *testing.T, dir, name string) string {
	t.Helper()
	var values map[string]any
	raw, err := os.ReadFile(filepath.Join(chartFolder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(chartFolder, "rules", name))
	if err != nil {
		t.Fatal(err)
	}
	tpl, err := template.New(name).Option("missingkey=error").Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := tpl.Execute(&out, map[string]any{"Values": values}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The chart's alerts and recording rules do what they say, in Prometheus' own
// rule engine.
func TestRules(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed; it comes with Prometheus (make deps)")
	}
	for _, name := range []string{"alerts", "recording"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			rendered(t, dir, name+".yaml")
			test, err := os.ReadFile(filepath.Join(chartFolder, "rules", "testdata", name+".test.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "test.yaml"), test, 0o644); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"check", "rules", name + ".yaml"}, {"test", "rules", "test.yaml"}} {
				cmd := exec.CommandContext(t.Context(), promtool, args...)
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
				}
			}
		})
	}
}

// Every alert has a test, a runbook where its link points, and is made of
// metrics that exist. Every runbook has an alert.
func TestAlertsAreDocumented(t *testing.T) {
	text := rendered(t, t.TempDir(), "alerts.yaml")
	var alerts struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &alerts); err != nil {
		t.Fatal(err)
	}
	runbooks, err := os.ReadFile("../../docs/reference/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(filepath.Join(chartFolder, "rules", "testdata", "alerts.test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := serve.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	known := labelsOf(t, m)
	sections := regexp.MustCompile(`(?m)^## (Mash2\w+)$`).FindAllStringSubmatch(string(runbooks), -1)
	var names []string
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			names = append(names, r.Alert)
			if want := "#" + strings.ToLower(r.Alert); !strings.HasSuffix(r.Annotations["runbook_url"], "docs/reference/runbooks.md"+want) {
				t.Errorf("%s: its runbook is %q, want one that ends in %s", r.Alert, r.Annotations["runbook_url"], want)
			}
			if !slices.ContainsFunc(sections, func(s []string) bool { return s[1] == r.Alert }) {
				t.Errorf("%s: docs/reference/runbooks.md has no section of that name", r.Alert)
			}
			if !bytes.Contains(tests, []byte("alertname: "+r.Alert+"\n        exp_alerts:")) {
				t.Errorf("%s: no test makes it fire", r.Alert)
			}
			for _, metric := range regexp.MustCompile(`mash2_\w+`).FindAllString(r.Expr, -1) {
				if _, ok := known[metric]; !ok {
					t.Errorf("%s: there is no metric %s", r.Alert, metric)
				}
			}
		}
	}
	for _, s := range sections {
		if !slices.Contains(names, s[1]) {
			t.Errorf("docs/reference/runbooks.md: there is no alert %s", s[1])
		}
	}
	if !strings.Contains(rendered(t, t.TempDir(), "recording.yaml"), "record: "+sensing.DefaultConfig().RecordedUsage+"\n") {
		t.Errorf("no rule records %s, from which history is read", sensing.DefaultConfig().RecordedUsage)
	}
}

// TestDashboard: every query of the chart's dashboard can be read, and asks for metrics
// that exist by labels that they have.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chartFolder, "dashboards", "mash2.json"))
	if err != nil {
		t.Fatal(err)
	}
	type panel struct {
		Title, Description, Type string
		Targets                  []struct{ Expr string }
	}
	var dashboard struct {
		Panels     []panel
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	m, err := serve.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	labels := labelsOf(t, m)
	asked := map[string]bool{}
	check := func(where, query string) {
		query = strings.NewReplacer("$__rate_interval", "5m", "$namespace", "shop", "$workload", "web").Replace(query)
		expr, err := parser.ParseExpr(query)
		if err != nil {
			t.Errorf("%s: %s: %v", where, query, err)
			return
		}
		parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
			v, ok := n.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			asked[v.Name] = true
			has, known := labels[v.Name]
			if !known {
				t.Errorf("%s: there is no metric %s", where, v.Name)
				return nil
			}
			names := []string{}
			for _, match := range v.LabelMatchers {
				names = append(names, match.Name)
			}
			for _, above := range path {
				if a, ok := above.(*parser.AggregateExpr); ok {
					names = append(names, a.Grouping...)
				}
			}
			for _, name := range names {
				if name != "__name__" && !slices.Contains(has, name) {
					t.Errorf("%s: %s has no label %s, it has %v", where, v.Name, name, has)
				}
			}
			return nil
		})
	}
	for _, p := range dashboard.Panels {
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %q has no title, description or query", p.Title)
		}
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
		}
	}
	values := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range dashboard.Templating.List {
		if v.Definition == "" {
			continue
		}
		q := values.FindStringSubmatch(v.Definition)
		if q == nil {
			t.Errorf("variable %s: %q can't be read", v.Name, v.Definition)
			continue
		}
		check("variable "+v.Name, "count by ("+q[2]+") ("+q[1]+")")
	}
	if len(asked) < 15 {
		t.Errorf("only %d metrics are shown: %v", len(asked), asked)
	}
}

// labelsOf are the labels of the operator's metrics, by name.
func labelsOf(t *testing.T, m *serve.Metrics) map[string][]string {
	t.Helper()
	out := map[string][]string{
		"mash2_cycles_total": {"result"}, "mash2_findings_total": {"severity", "reason"}, "mash2_actions_total": {"agent", "kind", "result"},
		"mash2_cycle_step_duration_seconds_bucket": {"step", "le"},
	}
	ch := make(chan *prometheus.Desc, 100)
	m.Describe(ch)
	close(ch)
	for d := range ch {
		q := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`).FindStringSubmatch(d.String())
		if q == nil {
			t.Fatalf("%s can't be read", d)
		}
		out[q[1]] = strings.Split(q[2], ",")
	}
	return out
}
