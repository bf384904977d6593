package placement

import (
	"slices"
	"strconv"

	"github.com/mash2-io/mash2/api"
)

// nodeName is the only field that a NodeTerm's Names can be about.
const nodeName = "metadata.name"

// affine reports whether one of the terms matches. No terms at all (nil) ask for
// nothing; a list without a term that can match matches no node.
func (s Site) affine(terms []api.NodeTerm) bool {
	return terms == nil || slices.ContainsFunc(terms, s.matches)
}

// matches reports whether all requirements of a term hold. A term without any
// matches nothing.
func (s Site) matches(term api.NodeTerm) bool {
	if len(term.Labels)+len(term.Names) == 0 {
		return false
	}
	for _, r := range term.Labels {
		v, ok := s.Label(r.Key)
		if !holds(r, v, ok) {
			return false
		}
	}
	for _, r := range term.Names {
		// A node to come has a name, and it is not one that is known.
		named := (r.Key == nodeName || r.Key == "") && len(r.Values) == 1 && (r.Operator == "In" || r.Operator == "NotIn")
		if !named || !holds(r, s.Name, true) {
			return false
		}
	}
	return true
}

// holds reports whether a requirement holds for a value, or for its absence. One
// that the API server would not accept holds for nothing.
func holds(r api.NodeRequirement, value string, present bool) bool {
	switch r.Operator {
	case "In":
		return present && slices.Contains(r.Values, value)
	case "NotIn":
		return len(r.Values) > 0 && (!present || !slices.Contains(r.Values, value))
	case "Exists":
		return len(r.Values) == 0 && present
	case "DoesNotExist":
		return len(r.Values) == 0 && !present
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

// TellsZones reports whether a shape's node selector or affinity can tell the
// zones of a pool apart.
func TellsZones(shape *api.PodShape) bool {
	for _, key := range ZoneKeys {
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
