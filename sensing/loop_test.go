package sensing

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/horizontal"
	"github.com/mash2-io/mash2/strategic"
)

// controllers are what carries replicas out in a world: the scale subresource,
// and the Deployment's controller behind it.
type controllers struct {
	*world
	policy  string
	actions []string
	last    api.Cycle
}

func (c *controllers) Spec(context.Context) (api.PolicySpec, []api.Finding, error) {
	return api.PolicySpec{Manual: c.policy, Policies: strategic.Defaults()}, nil, nil
}

func (c *controllers) Report(_ context.Context, cycle api.Cycle) { c.last = cycle }

// Apply scales the Deployment: pods come and go at once.
func (c *controllers) Apply(_ context.Context, a api.Action) error {
	c.actions = append(c.actions, a.String())
	s, ok := a.(api.ScaleWorkload)
	if !ok {
		return fmt.Errorf("nobody carries out %s", a)
	}
	d := deployment("web", s.To, "100m")
	c.put(d)
	for _, p := range records[*podRecord](c.caches, kindPod) {
		if err := c.caches.informers[kindPod].GetStore().Delete(p); err != nil {
			return err
		}
	}
	for i := range int(s.To) {
		c.put(podOn("web", i, "node-1", c.clock.Now().Add(-20*time.Second)))
	}
	return nil
}

// TestFromZeroAndBack walks the whole corridor: a queue behind
// external.metrics.k8s.io, read by the real client, takes a Deployment from 0
// to what the queue needs and, when it is empty, after the cooldown back.
func TestFromZeroAndBack(t *testing.T) {
	queue := external("queue", "20")
	queue.ActivationThreshold = ptr.To(resource.MustParse("5"))
	w, a, _ := triggered(t, queue)
	mw := managed("web")
	mw.Spec.MinReplicas, mw.Spec.MaxReplicas = ptr.To[int32](0), 30
	mw.Spec.Metric.Type = v1alpha1.MetricNone
	mw.Spec.CooldownSeconds = ptr.To[int32](120)
	mw.Spec.Triggers = []v1alpha1.Trigger{queue}
	w.put(mw)
	c := &controllers{world: w, policy: api.CostSaving}
	if err := c.Apply(t.Context(), api.ScaleWorkload{}); err != nil { // to 0
		t.Fatal(err)
	}
	loop := mash2.Loop{
		Config:   mash2.Config{Period: 15 * time.Second, ActionTimeout: time.Second},
		Observer: w, Policies: c, Actuator: c, Reporter: c,
		Planner: planning.Hierarchy{
			Config:   planning.DefaultConfig(),
			Planners: map[string]planning.WorkloadPlanner{"horizontal": horizontal.Planner{}},
		},
	}
	replicas := func() int32 { return w.caches.view().targets[targetID{ns, kindDeployment, "web"}].replicas }
	run := func(d time.Duration) (seen []int32) {
		for range int(d / loop.Config.Period) {
			if _, err := loop.RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, o := range c.last.Outcomes {
				if o.Error != "" {
					t.Fatal(o.Error)
				}
			}
			seen = append(seen, replicas())
			w.clock.Step(loop.Config.Period)
		}
		return slices.Compact(seen)
	}
	step := func(what string, value string, d time.Duration, want ...int32) {
		t.Helper()
		a.external[ns+"/queue"] = []string{value}
		if got := run(d); !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v: %s", what, got, want, c.last.Plan.Workloads[0].Reason)
		}
	}
	step("nothing to do", "0", time.Minute, 0)
	step("no more than the threshold", "5", time.Minute, 0)
	step("work", "130", 2*time.Minute, 4, 7) // 130/20 = 6.5; the HPA's four pods in 15 s first
	a.status = http.StatusServiceUnavailable
	step("an adapter that is down", "0", 20*time.Minute, 7)
	if r := c.last.Plan.Workloads[0].Reason; !strings.Contains(r, "currently unable") {
		t.Errorf("the reason doesn't say why it stays: %s", r)
	}
	a.status = 0
	// It is empty: seven for the HPA's five minutes is more than the cooldown of
	// two, after which nobody asks.
	step("empty", "0", 10*time.Minute, 7, 0)
	a.status = http.StatusServiceUnavailable
	step("down at zero", "130", 10*time.Minute, 0)
	a.status = 0
	step("work again", "300", 2*time.Minute, 4, 8, 15)

	c.policy = api.Performance
	step("a policy that keeps replicas ready", "0", 20*time.Minute, 15, 2)
	if n := len(c.actions); n != 1+2+1+3+1 { // to 0 by hand; 4, 7; 0; 4, 8, 15; 2
		t.Errorf("%d actions: %v", n, c.actions)
	}
}
