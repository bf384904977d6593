package gke_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/container/apiv1/containerpb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/gke"
	"github.com/mash2-io/mash2/execution/provider"
	"github.com/mash2-io/mash2/execution/provider/providertest"
	"github.com/mash2-io/mash2/experiments/gkesim"
)

const (
	cheap = "mas-h2-staging-pool"
	fast  = "performance-pool"
)

// bed is a simulated GKE, a thousand times faster than time, and a Provider
// that reaches it through the real clients.
type bed struct {
	*testing.T
	sim      *gkesim.Server
	kube     *fake.Clientset
	provider *gke.Provider
}

func newBed(t *testing.T, change func(*gkesim.Config)) *bed {
	t.Helper()
	kube := fake.NewClientset()
	// What kwok does to a node.
	kube.PrependReactor("create", "nodes", func(a k8stesting.Action) (bool, runtime.Object, error) {
		node := a.(k8stesting.CreateAction).GetObject().(*corev1.Node)
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return false, nil, nil
	})
	cfg := gkesim.Config{
		Project: "shop", Location: "us-central1", Cluster: "test", Seed: 7, Speed: 1000,
		Pools: []gkesim.Pool{
			{Name: cheap, MachineType: "e2-medium", Zones: []string{"us-central1-a"}, Size: 2},
			{
				Name: fast, MachineType: "n2-standard-2", Zones: []string{"us-central1-a", "us-central1-b"},
				Labels: map[string]string{"tier": "fast"},
				Taints: []corev1.Taint{{Key: "tier", Value: "fast", Effect: corev1.TaintEffectNoSchedule}},
			},
		},
	}
	if change != nil {
		change(&cfg)
	}
	sim, err := gkesim.New(cfg, kube)
	if err != nil {
		t.Fatal(err)
	}
	if err := sim.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	provider, err := gke.New(t.Context(), gke.Config{
		Project: "shop", Location: "us-central1", Cluster: "test",
		Endpoint: sim.Endpoint(), ComputeEndpoint: sim.ComputeEndpoint(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := provider.Close(); err != nil {
			t.Error(err)
		}
		if err := sim.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bed{T: t, sim: sim, kube: kube, provider: provider}
}

func (b *bed) pool(name string) api.Pool {
	b.Helper()
	pools, err := b.provider.Pools(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	i := slices.IndexFunc(pools, func(p api.Pool) bool { return p.Name == name })
	if i < 0 {
		b.Fatalf("no pool %s", name)
	}
	return pools[i]
}

// until waits for a pool to be as wanted and returns it.
func (b *bed) until(name, what string, ok func(api.Pool) bool) api.Pool {
	b.Helper()
	for range 2000 {
		if p := b.pool(name); ok(p) {
			return p
		}
		select {
		case <-b.Context().Done():
			b.Fatal(b.Context().Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	b.Fatalf("pool %s: never %s; is %+v", name, what, b.pool(name))
	return api.Pool{}
}

func idle(p api.Pool) bool { return p.Hold == "" }

func (b *bed) nodes(pool string) []corev1.Node {
	b.Helper()
	list, err := b.kube.CoreV1().Nodes().List(b.Context(), metav1.ListOptions{LabelSelector: api.LabelNodePool + "=" + pool})
	if err != nil {
		b.Fatal(err)
	}
	return list.Items
}

func TestPoolsAreReadAsTheyAre(t *testing.T) {
	b := newBed(t, nil)
	pools, err := b.provider.Pools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []api.Pool{
		{
			Name: cheap, MachineType: "e2-medium", Zones: []string{"us-central1-a"}, Sizes: []int32{2},
			Price: 0.033503, CPUSpeed: 0.5, Cores: 2000,
		},
		{
			Name: fast, MachineType: "n2-standard-2", Zones: []string{"us-central1-a", "us-central1-b"}, Sizes: []int32{0, 0},
			Taints: []api.Taint{{Key: "tier", Value: "fast", Effect: "NoSchedule"}},
			Price:  0.097118, CPUSpeed: 1, Cores: 2000,
		},
	}
	if diff := cmp.Diff(want, pools, cmpopts.IgnoreFields(api.Pool{}, "Labels", "Allocatable")); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
	if pools[1].Labels["tier"] != "fast" {
		t.Errorf("labels = %v, want the pool's own", pools[1].Labels)
	}
	// What is told of a pool is what its nodes turn out to be.
	node := b.nodes(cheap)[0]
	for k, v := range pools[0].Labels {
		if node.Labels[k] != v {
			t.Errorf("label %s = %q on the node, %q told", k, node.Labels[k], v)
		}
	}
	is := node.Status.Allocatable
	got := api.Resources{
		MilliCPU: is.Cpu().MilliValue(), Memory: is.Memory().Value(),
		EphemeralStorage: is.StorageEphemeral().Value(), Pods: is.Pods().Value(),
	}
	if diff := cmp.Diff(got, pools[0].Allocatable); diff != "" {
		t.Errorf("allocatable (-node +told):\n%s", diff)
	}
}

func TestAResizeIsPerZoneAndHoldsThePoolUntilItIsDone(t *testing.T) {
	b := newBed(t, nil)
	if err := b.provider.Apply(t.Context(), api.ResizePool{Pool: fast, To: 2}); err != nil {
		t.Fatal(err)
	}
	if p := b.pool(fast); !strings.Contains(p.Hold, "SET_NODE_POOL_SIZE") {
		t.Errorf("hold = %q, want the operation", p.Hold)
	}
	if p := b.pool(cheap); p.Hold != "" {
		t.Errorf("the other pool is held: %s", p.Hold)
	}
	if err := b.provider.Resize(t.Context(), fast, 3); !errors.Is(err, gke.ErrBusy) {
		t.Errorf("a second resize: %v, want ErrBusy", err)
	}
	p := b.until(fast, "idle", idle)
	if diff := cmp.Diff([]int32{2, 2}, p.Sizes); diff != "" || p.Error != nil {
		t.Errorf("sizes (-want +got):\n%s, error %v", diff, p.Error)
	}
	if n := len(b.nodes(fast)); n != 4 {
		t.Errorf("%d nodes, want 2 in each of 2 zones", n)
	}
}

func TestExactlyTheNamedNodeIsRemoved(t *testing.T) {
	// Slow enough that a deletion can be seen under way.
	b := newBed(t, func(c *gkesim.Config) { c.StopMedian = 30 * time.Minute })
	nodes := b.nodes(cheap)
	remove := api.RemoveNode{Pool: cheap, Zone: "us-central1-a", Node: nodes[1].Name, ProviderID: nodes[1].Spec.ProviderID}
	for range 2 { // again while it is going
		if err := b.provider.Apply(t.Context(), remove); err != nil {
			t.Fatal(err)
		}
		p := b.pool(cheap)
		if diff := cmp.Diff([]int32{1}, p.Sizes); diff != "" {
			t.Errorf("sizes (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{nodes[1].Name}, p.Deleting); diff != "" {
			t.Errorf("deleting (-want +got):\n%s", diff)
		}
	}
	b.until(cheap, "without it", func(p api.Pool) bool { return len(p.Deleting) == 0 })
	if err := b.provider.Apply(t.Context(), remove); err != nil { // again when it is gone
		t.Fatal(err)
	}
	left := b.nodes(cheap)
	if len(left) != 1 || left[0].Name != nodes[0].Name {
		t.Errorf("left: %d nodes, want only %s", len(left), nodes[0].Name)
	}
}

// Without the role for exact removals the pools say that they can only be
// resized, and a resize goes through.
func TestWithoutTheRoleToRemovePoolsAreResizeOnly(t *testing.T) {
	b := newBed(t, nil)
	if b.pool(cheap).ResizeOnly {
		t.Error("before anything was refused")
	}
	b.sim.Fail(gkesim.Fault{Kind: gkesim.PermissionDenied, Method: "InstanceGroupManagers.DeleteInstances"})
	nodes := b.nodes(cheap)
	err := b.provider.Apply(t.Context(), api.RemoveNode{
		Pool: cheap, Zone: "us-central1-a", Node: nodes[1].Name, ProviderID: nodes[1].Spec.ProviderID,
	})
	if !errors.Is(err, provider.ErrPermission) {
		t.Fatalf("got %v, want ErrPermission", err)
	}
	if p := b.pool(cheap); !p.ResizeOnly {
		t.Error("after a refused removal the pool doesn't say so")
	}
	if err := b.provider.Apply(t.Context(), api.ResizePool{Pool: cheap, To: 0}); err != nil {
		t.Fatal(err)
	}
	b.until(cheap, "empty", func(p api.Pool) bool { return p.Nodes() == 0 && idle(p) })
}

func TestNodesOfOthersAreRefused(t *testing.T) {
	b := newBed(t, nil)
	for sentence, id := range map[string]string{
		"no provider id":            "",
		"another cloud":             "aws:///us-east-1a/i-0",
		"another project":           "gce://other/us-central1-a/gke-x",
		"not of the pool":           "gce://shop/us-central1-a/gke-x",
		"a zone the pool isn't in":  "gce://shop/us-east1-b/gke-x",
		"an id without an instance": "gce://shop/us-central1-a/",
	} {
		if err := b.provider.Apply(t.Context(), api.RemoveNode{Pool: cheap, ProviderID: id}); err == nil {
			t.Errorf("%s: %q was accepted", sentence, id)
		}
	}
	if err := b.provider.Apply(t.Context(), api.CordonNode{Node: "a"}); err == nil {
		t.Error("a cordon was accepted")
	}
	if err := b.provider.Resize(t.Context(), "no-such-pool", 1); !errors.Is(err, gke.ErrNotFound) {
		t.Errorf("error = %v, want ErrNotFound", err)
	}
}

func TestFailuresAreToldApart(t *testing.T) {
	for sentence, c := range map[string]struct {
		fault gkesim.FaultKind
		want  error
	}{
		"the API is down":              {gkesim.Unavailable, gke.ErrUnavailable},
		"the API is slow":              {gkesim.DeadlineExceeded, gke.ErrUnavailable},
		"the API wants fewer calls":    {gkesim.ResourceExhausted, gke.ErrUnavailable},
		"another operation is at work": {gkesim.OperationInProgress, gke.ErrBusy},
	} {
		t.Run(sentence, func(t *testing.T) {
			b := newBed(t, nil)
			b.sim.Fail(gkesim.Fault{Kind: c.fault, Method: "SetNodePoolSize"})
			if err := b.provider.Resize(t.Context(), fast, 1); !errors.Is(err, c.want) {
				t.Errorf("resize: %v, want %v", err, c.want)
			}
		})
	}
	t.Run("the compute API is down", func(t *testing.T) {
		b := newBed(t, nil)
		b.sim.Fail(gkesim.Fault{Kind: gkesim.Unavailable, Method: "InstanceGroupManagers.DeleteInstances"})
		node := b.nodes(cheap)[0]
		err := b.provider.Apply(t.Context(), api.RemoveNode{Pool: cheap, Node: node.Name, ProviderID: node.Spec.ProviderID})
		if !errors.Is(err, gke.ErrUnavailable) {
			t.Errorf("removal: %v, want ErrUnavailable", err)
		}
	})
	t.Run("the compute API wants fewer calls, which is no missing permission", func(t *testing.T) {
		b := newBed(t, nil)
		b.sim.Fail(gkesim.Fault{Kind: gkesim.ResourceExhausted, Method: "InstanceGroupManagers.DeleteInstances"})
		node := b.nodes(cheap)[0]
		err := b.provider.Apply(t.Context(), api.RemoveNode{Pool: cheap, Node: node.Name, ProviderID: node.Spec.ProviderID})
		if !errors.Is(err, gke.ErrUnavailable) {
			t.Errorf("removal: %v, want ErrUnavailable", err)
		}
		pools, err := b.provider.Pools(t.Context())
		if err != nil || slices.ContainsFunc(pools, func(p api.Pool) bool { return p.ResizeOnly }) {
			t.Errorf("%v, pools %+v: mash2 may still remove nodes", err, pools)
		}
	})
	t.Run("a reading that fails is no reading", func(t *testing.T) {
		b := newBed(t, nil)
		b.sim.Fail(gkesim.Fault{Kind: gkesim.ResourceExhausted, Method: "InstanceGroupManagers.Get", Skip: 1, Times: 1})
		if pools, err := b.provider.Pools(t.Context()); err == nil {
			t.Errorf("pools = %v, want an error", pools)
		}
	})
}

func TestConformance(t *testing.T) {
	providertest.Run(t, func(t *testing.T) *providertest.World {
		b := newBed(t, func(c *gkesim.Config) { c.Pools[1].Size = 1 })
		fail := func(kind gkesim.FaultKind) func() {
			return func() { b.sim.Fail(gkesim.Fault{Kind: kind, Method: "SetNodePoolSize", Times: 1}) }
		}
		return &providertest.World{
			Provider: b.provider, Pool: fast, Other: cheap,
			Nodes: func(pool string) []api.RemoveNode {
				var out []api.RemoveNode
				for _, n := range b.nodes(pool) {
					out = append(out, api.RemoveNode{Pool: pool, Zone: n.Labels[api.LabelZone], Node: n.Name, ProviderID: n.Spec.ProviderID})
				}
				return out
			},
			Faults: map[error]func(){
				provider.ErrBusy: fail(gkesim.OperationInProgress), provider.ErrUnavailable: fail(gkesim.Unavailable),
				provider.ErrPermission: fail(gkesim.PermissionDenied), provider.ErrQuota: fail(gkesim.QuotaRefused),
			},
		}
	})
}

func TestAutopilotIsRefused(t *testing.T) {
	b := newBed(t, func(c *gkesim.Config) { c.Autopilot = true })
	if _, err := b.provider.Pools(t.Context()); !errors.Is(err, gke.ErrAutopilot) || !errors.Is(err, provider.ErrUnsupported) {
		t.Errorf("error = %v, want %v", err, gke.ErrAutopilot)
	}
}

func TestAPoolThatCantGrowSaysWhyUntilItHasGrown(t *testing.T) {
	for sentence, c := range map[string]struct {
		fault gkesim.FaultKind
		want  api.PoolErrorKind
	}{
		"stockout": {gkesim.Stockout, api.PoolStockout},
		"quota":    {gkesim.Quota, api.PoolQuota},
	} {
		t.Run(sentence, func(t *testing.T) {
			b := newBed(t, nil)
			clear := b.sim.Fail(gkesim.Fault{Kind: c.fault, Pool: fast})
			if err := b.provider.Resize(t.Context(), fast, 1); err != nil {
				t.Fatal(err)
			}
			p := b.until(fast, "idle", idle)
			if p.Error == nil || p.Error.Kind != c.want || p.Error.Message == "" {
				t.Fatalf("error = %+v, want %s", p.Error, c.want)
			}
			if p.Error.At.IsZero() {
				t.Error("the error has no time")
			}
			if diff := cmp.Diff([]int32{1, 1}, p.Sizes); diff != "" {
				t.Errorf("sizes (-want +got):\n%s", diff)
			}
			clear()
			b.until(fast, "without error", func(p api.Pool) bool { return p.Error == nil })
		})
	}
	t.Run("a quota that a resize is refused for at once", func(t *testing.T) {
		b := newBed(t, nil)
		b.sim.Fail(gkesim.Fault{Kind: gkesim.QuotaRefused, Method: "SetNodePoolSize", Times: 1})
		if err := b.provider.Resize(t.Context(), fast, 1); !errors.Is(err, gke.ErrQuota) {
			t.Fatal(err)
		}
		if p := b.pool(fast); p.Error == nil || p.Error.Kind != api.PoolQuota || p.Error.Message == "" || p.Error.At.IsZero() {
			t.Errorf("error = %+v, want %s", p.Error, api.PoolQuota)
		}
		if p := b.pool(cheap); p.Error != nil {
			t.Errorf("error of the other pool = %+v", p.Error)
		}
		if err := b.provider.Resize(t.Context(), fast, 1); err != nil {
			t.Fatal(err)
		}
		if p := b.pool(fast); p.Error != nil {
			t.Errorf("error = %+v once a resize is accepted", p.Error)
		}
	})
	t.Run("an operation that ends in an error", func(t *testing.T) {
		b := newBed(t, nil)
		b.sim.Fail(gkesim.Fault{Kind: gkesim.OperationError, Times: 1})
		if err := b.provider.Resize(t.Context(), fast, 1); err != nil {
			t.Fatal(err)
		}
		p := b.until(fast, "idle", idle)
		if p.Error == nil || p.Error.Kind != api.PoolOther {
			t.Fatalf("error = %+v, want %s", p.Error, api.PoolOther)
		}
		if err := b.provider.Resize(t.Context(), fast, 1); err != nil {
			t.Fatal(err)
		}
		b.until(fast, "grown", func(p api.Pool) bool { return idle(p) && p.Error == nil && p.Nodes() == 2 })
	})
}

func TestAnUpgradeHoldsItsPoolAndAClusterOperationHoldsAll(t *testing.T) {
	b := newBed(t, nil)
	if _, err := b.sim.Occupy(containerpb.Operation_UPGRADE_NODES, cheap, 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	if p := b.pool(cheap); !strings.Contains(p.Hold, "UPGRADE_NODES") {
		t.Errorf("hold = %q, want the upgrade", p.Hold)
	}
	if p := b.pool(fast); p.Hold != "" {
		t.Errorf("the other pool is held: %s", p.Hold)
	}
	b.until(cheap, "idle", idle)
	if _, err := b.sim.Occupy(containerpb.Operation_UPGRADE_MASTER, "", 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{cheap, fast} {
		if p := b.pool(name); !strings.Contains(p.Hold, "UPGRADE_MASTER") {
			t.Errorf("%s: hold = %q, want the cluster's operation", name, p.Hold)
		}
	}
}

// A spot pool is one by GKE's own word, at its own price where its labels state one, and is
// left with as many nodes as before when one is taken away.
func TestASpotPoolSaysSo(t *testing.T) {
	b := newBed(t, func(c *gkesim.Config) {
		c.Pools[0].Spot = true
		c.Pools[1].Spot, c.Pools[1].Labels = true, map[string]string{api.LabelPrice: "0.011", api.LabelInterruptions: "0.3"}
		c.Pools = append(c.Pools, c.Pools[0])
		last := &c.Pools[len(c.Pools)-1]
		last.Name, last.Size, last.Labels = "wrong", 0, map[string]string{api.LabelInterruptions: "often"}
	})
	first, second := b.pool(cheap), b.pool(fast)
	machine, _ := gke.LookupMachineType(first.MachineType)
	if !first.Spot || first.Interruptions != api.DefaultInterruptions || first.Price != machine.Price*api.SpotPriceRatio {
		t.Errorf("spot %v, %g interruptions, %g USD/h beside %g on demand", first.Spot, first.Interruptions, first.Price, machine.Price)
	}
	if !second.Spot || second.Interruptions != 0.3 || second.Price != 0.011 {
		t.Errorf("by its labels: spot %v, %g interruptions, %g USD/h", second.Spot, second.Interruptions, second.Price)
	}
	if hold := b.pool("wrong").Hold; !strings.Contains(hold, "pool wrong: label "+api.LabelInterruptions) {
		t.Errorf("a label that can't be read holds the pool with %q", hold)
	}
	nodes, err := b.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "cloud.google.com/gke-spot=true," + api.LabelNodePool + "=" + first.Name})
	if err != nil || len(nodes.Items) == 0 {
		t.Fatalf("nodes %v, %v", nodes, err)
	}
	taken := nodes.Items[0].Name
	if err := b.sim.Interrupt(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	if got := b.pool(first.Name); got.Nodes() != first.Nodes() {
		t.Errorf("the pool is to have %d nodes, before %d", got.Nodes(), first.Nodes())
	}
	if err := b.sim.Interrupt(t.Context(), taken); err == nil {
		t.Error("a machine is taken away twice")
	}
}

func TestAnAutoscaledPoolSaysSo(t *testing.T) {
	b := newBed(t, func(c *gkesim.Config) {
		c.Pools[0].Autoscaling, c.Pools[0].MaxPerZone = true, 5
	})
	if !b.pool(cheap).Autoscaled || b.pool(fast).Autoscaled {
		t.Error("autoscaling is not told as it is")
	}
}

func TestConfigIsValidated(t *testing.T) {
	good := gke.Config{Project: "p", Location: "l", Cluster: "c"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for sentence, change := range map[string]func(*gke.Config){
		"no project":              func(c *gke.Config) { c.Project = "" },
		"no location":             func(c *gke.Config) { c.Location = "" },
		"no cluster":              func(c *gke.Config) { c.Cluster = "" },
		"one endpoint":            func(c *gke.Config) { c.Endpoint = "localhost:1" },
		"a machine without speed": func(c *gke.Config) { c.MachineTypes = map[string]gke.MachineType{"x": {MilliCPU: 1000, Memory: 1}} },
	} {
		c := good
		change(&c)
		if _, err := gke.New(context.Background(), c); err == nil {
			t.Errorf("%s: accepted", sentence)
		}
	}
}

// TestCatalogueAgreesWithTheSimulatedNodes: both were written from the same
// documentation, independently.
func TestCatalogueAgreesWithTheSimulatedNodes(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(gkesim.Machines)) {
		m, ok := gke.LookupMachineType(name)
		if !ok {
			t.Errorf("%s is not in the catalogue", name)
			continue
		}
		sim := gkesim.Machines[name]
		if m.MilliCPU != sim.VCPU*1000 || m.Memory != sim.Memory || m.SharedCore != sim.SharedCore {
			t.Errorf("%s = %+v, simulated %+v", name, m, sim)
		}
	}
}

func TestPricesAreThePublishedOnes(t *testing.T) {
	// us-central1, on demand, USD per hour.
	for name, want := range map[string]float64{
		"e2-medium": 0.033503, "e2-standard-2": 0.067012, "e2-standard-4": 0.134023,
		"n2-standard-2": 0.097118, "n2-standard-4": 0.194236, "n2d-standard-2": 0.084492,
		"c3-standard-4": 0.201608, "t2d-standard-1": 0.042246,
	} {
		m, ok := gke.LookupMachineType(name)
		if !ok || m.Price < want-2e-6 || m.Price > want+2e-6 {
			t.Errorf("%s costs %v, want %v", name, m.Price, want)
		}
	}
	for _, name := range []string{"", "e2", "n2-standard", "n2-standard-3", "n2-standard-x", "z9-standard-2", "n2-ultramem-2", "n2-standard--2"} {
		if m, ok := gke.LookupMachineType(name); ok {
			t.Errorf("%q = %+v, want none", name, m)
		}
	}
}
