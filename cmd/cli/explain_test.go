package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record"
)

func TestAccountText(t *testing.T) {
	web, at := api.WorkloadRef(api.Key{Namespace: "shop", Name: "web"}), time.Date(2026, 3, 9, 14, 0, 0, 0, time.UTC)
	account := record.Account{From: at, To: at.Add(10 * time.Minute), Cycles: 40, Policies: []string{"COST_SAVING"}, HourlyFrom: 1, HourlyTo: 1, Spent: 0.25}
	head := "Between 2026-03-09T14:00:00Z and 2026-03-09T14:10:00Z, in 40 cycles under COST_SAVING:\n"
	foot := "  nodes cost 1.000 USD/h at first and 1.000 at last, 0.250 USD in between"
	for name, c := range map[string]struct {
		change func(a *record.Account)
		want   string
	}{
		"nothing": {func(*record.Account) {}, "  no size changed; --workload or --node-pool says why\n"},
		"more": {func(a *record.Account) {
			a.Workloads = []record.Course{{Object: web, From: 8, To: 24, Least: 8, Most: 24, Steps: 7, DemandFrom: 520, DemandTo: 1204}}
		}, "  shop/web 8 → 24 replicas, in 7 steps, between 8 and 24; CPU usage 0.52 → 1.20 cores\n"},
		"there and back, asked for by name": {func(a *record.Account) {
			a.Workloads = []record.Course{{Object: web, From: 3, To: 3, Least: 2, Most: 32, Steps: 1, Why: "floor: usage is low"}}
		}, "  shop/web 3 replicas at both ends, in 1 step, between 2 and 32\n    at last floor: usage is low\n"},
		"one that stayed": {func(a *record.Account) {
			a.Unchanged = []record.Course{{Object: api.PoolRef("n2"), From: 7, To: 7, Least: 7, Most: 7, Why: "7 nodes are there; all nodes are needed"}}
		}, "  pool n2 7 nodes all the time\n    at last 7 nodes are there; all nodes are needed\n"},
	} {
		a := account
		c.change(&a)
		if got, want := accountText(a), head+c.want+foot; got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	account.Lost = []string{"a.mash2rec: 5 bytes after cycle 7 are lost"}
	if got := accountText(account); !strings.HasSuffix(got, foot+"\nLost: a.mash2rec: 5 bytes after cycle 7 are lost") {
		t.Errorf("what is lost:\n%s", got)
	}
}

// One unit for demand, and what the forecast's figures are of.
func TestWorkloadText(t *testing.T) {
	plan := api.WorkloadPlan{
		Key: api.Key{Namespace: "shop", Name: "web"}, Scale: api.Scale{Replicas: 15}, Current: 14, Binding: api.BindingForecast, Reason: "forecast peak 1.26 cores",
		Demand: 953, PeakDemand: 1598, Request: 200, Need: 15.75, Floor: 14, FloorSource: "metrics.k8s.io", NodeReplicas: 17,
	}
	f := &api.Forecast{Levels: []float64{0.5, 0.9}, PeakQuantiles: []float64{1568, 1596}}
	text := explanationText(record.Explanation{Decided: &plan, Forecast: f, Trust: &api.ForecastSkill{Model: "seasonal"}})
	for _, want := range []string{
		"Demand: 0.95 cores now, up to 1.60 in the whole forecast; 200 millicores a replica; needs 15.75 replicas before rounding, at least 14 for what is used now (metrics.k8s.io)\n",
		"  the largest demand in the whole forecast, cores: 1.57 at q=0.5, 1.60 at q=0.9\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nlacks %s", text, want)
		}
	}
	if text := explanationText(record.Explanation{Decided: &plan}); strings.Contains(text, "whole forecast") {
		t.Errorf("nothing is forecast:\n%s", text)
	}
}

// Notes are told after warnings; a pool's plan says what a move waits for by one. What is lost
// comes last.
func TestExplanationHasNotes(t *testing.T) {
	text := explanationText(record.Explanation{Lost: []string{"a.mash2rec: it can't be read"}, Pool: &api.PoolPlan{Pool: "old", Current: 6}, Findings: []api.Finding{
		{Severity: api.Normal, Reason: "MigrationWaitsForNodes", Object: api.PoolRef("new"), Message: "not yet"},
		{Severity: api.Warning, Reason: "PoolAtMaximum", Object: api.PoolRef("new"), Message: "no more"},
	}})
	if !strings.HasSuffix(text, "Warning: PoolAtMaximum pool new: no more\nNote: MigrationWaitsForNodes pool new: not yet\nLost: a.mash2rec: it can't be read") {
		t.Error(text)
	}
}

func TestOutside(t *testing.T) {
	asked := time.Date(2026, 3, 9, 14, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		asked, found time.Time
		want         string
	}{
		"the last one":     {found: asked},
		"in force":         {asked: asked, found: asked.Add(-14 * time.Second)},
		"before the first": {asked, asked.Add(time.Second), "No cycle is recorded by 2026-03-09T14:00:00Z. This is the first one.\n"},
		"after the last":   {asked, asked.Add(-time.Hour), "No cycle is recorded in the 1h0m0s before 2026-03-09T14:00:00Z. This is the last one before.\n"},
	} {
		if got := outside(c.asked, c.found); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAgentsText(t *testing.T) {
	var b strings.Builder
	agentsText(&b, &api.AgentsPlan{
		Budget: 900, Least: 50, Most: 700, Hold: "spec.vertical.run is false",
		Agents: api.Agents{Memory: &api.MemoryBounds{Budget: 1 << 30, Least: 64 << 20, Most: 512 << 20}, State: &api.AgentsState{
			Mind: "threshold", Trial: "both act in turn", Waits: "spec.vertical.run is false", Error: "forbidden", Refused: []string{"c: no limit"},
			Pods: []api.AgentState{{Pod: "a", Limit: 100, Next: 125, Usage: new(80.2), Binding: "proposal", Memory: &api.AgentMemory{Limit: 100 << 20, Next: 120 << 20, Used: new(96.6 * (1 << 20)), Binding: "budget"}},
				{Pod: "b", Limit: 50, Next: 50, Binding: "floor", Memory: &api.AgentMemory{Stays: "it has no limit"}},
			},
		}},
	})
	want := `Agents share 900m of CPU between running pods, 50m to 700m each, and 1Gi of memory, 64Mi to 512Mi each; they change nothing: spec.vertical.run is false
  forbidden
  trial of the model: both act in turn
  a: limit 100m → 125m by threshold (proposal), uses 80m
    memory: limit 100Mi → 120Mi (budget), uses 96Mi
  b: limit 50m → 50m by threshold (floor), usage not known
    its memory stays: it has no limit
  takes no part: c: no limit
`
	if b.String() != want {
		t.Errorf("%s\nwant %s", b.String(), want)
	}
}

// TestMachinesText: what is on a pool's machines is told, and what is not known of it.
func TestMachinesText(t *testing.T) {
	used := 41.4
	for want, m := range map[string]record.Machines{
		"machines: n2-standard-2, 0.097 USD/h each; DaemonSets and static pods request 223m of one and use 41m": {
			Type: "n2-standard-2", Price: 0.097, Standing: 223, StandingUsage: &used,
		},
		"machines: e2-medium, 0.013 USD/h each, spot, taken away 0.02 times an hour; DaemonSets and static pods request 223m of one; what they use is not known": {
			Type: "e2-medium", Price: 0.0134, Spot: true, Interruptions: 0.02, Standing: 223,
		},
	} {
		if got := machinesText(m); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
