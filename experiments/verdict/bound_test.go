package main

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/sim"
)

// The bound is no more than what the clairvoyant pays on any development trace, nor
// less than the oracle's of fractional machines by more than what the seconds' noise
// takes off.
func TestBoundIsBelowTheClairvoyant(t *testing.T) {
	if _, err := os.Stat(scenarios.DataFolder()); err != nil {
		t.Skipf("no traces: %v", err)
	}
	all, err := loads("../traces", "development", []float64{1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 8 {
		t.Fatalf("%d development traces", len(all))
	}
	for _, l := range all {
		l.scenario.Warmup.Passes = 0 // the clairvoyant needs no history
		bound, err := l.lowest(1)
		if err != nil {
			t.Fatal(err)
		}
		f, err := job{load: l, config: clairvoyant, seed: 1}.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		oracles, err := sim.Oracle(l.scenario, sim.DefaultParams(), l.scenario.Warmup.Passes+1, 1)
		if err != nil {
			t.Fatal(err)
		}
		oracle := oracles[len(oracles)-1]
		t.Logf("%s: bound %.4f, oracle %.4f, clairvoyant %.4f", l.name, bound, oracle, f.Cost)
		if bound > f.Cost || bound < 0.98*oracle {
			t.Errorf("%s: the bound is %g, the oracle's %g, the clairvoyant pays %g", l.name, bound, oracle, f.Cost)
		}
	}
}

// By hand: e2-highcpu-4 machines of four cores at $0.09894 per hour, n2-standard-2 of two
// at $0.0971, and arrivals that take 20 ms of a core each.
func TestLowestByHand(t *testing.T) {
	const four, two, served = 0.09894, 0.0971, 0.98
	scenario := func(lines string, pools ...string) scenarios.Scenario {
		text := "name: steady\nrepeat: 1\nthinkTime: {distribution: constant, mean: 1s}\nstages: [\"30m:1\"]\n" +
			"request: {cpu: {distribution: constant, mean: 20ms}, timeout: 2s}\nslo: {p95Ms: 400, failedRatio: 0.02}\n" + lines + "\npools:\n"
		for _, pool := range pools {
			text += "  - {name: " + pool + ", machineType: " + pool + ", zones: [a], nodes: 1, nodesPerZone: {min: 0, max: 30}}\n"
		}
		s, err := scenarios.Parse("steady.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	small := "workload: {cpu: {request: 100m}, memory: {request: 64Mi}, replicas: {min: 1, max: 40}, targetUtilization: 0.8}\n"
	many := strings.NewReplacer("100m", "1500m", "min: 1", "min: 5").Replace(small)
	paid := sim.DefaultParams().LeastPaid(scenario(small, "e2-highcpu-4")).Hours()
	steady := func(rps int) []scenarios.Stage { return []scenarios.Stage{{Duration: 30 * time.Minute, Target: rps}} }
	passes := func(before, measured int) scenarios.Scenario {
		s := scenario(small, "e2-highcpu-4")
		s.Warmup.Passes, s.Repeat = before, measured
		return s
	}
	for sentence, test := range map[string]struct {
		scenario scenarios.Scenario
		stages   []scenarios.Stage
		want     float64
	}{
		// 95 of 100 that are served are not late: 4.47 cores.
		"whole machines": {scenario(small, "e2-highcpu-4"), steady(240), 2 * four / 2},
		"of two types":   {scenario(small, "e2-highcpu-4", "n2-standard-2"), steady(240), (four + two) / 2},
		// 3.92 cores are a machine, of which 3.72 must be in time.
		"a machine":               {scenario(small, "e2-highcpu-4"), steady(200), four / 2},
		"no less than fractions":  {scenario(small, "e2-highcpu-4"), steady(210), four * 210 * 0.02 * served / 4 / 2},
		"of the cheaper type":     {scenario(small, "n2-standard-2", "e2-highcpu-4"), steady(210), four * 210 * 0.02 * served / 4 / 2},
		"those of the least pods": {scenario(many, "e2-highcpu-4"), steady(10), 3 * four / 2},
		"of every copy":           {scenario("copies: 3\n"+many, "e2-highcpu-4"), steady(10), 8 * four / 2},
		"and what is asked of it": {scenario("copies: 3\n"+small, "e2-highcpu-4"), steady(80), 2 * four / 2},
		"copies are not busy at once": {scenario("copies: 2\n"+small, "e2-highcpu-4"), []scenarios.Stage{
			{Duration: 15*time.Minute - time.Second, Target: 190}, {Duration: time.Second, Target: 0}, {Duration: 15*time.Minute - time.Second, Target: 0}, {Duration: time.Second, Target: 190},
		}, four / 2},
		// 4.47 cores at first, then 1.86, then 4.47 again: 2.87 served on average.
		"the least of a minute": {scenario(small, "e2-highcpu-4"), slices.Repeat([]scenarios.Stage{
			{Duration: 10 * time.Second, Target: 240}, {Duration: time.Second, Target: 100}, {Duration: 39 * time.Second, Target: 100}, {Duration: time.Second, Target: 240}, {Duration: 9 * time.Second, Target: 240},
		}, 30), four / 2},
		"one that comes": {scenario(small, "e2-highcpu-4"), []scenarios.Stage{
			{Duration: 9 * time.Minute, Target: 200}, {Duration: time.Minute, Target: 200}, {Duration: time.Second, Target: 400}, {Duration: 20*time.Minute - time.Second, Target: 400},
		}, four*30/60 + four*(20.0/60+paid)},
		"two passes":          {passes(0, 2), steady(240), 2 * four},
		"after passes before": {passes(2, 1), steady(240), 2 * four / 2},
	} {
		s := test.scenario
		s.StartVUs, s.Stages, s.Arrivals = nil, nil, scenarios.ArrivalsOf(float64(test.stages[0].Target), test.stages)
		got, err := load{scenario: s}.lowest(1)
		if err != nil {
			t.Fatal(err)
		}
		if !(math.Abs(got/test.want-1) <= 0.003) {
			t.Errorf("%s: $%.6f, want $%.6f", sentence, got, test.want)
		}
	}
	if _, err := (load{scenario: scenario(small, "e2-highcpu-4")}).lowest(1); err == nil || !strings.Contains(err.Error(), "arrivals only") {
		t.Errorf("users that wait: %v", err)
	}
}

// Eight workloads of a fleet have the demand of eight, and its bound is at least that
// of the largest alone.
func TestFleet(t *testing.T) {
	if _, err := os.Stat(scenarios.DataFolder()); err != nil {
		t.Skipf("no traces: %v", err)
	}
	days, err := loads("../traces", "development", []float64{1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var costs []float64
	for _, n := range []int{1, 8} {
		s, err := fleet("fleet", n, 2, 1, days)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Deployments()) != n || len(s.UserTypes()) != n || s.Warmup.Passes != 2 {
			t.Errorf("%d workloads, %d users, %d passes before", len(s.Deployments()), len(s.UserTypes()), s.Warmup.Passes)
		}
		cost, err := load{scenario: s}.lowest(1)
		if err != nil {
			t.Fatal(err)
		}
		costs = append(costs, cost)
	}
	if costs[1] < 2*costs[0] {
		t.Errorf("one workload at least %g, eight %g", costs[0], costs[1])
	}
}
