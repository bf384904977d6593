package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/record/knowledge"
)

// TestKnowledge: what people add stands beside what records tell, in search and export; what
// an operator has kept is not told from the records as well.
func TestKnowledge(t *testing.T) {
	dir := t.TempDir()
	w, err := record.NewWriter(record.Config{Dir: dir, Program: "test"})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	of := api.Key{Namespace: "shop", Name: "a"}
	r := api.Record{Snapshot: api.Snapshot{Time: at}, Cycle: api.Cycle{ID: 1, Time: at}}
	r.Snapshot.Context.Strategies = []api.Strategy{{Key: of, Readings: []api.SensorReading{{Sensor: "latency", Value: 0.25, At: at}}}}
	w.Record(r)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	run := func(code int, args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if got := (Program{}).Run(context.Background(), append([]string{"kb"}, args...), &stdout, &stderr); got != code {
			t.Fatalf("%v: %d, %s", args, got, stderr.String())
		}
		return stdout.String() + stderr.String()
	}
	file := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(file, []byte(`{"tool": "k6", "ok": true, "latency": {"p95": 0.12}, "models": [{"name": "forest", "mae": 4}, 5]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const reading = "strategy shop/a: latency = 0.25"
	if got := run(0, "search", "--records", dir); !strings.Contains(got, reading) {
		t.Errorf("of the records: %s", got)
	}
	if got := run(0, "add", "--records", dir, "--about", "workload/shop/web", "--name", "load", file); !strings.Contains(got, "latency.p95=0.12  models.forest.mae=4  ok=true  tool=k6") {
		t.Errorf("added: %s", got)
	}
	for _, about := range []string{"workload/shop/web", "workload shop/web", "shop/web", "web"} {
		if got := run(0, "search", "--records", dir, "--about", about); !strings.Contains(got, "load  latency.p95=0.12") {
			t.Errorf("about %s: %s", about, got)
		}
	}
	if got := run(0, "search", "--records", dir); !strings.Contains(got, reading) || !strings.Contains(got, "load  ") {
		t.Errorf("both: %s", got)
	}
	if got := run(0, "export", "--records", dir); strings.Count(got, "\n") != 2 {
		t.Errorf("exported: %s", got)
	}
	if got := run(0, "export", "--records", dir, "--format", "mlflow"); strings.Count(got, `"experiment"`) != 2 {
		t.Errorf("as runs: %s", got)
	}
	if err := knowledge.Open(dir).Claim(); err != nil {
		t.Fatal(err)
	}
	if got := run(0, "search", "--records", dir); strings.Contains(got, reading) || !strings.Contains(got, "load  ") {
		t.Errorf("an operator's: %s", got)
	}
	for want, args := range map[string][]string{
		"--records must name":                {"search"},
		"there is no such folder":            {"search", "--records", filepath.Join(dir, "nowhere")},
		"--kind must be one of":              {"search", "--records", dir, "--kind", "rumour"},
		"--from must be a time":              {"search", "--records", dir, "--from", "yesterday"},
		"one of the kinds model, workload":   {"add", "--records", dir, "--about", "shop/web", "--name", "x", file},
		"--kind must be run, score or model": {"add", "--records", dir, "--about", "model/x", "--name", "x", "--kind", "reading", file},
		"--name: must have 1 to 253 bytes":   {"add", "--records", dir, "--about", "model/x", file},
		"--mlflow must be a URL":             {"export", "--records", dir, "--mlflow", "ftp://user:secret@x"},
		"must be one object of JSON":         {"add", "--records", dir, "--about", "model/x", "--name", "x", "kb_test.go"},
		"unknown command \"list\"":           {"list"},
	} {
		if got := run(ExitUsage, args...); !strings.Contains(got, want) || strings.Contains(got, "secret") {
			t.Errorf("%v: %s", args, got)
		}
	}
}
