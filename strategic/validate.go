package strategic

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Bounds on what a policy may say, so that a slip of the keyboard is refused.
const (
	maxWeight = 1e6
	// maxObjective is one that some days of samples can tell about.
	maxObjective = 0.9999
	maxReplicas  = 100_000
	maxCost      = 1e9 // USD/h
	maxSchedule  = 100
	maxDuration  = 31 * 24 * time.Hour
	maxWindow    = 7 * 24 * time.Hour
	maxSignals   = 20
	// maxSignalQuery is the length of a query, bytes; sensing bounds what it may cost.
	maxSignalQuery = 4096
)

var (
	signalName   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)
	configMapKey = regexp.MustCompile(`^[-._A-Za-z0-9]+$`)
)

// leapYear is a time after which every day that exists comes within the five
// years that cron looks ahead.
var leapYear = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Validate reports everything in the spec that can't be used, each with its
// path as in the ConfigMap.
func Validate(spec api.PolicySpec) error {
	var errs []error
	bad := func(path, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
	}
	names := slices.Sorted(maps.Keys(spec.Policies))
	known := func(path, name string) {
		if _, ok := spec.Policies[name]; !ok {
			bad(path, "there is no policy %q; known are %s", name, strings.Join(names, ", "))
		}
	}
	if spec.Manual != "" {
		known("policy", spec.Manual)
	}
	if spec.Default != "" {
		known("default", spec.Default)
	}
	for _, name := range names {
		if err := validatePolicy("policies."+name, spec.Policies[name]); err != nil {
			errs = append(errs, err)
		}
	}
	if n := len(spec.Schedule); n > maxSchedule {
		bad("schedule", "must have at most %d entries, has %d", maxSchedule, n)
	}
	for i, e := range spec.Schedule[:min(len(spec.Schedule), maxSchedule)] {
		path := fmt.Sprintf("schedule[%d]", i)
		schedule, zone, err := parse(e)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s.%w", path, err))
		case schedule.Next(leapYear.In(zone)).IsZero():
			bad(path+".cron", "%q never fires: there is no such day", e.Cron)
		}
		known(path+".policy", e.Policy)
	}
	if n := len(spec.Signals); n > maxSignals {
		bad("signals", "must have at most %d entries, has %d", maxSignals, n)
	}
	names = nil
	for i, s := range spec.Signals[:min(len(spec.Signals), maxSignals)] {
		path := fmt.Sprintf("signals[%d]", i)
		if slices.Contains(names, s.Name) {
			bad(path+".name", "%q is the name of another signal", s.Name)
		}
		names = append(names, s.Name)
		known(path+".policy", s.Policy)
		if err := validateSignal(path, s); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// validateSignal reports what of one signal can't be used, but for its policy.
func validateSignal(path string, s api.Signal) error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s.%s: %s", path, field, fmt.Sprintf(format, args...)))
	}
	if !signalName.MatchString(s.Name) {
		bad("name", "must be of letters, digits and dashes, at most 63, is %q", s.Name)
	}
	if (s.Query == "") == (s.Key == "") {
		bad("prometheus", "a signal reads either prometheus.query or configMapKey")
	}
	if len(s.Query) > maxSignalQuery {
		bad("prometheus.query", "is longer than %d bytes", maxSignalQuery)
	}
	if s.Key != "" && (len(s.Key) > 253 || !configMapKey.MatchString(s.Key)) {
		bad("configMapKey", "%q is no key of a ConfigMap", s.Key)
	}
	switch s.Compare {
	case api.CompareAbove, api.CompareBelow:
		for _, v := range []float64{s.On, s.Off} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				bad(string(s.Compare), "must be a finite number, is %v", v)
			}
		}
		if s.Compare == api.CompareAbove && s.Off > s.On {
			bad("until", "must not be above %g, from which the signal is on, is %g", s.On, s.Off)
		}
		if s.Compare == api.CompareBelow && s.Off < s.On {
			bad("until", "must not be below %g, from which the signal is on, is %g", s.On, s.Off)
		}
	case api.CompareEquals:
		if s.Query != "" {
			bad("equals", "is for a configMapKey; a query gives a number: use above or below")
		}
	default:
		bad("above", "a signal needs one of above, below and equals")
	}
	if s.MinStay < 0 || s.MinStay > maxDuration {
		bad("minStay", "must be from 0 to %v, is %v", maxDuration, s.MinStay)
	}
	return errors.Join(errs...)
}

func validatePolicy(path string, p api.Policy) error {
	var errs []error
	within := func(field string, v, low, high float64, says string) {
		// Written so that NaN is refused.
		if !(v >= low && v <= high) {
			errs = append(errs, fmt.Errorf("%s.%s: must be %s, is %v", path, field, says, v))
		}
	}
	within("weights.performance", p.Weights.Performance, 0, maxWeight, "0 or more")
	within("weights.cost", p.Weights.Cost, 0, maxWeight, "0 or more")
	within("weights.resilience", p.Weights.Resilience, 0, maxWeight, "0 or more")
	if p.Weights == (api.Weights{}) {
		errs = append(errs, fmt.Errorf("%s.weights: must not all be 0: nothing would be better than anything else", path))
	}
	within("minReplicas", float64(p.MinReplicas), 1, maxReplicas, "1 or more")
	within("objective", p.Objective, 0, maxObjective, "0 (none) or above and below 1, 0.9999 at most")
	within("quantile", p.Quantile, math.SmallestNonzeroFloat64, math.Nextafter(1, 0), "above 0 and below 1")
	within("targetUtilization", p.TargetUtilization, 0.01, 1, "from 0.01 to 1")
	within("maxHourlyCost", p.MaxHourlyCost, 0, maxCost, "0 (unbounded) or more USD/h")
	within("minNodesPerPool", float64(p.MinNodesPerPool), 0, maxReplicas, "0 or more")
	if p.MaxNodesPerPool > 0 && p.MinNodesPerPool > p.MaxNodesPerPool {
		errs = append(errs, fmt.Errorf("%s.minNodesPerPool: must not be above maxNodesPerPool, which is %d, is %d", path, p.MaxNodesPerPool, p.MinNodesPerPool))
	}
	within("maxNodesPerPool", float64(p.MaxNodesPerPool), 0, maxReplicas, "0 (unbounded) or more")
	if s := p.Spot; s != nil {
		within("spot.maxShare", s.MaxShare, math.SmallestNonzeroFloat64, 1, "stated, above 0 and at most 1")
		within("spot.floor", float64(s.Floor), 0, maxReplicas, "0 or more")
	}
	d := p.Disruption
	within("disruption.podPrice", d.PodPrice, 0, maxCost, "0 (the default) or more USD")
	within("disruption.maxEvictions", float64(d.MaxEvictions), 0, maxReplicas, "0 (the default) or more")
	for _, t := range []struct {
		field string
		value time.Duration
	}{
		{"payback", d.Payback}, {"growTimeout", d.GrowTimeout}, {"moveTimeout", d.MoveTimeout}, {"retryAfter", d.RetryAfter},
	} {
		if t.value < 0 || t.value > maxDuration || t.value > 0 && t.value < time.Minute {
			errs = append(errs, fmt.Errorf("%s.disruption.%s: must be 0 (the default) or between 1m and %v, is %v", path, t.field, maxDuration, t.value))
		}
	}
	within("canary.share", p.Canary.Share, 0, 0.5, "0 (the default) or above, 0.5 at most")
	within("canary.worseBy", p.Canary.WorseBy, 0, 10, "0 (the default) or above, 10 error budgets at most")
	within("canary.dearerBy", p.Canary.DearerBy, 0, 10, "0 (the default) or above, 10 at most")
	within("canary.alpha", p.Canary.Alpha, 0, 0.5, "0 (the default) or above, 0.5 at most")
	within("canary.band", p.Canary.Band, 0, 10, "0 (none) or above, 10 at most")
	for _, t := range []struct {
		field string
		value time.Duration
	}{{"baseline", p.Canary.Baseline}, {"soak", p.Canary.Soak}} {
		if t.value < 0 || t.value > maxDuration || t.value > 0 && t.value < time.Minute {
			errs = append(errs, fmt.Errorf("%s.canary.%s: must be 0 (the default) or between 1m and %v, is %v", path, t.field, maxDuration, t.value))
		}
	}
	if h := p.Rollback.Hold; h < 0 || h > maxDuration || h > 0 && h < time.Minute {
		errs = append(errs, fmt.Errorf("%s.rollback.hold: must be 0 (the default) or between 1m and %v, is %v", path, maxDuration, h))
	}
	for i, namespace := range p.Rollback.Namespaces {
		if strings.TrimSpace(namespace) == "" {
			errs = append(errs, fmt.Errorf("%s.rollback.namespaces[%d]: is empty", path, i))
		}
	}
	for i, w := range d.Windows {
		at := fmt.Sprintf("%s.disruption.windows[%d]", path, i)
		if w.Duration < time.Minute || w.Duration > maxWindow {
			errs = append(errs, fmt.Errorf("%s.duration: must be between 1m and %v, is %v", at, maxWindow, w.Duration))
		}
		schedule, zone, err := parse(api.ScheduleEntry{Cron: w.Cron, TimeZone: w.TimeZone})
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s.%w", at, err))
		case schedule.Next(leapYear.In(zone)).IsZero():
			errs = append(errs, fmt.Errorf("%s.cron: %q never fires: there is no such day", at, w.Cron))
		}
	}
	for i, pool := range p.NodePools {
		switch {
		case strings.TrimSpace(pool) == "":
			errs = append(errs, fmt.Errorf("%s.nodePools[%d]: is empty", path, i))
		case slices.Contains(p.NodePools[:i], pool):
			errs = append(errs, fmt.Errorf("%s.nodePools[%d]: names %q twice", path, i, pool))
		}
	}
	return errors.Join(errs...)
}
