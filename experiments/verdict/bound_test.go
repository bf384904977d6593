package main

import (
	"os"
	"testing"

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
