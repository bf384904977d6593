package api_test

import (
	"encoding/json"
	"testing"

	"github.com/mash2-io/mash2/api"
)

// JSON keys of the release before are written beside their new names.
func TestOldNamesInJSON(t *testing.T) {
	b, err := json.Marshal(api.WorkloadPlan{
		Key: api.Key{Namespace: "shop", Name: "web"}, Scale: api.Scale{Replicas: 5}, Ramp: 2,
		Triggers: []api.TriggerPlan{{Name: "queue"}}, Skill: &api.ForecastSkill{Trust: api.TrustFull},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Replicas, Ramp, Rise int
		Triggers, Signals    []struct{ Name string }
		Skill                struct{ Trust, Licence string }
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got.Replicas != 5 || got.Ramp != 2 || got.Rise != 2 || len(got.Triggers) != 1 || len(got.Signals) != 1 ||
		got.Signals[0].Name != "queue" || got.Skill.Trust != "full" || got.Skill.Licence != "full" {
		t.Errorf("%s", b)
	}
}
