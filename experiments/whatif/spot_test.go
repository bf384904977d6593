package whatif

import (
	"strings"
	"testing"

	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/strategic/configmap"
)

// TestBeside: a policy gets a spot pool beside each of its own, and keeps what else it says.
func TestBeside(t *testing.T) {
	s := scenarios.Scenario{Pools: []scenarios.Pool{
		{Name: "small", MachineType: "e2-standard-2", Nodes: 2, NodesPerZone: scenarios.Bounds{Min: 1, Max: 9}},
		{Name: "large", MachineType: "n2-standard-2"},
	}}
	spot := Spot{Share: 0.7, Floor: 3, PriceRatio: 0.3, Interruptions: 0.1}
	for name, c := range map[string]struct {
		policies, policy string
		pools            string
	}{
		"COST_SAVING has the first pool":  {"", "COST_SAVING", "small small-spot"},
		"PERFORMANCE has the last one":    {"", "PERFORMANCE", "large large-spot"},
		"a file's policy has its own":     {"policies: {mine: {nodePools: [small, large], targetUtilization: 0.5}}", "mine", "small large small-spot large-spot"},
		"and another one may say nothing": {"policies: {COST_SAVING: {nodePools: [large], objective: 0.99}}", "COST_SAVING", "large large-spot"},
	} {
		got, text, err := spot.beside(s, c.policies, c.policy)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		spec, err := configmap.Parse(map[string]string{configmap.KeyPolicy: c.policy, configmap.KeyPolicies: text}, nil)
		if err != nil {
			t.Errorf("%s: %v in\n%s", name, err, text)
			continue
		}
		p := spec.Policies[c.policy]
		if strings.Join(p.NodePools, " ") != c.pools || p.Spot.MaxShare != 0.7 || p.Spot.Floor != 3 {
			t.Errorf("%s: %v, %+v", name, p.NodePools, p.Spot)
		}
		if strings.Contains(c.policies, "0.5") && p.TargetUtilization != 0.5 || strings.Contains(c.policies, "0.99") && p.Objective != 0.99 {
			t.Errorf("%s: it lost what it said: %+v", name, p)
		}
		last := got.Pools[len(got.Pools)-1]
		if last.Spot == nil || last.Spot.PriceRatio != 0.3 || last.Nodes != 0 || last.NodesPerZone.Min != 0 || len(s.Pools) != 2 {
			t.Errorf("%s: %+v", name, last)
		}
	}
}

// TestSpotFlags: what makes no sense is refused by its flag.
func TestSpotFlags(t *testing.T) {
	for says, s := range map[string]Spot{
		"--spot-share":         {Share: 1.1},
		"--spot-floor":         {Share: 0.5, Floor: -1, PriceRatio: 1},
		"--spot-price":         {Share: 0.5},
		"--spot-interruptions": {Share: 0.5, PriceRatio: 1, Interruptions: 61},
	} {
		if err := s.validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if err := (Spot{Floor: -1}).validate(); err != nil {
		t.Errorf("without a share nothing else counts: %v", err)
	}
}
