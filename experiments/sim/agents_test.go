package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/planning/vertical"
)

// bursting is the chain with pods that may use what they request and no more, and a load that
// doubles within a minute.
func bursting(t *testing.T) scenarios.Scenario {
	s := open(t, 60)
	s.Arrivals = scenarios.ArrivalsOf(100, []scenarios.Stage{
		{Duration: 4 * time.Minute, Target: 100}, {Duration: time.Minute, Target: 200}, {Duration: 4 * time.Minute, Target: 200}, {Duration: time.Minute, Target: 100},
	})
	s.Pools = s.Pools[:1]
	s.Pools[0].Nodes, s.Pools[0].NodesPerZone = 40, scenarios.Bounds{Min: 40, Max: 40}
	for i := range s.Services {
		w := &s.Services[i].Workload
		w.CPU.Limit = w.CPU.Request
	}
	return s
}

// TestAgents: growing in place bridges the time that replicas need to start, with eyes on the
// nodes and with metrics-server's; the limits of a workload stay within their budget, their
// floor and their ceiling, and requests follow them.
func TestAgents(t *testing.T) {
	const budget, floor, ceiling = 2000, 100, 300
	p99 := map[string]float64{}
	for name, every := range map[string]time.Duration{"none": -1, "metrics-server": 0, "on the node": time.Second} {
		var c *Cluster
		resized := 0
		o := Options{Scenario: bursting(t), Scaler: Mash2, Seed: 4, WarmupPasses: 1, Passes: 1, prepare: func(of *Cluster) { c = of }}
		if every >= 0 {
			o.Agents = &Agents{Rule: vertical.DefaultProportional(), MilliCPU: budget, Floor: floor, Ceiling: ceiling, Every: every}
		}
		o.Report = func(api.Cycle) {
			for _, w := range c.workloads {
				var sum int64
				starting := false
				for _, p := range w.pods {
					limit := millicores(p.limit)
					sum += limit
					starting = starting || p.phase != running
					if p.limit != w.limit {
						resized++
					}
					if limit < floor || limit > ceiling || millicores(p.request) != limit {
						t.Errorf("%s: %s has a limit of %d and requests %d", name, p.name, limit, millicores(p.request))
					}
				}
				if sum > budget && !starting {
					t.Errorf("%s: %s has %d of %d", name, w.key, sum, budget)
				}
			}
		}
		r := simulate(t, o)
		p99[name] = *r.Workloads[0].Measured.P99Ms
		if (resized > 0) != (every >= 0) || (len(r.Resizes) > 0) != (every >= 0) {
			t.Errorf("%s: %d pods resized, %d writes", name, resized, len(r.Resizes))
		}
	}
	t.Logf("p99, ms: %v", p99)
	if a, b, c := p99["on the node"], p99["metrics-server"], p99["none"]; !(a < 0.8*b && b < 0.5*c) {
		t.Errorf("p99 is %.0f ms with agents on the nodes, %.0f with those of metrics-server, %.0f without", a, b, c)
	}
}

// TestAgentsWait: without a plan, with one that holds them and with one that has ended they write
// nothing.
func TestAgentsWait(t *testing.T) {
	plan := func(until time.Duration, hold string) func(now time.Time) *api.AgentsPlan {
		return func(now time.Time) *api.AgentsPlan {
			return &api.AgentsPlan{Budget: 5000, Least: 500, Most: 500, Until: now.Add(until), Hold: hold}
		}
	}
	for name, test := range map[string]struct {
		plan   func(now time.Time) *api.AgentsPlan
		writes bool
	}{
		"no plan": {func(time.Time) *api.AgentsPlan { return nil }, false},
		"held":    {plan(time.Minute, "for a test"), false},
		"ended":   {plan(0, ""), false},
		"allowed": {plan(time.Minute, ""), true},
	} {
		simulate(t, Options{Scenario: bursting(t), Scaler: Static, Seed: 4, Passes: 1, inspect: func(c *Cluster) {
			l := &fastLoop{Agents: &Agents{Rule: vertical.Fixed{}, Every: time.Second}, c: c, w: c.workloads[0], plan: test.plan(c.time()), before: map[string]point{}}
			before := len(c.resizes)
			l.tick()
			if got := len(c.resizes) > before; got != test.writes {
				t.Errorf("%s: resized: %v", name, got)
			}
		}})
	}
}

// TestMash2Agents: as a scaler by name, which needs a limit that can grow.
func TestMash2Agents(t *testing.T) {
	s := bursting(t)
	var c *Cluster
	largest := int64(0)
	r := simulate(t, Options{Scenario: s, Scaler: Mash2Agents + ":150", Seed: 4, Passes: 1, prepare: func(of *Cluster) { c = of }, Report: func(api.Cycle) {
		for _, p := range c.pods {
			largest = max(largest, millicores(p.limit))
		}
	}})
	if largest != 150 || len(r.Resizes) == 0 {
		t.Errorf("the largest limit is %d, %d resizes", largest, len(r.Resizes))
	}
	for i := range s.Services {
		s.Services[i].Workload.CPU.Limit = scenarios.Quantity{}
	}
	if _, err := Run(t.Context(), Options{Scenario: s, Scaler: Mash2Agents, Seed: 4, Passes: 1}); err == nil || !strings.Contains(err.Error(), "limit of CPU") {
		t.Errorf("without limits: %v", err)
	}
	if _, _, err := ParseScaler(Mash2Agents + ":80"); err == nil || !strings.Contains(err.Error(), "100 or more") {
		t.Errorf("less than the template has: %v", err)
	}
}
