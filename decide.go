package mash2

import (
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/strategic"
)

// Decision is what follows from a snapshot, the policies and the planner's memory.
type Decision struct {
	Policy  api.Policy
	Plan    api.Plan
	Actions []api.Action
	Memory  planning.Memory // of the next cycle
}

// Decide is what a cycle does between seeing and acting: it is pure, and so replays.
func Decide(p Planner, s api.Snapshot, spec api.PolicySpec, m planning.Memory) Decision {
	d := Decision{Policy: strategic.Decide(spec, s)}
	d.Plan, d.Memory = p.Plan(s, d.Policy, m)
	d.Actions, _ = execution.Sequence(s, d.Plan, d.Policy)
	return d
}
