// Package configmap reads the policies from their ConfigMap, strictly, and
// keeps the last good content, so that neither a slip in the ConfigMap nor a
// crash changes the policy in force.
//
// The minimal form is one key:
//
//	data:
//	  policy: COST_SAVING
//
// The full form defines or overrides policies, and may schedule them:
//
//	data:
//	  policy: ""            # empty: the schedule decides
//	  policies.yaml: |
//	    default: COST_SAVING
//	    policies:
//	      COST_SAVING: {nodePools: [cheap-pool], maxHourlyCost: 12}
//	      PERFORMANCE: {nodePools: [fast-pool], minReplicas: 3}
//	    schedule:
//	      - {cron: "0 8 * * 1-5", timeZone: Europe/London, policy: PERFORMANCE}
//	      - {cron: "0 19 * * *", timeZone: Europe/London, policy: COST_SAVING}
//
// A field that a policy leaves out keeps the built-in value of the policy of
// that name, or of COST_SAVING for a name of the user's own.
package configmap

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/strategic"
)

// Keys of the ConfigMap's data.
const (
	KeyPolicy   = "policy"
	KeyPolicies = "policies.yaml"
)

// maxSize bounds policies.yaml; a ConfigMap can hold 1 MiB.
const maxSize = 256 << 10

// file is policies.yaml. Pointers tell what is left out.
type file struct {
	Default  string                `json:"default"`
	Policies map[string]filePolicy `json:"policies"`
	Schedule []api.ScheduleEntry   `json:"schedule"`
}

type filePolicy struct {
	Weights *struct {
		Performance *float64 `json:"performance"`
		Cost        *float64 `json:"cost"`
		Resilience  *float64 `json:"resilience"`
	} `json:"weights"`
	NodePools         *[]string `json:"nodePools"`
	MachineType       *string   `json:"machineType"`
	MinReplicas       *int32    `json:"minReplicas"`
	Quantile          *float64  `json:"quantile"`
	TargetUtilization *float64  `json:"targetUtilization"`
	MaxHourlyCost     *float64  `json:"maxHourlyCost"`
	MaxNodesPerPool   *int32    `json:"maxNodesPerPool"`
}

// Parse decodes and validates the content of a policy ConfigMap. An error
// names every field that can't be used by its path.
func Parse(data, annotations map[string]string) (api.PolicySpec, error) {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if key != KeyPolicy && key != KeyPolicies {
			errs = append(errs, fmt.Errorf("data[%q]: unknown key; known are %s and %s", key, KeyPolicy, KeyPolicies))
		}
	}
	spec := api.PolicySpec{
		Manual:     strings.TrimSpace(data[KeyPolicy]),
		Policies:   strategic.Defaults(),
		Paused:     Paused(annotations),
		Generation: generation(data),
	}
	f, err := decode(data[KeyPolicies])
	if err != nil {
		return api.PolicySpec{}, errors.Join(append(errs, fmt.Errorf("%s: %w", KeyPolicies, err))...)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Policies)) {
		if strings.TrimSpace(name) != name || name == "" {
			errs = append(errs, fmt.Errorf("%s: policies: %q is no name for a policy", KeyPolicies, name))
			continue
		}
		base, ok := spec.Policies[name]
		if !ok {
			base = strategic.Defaults()[api.CostSaving]
			base.Name = name
		}
		spec.Policies[name] = f.Policies[name].over(base)
	}
	spec.Default, spec.Schedule = f.Default, f.Schedule
	if err := errors.Join(append(errs, strategic.Validate(spec))...); err != nil {
		return api.PolicySpec{}, err
	}
	return spec, nil
}

// Paused reports whether the annotations stop every write. Any value but
// "false" does: who is in a hurry must not have to know the right word.
func Paused(annotations map[string]string) bool {
	v, ok := annotations[api.AnnotationPaused]
	return ok && v != "false"
}

func decode(text string) (file, error) {
	var f file
	if strings.TrimSpace(text) == "" {
		return f, nil
	}
	if len(text) > maxSize {
		return f, fmt.Errorf("is %d bytes long, more than %d", len(text), maxSize)
	}
	body, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return f, err
	}
	strict, err := kjson.UnmarshalStrict(body, &f)
	if err != nil {
		return f, err
	}
	return f, errors.Join(strict...)
}

func (p filePolicy) over(base api.Policy) api.Policy {
	if w := p.Weights; w != nil {
		set(&base.Weights.Performance, w.Performance)
		set(&base.Weights.Cost, w.Cost)
		set(&base.Weights.Resilience, w.Resilience)
	}
	set(&base.NodePools, p.NodePools)
	set(&base.MachineType, p.MachineType)
	set(&base.MinReplicas, p.MinReplicas)
	set(&base.Quantile, p.Quantile)
	set(&base.TargetUtilization, p.TargetUtilization)
	set(&base.MaxHourlyCost, p.MaxHourlyCost)
	set(&base.MaxNodesPerPool, p.MaxNodesPerPool)
	return base
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

func generation(data map[string]string) string {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		fmt.Fprintf(h, "%q=%q\n", key, data[key])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
