package rl

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// layerKinds are architectures that have each kind of layer alone and all together.
var layerKinds = map[string]Architecture{
	"dense":      {3, []Layer{{Dense, 4}}},
	"wide dense": {5, []Layer{{Dense, 19}}},
	"layernorm":  {6, []Layer{{Kind: LayerNorm}}},
	"relu":       {5, []Layer{{Kind: ReLU}}},
	"tanh":       {5, []Layer{{Kind: Tanh}}},
	"dueling":    {5, []Layer{{Kind: Dueling}}},
	"all": {4, []Layer{
		{Dense, 12}, {Kind: LayerNorm}, {Kind: ReLU}, {Dense, 10}, {Kind: Tanh}, {Dense, 4}, {Kind: Dueling},
	}},
}

// TestGradients compares the derivatives of a weighted sum of outputs, by parameters and
// by inputs, with central differences. With float32 and steps of 1e-2 these are good to
// 1e-3 or so.
func TestGradients(t *testing.T) {
	for name, a := range layerKinds {
		t.Run(name, func(t *testing.T) {
			const rows, h = 3, 1e-2
			rng := rand.New(rand.NewPCG(1, 2))
			n, err := NewNetwork(a)
			if err != nil {
				t.Fatal(err)
			}
			for i := range n.Params {
				n.Params[i] += float32(rng.NormFloat64()) / 2
			}
			x := make([]float32, rows*a.Inputs)
			for i := range x {
				// Away from the kink of ReLU.
				x[i] = float32(math.Copysign(0.2+rng.Float64(), rng.Float64()-0.5))
			}
			weights := make([]float32, rows*n.Outputs())
			for i := range weights {
				weights[i] = float32(rng.NormFloat64())
			}
			p := n.NewPass(rows)
			// kinks tells on which side of its kink each ReLU is.
			loss := func() (sum float64, kinks string) {
				for i, v := range p.Forward(x, rows) {
					sum += float64(v) * float64(weights[i])
				}
				for i, s := range n.stages {
					if s.kind == ReLU {
						for _, v := range p.values[i] {
							kinks += fmt.Sprint(v > 0)
						}
					}
				}
				return sum, kinks
			}
			_, _ = loss()
			grads := make([]float32, len(n.Params))
			inputs := slices.Clone(p.Backward(weights, grads))
			checked := 0
			check := func(what string, at *float32, got float32) {
				old := *at
				*at = old + h
				up, a := loss()
				*at = old - h
				down, b := loss()
				*at = old
				if a != b {
					return // the difference goes over a kink
				}
				checked++
				if want := (up - down) / (2 * h); math.Abs(want-float64(got)) > 4e-3*(1+math.Abs(want)) {
					t.Errorf("%s: derivative %g, by differences %g", what, got, want)
				}
			}
			for i := range n.Params {
				check(fmt.Sprintf("parameter %d", i), &n.Params[i], grads[i])
			}
			for i := range x {
				check(fmt.Sprintf("input %d", i), &x[i], inputs[i])
			}
			if all := len(n.Params) + len(x); checked < all*3/4 {
				t.Errorf("only %d of %d derivatives were checked", checked, all)
			}
		})
	}
}

// TestBackwardAdds: gradients are added, and inputs' are the same without parameters'.
func TestBackwardAdds(t *testing.T) {
	n := someNetwork(t, layerKinds["all"], 3)
	p := n.NewPass(2)
	p.Forward([]float32{1, 2, -3, 4, 0.5, 0.1, 2, -1}, 2)
	dy := []float32{1, -2, 0.5, 1, 1, 1}
	once, twice := make([]float32, len(n.Params)), make([]float32, len(n.Params))
	with := slices.Clone(p.Backward(dy, once))
	p.Backward(dy, twice)
	p.Backward(dy, twice)
	for i := range once {
		if d := twice[i] - 2*once[i]; math.Abs(float64(d)) > 1e-5 {
			t.Fatalf("gradient %d is %g after two passes, %g after one", i, twice[i], once[i])
		}
	}
	if without := p.Backward(dy, nil); !slices.Equal(with, without) {
		t.Errorf("inputs' derivatives %v, without parameters' %v", with, without)
	}
}

func someNetwork(t testing.TB, a Architecture, seed uint64) *Network {
	t.Helper()
	n, err := NewNetwork(a)
	if err != nil {
		t.Fatal(err)
	}
	n.InitKaiming(rand.New(rand.NewPCG(seed, 0)))
	return n
}

// TestForwardOfOne: a batch gives what its rows give one by one.
func TestForwardOfOne(t *testing.T) {
	for name, a := range layerKinds {
		n := someNetwork(t, a, 4)
		rng := rand.New(rand.NewPCG(5, 6))
		x := make([]float32, 7*a.Inputs)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		all, one := n.NewPass(7).Forward(x, 7), n.NewPass(1)
		for r := range 7 {
			for j, v := range one.Forward(x[r*a.Inputs:][:a.Inputs], 1) {
				if want := all[r*n.Outputs()+j]; math.Abs(float64(v-want)) > 1e-5 {
					t.Errorf("%s: output %d of row %d is %g alone, %g in the batch", name, j, r, v, want)
				}
			}
		}
	}
}

func TestForwardByHand(t *testing.T) {
	n, err := NewNetwork(Architecture{2, []Layer{{Dense, 3}, {Kind: ReLU}, {Kind: Dueling}}})
	if err != nil {
		t.Fatal(err)
	}
	// Weights from input 0, from input 1, biases.
	copy(n.Params, []float32{1, 2, -1, 0.5, 0, 1, 0, 1, 0.5})
	// Dense: (1·2+0.5·4, 2·2+1, −2+4+0.5) = (4, 5, 2.5), the mean advantage is 3.75.
	if got, want := n.NewPass(1).Forward([]float32{2, 4}, 1), []float32{5.25, 2.75}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestTanh(t *testing.T) {
	for x := -12.0; x <= 12; x += 0.001 {
		if got, want := float64(tanh(float32(x))), math.Tanh(float64(float32(x))); math.Abs(got-want) > 1e-6 {
			t.Fatalf("tanh(%g) = %g, want %g", x, got, want)
		}
	}
}

func TestArchitectureRefuses(t *testing.T) {
	for name, a := range map[string]Architecture{
		"no inputs":         {0, []Layer{{Dense, 1}}},
		"no layers":         {1, nil},
		"no outputs":        {1, []Layer{{Dense, 0}}},
		"too wide":          {1, []Layer{{Dense, maxWidth + 1}}},
		"unknown kind":      {1, []Layer{{"sigmoid", 1}}},
		"dueling over none": {1, []Layer{{Kind: Dueling}}},
	} {
		if _, err := NewNetwork(a); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestOrthogonal: rows or columns, whichever are fewer, are orthogonal and as long as the
// gain.
func TestOrthogonal(t *testing.T) {
	for _, shape := range [][2]int{{4, 9}, {9, 4}, {5, 5}} {
		in, out := shape[0], shape[1]
		n, err := NewNetwork(Architecture{in, []Layer{{Dense, out}}})
		if err != nil {
			t.Fatal(err)
		}
		n.InitOrthogonal(rand.New(rand.NewPCG(1, 1)), 0.5)
		at := func(i, k int) float64 { return float64(n.Params[i*out+k]) }
		if in > out {
			at = func(i, k int) float64 { return float64(n.Params[k*out+i]) }
		}
		for i := range min(in, out) {
			for j := range min(in, out) {
				var dot, want float64
				for k := range max(in, out) {
					dot += at(i, k) * at(j, k)
				}
				if i == j {
					want = 0.25
				}
				if math.Abs(dot-want) > 1e-6 {
					t.Errorf("%d×%d: product of vectors %d and %d is %g, want %g", in, out, i, j, dot, want)
				}
			}
		}
	}
}

// TestKaiming: weights are within ±1/√in and fill that range.
func TestKaiming(t *testing.T) {
	n := someNetwork(t, Architecture{100, []Layer{{Dense, 50}}}, 9)
	low, high := slices.Min(n.Params), slices.Max(n.Params)
	if low < -0.1 || low > -0.099 || high > 0.1 || high < 0.099 {
		t.Errorf("from %g to %g, want ±0.1", low, high)
	}
}

// decisions are the networks whose decisions are timed: that of DRPC's students, 643
// parameters, and that of MARLISE's DQN, 19,523.
func decisions(t testing.TB) map[string]Policy {
	student := Architecture{5, []Layer{{Dense, 20}, {Kind: LayerNorm}, {Kind: ReLU}, {Dense, 20}, {Dense, 3}, {Kind: Tanh}}}
	return map[string]Policy{
		"student": {someNetwork(t, student, 1), Space{Low: []float32{-1, -1, -1}, High: []float32{1, 1, 1}}},
		"marlise": {someNetwork(t, MLP(42, []int{64, 128, 64}, false, ReLU, 3), 1), Space{N: 3}},
	}
}

func TestDecisionAllocatesNothing(t *testing.T) {
	for name, want := range map[string]int{"student": 643, "marlise": 19523} {
		p := decisions(t)[name]
		if got := len(p.Network.Params); got != want {
			t.Errorf("%s: %d parameters, want %d", name, got, want)
		}
		actor, x := p.NewActor(), make([]float32, p.Network.Architecture.Inputs)
		if got := testing.AllocsPerRun(100, func() { actor.Act(x) }); got != 0 {
			t.Errorf("%s: %g allocations for a decision", name, got)
		}
	}
}

func BenchmarkDecision(b *testing.B) {
	for name, p := range decisions(b) {
		b.Run(name, func(b *testing.B) {
			actor, x := p.NewActor(), make([]float32, p.Network.Architecture.Inputs)
			for i := range x {
				x[i] = float32(i%7) / 7
			}
			b.ReportAllocs()
			for b.Loop() {
				actor.Act(x)
			}
		})
	}
}
