package agents

import (
	"sync"
	"testing"

	"github.com/mash2-io/mash2/planning/rl"
	"github.com/mash2-io/mash2/planning/vertical"
)

// encoded is an untrained model.
func encoded(t *testing.T, algorithm, environment string, a vertical.Action) []byte {
	t.Helper()
	n, err := rl.NewNetwork(rl.MLP(vertical.Inputs, []int{8}, false, rl.ReLU, a.Space().Outputs()))
	if err != nil {
		t.Fatal(err)
	}
	data, err := rl.Encode(rl.Model{Environment: environment, Algorithm: algorithm, Policy: rl.Policy{Network: n, Actions: a.Space()}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestMindsOfModels: models of agents are told from others, and each loop gets a mind of its own: a
// network decides in memory of its own, and loops run at the same time.
func TestMindsOfModels(t *testing.T) {
	minds, rest, err := Minds(map[string][]byte{
		"night": encoded(t, "ddpg", environment, vertical.Changes), "jobs": encoded(t, "dqn", "scaling-ops", vertical.Moves), "torn": []byte("no model"),
	})
	if err != nil || len(minds) != 2 || minds[BuiltinMind] == nil || len(rest) != 2 || rest["torn"] == nil {
		t.Fatalf("%v, %v, %v", minds, rest, err)
	}
	var group sync.WaitGroup
	for range 2 {
		mind := minds["night"]()
		group.Go(func() {
			view := vertical.View{Limit: 100, Window: make([]float32, vertical.Inputs)}
			for range 1000 {
				mind.Propose(&view)
			}
		})
	}
	group.Wait()
	if _, _, err := Minds(map[string][]byte{"odd": encoded(t, "ddpg", environment, vertical.Moves)}); err == nil {
		t.Error("a model whose actions are not its algorithm's")
	}
}
