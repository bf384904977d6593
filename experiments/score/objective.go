package score

import (
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/strategic"
)

// ObjectiveOf is the share of minutes within the SLO that a policy states by default, 0–1;
// COST_SAVING's for a name that is not built in.
func ObjectiveOf(policy string) float64 {
	defaults := strategic.Defaults()
	if p, ok := defaults[policy]; ok {
		return p.Objective
	}
	return defaults[api.CostSaving].Objective
}

// ObjectiveFor is the strictest objective of the policies that are in force during a
// scenario's passes, those that are switched to from outside with them.
func ObjectiveFor(s scenarios.Scenario, switches []scenarios.Switch) float64 {
	objective := ObjectiveOf(s.Policy.Initial)
	for _, all := range [][]scenarios.Switch{s.Policy.Switches, switches} {
		for _, w := range all {
			objective = max(objective, ObjectiveOf(w.Policy))
		}
	}
	return objective
}

// kept reports whether each workload violates its SLO in no more than the share of
// minutes that the objective leaves; nil without traffic.
func kept(objective float64, all []load.Summary) *bool {
	const rounding = 1e-9
	var out *bool
	for _, s := range all {
		if s.SLOViolationRatio == nil {
			continue
		}
		within := *s.SLOViolationRatio <= 1-objective+rounding && (out == nil || *out)
		out = &within
	}
	return out
}
