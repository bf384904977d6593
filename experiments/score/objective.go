package score

import (
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// ObjectiveOf is the share of minutes within the SLO that a policy promises, 0–1.
// It is the one place that knows: policies of other names promise what COST_SAVING
// does.
func ObjectiveOf(policy string) float64 {
	if policy == api.Performance {
		return 0.9995
	}
	return 0.999
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
