package sim

import (
	"math"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/baseline/rightsizing"
	"github.com/mash2-io/mash2/experiments/baseline/vpa"
)

// rightsizer chooses what the pods of a workload request, by their usage.
type rightsizer interface {
	// Observe a pod's usage over the interval from one time to another.
	Observe(pod string, from, to time.Time, usage vpa.Size)
	Killed(pod string, at time.Time, limit float64)
	Forget(pod string)
	// Next is what pods of a workload that requests so much are to request, and what changes a
	// running one of them that does so since a time; false for as it is.
	Next(now time.Time, have vpa.Size) (next vpa.Size, changes func(request vpa.Size, age time.Duration) bool, ok bool)
}

// recommender is VPA's.
type recommender struct{ *vpa.VPA }

func (r recommender) Observe(pod string, from, _ time.Time, usage vpa.Size) {
	r.VPA.Observe(pod, from, usage)
}

func (r recommender) Next(_ time.Time, have vpa.Size) (vpa.Size, func(vpa.Size, time.Duration) bool, bool) {
	rec, ok := r.Recommend()
	return rec.Apply(have), rec.Updates, ok
}

// windows are rules by percentiles of usage; all pods follow at once.
type windows struct {
	of interface {
		Observe(pod string, at time.Time, usage rightsizing.Size)
		Killed(pod string, at time.Time, limit float64)
		Forget(pod string)
		Next(now time.Time, request rightsizing.Size) (rightsizing.Size, bool)
	}
}

func (w windows) Observe(pod string, _, to time.Time, usage vpa.Size) {
	w.of.Observe(pod, to, rightsizing.Size(usage))
}
func (w windows) Killed(pod string, at time.Time, limit float64) { w.of.Killed(pod, at, limit) }
func (w windows) Forget(pod string)                              { w.of.Forget(pod) }
func (w windows) Next(now time.Time, have vpa.Size) (vpa.Size, func(vpa.Size, time.Duration) bool, bool) {
	next, ok := w.of.Next(now, rightsizing.Size(have))
	return vpa.Size(next), func(request vpa.Size, _ time.Duration) bool { return request != vpa.Size(next) }, ok
}

// sized runs a rightsizer of one workload: it reads metrics-server every so often, resizes pods in
// place, and its admission sizes new ones. Limits of memory keep their ratio to requests, as by
// default (controlledValues: RequestsAndLimits). Those of CPU stay (RequestsOnly): else pods are
// throttled at the 90th percentile of what they used. A resize that the node has no room for waits;
// nothing is evicted.
func (r *run) sized(w *workload, v rightsizer, every time.Duration) {
	c := r.c
	limits := w.memoryLimit / float64(w.shape.Requests.Memory)
	before := c.killed
	c.killed = func(p *pod, limit float64) {
		if before(p, limit); p.workload == w {
			v.Killed(p.uid, c.time(), limit)
		}
	}
	seen := map[string]bool{}
	c.every(c.now+c.phase(every), every, func() bool {
		now := map[string]bool{}
		for _, p := range w.pods {
			cores, at, window, ok := c.usageOf(p)
			state, known := c.traffic.PodState(p.uid)
			if !ok || !known {
				continue
			}
			now[p.uid] = true
			v.Observe(p.uid, Epoch.Add(at-window), Epoch.Add(at), vpa.Size{CPU: cores, Memory: c.memoryOf(p, state)})
		}
		for uid := range seen {
			if !now[uid] {
				v.Forget(uid)
			}
		}
		seen = now
		have := w.shape.Requests
		next, changes, ok := v.Next(c.time(), vpa.Size{CPU: float64(have.MilliCPU) / 1000, Memory: float64(have.Memory)})
		if !ok {
			return true
		}
		to := api.Amounts{MilliCPU: int64(math.Ceil(next.CPU * 1000)), Memory: int64(math.Ceil(next.Memory))}
		w.shape, w.request = w.shaped(to), float64(to.MilliCPU)/1000
		w.memoryLimit = math.Round(limits * float64(to.Memory))
		for _, p := range w.pods {
			if p.phase != running || p.terminating {
				continue
			}
			request := vpa.Size{CPU: float64(p.shape.Requests.MilliCPU) / 1000, Memory: float64(p.shape.Requests.Memory)}
			if changes(request, c.now-p.started) {
				c.resizePod(p, w.shape, w.request, w.limit)
			}
			if limit := math.Round(limits * float64(p.shape.Requests.Memory)); limit >= p.memory { // else the kubelet waits
				p.memoryLimit = limit
			}
		}
		return true
	})
}
