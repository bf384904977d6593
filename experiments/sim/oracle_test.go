package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/experiments/scenarios"
)

// randomScenario is any scenario of a few minutes: closed or open load, one
// service or a graph of them, any size of pods, pools, boots, SLO and events.
func randomScenario(t *rapid.T) scenarios.Scenario {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	in := func(low, high int, name string) int { return rapid.IntRange(low, high).Draw(t, name) }
	minutes := func() string { return fmt.Sprintf("%dm", in(1, 4, "minutes")) }
	line("name: random")
	line("startVUs: %d", in(0, 300, "start"))
	line("stages: [\"%s:%d\", \"%s:%d\", \"%s:%d\"]", minutes(), in(0, 600, "users"), minutes(), in(0, 600, "users"), minutes(), in(0, 600, "users"))
	line("repeat: 2")
	line("thinkTime: {distribution: exponential, mean: %dms}", in(300, 3000, "think"))
	kind := rapid.SampledFrom([]string{"exponential", "lognormal", "constant"}).Draw(t, "kind")
	deviation := ""
	mean := in(1, 12, "work")
	if kind == "lognormal" {
		deviation = fmt.Sprintf(", deviation: %dms", in(1, 2*mean, "deviation"))
	}
	line("request: {cpu: {distribution: %s, mean: %dms%s}, timeout: %ds}", kind, mean, deviation, in(1, 10, "timeout"))
	line("slo: {p95Ms: %d, failedRatio: %g}", in(50, 2000, "p95"), float64(in(0, 10, "failed"))/100)
	request := in(50, 700, "request")
	limit := ""
	if in(0, 3, "limited") > 0 {
		limit = fmt.Sprintf(", limit: %dm", request*in(10, 40, "limit")/10)
	}
	least := in(1, 4, "least")
	line("workload:\n  cpu: {request: %dm%s}\n  memory: {request: %dMi}\n  replicas: {min: %d, max: %d}\n  targetUtilization: %g",
		request, limit, in(32, 400, "memory"), least, least+in(0, 30, "more"), float64(in(3, 10, "target"))/10)
	if services := in(1, 4, "services"); services > 1 {
		line("services:")
		for i := range services {
			line("  - {name: s%d, cpu: {request: %dm, limit: %dm}, work: {distribution: exponential, mean: %dms}}", i, in(50, 400, "request"), in(400, 1500, "limit"), in(1, 6, "work"))
		}
		line("users:\n  - name: u\n    share: 1\n    request:\n      service: s0\n      parallel: %v\n      calls:", in(0, 1, "parallel") == 1)
		for i := 1; i < services; i++ {
			line("        - {service: s%d, probability: %g}", i, float64(in(1, 10, "probability"))/10)
		}
	}
	if in(0, 1, "noisy") == 1 {
		line("noise: {deviation: %g, correlation: %ds}", float64(in(1, 40, "noise"))/100, in(10, 200, "correlation"))
	}
	switch in(0, 4, "event") {
	case 1:
		line("events: [{at: 1m, for: 1m, loadFactor: %g}]", float64(in(1, 30, "load"))/10)
	case 2:
		line("events: [{at: 1m, workFactor: %g}]", float64(in(1, 30, "work factor"))/10)
	case 3:
		line("events: [{at: 1m, for: 1m, resize: {request: %dm, limit: %dm}}]", in(50, 300, "new request"), in(300, 1500, "new limit"))
	}
	line("bootMedian: %ds", in(10, 150, "boot"))
	line("pools:")
	for i, machine := range []string{"e2-medium", "n2-standard-2"}[in(0, 1, "first"):] {
		line("  - {name: p%d, machineType: %s, zones: [a], nodes: %d, nodesPerZone: {min: 0, max: 30}}", i, machine, in(1, 3, "nodes"))
	}
	s, err := scenarios.Parse("random.yaml", []byte(b.String()))
	if err != nil {
		t.Fatalf("%v:\n%s", err, b.String())
	}
	return s
}

// placed tells whether all workloads had their least replicas on nodes all the time
// of a pass.
func placed(s scenarios.Scenario, r Result, pass int) bool {
	from := r.Start + time.Duration(pass)*s.PassDuration()
	to := from + s.PassDuration()
	for i, d := range s.Deployments() {
		steps := r.Workloads[i].Steps
		for n, step := range steps {
			ends := to
			if n+1 < len(steps) {
				ends = steps[n+1].At
			}
			if step.At < to && ends > from && step.Pods < d.Replicas.Min {
				return false
			}
		}
	}
	return true
}

// Whatever the scenario, nobody who keeps its SLO in a pass pays less than the
// oracle says: not the operator, not an HPA at any target, not one of its rivals,
// not as many pods as somebody who knows the peak would take.
func TestNobodyBeatsTheOracleAnywhere(t *testing.T) {
	kept, passes := 0, 0
	closest := 1e9
	rapid.Check(t, func(t *rapid.T) {
		s := randomScenario(t)
		seed := rapid.Uint64().Draw(t, "seed")
		bound, err := Oracle(s, DefaultParams(), s.Repeat, seed)
		if err != nil {
			t.Skip(err)
		}
		rival := rapid.SampledFrom(rivals).Draw(t, "rival")
		for _, scaler := range []string{"mash2", "static", fmt.Sprintf("hpa:%d", rapid.IntRange(20, 100).Draw(t, "hpa")), rival} {
			o := Options{Scenario: s, Scaler: scaler, Seed: seed}
			r, err := Run(t.Context(), o)
			if err != nil {
				t.Skip(err)
			}
			for pass := range s.Repeat {
				passes++
				violated := 0
				requests := uint64(0)
				for _, w := range r.Workloads {
					violated += w.ByPass[pass].SLOViolationMinutes
					requests += w.ByPass[pass].Requests
				}
				if violated > 0 || requests == 0 || !placed(s, r, pass) {
					continue
				}
				kept++
				closest = min(closest, r.CostUSD[pass]/max(bound[pass], 1e-12))
				if r.CostUSD[pass] < bound[pass] {
					t.Errorf("%s with seed %d keeps the SLO in pass %d for $%.5f, the bound is $%.5f", scaler, seed, pass, r.CostUSD[pass], bound[pass])
				}
			}
		}
	})
	t.Logf("%d of %d passes kept the SLO; the cheapest cost %.2f times its bound", kept, passes, closest)
	if kept < 20 {
		t.Errorf("only %d passes kept the SLO: too few to show anything", kept)
	}
}
