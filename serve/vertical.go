package serve

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// mostAgents that a status lists.
const mostAgents = 50

// verticalOf is what the agents of a workload's pods may do, and did; nil where it has none.
func verticalOf(plan *api.AgentsPlan) *v1alpha1.VerticalStatus {
	if plan == nil {
		return nil
	}
	cpu := func(milli int64) resource.Quantity { return *resource.NewMilliQuantity(milli, resource.DecimalSI) }
	status := &v1alpha1.VerticalStatus{
		Envelope: &v1alpha1.VerticalEnvelope{CPU: cpu(plan.Budget), MinCPU: cpu(plan.Least), MaxCPU: cpu(plan.Most)},
		Message:  plan.Hold,
	}
	memory := func(bytes int64) *resource.Quantity { return resource.NewQuantity(bytes, resource.BinarySI) }
	if plan.Memory != nil {
		status.Envelope.Memory = memory(plan.Memory.Budget)
	}
	s := plan.State
	if s == nil {
		return status
	}
	status.Decides = s.Mind
	said := []string{}
	for _, text := range []string{s.Error, cmp.Or(plan.Hold, s.Waits), strings.Join(s.Refused, "; ")} {
		if text != "" {
			said = append(said, text)
		}
	}
	status.Message = cut(strings.Join(said, "; "), 1024)
	for i, p := range s.Pods {
		if i == mostAgents {
			break
		}
		agent := v1alpha1.AgentStatus{Name: p.Pod, Limit: cpu(p.Next)}
		if p.Memory != nil && p.Memory.Stays == "" {
			agent.Memory = memory(p.Memory.Next)
		}
		status.Pods = append(status.Pods, agent)
	}
	if !s.Time.IsZero() {
		at := metav1.NewTime(s.Time)
		status.Time = &at
	}
	return status
}
