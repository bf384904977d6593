package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

// bound says in which zones a pod's volumes are.
func bound(p *api.Pod, zones ...string) { p.Zones = append([]string{}, zones...) }

// Pods whose volumes are in a zone have their places there and nowhere else.
func TestVolumesBindNewPods(t *testing.T) {
	planCases{
		"a full zone grows, although others have room": {
			world: func(w *world) {
				w.level("slow", 1)
				w.pod(api.Key{}, shapeOf(800), "slow-a-1")
				bound(w.pod(api.Key{}, shapeOf(500), ""), "a")
			},
			want: brief{Slow: 2},
		},
		"without a volume another zone's room will do": {
			world: func(w *world) {
				w.level("slow", 1)
				w.pod(api.Key{}, shapeOf(800), "slow-a-1")
				w.pod(api.Key{}, shapeOf(500), "")
			},
			want: brief{Slow: 1},
		},
		"either of two zones will do": {
			world: func(w *world) {
				w.level("slow", 1)
				w.pod(api.Key{}, shapeOf(800), "slow-a-1")
				bound(w.pod(api.Key{}, shapeOf(500), ""), "a", "c")
			},
			want: brief{Slow: 1},
		},
		"another node of its zone takes it, of no managed pool": {
			world: func(w *world) {
				w.Nodes = append(w.Nodes, api.Node{Name: "own", Zone: "d", Ready: true})
				p := w.pod(api.Key{}, shapeOf(500), "")
				p.Unschedulable = false
				bound(p, "d")
			},
			want: brief{},
		},
		"a replica is one of those planned": {
			world: func(w *world) {
				w.level("slow", 1)
				db := w.workload("db", shapeOf(600), 3, 3)
				w.pod(db, shapeOf(600), "slow-a-1")
				w.pod(db, shapeOf(600), "slow-b-1")
				bound(w.pod(db, shapeOf(600), ""), "a")
			},
			want: brief{Slow: 2},
		},
		"a replica more than planned asks for nothing": {
			world: func(w *world) {
				w.level("slow", 1)
				db := w.workload("db", shapeOf(600), 2, 1)
				w.pod(db, shapeOf(600), "slow-a-1")
				bound(w.pod(db, shapeOf(600), ""), "a")
			},
			want: brief{Slow: 1},
		},
		"copies that exclude one another do so whatever binds them": {
			world: func(w *world) {
				p := w.pool("slow")
				p.Zones, p.Sizes = []string{"a"}, []int32{0}
				w.level("slow", 1)
				db := w.workload("db", alone(100), 3, 3)
				bound(w.pod(db, alone(100), "slow-a-1"), "a")
				bound(w.pod(db, alone(100), ""), "a")
				w.pod(db, alone(100), "")
			},
			want: brief{Slow: 3},
		},
	}.run(t)
}

// What volumes keep from running is said.
func TestVolumesWithoutAPlace(t *testing.T) {
	planCases{
		"a zone at its maximum is said": {
			world: func(w *world) {
				w.level("slow", 1)
				w.pool("slow").MaxPerZone = 1
				w.pod(api.Key{}, shapeOf(800), "slow-a-1")
				bound(w.pod(api.Key{}, shapeOf(500), ""), "a")
			},
			want: brief{Slow: 1, Unplaced: []string{"1 web/p1: pool slow is at its maximum of 1 nodes in zone a, where its volumes are"}},
		},
		"a zone without a pool is said": {
			world: func(w *world) {
				bound(w.pod(api.Key{}, shapeOf(500), ""), "d")
			},
			want: brief{Unplaced: []string{"1 web/p0: its volumes are in zone d, where no managed pool that takes it has nodes"}},
		},
		"volumes in different zones are said": {
			world: func(w *world) {
				bound(w.pod(api.Key{}, shapeOf(500), ""))
			},
			want: brief{Unplaced: []string{"1 web/p0: its volumes are in zone (none that all have), where no managed pool that takes it has nodes"}},
		},
		"a replica that can't start is said": {
			world: func(w *world) {
				w.level("slow", 1)
				w.pool("slow").MaxPerZone = 1
				db := w.workload("db", shapeOf(600), 2, 2)
				w.pod(db, shapeOf(600), "slow-a-1")
				bound(w.pod(db, shapeOf(600), ""), "a")
			},
			want: brief{Slow: 1, Unplaced: []string{"1 web/p1: pool slow is at its maximum of 1 nodes in zone a, where its volumes are"}},
		},
	}.run(t)
}

// A node stays while a zone has no other room for pods that are bound to it.
func TestVolumesHoldNodes(t *testing.T) {
	planCases{
		"nodes whose pods can't leave their zone stay": {
			world: func(w *world) {
				w.level("slow", 2)
				bound(w.pod(api.Key{}, shapeOf(800), "slow-a-1"), "a")
				bound(w.pod(api.Key{}, shapeOf(500), "slow-a-2"), "a")
			},
			want: brief{Slow: 2},
		},
		"nodes whose pods find room elsewhere go": {
			world: func(w *world) {
				w.level("slow", 2)
				w.pod(api.Key{}, shapeOf(800), "slow-a-1")
				w.pod(api.Key{}, shapeOf(500), "slow-a-2")
			},
			want: brief{Slow: 1, Surplus: []string{"slow-a-1", "slow-b-1", "slow-c-1"}},
		},
	}.run(t)
}

// Required affinity without a term that can match admits no node.
func TestAffinityWithoutATerm(t *testing.T) {
	w := newWorld()
	shape := shapeOf(500)
	shape.ID, shape.Affinity = "nowhere", []api.NodeTerm{}
	w.workload("db", shape, 0, 2)
	want := brief{Unplaced: []string{"2 web/db: node selector, node affinity or taints keep it off every managed pool"}}
	if diff := cmp.Diff(want, briefly(w.plan(t))); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}
