package main

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/node"
	"github.com/mash2-io/mash2/planning/node/instance"
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

// A problem is told to Karpenter's program as it is.
func TestTheDocumentIsTheProblem(t *testing.T) {
	want := generate(30, 1000, 20, 3)
	got, err := instance.JSON(document(want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What Karpenter's program answers counts only where it is a packing of the problem.
func TestAnswersAreChecked(t *testing.T) {
	p := node.Problem{
		Items: []node.Item{{Name: "a", Count: 3, Requests: api.Resources{MilliCPU: 1000, Memory: gib, Pods: 1}}},
		Types: []node.Type{
			{Name: "small", Price: 1, Max: node.Unlimited, Capacity: api.Resources{MilliCPU: 1000, Memory: gib, Pods: 10}},
			{Name: "large", Price: 3, Max: node.Unlimited, Capacity: api.Resources{MilliCPU: 2000, Memory: 3 * gib, Pods: 10}},
		},
	}
	for name, tc := range map[string]struct {
		text string
		cost float64
		ok   bool
	}{
		"a packing":                 {`{"loads":[{"type":"large","pods":{"a":2}},{"type":"small","pods":{"a":1}}]}`, 4, true},
		"one left over":             {`{"loads":[{"type":"large","pods":{"a":2}}],"unplaced":{"a":1}}`, 3, true},
		"its own price is not ours": {`{"cost":1,"loads":[{"type":"large","pods":{"a":2}},{"type":"small","pods":{"a":1}}]}`, 4, true},
		"one lost":                  {`{"loads":[{"type":"large","pods":{"a":2}}]}`, 3, false},
		"one too many":              {`{"loads":[{"type":"large","pods":{"a":2}},{"type":"large","pods":{"a":2}}]}`, 6, false},
		"a node overfull":           {`{"loads":[{"type":"large","pods":{"a":3}}]}`, 3, false},
		"a type that is not":        {`{"loads":[{"type":"huge","pods":{"a":3}}]}`, 0, false},
		"a pod that is not":         {`{"loads":[{"type":"large","pods":{"a":2,"b":1}},{"type":"small","pods":{"a":1}}]}`, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			var a launched
			if err := json.Unmarshal([]byte(tc.text), &a); err != nil {
				t.Fatal(err)
			}
			k, err := a.packing(p)
			if (err == nil) != tc.ok || tc.ok && k.Cost != tc.cost {
				t.Errorf("costs %v, error %v; want %v, valid %v", k.Cost, err, tc.cost, tc.ok)
			}
		})
	}
}

// Karpenter's program pays what its rules as experiments/baseline has them pay.
// MASH2_TEST_KARPENTER names the program (make karpenter).
func TestItsRulesAreItsProgram(t *testing.T) {
	program := os.Getenv("MASH2_TEST_KARPENTER")
	if program == "" {
		t.Skip("MASH2_TEST_KARPENTER does not name the program of experiments/karpenter")
	}
	for _, types := range []int{1, 5, 20} {
		p := generate(30, 1000, types, 1)
		got, err := byProgram(program, p)
		if err != nil {
			t.Fatal(err)
		}
		if want := byKarpenter(p); math.Abs(got.Cost/want.cost-1) > 0.005 {
			t.Errorf("%d types: its program pays %v, its rules %v", types, got.Cost, want.cost)
		}
	}
}
