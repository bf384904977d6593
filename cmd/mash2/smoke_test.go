package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
)

func TestSmoke(t *testing.T) {
	s, err := scenarios.Load("heartbeat")
	if err != nil {
		t.Fatal(err)
	}
	b, err := testbed.Start(t.Context(), testbed.Options{Scenario: s, Speed: 10, Seed: 1, Baseline: true, WarmupPasses: 1, Passes: 1, Dir: "/tmp/bg/smoke", Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Stop()
	o, err := b.StartOperator("/tmp/bg/mash2", nil, "--verbose")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Stop()
	if err := b.WaitLeading(t.Context(), o, time.Time{}); err != nil {
		t.Fatal(err)
	}
	b.Load.Begin()
	if err := b.Load.Wait(); err != nil {
		t.Fatal(err)
	}
	r := b.Load.Results()
	for _, w := range r.Workloads {
		for _, p := range w.ByPass {
			fmt.Printf("%s pass %d: req %d failed %d (refused %d reset %d timeout %d) p95 %v maxR %d meanR %v util %v pending %v podcost %v slo %d\n", w.Namespace, p.Pass, p.Requests, p.Failed, p.Refused, p.Reset, p.TimedOut, *p.P95Ms, p.MaxReplicas, *p.MeanReplicas, *p.MeanCPUUtilization, p.PendingPodSeconds, p.PodCostUSD, p.SLOViolationMinutes)
		}
	}
	fmt.Println(b.GKE.NodeHours())
}
