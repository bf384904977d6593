package sensing

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestRulesAboutOthers: a rule whose selector selects pods of others, too, is not one about a
// pod's copies, and one that selects its own alone is.
func TestRulesAboutOthers(t *testing.T) {
	w := newWorld(t, nil)
	pod := func(namespace, name, kind, controller string, labels map[string]string, change func(*corev1.PodSpec)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		}
		if kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: controller, Controller: ptr.To(true)}}
		}
		if change != nil {
			change(&p.Spec)
		}
		return p
	}
	selects := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	apart := func(term corev1.PodAffinityTerm) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Affinity = antiAffinity(corev1.LabelHostname, term) }
	}
	spread := func(selector *metav1.LabelSelector) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector}}
		}
	}
	db := func(app string) map[string]string { return map[string]string{"app": app, "tier": "db"} }
	web := map[string]string{"app": "web"}
	w.put(replicaSet("web"))
	w.put(
		// Two StatefulSets and a pod of nobody with one label in common.
		pod(ns, "a-0", "StatefulSet", "a", db("a"), apart(corev1.PodAffinityTerm{LabelSelector: selects("tier", "db")})),
		pod(ns, "b-0", "StatefulSet", "b", db("b"), spread(selects("tier", "db"))),
		pod(ns, "c-0", "StatefulSet", "c", db("c"), apart(corev1.PodAffinityTerm{LabelSelector: selects("app", "c")})),
		pod(ns, "c-1", "StatefulSet", "c", db("c"), spread(selects("app", "c"))),
		pod(ns, "d-0", "StatefulSet", "d", db("d"), apart(corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpExists}}}})),
		// Its own copies by a label that both have, and a key by which they differ.
		pod(ns, "e-0", "StatefulSet", "e", db("e"), apart(corev1.PodAffinityTerm{LabelSelector: selects("tier", "db"), MatchLabelKeys: []string{"app"}})),
		// Two ReplicaSets of one Deployment are copies; those of the same name elsewhere are not.
		pod(ns, "web-5d4f8c7b9-x", kindReplicaSet, "web-5d4f8c7b9", web, apart(corev1.PodAffinityTerm{LabelSelector: selects("app", "web")})),
		pod(ns, "web-5d4f8c7b9-y", kindReplicaSet, "web-5d4f8c7b9", web, apart(corev1.PodAffinityTerm{LabelSelector: selects("app", "web")})),
		pod("elsewhere", "web-0", "StatefulSet", "web", web, apart(corev1.PodAffinityTerm{LabelSelector: selects("app", "web"), NamespaceSelector: &metav1.LabelSelector{}})),
		pod("far", "web-0", "StatefulSet", "web", web, apart(corev1.PodAffinityTerm{LabelSelector: selects("app", "web"), Namespaces: []string{"far", ns}})),
		pod("far", "alone-0", "StatefulSet", "alone", map[string]string{"app": "alone"}, apart(corev1.PodAffinityTerm{LabelSelector: selects("app", "alone"), NamespaceSelector: &metav1.LabelSelector{}})),
		pod(ns, "plain", "", "", db("f"), nil),
	)
	got := map[string]string{}
	for _, p := range w.observe().Pods {
		if p.Unheeded != "" {
			got[p.Key.String()] = p.Unheeded
		}
	}
	want := map[string]string{
		ns + "/a-0": ruleApart, ns + "/b-0": ruleSpread, ns + "/d-0": ruleApart, "elsewhere/web-0": ruleApart, "far/web-0": ruleApart,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
