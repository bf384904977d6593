package sensing

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

// The order of the checks, shown by a workload with everything wrong whose faults are
// mended one after the other: each time the next check speaks.
func TestHoldOrder(t *testing.T) {
	r := &workloadRecord{}
	in := holdInput{r: r, first: &workloadRecord{identity: identity{key: api.Key{Name: "older"}}}}
	in.scalers, in.foreign = []string{"hpa"}, "kubectl"
	in.w = api.Workload{
		HoldReason: HoldInvalidSpec, Hold: "spec", Mode: api.ModeFull, IgnoreCPU: true, TargetUtilization: 2,
		Target: api.TargetRef{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "web"}, Shape: &api.PodShape{},
	}
	type step struct{ Check, Reason string }
	var got []step
	for _, mend := range []func(){
		func() {},
		func() { in.w.HoldReason, in.w.Hold = "", "" },
		func() { in.w.Target.Kind = kindDeployment },
		func() { in.t = &targetRecord{} },
		func() { in.first = r },
		func() { in.scalers = nil },
		func() { in.foreign = "" },
		func() { in.w.MaxReplicas, in.w.MinReplicas = 1, 2 },
		func() { in.w.IgnoreCPU = false },
		func() { in.w.TargetUtilization = 0 },
		func() { in.w.MaxReplicas = 2 },
		func() { in.w.Replicas = 2 },
		func() { in.w.Shape = &api.PodShape{Requests: api.Resources{MilliCPU: 100}} },
	} {
		mend()
		for _, c := range holdChecks {
			if reason, message := c.why(in); reason != "" {
				if message == "" {
					t.Errorf("%s: %s says nothing", c.name, reason)
				}
				got = append(got, step{c.name, reason})
				break
			}
		}
	}
	want := []step{
		{"spec can be read", HoldInvalidSpec},
		{"kind is supported", HoldUnsupportedTarget},
		{"target exists", HoldTargetMissing},
		{"target is nobody else's", HoldDuplicateTarget},
		{"no other horizontal scaler", HoldConflict},
		{"replicas are not taken over", HoldConflict},
		{"bounds can be", HoldInvalidBounds},
		{"something to plan by", HoldInvalidTrigger},
		{"target utilisation can be", HoldInvalidBounds},
		{"minimum is below the maximum", HoldInvalidBounds},
		{"target is switched on", HoldScaledToZero},
		{"pods ask for CPU", HoldNoRequests},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the first reasons (-want +got):\n%s", diff)
	}
	// Every check but that of VerticalPodAutoscalers, which TestHolds has, is in it.
	for _, c := range holdChecks {
		if c.name != "no vertical scaler that fights" && !slices.ContainsFunc(want, func(s step) bool { return s.Check == c.name }) {
			t.Errorf("the order does not show %q", c.name)
		}
	}
}
