package planning_test

import (
	"testing"
	"time"

	"github.com/mash2-io/mash2/forecast"
)

func TestDebug(t *testing.T) {
	w := newWorld(t, costSaving(), forecast.Auto{})
	w.add("shop", 1, 10, 40*time.Minute, heartbeat)
	for i := 0; i < 40; i++ {
		if i == 20 {
			w.policy = performance()
		}
		p := w.cycle()
		t.Logf("%3d d=%4.0f %s U=%.3f c=%+v", i, p.Workloads[0].Demand, state(p), p.Utility.Total, p.Search)
		t.Logf("     %s | %s", p.Workloads[0].Binding, p.Workloads[0].Reason)
		for _, f := range p.Findings { t.Log("   F ", f) }
	}
}
