package scenarios

import (
	"fmt"
	"slices"
	"time"
)

// Event changes the world for a while, at a time of every pass.
type Event struct {
	At Duration `yaml:"at"`
	// For is how long it lasts; 0 to the end of the pass.
	For Duration `yaml:"for,omitempty"`
	// LoadFactor multiplies users or arrivals, of all types of users or of those
	// of one; 0 leaves them alone.
	LoadFactor float64 `yaml:"loadFactor,omitempty"`
	Users      string  `yaml:"users,omitempty"`
	// WorkFactor multiplies the work of a visit, of all services or of one; 0
	// leaves it alone.
	WorkFactor float64 `yaml:"workFactor,omitempty"`
	Service    string  `yaml:"service,omitempty"`
	// Resize changes CPU request and limit of pods, of all services or of one, in
	// place: running ones are resized, new ones come with these. A limit of none is
	// none.
	Resize *CPU `yaml:"resize,omitempty"`
	// Noise comes on top of the scenario's own.
	Noise *Noise `yaml:"noise,omitempty"`
	// MetricsOutage: Prometheus is away.
	MetricsOutage bool `yaml:"metricsOutage,omitempty"`
	// MetricsFactor is what Prometheus reads of CPU as a share of what there is,
	// as when relabelling loses some of the series; 0 leaves it alone.
	MetricsFactor float64 `yaml:"metricsFactor,omitempty"`
	// Stockout names zones that have no machines.
	Stockout []string `yaml:"stockout,omitempty"`
	// QuotaVCPU is the most vCPUs that all pools together may have; nodes that
	// are there stay.
	QuotaVCPU *int64 `yaml:"quotaVCPU,omitempty"`
	// FailNodes is how many Ready nodes of a pool, those there longest, stop
	// working at once, without a word; the provider replaces them.
	FailNodes int    `yaml:"failNodes,omitempty"`
	Pool      string `yaml:"pool,omitempty"`
}

// Noise multiplies the load by a random factor around 1: the exponential of an
// Ornstein–Uhlenbeck process with this standard deviation and correlation time.
type Noise struct {
	Deviation   float64  `yaml:"deviation"`
	Correlation Duration `yaml:"correlation"`
}

// Warmup is what comes before that which is measured, for every scaler alike.
type Warmup struct {
	// Passes that come first and are not measured. Of stages they are the same
	// as those measured; of arrivals they are what the trace has before from,
	// so that nobody has seen what comes.
	Passes int `yaml:"passes,omitempty"`
}

func (n *Noise) validate(at string, fail failure) {
	if n == nil {
		return
	}
	if !(n.Deviation >= 0 && n.Deviation <= 2) {
		fail(at+".deviation", "must be between 0 and 2")
	}
	if n.Correlation.Duration < time.Second {
		fail(at+".correlation", "must be at least 1s")
	}
}

func (s *Scenario) validateEvents(fail failure) {
	pass := s.PassDuration() // 0 before traces are read: readTraces looks again
	zones, pools := map[string]bool{}, map[string]bool{}
	for _, p := range s.Pools {
		pools[p.Name] = true
		for _, z := range p.Zones {
			zones[z] = true
		}
	}
	for i, e := range s.Events {
		at := fmt.Sprintf("events[%d]", i)
		if e.At.Duration < 0 || e.At.Duration > maxDuration {
			fail(at+".at", "must be between 0 and %s", maxDuration)
		} else if pass > 0 && !s.traced() && e.At.Duration >= pass {
			fail(at+".at", "must be within the pass of %s", pass)
		}
		if e.For.Duration < 0 || e.For.Duration > maxDuration {
			fail(at+".for", "must be between 0 and %s", maxDuration)
		}
		if !(e.LoadFactor >= 0 && e.LoadFactor <= 100) {
			fail(at+".loadFactor", "must be between 0 and 100")
		}
		if !(e.WorkFactor >= 0 && e.WorkFactor <= 100) {
			fail(at+".workFactor", "must be between 0 and 100")
		}
		if e.Users != "" && !slices.ContainsFunc(s.UserTypes(), func(u UserType) bool { return u.Name == e.Users }) {
			fail(at+".users", "%q are none of the scenario's users", e.Users)
		}
		if e.Service != "" && !slices.ContainsFunc(s.Deployments(), func(v Service) bool { return v.Name == e.Service }) {
			fail(at+".service", "%q is none of the services", e.Service)
		}
		if e.Users != "" && e.LoadFactor == 0 {
			fail(at+".users", "goes with loadFactor")
		}
		if e.Service != "" && e.WorkFactor == 0 && e.Resize == nil {
			fail(at+".service", "goes with workFactor or resize")
		}
		if c := e.Resize; c != nil {
			if c.Request.MilliValue() <= 0 {
				fail(at+".resize.request", "must be positive")
			}
			if !c.Limit.IsZero() && c.Limit.Cmp(c.Request.Quantity) < 0 {
				fail(at+".resize.limit", "must not be below the request")
			}
			if !c.Base.IsZero() {
				fail(at+".resize.base", "a resize does not change what a pod uses")
			}
		}
		if !(e.MetricsFactor >= 0 && e.MetricsFactor <= 100) {
			fail(at+".metricsFactor", "must be between 0 and 100")
		}
		e.Noise.validate(at+".noise", fail)
		for j, z := range e.Stockout {
			if !zones[z] {
				fail(fmt.Sprintf("%s.stockout[%d]", at, j), "no pool is in the zone %q", z)
			}
		}
		if e.QuotaVCPU != nil && *e.QuotaVCPU < 0 {
			fail(at+".quotaVCPU", "must not be negative")
		}
		if e.FailNodes < 0 {
			fail(at+".failNodes", "must not be negative")
		}
		if e.Pool != "" && e.FailNodes == 0 {
			fail(at+".pool", "goes with failNodes")
		} else if e.FailNodes > 0 && !pools[e.Pool] {
			fail(at+".pool", "%q is none of the pools", e.Pool)
		}
		if e.LoadFactor == 0 && e.WorkFactor == 0 && e.Noise == nil && !e.MetricsOutage && e.MetricsFactor == 0 && e.Resize == nil &&
			len(e.Stockout) == 0 && e.QuotaVCPU == nil && e.FailNodes == 0 {
			fail(at, "changes nothing")
		}
	}
}

// during tells whether the event is on at a time of the pass.
func (e Event) during(at time.Duration) bool {
	return at >= e.At.Duration && (e.For.Duration == 0 || at < e.At.Duration+e.For.Duration)
}

// WorkFactor is what events make of the work of a service's visits at a time of
// a pass.
func (s Scenario) WorkFactor(service string, at time.Duration) float64 {
	f := 1.0
	for _, e := range s.Events {
		if e.WorkFactor > 0 && (e.Service == "" || e.Service == service) && e.during(at) {
			f *= e.WorkFactor
		}
	}
	return f
}
