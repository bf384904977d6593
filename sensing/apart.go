package sensing

import (
	"cmp"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/mash2-io/mash2/api"
)

// Rules of the scheduler that a shape holds only if they are about a pod's copies alone.
const (
	ruleApart  = "required anti-affinity to other pods than its copies"
	ruleSpread = "topology spread over zones that counts other pods than its copies"
)

// counted are the pods that a rule of a pod is about, its copies among them.
type counted struct {
	rule     string
	selector string // as labels.Selector writes it
	// namespaces, separated by commas; empty for all.
	namespaces string
}

// countedBy are those of the rules that a pod's shape holds as if they were about its
// copies alone. Pods that nobody moves have none.
func countedBy(pod *corev1.Pod) (out []unique.Handle[counted]) {
	if controlledBy(pod, "DaemonSet") || pod.Annotations[corev1.MirrorPodAnnotationKey] != "" {
		return nil
	}
	add := func(rule string, of *metav1.LabelSelector, keys []string, namespaces []string) {
		selector, err := metav1.LabelSelectorAsSelector(of)
		if err != nil {
			return
		}
		for _, key := range keys {
			value, ok := pod.Labels[key]
			if !ok {
				continue
			}
			if r, err := labels.NewRequirement(key, selection.In, []string{value}); err == nil {
				selector = selector.Add(*r)
			}
		}
		out = append(out, unique.Make(counted{rule, selector.String(), strings.Join(namespaces, ",")}))
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		for _, term := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if term.LabelSelector == nil || !selectsItself(term, pod) {
				continue // of no pods, or unheeded in any case
			}
			namespaces := term.Namespaces
			switch {
			case term.NamespaceSelector != nil: // labels of namespaces are not read: it may be any
				namespaces = nil
			case len(namespaces) == 0:
				namespaces = []string{pod.Namespace}
			}
			add(ruleApart, term.LabelSelector, term.MatchLabelKeys, namespaces)
		}
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule && slices.Contains(zoneKeys, c.TopologyKey) {
			add(ruleSpread, c.LabelSelector, c.MatchLabelKeys, []string{pod.Namespace})
		}
	}
	return out
}

// owner is whose copy a pod is: a controller, for a ReplicaSet its own one. A pod without
// one is its own.
type owner struct{ namespace, kind, name string }

func (v *view) ownerOf(p *podRecord) owner {
	o := owner{p.key.Namespace, p.pod.ControllerKind, cmp.Or(p.pod.ControllerName, p.key.Name)}
	if o.kind == kindReplicaSet {
		if rs, ok := v.owners[api.Key{Namespace: o.namespace, Name: o.name}]; ok && rs.ownerName != "" {
			o.kind, o.name = rs.ownerKind, rs.ownerName
		}
	}
	return o
}

// kin tells whether rules of pods are about others than their copies. It looks at the pods'
// labels only when a pod has such a rule.
type kin struct {
	v      *view
	alike  map[string]*kinds // by namespace; nil until it is asked
	owners map[unique.Handle[counted]][]owner
}

// kinds are the pods of a namespace that differ in labels or owner.
type kinds struct {
	owners []owner
	labels []labelSet
	having map[string][]int // which ones have a label, by "key=value"
}

func (v *view) kin() *kin { return &kin{v: v, owners: map[unique.Handle[counted]][]owner{}} }

// unheeded names the first rule of a pod that is about others than its copies, too; empty
// if none is.
func (k *kin) unheeded(p *podRecord) string {
	if len(p.counts) == 0 {
		return ""
	}
	own := k.v.ownerOf(p)
	for _, c := range p.counts {
		owners, ok := k.owners[c]
		if !ok {
			owners = k.find(c.Value())
			k.owners[c] = owners
		}
		if slices.ContainsFunc(owners, func(o owner) bool { return o != own }) {
			return c.Value().rule
		}
	}
	return ""
}

// find returns two of those whose pods are counted, or all if they are fewer.
func (k *kin) find(c counted) (out []owner) {
	selector, err := labels.Parse(c.selector)
	if err != nil {
		return nil // impossible: it is what a selector wrote
	}
	k.sort()
	look := func(in *kinds) {
		if in == nil {
			return
		}
		for _, i := range in.candidates(selector) {
			if len(out) == 2 {
				return
			}
			if !slices.Contains(out, in.owners[i]) && selector.Matches(labelsOf(in.labels[i])) {
				out = append(out, in.owners[i])
			}
		}
	}
	if c.namespaces == "" {
		for _, in := range k.alike {
			look(in)
		}
		return out
	}
	for namespace := range strings.SplitSeq(c.namespaces, ",") {
		look(k.alike[namespace])
	}
	return out
}

// sort finds the kinds of all pods, once.
func (k *kin) sort() {
	if k.alike != nil {
		return
	}
	k.alike = map[string]*kinds{}
	for i, p := range k.v.pods {
		// The pods of a ReplicaSet are beside each other, and alike.
		if i > 0 && p.labels == k.v.pods[i-1].labels && sameOwner(p, k.v.pods[i-1]) && p.pod.ControllerName != "" {
			continue
		}
		in := k.alike[p.key.Namespace]
		if in == nil {
			in = &kinds{having: map[string][]int{}}
			k.alike[p.key.Namespace] = in
		}
		for pair := range strings.SplitSeq(p.labels.Value(), ",") {
			in.having[pair] = append(in.having[pair], len(in.owners))
		}
		in.owners, in.labels = append(in.owners, k.v.ownerOf(p)), append(in.labels, p.labels)
	}
}

// candidates are the kinds that a selector may match: the fewest that have a label of one
// of its requirements, or all.
func (in *kinds) candidates(selector labels.Selector) []int {
	var best []int
	found := false
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if !slices.Contains([]selection.Operator{selection.In, selection.Equals, selection.DoubleEquals}, r.Operator()) {
			continue
		}
		var some []int
		for _, value := range r.ValuesUnsorted() {
			some = append(some, in.having[r.Key()+"="+value]...)
		}
		if !found || len(some) < len(best) {
			best, found = some, true
		}
	}
	if found {
		return best
	}
	all := make([]int, len(in.owners))
	for i := range all {
		all[i] = i
	}
	return all
}
