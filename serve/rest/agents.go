package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/api/v1alpha1"
)

// agentsChange reads what a viewer wants of the agents of a workload's pods, as a merge patch
// of spec.vertical: any of
//
//	{"run": true, "cpu": "1500m" or "", "model": "name" or "", "intervalSeconds": 2,
//	 "priorities": [{"pod": "web-0", "percent": 50}]}
//
// An empty text takes the field away.
func agentsChange(body map[string]any) (map[string]any, error) {
	if len(body) == 0 {
		return nil, badf("name what to change: run, cpu, model, intervalSeconds or priorities")
	}
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(body)) {
		v := body[name]
		text, isText := v.(string)
		switch name {
		case "run":
			if _, ok := v.(bool); !ok {
				return nil, badf("run: must be true or false")
			}
			out[name] = v
		case "cpu":
			if q, err := v1alpha1.ParseQuantity(text); !isText || text != "" && (err != nil || q.Sign() <= 0) {
				return nil, badf("cpu: must be a quantity above 0 such as 1500m, or an empty text")
			}
			out[name] = orNull(text)
		case "model":
			if !isText || len(text) > 63 || strings.ContainsAny(text, "/ ") {
				return nil, badf("model: must be the name of a model, or an empty text for the rule")
			}
			out[name] = orNull(text)
		case "intervalSeconds":
			if n, ok := v.(float64); !ok || n != float64(int32(n)) || n < 1 || n > 3600 {
				return nil, badf("intervalSeconds: must be a whole number from 1 to 3600")
			}
			out[name] = v
		case "priorities":
			list, err := priorities(v)
			if err != nil {
				return nil, badf("priorities: %v", err)
			}
			out[name] = list
		default:
			return nil, badf("%s: there is no such field; run, cpu, model, intervalSeconds and priorities can be changed", name)
		}
	}
	return out, nil
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// priorities as the API server would have them; those of 100 are the default, and left out.
func priorities(v any) ([]v1alpha1.PodPriority, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var list []v1alpha1.PodPriority
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("must be a list of pods with their percent")
	}
	seen := map[string]bool{}
	for _, p := range list {
		switch {
		case p.Pod == "" || seen[p.Pod]:
			return nil, fmt.Errorf("each pod must be named once")
		case p.Percent < 1 || p.Percent > 100:
			return nil, fmt.Errorf("%s: percent must be 1 to 100, is %d", p.Pod, p.Percent)
		}
		seen[p.Pod] = true
	}
	return slices.DeleteFunc(list, func(p v1alpha1.PodPriority) bool { return p.Percent == 100 }), nil
}
