package planning

import (
	"fmt"
	"slices"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/parallel"
)

// ReasonPanicked is that of a finding which tells that code panicked for one workload.
const ReasonPanicked = "PlannerPanicked"

// panicked is what code panicked with, and where.
type panicked struct {
	value any
	stack []byte
}

// caught does something and returns what it panicked with, nil if it did not.
func caught(do func()) (p *panicked) {
	defer func() {
		if value := recover(); value != nil {
			p = &panicked{value, parallel.Stack(value)}
		}
	}()
	do()
	return nil
}

// attempt does what concerns one workload alone. If that panics, it returns why as a
// sentence: a finding tells of it, and the other workloads are planned all the same.
func (c *cycle) attempt(what string, workload api.Key, do func()) (failure string) {
	if p := caught(do); p != nil {
		return c.failed(what, workload, p)
	}
	return ""
}

// mishaps are panics in what was done for one of several workloads at once, to be told of
// later.
type mishaps []mishap

type mishap struct {
	what     string
	workload api.Key
	*panicked
}

// try is attempt, but for telling.
func (m *mishaps) try(what string, workload api.Key, do func()) (failure string) {
	if p := caught(do); p != nil {
		*m = append(*m, mishap{what, workload, p})
		return p.sentence(what)
	}
	return ""
}

func (p *panicked) sentence(what string) string { return fmt.Sprintf("%s panicked: %v", what, p.value) }

// failedAll tells of what happened to each workload.
func (c *cycle) failedAll(all []mishaps) {
	for _, m := range slices.Concat(all...) {
		c.failed(m.what, m.workload, m.panicked)
	}
}

// failed tells of a panic and returns it as a sentence.
func (c *cycle) failed(what string, workload api.Key, p *panicked) string {
	failure := p.sentence(what)
	if c.Panicked != nil {
		c.Panicked(what, workload, p.value, p.stack)
	}
	f := api.Finding{
		Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Reason: ReasonPanicked,
		Object: api.WorkloadRef(workload), Message: failure,
	}
	if !slices.Contains(c.findings, f) { // of the plan on another pool
		c.findings = append(c.findings, f)
	}
	return failure
}

// holding is the range of a workload that is held because of a failure.
func holding(s Subject, failure string) Range {
	n := s.Memory.Replicas
	now := Bound{Scale: api.Scale{Replicas: n}, Binding: api.BindingHold}
	return Range{Lo: now, Hi: now, Least: n, Hold: fmt.Sprintf("held at %d: %s", n, failure)}
}
