package scenarios

import (
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mash2-io/mash2/api"
)

// Limits that keep a scenario computable.
const (
	maxVUs      = 100_000
	maxStage    = 24 * time.Hour // with maxVUs: Ramp's products stay within 64 bits
	maxDuration = 30 * 24 * time.Hour
)

func (s *Scenario) setDefaults() {
	if s.StartVUs == nil {
		one := 1
		s.StartVUs = &one
	}
	if s.Repeat == 0 {
		s.Repeat = 1
	}
	if s.ThinkTime == (Distribution{}) {
		s.ThinkTime = Distribution{Kind: Exponential, Mean: Duration{time.Second}}
	}
	if s.EndpointPropagation == (Distribution{}) {
		s.EndpointPropagation = Distribution{Kind: LogNormal, Mean: Duration{500 * time.Millisecond}, Deviation: Duration{250 * time.Millisecond}}
	}
	if s.Policy.Initial == "" {
		s.Policy.Initial = api.CostSaving
	}
	if s.Workload.TerminationGrace.Duration == 0 {
		s.Workload.TerminationGrace.Duration = 30 * time.Second // Kubernetes' default
	}
}

func (s *Scenario) validate(fail func(field, format string, args ...any)) {
	if errs := validation.IsDNS1123Label(s.Name); len(errs) > 0 {
		fail("name", "%q must be lower-case letters, digits and dashes", s.Name)
	}
	if len(s.Stages) == 0 && s.Arrivals == nil {
		fail("stages", "at least one stage is needed")
	}
	for i, st := range s.Stages {
		if st.Target > maxVUs {
			fail(fmt.Sprintf("stages[%d]", i), "more than %d virtual users", maxVUs)
		}
		if st.Duration > maxStage {
			fail(fmt.Sprintf("stages[%d]", i), "longer than %s", maxStage)
		}
	}
	if *s.StartVUs < 0 || *s.StartVUs > maxVUs {
		fail("startVUs", "must be between 0 and %d", maxVUs)
	}
	pass := s.PassDuration()
	if pass <= 0 && len(s.Stages) > 0 {
		fail("stages", "take no time")
	}
	if s.Repeat < 1 {
		fail("repeat", "must be at least 1")
	} else if pass > maxDuration/time.Duration(s.Repeat) {
		fail("repeat", "all passes together take longer than %s", maxDuration)
	}
	if err := s.ThinkTime.validate(); err != nil {
		fail("thinkTime", "%w", err)
	} else if s.ThinkTime.Mean.Duration < time.Millisecond {
		fail("thinkTime.mean", "must be at least 1ms: with no think time a refused user would retry for ever at the same moment")
	}
	if err := s.EndpointPropagation.validate(); err != nil {
		fail("endpointPropagation", "%w", err)
	}
	if err := s.Request.CPU.validate(); err != nil {
		fail("request.cpu", "%w", err)
	} else if s.Request.CPU.Mean.Duration <= 0 {
		fail("request.cpu.mean", "must be positive")
	}
	if s.Request.Timeout.Duration <= 0 {
		fail("request.timeout", "must be positive")
	}
	if !(s.SLO.P95Ms > 0) || math.IsInf(s.SLO.P95Ms, 0) {
		fail("slo.p95Ms", "must be positive")
	}
	if !(s.SLO.FailedRatio >= 0 && s.SLO.FailedRatio <= 1) {
		fail("slo.failedRatio", "must be between 0 and 1")
	}
	s.validateLoad(fail)
	s.validateWorkload(fail)
	var last time.Duration
	for i, sw := range s.Policy.Switches {
		at := fmt.Sprintf("policy.switches[%d]", i)
		if sw.At.Duration < last || sw.At.Duration >= pass && s.Arrivals == nil {
			fail(at+".at", "must not be before the switch above it, and within the pass of %s", pass)
		}
		if sw.Policy == "" {
			fail(at+".policy", "is missing")
		}
		last = sw.At.Duration
	}
	names := map[string]bool{}
	for i, p := range s.Pools {
		at := fmt.Sprintf("pools[%d]", i)
		if errs := validation.IsDNS1123Label(p.Name); len(errs) > 0 {
			fail(at+".name", "%q must be lower-case letters, digits and dashes", p.Name)
		}
		if names[p.Name] {
			fail(at+".name", "%q is there already", p.Name)
		}
		names[p.Name] = true
		if p.MachineType == "" {
			fail(at+".machineType", "is missing")
		}
		if len(p.Zones) == 0 {
			fail(at+".zones", "at least one zone is needed")
		}
		if b := p.NodesPerZone; b.Min < 0 || b.Max < 0 || b.Max > 0 && b.Min > b.Max {
			fail(at+".nodesPerZone", "min must not be negative or above max")
		} else if p.Nodes < b.Min || b.Max > 0 && p.Nodes > b.Max {
			fail(at+".nodes", "must be within nodesPerZone")
		}
	}
}

func (s *Scenario) validateWorkload(fail func(field, format string, args ...any)) {
	w := s.Workload
	if w.CPU.Request.MilliValue() <= 0 {
		fail("workload.cpu.request", "must be positive: utilisation is relative to it")
	}
	if !w.CPU.Limit.IsZero() && w.CPU.Limit.Cmp(w.CPU.Request.Quantity) < 0 {
		fail("workload.cpu.limit", "must not be below the request")
	}
	if w.Memory.Request.Value() <= 0 {
		fail("workload.memory.request", "must be positive")
	}
	if !w.Memory.Limit.IsZero() && w.Memory.Limit.Cmp(w.Memory.Request.Quantity) < 0 {
		fail("workload.memory.limit", "must not be below the request")
	}
	if w.Memory.Base.Sign() < 0 {
		fail("workload.memory.base", "must not be negative")
	}
	if w.Memory.PerRequest.Sign() < 0 {
		fail("workload.memory.perRequest", "must not be negative")
	}
	if w.Replicas.Min < 1 {
		fail("workload.replicas.min", "must be at least 1")
	}
	if w.Replicas.Max < w.Replicas.Min {
		fail("workload.replicas.max", "must not be below min")
	}
	if !(w.TargetUtilization > 0 && w.TargetUtilization <= 1) {
		fail("workload.targetUtilization", "must be above 0 and at most 1")
	}
	if w.PreStop.Duration < 0 || w.PreStop.Duration%time.Second != 0 {
		fail("workload.preStop", "must be whole seconds, as in a pod")
	}
	if w.TerminationGrace.Duration < w.PreStop.Duration || w.TerminationGrace.Duration%time.Second != 0 {
		fail("workload.terminationGrace", "must be whole seconds and not below preStop")
	}
}
