package strategic

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api"
)

// Bounds on what a policy may say, so that a slip of the keyboard is refused.
const (
	maxWeight   = 1e6
	maxReplicas = 100_000
	maxCost     = 1e9 // USD/h
)

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
	for i, e := range spec.Schedule {
		path := fmt.Sprintf("schedule[%d]", i)
		if _, _, err := parse(e); err != nil {
			errs = append(errs, fmt.Errorf("%s.%w", path, err))
		}
		known(path+".policy", e.Policy)
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
	within("minReplicas", float64(p.MinReplicas), 1, maxReplicas, "1 or more")
	within("quantile", p.Quantile, math.SmallestNonzeroFloat64, math.Nextafter(1, 0), "above 0 and below 1")
	within("targetUtilization", p.TargetUtilization, 0.01, 1, "from 0.01 to 1")
	within("maxHourlyCost", p.MaxHourlyCost, 0, maxCost, "0 (unbounded) or more USD/h")
	within("maxNodesPerPool", float64(p.MaxNodesPerPool), 0, maxReplicas, "0 (unbounded) or more")
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
