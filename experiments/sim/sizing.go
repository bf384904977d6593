package sim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
)

// sizer is what the operator knows of a workload's one container, where it chooses what
// that requests.
type sizer struct {
	author, limits api.Amounts // as the scenario has them
	w              *workload
	since, until   time.Duration
	memory, cpu    float64 // the most of any replica: bytes and cores of its node
	sum            float64 // of CPU, over n readings of pods
	n              int
	maxima         map[time.Duration]float64 // of memory, by the number of the part of time
}

// part is what the operator keeps the most of, and the last eight days of that.
const (
	part      = 130 * time.Minute
	partsKept = 96
)

const container = "main"

// newSizer begins with what the scenario requests.
func newSizer(w *workload) *sizer {
	return &sizer{
		author: api.Amounts{MilliCPU: w.shape.Requests.MilliCPU, Memory: w.shape.Requests.Memory},
		limits: api.Amounts{MilliCPU: int64(math.Round(1000 * w.limit)), Memory: int64(w.memoryLimit)},
		w:      w, since: -1, maxima: map[time.Duration]float64{},
	}
}

// scrape reads what the pods of a workload use, by their newest scrapes.
func (s *sizer) scrape(c *Cluster, w *workload) {
	if s == nil {
		return
	}
	for _, p := range w.pods {
		state, ok := c.traffic.PodState(p.uid)
		if p.phase != running || !ok {
			continue
		}
		if s.since < 0 {
			s.since = c.now
		}
		s.until = c.now
		used := c.memoryOf(p, state)
		s.memory = math.Max(s.memory, used)
		s.maxima[c.now/part] = math.Max(s.maxima[c.now/part], used)
		delete(s.maxima, c.now/part-partsKept)
		if cores, ok := rate(p.scrapes, c.now, c.params.RateWindow); ok {
			s.cpu = math.Max(s.cpu, cores)
			s.sum, s.n = s.sum+cores, s.n+1
		}
	}
}

// sizing is what the Observer says of it. New pods get what the last plan wants.
func (s *sizer) sizing() *api.Sizing {
	if s == nil {
		return nil
	}
	u := api.ContainerUse{Name: container, Requests: s.author, Limits: s.limits}
	if s.since >= 0 {
		u.Since, u.Until = Epoch.Add(s.since), Epoch.Add(s.until)
		u.MemoryPeak = int64(math.Ceil(s.memory))
		u.MemoryResident = u.MemoryPeak // pods of the simulation have no files
		maxima := make([]float64, 0, len(s.maxima))
		for _, number := range slices.Sorted(maps.Keys(s.maxima)) {
			maxima = append(maxima, s.maxima[number])
		}
		u.MemoryTail = int64(math.Ceil(demand.ReturnLevel(maxima, int(24*time.Hour/part)+1, 1e-5)))
		u.MemoryKnown = time.Duration(len(s.maxima)) * part
		if k := s.w.oom; k.limit > 0 {
			u.OOMKilled, u.OOMLimit = Epoch.Add(k.at), int64(k.limit)
		}
		u.CPUPeak, u.CPUMean = int64(math.Ceil(1000*s.cpu)), int64(math.Ceil(1000*s.sum/float64(max(s.n, 1))))
	}
	return &api.Sizing{Mode: api.SizingInPlace, Limits: api.LimitsKeep, Containers: []api.ContainerUse{u}, Guaranteed: s.author == s.limits, Admits: true}
}

// sizeOf is what a pod asks for.
func sizeOf(p *pod) *api.PodSize {
	r := p.shape.Requests
	return &api.PodSize{ID: p.shape.ID, Containers: []api.ContainerSize{{
		Name: container, Requests: api.Amounts{MilliCPU: r.MilliCPU, Memory: r.Memory}, Limits: api.Amounts{MilliCPU: int64(math.Round(1000 * p.limit)), Memory: int64(p.memoryLimit)},
	}}}
}

// shaped is the shape of a workload's pods that request so much.
func (w *workload) shaped(requests api.Amounts) *api.PodShape {
	id := fmt.Sprintf("%s %s", w.key.Name, requests)
	if w.shape.ID == id {
		return w.shape
	}
	shape := *w.shape
	shape.ID, shape.Requests.MilliCPU, shape.Requests.Memory = id, requests.MilliCPU, requests.Memory
	return &shape
}

// resizeOne is the operator's write to a pod's resize subresource.
func (c *Cluster) resizeOne(a api.ResizePod) {
	p := c.pods[a.UID]
	if p == nil || p.terminating {
		return
	}
	limit := p.limit
	if a.Limits.MilliCPU > 0 {
		limit = float64(a.Limits.MilliCPU) / 1000
	}
	if a.Limits.Memory > 0 {
		p.memoryLimit = float64(a.Limits.Memory)
	}
	c.resizePod(p, p.workload.shaped(a.To), float64(a.To.MilliCPU)/1000, limit)
}

// admit lets new pods have the sizes that a plan wants.
func (c *Cluster) admit(plans []api.WorkloadPlan) {
	for _, plan := range plans {
		if !plan.Sizing.Acts() {
			continue
		}
		for _, w := range c.workloads {
			if w.key == plan.Key {
				size := plan.Sizing.Containers[0]
				w.shape, w.request = w.shaped(size.Requests), float64(size.Requests.MilliCPU)/1000
				if size.Limits.MilliCPU > 0 {
					w.limit = float64(size.Limits.MilliCPU) / 1000
				}
				if size.Limits.Memory > 0 {
					w.memoryLimit = float64(size.Limits.Memory)
				}
			}
		}
	}
}
