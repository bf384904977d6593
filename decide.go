package mash2

import (
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/strategic/strategy"
)

// Decision is what follows from a snapshot, the policies and the planner's memory.
type Decision struct {
	Policy  api.Policy
	Plan    api.Plan
	Actions []api.Action
	Memory  planning.Memory // of the next cycle
}

// Decider is what a cycle does between seeing and acting: it is pure, and so replays.
type Decider struct {
	Planner Planner
	// Models that users' strategies ask, by name.
	Models map[string]strategy.Model
}

// Decide one cycle.
func (by Decider) Decide(s api.Snapshot, spec api.PolicySpec, m planning.Memory) Decision {
	s.Context.Last, s.Context.LastStrategies = m.Signals, m.Strategies
	var d Decision
	d.Policy, s, _ = strategy.Steer(spec, s, by.Models)
	d.Plan, d.Memory = by.Planner.Plan(s, d.Policy, m)
	d.Actions, _ = execution.Sequence(s, d.Plan, d.Policy)
	return d
}
