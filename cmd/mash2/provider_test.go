package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/gkesim"
)

func TestProviderFlagsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		flags providerFlags
		want  string
	}{
		"an unknown provider":           {providerFlags{name: "aws"}, `--provider must be gke, clusterapi, kind or none, not "aws"`},
		"GKE without a project":         {providerFlags{name: "gke", gkeLocation: "l", gkeCluster: "c"}, "--provider gke needs --gke-project"},
		"Cluster API without cluster":   {providerFlags{name: "clusterapi", clusterAPINamespace: "n"}, "--provider clusterapi needs --clusterapi-cluster"},
		"reading nothing":               {providerFlags{name: "none", readOnly: true}, "--provider-read-only needs a --provider"},
		"half of a simulator":           {providerFlags{name: "gke", gkeProject: "p", gkeLocation: "l", gkeCluster: "c", gkeEndpoint: "x"}, "go together"},
		"a kubeconfig that isn't there": {providerFlags{name: "clusterapi", clusterAPINamespace: "n", clusterAPICluster: "c", clusterAPIKubeconfig: "/nonexistent"}, "--clusterapi-kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.flags.validate()
			if err == nil {
				_, _, err = c.flags.open(t.Context(), nil, nil)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// In an Autopilot cluster the operator doesn't start; read-only, it starts and
// touches nothing; a GKE that can't be reached now may be later.
func TestProviderAtTheStart(t *testing.T) {
	start := func(autopilot bool) (providerFlags, *gkesim.Server) {
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
		return providerFlags{
			name: "gke", gkeProject: "shop", gkeLocation: "us-central1", gkeCluster: "test",
			gkeEndpoint: sim.Endpoint(), gkeComputeEndpoint: sim.ComputeEndpoint(),
		}, sim
	}
	flags, _ := start(true)
	if _, _, err := flags.open(t.Context(), nil, nil); err == nil || !strings.Contains(err.Error(), "Autopilot") {
		t.Errorf("in an Autopilot cluster: %v", err)
	}
	flags, sim := start(false)
	flags.readOnly = true
	nodes, closeIt, err := flags.open(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = closeIt() }()
	if err := nodes.Apply(t.Context(), api.ResizePool{Pool: "cheap", To: 3}); err == nil {
		t.Error("a read-only pool was resized")
	}
	sim.Fail(gkesim.Fault{Kind: gkesim.Unavailable})
	flags.readOnly = false
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, closeIt, err := flags.open(ctx, nil, nil); err != nil {
		t.Errorf("with a GKE that can't be reached: %v", err)
	} else {
		defer func() { _ = closeIt() }()
	}
}
