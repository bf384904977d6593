package execution

import (
	"fmt"
	"strings"

	"github.com/mash2-io/mash2/api"
)

// budgets are the disruption budgets of a snapshot, and how many more evictions
// each allows now; what has been promised is taken.
type budgets struct {
	byKey   map[api.Key]*api.DisruptionBudget
	covered map[api.Key]int32 // pods that are not terminating
	left    map[api.Key]int32
}

func newBudgets(s api.Snapshot) budgets {
	if len(s.Budgets) == 0 {
		return budgets{}
	}
	b := budgets{
		byKey:   make(map[api.Key]*api.DisruptionBudget, len(s.Budgets)),
		covered: make(map[api.Key]int32, len(s.Budgets)),
		left:    make(map[api.Key]int32, len(s.Budgets)),
	}
	for i := range s.Budgets {
		budget := &s.Budgets[i]
		b.byKey[budget.Key] = budget
		if !budget.Stale {
			b.left[budget.Key] = budget.Allowed
		}
	}
	for i := range s.Pods {
		for _, name := range s.Pods[i].Budgets {
			if !s.Pods[i].Terminating {
				b.covered[api.Key{Namespace: s.Pods[i].Key.Namespace, Name: name}]++
			}
		}
	}
	return b
}

// of are the budgets that cover a pod.
func (b budgets) of(p *api.Pod) []*api.DisruptionBudget {
	var out []*api.DisruptionBudget
	for _, name := range p.Budgets {
		if budget := b.byKey[api.Key{Namespace: p.Key.Namespace, Name: name}]; budget != nil {
			out = append(out, budget)
		}
	}
	return out
}

// forbids names the budget that can never allow a pod to be moved; empty if
// there is none. A workload that surges never has fewer pods than wanted, which
// is all that a number of available pods asks for; what can't surge is evicted,
// and the Eviction API wants one pod more than that, and a single budget.
func (v *view) forbids(p *api.Pod) string {
	if !v.guards.holds(guardBudgets) {
		return ""
	}
	wanted, acting := v.wanted[p.Workload]
	surges := acting && p.ControllerKind == replicaSet
	all := v.budgets.of(p)
	if len(all) > 1 && !surges {
		names := make([]string, len(all))
		for i, budget := range all {
			names[i] = budget.Key.String()
		}
		return "more than one PodDisruptionBudget covers it, and the Eviction API accepts only one: " + strings.Join(names, ", ")
	}
	for _, budget := range all {
		never := func() string { return fmt.Sprintf("PodDisruptionBudget %s never allows a disruption", budget) }
		least := budget.MinAvailable
		if most := budget.MaxUnavailable; most != nil && most.Value <= 0 {
			return never()
		}
		if least == nil {
			continue
		}
		pods := max(wanted, v.budgets.covered[budget.Key])
		switch {
		case least.Percent && least.Value >= 100:
			return never()
		case surges && !least.Percent && least.Value > wanted:
			return fmt.Sprintf("%s: only %d replicas are wanted", never(), wanted)
		case surges:
		case least.Percent && (least.Value*pods+99)/100 >= pods, !least.Percent && least.Value >= pods:
			return fmt.Sprintf("%s: it covers only %d pods", never(), pods)
		}
	}
	return ""
}

// allow takes an eviction from the pod's budget, or names the budget that
// doesn't allow it now. As the Eviction API has it, a pod that isn't Ready may go
// while as many others as desired are, if any have to be, or always if the budget
// says so, and one that isn't running always.
func (b budgets) allow(p *api.Pod) (budget *api.DisruptionBudget, ok bool) {
	all := b.of(p)
	if p.Phase == "Pending" {
		return nil, true
	}
	free := func(budget *api.DisruptionBudget) bool {
		return !p.Ready && (budget.UnhealthyAlways || !budget.Stale && budget.Desired > 0 && budget.Healthy >= budget.Desired)
	}
	for _, budget := range all {
		if b.left[budget.Key] <= 0 && !free(budget) {
			return budget, false
		}
	}
	for _, budget := range all {
		if !free(budget) {
			b.left[budget.Key]--
		}
	}
	return nil, true
}
