package main

import (
	"math"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/horizontal"
	"github.com/mash2-io/mash2/planning/node"
)

// wild says something else than Auto does from a share of the run on, and that
// its skill is 0.9.
type wild struct {
	forecast.Auto
	from time.Time
	say  func(path []float64)
}

func (w wild) Forecast(s forecast.State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	f, err := w.Auto.Forecast(s, series, horizon, levels)
	f.Skill = 0.9
	if err != nil || series.End().Before(w.from) {
		return f, err
	}
	w.say(f.Mean)
	w.say(f.PeakQuantiles)
	for _, q := range f.Quantiles {
		w.say(q)
	}
	return f, err
}

// outcome runs a scenario by the operator's own loop with a forecaster, nil for
// none, and tells at what times there were cycles, and in which of them a forecast
// was in use.
func outcome(t *testing.T, scenario string, passes int, f forecast.Forecaster) (run score.Run, times []time.Time, inUse []bool) {
	t.Helper()
	s, err := scenarios.Load(scenario)
	if err != nil {
		t.Fatal(err)
	}
	packer, err := node.New(node.Config{})
	if err != nil {
		t.Fatal(err)
	}
	params := sim.DefaultParams()
	cfg := planning.DefaultConfig()
	cfg.MetricDelay = params.Step/2 + params.RateWindow/2
	result, err := sim.Run(t.Context(), sim.Options{
		Scenario: s, Scaler: "mash2", Seed: 1, Fidelity: sim.Fluid, Passes: passes,
		Planner: planning.Hierarchy{
			Config: cfg, Nodes: packer, Forecaster: f,
			Planners: map[string]planning.WorkloadPlanner{planning.DefaultPlanner: horizontal.Planner{}},
		},
		Report: func(c api.Cycle) {
			used := false
			for _, w := range c.Plan.Workloads {
				used = used || w.Forecast != nil
				if w.Skill != nil && (w.Skill.Licence == api.LicenceNone) == (w.Forecast != nil) {
					t.Errorf("at %v the licence is %q, a forecast in use: %v", c.Time, w.Skill.Licence, used)
				}
			}
			times, inUse = append(times, c.Time), append(inUse, used)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	out := score.Outcome{Scaler: "mash2", Seed: 1, PassSeconds: s.PassDuration().Seconds(), Passes: passes, Workloads: result.Workloads, Pools: result.Pools}
	for i := range out.Workloads {
		out.Workloads[i].Steps = score.ShiftSteps(out.Workloads[i].Steps, result.Start)
	}
	for i := range out.Pools {
		out.Pools[i].Steps = score.ShiftPoolSteps(out.Pools[i].Steps, result.Start)
	}
	for _, l := range result.Ledger {
		n := score.Node{Pool: l.Pool, MachineType: l.MachineType, Requested: (l.Requested - result.Start).Seconds()}
		if l.Deleted >= 0 {
			deleted := (l.Deleted - result.Start).Seconds()
			n.Deleted = &deleted
		}
		out.Nodes = append(out.Nodes, n)
	}
	if run, err = out.Run(); err != nil {
		t.Fatal(err)
	}
	return run, times, inUse
}

func count(xs []bool) int {
	n := 0
	for _, x := range xs {
		if x {
			n++
		}
	}
	return n
}

var lies = map[string]func([]float64){
	"zero": func(xs []float64) { clear(xs) },
	"a million times": func(xs []float64) {
		for i := range xs {
			xs[i] = 1e6 * (xs[i] + 1)
		}
	},
	"shifted by minutes": func(xs []float64) {
		for i := len(xs) - 1; i >= 0; i-- {
			xs[i] = xs[max(0, i-8)] // what comes is said for two minutes later
		}
	},
	"not a number": func(xs []float64) {
		for i := range xs {
			xs[i] = math.NaN()
		}
	},
}

// TestWildForecastersInTheLoop: forecasters that say nothing true, and claim to
// be good, are demoted within a few cycles. They violate the SLO in no more
// minutes than planning without a forecast does, and cost at most a fifth more.
func TestWildForecastersInTheLoop(t *testing.T) {
	const passes = 3
	for _, scenario := range []string{"heartbeat", "noise"} {
		reactive, _, inUse := outcome(t, scenario, passes, nil)
		if count(inUse) != 0 {
			t.Fatalf("a forecast was in use without a forecaster")
		}
		for name, say := range lies {
			t.Run(scenario+" "+name, func(t *testing.T) {
				got, _, inUse := outcome(t, scenario, passes, forecast.Watched{Forecaster: wild{say: say}})
				used, cycles := count(inUse), len(inUse)
				t.Logf("violated %d min, without %d; cost $%.4f, without $%.4f; in use in %d of %d cycles",
					got.SLOViolationMinutes, reactive.SLOViolationMinutes, got.CostUSD, reactive.CostUSD, used, cycles)
				if got.SLOViolationMinutes > reactive.SLOViolationMinutes {
					t.Errorf("violated in %d minutes, without a forecast in %d", got.SLOViolationMinutes, reactive.SLOViolationMinutes)
				}
				if got.CostUSD > 1.2*reactive.CostUSD {
					t.Errorf("costs $%.4f, without a forecast $%.4f", got.CostUSD, reactive.CostUSD)
				}
				if name != "shifted by minutes" && used > cycles/5 {
					t.Errorf("in use in %d of %d cycles", used, cycles)
				}
			})
		}
	}
}

// TestForecastersThatTurnInTheLoop: forecasters that were right, and in use, and
// turn wrong in the middle of a run, are out of use within three minutes,
// and what they did meanwhile is bounded: no more violating minutes than planning
// without a forecast has, at most a quarter more cost.
func TestForecastersThatTurnInTheLoop(t *testing.T) {
	const (
		scenario, passes = "heartbeat", 6
		within           = 12 // cycles of 15 s, three minutes
	)
	reactive, times, _ := outcome(t, scenario, passes, nil)
	turn := times[len(times)*2/3]
	for name, say := range lies {
		t.Run(name, func(t *testing.T) {
			got, times, inUse := outcome(t, scenario, passes, forecast.Watched{Forecaster: wild{from: turn, say: say}})
			at := 0
			for times[at].Before(turn) {
				at++
			}
			if n := count(inUse[at-52 : at]); n < 40 {
				t.Fatalf("in use in %d of the 52 cycles before it turned: nothing to demote", n)
			}
			last := -1 // cycle of use before the first quarter of an hour out of use
			for i, out := at, 0; i < len(inUse) && out < 60; i++ {
				if out++; inUse[i] {
					last, out = i-at, 0
				}
			}
			t.Logf("violated %d min, without %d; cost $%.4f, without $%.4f; in use until %d cycles after, in %d of %d",
				got.SLOViolationMinutes, reactive.SLOViolationMinutes, got.CostUSD, reactive.CostUSD, last+1, count(inUse[at:]), len(inUse)-at)
			if last+1 > within {
				t.Errorf("in use until %d cycles after it turned, want %d", last+1, within)
			}
			if got.SLOViolationMinutes > reactive.SLOViolationMinutes {
				t.Errorf("violated in %d minutes, without a forecast in %d", got.SLOViolationMinutes, reactive.SLOViolationMinutes)
			}
			if got.CostUSD > 1.25*reactive.CostUSD {
				t.Errorf("costs $%.4f, without a forecast $%.4f", got.CostUSD, reactive.CostUSD)
			}
		})
	}
}
