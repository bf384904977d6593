package node

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

// Pods under a rule of the scheduler that nobody here knows keep their node, unless
// their workload's new pods are Ready before they go.
func TestPodsUnderUnknownRulesKeepTheirNodes(t *testing.T) {
	for name, c := range map[string]struct {
		workload bool
		kind     string
		want     brief
	}{
		"of nobody's workload": {kind: "ReplicaSet", want: brief{Slow: 1}},
		"of a workload":        {workload: true, kind: "ReplicaSet", want: brief{Slow: 1}}, // one replica
		"of a StatefulSet":     {workload: true, kind: "StatefulSet", want: brief{Slow: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.pool("slow").Zones, w.pool("slow").Sizes = []string{"a"}, []int32{0}
			w.node("slow", "a")
			shape := shapeOf(100)
			shape.Unheeded = "required affinity to pods"
			var owner api.Key
			if c.workload {
				w.node("slow", "a")
				owner = w.workload("db", shape, 2, 2)
				w.pod(owner, shape, "slow-a-1").ControllerKind = c.kind
				w.pod(owner, shape, "slow-a-2").ControllerKind = c.kind
			} else {
				w.pod(owner, shape, "slow-a-1").ControllerKind = c.kind
				w.open = []string{"fast"} // what could move would
			}
			got := briefly(w.plan(t))
			got.Surplus = nil
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// A node that may not be removed counts as one of its pool, and another one goes in its place.
func TestNodesThatMayNotBeRemoved(t *testing.T) {
	for name, kept := range map[string][]string{"one of two": {"slow-a-2"}, "the other one": {"slow-a-1"}, "both": {"slow-a-1", "slow-a-2"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.pool("slow").Zones, w.pool("slow").Sizes = []string{"a"}, []int32{0}
			shape := shapeOf(100)
			for range 2 {
				n := w.node("slow", "a")
				if slices.Contains(kept, n.Name) {
					n.DoNotDisrupt = "annotation"
				}
			}
			owner := w.workload("web", shape, 2, 2)
			w.pod(owner, shape, "slow-a-1")
			w.pod(owner, shape, "slow-a-2")
			got := w.plan(t)
			for _, pp := range got.Pools {
				for _, n := range pp.Surplus {
					if slices.Contains(kept, n) {
						t.Errorf("%s is to go", n)
					}
				}
			}
			if size := briefly(got).Slow; size != int32(len(kept)) {
				t.Errorf("%d nodes are planned, want %d", size, len(kept))
			}
		})
	}
}
