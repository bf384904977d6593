package sim

import (
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// TestCanary: of four workloads with a day's load two were handed over to mash2, two keep
// their HPA. mash2 acts for one, beside a control. What is as good is promoted; 5 % errors
// of the canary only stop the trial; those of canary and control both don't.
func TestCanary(t *testing.T) {
	s, err := scenarios.Load("../traces/development/crane-4.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.Copies, s.Warmup.Passes = 4, 0
	const begin, errorsFor = 8 * time.Hour, 20 * time.Minute
	policies := "policies: {COST_SAVING: {nodePools: [" + s.Pools[0].Name + "], canary: {baseline: 3h, soak: 6h, share: 0.25}}}"
	for name, c := range map[string]struct {
		errors []Errors
		want   api.CanaryPhase
	}{
		"good":                 {nil, api.CanaryPromoted},
		"errors of the canary": {[]Errors{{At: begin, For: errorsFor, Share: 0.05, Canaries: true}}, api.CanaryStopped},
		"errors of both":       {[]Errors{{At: begin, For: errorsFor, Share: 0.05}}, api.CanaryPromoted},
	} {
		t.Run(name, func(t *testing.T) {
			var trial *api.CanaryPlan
			var turned time.Time
			acting, both := map[api.Key]bool{}, 0
			result, err := Run(t.Context(), Options{
				Scenario: s, Scaler: Mash2, Seed: 1, Fidelity: Fluid, Passes: 1, Policies: policies,
				SLO: SLO{Objective: 0.999, Errors: c.errors}, Canary: true,
				Report: func(cycle api.Cycle) {
					for i, w := range cycle.Plan.Workloads {
						if w.Canary == nil {
							continue
						}
						if trial == nil || trial.Phase != w.Canary.Phase {
							turned = cycle.Time
						}
						trial = w.Canary
						if w.Canary.Acts {
							acting[w.Key] = true
						}
						if contested(i) && !w.Shadow {
							both++
						}
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			// Once it has ended it is a day like any other.
			meanwhile := 0
			for _, r := range result.Rollbacks {
				t.Logf("taken back at %v: %s", result.ScenarioTime(r.At).Round(time.Second), r.Reason)
				if r.At.Before(turned) {
					meanwhile++
				}
			}
			if trial == nil {
				t.Fatal("no trial")
			}
			t.Logf("%s at %v; acted for %d of 4; %d rollbacks: %s", trial.Phase, result.ScenarioTime(turned).Round(time.Second), len(acting), meanwhile, trial.Waits)
			if trial.Phase != c.want || meanwhile > 0 {
				t.Errorf("%+v, %d rollbacks", trial, meanwhile)
			}
			if both > 0 {
				t.Errorf("%d plans of workloads that an HPA scales are no shadows", both)
			}
			if took := result.ScenarioTime(turned) - begin; c.want == api.CanaryStopped && took > errorsFor {
				t.Errorf("stopped %v after the errors began", took)
			}
		})
	}
}
