package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// A small envelope, at ten times the speed: the whole of it, and what it says
// about an operator that only shows and one that acts.
func TestSmallEnvelope(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a whole cluster")
	}
	t.Chdir(filepath.Join("..", ".."))
	program := filepath.Join(t.TempDir(), "mash2")
	if out, err := exec.Command("go", "build", "-o", program, "./cmd/mash2").CombinedOutput(); err != nil {
		t.Fatalf("building the operator: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute) // the control plane may have to be built
	defer cancel()
	s := size{Workloads: 20, Nodes: 20, Pods: 200, Cycles: 6, Speed: 10, History: 2 * time.Hour, Step: 15 * time.Second}
	var stdout bytes.Buffer
	if err := run(ctx, s, runner{program: program, progress: logWriter{t}, takesOver: true}, "json", &stdout); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(&stdout)
	dec.DisallowUnknownFields()
	var r result
	if err := dec.Decode(&r); err != nil {
		t.Fatalf("the JSON: %v", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Errorf("after the JSON: %v", err)
	}
	if len(r.Runs) != 2 {
		t.Fatalf("%d runs, want Shadow and Full", len(r.Runs))
	}
	for i, mode := range []v1alpha1.Mode{v1alpha1.ModeShadow, v1alpha1.ModeFull} {
		m := r.Runs[i]
		if m.Mode != string(mode) {
			t.Fatalf("run %d is of mode %s", i, m.Mode)
		}
		var names []string
		for _, s := range m.Steps {
			names = append(names, s.Name)
			if s.P50 > s.P95 || s.P95 > s.Max || s.P50 < 0 || s.First < 0 {
				t.Errorf("%s: %+v is not in order", mode, s)
			}
		}
		want := []string{"observe", "decide", "plan", "sequence", "act", "report", "whole", "cpu"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Fatalf("%s: steps (-want +got):\n%s", mode, diff)
		}
		if cpu := m.Steps[7]; cpu.First <= 0 || cpu.Max <= 0 {
			t.Errorf("%s: no CPU time was read: %+v", mode, cpu)
		}
		if m.RSSFirst <= 0 || m.RSSLast <= 0 || m.RSSAnonymous <= 0 || m.RSSAnonymous >= m.RSSLast || m.RSSPeak < max(m.RSSFirst, m.RSSLast) {
			t.Errorf("%s: memory %+v", mode, m)
		}
		if m.RecordBytes <= 0 {
			t.Errorf("%s: records of %d bytes", mode, m.RecordBytes)
		}
		if m.Held != 0 || m.HeldWorkloads != 0 || m.Stale != 0 || m.Failed != 0 {
			t.Errorf("%s: %d cycles held, %d workloads held, %d stale, %d actions failed", mode, m.Held, m.HeldWorkloads, m.Stale, m.Failed)
		}
		if len(m.Forecasts) == 0 {
			t.Errorf("%s: nothing was forecast", mode)
		}
	}
	if a := r.Runs[0].Actions; len(a) != 0 {
		t.Errorf("actions in Shadow: %v", a)
	}
	f := r.Failover
	if f == nil {
		t.Fatal("no failover was measured")
	}
	if f.FirstCycle <= 0 || f.Forecast < f.FirstCycle && f.Forecast != 0 || f.Backfilled < f.FirstCycle || f.CPU <= 0 || f.RSSPeak <= 0 ||
		f.Queries < 1 || f.QuerySeconds <= 0 || f.PrometheusCPU <= 0 {
		t.Errorf("failover %+v is not in order", *f)
	}
	if f.Held != 0 || f.Workloads != 0 {
		t.Errorf("after the failover %d cycles and %d workloads were held", f.Held, f.Workloads)
	}
	// Two thirds of the workloads start more than a tenth off what they need.
	if n := r.Runs[1].Actions["ScaleWorkload"]; n < 5 {
		t.Errorf("%d workloads scaled in Full", n)
	}
}

type logWriter struct{ t *testing.T }

// Write implements io.Writer.
func (w logWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func TestSummarise(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cycle := func(i int, plan, cpu time.Duration) observation {
		from := at.Add(time.Duration(i) * 15 * time.Second)
		return observation{
			Cycle: api.Cycle{Time: from, Steps: []api.StepTime{{Step: "observe", Duration: time.Second}, {Step: "plan", Duration: plan}}},
			bytes: 100, arrived: from.Add(time.Second + plan + 250*time.Millisecond), cpu: cpu,
			memory: memory{rss: float64(100 + i), peak: 200, anonymous: 50},
		}
	}
	cycles := []observation{
		cycle(0, 8*time.Second, 6*time.Second), // the first stands apart
		cycle(1, 1*time.Second, 7*time.Second),
		cycle(2, 4*time.Second, 9*time.Second),
		cycle(3, 2*time.Second, 10*time.Second),
		cycle(4, 3*time.Second, 14*time.Second),
	}
	cycles[1].Outcomes = []api.Outcome{{Kind: "ScaleWorkload"}, {Kind: "ScaleWorkload", Error: "conflict"}, {Kind: "ResizePool", Skipped: "paused"}}
	cycles[2].Error = "observing: late"
	cycles[4].Workloads = []api.WorkloadStatus{{DemandStale: true}, {}}
	cycles[4].Plan.Workloads = []api.WorkloadPlan{{Held: true}, {Forecast: &api.Forecast{Model: "seasonal"}}}
	got := summarise(v1alpha1.ModeFull, cycles, at.Add(-2*time.Second))
	want := measurement{
		Mode: "Full",
		Steps: []step{
			{"observe", 1, 1, 1, 1},
			{"plan", 8, 2, 4, 4}, // of 1, 2, 3, 4
			{"report", 0.25, 0.25, 0.25, 0.25},
			{"whole", 9.25, 3.25, 5.25, 5.25},
			{"cpu", 6, 1, 4, 4}, // of 1, 2, 1, 4
		},
		StartSeconds: 11.25, RecordBytes: 100,
		RSSFirst: 100, RSSLast: 104, RSSPeak: 200, RSSAnonymous: 50,
		Actions: map[string]int{"ScaleWorkload": 1}, Failed: 1, Held: 1, Stale: 1, HeldWorkloads: 1,
		Forecasts: map[string]int{"seasonal": 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

// What is counted over a time is the integral of the rate over it.
func TestDemandIsIntegrated(t *testing.T) {
	d := demand{mean: 2, phase: 1.3, period: 360}
	const from, to, n = 1000.0, 1100.0, 100_000
	sum := 0.0
	for i := range n { // midpoint rule
		sum += d.rate(from+(float64(i)+0.5)*(to-from)/n) * (to - from) / n
	}
	if got := d.used(from, to); math.Abs(got-sum) > 1e-6*sum {
		t.Errorf("used = %v core seconds, the rate's integral is %v", got, sum)
	}
	if got, want := d.used(from, from+d.period), d.mean*d.period; math.Abs(got-want) > noisy*want {
		t.Errorf("used over a period = %v core seconds, want mean times period, %v, but for noise", got, want)
	}
	const between = 1033.7
	if whole, parts := d.used(from, to), d.used(from, between)+d.used(between, to); math.Abs(whole-parts) > 1e-9*whole {
		t.Errorf("used = %v core seconds at once, %v in two parts", whole, parts)
	}
}
