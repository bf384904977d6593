package gym

import (
	"math"
	"math/rand/v2"

	"github.com/mash2-io/mash2/planning/rl"
)

// Pendulum is Pendulum-v1: a pendulum is to be swung up and held there by a torque of up to ±2 N·m,
// too small to lift it in one go. The reward of a step is −(θ² + 0.1·θ̇² + 0.001·u²) of
// the state before it, θ from upright in −π…π. Episodes are truncated after 200 steps and
// never terminated. The observation is cos θ, sin θ, θ̇.
type Pendulum struct {
	angle, velocity float64
	steps           int
	observation     [3]float32
}

const (
	pendulumLimit = 200

	maxTorque    = 2
	maxVelocity  = 8
	pendulumStep = 0.05
)

// Reset starts at any angle, with a velocity of up to ±1.
func (p *Pendulum) Reset(rng *rand.Rand) []float32 {
	p.angle = math.Pi * (2*rng.Float64() - 1)
	p.velocity = 2*rng.Float64() - 1
	p.steps = 0
	return p.observe()
}

// Step is semi-implicit Euler: the angle moves by the new velocity.
func (p *Pendulum) Step(action rl.Action) ([]float32, float64, bool, bool) {
	// 3g/2l and 3/ml², of g = 10, m = 1, l = 1.
	const gravity, inertia = 15.0, 3.0
	u := min(max(float64(action.Continuous[0]), -maxTorque), maxTorque)
	angle := p.angle + math.Pi
	angle -= 2*math.Pi*math.Floor(angle/(2*math.Pi)) + math.Pi
	cost := angle*angle + 0.1*p.velocity*p.velocity + 0.001*u*u
	p.velocity += (gravity*math.Sin(p.angle) + inertia*u) * pendulumStep
	p.velocity = min(max(p.velocity, -maxVelocity), maxVelocity)
	p.angle += p.velocity * pendulumStep
	p.steps++
	return p.observe(), -cost, false, p.steps >= pendulumLimit
}

func (p *Pendulum) observe() []float32 {
	sin, cos := math.Sincos(p.angle)
	p.observation = [3]float32{float32(cos), float32(sin), float32(p.velocity)}
	return p.observation[:]
}
