package rl

import (
	"fmt"
	"math/rand/v2"
)

// Env is an environment: a Markov decision process that is met one step at a time.
// Observations belong to the environment and hold until its next call. An Env is for one
// goroutine.
type Env interface {
	// Reset begins an episode and returns its first observation.
	Reset(rng *rand.Rand) (observation []float32)
	// Step takes an action. terminated: the process ended, there is no future;
	// truncated: the episode was cut, by a time limit for example. After either, Reset
	// is due.
	Step(action Action) (observation []float32, reward float64, terminated, truncated bool)
}

// Action is one of a Space: the field that the space's kind asks for is set.
type Action struct {
	// Discrete is the number of the choice, from 0.
	Discrete int
	// Continuous has one number for each dimension, in the space's own units. It belongs
	// to whoever decided and holds until it decides again.
	Continuous []float32
}

// Space is what actions can be: either N choices, or a box.
type Space struct {
	// N is the number of choices, 0 in a continuous space.
	N int `json:"n,omitempty"`
	// Low and High are the bounds of each dimension of a box.
	Low  []float32 `json:"low,omitempty"`
	High []float32 `json:"high,omitempty"`
}

// Discrete reports whether actions are choices.
func (s Space) Discrete() bool { return s.N > 0 }

// Outputs is how many numbers a network gives for a decision: one per choice, or one per
// dimension.
func (s Space) Outputs() int {
	if s.Discrete() {
		return s.N
	}
	return len(s.Low)
}

// scale writes to out the action of the box that x, from -1 to 1 and clipped to it,
// stands for.
func (s Space) scale(x, out []float32) {
	for i, v := range x {
		v = min(max(v, -1), 1)
		out[i] = s.Low[i] + (v+1)/2*(s.High[i]-s.Low[i])
	}
}

// Spec describes an environment to a learner.
type Spec struct {
	// Observations is the length of an observation.
	Observations int   `json:"observations"`
	Actions      Space `json:"actions"`
}

// Validate returns an error for a Spec that no network fits.
func (s Spec) Validate() error {
	a := s.Actions
	switch {
	case s.Observations < 1:
		return fmt.Errorf("an environment of %d observations", s.Observations)
	case a.N < 0 || a.N == 1 || a.N > 0 && len(a.Low)+len(a.High) > 0:
		return fmt.Errorf("a discrete space of %d actions and %d bounds", a.N, len(a.Low)+len(a.High))
	case a.N == 0 && (len(a.Low) == 0 || len(a.Low) != len(a.High)):
		return fmt.Errorf("a continuous space with %d lower and %d upper bounds", len(a.Low), len(a.High))
	}
	for i := range a.Low {
		if !(a.Low[i] < a.High[i]) || a.High[i]-a.Low[i] > 1e6 { // NaN, too
			return fmt.Errorf("a continuous space from %g to %g", a.Low[i], a.High[i])
		}
	}
	return nil
}
