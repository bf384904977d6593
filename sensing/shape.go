package sensing

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/resource"

	"github.com/mash2-io/mash2/api"
)

// shapes shares one PodShape among all pods that are equal to the scheduler.
type shapes struct {
	mu   sync.Mutex
	byID map[string]*api.PodShape
	// sizes are the same of what containers ask for.
	sizes map[string]*api.PodSize
}

func newShapes() *shapes {
	return &shapes{byID: map[string]*api.PodShape{}, sizes: map[string]*api.PodSize{}}
}

// of returns the shared shape of a pod.
func (s *shapes) of(pod *corev1.Pod) *api.PodShape {
	shape := shapeOf(pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.byID[shape.ID]; ok {
		return known
	}
	s.byID[shape.ID] = &shape
	return &shape
}

// keep forgets the shapes that nobody has any more, once they are the most. A
// shape that comes back meanwhile gets a second, equal value: harmless, because
// equality is by ID.
func (s *shapes) keep(used map[*api.PodShape]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) <= 2*len(used)+64 {
		return
	}
	for id, shape := range s.byID {
		if !used[shape] {
			delete(s.byID, id)
		}
	}
}

// shapeOf derives from a pod, or from a template made into one, what placing it
// depends on. Orders that don't matter to the scheduler are normalised, so that
// equal shapes have equal IDs.
//
// Left out, because they tell pods of one template apart without limiting where
// a replica may go: the pin of a DaemonSet's pod to its node, and the two
// tolerations by which admission bounds a pod's stay on a failed node.
func shapeOf(pod *corev1.Pod) api.PodShape {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{UseStatusResources: true})
	s := api.PodShape{
		Requests:     resourcesOf(requests),
		NodeSelector: pod.Spec.NodeSelector,
		Affinity:     requiredTerms(pod),
		Tolerations:  placingTolerations(pod.Spec.Tolerations),
		MaxPerNode:   maxPerNode(pod),
		MaxPerZone:   maxPerZone(pod),
		ZoneSkew:     zoneSkew(pod),
		Unheeded:     unheeded(pod),
	}
	s.Requests.Pods = 1
	s.LimitCPU, _ = limitsOf(pod)
	s.ID = shapeID(s)
	return s
}

// shapeID is a hash over the JSON of the shape, whose maps are in order of key.
func shapeID(s api.PodShape) string {
	s.ID = ""
	text, err := json.Marshal(s)
	if err != nil { // impossible: strings and integers only
		text = fmt.Append(nil, s)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// resourcesOf converts at the edge: millicores and bytes, rounded up. Volume
// attachment limits are left out.
func resourcesOf(list corev1.ResourceList) api.Resources {
	var r api.Resources
	for name, q := range list {
		switch name {
		case corev1.ResourceCPU:
			r.MilliCPU = q.MilliValue()
		case corev1.ResourceMemory:
			r.Memory = q.Value()
		case corev1.ResourceEphemeralStorage:
			r.EphemeralStorage = q.Value()
		case corev1.ResourcePods:
			r.Pods = q.Value()
		default:
			if q.IsZero() || strings.HasPrefix(string(name), corev1.ResourceAttachableVolumesPrefix) {
				continue
			}
			if r.Extended == nil {
				r.Extended = map[string]int64{}
			}
			r.Extended[string(name)] = q.Value()
		}
	}
	return r
}

// requiredTerms are the terms of required node affinity. A term without
// requirements matches no node and is left out; if none is left the result is
// empty but not nil.
func requiredTerms(pod *corev1.Pod) []api.NodeTerm {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil ||
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	daemon := controlledBy(pod, "DaemonSet")
	terms := []api.NodeTerm{}
	for _, t := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(t.MatchExpressions) == 0 && len(t.MatchFields) == 0 {
			continue
		}
		term := api.NodeTerm{Labels: requirements(t.MatchExpressions)}
		if !daemon {
			term.Names = requirements(t.MatchFields)
		}
		if len(term.Labels) == 0 && len(term.Names) == 0 {
			return nil // only the pin to one node was asked for
		}
		terms = append(terms, term)
	}
	slices.SortFunc(terms, func(a, b api.NodeTerm) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return terms
}

func requirements(in []corev1.NodeSelectorRequirement) []api.NodeRequirement {
	if len(in) == 0 {
		return nil
	}
	out := make([]api.NodeRequirement, len(in))
	for i, r := range in {
		out[i] = api.NodeRequirement{Key: r.Key, Operator: string(r.Operator), Values: slices.Sorted(slices.Values(r.Values))}
	}
	slices.SortFunc(out, func(a, b api.NodeRequirement) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return out
}

// placingTolerations are the tolerations without those of a failed node.
func placingTolerations(in []corev1.Toleration) []api.Toleration {
	var out []api.Toleration
	for _, t := range in {
		if t.Effect == corev1.TaintEffectNoExecute &&
			(t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable) {
			continue
		}
		out = append(out, api.Toleration{Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: string(t.Effect)})
	}
	slices.SortFunc(out, func(a, b api.Toleration) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator),
			cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	return slices.Compact(out)
}

// maxPerNode is 1 when two copies exclude each other on a node, by a host port
// or by required anti-affinity to their own labels, and 0 otherwise.
//
// Topology spread over hostnames is not such a limit: it bounds the difference
// between nodes, and an even spread satisfies it with any number on each.
func maxPerNode(pod *corev1.Pod) int32 {
	if hasHostPorts(pod) {
		return 1
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return 0
	}
	for _, term := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if term.TopologyKey == corev1.LabelHostname && selectsItself(term, pod) {
			return 1
		}
	}
	return 0
}

// zoneKeys are the labels of a node with its zone: now and before Kubernetes 1.17.
var zoneKeys = []string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone}

// maxPerZone is 1 when two copies exclude each other in a zone, by required
// anti-affinity to their own labels, and 0 otherwise.
func maxPerZone(pod *corev1.Pod) int32 {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return 0
	}
	for _, term := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if slices.Contains(zoneKeys, term.TopologyKey) && selectsItself(term, pod) {
			return 1
		}
	}
	return 0
}

// zoneSkew is the least maxSkew of the pod's topology spread over zones that the
// scheduler insists on and that counts its own copies; 0 without one.
func zoneSkew(pod *corev1.Pod) (skew int32) {
	for _, c := range pod.Spec.TopologySpreadConstraints {
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if c.WhenUnsatisfiable != corev1.DoNotSchedule || !slices.Contains(zoneKeys, c.TopologyKey) || c.MaxSkew <= 0 ||
			err != nil || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if skew == 0 || c.MaxSkew < skew {
			skew = c.MaxSkew
		}
	}
	return skew
}

// unheeded names the first rule of the scheduler that limits where the pod may go and
// that its shape doesn't hold, whatever other pods there are; see kin.
func unheeded(pod *corev1.Pod) string {
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		return "required affinity to pods"
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		for _, term := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if term.LabelSelector == nil {
				continue // of no pods
			}
			ours := term.TopologyKey == corev1.LabelHostname || slices.Contains(zoneKeys, term.TopologyKey)
			if !ours || !selectsItself(term, pod) {
				return ruleApart
			}
		}
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if !slices.Contains(zoneKeys, c.TopologyKey) || err != nil || !selector.Matches(labels.Set(pod.Labels)) {
			return "topology spread over " + c.TopologyKey
		}
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		return "resource claims"
	}
	if hasHostPorts(pod) {
		return "host ports"
	}
	return ""
}

// hasHostPorts tells whether a container or a sidecar of a pod takes a port of its node.
func hasHostPorts(pod *corev1.Pod) bool {
	takes := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 })
	}
	return slices.ContainsFunc(pod.Spec.Containers, takes) || slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
		return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways && takes(c)
	})
}

// selectsItself tells whether an anti-affinity term is about pods like this
// one. Copies share all labels, so matchLabelKeys adds nothing to the selector;
// a key of mismatchLabelKeys that the pod has excludes its copies.
func selectsItself(term corev1.PodAffinityTerm, pod *corev1.Pod) bool {
	if len(term.Namespaces) > 0 && !slices.Contains(term.Namespaces, pod.Namespace) && term.NamespaceSelector == nil {
		return false
	}
	for _, key := range term.MismatchLabelKeys {
		if _, ok := pod.Labels[key]; ok {
			return false
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

// controlledBy tells whether the pod's controller is of a kind.
func controlledBy(pod *corev1.Pod, kind string) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == kind
}
