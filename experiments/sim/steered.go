package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// Steering decides for all services of a scenario at once: the scaler [Steered]. Its eyes are
// better than a cluster's: it sees each service as it is, without the delay of metrics.
type Steering struct {
	// Every is the time between two decisions.
	Every time.Duration
	// Decide returns what each service is to have, in the order of the services. requests is
	// what became of the users' requests since it was asked before. It is asked first when
	// the load begins.
	Decide func(now time.Duration, services []Service, requests queueing.Window) []Size
}

// Size of a service: its replicas, and what each of them requests. The limit of CPU stays in
// its ratio to the request; that of memory stays.
type Size struct {
	Replicas         int32
	MilliCPU, Memory int64
}

// Service is what Steering sees of one. Rates and means are over the time since it was asked
// before.
type Service struct {
	Name string
	// Size that was decided before.
	Size
	Min, Max int32
	// Optional is true where all calls of it are: without replicas it is left out.
	Optional bool
	// Ready replicas, and those whose pods don't find a node.
	Ready, Pending int
	// Used is the CPU of all replicas together, cores. WorkingSet is the memory of one,
	// bytes.
	Used, WorkingSet float64
	// Visits a second, and how long one took on average by itself, seconds: at most as long as
	// users wait.
	Visits, Seconds float64
}

// visitor is traffic that knows the visits to a stream of a graph since the beginning, and how
// many seconds they took all together.
type visitor interface {
	visits(stream string) (count, seconds float64)
}

// visits implements visitor.
func (f *fluid) visits(stream string) (count, seconds float64) {
	if s := f.stream(stream); s != nil {
		return s.visited, s.visitSeconds
	}
	return 0, 0
}

// steer asks Steering now and again.
func (r *run) steer() error {
	c := r.c
	counted := c.traffic.(*counting)
	seer, ok := counted.traffic.(visitor)
	if !ok {
		return fmt.Errorf("scaler %s needs fidelity %s: the other does not know how long a visit takes", Steered, Fluid)
	}
	if r.Scenario.Single() {
		return fmt.Errorf("scaler %s needs a scenario of several services", Steered)
	}
	optional := optionalServices(r.Scenario)
	var entries []string
	for _, u := range r.Scenario.UserTypes() {
		if name := streamOf(u.Request.Service); !slices.Contains(entries, name) {
			entries = append(entries, name)
		}
	}
	services := make([]Service, len(c.workloads))
	used := make([]float64, len(c.workloads))
	visited, took := make([]float64, len(c.workloads)), make([]float64, len(c.workloads))
	for i, w := range c.workloads {
		services[i] = Service{
			Name: w.key.Name, Min: w.min, Max: w.max, Optional: optional[w.key.Name],
			Size: Size{w.replicas, w.shape.Requests.MilliCPU, w.shape.Requests.Memory},
		}
	}
	last := c.now
	c.every(r.start, r.Steering.Every, func() bool {
		var requests queueing.Window
		for _, name := range entries {
			w, err := counted.seen(name)
			if err != nil {
				r.err = err
				return false
			}
			requests.Add(w)
		}
		for i, w := range c.workloads {
			s := &services[i]
			count, seconds := seer.visits(w.stream)
			state, err := c.traffic.StreamState(w.stream)
			if err != nil {
				r.err = err
				return false
			}
			if d := (c.now - last).Seconds(); d > 0 {
				s.Used, s.Visits = (state.Usage-used[i])/d, (count-visited[i])/d
			}
			s.Seconds = 0
			if count > visited[i] {
				s.Seconds = (seconds - took[i]) / (count - visited[i])
			}
			used[i], visited[i], took[i] = state.Usage, count, seconds
			s.Ready, s.Pending = 0, 0
			for _, p := range w.pods {
				switch {
				case p.ready:
					s.Ready++
				case p.node == nil && !p.terminating:
					s.Pending++
				}
			}
			s.WorkingSet = w.memoryBase + w.memoryPerRequest*float64(state.Waiting)/float64(max(s.Ready, 1))
		}
		last = c.now
		for i, size := range r.Steering.Decide(c.now-r.start, services, requests) {
			w, s := c.workloads[i], &services[i]
			ratio := 0.0
			if w.request > 0 {
				ratio = w.limit / w.request
			}
			if size.MilliCPU != s.MilliCPU || size.Memory != s.Memory {
				request := float64(size.MilliCPU) / 1000
				c.resizeWorkload(w, request, ratio*request, size.Memory)
			}
			if size.Replicas != w.replicas {
				c.scale(w, size.Replicas)
			}
			s.Size = size
		}
		return true
	})
	return nil
}

// optionalServices are those that no request needs.
func optionalServices(s scenarios.Scenario) map[string]bool {
	out := map[string]bool{}
	var walk func(scenarios.Call)
	walk = func(c scenarios.Call) {
		if before, known := out[c.Service]; !known {
			out[c.Service] = c.Optional
		} else {
			out[c.Service] = before && c.Optional
		}
		for _, below := range c.Calls {
			walk(below)
		}
	}
	for _, u := range s.UserTypes() {
		walk(u.Request)
	}
	return out
}
