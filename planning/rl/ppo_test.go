package rl

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestClippedSlope: the derivative by log ρ is ρ·Â, and 0 where the ratio is beyond the
// clip on the side where going on would pay.
func TestClippedSlope(t *testing.T) {
	for name, c := range map[string]struct{ ratio, advantage, want float64 }{
		"within, good":        {1.1, 2, 2.2},
		"within, bad":         {0.9, -2, -1.8},
		"above, good":         {1.3, 2, 0},
		"above, bad: undone":  {1.3, -2, -2.6},
		"below, bad":          {0.7, -2, 0},
		"below, good: undone": {0.7, 2, 1.4},
	} {
		if got := slope(float32(math.Log(c.ratio)), float32(c.advantage), 0.2); !near(float64(got), c.want, 1e-5) {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}

func somePPO(t *testing.T, c PPOConfig, spec Spec) *PPO {
	t.Helper()
	p, err := NewPPO(c, spec, func() Env {
		if spec.Actions.Discrete() {
			return &corridor{end: 5, limit: 7}
		}
		return &fixed{spec.Observations}
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSurrogateGradients compares the derivatives of PPO's objective by the policy's
// outputs, and by the logarithm of the deviation, with central differences of the
// objective as it is written, computed in float64.
func TestSurrogateGradients(t *testing.T) {
	const clip, h = 0.2, 1e-5
	for name, spec := range map[string]Spec{
		"discrete":   {1, Space{N: 3}},
		"continuous": {1, Space{Low: []float32{-1, -2, 0}, High: []float32{1, 2, 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultPPO(1000)
			c.Envs, c.Steps, c.Minibatch, c.Entropy = 1, 4, 4, 0.3
			p := somePPO(t, c, spec)
			rng := rand.New(rand.NewPCG(1, 2))
			const n = 3
			outputs, b := make([]float32, 4*n), &p.batch
			for i := range outputs {
				outputs[i] = float32(rng.NormFloat64()) / 2
			}
			for i := range b.taken {
				b.taken[i] = float32(rng.NormFloat64())
				if spec.Actions.Discrete() {
					b.taken[i] = float32(i % n)
				}
			}
			y, std := make([]float64, len(outputs)), make([]float64, len(p.logStd))
			for i, v := range outputs {
				y[i] = float64(v)
			}
			for i := range std {
				p.logStd[i] = float32(i)/4 - 0.3
				std[i] = float64(p.logStd[i])
			}
			log := func(k int) (log, entropy float64) {
				if spec.Actions.Discrete() {
					var sum float64
					for _, v := range y[k*n:][:n] {
						sum += math.Exp(v)
					}
					for _, v := range y[k*n:][:n] {
						entropy -= math.Exp(v) / sum * (v - math.Log(sum))
					}
					return y[k*n+int(b.taken[k])] - math.Log(sum), entropy
				}
				for j, v := range y[k*n:][:n] {
					z := (float64(b.taken[k*n+j]) - v) / math.Exp(std[j])
					log -= z*z/2 + std[j] + math.Log(2*math.Pi)/2
					entropy += std[j] + math.Log(2*math.Pi*math.E)/2
				}
				return log, entropy
			}
			// Ratios within and beyond the clip on both sides.
			for k, ratio := range []float64{1.05, 0.6, 1.5, 1.4} {
				now, _ := log(k)
				b.logs[k] = float32(now - math.Log(ratio))
				b.advantage[k] = []float32{1, -1, 2, -0.5}[k]
			}
			objective := func() (sum float64) {
				for k := range 4 {
					now, entropy := log(k)
					ratio, a := math.Exp(now-float64(b.logs[k])), float64(b.advantage[k])
					sum -= (min(ratio*a, min(max(ratio, 1-clip), 1+clip)*a) + c.Entropy*entropy) / 4
				}
				return sum
			}
			clear(p.stdGrads)
			p.surrogate(b, outputs, clip)
			check := func(what string, i int, at *float64, got float32) {
				old := *at
				*at = old + h
				up := objective()
				*at = old - h
				down := objective()
				*at = old
				if want := (up - down) / (2 * h); math.Abs(want-float64(got)) > 1e-4*(1+math.Abs(want)) {
					t.Errorf("%s %d: derivative %g, by differences %g", what, i, got, want)
				}
			}
			for i := range y {
				check("output", i, &y[i], b.dPolicy[i])
			}
			for i := range std {
				check("deviation", i, &std[i], p.stdGrads[i])
			}
		})
	}
}

// TestPPOCollects: a rollout has what was seen, the next step of an episode that goes on
// is the next row, and the last of one that is over has its own last observation's value.
func TestPPOCollects(t *testing.T) {
	c := DefaultPPO(1000)
	c.Envs, c.Steps, c.Minibatch = 2, 40, 80
	p := somePPO(t, c, corridorSpec)
	p.value.InitKaiming(rand.New(rand.NewPCG(1, 1)))
	p.collect()
	value := p.value.NewPass(1)
	terminated, truncated := 0, 0
	for i, r := range p.rollouts {
		for s := range c.Steps {
			row := i*c.Steps + s
			after := p.seen[row] + p.taken[row] // where the action leads
			if want := value.Forward([]float32{after}, 1)[0]; !near(float64(r.Next[s]), float64(want), 1e-5) {
				t.Errorf("step %d: the value after it is %g, want %g", s, r.Next[s], want)
			}
			if want := after == 5; r.Terminated[s] != want {
				t.Errorf("step %d to place %g: terminated %v", s, after, r.Terminated[s])
			}
			if r.Terminated[s] {
				terminated++
			} else if r.Ended[s] {
				truncated++
			}
			if s+1 < c.Steps {
				want := after
				if r.Ended[s] {
					want = 0
				}
				if got := p.seen[row+1]; got != want {
					t.Errorf("after step %d: place %g, want %g", s, got, want)
				}
			}
		}
	}
	if terminated == 0 || truncated == 0 {
		t.Errorf("%d episodes were terminated, %d truncated: want some of both", terminated, truncated)
	}
}

// TestNormalisedAdvantages have mean 0 and deviation 1 in each minibatch.
func TestNormalisedAdvantages(t *testing.T) {
	c := DefaultPPO(1000)
	c.Envs, c.Steps, c.Minibatch = 1, 32, 16
	p := somePPO(t, c, corridorSpec)
	for i := range p.advantage {
		p.advantage[i] = float32(i*i) + 5
	}
	b := p.gather(p.order[8:24])
	var sum, squares float64
	for _, v := range b.advantage {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	if !near(sum, 0, 1e-4) || !near(squares/16, 1, 1e-4) {
		t.Errorf("mean %g, variance %g", sum/16, squares/16)
	}
	// The value's target is not normalised.
	if want := float32(8*8) + 5; b.targets[0] != want {
		t.Errorf("target %g, want %g", b.targets[0], want)
	}
}

// TestDrawFrequencies: discrete actions are drawn as often as the softmax says, and
// log-probabilities are those of it.
func TestDrawFrequencies(t *testing.T) {
	p := somePPO(t, DefaultPPO(1000), Spec{1, Space{N: 3}})
	logits, want := []float32{0, 1, -1}, [3]float64{}
	var sum float64
	for _, v := range logits {
		sum += math.Exp(float64(v))
	}
	var count [3]float64
	const draws = 20000
	for range draws {
		var taken [1]float32
		a, log := p.draw(logits, taken[:])
		count[a.Discrete]++
		want[a.Discrete] = math.Exp(float64(logits[a.Discrete])) / sum
		if taken[0] != float32(a.Discrete) || !near(math.Exp(float64(log)), want[a.Discrete], 1e-5) {
			t.Fatalf("action %d kept as %g with probability %g", a.Discrete, taken[0], math.Exp(float64(log)))
		}
	}
	for i, n := range count {
		if !near(n/draws, want[i], 0.015) { // four standard errors
			t.Errorf("action %d was drawn in %.3f, want %.3f", i, n/draws, want[i])
		}
	}
}

func TestPPORefuses(t *testing.T) {
	for name, change := range map[string]func(*PPOConfig){
		"no environments":      func(c *PPOConfig) { c.Envs = 0 },
		"a rest of a rollout":  func(c *PPOConfig) { c.Minibatch = 100 },
		"no rate":              func(c *PPOConfig) { c.Rate.From = 0 },
		"a clip that is not":   func(c *PPOConfig) { c.Clip.From = 0 },
		"a lambda that is NaN": func(c *PPOConfig) { c.Lambda = math.NaN() },
	} {
		c := DefaultPPO(1000)
		change(&c)
		if _, err := NewPPO(c, corridorSpec, func() Env { return &corridor{end: 3, limit: 9} }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
