package planning_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
)

// large is 1,000 workloads with 10,000 pods on about 1,000 nodes in a steady
// state, every workload with its own level and phase.
func large(t testing.TB, workloads int, history time.Duration, f forecast.Forecaster) *world {
	p := costSaving()
	p.NodePools = []string{fast}
	w := newWorld(t, p, f)
	w.pools = pools(3)
	for i := range workloads {
		level := float64(300 + 7*(i%200))
		shift := time.Duration(i%16) * 15 * time.Second
		l := w.load(fmt.Sprintf("app-%04d", i), 10, 40, history, func(at time.Time) float64 {
			return level * (0.3 + heartbeat(at.Add(shift))/1230)
		})
		l.Shape = shape(l.Key.Name, int64(100+10*(i%20)), int64(128+32*(i%7)))
	}
	w.settle()
	return w
}

// BenchmarkPlan is one cycle of a large cluster, all steps of planning.
func BenchmarkPlan(b *testing.B) {
	for _, c := range []struct {
		name string
		f    forecast.Forecaster
	}{{"reactive", nil}, {"forecast", forecast.Auto{}}} {
		b.Run(c.name, func(b *testing.B) {
			w := large(b, 1000, 2*time.Hour, c.f)
			for range 3 {
				w.cycle() // get to a steady state
			}
			s := w.snapshot()
			b.ReportMetric(float64(len(s.Pods)), "pods")
			b.ReportMetric(float64(len(s.Nodes)), "nodes")
			var plan api.Plan
			var m planning.Memory
			b.ResetTimer()
			for b.Loop() {
				plan, m = w.planner.Plan(s, w.policy, w.memory)
			}
			b.ReportMetric(float64(plan.Search.Packings), "packings")
			_ = m
		})
	}
}
