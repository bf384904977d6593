package planning

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
)

// TestSurplusSince: since when a plan does without a node is when it last had more, by
// looking at every size it ever had.
func TestSurplusSince(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		zones := rapid.IntRange(1, 3).Draw(t, "zones")
		pool := api.Pool{Name: "fast", Zones: make([]string, zones)}
		m := PoolMemory{Pool: "fast"}
		type planned struct {
			size int32
			at   time.Time
		}
		var all []planned
		now := start
		for range rapid.IntRange(1, 30).Draw(t, "cycles") {
			now = now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "later")) * time.Minute / 4)
			size := int32(rapid.IntRange(0, 6).Draw(t, "size"))
			all = append(all, planned{size, now})
			c := &cycle{s: api.Snapshot{Time: now}, memory: Memory{Pools: []PoolMemory{m}}}
			pp := api.PoolPlan{Pool: "fast", SizePerZone: size}
			rounds := rapid.IntRange(0, 3).Draw(t, "rounds")
			for range rounds * zones {
				pp.Surplus = append(pp.Surplus, "node")
			}
			c.surplusSince(&pp, pool)
			m = c.memory.Pools[0]
			if len(pp.SurplusSince) != len(pp.Surplus) {
				t.Fatalf("%d times of %d nodes", len(pp.SurplusSince), len(pp.Surplus))
			}
			for i, since := range pp.SurplusSince {
				left := size + int32(rounds-1-i/zones) // when this one and those before it are gone
				var want time.Time
				for _, p := range all {
					if p.size > left && now.Sub(p.at) < neededFor {
						want = p.at
					}
				}
				if !since.Equal(want) {
					t.Fatalf("of %v, at %v node %d of %d is surplus since %v, want %v", all, now, i, len(pp.Surplus), since, want)
				}
			}
		}
	})
}

// TestNodesOfOneZone: a pool of one zone counts all its nodes, whatever zone they are labelled with.
func TestNodesOfOneZone(t *testing.T) {
	s := api.Snapshot{}
	for i, zone := range []string{"a", "a", "b"} {
		name := string(rune('1' + i))
		s.Nodes = append(s.Nodes, api.Node{Name: name, Pool: "fast", Zone: zone})
		s.Pods = append(s.Pods, api.Pod{Node: name})
	}
	for _, tt := range []struct {
		zones    []string
		occupied int32
		surplus  []string // of three, when each zone keeps one more
	}{
		{zones: []string{"1"}, occupied: 3, surplus: []string{"1", "2"}},
		{zones: []string{"a", "b"}, occupied: 2, surplus: []string{"1"}},
	} {
		pool := api.Pool{Name: "fast", Zones: tt.zones}
		if got := (&cycle{s: s}).occupied(pool); got != tt.occupied {
			t.Errorf("zones %v: %d nodes of a zone have pods, want %d", tt.zones, got, tt.occupied)
		}
		pp := api.PoolPlan{Pool: "fast", Surplus: []string{"1", "2", "3"}}
		grow(&pp, pool, int32(len(tt.zones)), s.Nodes)
		if !slices.Equal(pp.Surplus, tt.surplus) {
			t.Errorf("zones %v: surplus %v, want %v", tt.zones, pp.Surplus, tt.surplus)
		}
	}
}
