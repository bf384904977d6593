package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Two samples of a pass of 4 s: 2 replicas and 0.1 cores for two seconds, then 6
// and 0.3; a sample of the next pass is not counted.
func TestFiguresOf(t *testing.T) {
	of := func(replicas int32, cores float64, throttled, periods int64) map[string]series {
		return map[string]series{mash2: {Replicas: replicas, Cores: cores, Throttled: throttled, Periods: periods, Quota: 2 * cores, Resized: int(replicas)}}
	}
	p := pass{Scaler: mash2, Pass: 1, Begin: 0, End: 4.5}
	r := result{Samples: []sample{
		{Seconds: 2, Of: of(2, 0.1, 5, 20)}, {Seconds: 4, Of: of(6, 0.3, 0, 30)}, {Seconds: 6, Of: of(20, 5, 9, 9)},
	}}
	// Replicas (2·2 + 6·2)/4, cores (0.1·2 + 0.3·2)/4; of requests of 0.05 each
	// 0.8 core-seconds of 16 · 0.05; 5 of 50 periods; limits are twice what is used here.
	want := figures{pass: p, MeanReplicas: 4, MeanCores: 0.2, PeakCores: 0.3, Utilization: 1, MaxReplicas: 6, Throttled: 0.1, MeanLimits: 0.4, Resized: 8}
	close := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })
	if diff := cmp.Diff(want, r.figuresOf(p, 0.05), close, cmp.AllowUnexported(figures{})); diff != "" {
		t.Error(diff)
	}
}

func TestParseSummary(t *testing.T) {
	const good = `{"metrics": {
	  "http_reqs": {"count": 1951, "rate": 25.0},
	  "http_req_failed": {"passes": 0, "fails": 1951, "value": 0.02},
	  "http_req_duration": {"avg": 19.26, "med": 6.43, "p(95)": 77.91, "p(99)": 187.9, "max": 591.01}}}`
	got, err := parseSummary([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	want := k6Summary{Requests: 1951, FailedRatio: 0.02, Mean: 19.26, Median: 6.43, P95: 77.91, P99: 187.9, Max: 591.01}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := parseSummary([]byte(strings.Replace(good, "p(95)", "p(90)", 1))); err == nil || !strings.Contains(err.Error(), "no p(95)") {
		t.Errorf("a summary without p(95): %v", err)
	}
}

func TestIndented(t *testing.T) {
	const text = "time=\"x\" level=warning\n\n  █ THRESHOLDS \n\n    HTTP\ntime=\"y\" level=error\n"
	if got, want := indented(text), "    █ THRESHOLDS\n\n        HTTP"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
