package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/planning/vertical"
)

// A graph of services, eight with three types of users and forty with four: both
// fidelities agree on what each service uses and on what users see, whoever scales.
func TestGraphsAgree(t *testing.T) {
	for _, test := range []struct {
		scenario, scaler string
		services         int
		// tolerances, relative
		cpu, requests, p50, p95, replicas float64
	}{
		{"hotel", "static", 8, 0.03, 0.02, 0.15, 0.25, 0},
		{"train-ticket", "static", 40, 0.06, 0.02, 0.15, 0.25, 0},
		{"train-ticket", "hpa", 40, 0.06, 0.02, 0.15, 0.25, 0.10},
		{"train-ticket", "mash2", 40, 0.06, 0.02, 0.15, 0.25, 0.10},
	} {
		t.Run(test.scenario+" "+test.scaler, func(t *testing.T) {
			s := loadScenario(t, test.scenario)
			if len(s.Services) != test.services {
				t.Fatalf("%d services", len(s.Services))
			}
			s.Stages = s.Stages[:3] // one wave
			var runs [2]Result
			for i, fidelity := range []Fidelity{Fluid, PerRequest} {
				runs[i] = simulate(t, Options{Scenario: s, Scaler: test.scaler, Seed: 1, Fidelity: fidelity, Passes: 1})
			}
			compare := func(of, name string, a, b, tolerance float64) {
				t.Helper()
				t.Logf("%-14s %-8s fluid %8.4g, per request %8.4g (%+.1f %%)", of, name, a, b, 100*(a/b-1))
				if !(math.Abs(a/b-1) <= tolerance+1e-9) {
					t.Errorf("%s: %s is %.4g fluid and %.4g per request, more than %.0f %% apart", of, name, a, b, 100*tolerance)
				}
			}
			var cpu, replicas [2]float64
			for i, w := range runs[0].Workloads {
				fluid, exact := w.Measured, runs[1].Workloads[i].Measured
				cpu[0], cpu[1] = cpu[0]+fluid.ReferenceCPUSeconds, cpu[1]+exact.ReferenceCPUSeconds
				replicas[0], replicas[1] = replicas[0]+*fluid.MeanReplicas, replicas[1]+*exact.MeanReplicas
				if exact.ReferenceCPUSeconds > 5 { // what is asked rarely varies by chance
					compare(w.Name, "CPU s", fluid.ReferenceCPUSeconds, exact.ReferenceCPUSeconds, test.cpu)
				}
				if exact.Requests > 0 {
					compare(w.Name, "requests", float64(fluid.Requests), float64(exact.Requests), test.requests)
					compare(w.Name, "p50", *fluid.P50Ms, *exact.P50Ms, test.p50)
					compare(w.Name, "p95", *fluid.P95Ms, *exact.P95Ms, test.p95)
				}
			}
			compare("all", "CPU s", cpu[0], cpu[1], 0.02)
			compare("all", "replicas", replicas[0], replicas[1], test.replicas)
			compare("all", "node USD", runs[0].CostUSD[0], runs[1].CostUSD[0], 2*test.replicas)
		})
	}
}

// What a lost node had is answered by nobody until the proxies know, in a graph of
// services as well, in both fidelities.
func TestGraphLosesANode(t *testing.T) {
	s := loadScenario(t, "hotel")
	s.Stages = []scenarios.Stage{{Duration: 6 * time.Minute, Target: 200}}
	users := 200
	s.StartVUs = &users
	for i := range s.Services {
		s.Services[i].Replicas = scenarios.Bounds{Min: 4, Max: 4}
	}
	s.Pools[0].Nodes = 12
	s.Events = []scenarios.Event{{At: duration(3 * time.Minute), FailNodes: 1, Pool: s.Pools[0].Name}}
	var failed [2]float64
	for i, fidelity := range []Fidelity{Fluid, PerRequest} {
		r := simulate(t, Options{Scenario: s, Scaler: "static", Seed: 1, Fidelity: fidelity, Passes: 1})
		for _, w := range r.Workloads {
			failed[i] += float64(w.Measured.TimedOut)
		}
	}
	t.Logf("timed out: %.0f fluid, %.0f per request", failed[0], failed[1])
	if failed[1] < 100 || math.Abs(failed[0]/failed[1]-1) > 0.25 {
		t.Errorf("%.0f requests timed out fluid, %.0f per request", failed[0], failed[1])
	}
}

// slower against single draws: the longer of two sums of exponential times.
func TestSlower(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, test := range []struct{ a, b float64 }{{1, 1}, {1, 3}, {2, 0.1}} {
		var sum, squares float64
		const n = 200_000
		for range n {
			x := max(test.a*rng.ExpFloat64(), test.b*rng.ExpFloat64())
			sum += x
			squares += x * x
		}
		wantMean := sum / n
		wantVariance := squares/n - wantMean*wantMean
		mean, variance := slower(test.a, test.a*test.a, test.b, test.b*test.b)
		if math.Abs(mean/wantMean-1) > 0.02 || math.Abs(variance/wantVariance-1) > 0.04 {
			t.Errorf("%v: mean %.3f variance %.3f, drawn %.3f and %.3f", test, mean, variance, wantMean, wantVariance)
		}
	}
}

// closedRate finds the root of any response that does not fall, from any guess.
func TestClosedRate(t *testing.T) {
	for name, answer := range map[string]func(float64) float64{
		"none":      func(float64) float64 { return 0 },
		"constant":  func(float64) float64 { return 2 },
		"queueing":  func(x float64) float64 { return min(0.01/max(1-x/80, 1e-12), 5) },
		"a step":    func(x float64) float64 { return map[bool]float64{true: 5, false: 0.1}[x > 50] },
		"a fall in": func(x float64) float64 { return 0.5 - 0.1*math.Sin(x) },
	} {
		for _, guess := range []float64{0, 1e-9, 1, 30, 77, 1e6} {
			const n, think = 100, 1.0
			calls := 0
			x := closedRate(n, think, guess, func(x float64) float64 { calls++; return answer(x) })
			below, above := x*(1-1e-6), x*(1+1e-6)
			if below*(think+answer(below)) > n*(1+1e-5) || above*(think+answer(above)) < n*(1-1e-5) || calls > 65 {
				t.Errorf("%s from %v: %v after %d calls", name, guess, x, calls)
			}
		}
	}
}

// A pod that is killed while its service can't keep up resets what waits for it, which is no
// more than came within the users' patience.
func TestGraphKillsASaturatedPod(t *testing.T) {
	s := loadScenario(t, "train-ticket")
	s.Users = s.Users[:1]
	s.Users[0].Share, s.Users[0].Timeout.Duration = 1, 2*time.Second
	s.Arrivals = scenarios.ArrivalsOf(600, []scenarios.Stage{{Duration: 2 * time.Minute, Target: 600}})
	s.StartVUs, s.Stages = nil, nil
	var resets float64
	simulate(t, Options{Scenario: s, Scaler: "static", Seed: 1, Passes: 1, inspect: func(c *Cluster) {
		f := c.traffic.(*fluid)
		if err := f.StartArrivals(s.Users[0].Name, begun{s.TrafficOf(0, 1, 1), 0}); err != nil { // again, after the run
			t.Fatal(err)
		}
		ui := f.stream(streamOf("ui"))
		for _, p := range slices.Clone(ui.endpoints)[1:] {
			p.kill()
			p.unroute()
		}
		f.step(1)
		before := ui.counts.reset
		ui.endpoints[0].kill()
		resets = ui.counts.reset - before
	}})
	if !(resets > 100 && resets <= 600*2*1.2) {
		t.Errorf("%.0f requests were reset, of 600 a second that are waited for up to 2 s", resets)
	}
}

// A service whose pods are of different sizes, and that can't keep up for a few seconds: both
// fidelities agree on what users see and what pods request.
func TestUnevenPodsAgree(t *testing.T) {
	var runs [2]Result
	for i, fidelity := range []Fidelity{Fluid, PerRequest} {
		o := Options{Scenario: bursting(t), Scaler: Mash2, Seed: 1, Passes: 1, WarmupPasses: 1, Fidelity: fidelity}
		o.Agents = &Agents{Rule: vertical.DefaultProportional(), MilliCPU: 2000, Floor: 100, Ceiling: 300, Every: time.Second}
		runs[i] = simulate(t, o)
	}
	var cores [2]float64
	for i, r := range runs {
		for _, w := range r.Workloads {
			cores[i] += w.Measured.ReadyCPUSeconds
		}
	}
	fluid, exact := runs[0].Workloads[0].Measured, runs[1].Workloads[0].Measured
	for _, c := range []struct {
		name           string
		a, b, tolerant float64
	}{
		{"p50", *fluid.P50Ms, *exact.P50Ms, 0.4}, {"p95", *fluid.P95Ms, *exact.P95Ms, 0.3}, {"p99", *fluid.P99Ms, *exact.P99Ms, 0.4},
		{"requested CPU", cores[0], cores[1], 0.15},
	} {
		t.Logf("%s: fluid %.4g, per request %.4g", c.name, c.a, c.b)
		if math.Abs(c.a/c.b-1) > c.tolerant {
			t.Errorf("%s is %.4g fluid and %.4g per request", c.name, c.a, c.b)
		}
	}
}

// TestQueueAfter: in time a queue is that of M/M/1; what comes beyond the capacity waits, for no
// longer than users do; and after a surge it is as before.
func TestQueueAfter(t *testing.T) {
	const work, patience = 0.002, 2.0
	c := class{speed: 1, cores: 2, capacity: 0.1} // 50 a second
	after := func(rate, seconds, dt float64) float64 {
		for range int(seconds / dt) {
			c.queue = c.queueAfter(rate, work, dt, patience)
		}
		return c.queue
	}
	for _, dt := range []float64{0.1, 1, 3} {
		c.queue = 0
		if got := after(25, 60, dt); math.Abs(got-1) > 0.01 {
			t.Errorf("half full, by %v s: %v requests, of M/M/1 1", dt, got)
		}
		// Ten seconds of 60 a second: 100 are left over, less what was there to serve.
		if got := after(60, 9, dt); got < 80 || got > 100 {
			t.Errorf("overloaded for nine seconds by ten a second, by %v s: %v requests", dt, got)
		}
		if got := after(500, 60, dt); got != 100 {
			t.Errorf("by %v s: %v requests wait, of 50 a second for two seconds", dt, got)
		}
		if got := after(25, 60, dt); math.Abs(got-1) > 0.01 {
			t.Errorf("afterwards, by %v s: %v requests", dt, got)
		}
	}
	if got := after(0, 60, 1); got != 0 || c.served(got, work) != 0 {
		t.Errorf("without load: %v", got)
	}
	if got := c.served(1, work); math.Abs(got-25) > 1e-9 {
		t.Errorf("a queue of one: %v a second", got)
	}
	last := -1.0
	for rate := 0.0; rate < 200; rate++ {
		c.queue = 3
		got := c.queueAfter(rate, work, 1, patience)
		if got < last {
			t.Errorf("at %v a second: %v, before %v", rate, got, last)
		}
		last = got
	}
}
