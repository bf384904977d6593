package sim

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// rise is open load that rises in a minute to nearly four times as much.
const rise = `name: rise
base: heartbeat
arrivals: {csv: rise.csv, time: when, column: rps}
`

// The fluid model and that of every request agree at 1× and at 20×, of users and of
// open load, with capacity for all and with too little, tails included; and they differ
// at 20× as they do at 1×. The fluid model's p99 is a quarter to a third too low where
// there is capacity for all, at either size; the SLO is of p95. The median of a minute
// that is half overloaded lies in a gap, so it is compared with capacity for all only.
func TestFidelitiesAgreeAtAnySize(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"rise.yaml": rise, "rise.csv": "when,rps\n0,100\n60,380\n180,380\n240,100\n300,100\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, scenario := range []string{"heartbeat", filepath.Join(dir, "rise.yaml")} {
		for _, scaler := range []string{Static, HPA} {
			at1 := map[string]float64{} // relative differences at 1×
			for _, scale := range []float64{1, 20} {
				s, err := scenarios.LoadWith(scenario, scenarios.Changes{Scale: scale})
				if err != nil {
					t.Fatal(err)
				}
				var of [2]load.Summary
				for i, fidelity := range []Fidelity{PerRequest, Fluid} {
					r, err := Run(t.Context(), Options{Scenario: s, Scaler: scaler, Seed: 1, Fidelity: fidelity})
					if err != nil {
						t.Fatal(err)
					}
					of[i] = r.Workloads[0].Measured
				}
				name := fmt.Sprintf("%s with %s at %g×", s.Name, scaler, scale)
				for _, figure := range []struct {
					name        string
					each, fluid float64
					most        float64 // relative difference
				}{
					{"requests", float64(of[0].Requests), float64(of[1].Requests), 0.02},
					{"CPU", of[0].CPUSeconds, of[1].CPUSeconds, 0.02},
					{"replicas", *of[0].MeanReplicas, *of[1].MeanReplicas, 0.03},
					{"p50", *of[0].P50Ms, *of[1].P50Ms, 0.15},
					{"p95", *of[0].P95Ms, *of[1].P95Ms, 0.2},
					{"p99", *of[0].P99Ms, *of[1].P99Ms, 0.37},
				} {
					if figure.name == "p50" && scaler != Static {
						continue
					}
					difference := figure.fluid/figure.each - 1
					if scale == 1 {
						at1[figure.name] = difference
					} else if d := difference - at1[figure.name]; math.Abs(d) > 0.12 {
						t.Errorf("%s: %s differs by %+.0f %%, at 1× by %+.0f %%", name, figure.name, 100*difference, 100*at1[figure.name])
					}
					if math.Abs(difference) > figure.most {
						t.Errorf("%s: %s %.4g of every request, %.4g fluid: %+.0f %%", name, figure.name, figure.each, figure.fluid, 100*difference)
					} else {
						t.Logf("%s: %s %.4g and %.4g: %+.1f %%", name, figure.name, figure.each, figure.fluid, 100*difference)
					}
				}
				if of[0].SLOViolationMinutes-of[1].SLOViolationMinutes != 0 {
					t.Errorf("%s: %d minutes in violation of every request, %d fluid", name, of[0].SLOViolationMinutes, of[1].SLOViolationMinutes)
				}
			}
		}
	}
}
