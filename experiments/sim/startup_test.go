package sim

import (
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/planning"
)

// A pod that takes 20 seconds of CPU to start, at a limit of one core of half a reference one, is
// Ready after 40, has used 40 core seconds of its own, and served nothing meanwhile: in both fidelities.
// One with less room takes longer.
func TestStartup(t *testing.T) {
	for name, c := range map[string]struct {
		speed, limit float64
		others       int // that start beside it, on two cores
		want         time.Duration
	}{
		"at its limit":             {0.5, 1, 0, 40 * time.Second},
		"at a higher one":          {1, 2, 0, 10 * time.Second},
		"on all there is":          {1, 0, 0, 10 * time.Second},
		"with its share of a node": {1, 1, 3, 40 * time.Second},
	} {
		for _, traffic := range []traffic{newFluid(1), queueing.New(1)} {
			must := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			beat := loadScenario(t, "heartbeat")
			must(traffic.AddStream(queueing.Stream{Name: "s", Work: beat.Request.CPU, Think: beat.ThinkTime, Timeout: time.Second}))
			must(traffic.SetNode(queueing.Node{Name: "n", Cores: 2, Speed: c.speed}))
			for i := range 1 + c.others {
				must(traffic.AddPod(queueing.Pod{ID: string(rune('a' + i)), Stream: "s", Node: "n", Request: 0.2, Limit: c.limit, Startup: 20}))
			}
			at := time.Duration(0)
			for state, _ := traffic.PodState("a"); state.Starting; state, _ = traffic.PodState("a") {
				if at += time.Second; at > 10*time.Minute {
					t.Fatalf("%s, %T: it never starts", name, traffic)
				}
				traffic.Advance(at)
			}
			if d := (at - c.want).Abs(); d > 3*time.Second {
				t.Errorf("%s, %T: started after %v, want %v", name, traffic, at, c.want)
			}
			traffic.Advance(at + time.Minute)
			state, _ := traffic.PodState("a")
			if want := 20 / c.speed; state.Usage < want*0.999 || state.Usage > want*1.001 {
				t.Errorf("%s, %T: it used %v core seconds, want %v", name, traffic, state.Usage, want)
			}
		}
	}
}

// What pods take to start is no demand: where each takes as much as it serves in minutes, the
// operator sees no more of a load that comes and goes than where they take nothing, and no less.
func TestStartingPodsAreNoDemand(t *testing.T) {
	most := func(startup time.Duration) (demand float64) {
		s := loadScenario(t, "heartbeat-warm")
		s.Workload.CPU = scenarios.CPU{Request: quantity(t, "200m"), Limit: quantity(t, "1")}
		s.Workload.StartupCPU = duration(startup)
		seen := func(in planning.Input, p planning.Proposal, _ queueing.Window) planning.Proposal {
			if v, _, ok := in.Workload.Demand.Last(); ok {
				demand = max(demand, v)
			}
			return p
		}
		simulate(t, Options{Scenario: s, Scaler: "mash2-any", Seed: 1, Fidelity: Fluid, Passes: 4, Decide: seen})
		return demand
	}
	none, some := most(0), most(15*time.Second)
	t.Logf("the highest demand is %.0f millicores, where pods take 15 s of CPU to start %.0f", none, some)
	if some < 0.9*none || some > clearly*none {
		t.Errorf("the highest demand is %.0f millicores, where pods take 15 s of CPU to start %.0f", none, some)
	}
}

// clearly is by how much more a pod may use than others before it is taken to start.
const clearly = 1.25
