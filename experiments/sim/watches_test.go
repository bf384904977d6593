package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

// watchedOutcome is what became of one schedule of watches that fail, or of many.
type watchedOutcome struct {
	died, evicted, missed []string // harm
	looked, held          int      // actions that a look stopped, cycles with something unproven
	behind                int      // restless in the end
}

// underWatches runs one schedule: the policy is switched to and fro and a load rises and
// falls, while watches of pods, nodes and budgets fail, the operator dies and other things
// fail as in TestSwitchUnderFaults.
func underWatches(t *testing.T, seed int, watches Watches) watchedOutcome {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(seed), 6))
	options := Options{
		Scenario: schedule{seed: seed}.scenario(t), Scaler: "mash2", Seed: uint64(seed), Passes: 1,
		Faults: Faults{Until: faultsFor, Watches: watches},
	}
	if watches.alone { // what changes is the load
		var tooth []scenarios.Stage
		for range 8 {
			peak := 150 + rng.IntN(300)
			hold := time.Duration(60+rng.IntN(240)) * time.Second
			tooth = append(tooth, scenarios.Stage{Duration: 20 * time.Second, Target: peak}, scenarios.Stage{Duration: hold, Target: peak},
				scenarios.Stage{Duration: 20 * time.Second, Target: 30}, scenarios.Stage{Duration: hold, Target: 30})
		}
		options.Scenario.Stages = append(tooth, scenarios.Stage{Duration: calmFor, Target: 30})
	}
	names := [...]string{api.Performance, api.CostSaving}
	for i := range 2 + rng.IntN(3) {
		at := time.Duration(float64(faultsFor) * (float64(i) + rng.Float64()) / 4)
		options.Switches = append(options.Switches, scenarios.Switch{At: scenarios.Duration{Duration: at}, Policy: names[i%2]})
	}
	var out watchedOutcome
	var last api.Cycle
	plans := map[api.Key][]wanted{}
	options.Report = func(c api.Cycle) {
		last = c
		for _, p := range c.Plan.Workloads {
			plans[p.Key] = append(plans[p.Key], wanted{c.Time.Sub(Epoch), p.Replicas})
		}
		for _, f := range c.Findings {
			if f.Reason == "NotCurrent" {
				out.held++
			}
		}
	}
	wrong := "nobody has looked"
	options.prepare = func(c *Cluster) {
		c.untilAtRest(faultsFor+calmFor-time.Minute, &wrong)
		c.addSets()
	}
	var world *Cluster
	options.inspect = func(c *Cluster) { world = c }
	r := simulate(t, options)
	say := func(what []string) []string {
		for i := range what {
			what[i] = fmt.Sprintf("seed %d: %s", seed, what[i])
		}
		return what
	}
	_, missed := losses(r.Workloads[0].Steps, plans[world.workloads[0].key])
	out.died, out.evicted, out.missed = say(world.harm.died), say(world.harm.evicted), say(missed)
	out.looked = world.looked
	if wrong != "" {
		out.behind = 1
		t.Logf("seed %d: not at rest in the end: %s; last cycle: %v", seed, wrong, last.Findings)
	}
	return out
}

func (o *watchedOutcome) add(other watchedOutcome) {
	o.died, o.evicted, o.missed = append(o.died, other.died...), append(o.evicted, other.evicted...), append(o.missed, other.missed...)
	o.looked, o.held, o.behind = o.looked+other.looked, o.held+other.held, o.behind+other.behind
}

// Watches of pods, nodes and budgets lag, stall, tell of what is gone, or lie, each on its
// own, in seeded schedules beside all other faults. No Ready pod dies with its node, none
// of a StatefulSet is evicted while another is away, none of the Deployment goes unless as
// many as wanted remain; and in the end all is at rest.
func TestWatchesThatFail(t *testing.T) {
	var sum watchedOutcome
	for seed := *firstSeed; seed < *firstSeed+*schedules; seed++ {
		sum.add(underWatches(t, seed, Watches{ways: everyWay}))
	}
	t.Logf("%d schedules: %d Ready pods died with a node, %d evictions of a Ready pod while another was away, %d lost below what is wanted, %d not at rest in the end; a look stopped %d actions, and in %d cycles something irreversible waited for a proof",
		*schedules, len(sum.died), len(sum.evicted), len(sum.missed), sum.behind, sum.looked, sum.held)
	for _, harm := range [][]string{sum.died, sum.evicted, sum.missed} {
		for _, h := range harm {
			t.Error(h)
		}
	}
	if sum.behind > 0 {
		t.Errorf("%d schedules end with something left behind", sum.behind)
	}
	if *schedules >= 10 && (sum.looked == 0 || sum.held == 0) {
		t.Error("something of what these schedules are for has not happened in any")
	}
}

// Each guard is needed: without it a Ready pod dies with its node in one of these
// schedules, found among the first forty, and with it in none. What a look at the API server stops would hide what the
// other two are for, so that these are shown without it.
func TestEveryGuardOfWatchesIsNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		watches Watches
		without func(*Watches)
		seeds   []int
	}{
		"a node is looked at live before it goes": {
			Watches{ways: lying}, func(w *Watches) { w.blind = true }, []int{11, 24},
		},
		"a node bears its cordon for a while before it goes": {
			Watches{ways: lagging, longest: 15 * time.Second, pods: true, alone: true, late: true, blind: true},
			func(w *Watches) { w.hasty = true }, []int{16},
		},
		"nothing irreversible is done before watches are proven current": {
			Watches{ways: stalling, pods: true, alone: true, blind: true}, func(w *Watches) { w.credulous = true }, []int{14, 18},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var with, without watchedOutcome
			for _, seed := range c.seeds {
				with.add(underWatches(t, seed, c.watches))
				off := c.watches
				c.without(&off)
				without.add(underWatches(t, seed, off))
			}
			for _, died := range with.died {
				t.Error(died)
			}
			if len(without.died) == 0 {
				t.Error("no Ready pod dies without it")
			}
			for _, died := range without.died {
				t.Logf("without it: %s", died)
			}
		})
	}
}
