package gym

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mash2-io/mash2/planning/rl"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s: %.12f, want %.12f", what, got, want)
	}
}

// TestCartPoleTrajectory: the equations evaluated elsewhere in float64.
func TestCartPoleTrajectory(t *testing.T) {
	c := CartPole{state: [4]float64{.01, -.02, .03, .04}}
	want := map[int][4]float64{
		1:  {.0096, .174679195748, .0308, -.243068717960},
		5:  {.023525558663, .173162636926, .012433087822, -.209501528681},
		10: {.033008390429, -.022591187585, .003821465246, .097141767123},
	}
	for i, a := range []int{1, 0, 1, 1, 0, 0, 1, 0, 1, 0} {
		observation, reward, terminated, truncated := c.Step(rl.Action{Discrete: a})
		if reward != 1 || terminated || truncated {
			t.Fatalf("step %d: reward %g, %v, %v", i+1, reward, terminated, truncated)
		}
		for k, w := range want[i+1] {
			if _, ok := want[i+1]; ok {
				near(t, "state", c.state[k], w, 1e-11)
				near(t, "observation", float64(observation[k]), w, 1e-7)
			}
		}
	}
}

// TestCartPoleFalls: pushed one way from rest it is over at the ninth step, mirrored the
// other way.
func TestCartPoleFalls(t *testing.T) {
	want := [4]float64{.140650972, 1.760381126, -.215186050, -2.777886494}
	for _, a := range []int{0, 1} {
		var c CartPole
		sign := float64(2*a - 1)
		for i := 1; i <= 9; i++ {
			_, reward, terminated, truncated := c.Step(rl.Action{Discrete: a})
			if reward != 1 || terminated != (i == 9) || truncated {
				t.Fatalf("action %d, step %d: reward %g, terminated %v, truncated %v", a, i, reward, terminated, truncated)
			}
		}
		for k, w := range want {
			near(t, "state", c.state[k], sign*w, 1e-8)
		}
	}
}

// episodes plays and returns the mean return and that each start is within bounds.
func episodes(t *testing.T, env rl.Env, n int, act func(observation []float32, rng *rand.Rand) rl.Action) float64 {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 8))
	var sum float64
	for range n {
		observation := env.Reset(rng)
		for over := false; !over; {
			next, reward, terminated, truncated := env.Step(act(observation, rng))
			sum += reward
			observation, over = next, terminated || truncated
		}
	}
	return sum / float64(n)
}

// TestCartPoleReturns of simple policies, from other people's evaluation of 20,000
// episodes: random 22.04 (deviation 11.65), by the sum of angle and velocity 485.6, by a
// good linear rule 500, by the angle alone 42.
func TestCartPoleReturns(t *testing.T) {
	by := func(w [4]float32) func([]float32, *rand.Rand) rl.Action {
		return func(o []float32, _ *rand.Rand) rl.Action {
			if w[0]*o[0]+w[1]*o[1]+w[2]*o[2]+w[3]*o[3] > 0 {
				return rl.Action{Discrete: 1}
			}
			return rl.Action{}
		}
	}
	for name, c := range map[string]struct {
		act             func([]float32, *rand.Rand) rl.Action
		want, tolerance float64
	}{
		"random":      {func(_ []float32, rng *rand.Rand) rl.Action { return rl.Action{Discrete: rng.IntN(2)} }, 22.04, 1},
		"sum":         {by([4]float32{0, 0, 1, 1}), 485.6, 6},
		"linear rule": {by([4]float32{.1, .5, 5, 1}), 500, 0},
		"angle":       {by([4]float32{0, 0, 1, 0}), 42, 2},
	} {
		near(t, name, episodes(t, &CartPole{}, 2000, c.act), c.want, c.tolerance)
	}
}

func TestPendulumTrajectory(t *testing.T) {
	p := Pendulum{angle: math.Pi / 2, velocity: .5}
	want := map[int][3]float64{
		1:  {1.648296326795, 1.55, -2.496401100272},
		5:  {2.300114735372, 4.555132050600, -5.592874258466},
		10: {3.664869317228, 5.577186518602, -11.709864097004},
	}
	for i, u := range []float32{2, -2, 1, 0, 3, -.5, .25, -2, 2, 0} {
		observation, reward, terminated, truncated := p.Step(rl.Action{Continuous: []float32{u}})
		if terminated || truncated {
			t.Fatalf("step %d: over", i+1)
		}
		if w, ok := want[i+1]; ok {
			near(t, "angle", p.angle, w[0], 1e-11)
			near(t, "velocity", p.velocity, w[1], 1e-11)
			near(t, "reward", reward, w[2], 1e-11)
			near(t, "cosine", float64(observation[0]), math.Cos(w[0]), 1e-7)
			near(t, "sine", float64(observation[1]), math.Sin(w[0]), 1e-7)
			near(t, "velocity observed", float64(observation[2]), w[1], 1e-6)
		}
	}
}

// TestPendulumReturns: random torque −1227.5 (deviation 287), none −1219.7; an episode
// is truncated after 200 steps and never terminated.
func TestPendulumReturns(t *testing.T) {
	torque := []float32{0}
	near(t, "random", episodes(t, &Pendulum{}, 1000, func(_ []float32, rng *rand.Rand) rl.Action {
		torque[0] = 4*rng.Float32() - 2
		return rl.Action{Continuous: torque}
	}), -1227.5, 36) // four standard errors
	near(t, "none", episodes(t, &Pendulum{}, 1000, func([]float32, *rand.Rand) rl.Action {
		return rl.Action{Continuous: []float32{0}}
	}), -1219.7, 50)
}

// TestLimits: episodes that don't end by themselves are truncated at the limit, and the
// specs say what the environments do.
func TestLimits(t *testing.T) {
	for _, task := range Tasks() {
		if err := task.Spec.Validate(); err != nil {
			t.Errorf("%s: %v", task.Name, err)
		}
		env, rng := task.New(), rand.New(rand.NewPCG(1, 1))
		observation := env.Reset(rng)
		if len(observation) != task.Spec.Observations {
			t.Errorf("%s: %d observations, the spec has %d", task.Name, len(observation), task.Spec.Observations)
		}
		for i := 1; i <= task.Limit; i++ {
			action := rl.Action{Continuous: []float32{0}}
			if task.Name == "cartpole" && .1*observation[0]+.5*observation[1]+5*observation[2]+observation[3] > 0 {
				action.Discrete = 1
			}
			var terminated, truncated bool
			if observation, _, terminated, truncated = env.Step(action); terminated || truncated != (i == task.Limit) {
				t.Fatalf("%s, step %d: terminated %v, truncated %v", task.Name, i, terminated, truncated)
			}
		}
	}
	if _, err := ByName("lunarlander"); err == nil {
		t.Error("an unknown name is no error")
	}
}

func BenchmarkCartPole(b *testing.B) {
	env, rng := &CartPole{}, rand.New(rand.NewPCG(1, 1))
	env.Reset(rng)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		if _, _, terminated, truncated := env.Step(rl.Action{Discrete: i & 1}); terminated || truncated {
			env.Reset(rng)
		}
	}
}
