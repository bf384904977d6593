package main

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/mash2-io/mash2"
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

// restarted is a planner whose memory is at some times what a checkpoint holds of
// it, as a new leader reads it: without any forecaster's state.
type restarted struct {
	mash2.Planner
	t  *testing.T
	at []time.Time // increasing
}

func (p *restarted) Plan(s api.Snapshot, policy api.Policy, m planning.Memory) (api.Plan, planning.Memory) {
	for len(p.at) > 0 && !s.Time.Before(p.at[0]) {
		p.at = p.at[1:]
		checkpoint, err := json.Marshal(m)
		if err != nil {
			p.t.Fatal(err)
		}
		m = planning.Memory{}
		if err := json.Unmarshal(checkpoint, &m); err != nil {
			p.t.Fatal(err)
		}
	}
	return p.Planner.Plan(s, policy, m)
}

// outcome runs a scenario by the operator's own loop with a forecaster, nil for
// none, and restarts of the operator at some times. It tells at what times there
// were cycles, and in which of them a forecast was in use.
func outcome(t *testing.T, scenario string, passes int, f forecast.Forecaster, restarts ...time.Time) (run score.Run, times []time.Time, inUse []bool) {
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
		Planner: &restarted{t: t, at: restarts, Planner: planning.Hierarchy{
			Config: cfg, Nodes: packer, Forecaster: f,
			Planners: map[string]planning.WorkloadPlanner{planning.DefaultPlanner: horizontal.Planner{}},
		}},
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
// without a forecast has, at most a quarter more cost. So it is where the operator
// restarts, and forgets that it found them out: they are found out again as
// quickly, with the same bounds over the whole run. A restart as it turns leaves
// nothing to hold against it, and takes a minute more; each restart beyond one may
// cost a minute and a twentieth.
func TestForecastersThatTurnInTheLoop(t *testing.T) {
	const (
		scenario, passes = "heartbeat", 6
		within           = 12 // cycles of 15 s, three minutes
	)
	reactive, times, _ := outcome(t, scenario, passes, nil)
	at := len(times) * 2 / 3
	for when, tc := range map[string]struct {
		after  []int // cycles after it turned, of the restarts
		within int
	}{
		"no restart":                      {nil, within},
		"a restart as it turns":           {[]int{0}, within + 4},
		"a restart while it is found out": {[]int{2}, within},
		"a restart after it was":          {[]int{30}, within},
		"three restarts":                  {[]int{3, 20, 50}, within},
	} {
		restarts := timesAt(times[at:], tc.after)
		further := max(0, len(restarts)-1)
		for name, say := range lies {
			t.Run(when+" "+name, func(t *testing.T) {
				got, cycles, inUse := outcome(t, scenario, passes, forecast.Watched{Forecaster: wild{from: times[at], say: say}}, restarts...)
				if !cycles[at].Equal(times[at]) {
					t.Fatalf("cycle %d is at %v, without a forecast at %v", at, cycles[at], times[at])
				}
				if n := count(inUse[at-52 : at]); n < 40 {
					t.Fatalf("in use in %d of the 52 cycles before it turned: nothing to demote", n)
				}
				begins := append([]int{0}, tc.after...)
				for i, begin := range begins {
					end := min(len(inUse)-at, begin+60) // a quarter of an hour
					if i+1 < len(begins) {
						end = min(end, begins[i+1])
					}
					used := 0
					for c := begin; c < end; c++ {
						if inUse[at+c] {
							used = c - begin + 1
						}
					}
					t.Logf("in use until %d cycles after cycle %d", used, begin)
					if used > tc.within {
						t.Errorf("in use until %d cycles after cycle %d from the turn on, want %d", used, begin, tc.within)
					}
				}
				t.Logf("violated %d min, without %d; cost $%.4f, without $%.4f; in use in %d of %d cycles",
					got.SLOViolationMinutes, reactive.SLOViolationMinutes, got.CostUSD, reactive.CostUSD, count(inUse[at:]), len(inUse)-at)
				if got.SLOViolationMinutes > reactive.SLOViolationMinutes+further {
					t.Errorf("violated in %d minutes, without a forecast in %d", got.SLOViolationMinutes, reactive.SLOViolationMinutes)
				}
				if got.CostUSD > (1.25+0.05*float64(further))*reactive.CostUSD {
					t.Errorf("costs $%.4f, without a forecast $%.4f", got.CostUSD, reactive.CostUSD)
				}
			})
		}
	}
}

// TestRestartKeepsALicence: a forecaster that is right is in use again in the cycle
// after a restart, when all of the history is at hand at once.
func TestRestartKeepsALicence(t *testing.T) {
	const scenario, passes = "heartbeat", 5
	f := forecast.Watched{Forecaster: forecast.Auto{}}
	undisturbed, times, before := outcome(t, scenario, passes, f)
	at := len(times) * 3 / 5
	got, _, inUse := outcome(t, scenario, passes, f, times[at])
	t.Logf("in use in %d cycles after a restart, without in %d of %d; violated %d and %d min, cost $%.4f and $%.4f", count(inUse[at:]), count(before[at:]), len(inUse)-at,
		got.SLOViolationMinutes, undisturbed.SLOViolationMinutes, got.CostUSD, undisturbed.CostUSD)
	if !before[at] || !inUse[at] && !inUse[at+1] {
		t.Errorf("in use without a restart: %v, with: %v, %v", before[at], inUse[at], inUse[at+1])
	}
	if count(inUse[at:]) < count(before[at:])*9/10 || got.SLOViolationMinutes > undisturbed.SLOViolationMinutes {
		t.Error("a restart takes more than its own cycles")
	}
}

// timesAt picks times by their place.
func timesAt(times []time.Time, places []int) []time.Time {
	out := make([]time.Time, len(places))
	for i, n := range places {
		out[i] = times[n]
	}
	return out
}
