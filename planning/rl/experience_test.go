package rl

import (
	"math/rand/v2"
	"testing"
)

// TestReplay: the ring keeps the newest, all of them are drawn about as often, and a row
// stays together.
func TestReplay(t *testing.T) {
	r := NewReplay(5, 1, 1)
	for i := range 8 {
		v := float32(i)
		r.Add([]float32{v}, []float32{v + 100}, float64(v)+200, []float32{v + 300}, i%2 == 1)
	}
	if r.Len() != 5 {
		t.Fatalf("%d transitions, want 5", r.Len())
	}
	b, seen := r.NewBatch(5000), map[float32]int{}
	r.Sample(rand.New(rand.NewPCG(1, 2)), b)
	for i := range b.Rows {
		v := b.From[i]
		seen[v]++
		if b.Action[i] != v+100 || b.Reward[i] != v+200 || b.To[i] != v+300 || b.Terminated[i] != (int(v)%2 == 1) {
			t.Fatalf("row of %g: action %g, reward %g, to %g, terminated %v", v, b.Action[i], b.Reward[i], b.To[i], b.Terminated[i])
		}
	}
	for v := float32(3); v < 8; v++ {
		// 1000 ± 28 are expected.
		if seen[v] < 850 || seen[v] > 1150 {
			t.Errorf("transition %g was drawn %d times of 5000", v, seen[v])
		}
	}
	if len(seen) != 5 {
		t.Errorf("transitions %v, want the newest five", seen)
	}
}

// TestGAE compares the recursion with the sum that defines it, over episodes that are
// terminated, truncated and cut by the rollout's end.
func TestGAE(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const n, gamma, lambda = 40, 0.9, 0.7
	r := Rollout{make([]float32, n), make([]float32, n), make([]float32, n), make([]bool, n), make([]bool, n)}
	for i := range n {
		r.Rewards[i], r.Values[i], r.Next[i] = rng.Float32(), rng.Float32(), rng.Float32()
		r.Terminated[i] = i%11 == 10
		r.Ended[i] = r.Terminated[i] || i%7 == 6
	}
	got := make([]float32, n)
	r.GAE(gamma, lambda, got)
	for i := range n {
		var want float64
		weight := 1.0
		for k := i; k < n; k++ {
			delta := float64(r.Rewards[k] - r.Values[k])
			if !r.Terminated[k] {
				delta += gamma * float64(r.Next[k])
			}
			want += weight * delta
			weight *= gamma * lambda
			if r.Ended[k] {
				break
			}
		}
		if !near(float64(got[i]), want, 1e-5) {
			t.Errorf("step %d: %g, want %g", i, got[i], want)
		}
	}
}

// TestGAEBootstraps: an episode that was truncated has a future, one that was terminated
// hasn't.
func TestGAEBootstraps(t *testing.T) {
	for name, c := range map[string]struct {
		terminated bool
		want       float64
	}{
		"truncated":  {false, 1 + 0.5*10 - 2},
		"terminated": {true, 1 - 2},
	} {
		r := Rollout{[]float32{1, 99}, []float32{2, 0}, []float32{10, 0}, []bool{c.terminated, true}, []bool{true, true}}
		got := make([]float32, 2)
		if r.GAE(0.5, 1, got); !near(float64(got[0]), c.want, 1e-6) {
			t.Errorf("%s: %g, want %g", name, got[0], c.want)
		}
	}
}
