package sim

import (
	"testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// TestSized: in a simulated day after a day of history, pods whose requests are five times
// what they need are resized in place, new ones are made so, and no more minutes violate;
// the same world without sizing resizes nothing.
func TestSized(t *testing.T) {
	s, err := scenarios.LoadWith("day", scenarios.Changes{Warmup: -1, Scale: 0.4})
	if err != nil {
		t.Fatal(err)
	}
	s.Workload.CPU.Request, s.Workload.Memory.Request = quantity(t, "800m"), quantity(t, "640Mi")
	for scaler, want := range map[string]bool{Mash2: false, Mash2Sized: true} {
		var last api.Cycle
		resized := 0
		_, err := Run(t.Context(), Options{Scenario: s, Scaler: scaler, Seed: 1, WarmupPasses: 1, Passes: 1, Fidelity: Fluid, Report: func(c api.Cycle) {
			last = c
			for _, o := range c.Outcomes {
				if o.Kind == "ResizePod" && o.Error == "" {
					resized++
				}
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		w := last.Plan.Workloads[0]
		if (resized > 0) != want || (w.Sizing != nil) != want {
			t.Fatalf("%s: %d resizes, sizing %+v", scaler, resized, w.Sizing)
		}
		if want {
			t.Logf("%d resizes; %s", resized, w.Sizing.Reason)
			if c := w.Sizing.Containers[0].Requests; c.MilliCPU >= 800 || c.Memory >= 640<<20 {
				t.Errorf("in the end %s is requested", c)
			}
		}
	}
}
