package sim

import (
	"cmp"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
)

var upNodes = flag.Int("up", 100, "about how many nodes TestUpDownUp rises to (make soak: 5000)")

const (
	upFor, hold, downFor, low = 20 * time.Minute, 20 * time.Minute, 10 * time.Minute, 70 * time.Minute
	loadOfNode                = 80 // virtual users that about fill a node
)

// moment of the world.
type moment struct {
	at           time.Duration // from the beginning of the load
	nodes, ready int
	unfinished   string
}

// TestUpDownUp: a load rises from next to nothing until it takes about so many nodes, falls to
// next to nothing, and rises and falls again. The second time as many pods are there no later,
// on no more nodes than the first time; each time all nodes go but those that were there at
// first, or one in twenty, and then nothing is left behind. (Later in the calm a third rise is
// expected, and nodes are bought for it.)
func TestUpDownUp(t *testing.T) {
	s := loadScenario(t, "heartbeat")
	few, users := 10, *upNodes*loadOfNode
	s.StartVUs, s.Repeat, s.Warmup.Passes = &few, 1, 0
	s.Stages = []scenarios.Stage{{Duration: hold, Target: few}}
	for range 2 {
		s.Stages = append(s.Stages, scenarios.Stage{Duration: upFor, Target: users}, scenarios.Stage{Duration: hold, Target: users},
			scenarios.Stage{Duration: downFor, Target: few}, scenarios.Stage{Duration: low, Target: few})
	}
	s.Workload.Replicas = scenarios.Bounds{Min: 1, Max: int32(20 * *upNodes)}
	for i := range s.Pools {
		s.Pools[i].NodesPerZone = scenarios.Bounds{Min: 0, Max: int32(2 * *upNodes)}
	}
	var seen []moment
	o := Options{Scenario: s, Scaler: "mash2", Seed: 1, Passes: 1}
	o.prepare = func(c *Cluster) {
		var from time.Duration
		c.every(2*time.Minute, 15*time.Second, func() bool {
			if from == 0 {
				from = c.now
			}
			ready := 0
			for _, w := range c.workloads {
				for _, p := range w.pods {
					if p.ready && !p.terminating {
						ready++
					}
				}
			}
			seen = append(seen, moment{c.now - from, len(c.nodes), ready, leftBehind(c)})
			return true
		})
	}
	r := simulate(t, o)
	within := func(from, to time.Duration) []moment {
		return slices.DeleteFunc(slices.Clone(seen), func(m moment) bool { return m.at < from || m.at > to })
	}
	cycle := upFor + hold + downFor + low
	type half struct {
		nodes, ready int           // at most
		after        time.Duration // of the rise until 95 % of the first rise's pods are Ready
		left         moment        // with the fewest nodes after it
	}
	halves := [2]half{}
	for i := range halves {
		from := hold + time.Duration(i)*cycle
		h := &halves[i]
		h.after = cycle // unless it gets there
		for _, m := range within(from, from+upFor+hold) {
			h.nodes, h.ready = max(h.nodes, m.nodes), max(h.ready, m.ready)
		}
		for _, m := range within(from, from+upFor+hold) {
			if 100*m.ready >= 95*halves[0].ready {
				h.after = m.at - from
				break
			}
		}
		h.left = slices.MinFunc(within(from+upFor+hold+downFor, from+cycle), func(a, b moment) int {
			return cmp.Or(a.nodes-b.nodes, len(a.unfinished)-len(b.unfinished))
		})
	}
	first, second := halves[0], halves[1]
	t.Logf("%d nodes and %d pods, 95 %% of these after %v; then %d nodes; again %d and %d, after %v, then %d nodes; %.2f dollars",
		first.nodes, first.ready, first.after, first.left.nodes, second.nodes, second.ready, second.after, second.left.nodes, r.CostUSD[0])
	if 10*first.nodes < 8**upNodes {
		t.Errorf("only %d nodes of %d", first.nodes, *upNodes)
	}
	if second.after > first.after+30*time.Second {
		t.Errorf("the second rise takes %v, the first took %v", second.after, first.after)
	}
	if 100*second.nodes > 110*first.nodes {
		t.Errorf("the second rise takes %d nodes, the first took %d", second.nodes, first.nodes)
	}
	before := within(hold/2, hold)
	least := slices.MaxFunc(before, func(a, b moment) int { return a.nodes - b.nodes }).nodes
	for _, h := range halves {
		if h.left.nodes > max(least, h.nodes/20) || h.left.unfinished != "" {
			t.Errorf("%d nodes are left, %d were there at first; %s", h.left.nodes, least, h.left.unfinished)
		}
	}
}
