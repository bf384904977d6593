package agents

import (
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/vertical"
)

// yard is a Fleet over one made-up node.
type yard struct {
	*testing.T
	*Fleet
	node  *node
	opens int
}

func newYard(t *testing.T) *yard {
	y := &yard{T: t, node: &node{clock: testclock.NewFakeClock(start)}}
	y.Fleet = &Fleet{
		Actuator: y.node, Clock: y.node.clock, Stale: time.Minute, Minds: map[string]Mind{"greedy": func() vertical.Planner { return greedy{} }},
		Panicked: func(string, api.Key, any, []byte) {},
		Open:     func(api.Key, api.Agents) (Observer, Meter) { y.opens++; return y.node, y.node },
	}
	t.Cleanup(y.Start(t.Context()))
	return y
}

// greedy wants everything.
type greedy struct{}

func (greedy) Name() string                   { return "greedy" }
func (greedy) Propose(*vertical.View) float64 { return 1e6 }

var web = api.Key{Namespace: "shop", Name: "web"}

func (y *yard) plan(change func(*api.AgentsPlan)) api.Cycle {
	p := &api.AgentsPlan{
		Agents: api.Agents{Interval: time.Second, Selector: "app=web"},
		Budget: 1000, Least: 50, Most: 1000, Until: y.node.clock.Now().Add(45 * time.Second),
	}
	if change != nil {
		change(p)
	}
	return api.Cycle{Plan: api.Plan{Workloads: []api.WorkloadPlan{{Key: web, Agents: p}, {Key: api.Key{Name: "other"}}}}}
}

// until a state holds, while time goes on.
func (y *yard) until(what string, holds func(*api.AgentsState) bool) {
	y.Helper()
	for range 2000 {
		if s := y.State(web); s != nil && holds(s) {
			return
		}
		if y.node.clock.HasWaiters() {
			y.node.clock.Step(time.Second)
		}
		time.Sleep(time.Millisecond) // the loop is another goroutine
	}
	y.Fatalf("never: %s; %+v, %s", what, y.State(web), y.node.limits())
}

// TestFleet: a loop begins with its plan, follows the budget, and ends with it.
func TestFleet(t *testing.T) {
	y := newYard(t)
	y.node.join("a", 50, 400)
	y.node.join("b", 500, 10)
	if y.State(web) != nil {
		t.Error("a loop that nobody asked for")
	}
	y.Report(t.Context(), y.plan(nil))
	y.until("a has what it needs", func(s *api.AgentsState) bool { return len(s.Pods) == 2 && s.Pods[0].Next >= 560 })
	if s := y.State(web); s.Mind != SpreadMind || s.Trusted != nil || len(s.Models) != 1 || s.Pods[1].Pod != "b" || *s.Pods[0].Usage == 0 {
		t.Errorf("%+v", s)
	}
	// A cycle that could not decide changes nothing; a paused one holds.
	y.Report(t.Context(), api.Cycle{Error: "no API server"})
	c := y.plan(func(p *api.AgentsPlan) { p.Budget, p.Most = 300, 300 })
	c.Paused = true
	y.Report(t.Context(), c)
	y.until("it is paused", func(s *api.AgentsState) bool { return strings.Contains(s.Waits, "mash2 pause") })
	if y.State(web).Pods[0].Next < 560 {
		t.Errorf("written while paused: %+v", y.State(web))
	}
	c.Paused = false
	y.Report(t.Context(), c)
	y.until("the smaller budget", func(s *api.AgentsState) bool {
		return len(s.Pods) == 2 && s.Waits == "" && s.Pods[0].Next+s.Pods[1].Next <= 300
	})
	if y.opens != 1 {
		t.Errorf("%d loops", y.opens)
	}
	// Without a newer plan the envelope ends.
	y.until("the envelope ends", func(s *api.AgentsState) bool { return strings.Contains(s.Waits, "the envelope ended") })
	// Other pods are another loop's, and without agents there is none.
	y.Report(t.Context(), y.plan(func(p *api.AgentsPlan) { p.Selector = "app=other" }))
	y.Report(t.Context(), y.plan(func(p *api.AgentsPlan) { p.Selector, p.Target.Name = "app=other", "other" }))
	if y.opens != 3 {
		t.Errorf("%d loops", y.opens)
	}
	c.Plan.Workloads[0].Agents = nil
	y.Report(t.Context(), c)
	if y.State(web) != nil {
		t.Errorf("%+v", y.State(web))
	}
}

// TestFleetModels: a model that the plan names is tried before it decides, and one that there
// isn't holds.
func TestFleetModels(t *testing.T) {
	y := newYard(t)
	y.node.join("a", 100, 40)
	y.Report(t.Context(), y.plan(func(p *api.AgentsPlan) { p.Model = "greedy"; p.Priorities = map[string]float64{"a": 0.5} }))
	y.until("the model is tried", func(s *api.AgentsState) bool {
		return s.Mind != "" && strings.Contains(s.Trial, "readings are recorded,")
	})
	if s := y.State(web); s.Mind != "rule:spread" || s.Trusted == nil || *s.Trusted || s.Pods[0].Priority != 0.5 {
		t.Errorf("%+v", s)
	}
	y.Report(t.Context(), y.plan(func(p *api.AgentsPlan) { p.Model = ThresholdMind }))
	y.until("MARLISE's rule decides", func(s *api.AgentsState) bool {
		return s.Mind == ThresholdMind && s.Trusted == nil && s.Trial == "" && s.Waits == ""
	})
	y.Report(t.Context(), y.plan(func(p *api.AgentsPlan) { p.Model = "gone" }))
	y.until("it holds", func(s *api.AgentsState) bool { return strings.Contains(s.Waits, `no model of agents "gone"`) })
	y.Report(t.Context(), y.plan(func(p *api.AgentsPlan) { p.Priorities = map[string]float64{"a": 2} }))
	if s := y.State(web); !strings.Contains(s.Error, "priority of a") {
		t.Errorf("%+v", s)
	}
}

// TestFleetOutlivesAPanic: the loop of one workload ends, is said, and begins anew with the
// next cycle.
func TestFleetOutlivesAPanic(t *testing.T) {
	y := newYard(t)
	y.node.join("a", 100, 40)
	told := make(chan api.Key, 1)
	y.Panicked = func(_ string, key api.Key, _ any, _ []byte) { told <- key }
	y.Open = func(api.Key, api.Agents) (Observer, Meter) {
		if y.opens++; y.opens == 1 {
			return nil, nil // the first tick panics
		}
		return y.node, y.node
	}
	y.Report(t.Context(), y.plan(nil))
	if got := <-told; got != web {
		t.Errorf("%v", got)
	}
	y.until("it is said", func(s *api.AgentsState) bool { return strings.Contains(s.Error, "panicked") })
	y.Report(t.Context(), y.plan(nil))
	y.until("it runs", func(s *api.AgentsState) bool { return len(s.Pods) == 1 && s.Error == "" })
}

// TestFleetRenews: a loop whose model has changed begins anew with the next plan, and so does
// one that is to decide by a model that it began without. The others go on.
func TestFleetRenews(t *testing.T) {
	y := newYard(t)
	y.node.join("a", 50, 400)
	by := func(model string) api.Cycle { return y.plan(func(p *api.AgentsPlan) { p.Model = model }) }
	mind := func() vertical.Planner { return greedy{} }
	report := func(model string, want int) {
		t.Helper()
		y.Report(t.Context(), by(model))
		if y.opens != want {
			t.Errorf("by %q there were %d loops, want %d", model, y.opens, want)
		}
	}
	report("greedy", 1)
	y.Renew(map[string]Mind{"greedy": mind, "new": mind}, []string{"new"})
	report("greedy", 1)
	report("new", 2)
	report("new", 2)
	y.Renew(map[string]Mind{"greedy": mind, "new": mind}, []string{"new"})
	report("new", 3)
	y.until("the models are told", func(s *api.AgentsState) bool { return strings.Join(s.Models, " ") == "greedy new" })
}
