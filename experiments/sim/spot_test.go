package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// spotScenario has a load that rises and falls by a seed, one pool of machines that stay and
// one of spot machines that are taken away so often per hour.
func spotScenario(t *testing.T, seed uint64, interruptions float64, outage time.Duration) scenarios.Scenario {
	rng := rand.New(rand.NewPCG(seed, 17))
	s := loadScenario(t, "heartbeat")
	users := 200 + rng.IntN(400)
	s.StartVUs, s.Stages, s.Repeat = &users, nil, 1
	for range 8 {
		s.Stages = append(s.Stages,
			scenarios.Stage{Duration: time.Duration(1+rng.IntN(4)) * time.Minute, Target: 20 + rng.IntN(900)},
			scenarios.Stage{Duration: time.Duration(5+rng.IntN(15)) * time.Minute, Target: 100 + rng.IntN(900)})
	}
	s.Workload.Replicas = scenarios.Bounds{Min: 3, Max: 40}
	zones := []string{"us-central1-a"}
	s.Pools = []scenarios.Pool{
		{Name: "steady", MachineType: "n2-standard-2", Zones: zones, Nodes: 2, NodesPerZone: scenarios.Bounds{Max: 30}},
		{Name: "spot", MachineType: "n2-standard-2", Zones: zones, NodesPerZone: scenarios.Bounds{Max: 30}, Spot: &scenarios.SpotMachines{
			PriceRatio: 0.4, InterruptionsPerHour: interruptions, Outage: scenarios.Duration{Duration: outage},
		}},
	}
	s.Policy.Spot = &scenarios.Spot{MaxShare: 0.7, Floor: 3}
	return s
}

// TestSpotFloor: spot machines are taken away at random, again and again, and there are no
// others for a while; in every second schedule the operator dies and its world fails, too.
// Once as many pods as the policy says have been Ready off spot machines, never fewer are,
// and with spot machines to be had there are pods on them.
func TestSpotFloor(t *testing.T) {
	interruptions, onSpot := 0, 0
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := spotScenario(t, seed, 1+float64(seed%4)*2, time.Duration(seed%3)*10*time.Minute)
			o := Options{Scenario: s, Scaler: Mash2Any, Seed: seed, Passes: 1}
			if seed%2 == 1 {
				o.Faults.Until = s.PassDuration() / 2
			}
			reached := false
			o.prepare = func(c *Cluster) {
				c.every(0, time.Second, func() bool {
					w := c.workloads[0]
					off, on := int32(0), int32(0)
					for _, p := range w.pods {
						switch {
						case !p.ready || p.terminating:
						case p.node.pool.spot == nil:
							off++
						default:
							on++
						}
					}
					reached = reached || off >= s.Policy.Spot.Floor
					if reached && off < s.Policy.Spot.Floor {
						t.Errorf("at %v %d pods are Ready off spot machines, %d on them", c.now, off, on)
						return false
					}
					if on > 0 {
						onSpot++
					}
					return true
				})
			}
			o.inspect = func(c *Cluster) { interruptions += len(c.interruptions) }
			if _, err := Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if !reached {
				t.Error("never were there as many Ready pods off spot machines")
			}
		})
	}
	t.Logf("%d spot machines were taken away, %d seconds with pods on some", interruptions, onSpot)
	if interruptions < 20 || onSpot < 3600 {
		t.Errorf("%d spot machines were taken away, pods were on some for %d s: these schedules test nothing", interruptions, onSpot)
	}
}

// TestInterrupted: pods on a spot machine that is taken away end gracefully within the
// notice, and the instance group replaces it when there is another.
func TestInterrupted(t *testing.T) {
	s := spotScenario(t, 1, 0, 0)
	s.Pools = s.Pools[1:]
	s.Pools[0].Nodes, s.Pools[0].NodesPerZone.Min = 3, 3
	o := Options{Scenario: s, Scaler: HPA, Seed: 1, Passes: 1}
	var taken *node
	var failure *api.PoolError
	o.prepare = func(c *Cluster) {
		c.at(10*time.Minute, func() {
			for _, n := range c.sorted {
				if n.pool.spot != nil && n.ready {
					taken = n
				}
			}
			taken.pool.spot.dryUntil[taken.zone] = c.now + 5*time.Minute
			c.interrupt(taken)
		})
		c.at(12*time.Minute, func() {
			failure = taken.pool.failure
			if c.nodes[taken.name] != nil || len(taken.pods) > 0 {
				t.Error("the machine or its pods are still there after two minutes")
			}
		})
	}
	o.inspect = func(c *Cluster) {
		if taken.paid.Deleted != 10*time.Minute+spotNotice {
			t.Errorf("the machine was paid until %v", taken.paid.Deleted)
		}
		if len(c.harm.died) > 0 {
			t.Errorf("%v", c.harm.died)
		}
		again := false
		for _, l := range c.ledger {
			again = again || l.Pool == "spot" && l.Requested >= 15*time.Minute && l.Requested <= 17*time.Minute
		}
		if !again {
			t.Error("no machine was asked for when there were some again")
		}
	}
	if _, err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if failure == nil || failure.Kind != api.PoolStockout {
		t.Errorf("while there are no machines the pool says %v", failure)
	}
}
