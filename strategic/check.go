package strategic

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
)

// Check compares the policies with the pools that there are: what names a pool
// or a machine type that nobody has is no error of form, and can't be followed.
// Each finding names the field by its path. Without pools there is nothing to
// compare with.
func Check(spec api.PolicySpec, s api.Snapshot) []api.Finding {
	if len(s.Pools) == 0 {
		return nil
	}
	pools := make(map[string]api.Pool, len(s.Pools))
	for _, p := range s.Pools {
		pools[p.Name] = p
	}
	known := strings.Join(slices.Sorted(maps.Keys(pools)), ", ")
	var out []api.Finding
	warn := func(reason, format string, args ...any) {
		out = append(out, api.Finding{
			Severity: api.Warning, Agent: api.StrategicAgent, Reason: reason, Object: api.PolicyRef, Message: fmt.Sprintf(format, args...),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Policies)) {
		p := spec.Policies[name]
		ofType := p.MachineType == "" || len(p.NodePools) == 0
		for i, pool := range p.NodePools {
			if _, ok := pools[pool]; !ok {
				warn("UnknownPool", "policies.%s.nodePools[%d]: the cluster has no pool %q; it has %s", name, i, pool, known)
			}
			ofType = ofType || pools[pool].MachineType == p.MachineType
		}
		if !ofType {
			warn("UnknownMachineType", "policies.%s.machineType: none of its pools has machines of type %s", name, p.MachineType)
		}
	}
	return out
}
