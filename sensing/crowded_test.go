package sensing

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/api/v1alpha1"
)

// TestCrowdedNodes: it is said which nodes are short of memory, and the workloads with pods there know it.
func TestCrowdedNodes(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 0)
	for name, status := range map[string]corev1.ConditionStatus{"node-8": corev1.ConditionTrue, "node-9": corev1.ConditionUnknown} {
		n := node(name, "pool")
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: status})
		w.put(n)
	}
	for name, node := range map[string]string{"here": "node-8", "there": "node-9"} {
		mw := managed(name)
		mw.Spec.Sizing = &v1alpha1.Sizing{Mode: v1alpha1.SizingInPlace}
		w.put(deployment(name, 2, "1"), replicaSet(name), mw, podOn(name, 0, node, epoch.Add(-time.Hour)))
	}
	here, s := w.workload("here")
	there, _ := w.workload("there")
	if here.Sizing.Crowded != "node-8" || there.Sizing.Crowded != "" {
		t.Errorf("here is crowded on %q, there on %q", here.Sizing.Crowded, there.Sizing.Crowded)
	}
	if f := findings(s, ReasonNodeMemoryPressure); len(f) != 1 || f[0].Object != api.NodeRef("node-8") || !strings.Contains(f[0].Message, "node-8") || strings.Contains(f[0].Message, "node-9") {
		t.Errorf("said: %v", f)
	}
}
