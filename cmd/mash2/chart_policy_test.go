package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// An upgrade leaves the policy as somebody set it, also if they took it back so that the
// schedule decides; policy.active is that of the installation.
func TestChartPolicy(t *testing.T) {
	const looks = `lookup "v1" "ConfigMap" .Release.Namespace "mash2-policy"`
	for name, c := range map[string]struct{ active, existing, want string }{
		"an installation":                    {"PERFORMANCE", "", "PERFORMANCE"},
		"an installation without one":        {"", "", ""},
		"a name that YAML takes for another": {"true", "", "true"},
		"set since":                          {"COST_SAVING", "data: {policy: PERFORMANCE}", "PERFORMANCE"},
		"taken back since":                   {"COST_SAVING", `data: {policy: ""}`, ""},
		"its key deleted since":              {"COST_SAVING", "data: {policies.yaml: x}", ""},
		"emptied since":                      {"COST_SAVING", "metadata: {name: mash2-policy}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "mash2")
			if err := os.CopyFS(folder, os.DirFS(chartFolder)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(folder, "templates", "policy.yaml")
			text, err := os.ReadFile(file)
			if err != nil || strings.Count(string(text), looks) != 1 {
				t.Fatalf("%v: it no longer looks the ConfigMap up:\n%s", err, text)
			}
			// helm template has no cluster to look into.
			as := strings.Replace(string(text), looks, "fromYaml `"+c.existing+"`", 1)
			if err := os.WriteFile(file, []byte(as), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := templatedOf(t, folder, "operator.past=0h", "--set-string", "policy.active="+c.active)
			if err != nil {
				t.Fatal(out)
			}
			for _, document := range strings.Split(out, "\n---") {
				var policy corev1.ConfigMap
				if !strings.Contains(document, "templates/policy.yaml") {
					continue
				}
				if err := yaml.Unmarshal([]byte(document), &policy); err != nil {
					t.Fatal(err)
				}
				if got, is := policy.Data["policy"]; got != c.want || !is {
					t.Errorf("policy %q, want %q", got, c.want)
				}
				return
			}
			t.Error("no ConfigMap")
		})
	}
}

// The chart makes no object twice, wherever it is installed: Cluster Autoscaler's namespace may
// be the release's.
func TestChartInTheNamespaceOfClusterAutoscaler(t *testing.T) {
	out, err := templatedOf(t, chartFolder, "operator.past=0h", "--namespace", "kube-system")
	if err != nil {
		t.Fatal(out)
	}
	there := map[string]bool{}
	for _, document := range strings.Split(out, "\n---") {
		var o rbacv1.Role // any object has its kind and name
		if err := yaml.Unmarshal([]byte(document), &o); err != nil || o.Kind == "" {
			continue
		}
		key := o.APIVersion + " " + o.Kind + " " + o.Namespace + "/" + o.Name
		if there[key] {
			t.Errorf("%s twice", key)
		}
		there[key] = true
	}
	if len(there) < 10 {
		t.Errorf("only %v", there)
	}
}
