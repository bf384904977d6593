package planning

import (
	"slices"

	"github.com/mash2-io/mash2/api"
)

// envelopes say what the agents of workloads may do until there is another plan, which is
// expected every CyclePeriod; two may be missed.
func (c *cycle) envelopes(plans []api.WorkloadPlan) {
	for i := range c.managed {
		mw := &c.managed[i]
		if mw.workload.Agents == nil {
			continue
		}
		if at := slices.IndexFunc(plans, func(p api.WorkloadPlan) bool { return p.Key == mw.workload.Key }); at >= 0 {
			plans[at].Agents = c.envelope(mw, &plans[at])
		}
	}
}

func (c *cycle) envelope(mw *managed, plan *api.WorkloadPlan) *api.AgentsPlan {
	w := &mw.workload
	a := &api.AgentsPlan{Agents: *w.Agents, Until: c.s.Time.Add(3 * c.Config.CyclePeriod)}
	a.Budget, a.Least, a.Most = a.MilliCPU, a.Floor, a.Ceiling
	if a.Budget == 0 {
		// Pods that run are not squeezed for replicas that are still to go, nor for those that take
		// their place. What is left of a rollout that gets nowhere serves, and needs more by day.
		// Pods on their way out keep theirs until they are gone.
		there := live(mw.pods)
		a.Budget = int64(max(plan.Replicas, plan.Current, there)+int32(len(mw.pods))-there) * a.Template
	}
	if a.Most == 0 || a.Most > a.Budget {
		a.Most = a.Budget
	}
	largest := c.largestPod(mw)
	if largest.MilliCPU > 0 {
		a.Most = min(a.Most, largest.MilliCPU)
	}
	a.Most = max(a.Most, a.Least)
	if m := a.Memory; m != nil {
		bounds := *m
		if bounds.Most == 0 || bounds.Most > bounds.Budget {
			bounds.Most = bounds.Budget
		}
		if largest.Memory > 0 {
			bounds.Most = min(bounds.Most, largest.Memory)
		}
		bounds.Most = max(bounds.Most, bounds.Least)
		a.Memory = &bounds
	}
	switch {
	case a.Stopped:
		a.Hold = "spec.vertical.run is false"
	case w.Hold != "":
		a.Hold = w.Hold
	case plan.Shadow:
		a.Hold = "spec.mode is Shadow: agents change nothing"
	case plan.Canary != nil && !plan.Canary.Acts:
		a.Hold = "the trial does not let mash2 act for this workload"
	case a.Selector == "":
		a.Hold = "it is not known which pods are its target's"
	case a.Budget == 0:
		a.Hold = "the pod template has no CPU limit, and spec.vertical.cpu states no budget"
	}
	return a
}

// live counts pods that are not on their way out.
func live(pods []api.Pod) (n int32) {
	for i := range pods {
		if !pods[i].Terminating {
			n++
		}
	}
	return n
}
