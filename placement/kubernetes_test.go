package placement

import (
	"math/rand/v2"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/mash2-io/mash2/api"
)

// asKubernetes asks Kubernetes' own library what Admits answers.
func asKubernetes(t *testing.T, s Site, shape *api.PodShape) bool {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: s.Labels}}
	for _, x := range s.Taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: x.Key, Value: x.Value, Effect: corev1.TaintEffect(x.Effect)})
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: shape.NodeSelector}}
	if shape.Affinity != nil {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms(shape.Affinity)},
		}}
	}
	for _, x := range shape.Tolerations {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: x.Key, Operator: corev1.TolerationOperator(x.Operator), Value: x.Value, Effect: corev1.TaintEffect(x.Effect),
		})
	}
	// An error is of a term that can't be read, which the scheduler takes for one
	// that doesn't match.
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil {
		matches = false
		for _, term := range shape.Affinity {
			one := pod.DeepCopy()
			one.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = terms([]api.NodeTerm{term})
			if ok, err := nodeaffinity.GetRequiredNodeAffinity(one).Match(node); ok && err == nil {
				matches = true
			}
		}
	}
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, pod.Spec.Tolerations, func(x *corev1.Taint) bool {
		return x.Effect == corev1.TaintEffectNoSchedule || x.Effect == corev1.TaintEffectNoExecute
	}, false)
	return matches && !untolerated
}

func terms(in []api.NodeTerm) []corev1.NodeSelectorTerm {
	requirements := func(in []api.NodeRequirement) (out []corev1.NodeSelectorRequirement) {
		for _, r := range in {
			out = append(out, corev1.NodeSelectorRequirement{Key: r.Key, Operator: corev1.NodeSelectorOperator(r.Operator), Values: r.Values})
		}
		return out
	}
	out := []corev1.NodeSelectorTerm{}
	for _, term := range in {
		out = append(out, corev1.NodeSelectorTerm{MatchExpressions: requirements(term.Labels), MatchFields: requirements(term.Names)})
	}
	return out
}

// Whatever is asked for, what is not valid too, is answered as Kubernetes does.
func TestAdmitsAsKubernetes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	some := func(most int, add func()) {
		for range r.IntN(most + 1) {
			add()
		}
	}
	requirement := func(key string) api.NodeRequirement {
		q := api.NodeRequirement{Key: key, Operator: pick("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like")}
		if r.IntN(3) > 0 && (q.Operator == "Exists" || q.Operator == "DoesNotExist") {
			return q
		}
		some(2, func() { q.Values = append(q.Values, pick("a", "b", "n1", "n2", "4", "8", "")) })
		return q
	}
	admitted := 0
	const cases = 50_000
	for range cases {
		s := Site{Name: pick("n1", "n2"), Labels: map[string]string{}}
		some(3, func() { s.Labels[pick("x", "y", "z")] = pick("a", "b", "4", "8", "") })
		some(2, func() {
			s.Taints = append(s.Taints, api.Taint{Key: pick("x", "y"), Value: pick("a", ""), Effect: pick("NoSchedule", "NoExecute", "PreferNoSchedule")})
		})
		shape := &api.PodShape{}
		if r.IntN(4) == 0 {
			shape.NodeSelector = map[string]string{pick("x", "y"): pick("a", "b", "")}
		}
		if r.IntN(2) == 0 {
			shape.Affinity = []api.NodeTerm{}
			some(2, func() {
				var term api.NodeTerm
				some(2, func() { term.Labels = append(term.Labels, requirement(pick("x", "y", "z"))) })
				if r.IntN(3) == 0 {
					term.Names = append(term.Names, requirement("metadata.name"))
				}
				shape.Affinity = append(shape.Affinity, term)
			})
		}
		some(2, func() {
			shape.Tolerations = append(shape.Tolerations, api.Toleration{
				Key: pick("x", "y", ""), Operator: pick("", "Equal", "Exists"), Value: pick("a", ""), Effect: pick("", "NoSchedule", "NoExecute"),
			})
		})
		want := asKubernetes(t, s, shape)
		if want {
			admitted++
		}
		if got := s.Admits(shape); got != want {
			t.Fatalf("Admits is %v, Kubernetes says %v:\n%+v\n%+v", got, want, s, *shape)
		}
	}
	if admitted < cases/10 || admitted > cases*9/10 {
		t.Errorf("%d of %d are admitted: most cases are of one kind", admitted, cases)
	}
}
