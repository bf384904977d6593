package sim

import (
	"strconv"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/planning/learned"
	"github.com/mash2-io/mash2/planning/rl"
)

// TestMash2RL: the operator with a model that always asks for one replica fewer is held up
// by the reactive floor: it serves as the HPA's rule does, and its plans say whose they are.
func TestMash2RL(t *testing.T) {
	s, err := scenarios.Load("heartbeat")
	if err != nil {
		t.Fatal(err)
	}
	net, err := rl.NewNetwork(rl.MLP(3, []int{4}, false, rl.ReLU, 3))
	if err != nil {
		t.Fatal(err)
	}
	net.Params[len(net.Params)-3] = 1 // only a bias: action 0
	data, err := rl.Encode(rl.Model{
		Environment: "test", Algorithm: "test", Policy: rl.Policy{Network: net, Actions: rl.Space{N: 3}},
		Inputs: []rl.Input{{Name: learned.InputCPU, Scale: 100}, {Name: learned.InputRequests, Scale: 100, Millicores: 5}, {Name: learned.InputReplicas, Scale: 100}},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := core.DefaultConfig()
	cfg.Models = map[string][]byte{"fewer": data}
	by := map[api.Binding]int{}
	var below int
	result, err := Run(t.Context(), Options{
		Scenario: s, Scaler: Mash2RL, Seed: 3, Passes: 1, Operator: &cfg,
		Report: func(c api.Cycle) {
			for _, p := range c.Plan.Workloads {
				by[p.Binding]++
				if p.Replicas < p.Floor {
					below++
				}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if by[api.BindingFloor] == 0 || by[api.BindingLearned] == 0 || by[api.BindingHold] > 0 || below > 0 {
		t.Errorf("plans by %v, %d below their floor", by, below)
	}
	most := int32(0)
	for _, step := range result.Workloads[0].Steps {
		most = max(most, step.Replicas)
	}
	if most < 8 {
		t.Errorf("at most %d replicas under 400 users", most)
	}
	for name, data := range cfg.Models {
		cfg.Models = map[string][]byte{name: data, "another": data}
	}
	if _, err := Run(t.Context(), Options{Scenario: s, Scaler: Mash2RL, Operator: &cfg}); err == nil || !strings.Contains(err.Error(), "needs one model") {
		t.Errorf("with two models: %v", err)
	}
	cfg.Models = map[string][]byte{learned.Shipped: nil}
	if err := cfg.Validate(); err == nil {
		t.Error("a model of the name of the one that comes with the program is taken")
	}
}

// TestModelOfMargins: the model that comes with the program is what mash2-rl plans by if nobody
// names another. Once there are margins it says what part of them it takes, within its bounds.
func TestModelOfMargins(t *testing.T) {
	s, err := scenarios.Load("day")
	if err != nil {
		t.Fatal(err)
	}
	took := 0
	_, err = Run(t.Context(), Options{
		Scenario: s, Scaler: Mash2RL, Seed: 1, WarmupPasses: 1,
		Report: func(c api.Cycle) {
			for _, p := range c.Plan.Workloads {
				_, text, ok := strings.Cut(p.Reason, "model margins takes ")
				if !ok {
					continue
				}
				took++
				part, err := strconv.ParseFloat(strings.Fields(text)[0], 64)
				if err != nil || part < learned.MarginLeast || part > 1 {
					t.Fatalf("%s", p.Reason)
				}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if took < 1000 {
		t.Errorf("it took margins in %d cycles of a day", took)
	}
}
