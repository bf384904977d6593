package serve

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// TestVerticalStatus: the envelope and the limits are shown; a decision a second is not
// written a second, another budget or another reason is.
func TestVerticalStatus(t *testing.T) {
	if verticalOf(nil) != nil {
		t.Error("a status without agents")
	}
	plan := func(change func(*api.AgentsPlan)) *v1alpha1.VerticalStatus {
		p := &api.AgentsPlan{Budget: 900, Least: 50, Most: 700, Agents: api.Agents{State: &api.AgentsState{
			Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Mind: "threshold", Pods: []api.AgentState{{Pod: "a", Limit: 100, Next: 125}},
		}}}
		if change != nil {
			change(p)
		}
		return verticalOf(p)
	}
	got := plan(nil)
	if got.Envelope.CPU.String() != "900m" || got.Envelope.MaxCPU.String() != "700m" || got.Pods[0].Limit.String() != "125m" || got.Decides != "threshold" || got.Message != "" {
		t.Errorf("%+v", got)
	}
	if got.Envelope.Memory != nil || got.Pods[0].Memory != nil {
		t.Errorf("memory that nobody asked for: %+v", got)
	}
	memory := plan(func(p *api.AgentsPlan) {
		p.Memory = &api.MemoryBounds{Budget: 1 << 30}
		p.State.Pods[0].Memory = &api.AgentMemory{Limit: 64 << 20, Next: 80 << 20}
	})
	if memory.Envelope.Memory.String() != "1Gi" || memory.Pods[0].Memory.String() != "80Mi" {
		t.Errorf("%+v", memory)
	}
	said := plan(func(p *api.AgentsPlan) {
		p.Hold, p.State.Waits, p.State.Error, p.State.Refused = "spec.mode is Shadow", "the same", "forbidden", []string{"b: no limit"}
	})
	if said.Message != "forbidden; spec.mode is Shadow; b: no limit" {
		t.Errorf("%q", said.Message)
	}
	many := plan(func(p *api.AgentsPlan) {
		for i := range 2 * mostAgents {
			p.State.Pods = append(p.State.Pods, api.AgentState{Pod: fmt.Sprint(i)})
		}
	})
	if len(many.Pods) != mostAgents {
		t.Errorf("%d pods are listed", len(many.Pods))
	}
	if none := plan(func(p *api.AgentsPlan) { p.State = nil }); none.Decides != "" || none.Time != nil {
		t.Errorf("%+v", none)
	}

	now := time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	writer := &Status{Refresh: time.Hour}
	key := api.Key{Namespace: "shop", Name: "web"}
	for name, c := range map[string]struct {
		change func(*api.AgentsPlan)
		due    bool
	}{
		"another second": {func(p *api.AgentsPlan) { p.State.Time, p.State.Pods[0].Next = now, 150 }, false},
		"other figures":  {func(p *api.AgentsPlan) { p.State.Waits = "waits for 4 s" }, false},
		"a budget":       {func(p *api.AgentsPlan) { p.Budget = 800 }, true},
		"a reason":       {func(p *api.AgentsPlan) { p.Hold = "an HPA scales it" }, true},
	} {
		old := v1alpha1.ManagedWorkloadStatus{LastCycleTime: new(metav1.NewTime(now)), Vertical: plan(func(p *api.AgentsPlan) { p.State.Waits = "waits for 5 s" })}
		if name != "other figures" {
			old.Vertical = plan(nil)
		}
		want := v1alpha1.ManagedWorkloadStatus{Vertical: plan(c.change)}
		if got := writer.due(key, writer.Refresh, old, want, now); got != c.due {
			t.Errorf("%s: due %t", name, got)
		}
	}
}
