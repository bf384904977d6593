package sim

import (
	"math"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// TestTheClairvoyantIsRight: what it says of a time is what is measured then, but
// for the chance in requests.
func TestTheClairvoyantIsRight(t *testing.T) {
	for _, name := range []string{"heartbeat", "sawtooth"} {
		t.Run(name, func(t *testing.T) {
			said := map[time.Time]map[time.Duration]float64{} // by lead
			leads := []time.Duration{time.Minute, 5 * time.Minute, 10 * time.Minute}
			off, last, all := 0.0, 0.0, 0.0
			before := map[time.Time]float64{}
			_, err := Run(t.Context(), Options{
				Scenario: loadScenario(t, name), Scaler: Clairvoyant + ":60", Seed: 1, Fidelity: Fluid, Passes: 1,
				Report: func(c api.Cycle) {
					w := c.Plan.Workloads[0]
					if w.Forecast == nil || w.Demand < 0 {
						return
					}
					now := w.Forecast.Start.Add(-w.Forecast.Step)
					for lead, v := range said[now] {
						off += math.Abs(v - w.Demand)
						last += math.Abs(before[now.Add(-lead)] - w.Demand)
						all += w.Demand
					}
					before[now] = w.Demand
					for _, lead := range leads {
						at := now.Add(lead)
						if said[at] == nil {
							said[at] = map[time.Duration]float64{}
						}
						said[at][lead] = w.Forecast.Mean[lead/w.Forecast.Step-1]
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("off by %.1f %% of demand; the last value by %.1f %%", 100*off/all, 100*last/all)
			if !(off < 0.1*all) || !(off < last/3) {
				t.Errorf("off by %.1f %% of demand, the last value by %.1f %%", 100*off/all, 100*last/all)
			}
		})
	}
}
