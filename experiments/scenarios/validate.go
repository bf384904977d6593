package scenarios

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/gkesim"
)

// Limits that keep a scenario computable.
const (
	maxVUs      = 100_000
	maxStage    = 24 * time.Hour // with maxVUs: Ramp's products stay within 64 bits
	maxStages   = 10_000         // with maxStage: their sum does
	maxPriority = 1_000_000_000
	maxDuration = 60 * 24 * time.Hour
	// maxStartupCPU keeps pods from starting for ever.
	maxStartupCPU = 30 * time.Minute
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
	s.setServiceDefaults()
}

func (s *Scenario) validate(fail failure) {
	if errs := validation.IsDNS1123Label(s.Name); len(errs) > 0 {
		fail("name", "%q must be lower-case letters, digits and dashes", s.Name)
	}
	own := slices.ContainsFunc(s.Users, func(u UserType) bool { return len(u.Stages) > 0 || u.Arrivals != nil })
	switch {
	case len(s.Stages) == 0 && s.Arrivals == nil && !own:
		fail("stages", "at least one stage is needed, or arrivals")
	case len(s.Stages) > 0 && s.Arrivals != nil:
		fail("arrivals", "a scenario has either stages or arrivals")
	}
	validateStages(s.Stages, s.StartVUs, "", fail)
	s.Arrivals.validate("arrivals", fail)
	s.Noise.validate("noise", fail)
	pass := s.PassDuration()
	if pass <= 0 && (len(s.Stages) > 0 || own) && !s.traced() {
		fail("stages", "take no time")
	}
	if s.Copies < 0 || s.Copies > 1000 || s.Copies > 1 && len(s.Services) > 0 {
		fail("copies", "must be between 1 and 1000, and 1 with services")
	}
	if s.Warmup.Passes < 0 || s.Warmup.Passes > 10_000 {
		fail("warmup.passes", "must be between 0 and 10000")
	} else if s.Repeat < 1 {
		fail("repeat", "must be at least 1")
	} else if pass > maxDuration/time.Duration(max(1, s.Repeat+s.Warmup.Passes)) {
		fail("repeat", "all passes together take longer than %s", maxDuration)
	}
	validateThink(s.ThinkTime, "thinkTime", fail)
	if err := s.EndpointPropagation.validate(); err != nil {
		fail("endpointPropagation", "%w", err)
	}
	validateWork(s.Request.CPU, "request.cpu", fail)
	if s.Request.Timeout.Duration <= 0 {
		fail("request.timeout", "must be positive")
	}
	s.SLO.validate("slo", fail)
	s.Workload.validate("workload", fail)
	s.validateServices(fail)
	s.validateEvents(fail)
	if d := s.BootMedian.Duration; d < 0 || d > time.Hour {
		fail("bootMedian", "must be between 0 and 1h")
	}
	var last time.Duration
	for i, sw := range s.Policy.Switches {
		at := fmt.Sprintf("policy.switches[%d]", i)
		if sw.At.Duration < last || sw.At.Duration >= pass && !s.traced() {
			fail(at+".at", "must not be before the switch above it, and within the pass of %s", pass)
		}
		if sw.Policy == "" {
			fail(at+".policy", "is missing")
		}
		last = sw.At.Duration
	}
	s.validatePools(fail)
}

func (s *Scenario) validatePools(fail failure) {
	if s.Pools != nil && len(s.Pools) == 0 {
		fail("pools", "must not be empty")
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
		} else if _, simulated := gkesim.Machines[p.MachineType]; !simulated {
			fail(at+".machineType", "%q is none of %s", p.MachineType, strings.Join(slices.Sorted(maps.Keys(gkesim.Machines)), ", "))
		}
		if len(p.Zones) == 0 {
			fail(at+".zones", "at least one zone is needed")
		}
		if b := p.NodesPerZone; b.Min < 0 || b.Max < 0 || b.Max > 0 && b.Min > b.Max {
			fail(at+".nodesPerZone", "min must not be negative or above max")
		} else if p.Nodes < b.Min || b.Max > 0 && p.Nodes > b.Max {
			fail(at+".nodes", "must be within nodesPerZone")
		}
		if d := p.BootMedian.Duration; d < 0 || d > time.Hour {
			fail(at+".bootMedian", "must be between 0 and 1h")
		}
		p.Spot.validate(at+".spot", fail)
	}
}

func (m *SpotMachines) validate(at string, fail failure) {
	if m == nil {
		return
	}
	if !(m.PriceRatio > 0 && m.PriceRatio <= 1) {
		fail(at+".priceRatio", "must be above 0 and at most 1")
	}
	if !(m.InterruptionsPerHour >= 0 && m.InterruptionsPerHour <= 60) {
		fail(at+".interruptionsPerHour", "must be between 0 and 60")
	}
	if d := m.Outage.Duration; d < 0 || d > 24*time.Hour {
		fail(at+".outage", "must be between 0 and 24h")
	}
}

// validateStages checks stages and the users they start from; prefix is that of
// their fields' paths.
func validateStages(stages []Stage, start *int, prefix string, fail failure) {
	if len(stages) > maxStages {
		fail(prefix+"stages", "more than %d", maxStages)
	}
	for i, st := range stages {
		if st.Target > maxVUs {
			fail(fmt.Sprintf("%sstages[%d]", prefix, i), "more than %d virtual users", maxVUs)
		}
		if st.Duration > maxStage {
			fail(fmt.Sprintf("%sstages[%d]", prefix, i), "longer than %s", maxStage)
		}
	}
	if start != nil && (*start < 0 || *start > maxVUs) {
		fail(prefix+"startVUs", "must be between 0 and %d", maxVUs)
	}
}

func (s SLO) validate(at string, fail failure) {
	if !(s.P95Ms > 0) || math.IsInf(s.P95Ms, 0) {
		fail(at+".p95Ms", "must be positive")
	}
	if !(s.FailedRatio >= 0 && s.FailedRatio <= 1) {
		fail(at+".failedRatio", "must be between 0 and 1")
	}
}

func (w Workload) validate(at string, fail failure) {
	if w.CPU.Request.MilliValue() <= 0 {
		fail(at+".cpu.request", "must be positive: utilisation is relative to it")
	}
	if !w.CPU.Limit.IsZero() && w.CPU.Limit.Cmp(w.CPU.Request.Quantity) < 0 {
		fail(at+".cpu.limit", "must not be below the request")
	}
	if w.CPU.Base.Sign() < 0 || !w.CPU.Limit.IsZero() && w.CPU.Base.Cmp(w.CPU.Limit.Quantity) >= 0 {
		fail(at+".cpu.base", "must not be negative, and must be below the limit")
	}
	if w.Memory.Request.Value() <= 0 {
		fail(at+".memory.request", "must be positive")
	}
	if !w.Memory.Limit.IsZero() && w.Memory.Limit.Cmp(w.Memory.Request.Quantity) < 0 {
		fail(at+".memory.limit", "must not be below the request")
	}
	if w.Memory.Base.Sign() < 0 {
		fail(at+".memory.base", "must not be negative")
	}
	if w.Memory.PerRequest.Sign() < 0 {
		fail(at+".memory.perRequest", "must not be negative")
	}
	if !(w.Memory.Spread >= 0 && w.Memory.Spread <= 2) {
		fail(at+".memory.spread", "must be between 0 and 2")
	}
	if d := w.Memory.Correlation.Duration; d != 0 && d < time.Minute {
		fail(at+".memory.correlation", "must be 1m or more")
	}
	if w.Replicas.Min < 1 {
		fail(at+".replicas.min", "must be at least 1")
	}
	if w.Replicas.Max < w.Replicas.Min {
		fail(at+".replicas.max", "must not be below min")
	}
	if !(w.TargetUtilization > 0 && w.TargetUtilization <= 1) {
		fail(at+".targetUtilization", "must be above 0 and at most 1")
	}
	if w.Priority > maxPriority {
		fail(at+".priority", "must be at most %d, the highest of a PriorityClass of users", maxPriority)
	}
	if d := w.StartupCPU.Duration; d < 0 || d > maxStartupCPU {
		fail(at+".startupCPU", "must be between 0 and %s", maxStartupCPU)
	}
	if w.PreStop.Duration < 0 || w.PreStop.Duration%time.Second != 0 {
		fail(at+".preStop", "must be whole seconds, as in a pod")
	}
	if w.TerminationGrace.Duration < w.PreStop.Duration || w.TerminationGrace.Duration%time.Second != 0 {
		fail(at+".terminationGrace", "must be whole seconds and not below preStop")
	}
}
