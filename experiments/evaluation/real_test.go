package main

import (
	"bytes"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/load/record"
	"github.com/mash2-io/mash2/experiments/score"
)

// recorded is a minute of a scaler with so many replicas.
func recorded(scaler string, replicas int32) score.Outcome {
	mean, ready, p95 := float64(replicas), float64(replicas)/2, 20.0
	summary := load.Summary{SimulatedSeconds: 60, MaxReplicas: replicas, MeanReplicas: &mean, P95Ms: &p95, CPUSeconds: 30,
		WorkloadInterval: record.WorkloadInterval{ReadyCPUSeconds: 60 * ready}}
	w := load.WorkloadResult{Namespace: scaler, Name: "web", Measured: summary, ByPass: []load.PassSummary{{Summary: summary}},
		Steps: []record.WorkloadStep{{Replicas: replicas, Ready: replicas}}}
	pool := load.PoolResult{Name: "a-pool"}
	for i := range 2 {
		w.Buckets = append(w.Buckets, load.Bucket{Start: 30 * float64(i), Seconds: 30, Replicas: mean, ReadyCores: ready, CPUCores: 0.5, P95Ms: &p95})
		pool.Buckets = append(pool.Buckets, load.PoolBucket{Start: 30 * float64(i), Seconds: 30, ReadyNodes: 1, AllocatableCores: 2, PackingEfficiency: 0.5})
	}
	return score.Outcome{Scaler: scaler, Seed: 1, PassSeconds: 60, Passes: 1, Workloads: []load.WorkloadResult{w}, Pools: []load.PoolResult{pool},
		Nodes: []score.Node{{Pool: "a-pool", MachineType: "e2-medium"}}}
}

func TestRealPlane(t *testing.T) {
	in, out := inputs{real: t.TempDir()}, t.TempDir()
	folder := filepath.Join(in.real, "heartbeat")
	if err := os.MkdirAll(filepath.Join(folder, "simulated"), 0o750); err != nil {
		t.Fatal(err)
	}
	real := score.Recording{Scenario: "heartbeat", Speed: 1, Seed: 1, Outcomes: []score.Outcome{recorded("mash2", 8), recorded("hpa", 3)}}
	simulated := score.Recording{Scenario: "heartbeat", Seed: 1, Outcomes: []score.Outcome{recorded("hpa", 4), recorded("mash2", 9)}}
	for file, r := range map[string]score.Recording{"results.json": real, "simulated/results.json": simulated} {
		if err := r.Write(filepath.Join(folder, file)); err != nil {
			t.Fatal(err)
		}
	}
	differences, err := score.Compare(real.Outcomes[:1], simulated.Outcomes[1:])
	if err != nil {
		t.Fatal(err)
	}
	told, err := json.Marshal(map[string]any{"runs": []score.Run{{Seed: 1}, {Seed: 2}}, "against": differences})
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(in.real, "heartbeat-simulated.json"), told)
	all, err := in.realPlane(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("%d experiments", len(all))
	}
	text := all[0].section() + paper(all)
	for _, want := range []string{
		"heartbeat, 1× real time\n\n1 pass of 1 min", "mash2, hpa in one cluster at once", "with 2 seeds", "| mash2 | 1 |", "| mash2 | replicas, pods | 8.00 | 9.00 | +12 % |",
		"| heartbeat | MAS-H² | 8 replicas, mean CPU below 40 % | 8 | 8.0 | 12 |", "| heartbeat | HPA (80 %) + CA | at most 3 replicas, CPU above 80 % | 3 | 3.0 | 33 |",
		"In heartbeat mash2 has 8.0 replicas on average at 12 % CPU, the HPA 3.0 at 33 %: the direction is the paper's",
		"| Figure 4, flash-sale over time | not made for this page |", "results-heartbeat-pairs.png",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	for _, name := range []string{"real.png", "paper.png", "pairs.png"} {
		data, err := os.ReadFile(filepath.Join(out, "results-heartbeat-"+name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := png.Decode(bytes.NewReader(data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	svg, err := os.ReadFile(filepath.Join(out, "results-heartbeat-real.svg"))
	if err != nil || !bytes.Contains(svg, []byte("mash2, simulated")) || !bytes.Contains(svg, []byte("hpa, real")) {
		t.Errorf("the picture has not both planes in it: %v", err)
	}
	if by := recordedBy(all); by != "" {
		t.Errorf("recorded by %q", by)
	}
	put(t, filepath.Join(folder, "version"), []byte("mash2 v1\n"))
	// A second recording of the scenario has pictures of its own.
	if err := os.CopyFS(filepath.Join(in.real, "heartbeat-again"), os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(in.real, "heartbeat-again-simulated.json"), told)
	if all, err = in.realPlane(out); err != nil || len(all) != 2 {
		t.Fatalf("%d experiments, %v", len(all), err)
	}
	if by := recordedBy(all); by != "Measured and simulated by mash2 v1.\n\n" {
		t.Errorf("recorded %q", by)
	}
	all[1].by = "mash2 v2"
	if by := recordedBy(all); by != "Measured and simulated heartbeat-again by mash2 v1; heartbeat by mash2 v2.\n\n" {
		t.Errorf("recorded %q", by)
	}
	for _, e := range all {
		if _, err := os.Stat(filepath.Join(out, "results-"+e.name+"-real.png")); err != nil || !strings.Contains(e.section(), "(results-"+e.name+"-real.png)") {
			t.Errorf("%s: %v", e.name, err)
		}
	}
	// Another seed is another load.
	simulated.Outcomes[0].Seed = 2
	if err := simulated.Write(filepath.Join(folder, "simulated", "results.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := in.realPlane(out); err == nil || !strings.Contains(err.Error(), "not simulated with seed 1") {
		t.Errorf("compared with another seed: %v", err)
	}
}
