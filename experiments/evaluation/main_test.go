package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/score"
)

func put(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEvaluate(t *testing.T) {
	traces, results := t.TempDir(), t.TempDir()
	run := func(scaler string, usd, violating float64) score.Run {
		return score.Run{Scaler: scaler, Seed: 1, CostUSD: usd, SLOViolationRatio: &violating}
	}
	bound := score.Run{Scaler: "oracle", Seed: 1, Bound: true, CostUSD: 2}
	all := map[string][]score.Run{
		"development/a": {run("mash2", 4, 0.01), run("hpa", 3, 0.005), run("hpa:50", 6, 0.01), bound},
		"development/b": {run("mash2", 9, 0), run("hpa", 3, 0.02), bound},
		"held-out/c":    {run("mash2", 4, 0.01), run("hpa", 5, 0.01), bound},
	}
	for name, runs := range all {
		base := filepath.Base(name)
		put(t, filepath.Join(traces, name+".yaml"), []byte("name: "+base+"\ndescription: Trace "+base+".\narrivals: {csv: \"data:x/"+base+".csv\"}\n"))
		data, err := json.Marshal(result{Scenario: base, Runs: runs})
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(results, name+".json"), data)
	}
	put(t, filepath.Join(traces, "held-out", "d.yaml"), []byte("name: d\n")) // not run
	out := filepath.Join(t.TempDir(), "e.md")
	if err := evaluate(traces, []string{results}, out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| a | Trace a. | x/a.csv |", "| scaler | a | b |", "| mash2 | 2.00 · 1.0 | 4.50 · 0.0 |", "| hpa:50 | 3.00 · 1.0 |  |",
		"| mash2 | 3.00 | 0.50 | 1.0 | 1 of 2 |", // √(2 · 4.5)
		"| a | 2.00 · 1.0 | hpa, 1.50 · 0.5 | +33 % | hpa |", "| b | 4.50 · 0.0 | none is as good | – | none |",
		"| c | 2.00 · 1.0 | hpa, 2.50 · 1.0 | -20 % | none |", "Of 1 of the 2 traces.", "not run on every trace",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	put(t, filepath.Join(results, "held-out", "c.json"), []byte(`{"scenario": "c", "runs": []}`))
	if err := evaluate(traces, []string{results}, out); err == nil || !strings.Contains(err.Error(), "oracle is missing") {
		t.Errorf("costs relative to nothing: %v", err)
	}
}

// The scenarios are as the page says: none of an origin for development is held
// out, and all load.
func TestTraces(t *testing.T) {
	origins := map[string]string{}
	for _, set := range sets {
		folder := filepath.Join("..", "traces", set.folder)
		all, err := tracesIn(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range all {
			origin, _, _ := strings.Cut(strings.TrimPrefix(tr.Arrivals.CSV, "data:"), "/")
			if other := origins[origin]; other != "" && other != set.folder {
				t.Errorf("%s: %s is of both sets", tr.Name, origin)
			}
			origins[origin] = set.folder
			s, err := scenarios.Load(filepath.Join(folder, tr.Name+".yaml"))
			if err != nil {
				if strings.Contains(err.Error(), scenarios.DataEnv) {
					t.Skip(err)
				}
				t.Fatal(err)
			}
			if s.Arrivals == nil || s.Warmup.Passes < 1 {
				t.Errorf("%s: no recorded load, or no history before it", tr.Name)
			}
		}
	}
	if origins["wc98"] == "held-out" || origins["crane-dsp"] != "development" {
		t.Errorf("origins %v", origins)
	}
}
