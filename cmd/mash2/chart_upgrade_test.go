package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/experiments/cluster"
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
	values := chartValues(t)
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

// upgradesDefinitions is what pages tell to run.
var upgradesDefinitions = regexp.MustCompile("kubectl (apply [^#`]*)charts/mash2/crds")

// What pages tell to run takes definitions up that helm has made of an older chart: helm owns what it made.
func TestDefinitionsAreUpgradedAsWritten(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	const changed = "description: ManagedWorkload puts one workload under mash2's management."
	older := filepath.Join(t.TempDir(), "mash2")
	if err := os.CopyFS(older, os.DirFS(chartFolder)); err != nil {
		t.Fatal(err)
	}
	definition := filepath.Join(older, "crds", "mash2.io_managedworkloads.yaml")
	text, err := os.ReadFile(definition)
	if err != nil || !strings.Contains(string(text), changed) {
		t.Fatalf("%v, or there is no %q", err, changed)
	}
	text = []byte(strings.Replace(string(text), changed, "description: An older one.", 1))
	if err := os.WriteFile(definition, text, 0o644); err != nil {
		t.Fatal(err)
	}
	commands := map[string]string{}
	for path, p := range pagesOf(t, "../..") {
		for _, line := range p.lines {
			if m := upgradesDefinitions.FindStringSubmatch(line); m != nil {
				commands[m[1]] = path
			}
		}
	}
	if len(commands) != 1 {
		t.Fatalf("pages tell %d ways to upgrade definitions, want one: %v", len(commands), commands)
	}

	c := cluster.ForTest(t)
	if _, err := c.Helm(t.Context(), "install", "mash2", older, "--namespace", "mash2-system", "--create-namespace", "--set", "prometheus.url=http://prometheus"); err != nil {
		t.Fatal(err)
	}
	for command, path := range commands {
		args := append(strings.Fields(command), filepath.Join(chartFolder, "crds"))
		if _, err := c.Kubectl(t.Context(), args...); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	now, err := c.Kubectl(t.Context(), "get", "crd", "managedworkloads.mash2.io", "-o", "jsonpath={.spec.versions[0].schema.openAPIV3Schema.description}")
	if err != nil || strings.Contains(now, "An older one") {
		t.Errorf("%v, it is still %q", err, now)
	}
}

// A workload of a kind that was taken out of scalableKinds may be turned off, and nothing else.
func TestAKindThatIsTakenOutMayBeTurnedOff(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	c := cluster.ForTest(t)
	must := func(_ string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Helm(t.Context(), "install", "mash2", chartFolder, "--namespace", "mash2-system", "--create-namespace", "--set", "prometheus.url=http://prometheus"))
	file := filepath.Join(t.TempDir(), "db.yaml")
	if err := os.WriteFile(file, []byte(`
apiVersion: mash2.io/v1alpha1
kind: ManagedWorkload
metadata: {name: db, namespace: default}
spec: {targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}, maxReplicas: 3}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	must(c.Kubectl(t.Context(), "apply", "-f", file))
	must(c.Helm(t.Context(), "upgrade", "mash2", chartFolder, "--namespace", "mash2-system", "--reset-then-reuse-values",
		"--set-json", `scalableKinds=[{"apiGroup":"apps","resources":["deployments"]}]`))
	patch := func(spec string) error {
		_, err := c.Kubectl(t.Context(), "patch", "mw", "db", "--type", "merge", "-p", `{"spec":`+spec+`}`)
		return err
	}
	const told = "mash2 may not scale statefulsets"
	// The API server takes a new policy up after a while.
	for i := range int32(60) {
		err := patch(fmt.Sprintf(`{"maxReplicas":%d}`, 4+i))
		if err != nil && strings.Contains(err.Error(), told) {
			break
		}
		if err != nil || i == 59 {
			t.Fatalf("more replicas: %v", err)
		}
		time.Sleep(time.Second)
	}
	for _, mode := range []string{"Shadow", "Off"} {
		if err := patch(`{"mode":"` + mode + `"}`); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
	if err := patch(`{"mode":"Full"}`); err == nil || !strings.Contains(err.Error(), told) {
		t.Errorf("Full: %v", err)
	}
}
