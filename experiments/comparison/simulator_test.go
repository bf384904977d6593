package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/experiments/score"
)

func TestSimulatorPage(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	file := func(name string, of any) string {
		data, ok := of.(string)
		if !ok {
			text, err := json.Marshal(of)
			if err != nil {
				t.Fatal(err)
			}
			data = string(text)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	five, four, share := 5.0, 4.0, -0.2
	d := score.Difference{Scaler: "hpa", Phase: "warm", Name: "replicas", Unit: "pods", Real: score.Interval{Mean: &five}, Simulated: score.Interval{Mean: &four}, Error: &share}
	runs := []score.Run{{Scaler: "hpa", Seed: 1}, {Scaler: "hpa", Seed: 2}}
	fidelities := file("heartbeat.json", simulation{Scenario: "heartbeat", Seed: 1, Fidelity: "request,fluid", Runs: runs, Fidelities: []score.Agreement{score.Agreement(d)}})
	file("heartbeat/replicas-both-fidelities.png", "a picture")
	real := file("real.json", simulation{Scenario: "heartbeat", Seed: 1, Fidelity: "fluid", Runs: runs, Against: []score.Difference{d}})
	speed := file("speed.txt", "cpu: x\nBenchmarkSpeed/week-of-20-2 \t 1\t 5 ns/op\t 40.5 cpu-s\t 80.1 %planner\t 14000 ×real-time\nPASS\n")
	if err := validate([]string{fidelities, real, speed}, out); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(out, "simulator.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	at := 0
	for _, want := range []string{
		"## The two fidelities", "### heartbeat\n\n2 seeds.", "| scaler | figure | per request | fluid | error |",
		"| hpa warm | replicas, pods | 5.00 | 4.00 | -20 % |", "![heartbeat, replicas](simulator-heartbeat-replicas.png)",
		"## Against a real control plane", "### heartbeat, fluid", "| scaler | figure | real | simulated | error |",
		"## Speed", "| week of 20 | 14000 | 40.5 | 80 % |",
	} {
		i := strings.Index(text[at:], want)
		if i < 0 {
			t.Fatalf("no %q after the %dth byte of:\n%s", want, at, text)
		}
		at += i
	}
	if _, err := os.Stat(filepath.Join(out, "simulator-heartbeat-replicas.png")); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]string{
		"neither":             file("neither.json", simulation{Scenario: "heartbeat", Runs: runs}),
		"no benchmarks":       file("none.txt", "PASS\n"),
		"another's benchmark": file("other.txt", "BenchmarkOther/x-2 1 5 ns/op\n"),
		"missing":             filepath.Join(dir, "missing.txt"),
	} {
		if err := validate([]string{bad}, out); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := validate(nil, out); err == nil {
		t.Error("a page of nothing")
	}
}

// The recordings of the real plane that the page stands on: four passes of both
// scalers, the last with the switch; and those of make experiments.
func TestRealRecordings(t *testing.T) {
	for name, want := range map[string]struct {
		passes  int
		scalers string
		last    string // phase of the last pass
	}{
		"heartbeat-real-1.json":           {4, "mash2 hpa", score.Switch},
		"heartbeat-real-2.json":           {4, "mash2 hpa", score.Switch},
		"heartbeat-real-3.json":           {3, "mash2 hpa", score.Warm},
		"heartbeat-karpenter-real-1.json": {1, "mash2 hpa karpenter", score.Cold},
		"flash-sale-real-1.json":          {1, "mash2 hpa karpenter", score.Cold},
	} {
		r, err := score.ReadRecording(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		warmup, passes := r.Passes()
		if r.Speed != 1 || warmup != 0 || passes != want.passes || strings.Join(r.Scalers(), " ") != want.scalers || r.RunsOf("hpa")[passes-1].Phase != want.last {
			t.Errorf("%s: speed %v, %d+%d passes of %v", name, r.Speed, warmup, passes, r.Scalers())
		}
	}
}
