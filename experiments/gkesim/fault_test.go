package gkesim

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"cloud.google.com/go/container/apiv1/containerpb"
	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestCallsFailAsGKEFails(t *testing.T) {
	tests := map[string]struct {
		kind     FaultKind
		wantCode codes.Code
		wantHTTP int
	}{
		"unavailable":           {Unavailable, codes.Unavailable, 503},
		"deadline exceeded":     {DeadlineExceeded, codes.DeadlineExceeded, 504},
		"rate limit":            {ResourceExhausted, codes.ResourceExhausted, 403},
		"operation in progress": {OperationInProgress, codes.FailedPrecondition, 400},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, testConfig())
			b.s.Fail(Fault{Kind: tt.kind, Method: "SetNodePoolSize", Times: 1})
			if _, err := b.setSize("performance-pool", 1); status.Code(err) != tt.wantCode {
				t.Errorf("SetNodePoolSize: %v, want %v", err, tt.wantCode)
			}
			b.advance(3 * time.Minute)
			if got := len(b.nodes("performance-pool")); got != 0 {
				t.Errorf("the call that failed made %d nodes", got)
			}
			if _, err := b.setSize("performance-pool", 1); err != nil {
				t.Errorf("the next call: %v", err)
			}

			clear := b.s.Fail(Fault{Kind: tt.kind, Method: "InstanceGroupManagers.DeleteInstances"})
			g := b.s.findPool("mas-h2-staging-pool").groups[0]
			victim := b.managed("mas-h2-staging-pool", g.zone)[0].GetInstance()
			request := &computepb.DeleteInstancesInstanceGroupManagerRequest{
				Project: "shop", Zone: g.zone, InstanceGroupManager: g.name,
				InstanceGroupManagersDeleteInstancesRequestResource: &computepb.InstanceGroupManagersDeleteInstancesRequest{Instances: []string{victim}},
			}
			_, err := b.igm.DeleteInstances(context.Background(), request)
			var api *apierror.APIError
			if !errors.As(err, &api) || api.HTTPCode() != tt.wantHTTP {
				t.Errorf("DeleteInstances: %v, want HTTP %d", err, tt.wantHTTP)
			}
			clear()
			if _, err := b.igm.DeleteInstances(context.Background(), request); err != nil {
				t.Errorf("DeleteInstances after the fault was cleared: %v", err)
			}
		})
	}
}

func TestACallMayFailAndYetTakeEffect(t *testing.T) {
	b := newBed(t, testConfig())
	b.s.Fail(Fault{Kind: DeadlineExceeded, Method: "SetNodePoolSize", Times: 1, Applied: true})
	if _, err := b.setSize("performance-pool", 1); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("SetNodePoolSize: %v", err)
	}
	b.advance(3 * time.Minute)
	if got := len(b.nodes("performance-pool")); got != 3 {
		t.Errorf("%d nodes, want the 3 that were asked for", got)
	}
}

func TestFaultsSkipAndCount(t *testing.T) {
	b := newBed(t, testConfig())
	b.s.Fail(Fault{Kind: Unavailable, Method: "SetNodePoolSize", Skip: 1, Times: 2})
	var got []codes.Code
	for range 5 {
		_, err := b.setSize("performance-pool", 0)
		got = append(got, status.Code(err))
		b.advance(time.Minute)
	}
	want := []codes.Code{codes.OK, codes.Unavailable, codes.Unavailable, codes.OK, codes.OK}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
}

func TestSlowCallsEndWithTheCallersPatience(t *testing.T) {
	b := newBed(t, testConfig())
	b.s.Fail(Fault{Kind: SlowCall, Method: "SetNodePoolSize", Delay: time.Hour})
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		_, err := b.gke.SetNodePoolSize(ctx, &containerpb.SetNodePoolSizeRequest{Name: clusterPath + "/nodePools/performance-pool", NodeCount: 1})
		failed <- err
	}()
	for !b.clock.HasWaiters() {
		runtime.Gosched() // the call is on its way to the server
	}
	cancel()
	if err := <-failed; status.Code(err) != codes.Canceled {
		t.Errorf("SetNodePoolSize: %v", err)
	}
	for b.clock.HasWaiters() {
		runtime.Gosched() // the server hears of it a little later than the caller
	}
	b.advance(2 * time.Hour)
	if got := len(b.nodes("performance-pool")); got != 0 {
		t.Errorf("the call that was given up made %d nodes", got)
	}
}

func TestInstancesThatCannotBeCreatedEndTheOperationInAnError(t *testing.T) {
	tests := map[string]struct {
		fault         Fault
		quota         int64
		wantCondition containerpb.StatusCondition_Code
		wantReason    string
		wantDetail    string
		wantNodes     int // of the three
	}{
		"stockout in one zone": {
			fault:         Fault{Kind: Stockout, Zone: "us-central1-b"},
			wantCondition: containerpb.StatusCondition_GCE_STOCKOUT, wantReason: "ZONE_RESOURCE_POOL_EXHAUSTED",
			wantDetail: "Google Compute Engine: Not all instances running in IGM after", wantNodes: 2,
		},
		"quota by a fault": {
			fault:         Fault{Kind: Quota, Pool: "performance-pool"},
			wantCondition: containerpb.StatusCondition_GCE_QUOTA_EXCEEDED, wantReason: "QUOTA_EXCEEDED",
			wantDetail: "Insufficient quota to satisfy the request: ", wantNodes: 0,
		},
		// Two e2-medium have 4 vCPUs; one n2-standard-2 still fits, the second in part.
		"quota of the region": {
			quota:         7,
			wantCondition: containerpb.StatusCondition_GCE_QUOTA_EXCEEDED, wantReason: "QUOTA_EXCEEDED",
			wantDetail: "Insufficient quota to satisfy the request: ", wantNodes: 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.CPUQuota = tt.quota
			b := newBed(t, cfg)
			clear := func() { // makes room in the region
				b.mustSetSize("mas-h2-staging-pool", 0)
			}
			if tt.fault.Kind != "" {
				clear = b.s.Fail(tt.fault)
			}
			op := b.mustSetSize("performance-pool", 1)
			b.advance(3 * time.Minute)
			got := b.operation(op.GetName())
			if got.GetStatus() != containerpb.Operation_DONE || codes.Code(got.GetError().GetCode()) != codes.ResourceExhausted {
				t.Errorf("operation is %v with error %v, want DONE with RESOURCE_EXHAUSTED", got.GetStatus(), got.GetError())
			}
			if !strings.HasPrefix(got.GetDetail(), tt.wantDetail) {
				t.Errorf("detail %q, want %q…", got.GetDetail(), tt.wantDetail)
			}
			p := b.pool("performance-pool")
			//nolint:staticcheck // the condition's code is deprecated, but GKE fills it
			if p.GetStatus() != containerpb.NodePool_RUNNING_WITH_ERROR || len(p.GetConditions()) == 0 || p.GetConditions()[0].GetCode() != tt.wantCondition {
				t.Errorf("pool is %v with conditions %v", p.GetStatus(), p.GetConditions())
			}
			if nodes := len(b.nodes("performance-pool")); nodes != tt.wantNodes {
				t.Errorf("%d nodes, want %d", nodes, tt.wantNodes)
			}
			want := map[string]int32{"us-central1-a": 1, "us-central1-b": 1, "us-central1-c": 1}
			if diff := cmp.Diff(want, targetSizes(t, b.igm, b.s, "performance-pool")); diff != "" {
				t.Errorf("target sizes (-want +got):\n%s", diff)
			}
			if m := b.managed("performance-pool", "us-central1-b")[0]; m.GetCurrentAction() != "CREATING" || m.GetLastAttempt().GetErrors().GetErrors()[0].GetCode() != tt.wantReason {
				t.Errorf("managed instance: %v", m)
			}

			// The instance group goes on trying.
			clear()
			b.advance(5 * time.Minute)
			if nodes := len(b.nodes("performance-pool")); nodes != 3 {
				t.Errorf("after the failure %d nodes, want 3", nodes)
			}
			if p := b.pool("performance-pool"); p.GetStatus() != containerpb.NodePool_RUNNING || len(p.GetConditions()) != 0 {
				t.Errorf("after the failure the pool is %v with conditions %v", p.GetStatus(), p.GetConditions())
			}
		})
	}
}

func TestOperationEndsInAnErrorWithoutEffect(t *testing.T) {
	b := newBed(t, testConfig())
	b.s.Fail(Fault{Kind: OperationError, Pool: "performance-pool", Times: 1})
	op := b.mustSetSize("performance-pool", 1)
	b.advance(3 * time.Minute)
	got := b.operation(op.GetName())
	if got.GetStatus() != containerpb.Operation_DONE || codes.Code(got.GetError().GetCode()) != codes.Internal {
		t.Errorf("operation: %v", got)
	}
	if nodes := len(b.nodes("performance-pool")); nodes != 0 {
		t.Errorf("%d nodes, want none", nodes)
	}
}

func TestSlowOperationsOccupyThePool(t *testing.T) {
	b := newBed(t, testConfig())
	b.s.Fail(Fault{Kind: SlowOperation, Times: 1, Delay: 10 * time.Minute})
	op := b.mustSetSize("performance-pool", 1)
	b.advance(9 * time.Minute)
	if got := b.operation(op.GetName()).GetStatus(); got != containerpb.Operation_RUNNING {
		t.Errorf("after 9 min the operation is %v", got)
	}
	b.advance(4 * time.Minute)
	if got := b.operation(op.GetName()).GetStatus(); got != containerpb.Operation_DONE {
		t.Errorf("after 13 min the operation is %v", got)
	}
}

func TestPartlyBootedPoolEndsTheOperationInAnError(t *testing.T) {
	b := newBed(t, testConfig())
	b.s.Fail(Fault{Kind: NeverRegisters, Zone: "us-central1-c"})
	op := b.mustSetSize("performance-pool", 1)
	b.advance(5 * time.Minute)
	if got := b.operation(op.GetName()).GetStatus(); got != containerpb.Operation_RUNNING {
		t.Errorf("after 5 min the operation is %v", got)
	}
	b.advance(10 * time.Minute)
	got := b.operation(op.GetName())
	if got.GetStatus() != containerpb.Operation_DONE || !strings.Contains(got.GetError().GetMessage(), "only 2 nodes out of 3 have registered") {
		t.Errorf("operation: %v", got)
	}
	if nodes := len(b.nodes("performance-pool")); nodes != 2 {
		t.Errorf("%d nodes, want 2", nodes)
	}
}

func TestSlowBootsAreAsSlowAsTold(t *testing.T) {
	b := newBed(t, testConfig())
	b.s.Fail(Fault{Kind: SlowBoot, Pool: "performance-pool", Delay: 10 * time.Minute})
	b.mustSetSize("performance-pool", 1)
	b.advance(10 * time.Minute)
	if nodes := len(b.nodes("performance-pool")); nodes != 0 {
		t.Errorf("after 10 min %d nodes, want none", nodes)
	}
	b.advance(3 * time.Minute)
	if nodes := len(b.nodes("performance-pool")); nodes != 3 {
		t.Errorf("after 13 min %d nodes, want 3", nodes)
	}
}
