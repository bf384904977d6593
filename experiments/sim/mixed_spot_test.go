package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// TestPoolsAreMixedBesideSpot: six workloads are on one pool and on spot machines of its type.
// A change of policy has each on the pool that suits it, and beside it on spot machines that do;
// another one has them all back. Spot machines are taken away again and again; in the second
// schedule the world fails and the operator dies, too. Once as many pods of a workload as the
// policy says have been Ready off spot machines, never fewer are, and no plan has one on spot
// machines alone, also when a move is given up. Where nothing else fails all pods but one in
// twenty at most are where they are planned half an hour after each change.
func TestPoolsAreMixedBesideSpot(t *testing.T) {
	const mixed, back = 10 * time.Minute, 45 * time.Minute
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := mixedScenario(t, seed, 14*time.Minute)
			for _, p := range s.Pools[:2] {
				p.Name, p.Nodes = "spot-"+p.Name, 0
				p.Spot = &scenarios.SpotMachines{PriceRatio: 0.4, InterruptionsPerHour: 0.3, Outage: scenarios.Duration{Duration: 2 * time.Minute}}
				s.Pools = append(s.Pools, p)
			}
			o := Options{Scenario: s, Scaler: Mash2Mixed, Seed: seed, Passes: 1, Policies: `
policies:
  COST_SAVING: {nodePools: [standard, spot-standard], spot: {maxShare: 0.6, floor: 2}}
  PERFORMANCE: {nodePools: [standard, cores, memory, spot-standard, spot-cores], mixPools: true, spot: {maxShare: 0.6, floor: 2}, weights: {performance: 0.2, cost: 1, resilience: 0.05}}
`}
			for _, at := range []time.Duration{mixed, back} {
				name := map[time.Duration]string{mixed: api.Performance, back: api.CostSaving}[at]
				o.Switches = append(o.Switches, scenarios.Switch{At: scenarios.Duration{Duration: at}, Policy: name})
			}
			if seed%2 == 1 {
				o.Faults.Until = s.PassDuration() / 2
			}
			planned := map[api.Key][]string{}
			o.Report = func(c api.Cycle) {
				for _, w := range c.Plan.Workloads {
					planned[w.Key] = nil
					steady := false
					for _, share := range w.Pools {
						planned[w.Key] = append(planned[w.Key], share.Pool)
						steady = steady || !strings.HasPrefix(share.Pool, "spot")
					}
					if !steady {
						t.Errorf("at %v %s is planned on %v", c.Time.Sub(Epoch), w.Key, planned[w.Key])
					}
				}
			}
			reached, interrupted, inUse := map[*workload]bool{}, 0, map[string]bool{}
			o.prepare = func(c *Cluster) {
				c.every(0, time.Second, func() bool {
					// Where pods have to be, there having been time.
					now := c.now - 2*time.Minute
					late := seed%2 == 0 && (now > mixed+30*time.Minute && now < back || now > back+30*time.Minute)
					pods, astray := 0, map[string]int{}
					for _, w := range c.workloads {
						off := int32(0)
						for _, p := range w.pods {
							if p.node == nil || p.terminating {
								continue
							}
							pool := p.node.pool
							if pods++; late && !slices.Contains(planned[w.key], pool.name) && c.now-p.created > 10*time.Minute {
								astray[w.key.Name+" on "+pool.name]++
							}
							if late && now < back {
								inUse[pool.name] = true
							}
							if p.ready && pool.spot == nil {
								off++
							}
						}
						if off >= 2 {
							reached[w] = true
						} else if reached[w] {
							t.Errorf("at %v %d pods of %s are Ready off spot machines", now, off, w.key)
							return false
						}
					}
					sum := 0
					for _, n := range astray {
						sum += n
					}
					if sum > pods/20 {
						t.Errorf("at %v of %d pods astray are %v, planned on %v", now, pods, astray, planned)
						return false
					}
					return true
				})
			}
			o.inspect = func(c *Cluster) { interrupted = len(c.interruptions) }
			if _, err := Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d spot machines were taken away; at the end planned on %v", interrupted, planned)
			if len(reached) < 6 || interrupted == 0 || seed == 0 && (!inUse["standard"] || !inUse["cores"] || !inUse["spot-cores"]) {
				t.Errorf("this tests nothing: in use were %v", inUse)
			}
		})
	}
}
