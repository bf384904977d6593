package strategy

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/strategic"
)

// Steer is what a cycle is planned by: the policy in force, and the snapshot with the bounds
// of workloads, as strategies want them. The snapshot given is not changed. What a person
// set by hand comes before a strategy; a strategy comes before signals and the schedule.
// Models are those that choices may ask, by name.
func Steer(spec api.PolicySpec, s api.Snapshot, models map[string]Model) (api.Policy, api.Snapshot, []api.Finding) {
	policy := strategic.Decide(spec, s)
	if len(s.Context.Strategies) == 0 {
		return policy, s, nil
	}
	out := Decide(Input{
		Time: s.Time, Policy: policy.Name, Strategies: s.Context.Strategies, Last: s.Context.LastStrategies, Models: models,
		Policies: slices.Sorted(maps.Keys(spec.Policies)), ByHand: policy.Source == api.SourceManual,
	})
	refuse := func(a *api.StrategyAction, format string, args ...any) {
		a.NotDone = fmt.Sprintf(format, args...)
		out.find("StrategyNotDone", a.Strategy, fmt.Sprintf("%s wants %s: %s", a.Rule, a.What(), a.NotDone))
	}
	each := func(kind api.StrategyActionKind, do func(a *api.StrategyAction)) {
		for i := range out.Actions {
			if a := &out.Actions[i]; a.Kind == kind && a.NotDone == "" {
				do(a)
			}
		}
	}
	// 1. The policy.
	each(api.ActionSetPolicy, func(a *api.StrategyAction) {
		switch _, known := spec.Policies[a.Policy]; {
		case !known:
			refuse(a, "there is no such policy")
		case policy.Source == api.SourceManual:
			a.NotDone = fmt.Sprintf("%s is set by hand, which comes before it", policy.Name)
		default:
			policy = strategic.Instead(spec, s, a.Policy, a.Since, fmt.Sprintf("strategy %s, %s: %s", a.Strategy, a.Rule, a.Reason))
		}
	})
	out.held(policy.Name, spec.Paused)
	// 2. Its pools.
	each(api.ActionMove, func(a *api.StrategyAction) {
		if a.Workload != (api.Key{}) {
			return
		}
		var open []string
		for _, pool := range policy.NodePools {
			if slices.Contains(a.Pools, pool) {
				open = append(open, pool)
			}
		}
		if len(open) == 0 {
			refuse(a, "policy %s allows none of them", policy.Name)
			return
		}
		policy.NodePools = open
	})
	// 3. The workloads' bounds: never beyond the author's.
	workloads := slices.Clone(s.Workloads)
	workload := func(a *api.StrategyAction) *api.Workload {
		for i := range workloads {
			if workloads[i].Key == a.Workload {
				return &workloads[i]
			}
		}
		refuse(a, "there is no such ManagedWorkload")
		return nil
	}
	each(api.ActionSetBounds, func(a *api.StrategyAction) {
		w := workload(a)
		if w == nil {
			return
		}
		least, most := w.MinReplicas, w.MaxReplicas
		if a.MinReplicas > 0 {
			w.MinReplicas = min(max(a.MinReplicas, least), most)
		}
		if a.MaxReplicas > 0 {
			w.MaxReplicas = max(min(a.MaxReplicas, most), max(w.MinReplicas, 1))
			if w.MaxReplicas < most && w.AuthorMax == 0 {
				w.AuthorMax = most
			}
		}
	})
	each(api.ActionProposeReplicas, func(a *api.StrategyAction) {
		if w := workload(a); w != nil {
			w.MinReplicas = max(w.MinReplicas, min(a.MinReplicas, w.MaxReplicas))
		}
	})
	// 4. The pools of single workloads, of those that are open by now.
	each(api.ActionMove, func(a *api.StrategyAction) {
		if a.Workload == (api.Key{}) {
			return
		}
		w := workload(a)
		if w == nil {
			return
		}
		open, why := onePools(s, policy, w, a.Pools)
		if why != "" {
			refuse(a, "%s", why)
			return
		}
		if len(open) < len(policy.NodePools) {
			w.OnlyPools = open
		}
	})
	s.Workloads = workloads
	policy.Strategies, policy.StrategyActions = out.States, out.Actions
	return policy, s, out.Findings
}
