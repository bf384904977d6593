package canary

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestGain: a stake's factor is as its formula has it, for small and for huge values, and
// what is not a number changes nothing.
func TestGain(t *testing.T) {
	for _, x := range []float64{0, 0.05, -0.05, 0.3, -1, 1, 1e9, -1e9} {
		g := Gain{}.Add(x)
		for i, l := range stakes {
			want := math.Log(2 / (1 + math.Exp(-2*l*x)))
			if math.IsInf(want, -1) {
				want = math.Ln2 + 2*l*x
			}
			if math.Abs(g.Logs[i]-want) > 1e-9*math.Max(1, math.Abs(want)) {
				t.Errorf("the stake %g after %g: %g, want %g", l, x, g.Logs[i], want)
			}
		}
		if w := g.Wealth(); math.IsNaN(w) || w < 0 || w > 2 {
			t.Errorf("wealth after %g: %g", x, w)
		}
	}
	before := Gain{}.Add(0.1)
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if before.Add(x) != before {
			t.Errorf("%g counts", x)
		}
	}
	if (Gain{}).Wealth() != 1 || (Gain{}).Mean() != 0 {
		t.Error("who has not bet has not 1")
	}
}

// TestGainIsFair: of a value and its mirror image the wealth is 1 on average, whatever it is, and
// a smaller value never makes it larger.
func TestGainIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g Gain
		for _, x := range rapid.SliceOfN(rapid.Float64Range(-1, 1), 0, 20).Draw(t, "before") {
			g = g.Add(x)
		}
		x, less := rapid.Float64Range(0, 1).Draw(t, "x"), rapid.Float64Range(0, 1).Draw(t, "less")
		now, up, down := g.Wealth(), g.Add(x).Wealth(), g.Add(-x).Wealth()
		if math.Abs((up+down)/2-now) > 1e-9*now {
			t.Fatalf("%g becomes %g or %g", now, up, down)
		}
		if lower := g.Add(x - less).Wealth(); lower > up {
			t.Fatalf("%g becomes %g with %g, %g with %g less", now, up, x, lower, less)
		}
	})
}

// TestGainOfNulls: of a thousand candidates that nothing tells from what they would replace
// no more than δ ever look better in a month of days, whatever the days are like; of those that are
// 5 % better nine in ten do.
func TestGainOfNulls(t *testing.T) {
	const trials, days, delta = 1000, 30, 0.05
	ever := func(draw func(src *rand.Rand, day int) float64) int {
		found := 0
		for trial := range trials {
			src := rand.New(rand.NewPCG(uint64(trial), 25))
			var g Gain
			for day := range days {
				if g = g.Add(draw(src, day)); g.Wealth() >= 1/delta {
					found++
					break
				}
			}
		}
		return found
	}
	nulls := map[string]func(*rand.Rand, int) float64{
		"alike but for 2 %": func(src *rand.Rand, _ int) float64 { return 0.02 * src.NormFloat64() },
		"more on weekends": func(src *rand.Rand, day int) float64 {
			if day%7 > 4 {
				return 0.3 * src.NormFloat64()
			}
			return 0.02 * src.NormFloat64()
		},
		"rarely far off": func(src *rand.Rand, _ int) float64 {
			if src.Float64() < 0.1 {
				return 0.5 * math.Copysign(1, src.Float64()-0.5)
			}
			return 0.01 * src.NormFloat64()
		},
		"a coin":       func(src *rand.Rand, _ int) float64 { return math.Copysign(0.05, src.Float64()-0.5) },
		"a little off": func(src *rand.Rand, _ int) float64 { return 0.05*src.NormFloat64() - 0.01 },
	}
	for name, draw := range nulls {
		found := ever(draw)
		t.Logf("%s: %d of %d candidates that are no better look better within %d days", name, found, trials, days)
		if limit := delta*trials + 3*math.Sqrt(delta*trials); float64(found) > limit {
			t.Errorf("%s: %d of %d, at most %.0f may", name, found, trials, limit)
		}
	}
	for _, spread := range []float64{0.01, 0.03, 0.05} {
		found := ever(func(src *rand.Rand, _ int) float64 { return 0.05 + spread*src.NormFloat64() })
		t.Logf("better by 5 %%, ± %g %%: %d of %d found within %d days", 100*spread, found, trials, days)
		if found < trials*9/10 {
			t.Errorf("better by 5 %%, ± %g %%: only %d of %d found", 100*spread, found, trials)
		}
	}
}
