// Package gym has the standard tasks of reinforcement learning, with their published
// physics: CartPole-v1 and Pendulum-v1 as in Gymnasium (Farama-Foundation/Gymnasium,
// commit 3f0476a; Barto et al. 1983 for the first).
package gym

import (
	"fmt"
	"strings"

	"github.com/mash2-io/mash2/planning/rl"
)

// Task is an environment by name.
type Task struct {
	Name string
	Spec rl.Spec
	// Limit is the number of steps after which an episode is truncated.
	Limit int
	// Solved is the mean return from which on Gymnasium calls the task solved; 0 if it
	// names none.
	Solved float64
	// New makes one.
	New func() rl.Env
}

// Tasks are all of them.
func Tasks() []Task {
	return []Task{
		{
			Name: "cartpole", Spec: rl.Spec{Observations: 4, Actions: rl.Space{N: 2}}, Limit: cartPoleLimit, Solved: 475,
			New: func() rl.Env { return &CartPole{} },
		},
		{
			Name: "pendulum", Spec: rl.Spec{Observations: 3, Actions: rl.Space{Low: []float32{-maxTorque}, High: []float32{maxTorque}}}, Limit: pendulumLimit,
			New: func() rl.Env { return &Pendulum{} },
		},
	}
}

// Names of the tasks.
func Names() []string {
	var out []string
	for _, t := range Tasks() {
		out = append(out, t.Name)
	}
	return out
}

// ByName finds a task. It returns an error that lists the names for another one.
func ByName(name string) (Task, error) {
	for _, t := range Tasks() {
		if t.Name == name {
			return t, nil
		}
	}
	return Task{}, fmt.Errorf("unknown environment %q: want one of %s", name, strings.Join(Names(), ", "))
}
