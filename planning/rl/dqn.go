package rl

import (
	"errors"
	"fmt"
	"reflect"
)

// DQNConfig says how DQN learns. DefaultDQN has what is usual.
type DQNConfig struct {
	Seed uint64
	// Hidden are the sizes of the hidden layers, with ReLU and, if Norm, with LayerNorm.
	Hidden []int
	Norm   bool
	// Double takes the action of a target from the online network and its value from the
	// target network (van Hasselt et al. 2016). Dueling splits values from advantages.
	Double, Dueling bool
	// Optimiser is copied. ClipValue and ClipNorm bound gradients; 0 does not.
	Optimiser           Adam
	ClipValue, ClipNorm float64
	// Gamma discounts the future by step.
	Gamma float64
	// Batch is how many transitions a gradient step sees, Capacity how many are kept.
	Batch, Capacity int
	// Start is the number of steps before the first gradient step. Then, every Every
	// steps, Gradients of them follow.
	Start, Every, Gradients int
	// TargetEvery is the number of environment steps from one update of the target
	// network to the next, Tau how far it then goes: 1 is a copy.
	TargetEvery int
	Tau         float64
	// Explore is the probability of a random action: From at first, To after Steps, and
	// linear between.
	Explore Schedule
	// From is a network of the same architecture to begin with, copied; nil for a random one.
	From *Network
}

// Schedule is a number that changes linearly with steps.
type Schedule struct {
	From, To float64
	Steps    int
}

// At is the number after steps.
func (s Schedule) At(steps int) float64 {
	if steps >= s.Steps {
		return s.To
	}
	return s.From + (s.To-s.From)*float64(steps)/float64(s.Steps)
}

// DefaultDQN is CleanRL's for CartPole-v1, for a run of steps, but fitted to a fifth of
// its steps: twice the learning rate (5e-4), 2.5 times as many gradient steps (one in
// four steps), and exploration that ends after a fifth of the run instead of half.
func DefaultDQN(steps int) DQNConfig {
	return DQNConfig{
		Hidden: []int{120, 84}, Optimiser: Adam{Rate: 5e-4}, ClipNorm: 10, Gamma: 0.99,
		Batch: 128, Capacity: 100_000, Start: 1000, Every: 4, Gradients: 1,
		TargetEvery: 500, Tau: 1, Explore: Schedule{1, 0.05, max(1, steps/5)},
	}
}

// Validate returns an error that names a field which makes no sense.
func (c DQNConfig) Validate() error {
	switch {
	case c.Batch < 1 || c.Capacity < c.Batch || c.Start < 1:
		return fmt.Errorf("batch %d, capacity %d, start %d: want a batch and a start of 1 or more and a capacity that holds a batch", c.Batch, c.Capacity, c.Start)
	case c.Every < 1 || c.Gradients < 1 || c.TargetEvery < 1:
		return errors.New("every, gradients and targetEvery must be 1 or more")
	case !(c.Gamma >= 0 && c.Gamma <= 1) || !(c.Tau > 0 && c.Tau <= 1):
		return fmt.Errorf("gamma %g and tau %g must be from 0 to 1, tau above it", c.Gamma, c.Tau)
	case !(c.Optimiser.Rate > 0):
		return fmt.Errorf("the learning rate must be positive, is %g", c.Optimiser.Rate)
	}
	return nil
}

// DQN learns the value of every action: Q(s,a), by one-step targets from replayed
// transitions, with Huber's loss and a target network.
type DQN struct {
	config  DQNConfig
	actions Space
	env     *interaction
	replay  *Replay
	batch   *Batch
	choose  stream
	sample  stream
	steps   int

	online, target       *Network
	acting, pass, future *Pass
	grads, outputs       []float32
	targets              []float32
	best                 []int
	action               [1]float32
}

// NewDQN makes a learner for an environment of discrete actions.
func NewDQN(c DQNConfig, spec Spec, env Env) (*DQN, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if !spec.Actions.Discrete() {
		return nil, errors.New("DQN needs discrete actions")
	}
	n := spec.Actions.N
	a := MLP(spec.Observations, c.Hidden, c.Norm, ReLU, n)
	if c.Dueling {
		a.Layers[len(a.Layers)-1].Outputs++
		a.Layers = append(a.Layers, Layer{Kind: Dueling})
	}
	online, err := NewNetwork(a)
	if err != nil {
		return nil, err
	}
	online.InitKaiming(source(c.Seed, forWeights).Rand)
	if c.From != nil {
		if !reflect.DeepEqual(c.From.Architecture, a) {
			return nil, errors.New("the network to begin with has another architecture")
		}
		copy(online.Params, c.From.Params)
	}
	d := &DQN{
		config: c, actions: spec.Actions, env: newInteraction(env, source(c.Seed, forEnv)),
		replay: NewReplay(c.Capacity, spec.Observations, 1), choose: source(c.Seed, forActions), sample: source(c.Seed, forBatches),
		online: online, target: online.Clone(), grads: make([]float32, len(online.Params)),
		outputs: make([]float32, c.Batch*n), targets: make([]float32, c.Batch), best: make([]int, c.Batch),
	}
	d.batch = d.replay.NewBatch(c.Batch)
	d.acting, d.pass, d.future = online.NewPass(1), online.NewPass(c.Batch), d.target.NewPass(c.Batch)
	return d, nil
}

// Policy acts greedily on the online network.
func (d *DQN) Policy() Policy { return Policy{d.online.Clone(), d.actions} }

// Round is one step.
func (d *DQN) Round() int { return 1 }

// Learn goes on for so many steps.
func (d *DQN) Learn(steps int) {
	for range steps {
		c := &d.config
		action := d.choose.IntN(d.actions.N)
		if d.choose.Float64() >= c.Explore.At(d.steps) {
			action = argmax(d.acting.Forward(d.env.at, 1))
		}
		next, reward, terminated, truncated := d.env.step(Action{Discrete: action})
		d.action[0] = float32(action)
		d.replay.Add(d.env.before, d.action[:], reward, next, terminated)
		if terminated || truncated {
			d.env.renew()
		}
		d.steps++
		if d.steps%c.TargetEvery == 0 {
			d.target.Follow(d.online, float32(c.Tau))
		}
		if d.steps >= c.Start && d.steps%c.Every == 0 {
			for range c.Gradients {
				d.replay.Sample(d.sample.Rand, d.batch)
				d.improve(d.batch)
			}
		}
	}
}

// aim writes the targets of a batch: r + γ·Q'(s', a*), without the second term where
// terminated. a* is the best action by the target network Q', or with Double by the
// online one.
func (d *DQN) aim(b *Batch) {
	n := d.actions.N
	if d.config.Double {
		q := d.pass.Forward(b.To, b.Rows)
		for i := range b.Rows {
			d.best[i] = argmax(q[i*n:][:n])
		}
	}
	future := d.future.Forward(b.To, b.Rows)
	for i := range b.Rows {
		q := future[i*n:][:n]
		if !d.config.Double {
			d.best[i] = argmax(q)
		}
		d.targets[i] = b.Reward[i]
		if !b.Terminated[i] {
			d.targets[i] += float32(d.config.Gamma) * q[d.best[i]]
		}
	}
}

// improve takes one gradient step.
func (d *DQN) improve(b *Batch) {
	d.aim(b)
	n := d.actions.N
	q := d.pass.Forward(b.From, b.Rows)
	clear(d.outputs)
	for i := range b.Rows {
		at := i*n + int(b.Action[i])
		d.outputs[at] = huber(q[at]-d.targets[i]) / float32(b.Rows)
	}
	clear(d.grads)
	d.pass.Backward(d.outputs, d.grads)
	ClipValue(d.grads, d.config.ClipValue)
	ClipNorm(d.grads, d.config.ClipNorm)
	d.config.Optimiser.Step(d.online.Params, d.grads)
}

// huber is the derivative of Huber's loss with threshold 1: the error, cut to ±1.
func huber(err float32) float32 { return min(max(err, -1), 1) }
