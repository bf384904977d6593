package sensing

import (
	"fmt"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

const (
	// slowStarts is how many of the usual longest starts a pod may take that is held by its
	// CPU limit, and slowPriors how many of those assumed where none was measured, at least.
	slowStarts, slowPriors = 2, 4
	// atLimit is the share of a limit from which on usage counts as held by it: throttled
	// containers use a little less.
	atLimit = 0.8
)

// slow is which pod is not Ready, and does not become so, as it uses all the CPU that its
// limit lets it, where that is less than its author wrote; empty if none is. A container
// whose program takes much CPU to start is found so: what it used in the past is known as
// means of a minute, and the first samples of a container are lost.
func (o *Observer) slow(now time.Time, t *targetRecord, planned []api.ContainerPlan, members []*podRecord) string {
	lead := o.pods.lead(t.id)
	patience := max(slowStarts*lead.P90, slowPriors*o.cfg.PodStartup.P90)
	for _, p := range members {
		if p.pod.Ready || p.pod.Terminating || p.scheduledAt.IsZero() || p.size.size == nil {
			continue
		}
		since := time.Unix(p.unready, 0)
		if p.scheduledAt.After(since) {
			since = p.scheduledAt
		}
		m, ok := o.usage.reading(p.key)
		if !ok || now.Sub(since) < patience || now.Sub(m.at) > o.cfg.UsageStaleAfter || m.at.Before(since) {
			continue
		}
		for _, u := range t.containers {
			is, ok := p.size.size.Container(u.Name)
			lowered := slices.ContainsFunc(planned, func(c api.ContainerPlan) bool { return c.Name == u.Name && c.Limits.MilliCPU < u.Limits.MilliCPU })
			if !ok || !lowered || is.Limits.MilliCPU == 0 || is.Limits.MilliCPU >= u.Limits.MilliCPU {
				continue
			}
			if used, ok := m.of("cpu", u.Name); ok && used*1000 >= atLimit*float64(is.Limits.MilliCPU) {
				return fmt.Sprintf("container %s of pod %s is not Ready, and uses all of its CPU limit of %dm, where its author wrote %dm",
					u.Name, p.key.Name, is.Limits.MilliCPU, u.Limits.MilliCPU)
			}
		}
	}
	return ""
}

// slowFinding says that a CPU limit of mash2's keeps pods from becoming Ready.
func slowFinding(w api.Workload) (api.Finding, bool) {
	if w.Sizing == nil || w.Sizing.Slow == "" || !w.Sizing.Mode.Acts() {
		return api.Finding{}, false
	}
	return api.Finding{
		Severity: api.Warning, Agent: api.VerticalScalingAgent, Reason: ReasonCPULimitTooLow, Object: api.WorkloadRef(w.Key),
		Message: w.Sizing.Slow + ": CPU is requested and limited as written again",
	}, true
}
