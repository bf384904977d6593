package sim

import (
	"math"
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/load/queueing"
)

// A pod that uses half a core of a reference machine without any request has used 60 core
// seconds of one of half its speed after a minute, and answers as many requests as one with
// a smaller limit: in both fidelities.
func TestBaseCPU(t *testing.T) {
	for _, traffic := range []traffic{newFluid(1), queueing.New(1)} {
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		beat := loadScenario(t, "heartbeat")
		must(traffic.AddStream(queueing.Stream{Name: "s", Work: beat.Request.CPU, Think: beat.ThinkTime, Timeout: time.Second}))
		must(traffic.SetNode(queueing.Node{Name: "n", Cores: 2, Speed: 0.5}))
		must(traffic.AddPod(queueing.Pod{ID: "a", Stream: "s", Node: "n", Request: 0.2, Limit: 1.5, Base: 0.5}))
		must(traffic.AddPod(queueing.Pod{ID: "b", Stream: "s", Node: "n", Request: 0.2, Limit: 1.5, Base: 0.5, Startup: 45}))
		traffic.Advance(time.Minute)
		// b has used its 45 reference seconds as it started, in no less than 60 seconds.
		for id, want := range map[string]float64{"a": 60, "b": 60} {
			state, _ := traffic.PodState(id)
			if id == "a" && math.Abs(state.Usage-want) > 0.1 || id == "b" && state.Usage < want {
				t.Errorf("%T: %s used %v core seconds, want %v", traffic, id, state.Usage, want)
			}
		}
	}
}
