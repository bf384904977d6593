package score

import (
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

func TestKept(t *testing.T) {
	ratios := func(all ...float64) (out []load.Summary) {
		for _, r := range all {
			s := load.Summary{SLOViolationRatio: &r}
			if r < 0 {
				s.SLOViolationRatio = nil
			}
			out = append(out, s)
		}
		return out
	}
	yes, no := true, false
	for sentence, test := range map[string]struct {
		all  []load.Summary
		want *bool
	}{
		"no minute in violation":               {ratios(0), &yes},
		"one of a day's 1440 is within 0.1 %":  {ratios(1.0 / 1440), &yes},
		"two are not":                          {ratios(2.0 / 1440), &no},
		"exactly as many as are left":          {ratios(1.0 / 1000), &yes},
		"one of many workloads is not within":  {ratios(0, 0.01, 0), &no},
		"the last is not":                      {ratios(0, 0, 0.01), &no},
		"who had no traffic does not count":    {ratios(-1, 0), &yes},
		"nobody had traffic":                   {ratios(-1, -1), nil},
		"without traffic and beyond it: still": {ratios(0.01, -1), &no},
	} {
		got := kept(0.999, test.all)
		if (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
			t.Errorf("%s: %v", sentence, got)
		}
	}
}

// The strictest policy that is in force at any time is what is promised.
func TestObjectiveFor(t *testing.T) {
	saving, fast := ObjectiveOf(api.CostSaving), ObjectiveOf(api.Performance)
	if !(fast > saving && fast < 1) {
		t.Fatalf("PERFORMANCE promises %g, COST_SAVING %g", fast, saving)
	}
	at := func(policy string) []scenarios.Switch {
		return []scenarios.Switch{{At: scenarios.Duration{Duration: time.Minute}, Policy: policy}}
	}
	for sentence, test := range map[string]struct {
		policy   scenarios.Policy
		switches []scenarios.Switch
		want     float64
	}{
		"saving throughout":         {scenarios.Policy{Initial: api.CostSaving}, nil, saving},
		"fast throughout":           {scenarios.Policy{Initial: api.Performance}, nil, fast},
		"the scenario switches":     {scenarios.Policy{Initial: api.CostSaving, Switches: at(api.Performance)}, nil, fast},
		"it is switched":            {scenarios.Policy{Initial: api.CostSaving}, at(api.Performance), fast},
		"it is switched to saving":  {scenarios.Policy{Initial: api.Performance}, at(api.CostSaving), fast},
		"a policy of its owner's":   {scenarios.Policy{Initial: "NIGHT"}, nil, saving},
		"no policy is saving, too":  {scenarios.Policy{}, nil, saving},
		"one among several matters": {scenarios.Policy{Initial: "NIGHT", Switches: at("DAY")}, at(api.Performance), fast},
	} {
		if got := ObjectiveFor(scenarios.Scenario{Policy: test.policy}, test.switches); got != test.want {
			t.Errorf("%s: %g, want %g", sentence, got, test.want)
		}
	}
}
