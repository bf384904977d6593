package replay

import (
	"errors"
	"strings"
	"testing"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
)

// TestPoolsOfAChange: a pool that is not there is refused, and the error names those that are.
func TestPoolsOfAChange(t *testing.T) {
	s := api.Snapshot{Pools: []api.Pool{{Name: "general"}, {Name: "spot"}}}
	for with, refused := range map[string]string{
		"nodePools=general": "", "nodePools=general,spot": "", "minReplicas=3": "",
		"nodePools=genral": `"genral"; there is general, spot`, "nodePools=general,none": `"none"`, "nodePools=": `""`,
	} {
		err := Change{With: []string{with}}.pools(s)
		if (err == nil) != (refused == "") || err != nil && (!errors.Is(err, ErrChange) || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%s: %v, want %q", with, err, refused)
		}
	}
}

// TestNoDifference: why replicas are the same is told by what binds them with the change.
func TestNoDifference(t *testing.T) {
	plan := func(b api.Binding) (d mash2.Decision) {
		d.Plan.Workloads = []api.WorkloadPlan{{Key: api.Key{Namespace: "shop", Name: "web"}, Scale: api.Scale{Replicas: 7}, Binding: b}}
		return d
	}
	got := Change{Workload: "shop/web", With: []string{"minReplicas=7"}}.noDifference(plan(api.BindingFloor), plan(api.BindingPolicyMinReplicas))
	if want := "shop/web has 7 replicas by " + string(api.BindingPolicyMinReplicas) + " with the change as well"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
