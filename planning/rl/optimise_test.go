package rl

import (
	"math"
	"slices"
	"testing"
)

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }

// TestAdam computes two steps by hand, with rate 0.1, for gradients 0.5 and then −0.25:
//
//	m₁ = 0.05, v₁ = 0.00025, m̂₁ = 0.5, v̂₁ = 0.25: the step is 0.1·0.5/0.5 = 0.1
//	m₂ = 0.045−0.025 = 0.02, m̂₂ = 0.02/0.19 = 0.10526316
//	v₂ = 0.00024975+0.0000625 = 0.00031225, v̂₂ = v₂/0.001999 = 0.15620310, √ = 0.39522538
//	the step is 0.1·0.10526316/0.39522538 = 0.02663371
func TestAdam(t *testing.T) {
	for name, c := range map[string]struct {
		adam Adam
		// want after each step, from 1.
		want [2]float64
	}{
		"Adam": {Adam{Rate: 0.1}, [2]float64{0.9, 0.9 - 0.02663371}},
		// Each step first takes 0.1·0.5 = 5 % of the parameter.
		"AdamW": {Adam{Rate: 0.1, Decay: 0.5}, [2]float64{0.95 - 0.1, 0.85*0.95 - 0.02663371}},
		// The larger second moment is still the second one's.
		"AMSGrad, rising": {Adam{Rate: 0.1, AMSGrad: true}, [2]float64{0.9, 0.9 - 0.02663371}},
	} {
		params := []float32{1}
		for i, g := range []float32{0.5, -0.25} {
			c.adam.Step(params, []float32{g})
			if got := float64(params[0]); !near(got, c.want[i], 1e-6) {
				t.Errorf("%s: %.8f after step %d, want %.8f", name, got, i+1, c.want[i])
			}
		}
	}
}

// TestAMSGrad: after a large gradient the divisor never falls. With β₂ = 0.5, gradients 1
// and 0 give second moments 0.5 and 0.25; AMSGrad keeps 0.5.
func TestAMSGrad(t *testing.T) {
	with, without := Adam{Rate: 0.1, Beta2: 0.5, AMSGrad: true}, Adam{Rate: 0.1, Beta2: 0.5}
	a, b := []float32{0}, []float32{0}
	for _, g := range []float32{1, 0} {
		with.Step(a, []float32{g})
		without.Step(b, []float32{g})
	}
	// m̂₂ = 0.09/0.19 in both; √v̂₂ = √(0.5/0.75) or √(0.25/0.75).
	m := 0.1 * 0.09 / 0.19
	if want := -0.1 - m/math.Sqrt(0.5/0.75); !near(float64(a[0]), want, 1e-6) {
		t.Errorf("with AMSGrad %g, want %g", a[0], want)
	}
	if want := -0.1 - m/math.Sqrt(0.25/0.75); !near(float64(b[0]), want, 1e-6) {
		t.Errorf("without %g, want %g", b[0], want)
	}
}

func TestClip(t *testing.T) {
	g := []float32{3, -4}
	if norm := ClipNorm(g, 10); norm != 5 || !slices.Equal(g, []float32{3, -4}) {
		t.Errorf("norm %g, %v: a short vector was changed", norm, g)
	}
	if ClipNorm(g, 1); !near(float64(g[0]), 0.6, 1e-6) || !near(float64(g[1]), -0.8, 1e-6) {
		t.Errorf("%v, want 0.6, -0.8", g)
	}
	g = []float32{3, -4, 0.5}
	if ClipValue(g, 1); !slices.Equal(g, []float32{1, -1, 0.5}) {
		t.Errorf("%v, want 1, -1, 0.5", g)
	}
	if ClipValue(g, 0); !slices.Equal(g, []float32{1, -1, 0.5}) {
		t.Errorf("%v: no limit clipped", g)
	}
}
