package planning

import (
	"fmt"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// BenchmarkTrials is a cycle's part of a trial of 5,000 workloads in one namespace with an
// SLO each and an hour of readings.
func BenchmarkTrials(b *testing.B) {
	c := &cycle{Hierarchy: Hierarchy{Config: DefaultConfig()}}
	now := time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)
	shape := &api.PodShape{Requests: api.Resources{MilliCPU: 250}}
	for i := range 5000 {
		mw := managed{workload: api.Workload{Key: api.Key{Namespace: "a", Name: fmt.Sprintf("w%04d", i)}}, pods: []api.Pod{{Shape: shape}, {Shape: shape}}}
		mw.memory.Key = mw.workload.Key
		mw.workload.Demand = api.Series{Start: now.Add(-2 * time.Hour), Step: 15 * time.Second}
		for s := range 480 {
			mw.workload.Demand.Values = append(mw.workload.Demand.Values, float64(100+(s*(i%7+1))%50))
		}
		c.managed = append(c.managed, mw)
	}
	look := func() {
		now = now.Add(15 * time.Second)
		c.s.Time, c.findings, c.before, c.memory = now, nil, c.memory, Memory{}
		for i := range c.managed {
			mw := &c.managed[i]
			mw.workload.Mode = api.ModeCanary
			mw.workload.Demand.Values[479]++
			mw.workload.SLOs = []api.SLO{{Name: "x", Objective: 0.999, At: now, Window: 45 * time.Second, Total: 4500}}
			mw.slos, mw.whys, mw.doubt = nil, nil, ""
		}
		c.trials()
		c.watch()
	}
	began := time.Now()
	look()
	b.Logf("the first cycle, in which pairs are made: %v", time.Since(began))
	for range 5 * 60 {
		look()
	}
	if got := c.managed[0].trial; got.Phase != api.CanaryRunning {
		b.Fatalf("%+v", got)
	}
	b.ReportAllocs()
	for b.Loop() {
		look()
	}
}
