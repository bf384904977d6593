package gym

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mash2-io/mash2/planning/rl"
)

// played is the return of an episode by a rule on observations, and all that was seen.
func played(env rl.Env, seed uint64, rule func([]float32) int) (sum float64, seen [][]float32, steps int) {
	at := env.Reset(rand.New(rand.NewPCG(seed, 1)))
	for {
		seen = append(seen, slices.Clone(at))
		next, reward, terminated, truncated := env.Step(rl.Action{Discrete: rule(at)})
		sum, steps, at = sum+reward, steps+1, next
		if terminated || truncated {
			return sum, seen, steps
		}
	}
}

// TestReplicas: an episode has its decisions, is the same with the same seed and actions, and
// tells what happens: never asking for more is cheap until the floor has it, always asking
// for more comes to the most.
func TestReplicas(t *testing.T) {
	env := &Replicas{}
	fewer := func([]float32) int { return 0 }
	more := func([]float32) int { return 2 }
	first, seen, steps := played(env, 3, fewer)
	if steps != replicasLimit || len(seen[0]) != len(ReplicasInputs()) {
		t.Fatalf("%d steps, %v", steps, seen[0])
	}
	if again, other, _ := played(&Replicas{}, 3, fewer); again != first || !slices.EqualFunc(seen, other, slices.Equal) {
		t.Error("the same seed and actions gave another episode")
	}
	if another, _, _ := played(env, 4, fewer); another == first {
		t.Error("another seed gave the same episode")
	}
	_, seen, _ = played(env, 3, more)
	most := float32(0)
	for _, s := range seen {
		most = max(most, s[2])
		if !(s[0] >= 0 && s[0] < 10) || !(s[1] >= 0 && s[1] < 10) || s[2] < 0.05 || s[2] > 1 {
			t.Fatalf("seen %v", s)
		}
	}
	if most != 1 {
		t.Errorf("at most %g of the most replicas, by an agent that always asks for more", most)
	}
}

// BenchmarkReplicas is a cycle: simulation, planning and carrying out.
func BenchmarkReplicas(b *testing.B) {
	env := &Replicas{}
	rng := rand.New(rand.NewPCG(1, 1))
	env.Reset(rng)
	for b.Loop() {
		if _, _, terminated, truncated := env.Step(rl.Action{Discrete: rng.IntN(3)}); terminated || truncated {
			env.Reset(rng)
		}
	}
}
