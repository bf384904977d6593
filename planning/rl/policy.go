package rl

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Policy is what decides: the action with the largest output of its network in a
// discrete space; in a continuous one outputs from -1 to 1, cut to that and scaled to the
// space's bounds.
type Policy struct {
	Network *Network
	Actions Space
}

// Validate returns an error for a policy whose network does not fit its space.
func (p Policy) Validate() error {
	if err := (Spec{p.Network.Architecture.Inputs, p.Actions}).Validate(); err != nil {
		return err
	}
	if got, want := p.Network.Outputs(), p.Actions.Outputs(); got != want {
		return fmt.Errorf("a network of %d outputs for a space of %d", got, want)
	}
	return nil
}

// Actor decides by a policy. It is for one goroutine and allocates nothing.
type Actor struct {
	pass    *Pass
	actions Space
	out     []float32
	known   bool
}

// NewActor decides by a policy, which must not change meanwhile unless this is wanted.
func (p Policy) NewActor() *Actor {
	return &Actor{pass: p.Network.NewPass(1), actions: p.Actions, out: make([]float32, p.Actions.Outputs())}
}

// Act returns the best action after an observation.
func (a *Actor) Act(observation []float32) Action {
	y := a.pass.Forward(observation, 1)
	a.known = !slices.ContainsFunc(y, func(v float32) bool { return v-v != 0 })
	if a.actions.Discrete() {
		return Action{Discrete: argmax(y)}
	}
	a.actions.scale(y, a.out)
	return Action{Continuous: a.out}
}

// Known reports whether the outputs behind the last action are numbers. With weights that
// are too large they are not, and the action says nothing.
func (a *Actor) Known() bool { return a.known }

// argmax is the index of the largest number, the first of several.
func argmax(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// Evaluate returns the undiscounted return of each episode that a policy plays. The
// starts come from seed: policies that are evaluated with the same seed meet the same
// ones.
func Evaluate(p Policy, env Env, episodes int, seed uint64) []float64 {
	return Play(env, p.NewActor().Act, episodes, seed)
}

// Play is Evaluate of whatever decides.
func Play(env Env, decide func(observation []float32) Action, episodes int, seed uint64) []float64 {
	returns := make([]float64, episodes)
	for i := range returns {
		observation := env.Reset(rand.New(rand.NewPCG(seed, uint64(i))))
		for over := false; !over; {
			next, reward, terminated, truncated := env.Step(decide(observation))
			returns[i] += reward
			observation, over = next, terminated || truncated
		}
	}
	return returns
}

// Learner improves a policy by trial and error.
type Learner interface {
	// Learn goes on for so many steps of environments, rounded up to whole rounds.
	Learn(steps int)
	// Round is the number of steps that belong together: 1, or a rollout's.
	Round() int
	// State is all that Learn goes on from. Restore puts it into a learner that was made with
	// the same settings, in the same kind of environment: from there on it learns as the one
	// that the state was taken of. A learner that could not be restored is of no use.
	State() ([]byte, error)
	Restore(state []byte) error
	// Policy is a copy of the best action known for each observation, without what
	// exploration adds.
	Policy() Policy
}

// Parts of a learner that are random.
const (
	forWeights = iota + 1
	forActions
	forBatches
	forEnv // and on, one for each
)

// interaction is one environment in the middle of an episode.
type interaction struct {
	env Env
	rng stream
	// begin is the randomness that the episode began with, actions what was done since.
	begin   rand.PCG
	actions []Action
	// at is the observation to act on, before the last one that was acted on.
	at, before []float32
}

func newInteraction(env Env, rng stream) *interaction {
	begin := *rng.pcg
	at := env.Reset(rng.Rand)
	return &interaction{env: env, rng: rng, begin: begin, at: slices.Clone(at), before: slices.Clone(at)}
}

// step acts. next holds until the next call, and is not at when the episode is over: at
// is the first of the next episode then.
func (x *interaction) step(a Action) (next []float32, reward float64, terminated, truncated bool) {
	x.at, x.before = x.before, x.at
	a.Continuous = slices.Clone(a.Continuous)
	x.actions = append(x.actions, a)
	next, reward, terminated, truncated = x.env.Step(a)
	copy(x.at, next)
	return x.at, reward, terminated, truncated
}

// renew begins an episode.
func (x *interaction) renew() {
	x.begin, x.actions = *x.rng.pcg, x.actions[:0]
	copy(x.at, x.env.Reset(x.rng.Rand))
}
