package sim

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/baseline"
	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/load/record"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// rivals are all scalers that mash2 is compared with and that decide by themselves.
var rivals = []string{HPA, HPAOverprovisioned, KEDARPS, PHPA, Karpenter}

// Each rival scales pods and nodes up and down with heartbeat, which it has seen
// three times, serves it, and nobody without a violation pays less than the oracle
// says.
func TestRivalsScaleAndServe(t *testing.T) {
	s := loadScenario(t, "heartbeat-warm")
	passes := s.Warmup.Passes + 1
	bound, err := Oracle(s, DefaultParams(), passes, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, scaler := range rivals {
		t.Run(scaler, func(t *testing.T) {
			r := simulate(t, Options{Scenario: s, Scaler: scaler, Seed: 1, WarmupPasses: s.Warmup.Passes, Passes: 1})
			w := r.Workloads[0]
			most, nodes := int32(0), 0
			for _, step := range w.Steps {
				most = max(most, step.Replicas)
			}
			for _, l := range r.Ledger {
				if l.Requested > r.Start {
					nodes++
				}
			}
			if least := s.Workload.Replicas.Min; most < 3*least || nodes == 0 {
				t.Errorf("%d replicas at most of at least %d, %d nodes asked for: it does not scale", most, least, nodes)
			}
			if w.Measured.Requests < 50_000 || float64(w.Measured.Failed) > 0.02*float64(w.Measured.Requests) {
				t.Errorf("%d of %d requests failed", w.Measured.Failed, w.Measured.Requests)
			}
			for pass, cost := range r.CostUSD {
				if w.ByPass[pass].SLOViolationMinutes == 0 && cost < bound[pass] {
					t.Errorf("pass %d without a violation for $%.5f, the bound is $%.5f", pass, cost, bound[pass])
				}
			}
		})
	}
}

// A level that ends: replicas and nodes go again.
func TestRivalsComeDown(t *testing.T) {
	s := loadScenario(t, "heartbeat")
	s.Stages = []scenarios.Stage{{Duration: 30 * time.Second, Target: 400}, {Duration: 5 * time.Minute, Target: 400}, {Duration: time.Minute, Target: 5}, {Duration: time.Hour, Target: 5}}
	for _, scaler := range rivals {
		t.Run(scaler, func(t *testing.T) {
			r := simulate(t, Options{Scenario: s, Scaler: scaler, Seed: 1, Passes: 1})
			last := r.Workloads[0].Steps[len(r.Workloads[0].Steps)-1]
			left := 0
			for _, l := range r.Ledger {
				if l.Deleted < 0 {
					left++
				}
			}
			if last.Replicas != s.Workload.Replicas.Min || left > 2 || left == len(r.Ledger) {
				t.Errorf("%d replicas and %d of %d nodes are left after an hour of next to no load", last.Replicas, left, len(r.Ledger))
			}
		})
	}
}

// The same options give the same bytes.
func TestRivalsAreDeterministic(t *testing.T) {
	for _, scaler := range rivals {
		run := func() string {
			text, err := json.Marshal(simulate(t, Options{Scenario: loadScenario(t, "heartbeat"), Scaler: scaler, Seed: 3, Passes: 1}))
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		if first, again := run(), run(); first != again {
			t.Errorf("%s: the same seed gave another result", scaler)
		}
	}
}

// Placeholders leave for pods that need the room, in no time, and come back on a
// node that Cluster Autoscaler adds for them.
func TestPlaceholdersMakeRoom(t *testing.T) {
	c := newCluster(DefaultParams(), 1, newFluid(1))
	c.record = record.New("mash2/app")
	s := loadScenario(t, "heartbeat")
	if err := c.addPool(s.Pools[0], true); err != nil {
		t.Fatal(err)
	}
	w := &workload{
		key: api.Key{Namespace: "mash2", Name: "app"}, stream: "app", request: 0.2, limit: 0.4, min: 1, max: 20,
		shape:       &api.PodShape{ID: "app", Requests: api.Resources{MilliCPU: 200, Memory: 128 << 20, Pods: 1}},
		propagation: func(*rand.Rand) time.Duration { return 0 },
	}
	c.workloads = []*workload{w}
	if err := c.traffic.AddStream(queueing.Stream{Name: "app", Work: s.Request.CPU, Think: s.ThinkTime, Timeout: s.Request.Timeout.Duration}); err != nil {
		t.Fatal(err)
	}
	c.overprovision(baseline.Placeholders(20))
	a := newScaler(c)
	c.every(0, a.Rules.ScanInterval, func() bool { a.scan(); return true })
	c.scale(w, 4)
	c.run(time.Minute)
	// Two e2-mediums of 940m are two cores for the proportional autoscaler.
	if n := len(c.placeholders.pods); n != 2 || c.placeholders.replicas != 2 {
		t.Fatalf("%d placeholders of %d, want 2", n, c.placeholders.replicas)
	}
	began := len(c.nodes)
	c.scale(w, 6) // no room but that of the placeholders: three pods of 200m fit a node
	c.run(c.now + time.Second)
	for _, p := range w.pods {
		if p.node == nil {
			t.Error("a pod is pending though placeholders hold room")
		}
	}
	c.run(c.now + 4*time.Minute)
	for _, p := range c.placeholders.pods {
		if p.node == nil {
			t.Error("a placeholder has found no room yet")
		}
	}
	if len(c.nodes) <= began {
		t.Errorf("%d nodes, no more than before", len(c.nodes))
	}
}

// The threshold is what a replica can serve of its request, at the target.
func TestThresholdOfKEDA(t *testing.T) {
	s := loadScenario(t, "heartbeat")
	w := workloadOf(s, deploymentsOf(s)[0])
	// 200m of a core of half the speed, 3 ms of work each.
	if got, want := rpsOf(s, w, 0.5), 0.2*0.5/0.003; math.Abs(got-want) > 1e-9 {
		t.Errorf("%g requests per second, want %g", got, want)
	}
}

// Who takes windows finds the same in them, however often requests are counted
// meanwhile.
func TestCountingHoldsWhatItTook(t *testing.T) {
	s := loadScenario(t, "heartbeat")
	windows := func(t *testing.T, model traffic, look func()) []queueing.Window {
		for _, err := range []error{
			model.AddStream(queueing.Stream{Name: "app", Work: s.Request.CPU, Think: s.ThinkTime, Timeout: s.Request.Timeout.Duration}),
			model.SetNode(queueing.Node{Name: "n", Cores: 2, Speed: 1}),
			model.AddPod(queueing.Pod{ID: "p", Stream: "app", Node: "n", Request: 1}),
			model.StartUsers("app", s.Traffic(1, 1)),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		model.Join("p", 0)
		var out []queueing.Window
		for at := time.Second; at <= 5*time.Minute; at += time.Second {
			model.Advance(at)
			if at%(7*time.Second) == 0 {
				look()
			}
			if at%(10*time.Second) == 0 {
				w, err := model.TakeWindow("app")
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, w)
			}
		}
		return out
	}
	plain := windows(t, newFluid(1), func() {})
	counted := newCounting(newFluid(1))
	before := 0.0
	var all uint64
	for i, w := range windows(t, counted, func() {
		if now := counted.ended("app"); now < before {
			t.Errorf("%g requests after %g", now, before)
		} else {
			before = now
		}
	}) {
		if all += w.Ended(); w.Ended() != plain[i].Ended() || w.Latency.Count() != plain[i].Latency.Count() {
			t.Errorf("window %d has %d requests, %d latencies; uncounted %d, %d", i, w.Ended(), w.Latency.Count(), plain[i].Ended(), plain[i].Latency.Count())
		}
	}
	if all < 10_000 || float64(all) != counted.ended("app") {
		t.Errorf("%d requests in windows, %g counted", all, counted.ended("app"))
	}
}

func TestParseScaler(t *testing.T) {
	tests := map[string]struct {
		kind      string
		parameter float64
		wantErr   string
	}{
		"mash2":                  {kind: Mash2},
		"mash2:70":               {kind: Mash2, parameter: 70},
		"mash2-any:90":           {kind: Mash2Any, parameter: 90},
		"hpa":                    {kind: HPA},
		"clairvoyant:100":        {kind: Clairvoyant, parameter: 100},
		"hpa-overprovisioned:15": {kind: HPAOverprovisioned, parameter: 15},
		"hpa-overprovisioned:95": {wantErr: "from 1 to 90"},
		"keda-rps:12.5":          {kind: KEDARPS, parameter: 12.5},
		"keda-rps:0":             {wantErr: "from 1"},
		"keda-rps:NaN":           {wantErr: "from 1"},
		"karpenter:60":           {kind: Karpenter, parameter: 60},
		"phpa:60.5":              {wantErr: "whole number"},
		"hpa:0":                  {wantErr: "from 1 to 400"},
		"hpa:401":                {wantErr: "from 1 to 400"},
		"mash2:101":              {wantErr: "from 1 to 100"},
		"hpa:":                   {wantErr: "from 1 to 400"},
		"static:3":               {wantErr: "takes no parameter"},
		"vpa":                    {wantErr: "none of mash2"},
		"steered":                {wantErr: "none of mash2"},
	}
	for name, tc := range tests {
		kind, parameter, err := ParseScaler(name)
		switch {
		case tc.wantErr != "":
			if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("%s: error %v, want one with %q", name, err, tc.wantErr)
			}
		case err != nil || kind != tc.kind || parameter != tc.parameter:
			t.Errorf("%s: %s with %g, error %v", name, kind, parameter, err)
		}
	}
}

// Whatever the name: it is refused, or says the same of its kind and parameter.
func FuzzParseScaler(f *testing.F) {
	for _, seed := range []string{"mash2", "hpa:60", "keda-rps:12.5", "hpa-overprovisioned:20", "static", "phpa:1e1", "karpenter:", "oracle:0x1p3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		kind, parameter, err := ParseScaler(name)
		if err != nil {
			return
		}
		if !strings.HasPrefix(name, kind) || !(parameter >= 0 && parameter <= 1e6) || parameter > 100 && kind != KEDARPS {
			t.Errorf("%q is %s with %g", name, kind, parameter)
		}
		if given := name != kind; given != (parameter > 0) {
			t.Errorf("%q has the parameter %g", name, parameter)
		}
	})
}

// What is left out of a warm-up changes nothing for who remembers minutes: the same load
// comes at the same time, and is served as well.
func TestSkippedWarmup(t *testing.T) {
	s := loadScenario(t, "heartbeat")
	run := func(skipped time.Duration, fidelity Fidelity) (requests, replicas, usd float64) {
		r := simulate(t, Options{Scenario: s, Scaler: "hpa:60", Seed: 1, WarmupPasses: 4, Passes: 2, Skipped: skipped, Fidelity: fidelity})
		m := r.Workloads[0].Measured
		return float64(m.Requests), *m.MeanReplicas, r.CostUSD[4] + r.CostUSD[5]
	}
	for _, fidelity := range []Fidelity{Fluid, PerRequest} {
		requests, replicas, usd := run(0, fidelity)
		for name, of := range map[string][2]float64{
			"requests": {requests, 0}, "mean replicas": {replicas, 1}, "USD": {usd, 2},
		} {
			var got [3]float64
			got[0], got[1], got[2] = run(3*s.PassDuration(), fidelity)
			if ratio := got[int(of[1])] / of[0]; ratio < 0.95 || ratio > 1.05 {
				t.Errorf("%s, %s: %v, without anything left out %v", fidelity, name, got[int(of[1])], of[0])
			}
		}
	}
	for _, d := range []time.Duration{-time.Second, 5 * s.PassDuration()} {
		if _, err := Run(t.Context(), Options{Scenario: s, Scaler: "hpa", Seed: 1, WarmupPasses: 4, Passes: 1, Skipped: d}); err == nil {
			t.Errorf("%v of a warm-up of four passes were left out", d)
		}
	}
}
