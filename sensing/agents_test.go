package sensing

import (
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// TestAgents: what the author wants, with what is known of the target and of the fast loop.
func TestAgents(t *testing.T) {
	w := &v1alpha1.ManagedWorkload{}
	w.Namespace, w.Name = "shop", "web"
	if agentsOf(w) != nil {
		t.Error("agents that nobody asked for")
	}
	w.Spec.Vertical = &v1alpha1.Vertical{}
	if got := *agentsOf(w); !reflect.DeepEqual(got, api.Agents{Floor: 50, Interval: time.Second}) {
		t.Errorf("defaults: %+v", got)
	}
	cpu := func(s string) *resource.Quantity { q := resource.MustParse(s); return &q }
	w.Spec.Vertical = &v1alpha1.Vertical{
		Run: new(false), CPU: cpu("1.5"), MinCPU: cpu("20m"), MaxCPU: cpu("1"), IntervalSeconds: new(int32(5)), Container: "web", Model: "night",
		Memory: cpu("1Gi"), MaxMemory: cpu("512Mi"),
		Priorities: []v1alpha1.PodPriority{{Pod: "web-0", Percent: 25}},
	}
	want := api.Agents{
		Stopped: true, MilliCPU: 1500, Floor: 20, Ceiling: 1000, Interval: 5 * time.Second, Container: "web", Model: "night",
		Memory:     &api.MemoryBounds{Budget: 1 << 30, Least: 64 << 20, Most: 512 << 20},
		Priorities: map[string]float64{"web-0": 0.25},
	}
	r := &workloadRecord{agents: agentsOf(w), target: targetID{"shop", kindDeployment, "web"}}
	r.key = api.Key{Namespace: "shop", Name: "web"}
	state := &api.AgentsState{Mind: "threshold"}
	o := &Observer{cfg: Config{Agents: func(key api.Key) *api.AgentsState {
		if key != r.key {
			return nil
		}
		return state
	}}}
	selector, _ := labels.Parse("app=web")
	v := &view{targets: map[targetID]*targetRecord{r.target: {
		selector: selector, containers: []api.ContainerUse{{Name: "side"}, {Name: "web", Limits: api.Amounts{MilliCPU: 700}}},
	}}}
	want.Target = api.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	want.Selector, want.Template, want.State = "app=web", 700, state
	if got := o.agents(r, v); !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v\nwant %+v", *got, want)
	}
	v.targets, o.cfg.Agents = nil, nil
	if got := o.agents(r, v); got.Selector != "" || got.State != nil {
		t.Errorf("without a target: %+v", got)
	}
}
