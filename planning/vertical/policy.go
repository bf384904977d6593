package vertical

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/planning/rl"
)

// Action is what the outputs of a policy stand for.
type Action string

// The kinds of actions.
const (
	// Moves are decrease, keep and increase, by Increment.
	Moves Action = "moves"
	// Changes are a number from -1 to 1, times Scale.
	Changes Action = "changes"
	// Levels are a number from 0 to 1: the limit as a share of the budget, at once.
	Levels Action = "levels"
	// Corrections are a number from -1 to 1, times Scale, on top of what the proportional rule
	// proposes: what learns begins with a rule, and not with nothing (residual policy
	// learning: Silver et al. 2018). It is ours, not MARLISE's.
	Corrections Action = "corrections"
)

// MARLISE's units of actions, millicores.
const (
	Increment = 25
	Scale     = 50
)

// Space of the actions.
func (a Action) Space() rl.Space {
	switch a {
	case Moves:
		return rl.Space{N: 3}
	case Levels:
		return rl.Space{Low: []float32{0}, High: []float32{1}}
	}
	return rl.Space{Low: []float32{-1}, High: []float32{1}}
}

// Limit that an action asks for, millicores.
func (a Action) Limit(v *View, act rl.Action) float64 {
	switch a {
	case Moves:
		return float64(v.Limit) + Increment*float64(act.Discrete-1)
	case Levels:
		return float64(act.Continuous[0]) * float64(v.Budget)
	case Corrections:
		return DefaultProportional().Propose(v) + Scale*float64(act.Continuous[0])
	}
	return float64(v.Limit) + Scale*float64(act.Continuous[0])
}

// Algorithm is one of MARLISE's, by its name.
type Algorithm struct {
	Name   string
	Action Action
}

// Algorithms are all eight.
func Algorithms() []Algorithm {
	return []Algorithm{
		{"ppo", Changes},
		{"ippo", Levels},
		{"dppo", Moves},
		{"ddpg", Changes},
		{"iddpg", Levels},
		{"mdqn", Moves},
		{"dmdqn", Moves},
		{"ddmdqn", Moves},
	}
}

// residual is before the names of algorithms whose agents correct the rule.
const residual = "residual-"

// ActionOf an algorithm, MARLISE's or another one of continuous actions.
func ActionOf(algorithm string) Action {
	if a, err := AlgorithmByName(algorithm); err == nil {
		return a.Action
	}
	if strings.HasPrefix(algorithm, residual) {
		return Corrections
	}
	return Changes
}

// AlgorithmByName returns an error that lists the names for another one.
func AlgorithmByName(name string) (Algorithm, error) {
	all := Algorithms()
	i := slices.IndexFunc(all, func(a Algorithm) bool { return a.Name == name })
	if i < 0 {
		var names []string
		for _, a := range all {
			names = append(names, a.Name)
		}
		return Algorithm{}, fmt.Errorf("unknown algorithm %q: want one of %s", name, strings.Join(names, ", "))
	}
	return all[i], nil
}

// Learned decides by a policy. It is for one goroutine.
type Learned struct {
	name   string
	action Action
	actor  *rl.Actor
}

// NewLearned returns an error for a policy that does not fit what agents see and do. One
// planner decides for every pod: the same weights, each pod's own window.
func NewLearned(name string, a Action, p rl.Policy) (*Learned, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if got := p.Network.Architecture.Inputs; got != Inputs {
		return nil, fmt.Errorf("a policy that sees %d numbers: agents see %d", got, Inputs)
	}
	if want := a.Space(); p.Actions.N != want.N || !slices.Equal(p.Actions.Low, want.Low) || !slices.Equal(p.Actions.High, want.High) {
		return nil, fmt.Errorf("a policy whose actions are not %s", a)
	}
	return &Learned{name, a, p.NewActor()}, nil
}

// Name implements Planner.
func (l *Learned) Name() string { return l.name }

// Propose implements Planner. A change that is within the deadband is none: each one is a
// request to the API server, and networks of continuous actions never ask for quite the
// same twice. A network that gives no numbers has no opinion, which is NaN.
func (l *Learned) Propose(v *View) float64 {
	limit, now := l.action.Limit(v, l.actor.Act(v.Window)), float64(v.Limit)
	if !l.actor.Known() {
		return math.NaN()
	}
	if l.action != Moves && math.Abs(limit-now) < math.Min(deadbandShare*now, Increment) {
		return now
	}
	return limit
}

// deadbandShare of a limit, but never more than the discrete agents' step, is what a learned
// agent's change must come to. With it the agents that come with the program write 40 % less
// and answer as soon (TestDeadbandCostsNothing of experiments/gym).
const deadbandShare = 0.1
