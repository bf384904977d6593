package main

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/experiments/sim"
)

// made is one trace's figures by hand: minutes in violation by scaler, of a thousand.
func made(trace, scaler string, seed uint64, cost float64, violating ...int) figure {
	return figure{Set: "development", Size: 1, Trace: trace, Scaler: scaler, Seed: seed, Cost: cost, Minutes: 1000, Violated: len(violating), Violating: [][]int{violating}}
}

func TestJudge(t *testing.T) {
	// On one, the cheapest rival that violates no more costs 10; hpa:90 is cheaper but
	// violates more. Minute 7 is one that the clairvoyant violates too.
	one := results{
		made("one", "m", 1, 9, 7, 8), made("one", "c", 1, 8, 7), made("one", "hpa:80", 1, 10, 1, 2), made("one", "hpa:90", 1, 5, 1, 2, 3),
		made("two", "m", 1, 10), made("two", "c", 1, 10), made("two", "hpa:80", 1, 10), made("two", "hpa:90", 1, 8, 1),
	}
	get := func(set string, r results, name string) mark {
		t.Helper()
		for _, m := range judge(r, 1, set, "m", "c", []string{"hpa:80", "hpa:90"}, 0.999) {
			if m.Mark == name {
				return m
			}
		}
		t.Fatalf("no mark %q", name)
		return mark{}
	}
	for name, test := range map[string]struct {
		set     string
		results results
		mark    string
		figure  float64
		met     bool
	}{
		"one minute apart from the clairvoyant's is kept": {"development", one, "objective kept on every trace", 0.001, true},
		"two are not": {"development", append(results{made("three", "m", 1, 9, 4, 5), made("three", "c", 1, 9)}, one...), "objective kept on every trace", 0.002, false},
		"the geometric mean of 0.9 and 1 is just met": {"development", one, "cost beside the cheapest rival at no more violations", math.Sqrt(0.9), true},
		"and not of fleets":                           {fleets, one, "cost beside the cheapest rival at no more violations", math.Sqrt(0.9), false},
		"the worst trace":                             {"development", one, "cost beside the cheapest rival at no more violations, worst trace", 1, true},
		"one trace is dearer": {"development", append(results{made("three", "m", 1, 1.04), made("three", "hpa:80", 1, 1)}, one...),
			"cost beside the cheapest rival at no more violations, worst trace", 1.04, false},
		"beside the clairvoyant":                 {"development", one, "cost beside the clairvoyant", math.Sqrt(9.0 / 8), true},
		"nobody dominates":                       {"development", one, "rivals that weakly dominate it", 0, true},
		"equal violations and cheaper dominates": {"development", append(results{made("three", "m", 1, 10), made("three", "hpa:90", 1, 9)}, one...), "rivals that weakly dominate it", 1, false},
	} {
		m := get(test.set, test.results, test.mark)
		if m.Figure == nil || math.Abs(*m.Figure-test.figure) > 1e-9 || m.Met != test.met {
			t.Errorf("%s: %+v, figure %v; want %g, %v", name, m, m.Figure, test.figure, test.met)
		}
	}
	// Nothing was run that could be judged: not met, and no figure.
	for _, m := range judge(results{made("one", "hpa:80", 1, 1)}, 1, "development", "m", "c", []string{"hpa:80"}, 0.999) {
		if m.Met || m.Figure != nil {
			t.Errorf("%s is met by nothing", m.Mark)
		}
	}
}

// Scalings are compared with those of the HPA that costs the most nearly as much.
func TestScalings(t *testing.T) {
	scaled := func(f figure, n int) figure {
		f.Scalings = n
		return f
	}
	r := results{
		scaled(made("one", "m", 1, 10), 30), scaled(made("one", "m", 2, 10), 50), scaled(made("one", "hpa:80", 1, 11), 60), scaled(made("one", "hpa:50 @n2", 1, 20), 5),
		scaled(made("one", "karpenter:80", 1, 10), 1),
		scaled(made("two", "m", 1, 10), 80), scaled(made("two", "hpa:80", 1, 30), 5), scaled(made("two", "hpa:50 @n2", 1, 8), 90),
	}
	for _, m := range judge(r, 1, "development", "m", "c", nil, 0.999) {
		if m.Mark == "scalings beside the HPA of the nearest cost" {
			if want := 120.0 / 150; m.Figure == nil || math.Abs(*m.Figure-want) > 1e-9 || !m.Met {
				t.Errorf("%+v, want %v", m, want)
			}
			return
		}
	}
	t.Error("no such mark")
}

// A difference within the seeds' noise is none.
func TestDominatesBeyondNoise(t *testing.T) {
	r := results{}
	for seed, cost := range []float64{9, 11, 10, 10.5} {
		r = append(r, made("t", "noisy", uint64(seed), cost), made("t", "m", uint64(seed), 10), made("t", "steady", uint64(seed), 9.9+0.001*float64(seed)),
			made("t", "worse", uint64(seed), 9, 1, 2, 3))
	}
	for scaler, want := range map[string]bool{"noisy": false, "steady": true, "worse": false, "m": false, "absent": false} {
		if got := r.dominates("t", scaler, "m"); got != want {
			t.Errorf("%s dominates: %v", scaler, got)
		}
	}
	if !r.dominates("t", "m", "worse") && r.dominates("t", "worse", "m") {
		t.Error("who violates more dominates")
	}
}

func TestAtEqualMoney(t *testing.T) {
	r := results{made("t", "m", 1, 10, 1), made("t", "a", 1, 10, 1, 2), made("t", "b", 1, 9, 1, 2, 3), made("t", "c", 1, 11)}
	if best, share := r.atEqualMoney("t", "m", []string{"a", "b", "c"}); best != "a" || share != 0.002 {
		t.Errorf("%s, %g", best, share)
	}
	if best, relative := r.atEqualViolations("t", "m", []string{"a", "b", "c"}); best != "c" || math.Abs(relative-10.0/11) > 1e-9 {
		t.Errorf("%s, %g", best, relative)
	}
}

func TestChoose(t *testing.T) {
	at := func(target int) config { return config{Kind: "hpa", Target: target} }
	tried := []config{at(60), at(80), at(90)}
	keeps := results{
		made("one", "hpa:60", 1, 12), made("one", "hpa:80", 1, 10, 1), made("one", "hpa:90", 1, 8, 1, 2),
		made("two", "hpa:60", 1, 12), made("two", "hpa:80", 1, 10, 1), made("two", "hpa:90", 1, 8, 1),
	}
	if got, ok := choose(keeps, tried, 0.999); !ok || !cmp.Equal(got, at(80)) {
		t.Errorf("the cheapest that keeps it: %v", got)
	}
	none := results{made("one", "hpa:80", 1, 10, 1, 2, 3), made("one", "hpa:90", 1, 8, 1, 2, 3, 4)}
	if got, ok := choose(none, tried, 0.999); !ok || !cmp.Equal(got, at(80)) {
		t.Errorf("none keeps it, the one that violates least: %v", got)
	}
	// Who was not run on every trace is not compared with those that were.
	partly := append(results{made("three", "hpa:60", 1, 1)}, keeps...)
	if got, ok := choose(partly, tried, 0.999); !ok || !cmp.Equal(got, at(60)) {
		t.Errorf("run on all: %v", got)
	}
	if _, ok := choose(nil, tried, 0.999); ok {
		t.Error("of nothing")
	}
}

// TestNear: whatever was chosen, a lower and a higher target are tried beside it, and every other setting, so that the
// edge of a sweep is no limit.
func TestNear(t *testing.T) {
	for _, c := range []config{
		{Kind: sim.Karpenter, Target: targets[0], Consolidate: 300, Pool: "fast"},
		{Kind: sim.HPA, Target: 140, Unneeded: 180, Pool: "fast"},
		{Kind: sim.HPA, Target: 5},
	} {
		got := near(c)
		lower, higher, others := false, false, 0
		for _, n := range got {
			if n.Kind != c.Kind || n.Pool != c.Pool || n.Target < 1 {
				t.Errorf("near %s: %s", c, n)
			}
			alike := n
			alike.Target = c.Target
			switch {
			case n.Target == c.Target && n != c:
				others++
			case alike == c:
				lower, higher = lower || n.Target < c.Target, higher || n.Target > c.Target
			}
		}
		if lower != (c.Target > 10) || !higher || others != len(windows(config{Kind: c.Kind}))-1 {
			t.Errorf("near %s: %v", c, got)
		}
	}
}
