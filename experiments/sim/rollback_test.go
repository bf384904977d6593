package sim

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/planning"
)

// TestFalseRollbacks: over a month of recorded days, with nobody's errors but the
// scaler's own, the plan is hardly ever taken back, although the objective is known to be
// kept for nearly all of the time.
func TestFalseRollbacks(t *testing.T) {
	if testing.Short() {
		t.Skip("a month is long")
	}
	files, err := filepath.Glob("../traces/development/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	scale := 1.0
	if text := os.Getenv("MASH2_ROLLBACK_SCALE"); text != "" {
		if scale, err = strconv.ParseFloat(text, 64); err != nil {
			t.Fatal(err)
		}
	}
	const passes = 4
	var days float64
	rollbacks, cycles, verdicts := 0, 0, map[api.SLOVerdict]int{}
	for _, file := range files {
		s, err := scenarios.LoadWith(file, scenarios.Changes{Warmup: -1, Scale: scale})
		if err != nil {
			t.Fatal(err)
		}
		result, err := Run(t.Context(), Options{
			Scenario: s, Scaler: Mash2, Seed: 1, Fidelity: Fluid, WarmupPasses: 0, Passes: passes, SLO: SLO{Objective: 0.999},
			Report: func(c api.Cycle) {
				for _, w := range c.Plan.Workloads {
					cycles++
					verdicts[w.SLOs[0].Verdict]++
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		days += passes * s.PassDuration().Hours() / 24
		rollbacks += len(result.Rollbacks)
		for _, r := range result.Rollbacks {
			t.Logf("%s, %v: %s", s.Name, result.ScenarioTime(r.At).Round(time.Second), r.Reason)
		}
	}
	t.Logf("%d rollbacks in %.0f days; of %d verdicts %.1f %% were Good, %.2f %% Burning", rollbacks, days, cycles,
		100*float64(verdicts[api.SLOGood])/float64(cycles), 100*float64(verdicts[api.SLOBurning])/float64(cycles))
	if float64(rollbacks) > days/30 {
		t.Errorf("%d rollbacks in %.0f days", rollbacks, days)
	}
	if verdicts[api.SLOGood] < cycles*9/10 {
		t.Errorf("of %d verdicts %d were Good", cycles, verdicts[api.SLOGood])
	}
}

// TestRollback: errors that begin after the scaler gave something up take the plan back
// within a minute; the same errors while nothing was given up don't.
func TestRollback(t *testing.T) {
	s, err := scenarios.Load("../traces/development/crane-4.yaml")
	if err != nil {
		t.Fatal(err)
	}
	plain := Options{Scenario: s, Scaler: Mash2, Seed: 1, Fidelity: Fluid, WarmupPasses: 1, Passes: 1, SLO: SLO{Objective: 0.999}}
	// When replicas were given up that had been there for long enough to prove themselves, and
	// were not wanted again before errors could be seen: that is no rollback.
	var given []time.Duration
	var before int32
	var since time.Time
	plain.Report = func(c api.Cycle) {
		if len(c.Plan.Workloads) == 0 {
			return
		}
		w := c.Plan.Workloads[0]
		at := c.Time.Sub(Epoch)
		if n := len(given); w.Replicas > before && n > 0 && at-given[n-1] < 3*time.Minute {
			given = given[:n-1]
		}
		if w.Replicas < before && c.Time.Sub(since) > planning.DefaultConfig().SLOProving {
			given = append(given, at)
		}
		if w.Replicas != before {
			before, since = w.Replicas, c.Time
		}
	}
	result, err := Run(t.Context(), plain)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Rollbacks) > 0 || len(given) < 10 {
		t.Fatalf("%d rollbacks, replicas given up %d times", len(result.Rollbacks), len(given))
	}
	for n, at := range []int{len(given) / 2, len(given) * 3 / 4, len(given) - 1} {
		begin := given[at] - result.Start + time.Minute
		with := plain
		with.Report = nil
		with.SLO.Errors = []Errors{{At: begin, For: 10 * time.Minute, Share: 0.05}}
		got, err := Run(t.Context(), with)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Rollbacks) != 1 {
			t.Errorf("%d: errors from %v on, a minute after replicas were given up: %d rollbacks", n, begin, len(got.Rollbacks))
			continue
		}
		r := got.Rollbacks[0]
		took := got.ScenarioTime(r.At) - begin
		t.Logf("errors from %v on: taken back after %v, %d workloads, to %v before", begin.Round(time.Second), took.Round(time.Second), r.Restored, r.At.Sub(r.To).Round(time.Second))
		if took > time.Minute {
			t.Errorf("errors from %v on: taken back after %v", begin, took)
		}
	}
}

// TestRollbackOfASwitch: errors that begin in the midst of a move to the other pool, or
// soon after it, turn it round: pods are back where they were, the new nodes go, and no
// request is lost to it.
func TestRollbackOfASwitch(t *testing.T) {
	s, err := scenarios.Load("../traces/development/crane-4.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.Warmup.Passes = 0
	const at = 6 * time.Hour
	stayed, err := Run(t.Context(), Options{Scenario: s, Scaler: Mash2, Seed: 1, Fidelity: Fluid, Passes: 1})
	if err != nil {
		t.Fatal(err)
	}
	failures := func(r Result) uint64 { return r.Workloads[0].Measured.Failed }
	for _, after := range []time.Duration{30 * time.Second, 2 * time.Minute, 4 * time.Minute} {
		t.Run(after.String(), func(t *testing.T) {
			var last api.Cycle
			moved, back := false, time.Time{}
			result, err := Run(t.Context(), Options{
				Scenario: s, Scaler: Mash2, Seed: 1, Fidelity: Fluid, Passes: 1, Switches: []scenarios.Switch{{
					At: scenarios.Duration{Duration: at}, Policy: api.Performance,
				}},
				Policies: "policies: {COST_SAVING: {nodePools: [" + s.Pools[0].Name + "], rollback: {hold: 12h}}, PERFORMANCE: {nodePools: [" + s.Pools[1].Name + "], rollback: {hold: 12h}}}",
				SLO:      SLO{Objective: 0.999, Errors: []Errors{{At: at + after, For: 5 * time.Minute, Share: 0.05}}},
				Report: func(c api.Cycle) {
					if c.Time.Sub(Epoch) > 8*time.Hour {
						return
					}
					last = c
					moved = moved || slices.Equal(c.Plan.PoolsInUse(), []string{s.Pools[1].Name})
					if c.Plan.Rollback != nil && back.IsZero() {
						back = c.Time
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if !moved || len(result.Rollbacks) != 1 {
				t.Fatalf("moved %v, %d rollbacks", moved, len(result.Rollbacks))
			}
			if took := result.ScenarioTime(back) - at - after; took > time.Minute {
				t.Errorf("taken back after %v", took)
			}
			if got := last.Plan.PoolsInUse(); !slices.Equal(got, []string{s.Pools[0].Name}) {
				t.Errorf("planned on %v", got)
			}
			for _, p := range last.Pools {
				if p.Name == s.Pools[1].Name && p.TargetNodes > s.Pools[1].NodesPerZone.Min {
					t.Errorf("pool %s has %d nodes", p.Name, p.TargetNodes)
				}
			}
			failed, before := failures(result), failures(stayed)
			t.Logf("%d requests failed, %d without the switch", failed, before)
			if failed > before+before/10 {
				t.Errorf("%d requests failed, %d without the switch", failed, before)
			}
		})
	}
}
