package main

import (
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/testbed"
	"github.com/mash2-io/mash2/sensing"
)

// sample of both scalers' replicas.
type sample struct {
	at         time.Duration // scenario time
	mash2, hpa int32
}

// TestMetricsOutage: with Prometheus killed during a ramp-up, mash2 has within
// a minute at least the replicas that the stock HPA has, and never takes any
// away.
func TestMetricsOutage(t *testing.T) {
	const users = 300
	s := scenario(t, 10,
		scenarios.Stage{Duration: 3 * time.Minute, Target: 10},
		scenarios.Stage{Duration: 3 * time.Minute, Target: users},
		scenarios.Stage{Duration: 10 * time.Hour, Target: users},
	)
	// The ramp ends beyond what the most replicas carry at the target: its end
	// does not depend on which of two measurements reads a little higher.
	s.Workload.Replicas.Max = 9
	// Nodes for all of them are there, for both: while pods wait for nodes their
	// usage tells nothing of demand, to either scaler, and boots take as long as
	// what is compared.
	s.Pools[0].Nodes, s.Pools[0].NodesPerZone.Min = 4, 4
	w := newWorld(t, testbed.Options{Scenario: s, Speed: 10, Baseline: true})
	o := w.operator()
	w.Load.Begin()
	w.eventually("the ramp", func() string {
		if now := w.Load.ScenarioTime(time.Now()); now < 4*time.Minute {
			return now.String()
		}
		return ""
	})
	if err := w.Prometheus.Kill(); err != nil {
		t.Fatal(err)
	}
	outage := w.Load.ScenarioTime(time.Now())

	var samples []sample
	w.eventually("the end of the outage", func() string {
		s := sample{mash2: w.replicas(testbed.Mash2), hpa: w.replicas(testbed.Baseline)}
		s.at = w.Load.ScenarioTime(time.Now())
		samples = append(samples, s)
		if s.at < outage+6*time.Minute {
			return s.at.String()
		}
		return ""
	})

	last := samples[len(samples)-1]
	t.Logf("killed at %v with mash2 at %d and the HPA at %d; at the end %d and %d",
		outage.Round(time.Second), samples[0].mash2, samples[0].hpa, last.mash2, last.hpa)
	if last.hpa <= samples[0].hpa {
		t.Errorf("the HPA stayed at %d: there was no ramp to follow", last.hpa)
	}
	late := w.latest(outage)
	t.Logf("a cycle of mash2's came %v late", late.Round(time.Second))
	lag := time.Minute + min(late, time.Minute)
	earlier := 0 // the latest sample that long before
	for i, s := range samples {
		if i > 0 && s.mash2 < samples[i-1].mash2 {
			t.Errorf("at %v: mash2 went down from %d to %d without Prometheus", s.at.Round(time.Second), samples[i-1].mash2, s.mash2)
		}
		if s.at < outage+lag {
			continue
		}
		for samples[earlier+1].at <= s.at-lag {
			earlier++
		}
		if then := samples[earlier]; s.mash2 < then.hpa {
			t.Errorf("at %v: mash2 has %d replicas, the HPA had %d %v before", s.at.Round(time.Second), s.mash2, then.hpa, lag)
		}
	}
	found := false
	for _, c := range w.records() {
		for _, f := range c.Findings {
			found = found || f.Reason == sensing.ReasonPrometheusUnreachable
		}
	}
	if !found {
		t.Errorf("no cycle has a finding %s", sensing.ReasonPrometheusUnreachable)
	}
	if t.Failed() {
		for i, s := range samples {
			if i%5 == 0 {
				t.Logf("%8v mash2 %d, HPA %d", s.at.Round(time.Second), s.mash2, s.hpa)
			}
		}
		for _, c := range w.records() {
			at := w.Load.ScenarioTime(c.Time)
			if at < outage-30*time.Second || len(c.Plan.Workloads) == 0 {
				continue
			}
			p := c.Plan.Workloads[0]
			t.Logf("%8v cycle: %d → %d (%s, floor %d of %s) %s %s", at.Round(time.Second), p.Current, p.Replicas, p.Binding, p.Floor, p.FloorSource, p.Reason, c.Error)
		}
	}
	w.stop(o)
}

// latest is by how much the latest cycle since then came late: on a machine with
// too much else to do it is the machine that was, not mash2. In scenario time.
func (w *world) latest(since time.Duration) time.Duration {
	w.t.Helper()
	const period = 15 * time.Second
	var late, before time.Duration
	for i, c := range w.records() {
		at := w.Load.ScenarioTime(c.Time)
		if i > 0 && at > since {
			late = max(late, at-before-period)
		}
		before = at
	}
	return late
}
