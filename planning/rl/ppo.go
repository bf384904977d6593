package rl

import (
	"errors"
	"fmt"
	"math"
)

// PPOConfig says how PPO learns. DefaultPPO has what is usual.
type PPOConfig struct {
	Seed uint64
	// Hidden are the sizes of the hidden layers of the policy's and the value's network,
	// with tanh.
	Hidden []int
	// Envs is how many environments are stepped side by side, Steps the length of a
	// rollout in each of them.
	Envs, Steps int
	// Minibatch is the number of steps that a gradient step sees, Epochs how often it
	// sees each.
	Minibatch, Epochs int
	Gamma, Lambda     float64
	// Rate is the learning rate, Clip how far a probability may go from what it was, as
	// a ratio. Both fall with the steps of the environments.
	Rate, Clip Schedule
	// Entropy and Value weigh the entropy bonus and the value's squared error.
	Entropy, Value float64
	// ClipNorm bounds the norm of gradients; 0 does not.
	ClipNorm float64
	// LogStd is where the logarithm of the standard deviation of continuous actions
	// starts, in units in which the space's bounds are ±1.
	LogStd float64
}

// DefaultPPO is what rl-baselines3-zoo tuned for CartPole-v1, for a run of steps.
func DefaultPPO(steps int) PPOConfig {
	return PPOConfig{
		Hidden: []int{64, 64}, Envs: 8, Steps: 32, Minibatch: 256, Epochs: 20, Gamma: 0.98, Lambda: 0.8,
		Rate: Schedule{1e-3, 0, max(1, steps)}, Clip: Schedule{0.2, 0, max(1, steps)}, Value: 0.5, ClipNorm: 0.5,
	}
}

// DefaultContinuousPPO is what rl-baselines3-zoo has for Pendulum-v1, for a run of steps,
// with independent noise at each step instead of the zoo's state-dependent exploration.
func DefaultContinuousPPO(steps int) PPOConfig {
	c := DefaultPPO(steps)
	c.Envs, c.Steps, c.Minibatch, c.Epochs, c.Gamma, c.Lambda = 4, 1024, 64, 10, 0.9, 0.95
	c.Rate.To, c.Clip.To = c.Rate.From, c.Clip.From
	return c
}

// Validate returns an error that names a field which makes no sense.
func (c PPOConfig) Validate() error {
	switch {
	case c.Envs < 1 || c.Steps < 1 || c.Minibatch < 1 || c.Epochs < 1:
		return errors.New("envs, steps, minibatch and epochs must be 1 or more")
	case c.Envs*c.Steps%c.Minibatch != 0:
		return fmt.Errorf("a rollout of %d × %d steps has no whole minibatches of %d", c.Envs, c.Steps, c.Minibatch)
	case !(c.Gamma >= 0 && c.Gamma <= 1) || !(c.Lambda >= 0 && c.Lambda <= 1):
		return fmt.Errorf("gamma %g and lambda %g must be from 0 to 1", c.Gamma, c.Lambda)
	case !(c.Rate.From > 0) || !(c.Clip.From > 0):
		return errors.New("the learning rate and the clip must be positive")
	}
	return nil
}

// PPO improves a stochastic policy by its own recent experience, a little at a time:
// proximal policy optimisation with the clipped objective, GAE, and advantages normalised
// in each minibatch.
type PPO struct {
	config  PPOConfig
	actions Space
	outputs int
	envs    []*interaction
	choose  stream
	shuffle stream
	steps   int

	policy, value         *Network
	acting, judging       *Pass // of one row per environment
	policyPass, valuePass *Pass // of a minibatch
	policyGrads           []float32
	valueGrads            []float32
	policyAdam, valueAdam Adam
	logStd                []float32
	stdGrads              []float32
	stdAdam               Adam

	// The rollout: environment by environment in rollouts, and all of it, row after row
	// by environment and step.
	rollouts                             []Rollout
	seen, taken, logs, advantage, value0 []float32
	order                                []int
	batch                                minibatch
	scaled                               []float32
	now, next                            []float32
}

// minibatch is what a gradient step sees.
type minibatch struct {
	seen, taken, logs, advantage, targets []float32
	dPolicy, dValue                       []float32
}

// NewPPO makes a learner. envs makes the environments that it steps side by side.
func NewPPO(c PPOConfig, spec Spec, envs func() Env) (*PPO, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	outputs := spec.Actions.Outputs()
	policy, err := NewNetwork(MLP(spec.Observations, c.Hidden, false, Tanh, outputs))
	if err != nil {
		return nil, err
	}
	value, err := NewNetwork(MLP(spec.Observations, c.Hidden, false, Tanh, 1))
	if err != nil {
		return nil, err
	}
	weights := source(c.Seed, forWeights).Rand
	policy.InitOrthogonal(weights, 0.01)
	value.InitOrthogonal(weights, 1)
	taken := 1
	if !spec.Actions.Discrete() {
		taken = outputs
	}
	all, m := c.Envs*c.Steps, c.Minibatch
	p := &PPO{
		config: c, actions: spec.Actions, outputs: outputs, choose: source(c.Seed, forActions), shuffle: source(c.Seed, forBatches),
		policy: policy, value: value,
		acting: policy.NewPass(c.Envs), judging: value.NewPass(c.Envs), policyPass: policy.NewPass(m), valuePass: value.NewPass(m),
		policyGrads: make([]float32, len(policy.Params)), valueGrads: make([]float32, len(value.Params)),
		policyAdam: Adam{Epsilon: 1e-5}, valueAdam: Adam{Epsilon: 1e-5}, stdAdam: Adam{Epsilon: 1e-5},
		seen: make([]float32, all*spec.Observations), taken: make([]float32, all*taken), logs: make([]float32, all),
		advantage: make([]float32, all), value0: make([]float32, all), order: make([]int, all),
		batch: minibatch{
			make([]float32, m*spec.Observations), make([]float32, m*taken), make([]float32, m), make([]float32, m), make([]float32, m),
			make([]float32, m*outputs), make([]float32, m),
		},
		scaled: make([]float32, outputs), now: make([]float32, c.Envs*spec.Observations), next: make([]float32, c.Envs*spec.Observations),
	}
	if !spec.Actions.Discrete() {
		p.logStd, p.stdGrads = make([]float32, outputs), make([]float32, outputs)
		for i := range p.logStd {
			p.logStd[i] = float32(c.LogStd)
		}
	}
	for i := range c.Envs {
		p.envs = append(p.envs, newInteraction(envs(), source(c.Seed, uint64(forEnv+i))))
		at := i * c.Steps
		p.rollouts = append(p.rollouts, Rollout{
			Rewards: make([]float32, c.Steps), Values: p.value0[at:][:c.Steps], Next: make([]float32, c.Steps),
			Terminated: make([]bool, c.Steps), Ended: make([]bool, c.Steps),
		})
	}
	for i := range p.order {
		p.order[i] = i
	}
	return p, nil
}

// Policy takes the most probable action.
func (p *PPO) Policy() Policy { return Policy{p.policy.Clone(), p.actions} }

// Round is a rollout of all environments.
func (p *PPO) Round() int { return p.config.Envs * p.config.Steps }

// Learn takes whole rollouts, until there were so many steps.
func (p *PPO) Learn(steps int) {
	for end := p.steps + steps; p.steps < end; p.steps += p.Round() {
		rate := p.config.Rate.At(p.steps)
		p.policyAdam.Rate, p.valueAdam.Rate, p.stdAdam.Rate = rate, rate, rate
		clip := p.config.Clip.At(p.steps)
		p.collect()
		for i := range p.rollouts {
			p.rollouts[i].GAE(p.config.Gamma, p.config.Lambda, p.advantage[i*p.config.Steps:][:p.config.Steps])
		}
		for range p.config.Epochs {
			p.shuffle.Shuffle(len(p.order), func(i, j int) { p.order[i], p.order[j] = p.order[j], p.order[i] })
			for at := 0; at < len(p.order); at += p.config.Minibatch {
				p.improve(p.gather(p.order[at:][:p.config.Minibatch]), clip)
			}
		}
	}
}

// collect plays a rollout.
func (p *PPO) collect() {
	width, act := len(p.now)/p.config.Envs, len(p.taken)/len(p.logs)
	for t := range p.config.Steps {
		for i, x := range p.envs {
			copy(p.now[i*width:], x.at)
		}
		logits, values := p.acting.Forward(p.now, p.config.Envs), p.judging.Forward(p.now, p.config.Envs)
		for i, x := range p.envs {
			r, row := &p.rollouts[i], i*p.config.Steps+t
			copy(p.seen[row*width:], p.now[i*width:][:width])
			r.Values[t] = values[i]
			taken := p.taken[row*act:][:act]
			action, log := p.draw(logits[i*p.outputs:][:p.outputs], taken)
			p.logs[row] = log
			next, reward, terminated, truncated := x.step(action)
			copy(p.next[i*width:], next)
			r.Rewards[t], r.Terminated[t], r.Ended[t] = float32(reward), terminated, terminated || truncated
			if r.Ended[t] {
				x.renew()
			}
		}
		for i, v := range p.judging.Forward(p.next, p.config.Envs) {
			p.rollouts[i].Next[t] = v
		}
	}
}

// draw takes an action at random, writes it to taken as it is kept and returns the
// logarithm of its probability, or of its density.
func (p *PPO) draw(outputs, taken []float32) (Action, float32) {
	if p.actions.Discrete() {
		norm := logSumExp(outputs)
		u, a := p.choose.Float32(), 0
		for ; a < len(outputs)-1; a++ {
			if u -= exp(outputs[a] - norm); u < 0 {
				break
			}
		}
		taken[0] = float32(a)
		return Action{Discrete: a}, outputs[a] - norm
	}
	for i, m := range outputs {
		taken[i] = m + exp(p.logStd[i])*float32(p.choose.NormFloat64())
	}
	p.actions.scale(taken, p.scaled)
	return Action{Continuous: p.scaled}, gaussian(outputs, p.logStd, taken)
}

// gather copies rows of the rollout to the minibatch, with advantages normalised to mean
// 0 and deviation 1.
func (p *PPO) gather(rows []int) *minibatch {
	b := &p.batch
	width, act := len(p.now)/p.config.Envs, len(p.taken)/len(p.logs)
	var sum, squares float64
	for k, i := range rows {
		copy(b.seen[k*width:][:width], p.seen[i*width:])
		copy(b.taken[k*act:][:act], p.taken[i*act:])
		b.logs[k], b.advantage[k], b.targets[k] = p.logs[i], p.advantage[i], p.advantage[i]+p.value0[i]
		sum += float64(p.advantage[i])
		squares += float64(p.advantage[i]) * float64(p.advantage[i])
	}
	if len(rows) > 1 {
		m := sum / float64(len(rows))
		deviation := math.Sqrt(max(0, squares/float64(len(rows))-m*m)) + 1e-8
		for k, v := range b.advantage {
			b.advantage[k] = float32((float64(v) - m) / deviation)
		}
	}
	return b
}

// improve takes one gradient step.
func (p *PPO) improve(b *minibatch, clip float64) {
	rows := len(b.logs)
	outputs := p.policyPass.Forward(b.seen, rows)
	clear(p.stdGrads)
	p.surrogate(b, outputs, clip)
	clear(p.policyGrads)
	p.policyPass.Backward(b.dPolicy, p.policyGrads)
	for i, v := range p.valuePass.Forward(b.seen, rows) {
		b.dValue[i] = float32(p.config.Value) * 2 * (v - b.targets[i]) / float32(rows)
	}
	clear(p.valueGrads)
	p.valuePass.Backward(b.dValue, p.valueGrads)
	p.clipTogether()
	p.policyAdam.Step(p.policy.Params, p.policyGrads)
	p.valueAdam.Step(p.value.Params, p.valueGrads)
	if p.logStd != nil {
		p.stdAdam.Step(p.logStd, p.stdGrads)
	}
}

// clipTogether bounds the norm of all gradients as if they were one network's.
func (p *PPO) clipTogether() {
	limit := p.config.ClipNorm
	a, b, c := ClipNorm(p.policyGrads, 0), ClipNorm(p.valueGrads, 0), ClipNorm(p.stdGrads, 0)
	norm := math.Sqrt(a*a + b*b + c*c)
	if limit <= 0 || norm <= limit {
		return
	}
	ClipNorm(p.policyGrads, a*limit/norm)
	ClipNorm(p.valueGrads, b*limit/norm)
	ClipNorm(p.stdGrads, c*limit/norm)
}

// surrogate writes the derivatives of −mean min(ρ·Â, clip(ρ, 1±ε)·Â) − entropy by the
// policy's outputs, where ρ is the ratio of an action's probability to what it was: 0
// where the ratio was clipped and going on would not be undone.
func (p *PPO) surrogate(b *minibatch, outputs []float32, clip float64) {
	rows := len(b.logs)
	n, act := p.outputs, len(b.taken)/rows
	scale := 1 / float32(rows)
	for k := range rows {
		y, d := outputs[k*n:][:n], b.dPolicy[k*n:][:n]
		if p.actions.Discrete() {
			a := int(b.taken[k])
			norm := logSumExp(y)
			w := slope(y[a]-norm-b.logs[k], b.advantage[k], clip) * scale
			var entropy float32
			for _, v := range y {
				entropy -= exp(v-norm) * (v - norm)
			}
			for j, v := range y {
				prob := exp(v - norm)
				// d log π(a)/dyⱼ = 1{j=a} − πⱼ;  dH/dyⱼ = −πⱼ·(log πⱼ + H).
				d[j] = w*prob + float32(p.config.Entropy)*scale*prob*(v-norm+entropy)
			}
			d[a] -= w
			continue
		}
		taken := b.taken[k*act:][:act]
		w := slope(gaussian(y, p.logStd, taken)-b.logs[k], b.advantage[k], clip) * scale
		for j, m := range y {
			z := (taken[j] - m) * exp(-p.logStd[j])
			d[j] = -w * z * exp(-p.logStd[j])
			p.stdGrads[j] -= w*(z*z-1) + float32(p.config.Entropy)*scale
		}
	}
}

// slope is the derivative of min(ρ·Â, clip(ρ, 1−ε, 1+ε)·Â) by log ρ.
func slope(logRatio, advantage float32, clip float64) float32 {
	ratio := exp(logRatio)
	if advantage > 0 && ratio > float32(1+clip) || advantage < 0 && ratio < float32(1-clip) {
		return 0
	}
	return ratio * advantage
}

// gaussian is the logarithm of the density of independent normal variables.
func gaussian(means, logStd, x []float32) float32 {
	var sum float32
	for i, m := range means {
		z := (x[i] - m) * exp(-logStd[i])
		sum -= z*z/2 + logStd[i] + halfLogTwoPi
	}
	return sum
}

const halfLogTwoPi = 0.9189385332046727

func exp(x float32) float32 { return float32(math.Exp(float64(x))) }

// logSumExp is log Σ exp x, without overflow.
func logSumExp(x []float32) float32 {
	top := x[argmax(x)]
	var sum float32
	for _, v := range x {
		sum += exp(v - top)
	}
	return top + float32(math.Log(float64(sum)))
}
