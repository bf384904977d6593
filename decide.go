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
	d.Plan, d.Memory = plan(p, s, d.Policy, m)
	d.Actions, _ = execution.Sequence(s, d.Plan, d.Policy)
	return d
}

// plan is the best plan. When workloads can't be moved to the pool that comes out, the
// best is planned for the one that they stay on.
func plan(planner Planner, s api.Snapshot, p api.Policy, before planning.Memory) (api.Plan, planning.Memory) {
	out, after := planner.Plan(s, p, before)
	if r := execution.Preflight(s, out, p); r != nil && r.Stay != "" && r.Stay != r.Pool {
		out, after = planner.Plan(s, staying(p, r.Stay), before)
		out.Nodes.Refusal = r
	}
	return out, after
}

// staying is the policy but for its pools: workloads stay on this one.
func staying(p api.Policy, pool string) api.Policy {
	p.NodePools, p.MachineType = []string{pool}, ""
	return p
}
