package strategic

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

func TestCheck(t *testing.T) {
	pools := []api.Pool{{Name: "cheap", MachineType: "e2-medium"}, {Name: "fast", MachineType: "n2-standard-2"}}
	for name, c := range map[string]struct {
		policy api.Policy
		pools  []api.Pool
		want   []string
	}{
		"a pool that is there":       {api.Policy{NodePools: []string{"cheap"}}, pools, nil},
		"no pools are named":         {api.Policy{MachineType: "e2-medium"}, pools, nil},
		"no provider tells of pools": {api.Policy{NodePools: []string{"cheep"}}, nil, nil},
		"a pool that isn't, of another cluster or mistyped": {
			api.Policy{NodePools: []string{"cheap", "cheep"}}, pools,
			[]string{`UnknownPool policy: policies.P.nodePools[1]: the cluster has no pool "cheep"; it has cheap, fast`},
		},
		"a machine type that one of them has": {api.Policy{NodePools: []string{"cheap", "fast"}, MachineType: "n2-standard-2"}, pools, nil},
		"a machine type that none of them has": {
			api.Policy{NodePools: []string{"cheap"}, MachineType: "n2-standard-2"}, pools,
			[]string{"UnknownMachineType policy: policies.P.machineType: none of its pools has machines of type n2-standard-2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range Check(api.PolicySpec{Policies: map[string]api.Policy{"P": c.policy}}, api.Snapshot{Pools: c.pools}) {
				if f.Severity != api.Warning || f.Agent != api.StrategicAgent {
					t.Errorf("%+v", f)
				}
				got = append(got, f.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
