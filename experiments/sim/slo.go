package sim

import (
	"math"
	"time"

	"github.com/mash2-io/mash2/api"
)

// SLO is a service level objective of simulated workloads.
type SLO struct {
	// Objective is the share of requests that are to be answered, 0–1; 0 for none.
	Objective float64
	// Errors are of requests that would be answered, for a reason that no scaler sees.
	Errors []Errors
}

// Errors of a share of all requests, from a scenario time on for a while.
type Errors struct {
	At, For time.Duration
	Share   float64
	// Canaries is true for errors of those workloads only that mash2 acts for in a trial.
	Canaries bool
}

// sloSensor is Prometheus' look at the requests of a workload.
type sloSensor struct {
	SLO
	acts       func() bool   // whether the workload is a canary that is acted for
	start      time.Duration // of scenario time
	total, bad []point
	before     float64 // requests at the last look
	injected   float64
}

func (s SLO) sensor(acts func() bool) *sloSensor {
	if s.Objective <= 0 {
		return nil
	}
	return &sloSensor{SLO: s, acts: acts, start: math.MaxInt64}
}

// scrape looks at the counters.
func (s *sloSensor) scrape(c *Cluster, stream string) {
	counted, ok := c.traffic.(*counting)
	if s == nil || !ok {
		return
	}
	all := counted.ended(stream)
	if math.IsNaN(all) {
		return
	}
	answered := all - counted.failed[stream]
	for _, e := range s.Errors {
		if at := c.now - s.start; at >= e.At && at < e.At+e.For && (!e.Canaries || s.acts()) {
			s.injected += e.Share * max(0, answered-s.before)
		}
	}
	s.before = answered
	keep := func(list []point, value float64) []point {
		list = append(list, point{c.now, value})
		for len(list) > 2 && list[0].at < c.now-10*c.params.ScrapeInterval {
			list = list[1:]
		}
		return list
	}
	s.total, s.bad = keep(s.total, all), keep(s.bad, counted.failed[stream]+s.injected)
}

// read is the operator's query: the events of three scrapes.
func (s *sloSensor) read(c *Cluster) []api.SLO {
	if s == nil {
		return nil
	}
	const scrapes = 3
	at, window := c.now-c.params.EvaluationDelay, scrapes*c.params.ScrapeInterval
	out := api.SLO{Name: "answered", Objective: s.Objective, At: Epoch.Add(at), Window: window}
	total, ok := rate(s.total, at, window)
	bad, ok2 := rate(s.bad, at, window)
	if !ok || !ok2 || c.scrapeDown {
		out.Missing = "the query gives no series"
		return []api.SLO{out}
	}
	out.Total, out.Bad = total*window.Seconds(), bad*window.Seconds()
	return []api.SLO{out}
}
