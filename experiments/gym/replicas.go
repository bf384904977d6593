package gym

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"github.com/mash2-io/mash2/experiments/load/queueing"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/operator/core"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/learned"
	"github.com/mash2-io/mash2/planning/rl"
)

// ReplicasName is the name of the world in which replicas are planned.
const ReplicasName = "replicas"

// The world of replicas: the workload, machines and noise of the scenario heartbeat, with
// another load in each episode.
const (
	// replicasLimit is half an hour of cycles.
	replicasLimit = 120
	// violation is what a cycle costs in which the SLO is violated, in cycles at the most
	// replicas.
	violation = 5
)

// ReplicasInputs are what an observation has, as the operator's planner makes it.
func ReplicasInputs() []rl.Input {
	return []rl.Input{
		{Name: learned.InputCPU, Scale: 200},                     // the request
		{Name: learned.InputRequests, Scale: 400, Millicores: 3}, // of the most users
		{Name: learned.InputReplicas, Scale: replicasAtMost},
	}
}

// replicasAtMost is the scenario's.
const replicasAtMost = 20

// replicas is the task: one replica fewer, none, or one more each cycle, as the operator's
// planner rl has it, around the same reactive floor.
func replicas() Task {
	return Task{
		Name: ReplicasName, Spec: rl.Spec{Observations: len(ReplicasInputs()), Actions: rl.Space{N: 3}}, Limit: replicasLimit,
		New: func() rl.Env { return &Replicas{} }, Inputs: ReplicasInputs(),
	}
}

// Replicas is the simulator as an environment: an episode is a run of package sim with the
// operator's own loop, planners, Guard and nodes, in which the agent answers for the workload's
// planner. Forecasts are left out: what an agent needs of the past it has to have in its state.
//
// The reward of a cycle is 0 at best: minus the share of the most replicas that run, and minus
// violation where requests of the cycle violated the SLO. Episodes are truncated.
type Replicas struct {
	// Planned leaves each decision to the operator's own planner: actions are ignored.
	Planned bool
	// Cycles that were rewarded, over all episodes, with the Ready replicas in them, and how
	// many of them violated the SLO.
	Cycles, Ready, Violating float64

	next func() (moment, bool)
	stop func()
	// action is the agent's answer to the moment before.
	action int
	steps  int
	seen   []float32
}

// moment is a decision that is asked for.
type moment struct {
	seen     []float32
	ready    float64
	violated bool
}

// Reset begins a run with a load of its own.
func (r *Replicas) Reset(rng *rand.Rand) []float32 {
	if r.stop != nil {
		r.stop()
	}
	s, seed := randomLoad(rng), rng.Uint64()
	r.action, r.steps = 1, 0
	r.next, r.stop = iter.Pull(func(yield func(moment) bool) { r.play(s, seed, yield) })
	m, ok := r.next()
	if !ok {
		panic("gym: a simulation ended before it asked for a decision")
	}
	r.seen = append(r.seen[:0], m.seen...)
	return r.seen
}

// Step goes on to the next decision.
func (r *Replicas) Step(a rl.Action) ([]float32, float64, bool, bool) {
	r.action = a.Discrete
	m, ok := r.next()
	if !ok {
		return r.seen, 0, false, true
	}
	r.steps++
	r.seen = append(r.seen[:0], m.seen...)
	reward := -m.ready / replicasAtMost
	r.Cycles, r.Ready = r.Cycles+1, r.Ready+m.ready
	if m.violated {
		reward -= violation
		r.Violating++
	}
	return r.seen, reward, false, r.steps == replicasLimit
}

// play runs the simulation and yields at each decision, until nobody wants another one.
func (r *Replicas) play(s scenarios.Scenario, seed uint64, yield func(moment) bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cfg := core.DefaultConfig()
	cfg.Forecaster = ""
	var last time.Time
	over := false
	o := sim.Options{Scenario: s, Scaler: sim.Mash2, Seed: seed, Passes: 1, Operator: &cfg}
	inputs := ReplicasInputs()
	o.Decide = func(in planning.Input, base planning.Proposal, seen queueing.Window) planning.Proposal {
		observation, saw, missing := learned.Observe(inputs, in, base)
		if missing != "" || over {
			return base
		}
		// A cycle asks for each pool that it may choose: it is one decision.
		if in.Time.After(last) {
			last = in.Time
			if over = !yield(moment{observation, float64(in.Workload.ReadyReplicas), Violates(s, seen)}); over {
				cancel()
				return base
			}
		}
		if r.Planned {
			return base
		}
		return learned.Ask(in, base, inputs, r.action-1, "the agent", saw)
	}
	if _, err := sim.Run(ctx, o); err != nil && ctx.Err() == nil {
		panic(fmt.Sprintf("gym: %v", err)) // no load that is drawn is refused
	}
}

// Violates tells whether requests were slower than the SLO's p95, or more of them failed.
func Violates(s scenarios.Scenario, seen queueing.Window) bool {
	ended := float64(seen.Ended())
	if ended == 0 {
		return false
	}
	p95, known := seen.Latency.Quantile(0.95)
	return float64(seen.Failed()) > s.SLO.FailedRatio*ended || known && p95.Seconds() > s.SLO.P95Ms/1000
}

// randomLoad is heartbeat with users that come and go at random: levels are log-uniform from
// 10 to 400, held for one to six minutes, and reached within 30 seconds to three minutes.
func randomLoad(rng *rand.Rand) scenarios.Scenario {
	s, err := scenarios.Load("heartbeat")
	if err != nil {
		panic(err) // it is in the program
	}
	level := func() int { return int(10 * math.Pow(40, rng.Float64())) }
	start := level()
	s.Name, s.StartVUs, s.Stages = ReplicasName, &start, nil
	for s.PassDuration() < (replicasLimit+8)*15*time.Second {
		to := level()
		s.Stages = append(s.Stages,
			scenarios.Stage{Duration: 30*time.Second + time.Duration(rng.Int64N(int64(150*time.Second))), Target: to},
			scenarios.Stage{Duration: time.Minute + time.Duration(rng.Int64N(int64(5*time.Minute))), Target: to})
	}
	return s
}
