package gke

import (
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/container/apiv1/containerpb"
	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/mash2-io/mash2/api"
)

// A condition whose operation has been followed by another one, or is not listed any more,
// has no time: it counts from when it was first seen, until it changes or is gone.
func TestAConditionWithoutATimeIsOfWhenItWasFirstSeen(t *testing.T) {
	p, err := New(t.Context(), Config{Project: "shop", Location: "us-central1", Cluster: "test", Endpoint: "localhost:1", ComputeEndpoint: "http://localhost:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	seen := func(message string) *api.PoolError {
		np := &containerpb.NodePool{Name: "fast"}
		if message != "" {
			np.Conditions = []*containerpb.StatusCondition{{CanonicalCode: code.Code_RESOURCE_EXHAUSTED, Code: containerpb.StatusCondition_GCE_STOCKOUT, Message: message}}
		}
		return p.dated("fast", failure(np, nil, nil))
	}
	first := seen("zone a has no capacity")
	if first == nil || first.Kind != api.PoolStockout || time.Since(first.At).Abs() > time.Minute {
		t.Fatalf("error %+v, want one of now", first)
	}
	if again := seen("zone a has no capacity"); *again != *first {
		t.Errorf("seen again: %+v, want %+v", again, first)
	}
	if other := seen("zone b has no capacity"); !other.At.After(first.At) {
		t.Errorf("another one is of %v, the first of %v", other.At, first.At)
	}
	if e := seen(""); e != nil {
		t.Errorf("without a condition: %+v", e)
	}
	if back := seen("zone a has no capacity"); !back.At.After(first.At) {
		t.Errorf("one that came back is of %v, the first of %v", back.At, first.At)
	}
}

// What GKE adds to nodes by itself is known of a pool that has none: how they are provided, and that
// Arm nodes are tainted, unless the pool says otherwise.
func TestWhatNodesOfAnEmptyPoolWillBe(t *testing.T) {
	p, err := New(t.Context(), Config{Project: "shop", Location: "us-central1", Cluster: "test", Endpoint: "localhost:1", ComputeEndpoint: "http://localhost:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	arm := api.Taint{Key: "kubernetes.io/arch", Value: "arm64", Effect: "NoSchedule"}
	for name, tc := range map[string]struct {
		config      *containerpb.NodeConfig
		provisioned string
		taints      []api.Taint
	}{
		"x86":         {&containerpb.NodeConfig{MachineType: "e2-medium"}, "standard", nil},
		"spot":        {&containerpb.NodeConfig{MachineType: "e2-medium", Spot: true}, "spot", nil},
		"preemptible": {&containerpb.NodeConfig{MachineType: "e2-medium", Preemptible: true}, "preemptible", nil},
		"Arm":         {&containerpb.NodeConfig{MachineType: "t2a-standard-2"}, "standard", []api.Taint{arm}},
		"Arm without the taint": {&containerpb.NodeConfig{
			MachineType: "t2a-standard-2", TaintConfig: &containerpb.TaintConfig{ArchitectureTaintBehavior: containerpb.TaintConfig_NONE.Enum()},
		}, "standard", nil},
		"Arm with it listed": {&containerpb.NodeConfig{
			MachineType: "t2a-standard-2", Taints: []*containerpb.NodeTaint{{Key: arm.Key, Value: arm.Value, Effect: containerpb.NodeTaint_NO_SCHEDULE}},
		}, "standard", []api.Taint{arm}},
	} {
		pool := p.describe(&containerpb.NodePool{Name: "n", Config: tc.config}, nil)
		if got := pool.Labels["cloud.google.com/gke-provisioning"]; got != tc.provisioned || !slices.Equal(pool.Taints, tc.taints) {
			t.Errorf("%s: provisioned as %q, taints %v", name, got, pool.Taints)
		}
	}
}
