package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/experiments/score"
)

// of is a run with what marks look at.
func of(scaler string, seed uint64, usd, violating, p95 float64) score.Run {
	return score.Run{Scaler: scaler, Seed: seed, CostUSD: usd, PodCostUSD: usd / 2, SLOViolationRatio: &violating, P95Ms: &p95, NodeHours: usd}
}

func bounds(seeds ...uint64) []score.Run {
	var out []score.Run
	for _, s := range seeds {
		out = append(out, score.Run{Scaler: "oracle", Seed: s, Bound: true, CostUSD: 1})
	}
	return out
}

func trace1(name string, runs ...score.Run) result {
	return result{Scenario: name, Runs: append(runs, bounds(1, 2)...)}
}

func TestMarks(t *testing.T) {
	near := trace1("near", of("mash2", 1, 10.9, 0.001, 20), of("clairvoyant", 1, 10, 0, 20), of("hpa", 1, 20, 0, 20))
	edge := trace1("edge", of("mash2", 1, 12.5, 0.005, 20), of("clairvoyant", 1, 10, 0, 20), of("hpa", 1, 20, 0, 20))
	dear := trace1("dear", of("mash2", 1, 13, 0, 20), of("clairvoyant", 1, 10, 0, 20), of("hpa:90", 1, 12, 0.01, 20))
	late := trace1("late", of("mash2", 1, 10, 0.006, 20), of("clairvoyant", 1, 10, 0.004, 20), of("hpa:70", 1, 9.5, 0.002, 20))
	often := trace1("often", of("mash2", 1, 10, 0.004, 20), of("mash2", 2, 10, 0.002, 20), of("hpa:90", 1, 9.8, 0.001, 20), of("hpa:90", 2, 9.8, 0.003, 20))
	// Means over seeds: 12 and 12 on 10 and 8 are 1.2 and 1.5.
	seeds := trace1("seeds", of("mash2", 1, 12, 0, 20), of("mash2", 2, 12, 0, 20), of("clairvoyant", 1, 10, 0, 20), of("clairvoyant", 2, 8, 0, 20))
	for name, c := range map[string]struct {
		judge    func(group, string) (mark, bool)
		results  []result
		wantMet  bool
		wantText []string
		nothing  bool
	}{
		"all near the clairvoyant":     {clairvoyantMark, []result{near, edge}, true, []string{"2 of 2", "1 of 2 at 1.10"}, false},
		"one is dear":                  {clairvoyantMark, []result{near, dear}, false, []string{"1 of 2", "dearer: dear (1.30)"}, false},
		"one violates":                 {clairvoyantMark, []result{near, late}, false, []string{"late (0.6 %, the clairvoyant 0.4 %)"}, false},
		"a mean over seeds":            {clairvoyantMark, []result{seeds}, false, []string{"seeds (1.35)"}, false},
		"no clairvoyant was run":       {clairvoyantMark, []result{trace1("x", of("mash2", 1, 1, 0, 1))}, false, nil, true},
		"nobody dominates":             {dominationMark, []result{near, dear}, true, []string{"none on 2 of 2"}, false},
		"a target is better in both":   {dominationMark, []result{near, late}, false, []string{"none on 1 of 2", "late: hpa:70, of which hpa:70 costs 5 % less and violates 0.20 % instead of 0.60 %"}, false},
		"so they are in the mean":      {dominationMark, []result{often}, false, []string{"hpa:90 costs 2 % less and violates 0.20 ± 1.27 % instead of 0.30 ± 1.27 %"}, false},
		"the scaler was not there":     {dominationMark, []result{trace1("x", of("hpa", 1, 1, 0, 1))}, true, nil, true},
		"PERFORMANCE is what it says":  {policies(of("mash2", 1, 20, 0, 10)), []result{near}, true, []string{"1 of 1"}, false},
		"PERFORMANCE is not faster":    {policies(of("mash2", 1, 20, 0, 20)), []result{near}, false, []string{"near (cost × 1.83, p95 × 1.00)"}, false},
		"PERFORMANCE is the cheaper":   {policies(of("mash2", 1, 10, 0, 10)), []result{near}, false, []string{"0 of 1"}, false},
		"PERFORMANCE was not run":      {policies(), []result{near}, true, nil, true},
		"its seeds are the ones asked": {policies(of("mash2", 2, 13, 0, 10)), []result{seeds}, true, []string{"1.08"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, ok := c.judge(group{"development", c.results}, "mash2")
			if ok == c.nothing {
				t.Fatalf("judged %v: %+v", ok, m)
			}
			if !ok {
				return
			}
			if m.met != c.wantMet {
				t.Errorf("met %v: %+v", m.met, m)
			}
			for _, want := range c.wantText {
				if !strings.Contains(m.figure+m.limits, want) {
					t.Errorf("no %q in %q, %q", want, m.figure, m.limits)
				}
			}
		})
	}
}

// policies judges with these runs under PERFORMANCE on every trace.
func policies(runs ...score.Run) func(group, string) (mark, bool) {
	return func(g group, _ string) (mark, bool) {
		performance := map[string]result{}
		for _, r := range g.results {
			if len(runs) > 0 {
				performance[r.Scenario] = result{Scenario: r.Scenario, Runs: runs}
			}
		}
		return policyMark(g, performance)
	}
}

func TestSawtoothMark(t *testing.T) {
	with := func(r score.Run, stretch float64) score.Run {
		r.UnscheduledStretchSeconds = &stretch
		return r
	}
	for name, c := range map[string]struct {
		longest, hours float64
		want           bool
	}{
		"both hold":            {0.9, 2.1, true},
		"a pod waits":          {1.1, 2.0, false},
		"too many node-hours":  {0, 2.2, false},
		"neither, in one seed": {60, 3, false},
	} {
		r := result{Runs: []score.Run{with(of("mash2", 1, 2, 0, 1), 0), with(of("mash2", 2, c.hours, 0, 1), c.longest), of("hpa", 1, 2, 0, 1), of("hpa", 2, 2, 0, 1)}}
		r.Runs[0].NodeHours = c.hours
		if m, ok := sawtoothMark(r, "mash2"); !ok || m.met != c.want || !m.met && m.limits == "" {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if m, ok := sawtoothMark(result{Runs: []score.Run{of("mash2", 1, 2, 0, 1), of("hpa", 1, 2, 0, 1)}}, "mash2"); ok {
		t.Errorf("judged without a record of waiting: %+v", m)
	}
}

func TestConvergenceMark(t *testing.T) {
	file := func(lines ...string) string {
		name := filepath.Join(t.TempDir(), "c.json")
		put(t, name, []byte(strings.Join(lines, "\n")))
		return name
	}
	good := `{"Action":"pass","Test":"TestA/case"}`
	if m, err := convergenceMark(file(`{"Action":"run","Test":"TestA/case"}`, good, `{"Action":"pass","Test":"TestA"}`)); err != nil || !m.met || m.figure != "1 of 1 cases" {
		t.Errorf("%+v %v", m, err)
	}
	if m, err := convergenceMark(file(good, `{"Action":"fail","Test":"TestB/other"}`)); err != nil || m.met || m.limits != "TestB/other" {
		t.Errorf("%+v %v", m, err)
	}
	for name, bad := range map[string]string{"nothing was run": file(`{"Action":"skip","Package":"x"}`), "no JSON": file("PASS"), "missing": "none.json"} {
		if _, err := convergenceMark(bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The whole page, of traces alone: what was not run is said to be missing.
func TestResultsPage(t *testing.T) {
	traces, measured, out := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(file string, r result) {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(measured, file), data)
	}
	for _, name := range []string{"development/a", "held-out/b"} {
		put(t, filepath.Join(traces, name+".yaml"), []byte("name: "+filepath.Base(name)+"\n"))
		write(name+".json", trace1(filepath.Base(name), of("mash2", 1, 11, 0, 20), of("mash2-any", 1, 10, 0, 20), of("clairvoyant", 1, 10, 0, 10), of("hpa", 1, 20, 0, 20)))
		write(name+".seed2.json", trace1(filepath.Base(name), of("mash2", 2, 12, 0, 20), of("clairvoyant", 2, 10, 0, 10)))
		write(name+".performance.json", result{Scenario: filepath.Base(name), Runs: []score.Run{of("mash2", 1, 22, 0, 10)}})
	}
	convergence, k6 := filepath.Join(out, "c.json"), filepath.Join(out, "k6.txt")
	put(t, convergence, []byte(`{"Action":"pass","Test":"TestA/case"}`))
	put(t, k6, []byte("head\n  █ THRESHOLDS\n\n    ✓ 'p(95)<200' p(95)=77.91ms\n  NETWORK\n    data\n"))
	page := filepath.Join(out, "results.md")
	in := inputs{traces: traces, measured: measured, real: out, convergence: convergence, k6: k6, version: "v1"}
	if err := results(in, page); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| cost ≤ 1.25 × clairvoyant at ≤ 0.5 % violating | development, mash2 | yes | 1 of 1; geometric mean 1.15;",
		"| no HPA target with both lower cost and fewer violations | held out, mash2-any | yes | none on 1 of 1 |",
		"PERFORMANCE's cost × 2.00, its p95 × 0.50", "| mash2 | 2 | 1.15 | 0.55 | 0.00 | 0.00 | 1.00 |",
		"`make experiments` has not been run for this page.", "'p(95)<200' p(95)=77.91ms", "was run by v1", "a factor of 12",
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %q in:\n%s", want, data)
		}
	}
	if strings.Contains(string(data), "NETWORK") || strings.Contains(string(data), "%!") {
		t.Errorf("what is not of the page:\n%s", data)
	}
	// What takes an hour is kept when the rest is made again, and said to be older once.
	measuredBefore := strings.ReplaceAll(string(data), "`make experiments` has not been run for this page.", "| mash2 | 17 min |")
	put(t, page, []byte(measuredBefore))
	in.k6, in.version = "", "v2"
	for range 2 {
		if err := results(in, page); err != nil {
			t.Fatal(err)
		}
		if data, err = os.ReadFile(page); err != nil {
			t.Fatal(err)
		}
		for want, times := range map[string]int{"| mash2 | 17 min |": 1, "p(95)=77.91ms": 1, "was run by v2": 1, keptText: 3, "## k6": 1} {
			if got := strings.Count(string(data), want); got != times {
				t.Errorf("%q is there %d times, want %d:\n%s", want, got, times, data)
			}
		}
	}
	write("development/a.seed3.json", result{Scenario: "b", Runs: bounds(3)})
	if err := results(in, page); err == nil || !strings.Contains(err.Error(), "is of b") {
		t.Errorf("a seed of another trace: %v", err)
	}
}

func TestTracesCommand(t *testing.T) {
	trace := func(seeds ...uint64) result {
		var runs []score.Run
		for _, s := range seeds {
			runs = append(runs, of("mash2", s, 1, 0, 1), of("hpa", s, 1, 0, 1))
		}
		return result{Scenario: "t", Runs: runs}
	}
	for want, all := range map[string][]result{
		"make experiments-traces":                    {trace(1), trace(1, 2)},
		"make experiments-traces TRACE_SEEDS='2 3'":  {trace(1, 2, 3), trace(3, 2, 1, 4)},
		"make experiments-traces TRACE_SEEDS='2 10'": {trace(10, 2, 1)},
	} {
		if got := tracesCommand(all); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
