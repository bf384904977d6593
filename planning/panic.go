package planning

import (
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/mash2-io/mash2/api"
)

// ReasonPanicked is that of a finding which tells that code panicked for one workload.
const ReasonPanicked = "PlannerPanicked"

// attempt does what concerns one workload alone. If that panics, it returns why as a
// sentence: a finding tells of it, and the other workloads are planned all the same.
func (c *cycle) attempt(what string, workload api.Key, do func()) (failure string) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		failure = fmt.Sprintf("%s panicked: %v", what, value)
		if c.Panicked != nil {
			c.Panicked(what, workload, value, debug.Stack())
		}
		f := api.Finding{
			Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Reason: ReasonPanicked,
			Object: api.WorkloadRef(workload), Message: failure,
		}
		if !slices.Contains(c.findings, f) { // of the plan on another pool
			c.findings = append(c.findings, f)
		}
	}()
	do()
	return ""
}

// holding is the range of a workload that is held because of a failure.
func holding(s Subject, failure string) Range {
	n := s.Memory.Replicas
	now := Bound{Scale: api.Scale{Replicas: n}, Binding: api.BindingHold}
	return Range{Lo: now, Hi: now, Least: n, Hold: fmt.Sprintf("held at %d: %s", n, failure)}
}
