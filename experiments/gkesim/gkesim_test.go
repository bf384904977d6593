package gkesim

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	container "cloud.google.com/go/container/apiv1"
	"cloud.google.com/go/container/apiv1/containerpb"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

const clusterPath = "projects/shop/locations/us-central1/clusters/test"

// testConfig is the paper's testbed: a cheap pool in one zone, a fast one in three.
func testConfig() Config {
	return Config{
		Project: "shop", Location: "us-central1", Cluster: "test", Seed: 7,
		Pools: []Pool{
			{Name: "mas-h2-staging-pool", MachineType: "e2-medium", Zones: []string{"us-central1-a"}, Size: 2},
			{
				Name: "performance-pool", MachineType: "n2-standard-2",
				Zones:  []string{"us-central1-a", "us-central1-b", "us-central1-c"},
				Labels: map[string]string{"tier": "fast"},
				Taints: []corev1.Taint{{Key: "tier", Value: "fast", Effect: corev1.TaintEffectNoSchedule}},
			},
		},
	}
}

// bed is a server on a fake clock in front of a fake API server, called by the
// real clients.
type bed struct {
	*testing.T
	s     *Server
	clock *clocktesting.FakeClock
	kube  *fake.Clientset
	gke   *container.ClusterManagerClient
	igm   *compute.InstanceGroupManagersClient
	ops   *compute.ZoneOperationsClient
}

func newBed(t *testing.T, cfg Config) *bed {
	t.Helper()
	b := &bed{T: t, clock: clocktesting.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)), kube: fake.NewClientset()}
	// What kwok does to a node, and the API server to an evicted pod.
	b.kube.PrependReactor("create", "nodes", func(a k8stesting.Action) (bool, runtime.Object, error) {
		node := a.(k8stesting.CreateAction).GetObject().(*corev1.Node)
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return false, nil, nil
	})
	b.kube.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		name := a.(k8stesting.CreateAction).GetObject().(metav1.Object).GetName()
		return true, nil, b.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), a.GetNamespace(), name)
	})
	cfg.Clock = b.clock
	s, err := New(cfg, b.kube)
	if err != nil {
		t.Fatal(err)
	}
	b.s = s
	ctx, cancel := context.WithCancel(context.Background())
	if err := s.prepare(ctx); err != nil {
		t.Fatal(err)
	}
	stop := s.serve(ctx)
	t.Cleanup(func() { cancel(); stop() })
	b.gke, b.igm, b.ops = clients(t, s)
	return b
}

func clients(t *testing.T, s *Server) (*container.ClusterManagerClient, *compute.InstanceGroupManagersClient, *compute.ZoneOperationsClient) {
	t.Helper()
	ctx := context.Background()
	gke, err := container.NewClusterManagerClient(ctx, option.WithEndpoint(s.Endpoint()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	rest := []option.ClientOption{option.WithEndpoint(s.ComputeEndpoint()), option.WithHTTPClient(http.DefaultClient)}
	igm, err := compute.NewInstanceGroupManagersRESTClient(ctx, rest...)
	if err != nil {
		t.Fatal(err)
	}
	ops, err := compute.NewZoneOperationsRESTClient(ctx, rest...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(gke.Close(), igm.Close(), ops.Close()); err != nil {
			t.Error(err)
		}
	})
	return gke, igm, ops
}

// refuseEvictions makes the API server refuse evictions as long as *refuse.
func (b *bed) refuseEvictions(refuse *bool) {
	b.kube.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "eviction" || !*refuse {
			return false, nil, nil
		}
		return true, nil, apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	})
}

// advance lets d of clock time pass and everything in it happen.
func (b *bed) advance(d time.Duration) {
	end := b.clock.Now().Add(d)
	for {
		at, ok := b.s.agenda.next()
		if !ok || at.After(end) {
			break
		}
		if at.After(b.clock.Now()) {
			b.clock.SetTime(at)
		}
		b.s.agenda.runDue(context.Background(), at)
	}
	b.clock.SetTime(end)
}

func (b *bed) setSize(pool string, n int32) (*containerpb.Operation, error) {
	return b.gke.SetNodePoolSize(context.Background(), &containerpb.SetNodePoolSizeRequest{Name: clusterPath + "/nodePools/" + pool, NodeCount: n})
}

func (b *bed) mustSetSize(pool string, n int32) *containerpb.Operation {
	b.Helper()
	op, err := b.setSize(pool, n)
	if err != nil {
		b.Fatalf("SetNodePoolSize(%s, %d): %v", pool, n, err)
	}
	return op
}

func (b *bed) operation(name string) *containerpb.Operation {
	b.Helper()
	op, err := b.gke.GetOperation(context.Background(), &containerpb.GetOperationRequest{Name: "projects/shop/locations/us-central1/operations/" + name})
	if err != nil {
		b.Fatal(err)
	}
	return op
}

func (b *bed) pool(name string) *containerpb.NodePool {
	b.Helper()
	p, err := b.gke.GetNodePool(context.Background(), &containerpb.GetNodePoolRequest{Name: clusterPath + "/nodePools/" + name})
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// nodes lists the nodes of a pool by name.
func (b *bed) nodes(pool string) []corev1.Node {
	b.Helper()
	return nodesOf(b.T, b.kube, pool)
}

func nodesOf(t *testing.T, kube kubernetes.Interface, pool string) []corev1.Node {
	t.Helper()
	list, err := kube.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{LabelSelector: labelPool + "=" + pool})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Node) int { return cmpString(a.Name, b.Name) })
	return list.Items
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func names(nodes []corev1.Node) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Name)
	}
	return out
}

// targetSizes reads the target size of each zone of a pool through the real client.
func targetSizes(t *testing.T, igm *compute.InstanceGroupManagersClient, s *Server, pool string) map[string]int32 {
	t.Helper()
	out := map[string]int32{}
	for _, g := range s.findPool(pool).groups {
		m, err := igm.Get(context.Background(), &computepb.GetInstanceGroupManagerRequest{Project: "shop", Zone: g.zone, InstanceGroupManager: g.name})
		if err != nil {
			t.Fatal(err)
		}
		out[g.zone] = m.GetTargetSize()
	}
	return out
}

func (b *bed) managed(pool, zone string) []*computepb.ManagedInstance {
	b.Helper()
	var out []*computepb.ManagedInstance
	for _, g := range b.s.findPool(pool).groups {
		if g.zone != zone {
			continue
		}
		it := b.igm.ListManagedInstances(context.Background(), &computepb.ListManagedInstancesInstanceGroupManagersRequest{Project: "shop", Zone: zone, InstanceGroupManager: g.name})
		for {
			m, err := it.Next()
			if errors.Is(err, iterator.Done) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			out = append(out, m)
		}
	}
	return out
}

func TestBootDelaysFollowTheStatedDistribution(t *testing.T) {
	b := newBed(t, testConfig())
	const n = 20000
	draws := make([]float64, n)
	for i := range draws {
		draws[i] = b.s.sample(75 * time.Second).Seconds()
	}
	slices.Sort(draws)
	// Log-normal: quantile q is 75·exp(0.13·z(q)).
	for q, z := range map[float64]float64{0.05: -1.645, 0.5: 0, 0.95: 1.645} {
		want := 75 * math.Exp(0.13*z)
		if got := draws[int(q*n)]; math.Abs(got-want) > 1 {
			t.Errorf("quantile %v of boot delays = %.1f s, want %.1f s", q, got, want)
		}
	}
}

func TestConfigIsRefusedWhenItDescribesNoCluster(t *testing.T) {
	tests := map[string]func(*Config){
		"no project":                      func(c *Config) { c.Project = "" },
		"no pools":                        func(c *Config) { c.Pools = nil },
		"a pool twice":                    func(c *Config) { c.Pools[1].Name = c.Pools[0].Name },
		"a pool without a name":           func(c *Config) { c.Pools[0].Name = "" },
		"a pool without zones":            func(c *Config) { c.Pools[0].Zones = nil },
		"a zone twice":                    func(c *Config) { c.Pools[0].Zones = []string{"b", "a", "b"} },
		"an unknown machine type":         func(c *Config) { c.Pools[0].MachineType = "e9-huge" },
		"a negative size":                 func(c *Config) { c.Pools[0].Size = -1 },
		"autoscaling without a maximum":   func(c *Config) { c.Pools[0].Autoscaling = true },
		"a minimum above the maximum":     func(c *Config) { c.Pools[0].Autoscaling, c.Pools[0].MinPerZone, c.Pools[0].MaxPerZone = true, 3, 2 },
		"a negative speed":                func(c *Config) { c.Speed = -1 },
		"a speed that is not a number":    func(c *Config) { c.Speed = math.NaN() },
		"a negative boot time":            func(c *Config) { c.BootMedian = -1 },
		"a negative autoscaler parameter": func(c *Config) { c.Autoscaler.ScanInterval = -1 },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			spoil(&cfg)
			if s, err := New(cfg, fake.NewClientset()); err == nil {
				t.Errorf("New() succeeded; closing: %v", s.Close())
			}
		})
	}
}
