package sim

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// open is the chain at a steady rate.
func open(t *testing.T, rps int) scenarios.Scenario {
	s := loadScenario(t, "train-ticket")
	s.StartVUs, s.Stages = nil, nil
	s.Arrivals = scenarios.ArrivalsOf(float64(rps), []scenarios.Stage{{Duration: 5 * time.Minute, Target: rps}})
	return s
}

// TestSteered: what is decided is carried out, and what is seen is what there is.
func TestSteered(t *testing.T) {
	s := open(t, 60)
	asked := 0
	var last []Service
	var answered float64
	decide := func(now time.Duration, services []Service, w queueing.Window) []Size {
		asked++
		answered += float64(w.Succeeded)
		last = append(last[:0], services...)
		out := make([]Size, len(services))
		for i, v := range services {
			out[i] = Size{Replicas: 2, MilliCPU: 150, Memory: v.Size.Memory + 1<<20*int64(boolean(asked == 3))}
		}
		return out
	}
	r := simulate(t, Options{Scenario: s, Scaler: Steered, Seed: 1, Passes: 1, Steering: Steering{Every: 10 * time.Second, Decide: decide}})
	if asked != 31 || len(last) != 40 {
		t.Fatalf("asked %d times about %d services", asked, len(last))
	}
	var visits float64
	for _, v := range last {
		if v.Ready != 2 || v.Replicas != 2 || v.MilliCPU != 150 || v.Size.Memory != 97<<20 || v.Pending != 0 {
			t.Fatalf("%+v", v)
		}
		visits += v.Visits
	}
	ui := last[0]
	if math.Abs(ui.Visits/60-1) > 0.15 || visits < 5*ui.Visits || !(ui.Seconds > 0.001 && ui.Seconds < 0.05) {
		t.Errorf("%g visits a second of %.4f s, of all services %g", ui.Visits, ui.Seconds, visits)
	}
	if !last[35].Optional || last[0].Optional { // news
		t.Errorf("%+v %+v", last[35], last[0])
	}
	if got := float64(r.Workloads[0].Measured.Requests); math.Abs(answered/got-1) > 0.05 {
		t.Errorf("%g requests were seen of %g", answered, got)
	}
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestBrownout: optional services may have no replica, and requests go on without them; without
// one that is needed they fail.
func TestBrownout(t *testing.T) {
	for _, c := range []struct {
		off   string
		fails bool
	}{{"news", false}, {"basic", true}} {
		var late queueing.Window
		decide := func(now time.Duration, services []Service, w queueing.Window) []Size {
			out := make([]Size, len(services))
			for i, v := range services {
				out[i] = v.Size
				out[i].Replicas = 2
				if v.Name == c.off {
					out[i].Replicas = 0
				}
			}
			if now > 2*time.Minute {
				late.Add(w)
			}
			return out
		}
		simulate(t, Options{Scenario: open(t, 60), Scaler: Steered, Seed: 1, Passes: 1, Steering: Steering{Every: 10 * time.Second, Decide: decide}})
		if failed := float64(late.Failed()) / float64(late.Ended()); (failed > 0.2) != c.fails || !c.fails && failed > 0.001 {
			t.Errorf("without %s %.3f of the requests fail", c.off, failed)
		}
	}
}

// TestSteeredIsRefused where nobody decides, or where it would not see.
func TestSteeredIsRefused(t *testing.T) {
	s := open(t, 10)
	keep := func(_ time.Duration, services []Service, _ queueing.Window) []Size { return nil }
	for says, o := range map[string]Options{
		"nobody who decides":     {},
		"needs fidelity fluid":   {Fidelity: PerRequest, Steering: Steering{Every: time.Second, Decide: keep}},
		"has nobody who decides": {Steering: Steering{Decide: keep}},
	} {
		o.Scenario, o.Scaler, o.Seed, o.Passes = s, Steered, 1, 1
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
