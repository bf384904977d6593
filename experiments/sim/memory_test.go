package sim

import (
	"math"
	"testing"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
)

// hungry is a level load on pods whose working sets vary by 30 % around 48 MiB.
func hungry(t *testing.T, request, limit string) scenarios.Scenario {
	s := loadScenario(t, "noise")
	s.Noise = nil
	s.Stages = []scenarios.Stage{{Duration: time.Hour, Target: 100}}
	s.Workload.Replicas = scenarios.Bounds{Min: 8, Max: 8}
	s.Workload.Memory = scenarios.Memory{Request: quantity(t, request), Base: quantity(t, "48Mi"), Spread: 0.3, Correlation: duration(10 * time.Minute)}
	if limit != "" {
		s.Workload.Memory.Limit = quantity(t, limit)
	}
	s.Pools[0].Nodes = 6
	return s
}

// TestOOMKill: containers above their limit are killed and come back, in both fidelities
// about as often as a log-normal working set of that correlation crosses it; a higher limit
// is not crossed, and without a spread nobody looks.
func TestOOMKill(t *testing.T) {
	for _, fidelity := range []Fidelity{Fluid, PerRequest} {
		kills := func(limit string, spread float64) (n int, failed uint64, ready int) {
			s := hungry(t, "32Mi", limit)
			s.Workload.Memory.Spread = spread
			r := simulate(t, Options{Scenario: s, Scaler: "hpa", Seed: 1, Fidelity: fidelity, Passes: 3, inspect: func(c *Cluster) {
				for _, p := range c.workloads[0].pods {
					if p.ready {
						ready++
					}
				}
			}})
			if r.Workloads[0].Measured.ScaleActions > 0 {
				t.Errorf("%d scalings", r.Workloads[0].Measured.ScaleActions)
			}
			return len(r.OOMKills), r.Workloads[0].Measured.Failed, ready
		}
		n, failed, ready := kills("72Mi", 0.3) // +1.35 standard deviations
		calm, none, all := kills("160Mi", 0.3) // +4
		still, _, _ := kills("72Mi", 0)
		t.Logf("%s: %d kills in three hours, %d requests failed", fidelity, n, failed)
		// Each of eight pods crosses a level of 1.35 about once in an hour, given a correlation
		// of ten minutes; it begins anew at the median.
		if n < 12 || n > 60 || failed == 0 || ready < 6 {
			t.Errorf("%s: %d kills, %d requests failed, %d of 8 are Ready in the end", fidelity, n, failed, ready)
		}
		if calm > 0 || still > 0 || none > failed || all != 8 {
			t.Errorf("%s: %d kills far below the limit, %d without a spread", fidelity, calm, still)
		}
	}
}

// TestOOMKillOfAFullMachine: where working sets are more than a machine has, what is the most
// above its request goes, until they fit.
func TestOOMKillOfAFullMachine(t *testing.T) {
	s := hungry(t, "16Mi", "")
	s.Workload.Memory.Base = quantity(t, "1200Mi") // three of them on a machine of 4 GiB
	s.Pools[0].Nodes = 2
	var most, capacity float64
	killed := 0
	simulate(t, Options{Scenario: s, Scaler: "hpa", Seed: 1, Fidelity: Fluid, Passes: 1, inspect: func(c *Cluster) {
		killed = len(c.oomKills)
		for _, n := range c.sorted {
			used := float64(n.pool.overhead.Memory)
			for _, p := range n.pods {
				if p.phase == running {
					used += p.memory
				}
			}
			most, capacity = math.Max(most, used), float64(n.pool.capacity.Memory)
		}
	}})
	if killed == 0 || most > capacity {
		t.Errorf("%d killed, %g bytes are used of %g", killed, most, capacity)
	}
}

// TestOOMKillsAreLearntFrom: who requests memory by usage raises it after kills, and is killed
// less often; requests that nobody looks at stay, and so do kills.
func TestOOMKillsAreLearntFrom(t *testing.T) {
	last := func(scaler string) (first, later int) {
		s := hungry(t, "56Mi", "56Mi") // Guaranteed: a limit follows its request
		r := simulate(t, Options{Scenario: s, Scaler: scaler, Seed: 1, Fidelity: Fluid, Passes: 8})
		for _, at := range r.OOMKills {
			if at < time.Hour {
				first++
			} else if at > 4*time.Hour {
				later++
			}
		}
		return first, later
	}
	first, later := last("mash2-sized")
	_, without := last("mash2-any")
	t.Logf("mash2 that chooses requests: %d kills in the first hour, %d in the last four; without %d", first, later, without)
	if first == 0 || later > without/4 || without < 20 {
		t.Errorf("%d kills in the first hour, %d in the last four, %d without sizing", first, later, without)
	}
}
