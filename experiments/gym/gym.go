// Package gym has the standard tasks of reinforcement learning, with their published
// physics: CartPole-v1 and Pendulum-v1 as in Gymnasium (Farama-Foundation/Gymnasium,
// commit 3f0476a; Barto et al. 1983 for the first). It also has MARLISE's world, whose
// agents move CPU between running pods.
package gym

import (
	"fmt"
	"strings"

	"github.com/mash2-io/mash2/planning/rl"
	"github.com/mash2-io/mash2/planning/vertical"
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
	// Judge makes the one that policies are evaluated in, where it is another than New's;
	// Peers are what follows the learner's policy in both. Nil in worlds of one agent.
	Judge func() rl.Env
	Peers *Peers
	// RewardScale is what learners multiply rewards by, so that returns are of a size
	// that their networks reach soon; 0 is 1.
	RewardScale float64
	// Inputs say what an observation is of to who makes one outside; nil where nobody does.
	Inputs []rl.Input
}

// MarliseName is the name of MARLISE's world.
const MarliseName = "marlise"

// marlise is the task whose actions are of a kind.
func marlise(a vertical.Action) Task {
	peers := &Peers{}
	env := func(team bool) func() rl.Env {
		return func() rl.Env { return &Marlise{action: a, peers: peers, team: team} }
	}
	return Task{
		Name: MarliseName, Spec: rl.Spec{Observations: vertical.Inputs, Actions: a.Space()}, Limit: marliseLimit,
		New: env(false), Judge: env(true), Peers: peers, RewardScale: 0.05,
	}
}

// For is the task by name as an algorithm sees it: what actions MARLISE's agents have
// depends on the algorithm. It returns an error for a name that there isn't.
func For(name, algorithm string) (Task, error) {
	if name == MarliseName {
		return marlise(vertical.ActionOf(algorithm)), nil
	}
	return ByName(name)
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
		marlise(vertical.Changes), replicas(),
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
