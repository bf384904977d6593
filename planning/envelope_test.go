package planning

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
)

// TestEnvelope: agents get what their author states, or what the plan's replicas have by
// their template, and a pod that is going as well, and nothing while something stands against it.
func TestEnvelope(t *testing.T) {
	key := api.Key{Namespace: "shop", Name: "web"}
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	node := api.Node{Name: "n", Ready: true, Allocatable: api.Resources{MilliCPU: 3900, Memory: 4096}}
	for name, c := range map[string]struct {
		agents   api.Agents
		workload func(*api.Workload)
		plan     func(*api.WorkloadPlan)
		node     func(*api.Node)
		want     [3]int64 // budget, least, most
		pods     int
		memory   api.MemoryBounds
		hold     string
	}{
		"the author's budget":                {agents: api.Agents{MilliCPU: 900, Floor: 50}, want: [3]int64{900, 50, 900}},
		"the template's, of those planned":   {agents: api.Agents{Floor: 50, Template: 500}, want: [3]int64{2500, 50, 2500}},
		"of those that run, until they went": {agents: api.Agents{Floor: 50, Template: 500}, plan: func(p *api.WorkloadPlan) { p.Current = 6 }, want: [3]int64{3500, 50, 3500}},
		"no more than a node has":            {agents: api.Agents{MilliCPU: 9000, Floor: 50}, want: [3]int64{9000, 50, 3900}},
		"the author's bounds":                {agents: api.Agents{MilliCPU: 900, Floor: 70, Ceiling: 400}, want: [3]int64{900, 70, 400}},
		"a floor above the budget":           {agents: api.Agents{MilliCPU: 40, Floor: 50}, want: [3]int64{40, 50, 50}},
		"no limit anywhere":                  {agents: api.Agents{Floor: 50}, want: [3]int64{0, 50, 50}, hold: "no CPU limit"},
		"memory up to all of it":             {agents: api.Agents{MilliCPU: 900, Floor: 50, Memory: &api.MemoryBounds{Budget: 2000, Least: 10}}, want: [3]int64{900, 50, 900}, memory: api.MemoryBounds{Budget: 2000, Least: 10, Most: 2000}},
		"of a pod no more than a node has":   {agents: api.Agents{MilliCPU: 900, Floor: 50, Memory: &api.MemoryBounds{Budget: 9000, Least: 10, Most: 8000}}, want: [3]int64{900, 50, 900}, memory: api.MemoryBounds{Budget: 9000, Least: 10, Most: 4096}},
		"stopped":                            {agents: api.Agents{MilliCPU: 900, Floor: 50, Stopped: true}, want: [3]int64{900, 50, 900}, hold: "spec.vertical.run"},
		"in Shadow":                          {agents: api.Agents{MilliCPU: 900, Floor: 50}, plan: func(p *api.WorkloadPlan) { p.Shadow = true }, want: [3]int64{900, 50, 900}, hold: "Shadow"},
		"a control":                          {agents: api.Agents{MilliCPU: 900, Floor: 50}, plan: func(p *api.WorkloadPlan) { p.Canary = &api.CanaryPlan{} }, want: [3]int64{900, 50, 900}, hold: "trial"},
		"a conflict":                         {agents: api.Agents{MilliCPU: 900, Floor: 50}, workload: func(w *api.Workload) { w.Hold = "an HPA scales it" }, want: [3]int64{900, 50, 900}, hold: "an HPA"},
		"in a rollout, of all that run":      {agents: api.Agents{Floor: 50, Template: 500}, workload: func(w *api.Workload) { w.RollingOut = true }, pods: 5, want: [3]int64{3000, 50, 3000}},
		"in a move, of all that run":         {agents: api.Agents{Floor: 50, Template: 500}, node: func(n *api.Node) { n.CordonedFor = api.CordonMigration }, pods: 5, want: [3]int64{3000, 50, 3000}},
	} {
		t.Run(name, func(t *testing.T) {
			c.agents.Selector = "app=web"
			w := api.Workload{Key: key, Agents: &c.agents}
			p := api.WorkloadPlan{Key: key, Scale: api.Scale{Replicas: 4}, Current: 4}
			n := node
			if c.workload != nil {
				c.workload(&w)
			}
			if c.plan != nil {
				c.plan(&p)
			}
			if c.node != nil {
				c.node(&n)
			}
			cy := &cycle{Hierarchy: Hierarchy{Config: DefaultConfig()}, s: api.Snapshot{Time: now, Nodes: []api.Node{n}}}
			cy.managed = []managed{{workload: api.Workload{Key: api.Key{Name: "other"}}}, {workload: w, pods: append(slices.Repeat([]api.Pod{{Node: "n"}}, max(c.pods, 1)), api.Pod{Terminating: true})}}
			plans := []api.WorkloadPlan{{Key: api.Key{Name: "other"}}, p}
			cy.envelopes(plans)
			got := plans[1].Agents
			if got == nil || plans[0].Agents != nil {
				t.Fatalf("%+v", plans)
			}
			if [3]int64{got.Budget, got.Least, got.Most} != c.want || !strings.Contains(got.Hold, c.hold) || (c.hold == "") != (got.Hold == "") {
				t.Errorf("%d of %d to %d, hold %q", got.Budget, got.Least, got.Most, got.Hold)
			}
			if c.memory != (api.MemoryBounds{}) && *got.Memory != c.memory {
				t.Errorf("memory %+v, want %+v", *got.Memory, c.memory)
			}
			if !got.Until.Equal(now.Add(3 * cy.Config.CyclePeriod)) {
				t.Errorf("until %v", got.Until)
			}
		})
	}
}
