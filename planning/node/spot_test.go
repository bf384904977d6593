package node

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mash2-io/mash2/api"
)

// spotWorld has a pool of machines that stay and one of spot machines at four tenths of
// their price, in one zone; each takes eight pods of 200m.
func spotWorld() *world {
	w := &world{Snapshot: api.Snapshot{Time: noon}, open: []string{"spot", "steady"}}
	for _, p := range []api.Pool{{Name: "spot", Price: .04, Spot: true}, {Name: "steady", Price: .1}} {
		p.Allocatable = api.Resources{MilliCPU: 1700, Memory: 8 * gib, Pods: 30}
		p.Zones, p.Sizes = []string{"a"}, []int32{0}
		p.NodeStartup = api.StartupLatency{P50: 60e9, P90: 90e9}
		w.Pools = append(w.Pools, p)
	}
	return w
}

func (w *world) onSpot(name string, replicas, planned int32, bounds api.Spot) api.Key {
	key := w.workload(name, shapeOf(200), replicas, planned)
	w.demands[len(w.demands)-1].Spot = &bounds
	return key
}

// A workload's replicas are planned on machines that stay as far as they must be, the
// others on spot machines as long as there are any.
func TestSpot(t *testing.T) {
	type nodes struct{ Spot, Steady int32 }
	for name, c := range map[string]struct {
		build func(*world)
		want  nodes
	}{
		"from nothing": {
			build: func(w *world) { w.onSpot("a", 0, 40, api.Spot{MaxShare: .7, Floor: 2}) },
			want:  nodes{Spot: 4, Steady: 2}, // 28 and 12
		},
		"all but the floor": {
			build: func(w *world) { w.onSpot("a", 0, 40, api.Spot{MaxShare: 1, Floor: 2}) },
			want:  nodes{Spot: 5, Steady: 1},
		},
		"fewer, with too many off spot machines": {
			build: func(w *world) {
				key := w.onSpot("a", 100, 40, api.Spot{MaxShare: .7, Floor: 2})
				for range 5 {
					w.node("steady", "a")
				}
				for range 8 {
					w.node("spot", "a")
				}
				for i := range 100 {
					node := fmt.Sprintf("steady-a-%d", i/8+1)
					if i >= 40 {
						node = fmt.Sprintf("spot-a-%d", (i-40)/8+1)
					}
					w.pod(key, shapeOf(200), node)
				}
			},
			want: nodes{Spot: 4, Steady: 2},
		},
		"all are off spot machines": {
			build: func(w *world) {
				key := w.onSpot("a", 40, 40, api.Spot{MaxShare: .7, Floor: 2})
				for range 5 {
					n := w.node("steady", "a")
					for range 8 {
						w.pod(key, shapeOf(200), n.Name)
					}
				}
			},
			want: nodes{Spot: 4, Steady: 2},
		},
		"there are no spot machines to be had": {
			build: func(w *world) {
				w.onSpot("a", 0, 40, api.Spot{MaxShare: .7, Floor: 2})
				w.pool("spot").MaxPerZone = 2
			},
			want: nodes{Spot: 2, Steady: 3},
		},
		"spot machines are dearer": {
			build: func(w *world) {
				w.onSpot("a", 0, 40, api.Spot{MaxShare: .7, Floor: 2})
				w.pool("spot").Price = .2
			},
			want: nodes{Steady: 5},
		},
		"two workloads share both": {
			build: func(w *world) {
				w.onSpot("a", 0, 10, api.Spot{MaxShare: .6, Floor: 2})
				w.onSpot("b", 0, 10, api.Spot{MaxShare: .6, Floor: 2})
			},
			want: nodes{Spot: 2, Steady: 1}, // 12 and 8
		},
		"a workload that may not be there": {
			build: func(w *world) {
				w.onSpot("a", 0, 8, api.Spot{MaxShare: .5, Floor: 2})
				w.workload("b", shapeOf(200), 0, 4)
				w.demands[1].Pools = []string{"steady"}
			},
			want: nodes{Spot: 1, Steady: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := spotWorld()
			c.build(w)
			p, err := New(Config{})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := p.PlanNodes(w.input())
			if err != nil {
				t.Fatal(err)
			}
			var got nodes
			for _, p := range plan.Pools {
				if p.Pool == "spot" {
					got.Spot = p.Nodes
				} else {
					got.Steady = p.Nodes
				}
			}
			if d := cmp.Diff(c.want, got); d != "" || len(plan.Unplaced) > 0 {
				t.Errorf("%s\nunplaced %v", d, plan.Unplaced)
			}
		})
	}
}
