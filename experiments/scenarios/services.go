package scenarios

import (
	"fmt"
	"math"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Names of what a scenario without services and user types has.
const (
	DefaultService = "web"
	DefaultUsers   = "users"
)

// Service is one of several Deployments. What it leaves out of a Workload's
// fields is the scenario's workload's.
type Service struct {
	Name string `yaml:"name"`
	// Work of one visit in CPU seconds on a core of the reference machine;
	// default request.cpu.
	Work     Distribution `yaml:"work,omitempty"`
	Workload `yaml:",inline"`
}

// UserType is who sends one kind of request. Its load is a share of the
// scenario's stages or arrivals, or stages or arrivals of its own.
type UserType struct {
	Name string `yaml:"name"`
	// Share of the scenario's load, above 0; the shares add up to 1.
	Share float64 `yaml:"share,omitempty"`
	// StartVUs, Stages and Arrivals of its own, instead of a share.
	StartVUs *int      `yaml:"startVUs,omitempty"`
	Stages   []Stage   `yaml:"stages,omitempty"`
	Arrivals *Arrivals `yaml:"arrivals,omitempty"`
	// ThinkTime, Timeout and SLO; default the scenario's. The SLO is that of the
	// whole request, from the user's side.
	ThinkTime Distribution `yaml:"thinkTime,omitempty"`
	Timeout   Duration     `yaml:"timeout,omitempty"`
	SLO       *SLO         `yaml:"slo,omitempty"`
	// Request is the first service a request comes to, and all it needs there.
	Request Call `yaml:"request"`
}

// Call is a visit to a service: the service does its work, then makes its own
// calls, and answers when all of them were answered. A call that fails lets the
// one that made it fail.
type Call struct {
	Service string `yaml:"service"`
	// Work of this visit, if it is not the service's.
	Work Distribution `yaml:"work,omitempty"`
	// Probability that the call is made, such as that of a cache miss; default 1.
	Probability float64 `yaml:"probability,omitempty"`
	// Times the call is made, one after the other; default 1.
	Times int `yaml:"times,omitempty"`
	// Parallel makes the calls below at once (fan-out) and waits for the
	// slowest; else they are made one after the other.
	Parallel bool `yaml:"parallel,omitempty"`
	// Optional calls are left out while the service has no endpoint: whoever makes them
	// answers without that part (brownout).
	Optional bool `yaml:"optional,omitempty"`
	// Calls of the service before it answers.
	Calls []Call `yaml:"calls,omitempty"`
}

// Limits of graphs.
const (
	maxServices  = 500
	maxUserTypes = 100
	maxDepth     = 32
	maxTimes     = 1000
	maxVisits    = 100_000 // of one request, on average
)

// Deployments are the scenario's services, or the one workload as a service.
func (s Scenario) Deployments() []Service {
	if len(s.Services) == 0 {
		return []Service{{Name: DefaultService, Work: s.Request.CPU, Workload: s.Workload}}
	}
	return s.Services
}

// UserTypes are the scenario's types of users, or the one that asks the one
// workload. All their fields are filled in but those of the load: see Traffic.
func (s Scenario) UserTypes() []UserType {
	if len(s.Users) > 0 {
		return s.Users
	}
	slo := s.SLO
	return []UserType{{
		Name: DefaultUsers, Share: 1, ThinkTime: s.ThinkTime, Timeout: s.Request.Timeout, SLO: &slo,
		Request: Call{Service: s.Deployments()[0].Name, Work: s.Deployments()[0].Work, Probability: 1, Times: 1},
	}}
}

// Single tells whether there is one workload and one type of users, whose
// requests go no further.
func (s Scenario) Single() bool {
	users := s.UserTypes()
	return len(s.Deployments()) == 1 && len(users) == 1 && len(users[0].Request.Calls) == 0
}

// UsersOnly tells whether there is nothing but virtual users of one workload and
// switches of policies: what an experiment on a real control plane can do.
func (s Scenario) UsersOnly() bool {
	return s.Single() && !s.traced() && s.Noise == nil && len(s.Events) == 0 && s.Deployments()[0].StartupCPU.Duration == 0 &&
		s.Deployments()[0].CPU.Base.Sign() == 0
}

// MeanWork is what one request of the type asks of each service, in reference
// CPU seconds, on average.
func (u UserType) MeanWork() map[string]float64 {
	out := map[string]float64{}
	u.Request.addWork(1, out)
	return out
}

func (c Call) addWork(times float64, out map[string]float64) {
	times *= c.Probability * float64(c.Times)
	out[c.Service] += times * c.Work.MeanSeconds()
	for _, below := range c.Calls {
		below.addWork(times, out)
	}
}

func (s *Scenario) setServiceDefaults() {
	work := map[string]Distribution{}
	for i := range s.Services {
		v := &s.Services[i]
		inherit(reflect.ValueOf(&v.Workload).Elem(), reflect.ValueOf(s.Workload))
		if v.Work == (Distribution{}) {
			v.Work = s.Request.CPU
		}
		work[v.Name] = v.Work
	}
	if len(s.Services) == 0 {
		work[DefaultService] = s.Request.CPU
	}
	for i := range s.Users {
		u := &s.Users[i]
		if u.ThinkTime == (Distribution{}) {
			u.ThinkTime = s.ThinkTime
		}
		if u.Timeout.Duration == 0 {
			u.Timeout = s.Request.Timeout
		}
		if u.SLO == nil {
			slo := s.SLO
			u.SLO = &slo
		}
		if u.StartVUs == nil && len(u.Stages) > 0 {
			one := 1
			u.StartVUs = &one
		}
		u.Request.setDefaults(work)
	}
}

func (c *Call) setDefaults(work map[string]Distribution) {
	if c.Work == (Distribution{}) {
		c.Work = work[c.Service]
	}
	if c.Probability == 0 {
		c.Probability = 1
	}
	if c.Times == 0 {
		c.Times = 1
	}
	for i := range c.Calls {
		c.Calls[i].setDefaults(work)
	}
}

type failure func(field, format string, args ...any)

func (s *Scenario) validateServices(fail failure) {
	if len(s.Services) > maxServices {
		fail("services", "more than %d", maxServices)
		return
	}
	if len(s.Users) > maxUserTypes {
		fail("users", "more than %d", maxUserTypes)
		return
	}
	known := map[string]bool{}
	for i := range s.Services {
		v, at := &s.Services[i], fmt.Sprintf("services[%d]", i)
		if errs := validation.IsDNS1123Label(v.Name); len(errs) > 0 {
			fail(at+".name", "%q must be lower-case letters, digits and dashes", v.Name)
		} else if known[v.Name] {
			fail(at+".name", "%q is there already", v.Name)
		}
		known[v.Name] = true
		validateWork(v.Work, at+".work", fail)
		v.Workload.validate(at, fail)
	}
	if len(s.Services) == 0 {
		known[DefaultService] = true
	}
	if len(s.Services) > 1 && len(s.Users) == 0 {
		fail("users", "are missing: who asks which of the %d services?", len(s.Services))
	}
	names, shares := map[string]bool{}, 0.0
	shared := false
	for i := range s.Users {
		u, at := &s.Users[i], fmt.Sprintf("users[%d]", i)
		if errs := validation.IsDNS1123Label(u.Name); len(errs) > 0 {
			fail(at+".name", "%q must be lower-case letters, digits and dashes", u.Name)
		} else if names[u.Name] {
			fail(at+".name", "%q is there already", u.Name)
		}
		names[u.Name] = true
		own := len(u.Stages) > 0 || u.Arrivals != nil
		switch {
		case own && u.Share != 0:
			fail(at+".share", "users have either a share or stages or arrivals of their own")
		case own:
			validateStages(u.Stages, u.StartVUs, at+".", fail)
			if u.Arrivals != nil {
				if len(u.Stages) > 0 {
					fail(at+".arrivals", "there are either stages or arrivals")
				}
				u.Arrivals.validate(at+".arrivals", fail)
			}
		case !(u.Share > 0 && u.Share <= 1):
			fail(at+".share", "must be above 0 and at most 1, or there must be stages or arrivals")
		default:
			shared = true
			shares += u.Share
		}
		validateThink(u.ThinkTime, at+".thinkTime", fail)
		if u.Timeout.Duration <= 0 {
			fail(at+".timeout", "must be positive")
		}
		u.SLO.validate(at+".slo", fail)
		if u.Request.Optional {
			fail(at+".request.optional", "a request itself is not optional")
		}
		if visits := u.Request.validate(at+".request", known, 1, fail); visits > maxVisits {
			fail(at+".request", "makes %.0f calls, more than %d", visits, maxVisits)
		}
	}
	if shared && math.Abs(shares-1) > 1e-6 {
		fail("users", "the shares add up to %g, not to 1", shares)
	}
	if shared && len(s.Stages) == 0 && s.Arrivals == nil {
		fail("users", "have shares of stages or arrivals that are missing")
	}
	if !shared && len(s.Users) > 0 && (len(s.Stages) > 0 || s.Arrivals != nil) {
		fail("users", "none has a share of the scenario's stages or arrivals")
	}
}

// validate returns the mean number of visits.
func (c Call) validate(at string, known map[string]bool, depth int, fail failure) float64 {
	if depth > maxDepth {
		fail(at, "more than %d calls within each other", maxDepth)
		return 0
	}
	if !known[c.Service] {
		fail(at+".service", "%q is none of the services", c.Service)
		return 0
	}
	validateWork(c.Work, at+".work", fail)
	if !(c.Probability > 0 && c.Probability <= 1) {
		fail(at+".probability", "must be above 0 and at most 1")
	}
	if c.Times < 1 || c.Times > maxTimes {
		fail(at+".times", "must be between 1 and %d", maxTimes)
	}
	visits := 1.0
	for i, below := range c.Calls {
		visits += below.validate(fmt.Sprintf("%s.calls[%d]", at, i), known, depth+1, fail)
	}
	return visits * c.Probability * float64(c.Times)
}

func validateWork(d Distribution, at string, fail failure) {
	if err := d.validate(); err != nil {
		fail(at, "%w", err)
	} else if d.Mean.Duration <= 0 {
		fail(at+".mean", "must be positive")
	}
}

func validateThink(d Distribution, at string, fail failure) {
	if err := d.validate(); err != nil {
		fail(at, "%w", err)
	} else if d.Mean.Duration < time.Millisecond {
		fail(at+".mean", "must be at least 1ms: with no think time a refused user would retry for ever at the same moment")
	}
}
