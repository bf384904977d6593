package rl

import (
	"errors"
	"fmt"
	"reflect"
)

// DDPGConfig says how DDPG and TD3 learn. DefaultDDPG and DefaultTD3 have what is usual.
// Noise is in units in which the space's bounds are ±1.
type DDPGConfig struct {
	Seed uint64
	// Hidden are the sizes of the hidden layers of actor and critics, with ReLU.
	Hidden []int
	// Norm puts LayerNorm between each hidden layer and its ReLU.
	Norm bool
	// ActorRate and CriticRate are learning rates.
	ActorRate, CriticRate float64
	// ClipNorm bounds the norm of each network's gradients; 0 does not.
	ClipNorm float64
	Gamma    float64
	// Batch is how many transitions a gradient step sees, Capacity how many are kept.
	Batch, Capacity int
	// Start is the number of steps with random actions before the first gradient step,
	// of which one a step follows.
	Start int
	// Tau is the share of the way that target networks go at each update.
	Tau float64
	// Noise is the standard deviation of what exploration adds to actions.
	Noise float64

	// Twin takes the smaller value of two critics for targets. Delay is how many steps
	// of the critics there are to one of the actor and of the targets. Smooth is the
	// standard deviation of noise on the target's action, which is cut to ±SmoothClip.
	// TD3 is all three; without, with a Delay of 1, it is DDPG.
	Twin               bool
	Delay              int
	Smooth, SmoothClip float64
}

// DefaultDDPG is what rl-baselines3-zoo has for Pendulum-v1, with narrower networks: 64
// and 64 instead of 400 and 300.
func DefaultDDPG() DDPGConfig {
	return DDPGConfig{
		Hidden: []int{64, 64}, ActorRate: 1e-3, CriticRate: 1e-3, Gamma: 0.98, Batch: 100, Capacity: 200_000,
		Start: 1000, Tau: 0.005, Noise: 0.1, Delay: 1,
	}
}

// DefaultTD3 is DefaultDDPG with Fujimoto's three changes, at the paper's sizes.
func DefaultTD3() DDPGConfig {
	c := DefaultDDPG()
	c.Twin, c.Delay, c.Smooth, c.SmoothClip = true, 2, 0.2, 0.5
	return c
}

// Validate returns an error that names a field which makes no sense.
func (c DDPGConfig) Validate() error {
	switch {
	case c.Batch < 1 || c.Capacity < c.Batch || c.Start < 1 || c.Delay < 1:
		return fmt.Errorf("batch %d, capacity %d, start %d, delay %d: want 1 or more, and a capacity that holds a batch", c.Batch, c.Capacity, c.Start, c.Delay)
	case !(c.Gamma >= 0 && c.Gamma <= 1) || !(c.Tau > 0 && c.Tau <= 1):
		return fmt.Errorf("gamma %g and tau %g must be from 0 to 1, tau above it", c.Gamma, c.Tau)
	case !(c.ActorRate > 0) || !(c.CriticRate > 0):
		return errors.New("learning rates must be positive")
	case !(c.Noise >= 0) || !(c.Smooth >= 0) || !(c.SmoothClip >= 0):
		return errors.New("noise must not be negative")
	}
	return nil
}

// critic values an observation and an action.
type critic struct {
	online, target *Network
	pass, future   *Pass
	grads          []float32
	adam           Adam
}

// DDPG learns a deterministic policy of continuous actions and the value of what it does
// from replayed transitions, with target networks of both. With its configuration's three
// additions it is TD3.
type DDPG struct {
	config  DDPGConfig
	actions Space
	width   int
	env     *interaction
	replay  *Replay
	batch   *Batch
	choose  stream
	sample  stream
	steps   int
	// gradients counts the critics' steps.
	gradients int
	// follows is true where the actor was a policy of before.
	follows bool

	actor, actorTarget         *Network
	acting, pass, future       *Pass
	actorGrads                 []float32
	actorAdam                  Adam
	critics                    []*critic
	joined, targets, slopes    []float32
	actionSlopes, taken, moved []float32
}

// NewDDPG makes a learner for an environment of continuous actions. Without one, nil, it has
// no Learn: somebody else acts, by [DDPG.Explore], and tells it by [DDPG.Observe] what came of
// it. This is for worlds in which many follow one policy at once.
func NewDDPG(c DDPGConfig, spec Spec, env Env) (*DDPG, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if spec.Actions.Discrete() {
		return nil, errors.New("DDPG and TD3 need continuous actions")
	}
	n, width := spec.Actions.Outputs(), spec.Observations
	shape := MLP(width, c.Hidden, c.Norm, ReLU, n)
	shape.Layers = append(shape.Layers, Layer{Kind: Tanh})
	actor, err := NewNetwork(shape)
	if err != nil {
		return nil, err
	}
	weights := source(c.Seed, forWeights).Rand
	actor.InitKaiming(weights)
	d := &DDPG{
		config: c, actions: spec.Actions, width: width,
		replay: NewReplay(c.Capacity, width, n), choose: source(c.Seed, forActions), sample: source(c.Seed, forBatches),
		actor: actor, actorTarget: actor.Clone(), actorGrads: make([]float32, len(actor.Params)), actorAdam: Adam{Rate: c.ActorRate},
		joined: make([]float32, c.Batch*(width+n)), targets: make([]float32, c.Batch), slopes: make([]float32, c.Batch),
		actionSlopes: make([]float32, c.Batch*n), taken: make([]float32, n), moved: make([]float32, n),
	}
	if env != nil {
		d.env = newInteraction(env, source(c.Seed, forEnv))
	}
	d.batch = d.replay.NewBatch(c.Batch)
	d.acting, d.pass, d.future = actor.NewPass(1), actor.NewPass(c.Batch), d.actorTarget.NewPass(c.Batch)
	critics := 1
	if c.Twin {
		critics = 2
	}
	for range critics {
		net, err := NewNetwork(MLP(width+n, c.Hidden, c.Norm, ReLU, 1))
		if err != nil {
			return nil, err
		}
		net.InitKaiming(weights)
		target := net.Clone()
		d.critics = append(d.critics, &critic{net, target, net.NewPass(c.Batch), target.NewPass(c.Batch), make([]float32, len(net.Params)), Adam{Rate: c.CriticRate}})
	}
	return d, nil
}

// Round is one step.
func (d *DDPG) Round() int { return 1 }

// Policy is the actor without noise.
func (d *DDPG) Policy() Policy { return Policy{d.actor.Clone(), d.actions} }

// critical is how many gradient steps new critics take before they teach an actor that knows
// something.
const critical = 2000

// Follow makes a policy the actor, from which learning goes on: there is no random start, and
// critics, which are new, learn alone at first. It returns an error for a policy of another shape.
func (d *DDPG) Follow(p Policy) error {
	if len(p.Network.Params) != len(d.actor.Params) || !reflect.DeepEqual(p.Network.Architecture, d.actor.Architecture) {
		return errors.New("a policy of another architecture than the actor's")
	}
	copy(d.actor.Params, p.Network.Params)
	copy(d.actorTarget.Params, p.Network.Params)
	d.follows = true
	return nil
}

// Learn goes on for so many steps.
func (d *DDPG) Learn(steps int) {
	for range steps {
		d.Explore(d.env.at, d.taken)
		d.actions.scale(d.taken, d.moved)
		next, reward, terminated, truncated := d.env.step(Action{Continuous: d.moved})
		d.Observe(d.env.before, d.taken, reward, next, terminated)
		if terminated || truncated {
			d.env.renew()
		}
		d.Improve()
	}
}

// Explore writes an action after an observation, from -1 to 1: the actor's with noise, or
// before Start steps a random one.
func (d *DDPG) Explore(observation, action []float32) {
	if d.steps < d.config.Start && !d.follows {
		for i := range action {
			action[i] = 2*d.choose.Float32() - 1
		}
		return
	}
	for i, v := range d.acting.Forward(observation, 1) {
		action[i] = cut(v+float32(d.config.Noise*d.choose.NormFloat64()), 1)
	}
}

// Observe keeps a transition, a step: the action from -1 to 1. terminated is as in [Replay.Add].
func (d *DDPG) Observe(from, action []float32, reward float64, to []float32, terminated bool) {
	d.replay.Add(from, action, reward, to, terminated)
	d.steps++
}

// Improve takes a gradient step if Start steps were made.
func (d *DDPG) Improve() {
	if d.steps > d.config.Start {
		d.replay.Sample(d.sample.Rand, d.batch)
		d.improve(d.batch)
	}
}

// cut bounds x to ±limit.
func cut(x, limit float32) float32 { return min(max(x, -limit), limit) }

// join writes observations and actions side by side, as critics read them.
func (d *DDPG) join(observations, actions []float32, rows int) []float32 {
	n, both := len(d.taken), d.width+len(d.taken)
	for i := range rows {
		copy(d.joined[i*both:], observations[i*d.width:][:d.width])
		copy(d.joined[i*both+d.width:], actions[i*n:][:n])
	}
	return d.joined
}

// aim writes the targets of a batch: r + γ·min Q'(s', π'(s') + noise), without the second
// term where terminated.
func (d *DDPG) aim(b *Batch) {
	next := d.future.Forward(b.To, b.Rows)
	if d.config.Smooth > 0 {
		for i, v := range next {
			noise := cut(float32(d.config.Smooth*d.sample.NormFloat64()), float32(d.config.SmoothClip))
			next[i] = cut(v+noise, 1)
		}
	}
	x := d.join(b.To, next, b.Rows)
	for k, c := range d.critics {
		for i, q := range c.future.Forward(x, b.Rows) {
			if k == 0 || q < d.targets[i] {
				d.targets[i] = q
			}
		}
	}
	for i := range b.Rows {
		future := float32(d.config.Gamma) * d.targets[i]
		if b.Terminated[i] {
			future = 0
		}
		d.targets[i] = b.Reward[i] + future
	}
}

// improve takes a gradient step of the critics, by the squared error, and after every
// Delay of them one of the actor, up the first critic's value, and of the targets.
func (d *DDPG) improve(b *Batch) {
	d.aim(b)
	x := d.join(b.From, b.Action, b.Rows)
	for _, c := range d.critics {
		for i, q := range c.pass.Forward(x, b.Rows) {
			d.slopes[i] = 2 * (q - d.targets[i]) / float32(b.Rows)
		}
		clear(c.grads)
		c.pass.Backward(d.slopes, c.grads)
		ClipNorm(c.grads, d.config.ClipNorm)
		c.adam.Step(c.online.Params, c.grads)
	}
	if d.gradients++; d.gradients%d.config.Delay != 0 {
		return
	}
	if !d.follows || d.gradients > critical {
		d.ascend(b)
		ClipNorm(d.actorGrads, d.config.ClipNorm)
		d.actorAdam.Step(d.actor.Params, d.actorGrads)
	}
	tau := float32(d.config.Tau)
	d.actorTarget.Follow(d.actor, tau)
	for _, c := range d.critics {
		c.target.Follow(c.online, tau)
	}
}

// ascend writes the derivatives of −mean Q(s, π(s)) by the actor's parameters.
func (d *DDPG) ascend(b *Batch) {
	n, both := len(d.taken), d.width+len(d.taken)
	first := d.critics[0]
	first.pass.Forward(d.join(b.From, d.pass.Forward(b.From, b.Rows), b.Rows), b.Rows)
	for i := range d.slopes {
		d.slopes[i] = -1 / float32(b.Rows)
	}
	by := first.pass.Backward(d.slopes, nil)
	for i := range b.Rows {
		copy(d.actionSlopes[i*n:][:n], by[i*both+d.width:])
	}
	clear(d.actorGrads)
	d.pass.Backward(d.actionSlopes, d.actorGrads)
}
