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
	// alone: in worlds of one agent; agents: in MARLISE's.
	alone, agents bool
	new           func(task gym.Task, steps int, seed uint64) (rl.Learner, error)
}

func algorithms() []algorithm {
	dqn := func(name string, double, dueling bool) algorithm {
		return algorithm{name: name, discrete: true, alone: true, new: func(task gym.Task, steps int, seed uint64) (rl.Learner, error) {
			c := rl.DefaultDQN(steps)
			c.Seed, c.Double, c.Dueling = seed, double, dueling
			return rl.NewDQN(c, task.Spec, task.New())
		}}
	}
	ddpg := func(name string, config func() rl.DDPGConfig) algorithm {
		return algorithm{name: name, continuous: true, alone: true, agents: true, new: func(task gym.Task, _ int, seed uint64) (rl.Learner, error) {
			c := config()
			if task.Peers != nil {
				c.Gamma, c.Noise = agentsGamma, 0.2
			}
			c.Seed = seed
			return rl.NewDDPG(c, task.Spec, scaled(task)())
		}}
	}
	iddpg := ddpg("iddpg", rl.DefaultDDPG)
	iddpg.alone = false
	residualTD3 := ddpg("residual-td3", rl.DefaultTD3)
	residualTD3.alone = false
	return []algorithm{
		dqn("dqn", false, false), dqn("double-dqn", true, false), dqn("dueling-dqn", false, true),
		{name: "ppo", discrete: true, continuous: true, alone: true, agents: true, new: func(task gym.Task, steps int, seed uint64) (rl.Learner, error) {
			c := rl.DefaultPPO(steps)
			if !task.Spec.Actions.Discrete() {
				c = rl.DefaultContinuousPPO(steps)
			}
			if task.Peers != nil {
				return newAgentsPPO(task, steps, seed)
			}
			c.Seed = seed
			return rl.NewPPO(c, task.Spec, task.New)
		}},
		ddpg("ddpg", rl.DefaultDDPG), ddpg("td3", rl.DefaultTD3),
		{name: "ippo", continuous: true, agents: true, new: newAgentsPPO},
		{name: "dppo", discrete: true, agents: true, new: newAgentsPPO},
		{name: "residual-ppo", continuous: true, agents: true, new: newAgentsPPO}, residualTD3,
		iddpg, agentsDQN("mdqn", false, false), agentsDQN("dmdqn", true, false), agentsDQN("ddmdqn", true, true),
	}
}

// agentsGamma discounts in MARLISE's world: what a limit does is seen within seconds.
const agentsGamma = 0.95

// newAgentsPPO is PPO for MARLISE's agents: the clip of its paper's code, with rollouts of about an
// episode in eight worlds, and GAE.
func newAgentsPPO(task gym.Task, steps int, seed uint64) (rl.Learner, error) {
	c := rl.DefaultPPO(steps)
	c.Seed, c.Steps, c.Minibatch, c.Epochs, c.Gamma, c.Lambda = seed, 128, 256, 10, agentsGamma, 0.9
	c.Rate.From, c.Entropy, c.LogStd = 5e-4, 0.001, -0.7
	return rl.NewPPO(c, task.Spec, scaled(task))
}

// agentsDQN is MARLISE's DQN, double (d) and dueling (dd) where asked for.
func agentsDQN(name string, double, dueling bool) algorithm {
	return algorithm{name: name, discrete: true, agents: true, new: func(task gym.Task, steps int, seed uint64) (rl.Learner, error) {
		c := rl.DefaultDQN(steps)
		c.Seed, c.Double, c.Dueling, c.Gamma, c.Hidden = seed, double, dueling, agentsGamma, []int{64, 64}
		return rl.NewDQN(c, task.Spec, scaled(task)())
	}}
}

// scaled makes environments whose rewards are of a size that networks reach soon.
func scaled(task gym.Task) func() rl.Env {
	if task.RewardScale == 0 {
		return task.New
	}
	return func() rl.Env { return smaller{task.New(), task.RewardScale} }
}

type smaller struct {
	rl.Env
	by float64
}

// Step implements rl.Env.
func (s smaller) Step(a rl.Action) ([]float32, float64, bool, bool) {
	o, r, terminated, truncated := s.Env.Step(a)
	return o, s.by * r, terminated, truncated
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
		kind := task.Spec.Actions.Discrete() && a.discrete || !task.Spec.Actions.Discrete() && a.continuous
		if task.Peers == nil && a.alone && kind || task.Peers != nil && a.agents {
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
