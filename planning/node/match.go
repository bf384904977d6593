package node

import (
	"slices"
	"strconv"

	"github.com/mash2-io/mash2/api"
)

// nodeName is the only field a NodeTerm's Names can be about.
const nodeName = "metadata.name"

// labelHostname is different on every node.
const labelHostname = "kubernetes.io/hostname"

// Keys of the labels that differ between the zones of a pool.
var zoneKeys = []string{api.LabelZone, "topology.gke.io/zone", "failure-domain.beta.kubernetes.io/zone"}

// site is what placing depends on besides room. Name is empty for a node that
// does not exist yet.
type site struct {
	name   string
	labels map[string]string
	zone   string // overrides zoneKeys when not empty
	taints []api.Taint
}

func (s site) label(key string) (string, bool) {
	if s.zone != "" && slices.Contains(zoneKeys, key) {
		return s.zone, true
	}
	v, ok := s.labels[key]
	return v, ok
}

// accepts reports whether the scheduler would let a pod of this shape onto the
// site, room aside: node selector, required node affinity, and taints of effect
// NoSchedule and NoExecute.
func (s site) accepts(shape *api.PodShape) bool {
	for key, want := range shape.NodeSelector {
		if have, ok := s.label(key); !ok || have != want {
			return false
		}
	}
	if len(shape.Affinity) > 0 && !slices.ContainsFunc(shape.Affinity, s.matches) {
		return false
	}
	return tolerated(s.taints, shape.Tolerations)
}

// matches a term when all its requirements hold; a term without any matches
// nothing, as for the scheduler.
func (s site) matches(term api.NodeTerm) bool {
	if len(term.Labels)+len(term.Names) == 0 {
		return false
	}
	for _, r := range term.Labels {
		v, ok := s.label(r.Key)
		if !holds(r, v, ok) {
			return false
		}
	}
	for _, r := range term.Names {
		// A node to come has a name, and it is not one that is known.
		if r.Key != nodeName && r.Key != "" || !holds(r, s.name, true) {
			return false
		}
	}
	return true
}

// holds reports whether a requirement holds for a value, or for its absence.
func holds(r api.NodeRequirement, value string, present bool) bool {
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
		bound, err := strconv.ParseInt(r.Values[0], 10, 64)
		if err != nil {
			return false
		}
		if r.Operator == "Gt" {
			return have > bound
		}
		return have < bound
	}
	return false
}

func tolerated(taints []api.Taint, tolerations []api.Toleration) bool {
	for _, taint := range taints {
		if taint.Effect != "NoSchedule" && taint.Effect != "NoExecute" {
			continue
		}
		if !slices.ContainsFunc(tolerations, func(t api.Toleration) bool { return tolerates(t, taint) }) {
			return false
		}
	}
	return true
}

func tolerates(t api.Toleration, taint api.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	switch t.Operator {
	case "", "Equal":
		return t.Key == taint.Key && t.Value == taint.Value
	case "Exists":
		return t.Key == "" || t.Key == taint.Key // no key tolerates everything
	}
	return false
}

// zonal reports whether a shape can tell the zones of a pool apart.
func zonal(shape *api.PodShape) bool {
	for _, key := range zoneKeys {
		if _, ok := shape.NodeSelector[key]; ok {
			return true
		}
		for _, term := range shape.Affinity {
			if slices.ContainsFunc(term.Labels, func(r api.NodeRequirement) bool { return r.Key == key }) {
				return true
			}
		}
	}
	return false
}
