package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/experiments/score"
)

// write is a file as mash2 simulate prints it.
func write(t *testing.T, runs ...score.Run) string {
	t.Helper()
	data, err := json.Marshal(simulation{Scenario: "heartbeat", Seed: 1, Fidelity: "fluid", Runs: runs})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestDocument(t *testing.T) {
	ratio := 0.1
	of := func(scaler string, seed uint64, minutes int, usd float64) score.Run {
		return score.Run{Scaler: scaler, Seed: seed, SLOViolationMinutes: minutes, SLOViolationRatio: &ratio, CostUSD: usd, PodCostUSD: usd}
	}
	file, out := write(t,
		of("mash2", 1, 2, 3), of("mash2", 2, 2, 3), of("hpa", 1, 5, 2), of("hpa:60", 1, 2, 4), of("hpa:60", 2, 2, 6), of("hpa:40", 1, 1, 6),
		score.Run{Scaler: "oracle", Seed: 1, Bound: true, CostUSD: 1},
	), t.TempDir()
	if err := compare([]string{file}, out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "simulation.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| heartbeat | 2.0 ± 0.0 | 3.0000 ± 0.0000 | hpa:60 | 2.0 ± 0.0 | 5.0000 ± 12.7062 | -38 % ± 159 % | -38 % ± 159 % | 1.0000 |",
		"| scenario | hpa | hpa:60 | hpa:40 |", "| heartbeat | +50 % (mash2) | -38 % ± 159 % (mash2) | none is as good |",
		"| heartbeat | 5.0 → all cost more | 2.0 → 2.0 (mash2) | 1.0 → 2.0 (mash2) |",
		"## heartbeat", "Three beats of 400 users", "2 seeds from 1 on", "| oracle | – |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "simulation-heartbeat.png")); err != nil {
		t.Error(err)
	}
	better := write(t, of("mash2", 1, 0, 3), of("hpa", 1, 5, 2))
	if s, err := read(better); err != nil || !strings.Contains(equalRow(s), "none is as good") {
		t.Errorf("%v %s", err, equalRow(s))
	}
	for _, bad := range []string{filepath.Join(out, "simulation.md"), filepath.Join(out, "none.json")} {
		if err := compare([]string{bad}, out); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
	if err := compare(nil, out); err == nil {
		t.Error("nothing was compared")
	}
}
