package sim

import (
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/planning"
)

var (
	soakFor   = flag.Duration("soak", 24*time.Hour, "virtual time of TestSoak (make soak: 72h)")
	soakSeeds = flag.Int("soak-seeds", 1, "how many worlds it is run in (make soak: 10)")
)

// remembering tells how large an operator's memory is after each plan, but for margins: these
// are of one size, once there is a day of history.
type remembering struct {
	planning.Hierarchy
	size *int
}

func (r remembering) Plan(s api.Snapshot, p api.Policy, m planning.Memory) (api.Plan, planning.Memory) {
	plan, next := r.Hierarchy.Plan(s, p, m)
	kept := next
	kept.Together, kept.Workloads = planning.Margins{}, slices.Clone(next.Workloads)
	for i := range kept.Workloads {
		kept.Workloads[i].Margins = planning.Margins{}
	}
	b, err := json.Marshal(kept)
	if err != nil {
		panic(err)
	}
	*r.size = len(b)
	return plan, next
}

// soakScenario is a day's wave with a level of its own in each hour, and surges, for a
// Deployment and three StatefulSets, and then calm.
func soakScenario(t *testing.T, seed int, of time.Duration) scenarios.Scenario {
	s := schedule{seed: seed}.scenario(t)
	rng := rand.New(rand.NewPCG(uint64(seed), 31))
	s.Stages = nil
	for hour := range int(of / time.Hour) {
		level := 150 - 90*math.Cos(2*math.Pi*float64(hour)/24)
		users := int(level * (0.8 + 0.4*rng.Float64()))
		s.Stages = append(s.Stages, scenarios.Stage{Duration: 40 * time.Minute, Target: users})
		surge := users
		if rng.IntN(3) == 0 {
			surge *= 2
		}
		s.Stages = append(s.Stages, scenarios.Stage{Duration: 20 * time.Second, Target: surge}, scenarios.Stage{Duration: 20*time.Minute - 20*time.Second, Target: surge})
	}
	s.Stages = append(s.Stages, scenarios.Stage{Duration: calmFor, Target: 60})
	return s
}

// TestSoak runs an operator for days in a world that fails all the time: the policy is
// switched every few hours, the load rises and falls, watches lag, stall, tell of what is gone
// or lie, actions fail, machines are not to be had, and the operator dies about once an hour.
// No Ready pod dies with its node, none of a StatefulSet is evicted while another is away, none
// of the Deployment goes unless as many as wanted remain. How much the operators of ten worlds
// do in a day does not grow; and in the end all is at rest and nothing is left behind.
func TestSoak(t *testing.T) {
	var all soaked
	for seed := range *soakSeeds {
		one := soak(t, seed, *soakFor, Faults{Until: *soakFor, Watches: Watches{ways: everyWay}})
		all.cycles, all.unproven, all.lost, all.evicted = all.cycles+one.cycles, all.unproven+one.unproven, all.lost+one.lost, all.evicted+one.evicted
		all.first, all.last = all.first+one.first, all.last+one.last
	}
	t.Logf("%d worlds: %d cycles, in %d something was not proven current; %d Ready pods of Deployments went, %d pods were evicted; %d actions in the first days, %d in the last",
		*soakSeeds, all.cycles, all.unproven, all.lost, all.evicted, all.first, all.last)
	if *soakSeeds >= 10 && 2*all.last > 3*all.first { // of one world what happens in a day differs
		t.Errorf("%d actions in the last days, %d in the first", all.last, all.first)
	}
}

// soaked is what happened in one world, or in all: first and last are the actions that were
// carried out in the first day and in the last.
type soaked struct{ cycles, unproven, lost, evicted, first, last int }

// TestSoakOfALongLife is the same in a world in which nothing fails, so that the operator
// lives on: what it remembers does not grow.
func TestSoakOfALongLife(t *testing.T) {
	soak(t, 0, *soakFor, Faults{})
}

func soak(t *testing.T, seed int, of time.Duration, faults Faults) soaked {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(seed), 32))
	options := Options{
		Scenario: soakScenario(t, seed, of), Scaler: "mash2", Seed: uint64(seed), Passes: 1,
		Faults: faults,
	}
	for at, i := time.Duration(0), 0; at < of; i++ {
		at += time.Hour + time.Duration(rng.Float64()*float64(5*time.Hour))
		options.Switches = append(options.Switches, scenarios.Switch{
			At: scenarios.Duration{Duration: min(at, of)}, Policy: [...]string{api.Performance, api.CostSaving}[i%2],
		})
	}
	size, newest := 0, api.Cycle{}
	var sizes, acted []int // by hour: the least memory, and the actions carried out
	cycles, unproven := 0, 0
	plans := map[api.Key][]wanted{}
	options.Wrap = func(h planning.Hierarchy) mash2.Planner { return remembering{h, &size} }
	options.Report = func(c api.Cycle) {
		newest = c
		hour := int((c.Time.Sub(Epoch)) / time.Hour)
		for len(sizes) <= hour {
			sizes, acted = append(sizes, size), append(acted, 0)
		}
		sizes[hour], acted[hour] = min(sizes[hour], size), acted[hour]+len(c.Outcomes)
		cycles++
		for _, f := range c.Findings {
			if f.Reason == "NotCurrent" {
				unproven++
			}
		}
		for _, p := range c.Plan.Workloads {
			plans[p.Key] = append(plans[p.Key], wanted{c.Time.Sub(Epoch), p.Replicas})
		}
	}
	wrong := "nobody has looked"
	options.prepare = func(c *Cluster) {
		c.untilAtRest(of+calmFor-time.Minute, &wrong)
		c.addSets()
	}
	var world *Cluster
	options.inspect = func(c *Cluster) { world = c }
	r := simulate(t, options)
	lost, missed := losses(r.Workloads[0].Steps, plans[world.workloads[0].key])
	for _, harm := range [][]string{world.harm.died, world.harm.evicted, missed} {
		for _, h := range harm {
			t.Errorf("seed %d: %s", seed, h)
		}
	}
	if wrong != "" {
		t.Errorf("seed %d: left behind: %s; last cycle: %v", seed, wrong, newest.Findings)
	}
	// At rest it remembers least, which is known after its first hours.
	day := min(24, len(sizes)/2-1)
	early, late := sizes[2:day], sizes[len(sizes)-day:]
	first, last := sum(acted[:day]), sum(acted[len(acted)-day:])
	t.Logf("seed %d: %d cycles in %v, in %d something was not proven current; the Deployment lost %d Ready pods, %d evictions; at least %d bytes remembered in the first %d hours, %d in the last; %d and %d actions",
		seed, cycles, of, unproven, lost, world.evicted, slices.Min(early), day, slices.Min(late), first, last)
	if a, b := slices.Min(early), slices.Min(late); faults.Until == 0 && float64(b) > 1.05*float64(a) {
		t.Errorf("seed %d: the operator remembers %d bytes, at first %d", seed, b, a)
	}
	if world.evicted == 0 || lost == 0 {
		t.Errorf("seed %d: something of what this is for has not happened", seed)
	}
	return soaked{cycles, unproven, lost, world.evicted, first, last}
}

func sum(all []int) (n int) {
	for _, x := range all {
		n += x
	}
	return n
}
