package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// TestReleasedAtEveryStep: under load, a move to the other pool is interrupted
// after its first, second, third … action by a SIGKILL, and mash2 release --all,
// which is what an uninstallation does first, leaves nothing of it: no cordon, no
// annotation, no deletion cost, no surged replica, no claim on the target. The
// last time the operator is alive. Every request is answered throughout.
func TestReleasedAtEveryStep(t *testing.T) {
	const actions = 9
	w := newWorld(t, steady(t))
	o := w.operator()
	w.Load.Begin()
	w.cyclesAfter(time.Now(), 5)
	w.stop(o)
	key := testbed.Mash2 + "/" + testbed.WorkloadName
	directions := []string{api.Performance, api.CostSaving}
	to := ""
	kinds := map[string]bool{}
	// Which action is the nth depends on what the last kill left and on what is
	// done at once: where a kind was not met, everything is done again with each
	// direction in the other's place.
	for round := range 2 * actions {
		if round >= actions && kinds["cordon"] && kinds["scale"] && kinds["deletion"] {
			break
		}
		action := round%actions + 1
		to = directions[round%2]
		before := w.replicas(testbed.Mash2)
		w.mash2("policy", "set", to)
		o := w.launch([]string{fmt.Sprintf("%s=%d:after", envKill, action)})
		w.eventually("the operator to be killed, or to have moved", func() string {
			select {
			case <-o.Done():
				return ""
			default:
				return w.notMovedTo(to)
			}
		})
		o.Kill()
		w.mash2("release", "--all", "--operator-gone", "--patience", "1s")
		w.nothingLeft(fmt.Sprintf("killed after action %d", action), before)
		w.mash2("adopt", "take-over", key)
		for hit := range w.kills() {
			kind, _, _ := strings.Cut(hit, " ")
			kinds[kind] = true
		}
	}
	for action := range w.kills() {
		t.Logf("killed after: %s", action)
	}
	for _, kind := range []string{"cordon", "scale", "deletion"} {
		if !kinds[kind] {
			t.Errorf("never killed after a %s", kind)
		}
	}

	// Alive, in the midst of a surge.
	to = directions[(slices.Index(directions, to)+1)%2]
	w.mash2("policy", "set", to)
	o = w.operator()
	before := w.replicas(testbed.Mash2)
	w.eventually("a surge, or the move's end", func() string {
		var pods corev1.PodList
		if err := w.Client.List(t.Context(), &pods, client.InNamespace(testbed.Mash2)); err != nil {
			return err.Error()
		}
		if slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Annotations[api.AnnotationDeletionCostSet] != "" }) {
			return ""
		}
		return w.notMovedTo(to)
	})
	w.mash2("release", "--all")
	w.nothingLeft("with a living operator", before)
	from := time.Now()
	for _, c := range w.cyclesAfter(from, 4) {
		for _, out := range c.Outcomes {
			t.Errorf("written after the release: %s", out.Action)
		}
	}
	w.served(6)
	w.stop(o)
}

// nothingLeft checks that nothing of mash2 is on the cluster but what was made
// by hand. A surge is the old replicas beside those wanted; growth that the load
// asked for may be there.
func (w *world) nothingLeft(when string, before int32) {
	w.t.Helper()
	var nodes corev1.NodeList
	var pods corev1.PodList
	var workloads v1alpha1.ManagedWorkloadList
	for _, list := range []client.ObjectList{&nodes, &pods, &workloads} {
		if err := w.Client.List(w.t.Context(), list); err != nil {
			w.t.Fatal(err)
		}
	}
	marks := func(what string, o client.Object) {
		for name := range o.GetAnnotations() {
			if strings.HasPrefix(name, api.Group) || name == api.AnnotationPodDeletionCost {
				w.t.Errorf("%s: %s %s has %s", when, what, o.GetName(), name)
			}
		}
		if len(o.GetFinalizers()) > 0 {
			w.t.Errorf("%s: %s %s has finalizers %v", when, what, o.GetName(), o.GetFinalizers())
		}
	}
	for i := range nodes.Items {
		marks("node", &nodes.Items[i])
		if nodes.Items[i].Spec.Unschedulable {
			w.t.Errorf("%s: node %s is cordoned", when, nodes.Items[i].Name)
		}
	}
	for i := range pods.Items {
		marks("pod", &pods.Items[i])
	}
	d := w.deployment(testbed.Mash2)
	marks("Deployment", d)
	if slices.ContainsFunc(d.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == api.FieldManager }) {
		w.t.Errorf("%s: mash2 still has fields of the target", when)
	}
	for _, mw := range workloads.Items {
		planned := int32(0)
		if mw.Status.PlannedReplicas != nil {
			planned = *mw.Status.PlannedReplicas
		}
		if mw.Spec.Mode != v1alpha1.ModeShadow || *d.Spec.Replicas >= planned+before {
			w.t.Errorf("%s: mode %s, %d replicas, %d before the move, %d planned", when, mw.Spec.Mode, *d.Spec.Replicas, before, planned)
		}
	}
	w.t.Logf("%s: %d replicas, %d before", when, *d.Spec.Replicas, before)
}
