package training

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/experiments/gym"
	"github.com/mash2-io/mash2/planning/rl"
)

// algorithm is a way of learning, with the settings that are used here.
type algorithm struct {
	name string
	// discrete and continuous are the kinds of actions that it can learn.
	discrete, continuous bool
	new                  func(task gym.Task, steps int, seed uint64) (rl.Learner, error)
}

func algorithms() []algorithm {
	dqn := func(name string, double, dueling bool) algorithm {
		return algorithm{name: name, discrete: true, new: func(task gym.Task, steps int, seed uint64) (rl.Learner, error) {
			c := rl.DefaultDQN(steps)
			c.Seed, c.Double, c.Dueling = seed, double, dueling
			return rl.NewDQN(c, task.Spec, task.New())
		}}
	}
	ddpg := func(name string, config func() rl.DDPGConfig) algorithm {
		return algorithm{name: name, continuous: true, new: func(task gym.Task, _ int, seed uint64) (rl.Learner, error) {
			c := config()
			c.Seed = seed
			return rl.NewDDPG(c, task.Spec, task.New())
		}}
	}
	return []algorithm{
		dqn("dqn", false, false), dqn("double-dqn", true, false), dqn("dueling-dqn", false, true),
		{name: "ppo", discrete: true, continuous: true, new: func(task gym.Task, steps int, seed uint64) (rl.Learner, error) {
			c := rl.DefaultPPO(steps)
			if !task.Spec.Actions.Discrete() {
				c = rl.DefaultContinuousPPO(steps)
			}
			c.Seed = seed
			return rl.NewPPO(c, task.Spec, task.New)
		}},
		ddpg("ddpg", rl.DefaultDDPG), ddpg("td3", rl.DefaultTD3),
	}
}

// Algorithms are the names of all of them.
func Algorithms() []string {
	var out []string
	for _, a := range algorithms() {
		out = append(out, a.name)
	}
	return out
}

func algorithmFor(name string, task gym.Task) (algorithm, error) {
	var fit []string
	for _, a := range algorithms() {
		if task.Spec.Actions.Discrete() && a.discrete || !task.Spec.Actions.Discrete() && a.continuous {
			fit = append(fit, a.name)
			if a.name == name {
				return a, nil
			}
		}
	}
	if slices.Contains(Algorithms(), name) {
		return algorithm{}, fmt.Errorf("algorithm %q does not fit the actions of environment %q: want one of %s", name, task.Name, strings.Join(fit, ", "))
	}
	return algorithm{}, fmt.Errorf("unknown algorithm %q: want one of %s", name, strings.Join(Algorithms(), ", "))
}
