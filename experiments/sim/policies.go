package sim

import (
	"context"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/strategic/configmap"
)

// Spec implements mash2.PolicySource: the scenario's policy of now, each with
// the pool that the experiments on a real control plane give it.
func (r *run) Spec(context.Context) (api.PolicySpec, []api.Finding, error) {
	name := r.policyNow()
	if spec, ok := r.policies[name]; ok {
		return spec, nil, nil
	}
	text := r.Policies
	if text == "" {
		pools := r.Scenario.Pools
		first, second := []string{pools[0].Name}, []string{pools[len(pools)-1].Name}
		kind, _, _ := kindOf(r.Scaler)
		if kind != Mash2 {
			first = nil
			for _, p := range pools {
				first = append(first, p.Name)
			}
			second = first
		}
		saving, performance := map[string]any{"nodePools": first, "mixPools": mixes(kind)}, map[string]any{"nodePools": second, "mixPools": mixes(kind)}
		if spot := r.Scenario.Policy.Spot; spot != nil && len(first) > 1 {
			saving["spot"] = map[string]any{"maxShare": spot.MaxShare, "floor": spot.Floor}
			performance["spot"] = saving["spot"]
		}
		policies, err := yaml.Marshal(map[string]any{"policies": map[string]any{api.CostSaving: saving, api.Performance: performance}})
		if err != nil {
			return api.PolicySpec{}, nil, err
		}
		text = string(policies)
	}
	spec, err := configmap.Parse(map[string]string{"policy": name, "policies.yaml": text}, nil)
	if err == nil {
		r.policies[name] = spec
	}
	return spec, nil, err
}

func (r *run) policyNow() string {
	pass := r.Scenario.PassDuration()
	at := max(0, r.c.now-r.start)
	for _, s := range slices.Backward(r.Switches) {
		if at >= s.At.Duration {
			return s.Policy
		}
	}
	if name := r.Scenario.PolicyAt(at % pass); name != "" {
		return name
	}
	return api.CostSaving
}
