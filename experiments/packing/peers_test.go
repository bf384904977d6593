package main

import (
	"testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/node"
)

// No peer places all pods for less than the bound that column generation proves,
// and none leaves a pod over.
func TestPeersPayAtLeastTheBound(t *testing.T) {
	for seed := range uint64(4) {
		p := generate(20, 200, 5, seed)
		k, err := node.Columns{}.Solve(p, api.Budget{Iterations: 500})
		if err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string]peer{"karpenter": byKarpenter(p), "cluster autoscaler": byAutoscaler(p)} {
			if got.unplaced > 0 || got.cost < k.LowerBound {
				t.Errorf("seed %d: %s leaves %d pods and pays %v, the bound is %v", seed, name, got.unplaced, got.cost, k.LowerBound)
			}
		}
	}
}

// Two pods that fill a small machine each, and a machine twice the size at three
// times the price: Karpenter puts both on one claim, which only the large type
// holds; Cluster Autoscaler takes the type that wastes nothing.
func TestPeersOnACaseByHand(t *testing.T) {
	p := node.Problem{
		Items: []node.Item{{Name: "a", Count: 2, Requests: api.Resources{MilliCPU: 1000, Memory: gib, Pods: 1}}},
		Types: []node.Type{
			{Name: "small", Price: 1, Max: node.Unlimited, Capacity: api.Resources{MilliCPU: 1000, Memory: gib, Pods: 10}},
			{Name: "large", Price: 3, Max: node.Unlimited, Capacity: api.Resources{MilliCPU: 2000, Memory: 3 * gib, Pods: 10}},
		},
	}
	if got := byKarpenter(p); got.cost != 3 {
		t.Errorf("Karpenter pays %v, want one large machine", got.cost)
	}
	if got := byAutoscaler(p); got.cost != 2 || got.unplaced > 0 {
		t.Errorf("Cluster Autoscaler pays %v and leaves %d, want two small machines", got.cost, got.unplaced)
	}
}
