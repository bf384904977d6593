package sensing

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

// Of whose cordon a node bears, mash2's note on it tells only while it is cordoned; afterwards
// that the note was left behind.
func TestNotesOfCordons(t *testing.T) {
	for name, c := range map[string]struct {
		cordoned, noted bool
		wantFor         string
		wantLifted      bool
	}{
		"not cordoned":          {},
		"by mash2":              {cordoned: true, noted: true, wantFor: api.CordonShrink},
		"by a person":           {cordoned: true},
		"uncordoned since then": {noted: true, wantLifted: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := node("node-1", "e2")
			n.Spec.Unschedulable = c.cordoned
			if c.noted {
				n.Annotations = map[string]string{api.AnnotationCordonedFor: api.CordonShrink, api.AnnotationCordonedAt: epoch.Format(time.RFC3339)}
			}
			got := nodeRecordOf(n, api.LabelNodePool).node
			if got.CordonedFor != c.wantFor || got.CordonedAt.IsZero() != (c.wantFor == "") || got.Lifted != c.wantLifted {
				t.Errorf("cordoned for %q at %v, lifted %v; want for %q, lifted %v", got.CordonedFor, got.CordonedAt, got.Lifted, c.wantFor, c.wantLifted)
			}
		})
	}
}

// A parked node is not there, nor is what belongs to it; what has stayed on it
// is.
func TestParkedNodes(t *testing.T) {
	w := newWorld(t, nil)
	w.shop("web", 1)
	parked := node("node-2", "e2")
	parked.Spec.Unschedulable = true
	parked.Annotations = map[string]string{api.AnnotationParked: "true"}
	byHand := node("node-3", "e2") // uncordoned since
	byHand.Annotations = parked.Annotations
	daemon, left := podOn("agent", 1, "node-2", epoch), podOn("web", 2, "node-2", epoch)
	daemon.OwnerReferences[0].Kind = kindDaemonSet
	w.put(parked, byHand, daemon, left)
	s := w.observe()
	var nodes []string
	for _, n := range s.Nodes {
		nodes = append(nodes, n.Name)
	}
	if diff := cmp.Diff([]string{"node-1", "node-3"}, nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if len(s.Pods) != 2 || s.Pods[0].DaemonSet || s.Pods[1].DaemonSet {
		t.Errorf("%d pods, want the two of web: %+v", len(s.Pods), s.Pods)
	}
}

// What Cluster Autoscaler or Karpenter may not remove mash2 may not either.
func TestNodesThatMayNotBeRemoved(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{scaleDownDisabled, "true", "annotation cluster-autoscaler.kubernetes.io/scale-down-disabled"},
		{karpenterDoNotDisrupt, "true", "annotation karpenter.sh/do-not-disrupt"},
		{scaleDownDisabled, "false", ""},
		{safeToEvict, "false", ""},
	} {
		n := node("node-1", "e2")
		n.Annotations = map[string]string{c.key: c.value}
		if got := nodeRecordOf(n, api.LabelNodePool).node.DoNotDisrupt; got != c.want {
			t.Errorf("%s=%s: %q, want %q", c.key, c.value, got, c.want)
		}
	}
}
