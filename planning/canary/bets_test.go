package canary

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestWealth against the definition: the mixture of all bets of all epochs, worked out from
// the values themselves.
func TestWealth(t *testing.T) {
	src := rand.New(rand.NewPCG(1, 2))
	for _, again := range []bool{true, false} {
		var b Bets
		var factors [][]float64 // of each value, by fraction
		for n := range 3*epoch + 7 {
			value, least := src.Float64()*2-1, 1+src.Float64()
			b = b.Bet(value, least, again)
			f := make([]float64, len(fractions))
			for g := range f {
				f[g] = 1 + fractions[g]*value/least
			}
			factors = append(factors, f)
			stake := func(begin int) float64 {
				var mean float64
				for g := range fractions {
					p := 1.0
					for _, f := range factors[begin:] {
						p *= f[g]
					}
					mean += p / float64(len(fractions))
				}
				return mean
			}
			want := 0.0
			if again {
				begun := 0
				for k := 0; k*epoch <= n; k++ {
					want += stake(k*epoch) / float64((k+1)*(k+2))
					begun++
				}
				want += 1 / float64(begun+1)
			} else {
				want = stake(0)
			}
			if got := b.Wealth(again); math.Abs(got-want) > 1e-9*want {
				t.Fatalf("after %d values: %g, want %g", n+1, got, want)
			}
		}
	}
}

// TestWealthIsFair: of values whose mean is 0 the expected wealth is what it was, whatever
// came before. Over the two sides of every coin it is worked out exactly.
func TestWealthIsFair(t *testing.T) {
	src := rand.New(rand.NewPCG(3, 4))
	var b Bets
	for n := range 200 {
		up, down := src.Float64(), -src.Float64()
		p := -down / (up - down) // p·up + (1-p)·down = 0
		before := b.Wealth(true)
		after := p*b.Bet(up, 1, true).Wealth(true) + (1-p)*b.Bet(down, 1, true).Wealth(true)
		if math.Abs(after-before) > 1e-9*before {
			t.Fatalf("value %d: %g is expected of %g", n, after, before)
		}
		b = b.Bet([]float64{up, down}[src.IntN(2)], 1, true)
	}
}

// TestOldEpochs: what is no longer kept is lost, never won.
func TestOldEpochs(t *testing.T) {
	var b Bets
	for range (maxEpochs + 20) * epoch {
		b = b.Bet(-0.01, 1, true)
	}
	if len(b.Epochs) != maxEpochs || b.First != 20 {
		t.Errorf("%d epochs from %d on", len(b.Epochs), b.First)
	}
	if w := b.Wealth(true); !(w > 0 && w < 1) {
		t.Errorf("wealth %g", w)
	}
}
