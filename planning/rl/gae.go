package rl

// Rollout is a stretch of experience in one environment, one element a step.
type Rollout struct {
	Rewards []float32
	// Values of the observations acted on, and Next of those that came after, that of an
	// episode's last one included.
	Values, Next []float32
	// Terminated: there is no future. Ended: terminated or truncated, so that the next
	// step is another episode's.
	Terminated, Ended []bool
}

// GAE writes to advantages the generalised advantage estimates (Schulman et al. 2016,
// eq. 16): Âₜ = Σₖ (γλ)ᵏ·δₜ₊ₖ up to the end of the episode or of the rollout, with
// δₜ = rₜ + γ·Vₜ₊₁ − Vₜ and Vₜ₊₁ = 0 where terminated.
func (r Rollout) GAE(gamma, lambda float64, advantages []float32) {
	g, gl := float32(gamma), float32(gamma*lambda)
	var after float32
	for t := len(r.Rewards) - 1; t >= 0; t-- {
		delta := r.Rewards[t] - r.Values[t]
		if !r.Terminated[t] {
			delta += g * r.Next[t]
		}
		if r.Ended[t] {
			after = 0
		}
		after = delta + gl*after
		advantages[t] = after
	}
}
