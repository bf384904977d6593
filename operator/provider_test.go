package operator

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/gke"
	"github.com/mash2-io/mash2/experiments/gkesim"
)

// In an Autopilot cluster the operator doesn't start; read-only, it starts and
// touches nothing; a GKE that can't be reached now may be later.
func TestProviderAtTheStart(t *testing.T) {
	start := func(autopilot bool) (Provider, *gkesim.Server) {
		sim, err := gkesim.New(gkesim.Config{
			Project: "shop", Location: "us-central1", Cluster: "test", Autopilot: autopilot, Speed: 1000,
			Pools: []gkesim.Pool{{Name: "cheap", MachineType: "e2-medium", Zones: []string{"us-central1-a"}, Size: 1}},
		}, fake.NewClientset())
		if err != nil {
			t.Fatal(err)
		}
		if err := sim.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := sim.Close(); err != nil {
				t.Error(err)
			}
		})
		return Provider{Name: GKE, GKE: gke.Config{
			Project: "shop", Location: "us-central1", Cluster: "test",
			Endpoint: sim.Endpoint(), ComputeEndpoint: sim.ComputeEndpoint(),
		}}, sim
	}
	p, _ := start(true)
	if _, _, err := p.open(t.Context(), nil, nil); err == nil || !strings.Contains(err.Error(), "Autopilot") {
		t.Errorf("in an Autopilot cluster: %v", err)
	}
	p, sim := start(false)
	p.ReadOnly = true
	nodes, closeIt, err := p.open(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = closeIt() }()
	if err := nodes.Apply(t.Context(), api.ResizePool{Pool: "cheap", To: 3}); err == nil {
		t.Error("a read-only pool was resized")
	}
	sim.Fail(gkesim.Fault{Kind: gkesim.Unavailable})
	p.ReadOnly = false
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, closeIt, err := p.open(ctx, nil, nil); err != nil {
		t.Errorf("with a GKE that can't be reached: %v", err)
	} else {
		defer func() { _ = closeIt() }()
	}
}
