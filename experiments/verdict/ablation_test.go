package main

import (
	"testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/strategic/configmap"
)

// An ablation changes one weight, and nothing else of the policy but its pools.
func TestAblated(t *testing.T) {
	s := scenarios.Scenario{Pools: []scenarios.Pool{{Name: "a"}, {Name: "b"}}}
	of := func(term string) api.Weights {
		c, changed, err := ablated(s, api.Performance, term)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := configmap.Parse(map[string]string{"policy": changed.Policy.Initial, "policies.yaml": c.Policies}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range spec.Policies {
			if p.Name == api.Performance {
				if len(p.NodePools) != 2 || p.Objective == 0 {
					t.Errorf("%q: %+v", term, p)
				}
				return p.Weights
			}
		}
		t.Fatalf("%q: no policy", term)
		return api.Weights{}
	}
	all := of("")
	if all.Performance == 0 || all.Cost == 0 || all.Resilience == 0 {
		t.Fatalf("%+v", all)
	}
	for term, want := range map[string]api.Weights{
		"performance": {Cost: all.Cost, Resilience: all.Resilience},
		"cost":        {Performance: all.Performance, Resilience: all.Resilience},
		"resilience":  {Performance: all.Performance, Cost: all.Cost},
	} {
		if got := of(term); got != want {
			t.Errorf("without %s: %+v, want %+v", term, got, want)
		}
	}
}
