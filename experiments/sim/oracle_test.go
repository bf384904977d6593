package sim

import (
	"fmt"
	"slices"
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
	least := in(1, 12, "least")
	line("workload:\n  cpu: {request: %dm%s}\n  memory: {request: %dMi}\n  replicas: {min: %d, max: %d}\n  targetUtilization: %g",
		request, limit, in(32, 400, "memory"), least, least+in(0, 30, "more"), float64(in(3, 10, "target"))/10)
	if services := in(1, 4, "services"); services > 1 {
		line("services:")
		for i := range services {
			memory := in(32, 400, "memory")
			if in(0, 1, "much memory") == 1 {
				memory = in(2000, 6000, "memory")
			}
			line("  - {name: s%d, cpu: {request: %dm, limit: %dm}, memory: {request: %dMi}, work: {distribution: exponential, mean: %dms}}", i, in(50, 900, "request"), in(900, 1800, "limit"), memory, in(1, 6, "work"))
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
	types := [][]string{{"e2-medium", "n2-standard-2"}, {"n2-standard-2"}, {"e2-highcpu-4", "e2-highmem-2"}, {"e2-standard-4", "e2-highmem-2", "e2-highcpu-4"}}
	for i, machine := range rapid.SampledFrom(types).Draw(t, "types") {
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
// oracle says: not the operator, with one pool or a mixture, not an HPA at any target,
// not one of its rivals, not as many pods as somebody who knows the peak would take.
// Who chooses requests lowers none in so short a time.
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
		own := rapid.SampledFrom([]string{Mash2, Mash2Mixed, Mash2Joint}).Draw(t, "own")
		for _, scaler := range []string{own, "static", fmt.Sprintf("hpa:%d", rapid.IntRange(20, 100).Draw(t, "hpa")), rival} {
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

// mixed has pods that take much CPU and others that take much memory, as many as are
// given of each, and a pool for either.
func mixed(t *testing.T, replicas, cpu, memory string) scenarios.Scenario {
	t.Helper()
	s, err := scenarios.Parse("mixed.yaml", []byte(fmt.Sprintf(`name: mixed
base: heartbeat
startVUs: 20
stages: ["30m:20"]
repeat: 1
warmup: {passes: 1}
workload: {replicas: {min: %[1]s, max: %[1]s}}
services:
  - {name: cores, cpu: {request: %[2]s, limit: 3500m}, memory: {request: 128Mi, limit: 256Mi, base: 48Mi, perRequest: 64Ki}}
  - {name: memory, cpu: {request: 400m, limit: 1600m}, memory: {request: %[3]s, limit: 13Gi, base: 500Mi, perRequest: 64Ki}}
users:
  - name: a
    share: 1
    request: {service: cores, calls: [{service: memory}]}
pools:
  - {name: cores, machineType: e2-highcpu-4, zones: [a], nodes: 4, nodesPerZone: {min: 0, max: 30}}
  - {name: memory, machineType: e2-highmem-2, zones: [a], nodes: 8, nodesPerZone: {min: 0, max: 30}}
`, replicas, cpu, memory)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Who puts each kind of pods on the machines that suit it does not beat the oracle, nor
// where no one pool holds both kinds.
func TestMixingPoolsDoesNotBeatTheOracle(t *testing.T) {
	for name, s := range map[string]scenarios.Scenario{
		"each pool holds all":    mixed(t, "16", "900m", "5Gi"),
		"each pool holds a half": mixed(t, "4", "3000m", "11000Mi"),
	} {
		t.Run(name, func(t *testing.T) {
			bound, err := Oracle(s, DefaultParams(), 2, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, scaler := range []string{Karpenter, Mash2Mixed} {
				r := simulate(t, Options{Scenario: s, Scaler: scaler, Seed: 1, Passes: 2})
				violated := 0
				for _, w := range r.Workloads {
					violated += w.ByPass[1].SLOViolationMinutes
				}
				t.Logf("%s: $%.4f, %d minutes in violation, the bound is $%.4f", scaler, r.CostUSD[1], violated, bound[1])
				if violated > 0 || !placed(s, r, 1) {
					t.Errorf("%s does not keep the SLO with all replicas on nodes", scaler)
				}
				if r.CostUSD[1] < bound[1] || r.CostUSD[1] > 2*bound[1] {
					t.Errorf("%s costs $%.4f, the bound is $%.4f", scaler, r.CostUSD[1], bound[1])
				}
			}
		})
	}
	s := mixed(t, "4", "3000m", "13Gi")
	if _, err := Oracle(s, DefaultParams(), 1, 1); err == nil || !strings.Contains(err.Error(), "a pod of service memory") {
		t.Errorf("a service that fits on no pool: %v", err)
	}
}

// Nobody pays for the stop of a node that fails, and so the bounds leave it out where
// nodes do.
func TestNoStopIsPaidWhereNodesFail(t *testing.T) {
	s, p := mixed(t, "1", "300m", "1Gi"), DefaultParams()
	if got, want := p.LeastPaid(s), p.LeastBoot(s)+p.Stop; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	// The boot is the scenario's, or the fastest of its pools'.
	least := func() time.Duration { return (p.LeastBoot(s) - p.Operation).Round(time.Second) }
	usual := least()
	s.BootMedian.Duration = 2 * p.BootMedian
	if got, want := least(), (2 * usual).Round(time.Second); got < want-time.Second || got > want+time.Second {
		t.Errorf("a boot of the scenario's: %v, want %v", got, want)
	}
	s.Pools = slices.Clone(s.Pools)
	s.Pools[0].BootMedian.Duration, s.Pools[1].BootMedian.Duration = 4*p.BootMedian, p.BootMedian
	if got := least(); got != usual {
		t.Errorf("the fastest boot of a pool: %v, want %v", got, usual)
	}
	s.Pools[1].BootMedian.Duration = 0
	s.Events = []scenarios.Event{{At: scenarios.Duration{Duration: time.Minute}, FailNodes: 1, Pool: "cores"}}
	if got, want := p.LeastPaid(s), p.LeastBoot(s); got != want {
		t.Errorf("where nodes fail %v, want %v", got, want)
	}
}
