package execution

import (
	"slices"
	"strconv"

	"github.com/mash2-io/mash2/api"
)

// Effects of taints that keep pods away; PreferNoSchedule only discourages.
const (
	noSchedule = "NoSchedule"
	noExecute  = "NoExecute"
)

// admits reports whether a node with this name, labels and taints accepts pods
// of the shape by the scheduler's hard rules. Resources are not looked at. A nil
// shape asks for nothing.
func admits(shape *api.PodShape, name string, labels map[string]string, taints []api.Taint) bool {
	if shape == nil {
		return toleratesAll(nil, taints)
	}
	for k, v := range shape.NodeSelector {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	if shape.Affinity != nil && !slices.ContainsFunc(shape.Affinity, func(t api.NodeTerm) bool {
		return termMatches(t, name, labels)
	}) {
		return false
	}
	return toleratesAll(shape.Tolerations, taints)
}

func toleratesAll(tolerations []api.Toleration, taints []api.Taint) bool {
	for _, t := range taints {
		if t.Effect != noSchedule && t.Effect != noExecute {
			continue
		}
		if !slices.ContainsFunc(tolerations, func(o api.Toleration) bool { return tolerates(o, t) }) {
			return false
		}
	}
	return true
}

func tolerates(o api.Toleration, t api.Taint) bool {
	if o.Effect != "" && o.Effect != t.Effect {
		return false
	}
	if o.Operator == "Exists" {
		return o.Key == "" || o.Key == t.Key
	}
	return o.Key == t.Key && o.Value == t.Value
}

// termMatches: a term without requirements matches nothing, as in Kubernetes.
func termMatches(t api.NodeTerm, name string, labels map[string]string) bool {
	if len(t.Labels) == 0 && len(t.Names) == 0 {
		return false
	}
	for _, r := range t.Labels {
		value, ok := labels[r.Key]
		if !requirementMatches(r, value, ok) {
			return false
		}
	}
	for _, r := range t.Names {
		if !requirementMatches(r, name, true) {
			return false
		}
	}
	return true
}

func requirementMatches(r api.NodeRequirement, value string, present bool) bool {
	switch r.Operator {
	case "In":
		return present && slices.Contains(r.Values, value)
	case "NotIn":
		return !present || !slices.Contains(r.Values, value)
	case "Exists":
		return present
	case "DoesNotExist":
		return !present
	case "Gt", "Lt":
		if !present || len(r.Values) != 1 {
			return false
		}
		have, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return false
		}
		limit, err := strconv.ParseInt(r.Values[0], 10, 64)
		if err != nil {
			return false
		}
		if r.Operator == "Gt" {
			return have > limit
		}
		return have < limit
	default:
		return false
	}
}
