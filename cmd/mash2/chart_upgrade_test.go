package main

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// chartKeys are the paths of a chart's values.
func chartKeys(values map[string]any, prefix string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		out = append(out, prefix+key)
		if below, is := values[key].(map[string]any); is {
			out = append(out, chartKeys(below, prefix+key+".")...)
		}
	}
	return out
}

// Values that an upgrade kept from an older chart lack the keys that are new: they are
// refused, with what to do instead, and make no flag empty.
func TestChartRefusesValuesOfAnOlderOne(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chartFolder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(strings.Join(chartKeys(values, ""), "\n")))
	if want := hex.EncodeToString(sum[:4]); values["keys"] != want {
		t.Errorf("keys are %v and now %s: set that in values.yaml and _names.tpl", values["keys"], want)
	}

	const agents = "agents.node.enabled=true,agents.node.namespace=shop,agents.node.resize.enabled=true,agents.node.resize.selector=app=web"
	if out, err := templated(t, agents); err != nil {
		t.Errorf("with the chart's own values: %s", out)
	}
	// As they were before the chart had these, some of which are whole sections.
	for _, key := range []string{"keys", "strategies", "externalScaler", "page", "uninstall"} {
		delete(values, key)
	}
	resize := values["agents"].(map[string]any)["node"].(map[string]any)["resize"].(map[string]any)
	for _, key := range []string{"algorithm", "floor", "ceiling"} {
		delete(resize, key)
	}
	for name, keys := range map[string]any{"before keys were told apart": nil, "of other keys": "0f0f0f0f"} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "mash2")
			if err := os.CopyFS(folder, os.DirFS(chartFolder)); err != nil {
				t.Fatal(err)
			}
			old := maps.Clone(values)
			if keys != nil {
				old["keys"] = keys
			}
			text, err := yaml.Marshal(old)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "values.yaml"), text, 0o644); err != nil {
				t.Fatal(err)
			}
			if out, err := templatedOf(t, folder, agents); err == nil || !strings.Contains(out, "--reset-then-reuse-values") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
