package sim

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/load/record"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

var (
	schedules   = flag.Int("fault-schedules", 10, "seeded fault schedules to run (make explore: 1000)")
	firstSeed   = flag.Int("fault-seed", 0, "seed of the first of them")
	faultCycles = flag.Bool("fault-cycles", false, "log what each cycle did and found")
)

// A policy that is switched to and fro under a steady load, by an operator that
// dies and whose world fails, in as many seeded ways. A Deployment surges; three
// StatefulSets of three pods can't, and two of them share a budget that allows one
// of the six to be away, so that each waits for the other. No Ready pod of the
// Deployment goes unless as many as wanted remain, at most one of the six is away at
// a time and one of the three without a budget, and in the end, an hour and a half
// after the last fault, all are on one pool and nothing is left behind.
func TestSwitchUnderFaults(t *testing.T) {
	var sum outcome
	for _, s := range seeds() {
		sum.add(t, s)
	}
	t.Logf("%d schedules: a move was refused in %d, given up in %d; in %d workloads end where the policy wants them", len(seeds()), sum.refused, sum.gaveUp, sum.moved)
	t.Logf("%d Ready pods of the Deployment went, %d of them although no more were Ready than wanted; never fewer than %d were Ready", sum.lost, sum.missed, sum.least)
	t.Logf("%d Ready pods of StatefulSets were evicted, never fewer than %d of 6 under the budget and %d of 3 without one were Ready; the operator waited for the budget in %d cycles, and was refused %d times, %d when somebody else had evicted a pod right before",
		sum.evicted, sum.leastCovered, sum.leastBare, sum.waited, sum.overBudget, sum.overtaken)
	if *schedules >= 10 && (sum.lost == 0 || sum.evicted == 0 || sum.waited == 0 || sum.overBudget == 0 || sum.gaveUp == 0) {
		t.Error("something of what these schedules are for has not happened in any")
	}
}

// schedule of faults. Alone, the Deployment has no company.
type schedule struct {
	seed  int
	alone bool
}

// seeds are those asked for and, unless the first is stated, those that once
// found something: in 762, alone, a move was tried again with pods on the new pool
// that had not got Ready the last time, and would not this time.
func seeds() []schedule {
	var out []schedule
	for seed := *firstSeed; seed < *firstSeed+*schedules; seed++ {
		out = append(out, schedule{seed: seed})
	}
	if *firstSeed == 0 {
		out = append(out, schedule{762, true})
	}
	return out
}

// outcome of schedules.
type outcome struct {
	refused, gaveUp, moved                 int   // schedules
	lost, missed                           int   // Ready pods of the Deployment
	least, leastCovered, leastBare         int32 // Ready pods at a moment
	evicted, waited, overBudget, overtaken int
}

const (
	faultsFor, calmFor = 45 * time.Minute, 90 * time.Minute
	perSet             = 3
)

// scenario of a schedule: the load is the Deployment's.
func (s schedule) scenario(t *testing.T) scenarios.Scenario {
	out := loadScenario(t, "heartbeat")
	users := 120
	out.StartVUs, out.Stages, out.Repeat = &users, []scenarios.Stage{{Duration: faultsFor + calmFor, Target: users}}, 1
	out.Workload.Replicas = scenarios.Bounds{Min: 6, Max: 15}
	if s.alone {
		return out
	}
	web := out.Deployments()[0]
	out.Users = out.UserTypes()
	for _, name := range []string{"db", "queue", "cache"} {
		set := web
		set.Name, set.Replicas = name, scenarios.Bounds{Min: perSet, Max: perSet}
		out.Services = append(out.Services, set)
	}
	out.Services = append([]scenarios.Service{web}, out.Services...)
	out.Pools[0].Nodes = 5
	return out
}

// add runs one schedule and fails the test if a promise is broken in it.
func (o *outcome) add(t *testing.T, s schedule) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(s.seed), 5))
	options := Options{Scenario: s.scenario(t), Scaler: "mash2", Seed: uint64(s.seed), Passes: 1, Faults: Faults{Until: faultsFor}}
	names := [...]string{api.Performance, api.CostSaving}
	for i := range 1 + rng.IntN(3) {
		at := time.Duration(float64(faultsFor) * (float64(i) + rng.Float64()) / 3)
		options.Switches = append(options.Switches, scenarios.Switch{At: scenarios.Duration{Duration: at}, Policy: names[i%2]})
	}
	var last api.Cycle
	var refused, gaveUp bool
	plans := map[api.Key][]wanted{}
	options.Report = func(c api.Cycle) {
		last = c
		if *faultCycles {
			t.Logf("%s policy %s: %v\n\tfindings %v", c.Time.Format(time.TimeOnly), c.Policy.Name, c.Outcomes, c.Findings)
		}
		if r := c.Plan.Nodes.Refusal; r != nil {
			refused, gaveUp = true, gaveUp || r.GaveUp
		}
		for _, p := range c.Plan.Workloads {
			plans[p.Key] = append(plans[p.Key], wanted{c.Time.Sub(Epoch), p.Replicas})
		}
		if slices.ContainsFunc(c.Findings, func(f api.Finding) bool { return f.Reason == "EvictionWaitsForBudget" }) {
			o.waited++
		}
	}
	// At rest is who once has nothing left to do in the last three minutes: ordinary
	// scaling goes on.
	wrong := "nobody has looked"
	options.prepare = func(c *Cluster) {
		c.untilAtRest(faultsFor+calmFor-time.Minute, &wrong)
		if s.alone {
			return
		}
		c.addSets()
	}
	var world *Cluster
	options.inspect = func(c *Cluster) { world = c }
	r := simulate(t, options)

	fail := func(format string, args ...any) { t.Errorf("seed %d: %s", s.seed, fmt.Sprintf(format, args...)) }
	web := r.Workloads[0]
	lost, missed := losses(web.Steps, plans[world.workloads[0].key])
	o.lost, o.missed = o.lost+lost, o.missed+len(missed)
	for _, m := range missed {
		fail("%s", m)
	}
	o.least = least(o.least, web.Measured.MinReadyPods)
	if !s.alone {
		covered, bare := leastTogether(r.Start, r.Workloads[1].Steps, r.Workloads[2].Steps), leastTogether(r.Start, r.Workloads[3].Steps)
		if covered < 2*perSet-1 || bare < perSet-1 {
			fail("at some moment only %d of %d pods of StatefulSets under the budget were Ready, or %d of %d without one", covered, 2*perSet, bare, perSet)
		}
		o.leastCovered, o.leastBare = least(o.leastCovered, covered), least(o.leastBare, bare)
		if world.overBudget > world.overtaken {
			fail("%d evictions were refused, %d of them because somebody else was first", world.overBudget, world.overtaken)
		}
	}
	o.evicted += world.evicted
	o.overBudget += world.overBudget
	o.overtaken += min(world.overBudget, world.overtaken)
	if wrong != "" {
		fail("%s; last cycle: %v", wrong, last.Findings)
	}
	for count, so := range map[*int]bool{&o.refused: refused, &o.gaveUp: gaveUp, &o.moved: last.Plan.Nodes.Refusal == nil} {
		if so {
			*count++
		}
	}
}

// least of numbers, of which 0 is none yet.
func least(a, b int32) int32 {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// wanted replicas from a cycle on.
type wanted struct {
	at       time.Duration
	replicas int32
}

// losses counts the Ready pods of a Deployment that went, and tells of those after
// which fewer than wanted were left: then fewer were Ready than before, although
// no fewer are wanted. What is wanted is what the plan said when the controller was
// told, which is up to a second ago.
func losses(steps []record.WorkloadStep, plans []wanted) (lost int, missed []string) {
	for i := 1; i < len(steps); i++ {
		s := steps[i]
		if s.Ready >= steps[i-1].Ready {
			continue
		}
		lost++
		want := int32(-1)
		for _, p := range slices.Backward(plans) {
			if p.at > s.At {
				continue
			}
			if want < 0 || p.replicas < want {
				want = p.replicas
			}
			if p.at < s.At-time.Second {
				break
			}
		}
		if s.Ready < want {
			missed = append(missed, fmt.Sprintf("at %v a Ready pod was lost, %d were left of %d wanted", s.At, s.Ready, want))
		}
	}
	return lost, missed
}

// leastTogether is the least number of Ready pods of workloads together from a time on.
func leastTogether(from time.Duration, all ...[]record.WorkloadStep) int32 {
	times := []time.Duration{from}
	for _, s := range slices.Concat(all...) {
		if s.At > from {
			times = append(times, s.At)
		}
	}
	out := int32(math.MaxInt32)
	for _, t := range times {
		ready := int32(0)
		for _, steps := range all {
			for _, s := range slices.Backward(steps) {
				if s.At <= t {
					ready += s.Ready
					break
				}
			}
		}
		out = min(out, ready)
	}
	return out
}

// addSets makes all workloads but the first one StatefulSets, of which two share a budget. None
// is on the Deployment: the Eviction API keeps pods that never get Ready where fewer than
// desired are, and here they never do, for life.
func (c *Cluster) addSets() {
	for _, w := range c.workloads[1:] {
		w.stateful = true
	}
	c.addBudget("data", 1, c.workloads[1:3]...)
}

// untilAtRest has wrong say from a time on what is left behind, until nothing is for once.
func (c *Cluster) untilAtRest(from time.Duration, wrong *string) {
	c.every(from, 15*time.Second, func() bool {
		if *wrong != "" {
			*wrong = leftBehind(c)
		}
		return *wrong != ""
	})
}

// leftBehind says what a move has not finished; empty if all is at rest.
func leftBehind(c *Cluster) string {
	pools := map[string]int{}
	for _, n := range c.nodes {
		if n.cordoned || n.deleting {
			return fmt.Sprintf("node %s is cordoned for %q, or being deleted", n.name, n.cordonedFor)
		}
		if len(n.pods) > 0 {
			pools[n.pool.name] += len(n.pods)
		}
	}
	if len(pools) != 1 {
		return fmt.Sprintf("pods are on %v", pools)
	}
	for _, l := range c.ledger {
		if l.Deleted < 0 && pools[l.Pool] == 0 {
			return fmt.Sprintf("node %s of the other pool, which is empty, is still paid for", l.Node)
		}
	}
	for _, w := range c.workloads {
		if n := int32(len(w.pods)); n != w.replicas || w.replicas != w.planned {
			return fmt.Sprintf("%s has %d pods of %d replicas, %d are planned", w.key, n, w.replicas, w.planned)
		}
		for _, p := range w.pods {
			switch {
			case p.costOurs || p.deletionCost != 0:
				return "pod " + p.name + " bears a deletion cost"
			case p.node == nil:
				return "pod " + p.name + " has no node"
			case p.terminating:
				return "pod " + p.name + " is terminating"
			}
		}
	}
	return ""
}
