package demand

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestReturnLevel: of maxima whose tail is exponential the level is exceeded as often as
// stated, up to what is known of it by so few.
func TestReturnLevel(t *testing.T) {
	const maximaOf, perDay, p, runs = 400, 12, 0.02, 4000
	rng := rand.New(rand.NewPCG(5, 6))
	draw := func() float64 { return 100 + 10*rng.ExpFloat64() }
	above := 0
	for range runs {
		maxima := make([]float64, maximaOf)
		for i := range maxima {
			maxima[i] = draw()
		}
		level, most := ReturnLevel(maxima, perDay, p), 0.0
		for range perDay {
			most = math.Max(most, draw())
		}
		if most > level {
			above++
		}
	}
	if share := float64(above) / runs; share < p/4 || share > 1.2*p {
		t.Errorf("a level of %g is exceeded in %g of cases", p, share)
	}
	if got := ReturnLevel(make([]float64, leastMaxima-1), 12, 1e-5); got != 0 {
		t.Errorf("too few maxima tell of a level of %g", got)
	}
	if got := ReturnLevel(slicesOf(100, 40), 12, 1e-5); got != 100 {
		t.Errorf("what never varies has a level of %g, want 100", got)
	}
	rare, daily := slicesOf(100, 96), slicesOf(100, 96)
	rare[17], rare[60] = 160, 180
	if got := ReturnLevel(rare, 12, 1e-5); got < 300 {
		t.Errorf("two peaks of 160 and 180 among 94 of 100: level %.0f", got)
	}
	for i := 5; i < len(daily); i += 11 {
		daily[i] = 180 + float64(i%7)
	}
	if got := ReturnLevel(daily, 12, 1e-5); got < 186 || got > 240 {
		t.Errorf("a peak of 180 to 186 in each day: level %.0f", got)
	}
}

func slicesOf(v float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// TestReturnLevelGrows: it is never below the largest maximum, grows as the probability
// shrinks, and is in the quantity's unit.
func TestReturnLevelGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxima := rapid.SliceOfN(rapid.Float64Range(0, 1e12), leastMaxima, 200).Draw(t, "maxima")
		perDay := rapid.IntRange(1, 20).Draw(t, "perDay")
		p := rapid.Float64Range(1e-9, 1e-3).Draw(t, "p")
		level := ReturnLevel(maxima, perDay, p)
		if most := slices.Max(maxima); level < most*(1-1e-12) {
			t.Fatalf("a level of %g below the largest maximum, %g", level, most)
		}
		if less := ReturnLevel(maxima, perDay, p/2); less < level {
			t.Fatalf("a level of %g is %g, of half of that %g", p, level, less)
		}
		scaled := make([]float64, len(maxima))
		for i, v := range maxima {
			scaled[i] = 4 * v
		}
		if got := ReturnLevel(scaled, perDay, p); math.Abs(got-4*level) > 1e-9*got {
			t.Fatalf("%g, of four times the maxima %g", level, got)
		}
	})
}
