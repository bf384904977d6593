package api_test

import (
	"encoding/json"
	"testing"

	"github.com/mash2-io/mash2/api"
)

// The text of a reference is what scripts read in JSON, and reads back as it was.
func TestObjectRefsAsText(t *testing.T) {
	web := api.Key{Namespace: "shop", Name: "web"}
	for want, ref := range map[string]api.ObjectRef{
		"workload shop/web":         api.WorkloadRef(web),
		"pod shop/web":              api.PodRef(web),
		"node n-1":                  api.NodeRef("n-1"),
		"pool n2":                   api.PoolRef("n2"),
		"policy":                    api.PolicyRef,
		"policy COST_SAVING":        api.NamedPolicyRef("COST_SAVING"),
		"cycle":                     api.CycleRef,
		"cache apps/v1 Deployments": {Kind: "cache", Key: api.Key{Name: "apps/v1 Deployments"}},
		"":                          {},
	} {
		if got := ref.String(); got != want {
			t.Errorf("%+v is %q, want %q", ref, got, want)
		}
		if got := api.ParseRef(want); got != ref {
			t.Errorf("%q reads as %+v, want %+v", want, got, ref)
		}
		b, err := json.Marshal(api.Outcome{Object: ref})
		if err != nil {
			t.Fatal(err)
		}
		var text struct {
			Object string `json:"object"`
		}
		var back api.Outcome
		if err := json.Unmarshal(b, &text); err != nil || text.Object != want {
			t.Errorf("as JSON %s, %v; want the text %q", b, err, want)
		}
		if err := json.Unmarshal(b, &back); err != nil || back.Object != ref {
			t.Errorf("%s reads back as %+v, %v", b, back.Object, err)
		}
	}
	if b, _ := json.Marshal(api.Finding{}); string(b) != `{"severity":"","reason":"","message":""}` {
		t.Errorf("a finding about nothing is %s", b)
	}
}
