package vertical

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestShare(t *testing.T) {
	for name, c := range map[string]struct {
		budget int64
		claims []Claim
		want   []int64
		ok     bool
	}{
		"enough for all":                    {100, []Claim{{10, 40, 1}, {10, 60, 1}}, []int64{40, 60}, true},
		"equal parts":                       {90, []Claim{{0, 80, 1}, {0, 80, 1}}, []int64{45, 45}, true},
		"by weight":                         {90, []Claim{{0, 80, 1}, {0, 80, 0.5}}, []int64{60, 30}, true},
		"who asks for little gets it":       {100, []Claim{{0, 10, 0.5}, {0, 200, 1}, {0, 200, 1}}, []int64{10, 45, 45}, true},
		"floors come first":                 {100, []Claim{{40, 100, 0.1}, {0, 100, 1}}, []int64{40, 60}, true},
		"the rest of rounding is given":     {100, []Claim{{0, 100, 1}, {0, 100, 1}, {0, 100, 1}}, []int64{34, 33, 33}, true},
		"floors beyond the budget":          {50, []Claim{{40, 100, 1}, {40, 100, 1}}, []int64{40, 40}, false},
		"floors that are all of the budget": {80, []Claim{{40, 100, 1}, {40, 100, 1}}, []int64{40, 40}, true},
		"nobody":                            {10, nil, []int64{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := Share(c.budget, c.claims, make([]int64, len(c.claims)))
			for i := range c.want {
				if got[i] != c.want[i] {
					t.Fatalf("got %v, want %v", got, c.want)
				}
			}
			if ok != c.ok {
				t.Errorf("ok %v", ok)
			}
		})
	}
}

// TestShareIsFair: on random claims nothing is left that somebody asked for, the sum is
// within the budget, and nobody above their least has more per weight than somebody who
// asked for more, beyond a millicore of rounding.
func TestShareIsFair(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		claims := make([]Claim, 1+rng.IntN(8))
		var least, most int64
		for i := range claims {
			l := rng.Int64N(100)
			claims[i] = Claim{l, l + rng.Int64N(300), 0.01 + 0.99*rng.Float64()}
			least, most = least+claims[i].Least, most+claims[i].Most
		}
		budget := least + rng.Int64N(most-least+100)
		got, ok := Share(budget, claims, make([]int64, len(claims)))
		var sum int64
		for i, c := range claims {
			if sum += got[i]; got[i] < c.Least || got[i] > c.Most {
				t.Fatalf("%v: got %v of %d", claims, got, budget)
			}
		}
		if !ok || sum != min(budget, most) {
			t.Fatalf("%v: got %v, in sum %d of %d", claims, got, sum, budget)
		}
		for i, a := range claims {
			for j, b := range claims {
				if got[i] > a.Least && got[j] < b.Most {
					if mine, theirs := float64(got[i]-1)/a.Weight, float64(got[j]+1)/b.Weight; mine > theirs+1e-6 {
						t.Fatalf("%v: got %v of %d: %d has %g by weight, %d %g", claims, got, budget, i, mine, j, theirs)
					}
				}
			}
		}
	}
}

// FuzzShare: no claims make it give more than there is.
func FuzzShare(f *testing.F) {
	f.Add(int64(100), int64(10), int64(50), 1.0, int64(20), int64(90), 0.1)
	f.Add(int64(1), int64(0), int64(math.MaxInt32), 1e-3, int64(0), int64(1), 1.0)
	f.Fuzz(func(t *testing.T, budget, l1, m1 int64, w1 float64, l2, m2 int64, w2 float64) {
		in := func(v int64) int64 { return min(max(v, 0), most) }
		claims := []Claim{{in(l1), in(m1), weight(w1)}, {in(l2), in(m2), weight(w2)}}
		budget = in(budget)
		got, ok := Share(budget, claims, make([]int64, 2))
		if sum := got[0] + got[1]; sum > max(budget, claims[0].Least+claims[1].Least) || ok != (claims[0].Least+claims[1].Least <= budget) {
			t.Errorf("%d of %+v: %v, %v", budget, claims, got, ok)
		}
	})
}
