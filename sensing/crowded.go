package sensing

import (
	"fmt"
	"strings"

	"github.com/mash2-io/mash2/api"
)

// crowdedNodes are those whose kubelets say that they are short of memory, in order of name.
func crowdedNodes(nodes []*nodeRecord) (out []string) {
	for _, n := range nodes {
		if n.node.MemoryPressure {
			out = append(out, n.node.Name)
		}
	}
	return out
}

// crowded is which node of these pods is short of memory; empty if none is.
func (v *view) crowded(members []*podRecord) string {
	if len(v.short) == 0 {
		return ""
	}
	for _, p := range members {
		if v.short[p.pod.Node] {
			return p.pod.Node
		}
	}
	return ""
}

// crowdedFinding says that kubelets evict pods.
func crowdedFinding(names []string) (api.Finding, bool) {
	if len(names) == 0 {
		return api.Finding{}, false
	}
	const most = 5
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
	}
	return api.Finding{
		Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Reason: ReasonNodeMemoryPressure, Object: api.NodeRef(names[0]),
		Message: fmt.Sprintf("short of memory, so that kubelets evict pods: %s%s; raise the requests of pods there that use more than they request; "+
			"sized workloads there get at least what their authors wrote, for eight days", strings.Join(names[:min(len(names), most)], ", "), more),
	}, true
}
