package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

// Workloads that are assigned to different pools each get nodes of their own, and
// only those without an assignment may go anywhere.
func TestWorkloadsOnSeveralPools(t *testing.T) {
	of := func(name string, n int64) api.Scale {
		return api.Scale{Containers: []api.ContainerResources{{Name: name, Requests: api.Resources{MilliCPU: n, Memory: 64 << 20}}}}
	}
	for name, c := range map[string]struct {
		build func(*world)
		want  brief
	}{
		"each on its own": {
			build: func(w *world) {
				w.workload("a", shapeOf(500), 0, 6)
				w.workload("b", shapeOf(500), 0, 12)
				w.demands[0].Pools, w.demands[1].Pools = []string{"slow"}, []string{"fast"}
			},
			want: brief{Slow: 1, Fast: 1}, // 6 of 2 a node in three zones, 12 of 4
		},
		"one that may go anywhere fills what is there": {
			build: func(w *world) {
				w.workload("a", shapeOf(500), 0, 5)
				w.workload("b", shapeOf(500), 0, 1)
				w.demands[0].Pools = []string{"slow"}
			},
			want: brief{Slow: 1},
		},
		"two shapes alike on two pools are not one": {
			build: func(w *world) {
				same := shapeOf(1000)
				w.workload("a", same, 0, 3)
				w.workload("b", same, 0, 6)
				w.demands[0].Pools, w.demands[1].Pools = []string{"slow"}, []string{"fast"}
			},
			want: brief{Slow: 1, Fast: 1},
		},
		"pods of another pool are planned where they belong": {
			build: func(w *world) {
				w.level("slow", 1)
				shape := shapeOf(500)
				a := w.workload("a", shape, 6, 6)
				for _, zone := range []string{"a", "b", "c"} {
					w.pod(a, shape, "slow-"+zone+"-1")
					w.pod(a, shape, "slow-"+zone+"-1")
				}
				w.demands[0].Pools = []string{"fast"}
			},
			want: brief{Fast: 1, Surplus: []string{"slow-a-1", "slow-b-1", "slow-c-1"}},
		},
		"while these hold their place their nodes stay, and others need more": {
			build: func(w *world) {
				w.level("slow", 1)
				w.astray = true
				shape := shapeOf(500)
				a := w.workload("a", shape, 6, 6)
				for _, zone := range []string{"a", "b", "c"} {
					w.pod(a, shape, "slow-"+zone+"-1")
					w.pod(a, shape, "slow-"+zone+"-1")
				}
				w.workload("b", shape, 0, 3)
				w.demands[0].Pools, w.demands[1].Pools = []string{"fast"}, []string{"slow"}
			},
			want: brief{Slow: 2, Fast: 1},
		},
		"too large for its pool": {
			build: func(w *world) {
				w.workload("a", shapeOf(1500), 0, 1)
				w.demands[0].Pools = []string{"slow"}
			},
			want: brief{Unplaced: []string{"1 web/a: cpu=1500m memory=67108864 pods=1 is more than an empty node of a managed pool has"}},
		},
		"a size other than the template's": {
			build: func(w *world) {
				w.workload("a", shapeOf(500), 0, 6)
				w.demands[0].Scale = of("app", 250)
				w.demands[0].Replicas, w.demands[0].NodeReplicas = 6, 6
				w.pool("slow").Zones, w.pool("slow").Sizes = []string{"a"}, []int32{0}
				w.open = []string{"slow"}
			},
			want: brief{Slow: 2}, // 4 on a node, where the template has room for 2
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.open = []string{"fast", "slow"}
			c.build(w)
			if diff := cmp.Diff(c.want, briefly(w.plan(t))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}
