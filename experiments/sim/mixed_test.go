package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// mixedScenario has six workloads with much or little memory for their cores, at loads that
// rise and fall by a seed, six times for so long each; all begin on one of three pools.
func mixedScenario(t *testing.T, seed uint64, stage time.Duration) scenarios.Scenario {
	rng := rand.New(rand.NewPCG(seed, 19))
	stages := ""
	for range 6 {
		stages += fmt.Sprintf("\"%v:%d\", ", stage, 15000+rng.IntN(9000))
	}
	text := fmt.Sprintf(`
name: mixed
description: Workloads that need cores, and others that need memory.
base: heartbeat
warmup: {passes: 0}
workload: {replicas: {min: 2, max: 90}}
startVUs: 0
stages: [%s]
repeat: 1
pools:
  - {name: standard, machineType: e2-standard-4, zones: [us-central1-a], nodes: 18, nodesPerZone: {min: 0, max: 90}}
  - {name: cores, machineType: e2-highcpu-4, zones: [us-central1-a], nodes: 0, nodesPerZone: {min: 0, max: 90}}
  - {name: memory, machineType: e2-highmem-2, zones: [us-central1-a], nodes: 0, nodesPerZone: {min: 0, max: 90}}
services:
`, strings.TrimSuffix(stages, ", "))
	users, shares := "users:\n", []float64{0.1, 0.2, 0.25, 0.1, 0.2, 0.15}
	rng.Shuffle(len(shares), func(i, j int) { shares[i], shares[j] = shares[j], shares[i] })
	for i := range 6 {
		memory := []int{100, 100, 1100}[i%3]
		text += fmt.Sprintf("  - {name: w%d, cpu: {request: 500m, limit: 1000m}, memory: {request: %dMi, limit: %dMi, base: %dMi, perRequest: 64Ki}}\n", i, memory, 2*memory, memory/2)
		users += fmt.Sprintf("  - {name: u%d, share: %g, request: {service: w%d}}\n", i, shares[i], i)
	}
	s, err := scenarios.Parse("mixed.yaml", []byte(text+users))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPoolsAreMixed: six workloads leave the one pool that they are on, each for the one that
// suits it; in the second schedule in a world that fails, and its operator dies. In every second
// each has as many Ready pods as its least, and in a world that does not fail as the least that
// was planned within five minutes. There they move once, and that is cheaper than all on the
// best pool.
func TestPoolsAreMixed(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := mixedScenario(t, seed, 30*time.Minute)
			o := Options{Scenario: s, Scaler: Mash2Mixed, Seed: seed, Passes: 1}
			if seed%2 == 1 {
				o.Faults.Until = s.PassDuration() / 2
			}
			pools, changes := map[api.Key]string{}, 0
			planned := map[api.Key][]int32{} // by the plans of the last five minutes
			o.Report = func(c api.Cycle) {
				for _, w := range c.Plan.Workloads {
					last := append(planned[w.Key], w.Replicas)
					planned[w.Key] = last[max(0, len(last)-20):]
					if len(w.Pools) == 1 {
						if was := pools[w.Key]; was != "" && was != w.Pools[0].Pool {
							changes++
						}
						pools[w.Key] = w.Pools[0].Pool
					}
				}
			}
			lacks := 0
			o.prepare = func(c *Cluster) {
				c.every(10*time.Minute, time.Second, func() bool {
					for _, w := range c.workloads {
						least := w.min
						if seed%2 == 0 && len(planned[w.key]) > 0 {
							least = slices.Min(planned[w.key])
						}
						ready := int32(0)
						for _, p := range w.pods {
							if p.ready && !p.terminating {
								ready++
							}
						}
						if ready < least {
							lacks++
							t.Logf("at %v %d pods of %s are Ready", c.now, ready, w.key)
						}
					}
					return lacks < 5
				})
			}
			where := map[string]map[string]int{}
			o.inspect = func(c *Cluster) {
				for _, w := range c.workloads {
					where[w.key.Name] = map[string]int{}
					for _, p := range w.pods {
						if p.node != nil {
							where[w.key.Name][p.node.pool.name]++
						}
					}
				}
			}
			result, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%.3f USD, %d changes; %v; at the end %v", result.CostUSD[0], changes, pools, where)
			if lacks > 0 {
				t.Errorf("for %d seconds fewer pods were Ready than the least", lacks)
			}
			if changes == 0 {
				t.Error("nobody moved: this tests nothing")
			}
			if seed%2 == 1 {
				return
			}
			o.Scaler, o.Report, o.prepare, o.inspect = Mash2Any, nil, nil, nil
			alone, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if result.CostUSD[0] > 0.97*alone.CostUSD[0] {
				t.Errorf("%.3f USD, on one pool %.3f", result.CostUSD[0], alone.CostUSD[0])
			}
			for _, w := range s.Deployments() {
				if want := map[bool]string{true: "standard", false: "cores"}[w.Memory.Request.Value() > 500<<20]; where[w.Name][want] == 0 || len(where[w.Name]) > 1 {
					t.Errorf("pods of %s are on %v, want %s", w.Name, where[w.Name], want)
				}
			}
			if changes > 6 {
				t.Errorf("%d changes of pool of six workloads in three hours", changes)
			}
		})
	}
}
