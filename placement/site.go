package placement

import (
	"slices"

	"github.com/mash2-io/mash2/api"
)

// ZoneKeys are the labels of a node that tell its zone: those of Kubernetes, now
// and before 1.17, and GKE's.
var ZoneKeys = []string{api.LabelZone, "topology.gke.io/zone", "failure-domain.beta.kubernetes.io/zone"}

// Site is what placing depends on besides room: a node, or one that may come.
type Site struct {
	// Name of the node; empty for one that does not exist yet.
	Name   string
	Labels map[string]string
	// Zone overrides ZoneKeys when it is not empty: for a node to come, of which
	// the labels of its pool are known.
	Zone   string
	Taints []api.Taint
}

// SiteOf is the site of a node that exists.
func SiteOf(n *api.Node) Site { return Site{Name: n.Name, Labels: n.Labels, Taints: n.Taints} }

// Label returns the value of a label and whether the site has it.
func (s Site) Label(key string) (string, bool) {
	if s.Zone != "" && slices.Contains(ZoneKeys, key) {
		return s.Zone, true
	}
	v, ok := s.Labels[key]
	return v, ok
}

// Admits reports whether the scheduler would let a pod of this shape onto the
// site, room aside: by node selector, required node affinity, and taints. A nil
// shape asks for nothing and tolerates nothing.
func (s Site) Admits(shape *api.PodShape) bool {
	if shape == nil {
		return Tolerated(s.Taints, nil)
	}
	return s.selected(shape.NodeSelector) && s.affine(shape.Affinity) && Tolerated(s.Taints, shape.Tolerations)
}

func (s Site) selected(selector map[string]string) bool {
	for key, want := range selector {
		if have, ok := s.Label(key); !ok || have != want {
			return false
		}
	}
	return true
}

// Tolerated reports whether tolerations let a pod onto a node with these taints.
// Only the effects NoSchedule and NoExecute keep pods away.
func Tolerated(taints []api.Taint, tolerations []api.Toleration) bool {
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
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", "Equal":
		return t.Value == taint.Value
	case "Exists":
		return true // without a key it tolerates everything
	}
	return false
}

// Unsure is why nobody knows where a pod would fit that has to leave its node before
// another one runs in its stead; empty where that is known, or the pod is of a workload
// whose new pods are Ready before the old ones go.
func Unsure(p *api.Pod) string {
	switch {
	case p.Workload != (api.Key{}) && p.ControllerKind == "ReplicaSet":
		return ""
	case p.Shape != nil && p.Shape.Unheeded != "":
		return p.Shape.Unheeded
	}
	return p.Unheeded
}

// InZones reports whether a zone is one of those that a pod's volumes can be
// reached from; nil zones bind it to none.
func InZones(zones []string, zone string) bool {
	return zones == nil || slices.Contains(zones, zone)
}
