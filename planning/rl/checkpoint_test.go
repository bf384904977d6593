package rl

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// wandering is an environment with memory and noise, whose episodes end at random.
type wandering struct {
	rng  *rand.Rand
	seen [2]float32
	left int
}

func (w *wandering) Reset(rng *rand.Rand) []float32 {
	w.rng, w.left = rng, 5+rng.IntN(40)
	w.seen = [2]float32{rng.Float32(), 0}
	return w.seen[:]
}

func (w *wandering) Step(a Action) ([]float32, float64, bool, bool) {
	move := float32(a.Discrete) - 0.5
	if a.Continuous != nil {
		move = a.Continuous[0]
	}
	w.seen[0] += 0.1*move + 0.05*float32(w.rng.NormFloat64())
	w.seen[1] = 0.9*w.seen[1] + move
	w.left--
	return w.seen[:], -float64(w.seen[0] * w.seen[0]), w.seen[0] > 2, w.left == 0
}

// TestRestoredLearnersGoOn: a learner that is restored in a fresh one learns, byte for byte,
// what the first one does that never stopped, wherever in an episode that was.
func TestRestoredLearnersGoOn(t *testing.T) {
	choices := Spec{Observations: 2, Actions: Space{N: 2}}
	box := Spec{Observations: 2, Actions: Space{Low: []float32{-1}, High: []float32{1}}}
	env := func() Env { return &wandering{} }
	for name, learner := range map[string]func(seed uint64) (Learner, error){
		"dqn": func(seed uint64) (Learner, error) {
			c := DefaultDQN(2000)
			c.Seed, c.Start, c.Batch, c.Capacity, c.TargetEvery, c.Double, c.Dueling = seed, 50, 16, 300, 30, true, true
			c.Optimiser.AMSGrad = true
			return NewDQN(c, choices, env())
		},
		"td3": func(seed uint64) (Learner, error) {
			c := DefaultTD3()
			c.Seed, c.Start, c.Batch, c.Capacity = seed, 50, 16, 300
			return NewDDPG(c, box, env())
		},
		"ppo": func(seed uint64) (Learner, error) {
			c := DefaultPPO(2000)
			c.Seed, c.Steps, c.Minibatch = seed, 8, 32
			return NewPPO(c, choices, env)
		},
		"continuous ppo": func(seed uint64) (Learner, error) {
			c := DefaultPPO(2000)
			c.Seed, c.Steps, c.Minibatch = seed, 8, 32
			return NewPPO(c, box, env)
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, err := learner(3)
			if err != nil {
				t.Fatal(err)
			}
			for _, steps := range []int{10 * first.Round(), 397 * first.Round() / max(1, first.Round()/4)} {
				first.Learn(steps)
				state, err := first.State()
				if err != nil {
					t.Fatal(err)
				}
				second, _ := learner(3)
				if err := second.Restore(state); err != nil {
					t.Fatal(err)
				}
				first.Learn(5 * first.Round() * 20)
				second.Learn(5 * first.Round() * 20)
				a, errA := first.State()
				b, errB := second.State()
				if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
					t.Fatalf("after %d steps: the states differ, %v", steps, err)
				}
				if fmt.Sprint(first.Policy().Network.Params) != fmt.Sprint(second.Policy().Network.Params) {
					t.Fatal("the policies differ")
				}
			}
		})
	}
}

// TestStatesOfOthersAreRefused by kind and by size.
func TestStatesOfOthersAreRefused(t *testing.T) {
	choices := Spec{Observations: 2, Actions: Space{N: 2}}
	dqn := func(hidden int) Learner {
		c := DefaultDQN(100)
		c.Hidden = []int{hidden}
		d, err := NewDQN(c, choices, &wandering{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	ppo, err := NewPPO(DefaultPPO(100), choices, func() Env { return &wandering{} })
	if err != nil {
		t.Fatal(err)
	}
	state, err := dqn(8).State()
	if err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]Learner{"another size": dqn(9), "another kind": ppo} {
		if err := other.Restore(state); !errors.Is(err, errOther) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := dqn(8).Restore(state[:len(state)/2]); err == nil {
		t.Error("half a state was taken")
	}
}
