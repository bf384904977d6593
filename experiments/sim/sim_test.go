package sim

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/load/record"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

func loadScenario(tb testing.TB, name string) scenarios.Scenario {
	tb.Helper()
	s, err := scenarios.Load(name)
	if err != nil {
		if strings.Contains(err.Error(), scenarios.DataEnv) {
			tb.Skip(err)
		}
		tb.Fatal(err)
	}
	return s
}

func simulate(tb testing.TB, o Options) Result {
	tb.Helper()
	r, err := Run(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// The same options give the same bytes, another seed gives others.
func TestDeterminism(t *testing.T) {
	for _, fidelity := range []Fidelity{Fluid, PerRequest} {
		for _, scaler := range []string{"mash2", "hpa"} {
			t.Run(string(fidelity)+" "+scaler, func(t *testing.T) {
				run := func(seed uint64) string {
					r := simulate(t, Options{Scenario: loadScenario(t, "heartbeat"), Scaler: scaler, Seed: seed, Fidelity: fidelity, Passes: 1})
					text, err := json.Marshal(r)
					if err != nil {
						t.Fatal(err)
					}
					return string(text)
				}
				first := run(1)
				if again := run(1); first != again {
					t.Error("the same seed gave another result")
				}
				if other := run(2); first == other {
					t.Error("another seed gave the same result")
				}
			})
		}
	}
}

// The two fidelities are of one model. Where nothing scales they differ by the
// fluid's closed forms alone; where something does, a whole replica or node more
// or less at some moment makes a pass differ, so means over seeds are compared.
func TestFidelitiesAgree(t *testing.T) {
	const seeds, passes = 8, 3
	for scaler, tolerance := range map[string]map[string]float64{
		"static": {"requests": 0.01, "CPU": 0.02, "replicas": 0, "node USD": 0, "p50": 0.15, "p95": 0.20},
		"hpa":    {"requests": 0.02, "CPU": 0.05, "replicas": 0.06, "node USD": 0.08, "p50": 0.20, "p95": 0.25},
		"mash2":  {"requests": 0.02, "CPU": 0.05, "replicas": 0.06, "node USD": 0.08, "p50": 0.20, "p95": 0.25},
	} {
		sums := map[Fidelity]map[string]float64{}
		for _, fidelity := range []Fidelity{Fluid, PerRequest} {
			sums[fidelity] = map[string]float64{}
			for seed := range uint64(seeds) {
				r := simulate(t, Options{Scenario: loadScenario(t, "heartbeat"), Scaler: scaler, Seed: seed, Fidelity: fidelity, Passes: passes})
				for i, p := range r.Workloads[0].ByPass {
					for name, v := range map[string]float64{
						"requests": float64(p.Requests), "CPU": *p.MeanCPUUtilization, "replicas": *p.MeanReplicas,
						"node USD": r.CostUSD[i], "p50": *p.P50Ms, "p95": *p.P95Ms,
					} {
						sums[fidelity][name] += v / (seeds * passes)
					}
				}
			}
		}
		for name, limit := range tolerance {
			a, b := sums[Fluid][name], sums[PerRequest][name]
			t.Logf("%-6s %-8s fluid %8.4g, per request %8.4g (%+.1f %%)", scaler, name, a, b, 100*(a/b-1))
			if !(math.Abs(a/b-1) <= limit+1e-9) {
				t.Errorf("%s: %s is %.4g fluid and %.4g per request, more than %.0f %% apart", scaler, name, a, b, 100*limit)
			}
		}
	}
}

// Nobody who keeps the SLO costs less than the oracle.
func TestNobodyBeatsTheOracle(t *testing.T) {
	for _, name := range []string{"heartbeat", "flash-sale", "sawtooth", "noise", "metrics-outage"} {
		s := loadScenario(t, name)
		kept := 0
		for _, scaler := range []string{"mash2", "hpa", "hpa:50", "hpa:95", "static"} {
			for seed := range uint64(2) {
				const passes = 2
				bound, err := Oracle(s, DefaultParams(), passes, seed)
				if err != nil {
					t.Fatal(err)
				}
				r := simulate(t, Options{Scenario: s, Scaler: scaler, Seed: seed, Passes: passes})
				for i, p := range r.Workloads[0].ByPass {
					if p.SLOViolationMinutes > 0 {
						continue
					}
					kept++
					if r.CostUSD[i] < bound[i] {
						t.Errorf("%s: %s with seed %d costs $%.4f in pass %d, the bound is $%.4f", name, scaler, seed, r.CostUSD[i], i, bound[i])
					}
				}
			}
		}
		bound, _ := Oracle(s, DefaultParams(), 1, 0)
		t.Logf("%s: bound $%.4f, %d passes kept the SLO", name, bound[0], kept)
		if kept == 0 {
			t.Errorf("%s: nobody kept the SLO, nothing was compared", name)
		}
	}
}

// cheapest against all integer paths on small cases.
func TestCheapestIsABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		needs := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 6).Draw(t, "needs")
		paid := float64(rapid.IntRange(0, 6).Draw(t, "paid")) / 2
		var real []float64
		for _, n := range needs {
			real = append(real, float64(n))
		}
		got := cheapest(real, time.Hour, time.Duration(paid*float64(time.Hour)))
		best := math.Inf(1)
		var walk func(i, before int, cost float64)
		walk = func(i, before int, cost float64) {
			if i == len(needs) {
				best = min(best, cost)
				return
			}
			for n := needs[i]; n <= 3; n++ {
				comes := 0
				if i > 0 {
					comes = max(0, n-before)
				}
				walk(i+1, n, cost+float64(n)+paid*float64(comes))
			}
		}
		walk(0, 0, 0)
		if got > best+1e-9 || got < best-3*float64(len(needs))*(1+paid)/400-1e-9 {
			t.Errorf("needs %v with %v for coming: %v, the best path costs %v", needs, paid, got, best)
		}
	})
}

// rate() as Prometheus computes it.
func TestRate(t *testing.T) {
	const s = time.Second
	every := func(from, to, step time.Duration, slope float64) []point {
		var out []point
		for at := from; at <= to; at += step {
			out = append(out, point{at, 100 + slope*at.Seconds()})
		}
		return out
	}
	for name, test := range map[string]struct {
		points []point
		want   float64
		ok     bool
	}{
		"none":            {nil, 0, false},
		"one":             {every(50*s, 50*s, 15*s, 1), 0, false},
		"steady":          {every(0, 60*s, 15*s, 0.4), 0.4, true},
		"begins late":     {every(40*s, 60*s, 10*s, 0.4), 0.4 * (20 + 5) / 60, true}, // half an interval before the first
		"out of window":   {every(-300*s, -10*s, 15*s, 1), 0, false},
		"a fresh counter": {[]point{{45 * s, 0}, {60 * s, 6}}, 0.1, true}, // no further back than 0
	} {
		got, ok := rate(test.points, 60*s, 60*s)
		if ok != test.ok || math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%s: %v, %v; want %v, %v", name, got, ok, test.want, test.ok)
		}
	}
}

func testCluster(seed uint64) *Cluster {
	c := newCluster(DefaultParams(), seed, newFluid(seed))
	c.record = record.New("mash2/web")
	return c
}

// ReplicaSets delete in this order.
func TestRank(t *testing.T) {
	c := testCluster(1)
	c.now = time.Hour
	a, b := &node{name: "a"}, &node{name: "b"}
	ready := func(uid string, n *node, since time.Duration, cost int32) *pod {
		return &pod{uid: uid, node: n, phase: running, ready: true, readyAt: since, created: since, deletionCost: cost}
	}
	pods := []*pod{
		ready("8-alone-old", b, time.Minute, 0),
		ready("7-alone-young", b, 59*time.Minute, 0),
		ready("6-doubled", a, time.Minute, 0),
		ready("5-doubled-young", a, 58*time.Minute, 0),
		ready("4-cheap", b, time.Minute, -1000),
		{uid: "3-unready", node: a, phase: running},
		{uid: "2-starting", node: a, phase: starting},
		{uid: "1-unassigned"},
	}
	// Three on b, of which one is cheap; two on a.
	want := []string{"1-unassigned", "2-starting", "3-unready", "4-cheap", "7-alone-young", "8-alone-old", "5-doubled-young", "6-doubled"}
	rand.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	c.rank(pods)
	var got []string
	for _, p := range pods {
		got = append(got, p.uid)
	}
	if !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// A pool asks what GKE lets it have.
func TestPools(t *testing.T) {
	c := testCluster(1)
	if err := c.addPool(scenarios.Pool{
		Name: "p", MachineType: "n2-standard-2", Zones: []string{"a", "b", "c"}, Nodes: 1, NodesPerZone: scenarios.Bounds{Max: 3},
	}, false); err != nil {
		t.Fatal(err)
	}
	p := c.pools[0]
	if p.nodes() != 3 || len(c.nodes) != 3 {
		t.Fatalf("%d nodes at first", p.nodes())
	}
	if err := c.resize(p, 4); err == nil {
		t.Error("more than the maximum was accepted")
	}
	c.quota = 8 // vCPUs: four nodes
	if err := c.resize(p, 2); err == nil || p.failure == nil || p.failure.Kind != api.PoolQuota || p.nodes() != 4 {
		t.Errorf("beyond the quota: %v, %d nodes, %+v", err, p.nodes(), p.failure)
	}
	c.quota = 0
	c.stockout["c"] = true
	if err := c.resize(p, 2); err == nil || p.failure.Kind != api.PoolStockout {
		t.Errorf("with a stockout: %v, %+v", err, p.failure)
	}
	c.stockout["c"] = false
	if err := c.resize(p, 2); err != nil || p.failure != nil {
		t.Errorf("afterwards: %v", err)
	}
	if err := c.resize(p, 3); err == nil {
		t.Error("a second operation was accepted")
	}
	c.run(5 * time.Minute)
	ready := 0
	for _, n := range c.nodes {
		if n.ready {
			ready++
		}
	}
	if ready != 6 || p.leads.Latency(c.params.NodeStartup).Samples != 3 {
		t.Errorf("%d nodes Ready, leads %+v; want 6 and three measured", ready, p.leads)
	}
	if err := c.resize(p, 1); err != nil {
		t.Fatal(err)
	}
	c.run(c.now + time.Minute)
	if len(c.nodes) != 3 {
		t.Errorf("%d nodes after shrinking to one per zone", len(c.nodes))
	}
}

// While Prometheus is away the snapshot says so and nothing goes down.
func TestOutage(t *testing.T) {
	s := loadScenario(t, "metrics-outage")
	var before int32
	outages := 0
	simulate(t, Options{Scenario: s, Scaler: "mash2", Seed: 1, Passes: 1, Report: func(c api.Cycle) {
		w := c.Workloads[0]
		away := slices.ContainsFunc(c.Findings, func(f api.Finding) bool { return f.Reason == "PrometheusUnreachable" })
		if away {
			outages++
			if w.Replicas < before {
				t.Errorf("%v: replicas went from %d to %d without Prometheus", c.Time, before, w.Replicas)
			}
		}
		before = w.Replicas
	}})
	if outages < 30 {
		t.Errorf("%d cycles without Prometheus, want those of ten minutes", outages)
	}
}

// Whatever happens, bounds hold and what is counted adds up.
func TestInvariants(t *testing.T) {
	for _, name := range []string{"heartbeat", "flash-sale", "sawtooth", "noise", "stockout", "metrics-outage"} {
		for _, scaler := range []string{"mash2", "hpa", "static"} {
			s := loadScenario(t, name)
			r := simulate(t, Options{Scenario: s, Scaler: scaler, Seed: 5, Fidelity: PerRequest, Passes: 1})
			w := r.Workloads[0]
			surge := int32(1)
			if scaler == "mash2" {
				surge = 2 // old and new pods side by side
			}
			for _, step := range w.Steps {
				if step.Replicas > surge*s.Workload.Replicas.Max || step.Replicas < s.Workload.Replicas.Min {
					t.Errorf("%s %s: %d replicas at %v", name, scaler, step.Replicas, step.At)
				}
				if step.Ready+step.Pending > step.Pods+step.Unscheduled {
					t.Errorf("%s %s: %+v doesn't add up", name, scaler, step)
				}
			}
			m := w.Measured
			if m.Failed != m.Refused+m.Reset+m.TimedOut || m.Requests == 0 || m.Failed > m.Requests {
				t.Errorf("%s %s: %+v", name, scaler, m)
			}
			var seconds float64
			for _, l := range r.Ledger {
				if l.Deleted >= 0 && l.Deleted < l.Requested {
					t.Errorf("%s %s: %+v", name, scaler, l)
				}
				seconds++
			}
			if seconds == 0 || r.CostUSD[0] <= 0 {
				t.Errorf("%s %s: nothing was paid", name, scaler)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	s := loadScenario(t, "heartbeat")
	for name, o := range map[string]Options{
		"scaler":   {Scenario: s, Scaler: "vpa"},
		"target":   {Scenario: s, Scaler: "hpa:500"},
		"static":   {Scenario: s, Scaler: "static:50"},
		"fidelity": {Scenario: s, Scaler: "hpa", Fidelity: "exact"},
		"params":   {Scenario: s, Scaler: "hpa", Params: &Params{}},
	} {
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// mash2 scales every service of a graph.
func TestGraphIsScaled(t *testing.T) {
	s := loadScenario(t, "hotel")
	for _, scaler := range []string{"mash2", "hpa"} {
		r := simulate(t, Options{Scenario: s, Scaler: scaler, Seed: 1, Passes: 1})
		scaled := 0
		for i, w := range r.Workloads {
			if w.Measured.MaxReplicas > s.Deployments()[i].Replicas.Min {
				scaled++
			}
		}
		if len(r.Workloads) != 8 || scaled < 5 {
			t.Errorf("%s: %d of %d services were scaled", scaler, scaled, len(r.Workloads))
		}
	}
}
