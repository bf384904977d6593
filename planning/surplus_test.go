package planning

import (
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
