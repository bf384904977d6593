package testbed

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mash2-io/mash2/experiments/gkesim"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// Karpenter's machines have GKE's prices, and after what its provider takes off
// (kwok/cloudprovider/helpers.go: 100m and 10Mi) the room that GKE leaves.
func TestKarpenterHasTheMachinesOfGKE(t *testing.T) {
	s, err := scenarios.Load("heartbeat")
	if err != nil {
		t.Fatal(err)
	}
	data, err := (&Testbed{options: Options{Scenario: s, Speed: 1}}).karpenterTypes()
	if err != nil {
		t.Fatal(err)
	}
	var types []struct {
		Name      string
		Offerings []struct{ Price float64 }
		Resources corev1.ResourceList
	}
	if err := json.Unmarshal(data, &types); err != nil {
		t.Fatal(err)
	}
	// on-demand prices of us-central1, cloud.google.com/compute/vm-instance-pricing
	prices := map[string]float64{"e2-medium": 0.033503, "n2-standard-2": 0.097118}
	if len(types) != len(prices) {
		t.Fatalf("%d machine types", len(types))
	}
	for _, m := range types {
		if got := m.Offerings[0].Price; got < prices[m.Name]-1e-5 || got > prices[m.Name]+1e-5 {
			t.Errorf("%s costs %v an hour", m.Name, got)
		}
		want := gkesim.Machines[m.Name].Allocatable(100)
		for name, taken := range map[corev1.ResourceName]string{corev1.ResourceCPU: "100m", corev1.ResourceMemory: "10Mi", corev1.ResourcePods: "0"} {
			left := m.Resources[name]
			left.Sub(resource.MustParse(taken))
			if have := want[name]; left.Cmp(have) != 0 {
				t.Errorf("%s leaves %s of %s, GKE %s", m.Name, left.String(), name, have.String())
			}
		}
	}
	s.Pools[0].MachineType = "abacus"
	if _, err := (&Testbed{options: Options{Scenario: s, Speed: 1}}).karpenterTypes(); err == nil {
		t.Error("a machine that nobody knows was offered")
	}
}

func TestKarpenterLives(t *testing.T) {
	begin := time.Unix(1000, 0)
	k := &karpenter{order: []string{"b", "a"}, nodes: map[string]*machine{
		"a": {machineType: "e2-medium", requested: begin.Add(10 * time.Second)},
		"b": {machineType: "n2-standard-2", requested: begin.Add(-5 * time.Second), deleted: begin.Add(time.Minute)},
	}}
	lives, err := k.lives(func(at time.Time) float64 { return 2 * at.Sub(begin).Seconds() })
	if err != nil {
		t.Fatal(err)
	}
	if len(lives) != 2 || lives[0].MachineType != "n2-standard-2" || lives[0].Requested != -10 || *lives[0].Deleted != 120 || lives[1].Requested != 20 || lives[1].Deleted != nil {
		t.Errorf("lives: %+v", lives)
	}
}
