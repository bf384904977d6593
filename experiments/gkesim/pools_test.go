package gkesim

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"cloud.google.com/go/container/apiv1/containerpb"
	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

func TestSizeIsPerZoneAndNodesComeAfterTheirBoot(t *testing.T) {
	b := newBed(t, testConfig())
	op := b.mustSetSize("performance-pool", 2)
	if op.GetStatus() != containerpb.Operation_PENDING || op.GetOperationType() != containerpb.Operation_SET_NODE_POOL_SIZE {
		t.Errorf("operation is %v %v, want a pending resize", op.GetStatus(), op.GetOperationType())
	}

	b.advance(5 * time.Second)
	if got := b.operation(op.GetName()).GetStatus(); got != containerpb.Operation_RUNNING {
		t.Errorf("after 5 s the operation is %v, want RUNNING", got)
	}
	if got := b.pool("performance-pool").GetStatus(); got != containerpb.NodePool_RECONCILING {
		t.Errorf("during the resize the pool is %v, want RECONCILING", got)
	}
	want := map[string]int32{"us-central1-a": 2, "us-central1-b": 2, "us-central1-c": 2}
	if diff := cmp.Diff(want, targetSizes(t, b.igm, b.s, "performance-pool")); diff != "" {
		t.Errorf("target sizes (-want +got):\n%s", diff)
	}
	b.advance(35 * time.Second) // 40 s: 1 in 10⁶ boots is that fast
	if got := len(b.nodes("performance-pool")); got != 0 {
		t.Errorf("after 40 s there are %d nodes, want none yet", got)
	}

	b.advance(100 * time.Second) // 140 s: 1 in 10⁶ boots is that slow
	if got := b.operation(op.GetName()); got.GetStatus() != containerpb.Operation_DONE || got.GetError() != nil || got.GetEndTime() == "" {
		t.Errorf("after 140 s the operation is %v", got)
	}
	zones := map[string]int32{}
	for _, n := range b.nodes("performance-pool") {
		zones[n.Labels[corev1.LabelTopologyZone]]++
	}
	if diff := cmp.Diff(want, zones); diff != "" {
		t.Errorf("nodes by zone (-want +got):\n%s", diff)
	}
	p := b.pool("performance-pool")
	if p.GetStatus() != containerpb.NodePool_RUNNING || p.GetInitialNodeCount() != 0 || len(p.GetInstanceGroupUrls()) != 3 {
		t.Errorf("pool is %v, initial node count %d, groups %v", p.GetStatus(), p.GetInitialNodeCount(), p.GetInstanceGroupUrls())
	}
}

func TestNodesLookLikeGKEs(t *testing.T) {
	b := newBed(t, testConfig())
	b.mustSetSize("performance-pool", 1)
	b.advance(3 * time.Minute)
	n := b.nodes("performance-pool")[0]
	if !regexp.MustCompile(`^gke-test-performance-pool-[0-9a-f]{8}-[a-z0-9]{4}$`).MatchString(n.Name) {
		t.Errorf("name %q", n.Name)
	}
	zone := n.Labels[corev1.LabelTopologyZone]
	if want := "gce://shop/" + zone + "/" + n.Name; n.Spec.ProviderID != want {
		t.Errorf("provider id %q, want %q", n.Spec.ProviderID, want)
	}
	for key, want := range map[string]string{
		"cloud.google.com/gke-nodepool":    "performance-pool",
		"cloud.google.com/machine-family":  "n2",
		"node.kubernetes.io/instance-type": "n2-standard-2",
		"topology.kubernetes.io/region":    "us-central1",
		"kubernetes.io/arch":               "amd64",
		"kubernetes.io/os":                 "linux",
		"kubernetes.io/hostname":           n.Name,
		"tier":                             "fast",
	} {
		if got := n.Labels[key]; got != want {
			t.Errorf("label %s = %q, want %q", key, got, want)
		}
	}
	if n.Annotations["kwok.x-k8s.io/node"] != "fake" {
		t.Error("kwok does not know the node")
	}
	if diff := cmp.Diff([]corev1.Taint{{Key: "tier", Value: "fast", Effect: corev1.TaintEffectNoSchedule}}, n.Spec.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
}

func TestOneOperationPerPoolOrOneOnTheCluster(t *testing.T) {
	b := newBed(t, testConfig())
	first := b.mustSetSize("performance-pool", 1)
	_, err := b.setSize("performance-pool", 2)
	var api *apierror.APIError
	if status.Code(err) != codes.FailedPrecondition || !errors.As(err, &api) || api.Reason() != "CLUSTER_ALREADY_HAS_OPERATION" ||
		!strings.Contains(err.Error(), "Cluster is running incompatible operation "+first.GetName()) {
		t.Errorf("second resize of the pool: %v", err)
	}
	if _, err := b.setSize("mas-h2-staging-pool", 3); err != nil {
		t.Errorf("resize of the other pool: %v", err)
	}
	if _, err := b.s.Occupy(containerpb.Operation_UPGRADE_MASTER, "", time.Minute); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("operation on the cluster while pools are resized: %v", err)
	}
	b.advance(5 * time.Minute)
	if _, err := b.s.Occupy(containerpb.Operation_UPGRADE_MASTER, "", time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := b.setSize("performance-pool", 2); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("resize during an operation on the cluster: %v", err)
	}
	b.advance(2 * time.Minute)
	if _, err := b.setSize("performance-pool", 2); err != nil {
		t.Errorf("resize after it: %v", err)
	}
}

func TestShrinkPicksItsOwnVictimsAndTakesTheirPodsAlong(t *testing.T) {
	cfg := testConfig()
	cfg.Pools[0].Size = 8
	firstToGo := map[string]bool{} // positions of the victims over several seeds
	for seed := range uint64(6) {
		cfg.Seed = seed
		b := newBed(t, cfg)
		before := names(b.nodes("mas-h2-staging-pool"))
		for _, node := range before {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "on-" + node, Namespace: "shop"}, Spec: corev1.PodSpec{NodeName: node}}
			if _, err := b.kube.CoreV1().Pods("shop").Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		op := b.mustSetSize("mas-h2-staging-pool", 7)
		b.advance(2 * time.Minute)
		if got := b.operation(op.GetName()); got.GetStatus() != containerpb.Operation_DONE || got.GetError() != nil {
			t.Errorf("operation: %v", got)
		}
		left := names(b.nodes("mas-h2-staging-pool"))
		if len(left) != 7 {
			t.Fatalf("%d nodes are left, want 7", len(left))
		}
		for i, node := range b.s.Ledger()[:8] {
			if !slices.Contains(left, node.Node) {
				firstToGo[before[i]] = true
			}
		}
		pods, _ := b.kube.CoreV1().Pods("shop").List(context.Background(), metav1.ListOptions{})
		for _, pod := range pods.Items {
			if !slices.Contains(left, pod.Spec.NodeName) {
				t.Errorf("pod %s outlived its node", pod.Name)
			}
		}
		if len(pods.Items) != 7 {
			t.Errorf("%d pods are left, want 7", len(pods.Items))
		}
	}
	if len(firstToGo) < 2 {
		t.Errorf("six shrinks took the same position: %v", firstToGo)
	}
}

func TestDeleteInstancesTakesExactlyTheNamedOnes(t *testing.T) {
	b := newBed(t, testConfig())
	b.mustSetSize("performance-pool", 2)
	b.advance(5 * time.Minute)
	const zone = "us-central1-b"
	members := b.managed("performance-pool", zone)
	if len(members) != 2 || members[0].GetInstanceStatus() != "RUNNING" || members[0].GetCurrentAction() != "NONE" {
		t.Fatalf("members of %s: %v", zone, members)
	}
	group := b.s.findPool("performance-pool").groups[1].name
	victim := members[1].GetName()
	request := &computepb.DeleteInstancesInstanceGroupManagerRequest{
		Project: "shop", Zone: zone, InstanceGroupManager: group,
		InstanceGroupManagersDeleteInstancesRequestResource: &computepb.InstanceGroupManagersDeleteInstancesRequest{
			Instances: []string{"zones/" + zone + "/instances/" + victim},
		},
	}
	op, err := b.igm.DeleteInstances(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	if op.Done() {
		t.Error("the operation is done at once")
	}
	b.advance(2 * time.Second)
	if err := op.Poll(context.Background()); err != nil || !op.Done() {
		t.Errorf("after 2 s done = %v, err = %v", op.Done(), err)
	}
	waited, err := b.ops.Wait(context.Background(), &computepb.WaitZoneOperationRequest{Project: "shop", Zone: zone, Operation: op.Name()})
	if err != nil || waited.GetStatus() != computepb.Operation_DONE {
		t.Errorf("wait: %v, %v", waited.GetStatus(), err)
	}
	want := map[string]int32{"us-central1-a": 2, "us-central1-b": 1, "us-central1-c": 2}
	if diff := cmp.Diff(want, targetSizes(t, b.igm, b.s, "performance-pool")); diff != "" {
		t.Errorf("target sizes (-want +got):\n%s", diff)
	}
	// Again: it is being deleted, no member any more.
	if _, err := b.igm.DeleteInstances(context.Background(), request); err == nil {
		t.Error("deleting the instance twice succeeded")
	}
	request.InstanceGroupManagersDeleteInstancesRequestResource.SkipInstancesOnValidationError = ptr.To(true)
	if _, err := b.igm.DeleteInstances(context.Background(), request); err != nil {
		t.Errorf("deleting it twice, lenient: %v", err)
	}
	b.advance(time.Minute)
	if got := names(b.nodes("performance-pool")); slices.Contains(got, victim) || len(got) != 5 {
		t.Errorf("nodes left: %v, without %s", got, victim)
	}
}

func TestWhatDoesNotExistIsNotFound(t *testing.T) {
	b := newBed(t, testConfig())
	ctx := context.Background()
	_, poolErr := b.setSize("no-such-pool", 1)
	_, clusterErr := b.gke.GetCluster(ctx, &containerpb.GetClusterRequest{Name: clusterPath + "-2"})
	_, opErr := b.gke.GetOperation(ctx, &containerpb.GetOperationRequest{Name: "projects/shop/locations/us-central1/operations/x"})
	_, groupErr := b.igm.Get(ctx, &computepb.GetInstanceGroupManagerRequest{Project: "shop", Zone: "us-central1-a", InstanceGroupManager: "x"})
	_, zoneOpErr := b.ops.Get(ctx, &computepb.GetZoneOperationRequest{Project: "shop", Zone: "us-central1-a", Operation: "x"})
	for name, err := range map[string]error{"pool": poolErr, "cluster": clusterErr, "operation": opErr} {
		if status.Code(err) != codes.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{"group": groupErr, "zone operation": zoneOpErr} {
		var api *apierror.APIError
		if !errors.As(err, &api) || api.HTTPCode() != 404 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.setSize("performance-pool", -1); status.Code(err) != codes.InvalidArgument {
		t.Errorf("negative size: %v", err)
	}
}

func TestAutoscalingIsSwitchedByAnOperation(t *testing.T) {
	b := newBed(t, testConfig())
	set := func(a *containerpb.NodePoolAutoscaling) error {
		_, err := b.gke.SetNodePoolAutoscaling(context.Background(), &containerpb.SetNodePoolAutoscalingRequest{
			Name: clusterPath + "/nodePools/performance-pool", Autoscaling: a,
		})
		b.advance(10 * time.Second)
		return err
	}
	if err := set(&containerpb.NodePoolAutoscaling{Enabled: true, MinNodeCount: 1, MaxNodeCount: 4}); err != nil {
		t.Fatal(err)
	}
	if a := b.pool("performance-pool").GetAutoscaling(); !a.GetEnabled() || a.GetMinNodeCount() != 1 || a.GetMaxNodeCount() != 4 {
		t.Errorf("autoscaling is %v", a)
	}
	for name, bad := range map[string]*containerpb.NodePoolAutoscaling{
		"no bounds":          {Enabled: true},
		"minimum above":      {Enabled: true, MinNodeCount: 3, MaxNodeCount: 2},
		"both kinds":         {Enabled: true, MaxNodeCount: 2, TotalMaxNodeCount: 6},
		"total min too high": {Enabled: true, TotalMinNodeCount: 7, TotalMaxNodeCount: 6},
	} {
		if err := set(bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := set(&containerpb.NodePoolAutoscaling{}); err != nil {
		t.Fatal(err)
	}
	if b.pool("performance-pool").GetAutoscaling().GetEnabled() {
		t.Error("autoscaling is still on")
	}
}

func TestNodeHoursRunFromBootRequestToDeletion(t *testing.T) {
	cfg := testConfig()
	cfg.Speed = 10
	cfg.Pools[0].Size = 0
	b := newBed(t, cfg)
	b.mustSetSize("performance-pool", 1)
	b.advance(6 * time.Minute) // an hour of the scenario
	// Three nodes for an hour less the latency of the operation (1 s).
	if got, want := b.s.NodeHours()["performance-pool"], 3*(3600.0-1)/3600; got < want-1e-9 || got > want+1e-9 {
		t.Errorf("after an hour %.6f node-hours, want %.6f", got, want)
	}
	b.mustSetSize("performance-pool", 0)
	b.advance(10 * time.Minute)
	settled := b.s.NodeHours()["performance-pool"]
	b.advance(time.Hour)
	if got := b.s.NodeHours()["performance-pool"]; got != settled {
		t.Errorf("node-hours went on from %v to %v without nodes", settled, got)
	}
	for _, l := range b.s.Ledger() {
		if l.Booted.Sub(l.Requested) < 4*time.Second || l.Booted.Sub(l.Requested) > 14*time.Second {
			t.Errorf("at speed 10 %s booted in %v", l.Node, l.Booted.Sub(l.Requested))
		}
	}
}

func TestRestartedServerTakesOverItsNodes(t *testing.T) {
	b := newBed(t, testConfig())
	before := names(b.nodes("mas-h2-staging-pool"))
	cfg := testConfig()
	cfg.Clock = b.clock
	again, err := New(cfg, b.kube)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := again.prepare(context.Background()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, names(b.nodes("mas-h2-staging-pool"))); diff != "" {
		t.Errorf("nodes (-before +after):\n%s", diff)
	}
	if got := again.findPool("mas-h2-staging-pool").target(); got != 2 {
		t.Errorf("target size %d, want 2", got)
	}
}

// Whatever is asked for in whatever order, in the end there are as many nodes
// as the target sizes say and as many open lifetimes.
func TestTargetsNodesAndLedgerAgreeInTheEnd(t *testing.T) {
	b := newBed(t, testConfig())
	rapid.Check(t, func(rt *rapid.T) {
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			pool := rapid.SampledFrom([]string{"mas-h2-staging-pool", "performance-pool"}).Draw(rt, "pool")
			switch rapid.IntRange(0, 3).Draw(rt, "do") {
			case 0:
				_, err := b.setSize(pool, rapid.Int32Range(0, 4).Draw(rt, "size"))
				if err != nil && status.Code(err) != codes.FailedPrecondition {
					rt.Fatal(err)
				}
			case 1:
				g := b.s.findPool(pool).groups[0]
				members := b.managed(pool, g.zone)
				if len(members) == 0 {
					continue
				}
				victim := rapid.SampledFrom(members).Draw(rt, "victim")
				_, err := b.igm.DeleteInstances(context.Background(), &computepb.DeleteInstancesInstanceGroupManagerRequest{
					Project: "shop", Zone: g.zone, InstanceGroupManager: g.name,
					InstanceGroupManagersDeleteInstancesRequestResource: &computepb.InstanceGroupManagersDeleteInstancesRequest{Instances: []string{victim.GetInstance()}},
				})
				if err != nil && victim.GetCurrentAction() != "DELETING" {
					rt.Fatal(err)
				}
			case 2:
				b.s.Fail(Fault{Kind: rapid.SampledFrom([]FaultKind{Stockout, Quota, OperationError, SlowBoot, SlowOperation}).Draw(rt, "fault"), Pool: pool, Times: 1, Delay: time.Minute})
			case 3:
				b.advance(time.Duration(rapid.IntRange(1, 120).Draw(rt, "seconds")) * time.Second)
			}
		}
		b.advance(30 * time.Minute)
		for _, p := range b.s.pools {
			want := int(p.target())
			if got := len(b.nodes(p.Name)); got != want {
				rt.Fatalf("%s: %d nodes, target %d", p.Name, got, want)
			}
			open := 0
			for _, l := range b.s.Ledger() {
				if l.Pool == p.Name && l.Deleted.IsZero() {
					open++
				}
			}
			if open != want {
				rt.Fatalf("%s: %d open lifetimes, target %d", p.Name, open, want)
			}
			if p.op != nil {
				rt.Fatalf("%s: operation %s never ends", p.Name, p.op.name)
			}
		}
	})
}

// target is the target size over all zones.
func (p *pool) target() int32 {
	n := int32(0)
	for _, g := range p.groups {
		n += g.target()
	}
	return n
}
