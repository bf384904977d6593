package gym

import (
	"math"
	"math/rand/v2"

	"github.com/mash2-io/mash2/planning/rl"
)

// CartPole is CartPole-v1: a pole stands on a cart that is pushed left (0) or right (1) at each step
// of 0.02 s. The reward is 1 a step, the last included. An episode is terminated when the
// cart is more than 2.4 m from the middle or the pole more than 12° from upright, and
// truncated after 500 steps. The observation is position and velocity (m, m/s), angle and
// angular velocity (rad, rad/s).
type CartPole struct {
	state       [4]float64
	steps       int
	observation [4]float32
}

const (
	cartPoleLimit = 500

	cartMass, poleMass = 1.0, 0.1
	halfLength         = 0.5
	push               = 10.0
	cartPoleStep       = 0.02
	maxPosition        = 2.4
	maxAngle           = 12 * 2 * math.Pi / 360
)

// Reset starts with each number of the state uniformly from ±0.05.
func (c *CartPole) Reset(rng *rand.Rand) []float32 {
	for i := range c.state {
		c.state[i] = 0.1*rng.Float64() - 0.05
	}
	c.steps = 0
	return c.observe()
}

// Step is explicit Euler: positions move by the old velocities.
func (c *CartPole) Step(action rl.Action) ([]float32, float64, bool, bool) {
	const total, moment = cartMass + poleMass, poleMass * halfLength
	force := -push
	if action.Discrete == 1 {
		force = push
	}
	s := &c.state
	sin, cos := math.Sincos(s[2])
	temp := (force + moment*s[3]*s[3]*sin) / total
	angular := (9.8*sin - cos*temp) / (halfLength * (4.0/3 - poleMass*cos*cos/total))
	linear := temp - moment*angular*cos/total
	s[0] += cartPoleStep * s[1]
	s[1] += cartPoleStep * linear
	s[2] += cartPoleStep * s[3]
	s[3] += cartPoleStep * angular
	c.steps++
	terminated := math.Abs(s[0]) > maxPosition || math.Abs(s[2]) > maxAngle
	return c.observe(), 1, terminated, c.steps >= cartPoleLimit
}

func (c *CartPole) observe() []float32 {
	for i, v := range c.state {
		c.observation[i] = float32(v)
	}
	return c.observation[:]
}
