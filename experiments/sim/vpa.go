package sim

import (
	"math"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/baseline/vpa"
)

// vpa runs a VerticalPodAutoscaler in mode InPlaceOrRecreate of one workload: its recommender
// reads metrics-server every minute, its updater resizes pods in place, and its admission
// controller sizes new ones. Limits stay (controlledValues: RequestsOnly): by default they keep
// their ratio to requests, and with CPU controlled that throttles pods at the 90th percentile of
// what they used. A resize that the node has no room for waits; nothing is evicted.
func (r *run) vpa(w *workload, controls vpa.Controls) {
	c := r.c
	v := vpa.New(controls)
	before := c.killed
	c.killed = func(p *pod, limit float64) {
		if before(p, limit); p.workload == w {
			v.Killed(p.uid, c.time(), limit)
		}
	}
	seen := map[string]bool{}
	c.every(c.now+c.phase(vpa.Interval), vpa.Interval, func() bool {
		now := map[string]bool{}
		for _, p := range w.pods {
			cores, at, window, ok := c.usageOf(p)
			state, known := c.traffic.PodState(p.uid)
			if !ok || !known {
				continue
			}
			now[p.uid] = true
			v.Observe(p.uid, Epoch.Add(at-window), vpa.Size{CPU: cores, Memory: c.memoryOf(p, state)})
		}
		for uid := range seen {
			if !now[uid] {
				v.Forget(uid)
			}
		}
		seen = now
		rec, ok := v.Recommend()
		if !ok {
			return true
		}
		have := w.shape.Requests
		next := rec.Apply(vpa.Size{CPU: float64(have.MilliCPU) / 1000, Memory: float64(have.Memory)})
		to := api.Amounts{MilliCPU: int64(math.Ceil(next.CPU * 1000)), Memory: int64(math.Ceil(next.Memory))}
		if w.memoryLimit > 0 { // which stays
			to.Memory = min(to.Memory, int64(w.memoryLimit))
		}
		w.shape, w.request = w.shaped(to), float64(to.MilliCPU)/1000
		for _, p := range w.pods {
			request := vpa.Size{CPU: float64(p.shape.Requests.MilliCPU) / 1000, Memory: float64(p.shape.Requests.Memory)}
			if p.phase == running && !p.terminating && rec.Updates(request, c.now-p.started) {
				c.resizePod(p, w.shape, w.request, w.limit)
			}
		}
		return true
	})
}
