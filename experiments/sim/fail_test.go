package sim

import (
	"testing"
	"time"

	"github.com/mash2-io/mash2/demand"
	"github.com/mash2-io/mash2/experiments/load/record"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// Nodes that fail take what they were asked with them, are noticed after the
// grace period, and are replaced; in every pass anew, and whoever scales.
func TestFailingNodes(t *testing.T) {
	s := loadScenario(t, "noise")
	s.Noise = nil
	s.Events = []scenarios.Event{{At: scenarios.Duration{Duration: 10 * time.Minute}, FailNodes: 2, Pool: s.Pools[0].Name}}
	for _, fidelity := range []Fidelity{Fluid, PerRequest} {
		for _, scaler := range []string{"mash2", "hpa", "static"} {
			t.Run(string(fidelity)+" "+scaler, func(t *testing.T) {
				r := simulate(t, Options{Scenario: s, Scaler: scaler, Seed: 1, Fidelity: fidelity, Passes: 1})
				at := r.Start + 10*time.Minute
				var failed, replaced, before, after int
				for _, l := range r.Ledger {
					if l.Deleted == at {
						failed++
					}
					if l.Requested == at+40*time.Second {
						replaced++
					}
					if l.Requested < at && (l.Deleted < 0 || l.Deleted >= at) {
						before++
					}
					if end := r.Start + 29*time.Minute; l.Requested < end && (l.Deleted < 0 || l.Deleted > end) {
						after++
					}
				}
				if failed != 2 || replaced < 2 {
					t.Errorf("%d nodes failed and %d were replaced, want 2", failed, replaced)
				}
				if after < before-1 {
					t.Errorf("%d nodes before, %d at the end", before, after)
				}
				lost, calm := uint64(0), uint64(0)
				for _, b := range r.Workloads[0].Buckets {
					switch {
					case b.Start >= 600 && b.Start < 660:
						lost += b.Failed
					case b.Start >= 1500:
						calm += b.Failed
					}
				}
				if lost < 10 || calm > lost/10 {
					t.Errorf("%d requests failed with the nodes, %d when all was well again", lost, calm)
				}
			})
		}
	}
}

// A pool's own boot time holds for its nodes and is what is assumed of them.
func TestBootTimeOfAPool(t *testing.T) {
	s := loadScenario(t, "heartbeat")
	s.Pools[0].BootMedian = scenarios.Duration{Duration: 5 * time.Minute}
	c := newCluster(DefaultParams(), 1, newFluid(1))
	c.record = record.New()
	for _, p := range s.Pools {
		if err := c.addPool(p, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.resize(c.pools[0], 5); err != nil {
		t.Fatal(err)
	}
	if err := c.resize(c.pools[1], 3); err != nil {
		t.Fatal(err)
	}
	c.run(20 * time.Minute)
	for i, want := range []time.Duration{5 * time.Minute, c.params.BootMedian} {
		p := c.pools[i]
		if got := p.leads.Latency(c.params.NodeStartup); got.Samples != 3 || got.P50 < want*7/10 || got.P50 > want*14/10 {
			t.Errorf("%s: boots %+v, want about %v", p.name, got, want)
		}
	}
	sensors := sensors{c: c}
	c.pools[0].leads = demand.StartupLatencies{Limit: c.params.StartupSamples}
	if got := sensors.pool(c.pools[0]).NodeStartup; got.P50 != 5*time.Minute {
		t.Errorf("assumed of the slow pool: %+v", got)
	}
}
