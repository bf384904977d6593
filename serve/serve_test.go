package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mash2-io/mash2/api"
)

var (
	now = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	web = api.Key{Namespace: "shop", Name: "web"}
)

func of(v float64) *float64 { return &v }

func cycle(at time.Time, change func(*api.Cycle)) api.Cycle {
	c := api.Cycle{
		ID: 7, Time: at, Policy: api.Policy{Name: api.CostSaving, Source: api.SourceManual},
		Workloads: []api.WorkloadStatus{{Key: web, Generation: 3, Replicas: 4, ReadyReplicas: 3, Demand: 600}},
		Pools:     []api.PoolStatus{{Name: "cheap", MachineType: "e2-medium", TargetNodes: 2, ReadyNodes: 1, HourlyCost: 0.067}},
		Plan: api.Plan{
			Workloads: []api.WorkloadPlan{{Key: web, Current: 4, Scale: api.Scale{Replicas: 5}, Pools: []api.PoolShare{{Pool: "cheap", Replicas: 5}}, Floor: 4, NodeReplicas: 6, PeakDemand: 900, Binding: "forecast", Reason: "because",
				Forecast: &api.Forecast{Model: "seasonal", Start: at.Add(15 * time.Second), Step: 15 * time.Second, Mean: []float64{500, 700}, Skill: 0.8},
				Skill:    &api.ForecastSkill{Model: "seasonal", LastValue: of(0.8), Seasonal: of(-0.25), Trust: api.TrustUp}}},
			Nodes: api.NodePlan{Solver: "columns", HourlyCost: 0.1, LowerBound: 0.07, Gap: 0.02, Pool: "cheap", Pools: []api.PoolPlan{{Pool: "cheap", Nodes: 3, HourlyCost: 0.1}}},
		},
		Steps:    []api.StepTime{{Step: "plan", Duration: time.Millisecond}},
		Outcomes: []api.Outcome{{Agent: api.HorizontalScalingAgent, Kind: "ScaleWorkload"}, {Agent: api.NodeScalingAgent, Kind: "ResizePool", Error: "quota"}},
	}
	if change != nil {
		change(&c)
	}
	return c
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	m.Report(t.Context(), cycle(now, nil))
	// The forecast of 700 was made for 30 s later.
	m.Report(t.Context(), cycle(now.Add(30*time.Second), nil))
	m.Report(t.Context(), cycle(now.Add(45*time.Second), func(c *api.Cycle) { c.Error = "blind"; c.Plan = api.Plan{} }))
	want := `
# HELP mash2_actions_total Actions by agent, kind and result: ok, error or skipped.
# TYPE mash2_actions_total counter
mash2_actions_total{agent="HSA",kind="ScaleWorkload",result="ok"} 3
mash2_actions_total{agent="NSA",kind="ResizePool",result="error"} 3
# HELP mash2_cycles_total Cycles by result: ok, or held when it ended early and changed nothing.
# TYPE mash2_cycles_total counter
mash2_cycles_total{result="held"} 1
mash2_cycles_total{result="ok"} 2
# HELP mash2_packing_gap_ratio By how much the packing of all pods from scratch is at most dearer than the cheapest there is, over its cost.
# TYPE mash2_packing_gap_ratio gauge
mash2_packing_gap_ratio{solver="columns"} 0.02
# HELP mash2_plan_cost_usd_per_hour Price of the planned nodes, and the bound that no packing is cheaper than.
# TYPE mash2_plan_cost_usd_per_hour gauge
mash2_plan_cost_usd_per_hour{state="bound"} 0.07
mash2_plan_cost_usd_per_hour{state="planned"} 0.1
# HELP mash2_pool_cost_usd_per_hour Price of a pool's nodes: of its target size, and as planned.
# TYPE mash2_pool_cost_usd_per_hour gauge
mash2_pool_cost_usd_per_hour{machine_type="e2-medium",pool="cheap",state="planned"} 0.1
mash2_pool_cost_usd_per_hour{machine_type="e2-medium",pool="cheap",state="target"} 0.067
# HELP mash2_workload_forecast_cores What was forecast for now one horizon ago (mean), reference cores.
# TYPE mash2_workload_forecast_cores gauge
mash2_workload_forecast_cores{namespace="shop",workload="web"} 0.7
# HELP mash2_workload_forecast_licensed Deprecated: mash2_workload_forecast_trusted under its old name.
# TYPE mash2_workload_forecast_licensed gauge
mash2_workload_forecast_licensed{licence="full",namespace="shop",workload="web"} 0
mash2_workload_forecast_licensed{licence="up",namespace="shop",workload="web"} 1
# HELP mash2_workload_forecast_trusted 1 while the forecast may raise replicas (up), and while it may lower them as well (full).
# TYPE mash2_workload_forecast_trusted gauge
mash2_workload_forecast_trusted{namespace="shop",trust="full",workload="web"} 0
mash2_workload_forecast_trusted{namespace="shop",trust="up",workload="web"} 1
# HELP mash2_workload_forecast_seasonal_skill_ratio Skill of the forecast against the value of a season before: 1 - error / its error. Also of a forecast that is not used.
# TYPE mash2_workload_forecast_seasonal_skill_ratio gauge
mash2_workload_forecast_seasonal_skill_ratio{model="seasonal",namespace="shop",workload="web"} -0.25
# HELP mash2_workload_forecast_skill_ratio Skill of the forecast against the last value: 1 - loss / its loss. Below 0 the last value is better. Also of a forecast that is not used.
# TYPE mash2_workload_forecast_skill_ratio gauge
mash2_workload_forecast_skill_ratio{model="seasonal",namespace="shop",workload="web"} 0.8
# HELP mash2_workload_replicas Replicas: current, ready, planned, the reactive floor, and those nodes are kept for.
# TYPE mash2_workload_replicas gauge
mash2_workload_replicas{namespace="shop",state="current",workload="web"} 4
mash2_workload_replicas{namespace="shop",state="floor",workload="web"} 4
mash2_workload_replicas{namespace="shop",state="nodes",workload="web"} 6
mash2_workload_replicas{namespace="shop",state="planned",workload="web"} 5
mash2_workload_replicas{namespace="shop",state="ready",workload="web"} 3
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "mash2_actions_total", "mash2_cycles_total",
		"mash2_packing_gap_ratio", "mash2_plan_cost_usd_per_hour", "mash2_pool_cost_usd_per_hour", "mash2_workload_forecast_cores", "mash2_workload_forecast_licensed", "mash2_workload_forecast_trusted",
		"mash2_workload_forecast_skill_ratio", "mash2_workload_forecast_seasonal_skill_ratio", "mash2_workload_replicas"); err != nil {
		t.Error(err)
	}
	// A workload that is gone leaves no series behind, one that never had a
	// skill has none.
	m.Report(t.Context(), cycle(now.Add(time.Minute), func(c *api.Cycle) { c.Workloads, c.Plan.Workloads = nil, nil }))
	if n, err := testutil.GatherAndCount(registry, "mash2_workload_replicas", "mash2_workload_forecast_cores"); err != nil || n != 0 {
		t.Errorf("%d series of a workload that is gone (%v)", n, err)
	}
}

// Demand that is not known is told of workloads that are planned by it: not of one that is off or
// scaled to zero, of which nobody has samples.
func TestStaleDemandIsOfWhatIsPlanned(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	stale := func(name string, mode api.Mode, hold string) api.WorkloadStatus {
		return api.WorkloadStatus{Key: api.Key{Namespace: "shop", Name: name}, Mode: mode, HoldReason: hold, DemandStale: true, Demand: -1}
	}
	m.Report(t.Context(), api.Cycle{ID: 1, Time: time.Now(), Workloads: []api.WorkloadStatus{
		stale("web", api.ModeFull, ""), stale("off", api.ModeOff, ""), stale("asleep", api.ModeFull, "ScaledToZero"),
	}})
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, family := range all {
		for _, x := range family.GetMetric() {
			if family.GetName() == "mash2_workload_demand_stale" && x.GetGauge().GetValue() == 1 {
				told = append(told, x.GetLabel()[1].GetValue())
			}
		}
	}
	if len(told) != 1 || told[0] != "web" {
		t.Errorf("demand is stale of %v, want web alone", told)
	}
}
