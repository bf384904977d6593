package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// A Prometheus that reads a third of the CPU is not believed as long as
// metrics.k8s.io reads the whole: demand is stale, which is told, and replicas stay
// where they are. Without the doubt it would be taken for what it reads.
func TestImplausibleDemand(t *testing.T) {
	s := loadScenario(t, "noise")
	s.Noise = nil
	begin, length := 10*time.Minute, 15*time.Minute
	s.Events = []scenarios.Event{{At: duration(begin), For: duration(length), MetricsFactor: 0.3}}
	for _, ratio := range []float64{DefaultParams().ImplausibleRatio, 0} {
		p := DefaultParams()
		p.ImplausibleRatio = ratio
		var least, before int32
		told, stale := 0, 0
		origin := Epoch.Add(2 * time.Minute) // of scenario time
		simulate(t, Options{Scenario: s, Scaler: "mash2", Seed: 1, Passes: 1, Params: &p, Report: func(c api.Cycle) {
			w := c.Workloads[0]
			switch at := c.Time.Sub(origin); {
			case at < begin:
				before, least = w.Replicas, w.Replicas
			case at < begin+length:
				least = min(least, w.Replicas)
				if w.DemandStale {
					stale++
				}
				if slices.ContainsFunc(c.Findings, func(f api.Finding) bool { return f.Reason == demand.ReasonImplausible }) {
					told++
				}
			case w.DemandStale && at > begin+length+2*p.RateWindow:
				t.Errorf("%v: still in doubt", at)
			}
		}})
		t.Logf("ratio %v: %d replicas before, at least %d while Prometheus reads 30 %%; %d cycles stale, %d told", ratio, before, least, stale, told)
		if doubts := ratio > 0; least < before || doubts && (told < 40 || stale < 50) || !doubts && (stale > 0 || told > 0) {
			t.Errorf("ratio %v: %d replicas before, %d at least, told in %d cycles, stale in %d", ratio, before, least, told, stale)
		}
	}
}
