package execution

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// Reasons of findings about sizes that kubelets don't carry out.
const (
	ReasonResizeDeferred   = "ResizeDeferred"   // the node has no room now
	ReasonResizeInfeasible = "ResizeInfeasible" // it will never have
	ReasonResizeError      = "ResizeError"      // the kubelet tries again

	ReasonResizeWaitsForQuota = "ResizeWaitsForQuota" // the namespace has no room
)

// usages are what a kubelet says of the bytes that are used now. They are others at each look, and
// would make each an Event of its own.
var usages = regexp.MustCompile(` \(\d+\)`)

// explainResizes tells what kubelets refuse.
func (q *sequencer) explainResizes(w *api.Workload, stay []*api.Pod) {
	var refused []*api.Pod
	for _, p := range stay {
		if p.Resize == api.ResizeInfeasible || p.Resize == api.ResizeDeferred || p.Resize == api.ResizeError {
			refused = append(refused, p)
		}
	}
	if len(refused) == 0 {
		return
	}
	slices.SortStableFunc(refused, func(a, b *api.Pod) int { return cmp.Compare(a.Key.Name, b.Key.Name) })
	p := refused[0]
	reason := map[api.ResizeState]string{
		api.ResizeDeferred: ReasonResizeDeferred, api.ResizeInfeasible: ReasonResizeInfeasible, api.ResizeError: ReasonResizeError,
	}[p.Resize]
	q.note(api.VerticalScalingAgent, reason, api.WorkloadRef(w.Key),
		"the kubelets of %d pods have not applied the new sizes yet; %s on %s: %s", len(refused), p.Key.Name, p.Node, usages.ReplaceAllString(p.ResizeMessage, ""))
}

// instead is what a pod asks for whose node will never give it what it asks for now, where it needs
// more memory than it has. A kubelet refuses a resize as a whole, also where it is the CPU that can't
// be changed, as with its static CPU manager: then memory is asked for with the CPU that the pod has,
// once. Changes are those that bring it to the plan: with none it is what was refused.
func instead(w *api.Workload, plan *api.SizingPlan, p *api.Pod, changes []resize) []resize {
	if p.Held == nil {
		return changes
	}
	var out []resize
	needs, asked := false, true
	for i, u := range w.Sizing.Containers {
		if i >= len(plan.Containers) {
			break
		}
		want := plan.Containers[i]
		is, ok := p.Size.Container(u.Name)
		held, known := p.Held.Container(u.Name)
		if !ok || !known {
			return changes
		}
		to, limits := held.Requests, held.Limits
		if !u.RestartMemory && !u.FixedMemory && held.Requests.Memory > 0 && want.Requests.Memory > held.Requests.Memory {
			to.Memory = want.Requests.Memory
			if held.Limits.Memory > 0 {
				limits.Memory = max(held.Limits.Memory, want.Limits.Memory, to.Memory)
			}
			needs = needs || want.Requests.MilliCPU != held.Requests.MilliCPU
		}
		if is.Requests == to && is.Limits == limits {
			continue
		}
		asked = false
		out = append(out, resize{
			ResizePod: api.ResizePod{Pod: p.Key, UID: p.UID, Container: u.Name, From: is.Requests, To: to, Limits: limits, Reason: want.Reason},
			grows:     api.Resources{Memory: to.Memory - held.Requests.Memory}, had: is.Limits,
		})
	}
	switch {
	case !needs:
		return changes
	case asked:
		return nil // it was refused, too
	case len(changes) > 0:
		return changes // the plan is another one than what was refused
	}
	return out
}
