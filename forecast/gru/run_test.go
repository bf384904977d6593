package gru

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The approximation of tanh, and by it of the logistic function, is within a
// millionth everywhere.
func TestTanh(t *testing.T) {
	worst, at := 0.0, 0.0
	for x := -20.0; x <= 20; x += 1.0 / 8192 {
		if e := math.Abs(tanh(x) - math.Tanh(x)); !(e <= worst) {
			worst, at = e, x
		}
	}
	t.Logf("off by %.2g at most, at %v", worst, at)
	if !(worst < 1e-6) {
		t.Errorf("tanh(%v) is off by %v", at, worst)
	}
	for _, x := range []float64{math.Inf(1), math.Inf(-1), 1e300} {
		if e := math.Abs(tanh(x) - math.Tanh(x)); !(e < 1e-6) {
			t.Errorf("tanh(%v) = %v", x, tanh(x))
		}
	}
}

// A Runner says what the net says, over long stretches, of noise as of seasons as of
// what is as far off as features can be.
func TestRunner(t *testing.T) {
	n, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	parts, gates, run := Split(n.Weights, n.Inputs, n.Hidden), NewGates(n.Hidden), NewRunner(&n).Clone()
	random := rand.New(rand.NewPCG(1, 2))
	worst := 0.0
	for trial := range 200 {
		state, fast := make([]float64, n.Hidden), make([]float64, n.Hidden)
		x := make([]float64, n.Inputs)
		size := math.Pow(10, float64(trial%4)-2)
		for k := range 300 {
			v := 1 + size*math.Sin(float64(k)/float64(1+trial%20)) + size*random.NormFloat64()
			Features(x, v, v+size*random.NormFloat64(), v+size*random.NormFloat64(), 1, trial%3 > 0)
			want, got := parts.Step(x, state, state, gates), run.Step(x, fast)
			if e := math.Abs(got - want); !(e <= worst) {
				worst = e
			}
		}
	}
	t.Logf("off by %.2g at most", worst)
	if !(worst < 1e-5) {
		t.Errorf("a Runner is off by %v", worst)
	}
}

func BenchmarkStep(b *testing.B) {
	n, err := Shipped()
	if err != nil {
		b.Fatal(err)
	}
	x, state := []float64{0.1, -0.2, 0.3, 0.1, 1}, make([]float64, n.Hidden)
	parts, gates, run := Split(n.Weights, n.Inputs, n.Hidden), NewGates(n.Hidden), NewRunner(&n)
	b.Run("as learnt", func(b *testing.B) {
		for b.Loop() {
			parts.Step(x, state, state, gates)
		}
	})
	b.Run("as run", func(b *testing.B) {
		for b.Loop() {
			run.Step(x, state)
		}
	})
}
