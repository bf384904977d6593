package horizontal_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/horizontal"
	"github.com/mash2-io/mash2/planning/plannertest"
)

var now = time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)

func TestConformance(t *testing.T) { plannertest.Test(t, horizontal.Planner{}) }

// input is a workload of 4 × 250m at 70 % on machines of speed 1: a replica
// supplies 175 reference millicores.
func input(demand float64) planning.Input {
	return planning.Input{
		Time: now,
		Workload: api.Workload{
			Key: api.Key{Namespace: "web", Name: "shop"}, Mode: api.ModeFull, MinReplicas: 1, MaxReplicas: 50,
			Replicas: 4, ReadyReplicas: 4, SpeedNow: 1,
			Shape:  &api.PodShape{ID: "s", Requests: api.Resources{MilliCPU: 250, Pods: 1}},
			Demand: api.Series{Start: now.Add(-30 * time.Second), Step: 15 * time.Second, Values: []float64{demand, demand, demand}},
		},
		Policy:  api.Policy{Name: "P", Quantile: 0.9, TargetUtilization: 0.7},
		Metrics: api.SourceHealth{Reachable: true}, ResourceMetrics: api.SourceHealth{Reachable: true},
		Speed: 1,
		Windows: planning.Windows{
			Pod: 30 * time.Second, Node: 90 * time.Second, Trough: 45 * time.Second,
			NodeTrough: 3 * time.Minute, Horizon: 10 * time.Minute,
		},
	}
}

// forecast has one step per value, 15 s apart, from now on, with certainty.
func forecast(values ...float64) *api.Forecast {
	f := &api.Forecast{
		Model: "test", Start: now, Step: 15 * time.Second, Mean: values, Levels: []float64{0.5, 0.9},
		Quantiles: [][]float64{values, values}, PeakQuantiles: []float64{0, 0}, Skill: 0.8,
	}
	for _, v := range values {
		f.PeakQuantiles[0] = math.Max(f.PeakQuantiles[0], v)
	}
	f.PeakQuantiles[1] = f.PeakQuantiles[0]
	return f
}

func TestPlanWorkload(t *testing.T) {
	type change func(*planning.Input)
	for name, c := range map[string]struct {
		demand                  float64
		change                  change
		wantReplicas, wantNodes int32
		wantFloor               int32
		wantHeld                bool
		wantBinding             api.Binding
		wantInReason            string
	}{
		"the floor is the HPA's: usage over what a replica may use": {
			demand:       1000, // 1000/175 = 5.7
			wantReplicas: 6, wantNodes: 6, wantFloor: 6, wantBinding: "floor",
			wantInReason: "usage 1.00 cores now needs 6 × 250m at 70 % (prometheus)",
		},
		"within 10 % of what 4 replicas may use the HPA leaves them": {
			demand:       769, // 4.394, and 4 · 1.1 = 4.4
			wantReplicas: 4, wantNodes: 4, wantFloor: 4, wantBinding: "floor",
		},
		"beyond 10 % it doesn't": {
			demand: 771, wantReplicas: 5, wantNodes: 5, wantFloor: 5, wantBinding: "floor",
		},
		"a workload's own tolerance counts": {
			demand: 771, change: func(in *planning.Input) { in.Workload.Behavior.Tolerance = 0.2 },
			wantReplicas: 4, wantNodes: 4, wantFloor: 4, wantBinding: "floor",
		},
		"a workload's own target utilisation counts": {
			demand: 1000, change: func(in *planning.Input) { in.Workload.TargetUtilization = 0.5 },
			wantReplicas: 8, wantNodes: 8, wantFloor: 8, wantBinding: "floor", // 1000/125
		},
		"usage happens where pods are: on half-speed machines twice as many": {
			demand: 1000, change: func(in *planning.Input) { in.Workload.SpeedNow = 0.5 },
			wantReplicas: 12, wantNodes: 12, wantFloor: 12, wantBinding: "floor", // 1000/87.5 = 11.4
		},
		"the larger of two sources is the floor": {
			demand: 300, change: func(in *planning.Input) {
				in.Workload.Usage = &api.Usage{At: now, MilliCPU: 1600, Pods: 4}
			},
			wantReplicas: 10, wantNodes: 10, wantFloor: 10, wantBinding: "floor", wantInReason: "metrics.k8s.io",
		},
		"the forecast's peak within the pod startup latency is for now, within the node startup latency for nodes": {
			demand: 200, change: func(in *planning.Input) {
				in.Forecast = forecast(200, 300, 1240, 900, 1300, 1750, 1800, 5000)
			},
			// At 30 s: 1240/(175·1.1) = 6.4; until 90 s: 1800/(175·1.1) = 9.4.
			wantReplicas: 7, wantNodes: 10, wantFloor: 2, wantBinding: "forecast",
			wantInReason: "forecast peak 1.24 cores at 12:00:30, 1.24 cores at q=0.90, needs 7 × 250m: expected usage within 10 % of 70 %, the quantile at 100 %",
		},
		"a workload's own tolerance counts for the forecast too": {
			demand: 200, change: func(in *planning.Input) {
				in.Workload.Behavior.Tolerance = 0.01
				in.Forecast = forecast(200, 300, 1240, 900, 1300, 1750, 1800, 5000)
			},
			wantReplicas: 8, wantNodes: 11, wantFloor: 2, wantBinding: "forecast", // 7.02, 10.2
		},
		"the quantile must fit into requests where that asks for more than the target for what is expected": {
			demand: 200, change: func(in *planning.Input) {
				in.Forecast = forecast(700, 700, 700, 700, 700, 700, 700, 700)
				in.Forecast.Quantiles[1] = []float64{1100, 1100, 1100, 1100, 1600, 1100, 1100, 1100}
			},
			// 1100/250 = 4.4 and 1600/250 = 6.4, where 700/(175·1.1) = 3.6.
			wantReplicas: 5, wantNodes: 7, wantFloor: 2, wantBinding: "forecast",
		},
		"a quantile within what the target leaves free asks for nothing": {
			demand: 200, change: func(in *planning.Input) {
				in.Forecast = forecast(700, 700, 700, 700, 700, 700, 700, 700)
				in.Forecast.Quantiles[1] = []float64{990, 990, 990, 990, 990, 990, 990, 990}
			},
			wantReplicas: 4, wantNodes: 4, wantFloor: 2, wantBinding: "forecast",
		},
		"of what will have passed when nodes are there, as many as the quantile asks no more of": {
			demand: 200, change: func(in *planning.Input) {
				in.Forecast = forecast(1100, 1100, 1100, 1100, 1100, 1100, 990, 990, 990, 990)
				in.Forecast.Quantiles[1] = []float64{1200, 1200, 1200, 1340, 1340, 1200, 1100, 1100, 1100, 1100}
			},
			// 1100/(175·1.1) = 5.7, of which the floor would ask for 7 where 1200 is read;
			// 1200/(175·1.1) = 6.2, 1340/(175·1.1) = 6.96.
			wantReplicas: 7, wantNodes: 7, wantFloor: 2, wantBinding: "forecast",
		},
		"but no more than what is expected needs at the target": {
			demand: 200, change: func(in *planning.Input) {
				in.Forecast = forecast(1050, 1050, 1050, 1050, 1050, 1050, 900, 900, 900, 900)
				in.Forecast.Quantiles[1] = []float64{1400, 1400, 1400, 1400, 1400, 1400, 1400, 1400, 1400, 1400}
			},
			wantReplicas: 6, wantNodes: 6, wantFloor: 2, wantBinding: "forecast", // 1050/175, where 1400/(175·1.1) = 7.3
		},
		"for what lasts the floor has the time to ask": {
			demand: 200, change: func(in *planning.Input) {
				in.Forecast = forecast(1100, 1100, 1100, 1100, 1100, 1100, 1010, 1010, 1010, 1010)
				in.Forecast.Quantiles[1] = []float64{1200, 1200, 1200, 1340, 1340, 1200, 1100, 1100, 1100, 1100}
			},
			wantReplicas: 6, wantNodes: 6, wantFloor: 2, wantBinding: "forecast", // 1100 is no tenth more than 1010
		},
		"target utilisation 1 is the paper's eq. 3": {
			demand: 200, change: func(in *planning.Input) {
				in.Policy.TargetUtilization = 1
				in.Forecast = forecast(200, 1000, 1000, 1000, 1000, 1000, 1000, 1000)
			},
			wantReplicas: 4, wantNodes: 4, wantFloor: 1, wantBinding: "forecast", // 1000/250
		},
		"a forecast below present usage lowers nothing": {
			demand: 1000, change: func(in *planning.Input) { in.Forecast = forecast(100, 100, 100, 100, 100, 100, 100, 100) },
			wantReplicas: 6, wantNodes: 6, wantFloor: 6, wantBinding: "floor", wantInReason: "forecast (q=0.90) needs 1",
		},
		"until pods are on the faster pool, the slower one's speed counts for now": {
			demand: 100, change: func(in *planning.Input) {
				in.Workload.SpeedNow = 0.5
				in.Forecast = forecast(700, 700, 700, 700, 700, 700, 700, 700)
			},
			wantReplicas: 8, wantNodes: 8, wantFloor: 2, wantBinding: "forecast", wantInReason: "speed 0.50",
		},
		"a pool of half the speed needs twice the replicas": {
			demand: 100, change: func(in *planning.Input) {
				in.Speed = 0.5
				in.Forecast = forecast(700, 700, 700, 700, 700, 700, 700, 700)
			},
			wantReplicas: 8, wantNodes: 8, wantFloor: 1, wantBinding: "forecast",
		},
		"a forecast with a hole is not used": {
			demand: 1000, change: func(in *planning.Input) { in.Forecast = forecast(9000, math.NaN(), 9000) },
			wantReplicas: 6, wantNodes: 6, wantFloor: 6, wantBinding: "floor", wantInReason: "no usable quantiles",
		},
		"stale demand keeps replicas, and the forecast made of it is not used": {
			demand: 100, change: func(in *planning.Input) {
				in.Workload.DemandStale = true
				in.Workload.Usage = &api.Usage{At: now, MilliCPU: 100, Pods: 4}
				in.Forecast = forecast(9000, 9000, 9000)
			},
			wantReplicas: 4, wantNodes: 4, wantFloor: 1, wantBinding: "stale", wantInReason: "demand is stale",
		},
		"with Prometheus gone the second source still scales up": {
			demand: 100, change: func(in *planning.Input) {
				in.Metrics = api.SourceHealth{Error: "connection refused"}
				in.Workload.Usage = &api.Usage{At: now, MilliCPU: 1600, Pods: 2}
			},
			wantReplicas: 10, wantNodes: 10, wantFloor: 10, wantBinding: "floor", wantInReason: "metrics.k8s.io",
		},
		"with both gone it is held": {
			demand: 100, change: func(in *planning.Input) { in.Metrics = api.SourceHealth{Error: "connection refused"} },
			wantReplicas: 4, wantNodes: 4, wantHeld: true, wantBinding: "hold", wantInReason: "connection refused",
		},
		"without requests it is held": {
			demand: 100, change: func(in *planning.Input) { in.Workload.Shape = &api.PodShape{} },
			wantReplicas: 4, wantNodes: 4, wantHeld: true, wantBinding: "hold", wantInReason: "request no CPU",
		},
		"a hold of the sensors is a hold": {
			demand: 100, change: func(in *planning.Input) { in.Workload.Hold = "another autoscaler scales it" },
			wantReplicas: 4, wantNodes: 4, wantHeld: true, wantBinding: "hold", wantInReason: "another autoscaler",
		},
		"no sample is no demand of zero": {
			demand: math.NaN(), wantReplicas: 4, wantNodes: 4, wantHeld: true, wantBinding: "hold", wantInReason: "no samples",
		},
		"demand beyond all reason doesn't overflow": {
			demand: math.MaxFloat64, wantReplicas: math.MaxInt32 / 4, wantNodes: math.MaxInt32 / 4,
			wantFloor: math.MaxInt32 / 4, wantBinding: "floor",
		},
		"zero demand needs nothing; the Guard knows the minimum": {
			demand: 0, wantBinding: "floor",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(c.demand)
			if c.change != nil {
				c.change(&in)
			}
			got, err := horizontal.Planner{}.PlanWorkload(in)
			if err != nil {
				t.Fatal(err)
			}
			if got.Replicas != c.wantReplicas || got.NodeReplicas != c.wantNodes || got.Floor != c.wantFloor || got.Held != c.wantHeld {
				t.Errorf("replicas %d, for nodes %d, floor %d, held %v; want %d, %d, %d, %v", got.Replicas, got.NodeReplicas,
					got.Floor, got.Held, c.wantReplicas, c.wantNodes, c.wantFloor, c.wantHeld)
			}
			if unknown := c.wantHeld && strings.Contains(got.Reason, "no demand is known"); got.Unknown != unknown {
				t.Errorf("demand unknown: %v, want %v: %s", got.Unknown, unknown, got.Reason)
			}
			if got.Binding != c.wantBinding || !strings.Contains(got.Reason, c.wantInReason) {
				t.Errorf("binding %q, reason %q; want %q, …%q…", got.Binding, got.Reason, c.wantBinding, c.wantInReason)
			}
		})
	}
}

func TestPathStartsNowAndHasTheForecastsSteps(t *testing.T) {
	in := input(200)
	in.Forecast = forecast(999, 999, 170, 170, 200, 390, 170) // 6, 6, 1, 1, 2, 3, 1
	in.Forecast.Start = now.Add(-20 * time.Second)            // steps from −20 s, −5 s, 10 s, …
	got, err := horizontal.Planner{}.PlanWorkload(in)
	if err != nil {
		t.Fatal(err)
	}
	var path []string
	for _, s := range got.Path {
		path = append(path, fmt.Sprintf("%v=%d", s.At.Sub(now), s.Replicas))
	}
	if got, want := strings.Join(path, " "), "0s=6 10s=1 40s=2 55s=3 1m10s=1"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
}

func TestNodesForTheWholeHorizonAreSizedByItsPeak(t *testing.T) {
	in := input(200)
	in.Forecast = forecast(200, 300, 400)
	in.Forecast.PeakQuantiles = []float64{400, 900} // several steps may each be the highest
	in.Windows.Node = 10 * time.Minute
	got, err := horizontal.Planner{}.PlanWorkload(in)
	if err != nil {
		t.Fatal(err)
	}
	if got.NodeReplicas != 4 || got.PeakDemand != 900 { // 900/250 = 3.6
		t.Errorf("nodes for %d, peak %v; want 4 and 900", got.NodeReplicas, got.PeakDemand)
	}
}
