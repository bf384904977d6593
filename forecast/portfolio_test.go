package forecast

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/season"
)

// What recipes say at a sample depends on nothing after it, parameters aside,
// and is finite and not negative.
func TestRecipesDoNotLookAhead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		series := anySeries(t)
		y := series.Values
		n := len(y)
		o := rapid.IntRange(0, n-1).Draw(t, "origin")
		horizon := rapid.IntRange(1, 60).Draw(t, "horizon")
		period := rapid.IntRange(2, 40).Draw(t, "period")
		changed := slices.Clone(y)
		for i := o + 1; i < n; i++ {
			changed[i] = 1e6
		}
		seasons := []season.Season{{Period: float64(period), Strength: 1}}
		h := newHistory(y, seasons)
		with := history{periods: h.periods}.filled(changed)
		for _, r := range recipes() {
			params := learn(r, h, horizon)
			if params == nil {
				continue
			}
			// Gaps before anything was seen are filled with what comes first.
			if !math.IsNaN(y[0]) {
				want, got := make([]float64, horizon), make([]float64, horizon)
				r.predictor(h, horizon, params).point(o, want)
				r.predictor(with, horizon, params).point(o, got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s: the future changed the forecast:\n%s", r.name(), diff)
				}
				for k, v := range want {
					if !(v >= 0) || math.IsInf(v, 0) {
						t.Fatalf("%s: step %d is %v", r.name(), k, v)
					}
				}
			}
		}
	})
}

// A history that lost samples at its front gives the same forecast: phases stay
// where they were.
func TestShiftedHistory(t *testing.T) {
	const n, drop, horizon = 24 * 30, 24*3 + 5, 36
	r := rand.New(rand.NewPCG(1, 2))
	y := make([]float64, n)
	for i := range y {
		y[i] = 100 + 40*math.Sin(2*math.Pi*float64(i)/24) + r.NormFloat64()
	}
	h := newHistory(y, []season.Season{{Period: 24, Strength: 1}})
	late := history{periods: h.periods, shift: drop}.filled(y[drop:])
	for _, rec := range recipes() {
		params := rec.learn(h, horizon)
		if params == nil {
			continue
		}
		want, got := make([]float64, horizon), make([]float64, horizon)
		rec.predictor(h, horizon, params).point(n-1, want)
		rec.predictor(late, horizon, params).point(n-1-drop, got)
		for k := range want {
			if math.Abs(want[k]-got[k]) > 4 {
				t.Errorf("%s: step %d is %.1f, was %.1f", rec.name(), k, got[k], want[k])
				break
			}
			near := 12.0
			if rec.name() == "gru" {
				near = 24 // what it knows it learnt elsewhere
			}
			if truth := 100 + 40*math.Sin(2*math.Pi*float64(n+k)/24); math.Abs(want[k]-truth) > near {
				t.Errorf("%s: step %d is %.1f, want about %.1f", rec.name(), k, want[k], truth)
				break
			}
		}
	}
}

// A zero, after parameters were learnt of a series that stays above it, makes no recipe
// say more than the others may, neither just after it nor a season later.
func TestZeroAfterLearningMakesNothingWild(t *testing.T) {
	const n, period, horizon = 24 * 20, 24, 12
	r := rand.New(rand.NewPCG(1, 2))
	y, noise := make([]float64, n+2*period), 0.0
	for i := range y {
		noise = 0.9*noise + 0.05*r.NormFloat64()
		y[i] = 100 * math.Exp(math.Sin(2*math.Pi*float64(i)/period)+noise)
	}
	top := slices.Max(y)
	known := newHistory(y[:n:n], []season.Season{{Period: period, Strength: 1}})
	y[n+period/2] = 0
	h := history{periods: known.periods}.filled(y)
	logs := 0
	for _, rec := range recipes() {
		params := learn(rec, known, horizon)
		if params == nil {
			continue
		}
		if _, ok := rec.(logged); ok {
			logs++
		}
		p, path := rec.predictor(h, horizon, params), make([]float64, horizon)
		for o := n + period/2; o < len(y); o++ {
			if p.point(o, path); slices.Max(path) > 2*top {
				t.Errorf("%s: up to %.3g from sample %d; there never was more than %.3g", rec.name(), slices.Max(path), o, top)
				break
			}
		}
	}
	if logs < 3 {
		t.Errorf("%d recipes of logarithms learnt something; the test is of those", logs)
	}
}

// TestBOA: the weight goes to the best expert, the regret to it stays within
// the bound, and with regrets that are discounted a change of the best is followed.
func TestBOA(t *testing.T) {
	const experts, rounds = 8, 400
	uniform := slices.Repeat([]float64{1.0 / experts}, experts)
	r := rand.New(rand.NewPCG(3, 4))
	loss := make([]float64, experts)
	play := func(b *boa, best func(round int) int, each func(round int, mixed float64, losses []float64)) {
		for round := range rounds {
			mixed := 0.0
			for j := range loss {
				loss[j] = r.Float64()
				if j == best(round) {
					loss[j] *= 0.4
				}
				mixed += b.weights[j] * loss[j]
			}
			if each != nil {
				each(round, mixed, loss)
			}
			regret := make([]float64, experts)
			for j := range loss {
				regret[j] = mixed - loss[j]
			}
			b.learn(regret)
		}
	}
	b := newBOA(uniform, 0)
	own, best := 0.0, 0.0
	play(b, func(int) int { return 2 }, func(_ int, mixed float64, losses []float64) {
		own += mixed
		best += losses[2]
	})
	if b.weights[2] < 0.95 {
		t.Errorf("weights %.3f, want the third near 1", b.weights)
	}
	// √(T·ln E) is 29; with one expert better by a margin it is far less.
	if regret := own - best; regret > math.Sqrt(rounds*math.Log(experts)) {
		t.Errorf("regret %.1f to the best expert after %d rounds", regret, rounds)
	}
	b = newBOA(uniform, 0.05)
	play(b, func(round int) int { return 2 + 3*(round/(rounds-60)) }, nil)
	if b.weights[5] < 0.5 {
		t.Errorf("60 rounds after the best changed its weight is %.2f", b.weights[5])
	}
}

// Ridge without a penalty solves the system it is given.
func TestRidge(t *testing.T) {
	// 4x + 2y = 10, 2x + 3y = 9 by hand: x = 1.5, y = 2.
	got := ridge([][]float64{{4, 0}, {2, 3}}, []float64{10, 9}, []float64{0, 0})
	if len(got) != 2 || math.Abs(got[0]-1.5) > 1e-12 || math.Abs(got[1]-2) > 1e-12 {
		t.Errorf("solution %v, want 1.5 and 2", got)
	}
	if got := ridge([][]float64{{0}}, []float64{1}, []float64{0}); got != nil {
		t.Errorf("solution %v of a singular system", got)
	}
}

// A known season that waxes by a line is followed by every model of seasons.
func TestDecomposition(t *testing.T) {
	y := make([]float64, 24*21)
	for i := range y {
		y[i] = (100 + 20*math.Sin(2*math.Pi*float64(i)/24)) * map[bool]float64{true: 1.3, false: 1}[i%168 < 48]
	}
	x := newIndices(y, []int{24, 168}, true, 1)
	// What is left after both seasons is nearly level.
	lo, hi := math.Inf(1), 0.0
	for i := 168; i < len(y)-168; i++ {
		v := x.remove(i, y[i])
		lo, hi = min(lo, v), max(hi, v)
		if back := x.restore(i, v); math.Abs(back-y[i]) > 1e-9 {
			t.Fatalf("restored %v, was %v", back, y[i])
		}
	}
	if hi > 1.15*lo {
		t.Errorf("what is left goes from %.1f to %.1f", lo, hi)
	}
	if got := nested(y, []int{24}); !slices.Equal(got, []int{24, 168}) {
		t.Errorf("periods %v, want day and week", got)
	}
}

// With nothing seen to compare experts with, all count the same, and what is kept of
// it can be written down.
func TestAggregateOfNothing(t *testing.T) {
	weights, unit := aggregate([]float64{0.5, 0.5}, [][]float64{{1}, {2}}, []float64{1, math.NaN()}, []int{0}, 1)
	if !slices.Equal(weights, []float64{0.5, 0.5}) || unit != 0 {
		t.Errorf("weights %v, unit %v", weights, unit)
	}
	if _, err := json.Marshal(MixtureFit{Unit: unit}); err != nil {
		t.Error(err)
	}
}

// A single model is taken for the mixture only where it was better by more than its
// luck at a few origins, and where the mixture's losses are not known.
func TestMixtureUnlessClearlyWorse(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name          string
		mixed, single losses
		want          bool
	}{
		{"always a little worse", losses{1.1, 2.1, 3.1}, losses{1, 2, 3}, true},
		{"mostly better, once far worse", losses{0.9, 1.9, 5}, losses{1, 2, 3}, false},
		{"better", losses{0.5, 1, 1}, losses{1, 2, 3}, false},
		{"the same", losses{1, 2, 3}, losses{1, 2, 3}, false},
		{"gaps count for nothing", losses{1.1, nan, 3.1}, losses{1, 0, 3}, true},
		{"one origin, worse", losses{2}, losses{1}, true},
		{"one origin, better", losses{1}, losses{2}, false},
		{"nothing came", losses{nan, nan}, losses{nan, nan}, false},
		{"not a number", losses{math.Inf(1), math.Inf(1)}, losses{1, 2}, true},
	} {
		if got := c.mixed.clearlyWorse(c.single); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// A refit begins half from the weights that the last one came to, by name and
// season, and gives every expert a chance.
func TestPriorRemembers(t *testing.T) {
	of := func(name string, period float64) Expert {
		e := Expert{Name: name}
		if period > 0 {
			e.Seasonal = &SeasonalFit{Period: period}
		}
		return e
	}
	last := &MixtureFit{Experts: []Expert{
		{Name: "ets", Weight: 0.5}, {Name: "gone", Weight: 0.25}, {Name: SeasonalName, Weight: 0.25, Seasonal: &SeasonalFit{Period: 144}},
	}}
	experts := []Expert{of("ets", 0), of("theta", 0), of(SeasonalName, 144.5), of(SeasonalName, 1008)}
	for _, c := range []struct {
		name string
		last *MixtureFit
		want []float64
	}{
		{"no fit before", nil, []float64{0.25, 0.25, 0.25, 0.25}},
		{"none of them known", &MixtureFit{}, []float64{0.25, 0.25, 0.25, 0.25}},
		{"two known", last, []float64{0.125 + 0.5*2/3, 0.125, 0.125 + 0.5/3, 0.125}},
	} {
		if diff := cmp.Diff(c.want, c.last.prior(experts), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Between refits the shape of a season stands still: however far apart samples are,
// the portfolio's come within a week and a quarter of it.
func TestPortfolioRefitsWithinAWeek(t *testing.T) {
	for _, c := range []struct {
		step time.Duration
		want time.Duration // the longest wait
	}{{time.Hour, 7 * 24 * time.Hour}, {10 * time.Minute, 7 * 24 * time.Hour}, {time.Minute, 672 * time.Minute}} {
		series := api.Series{Start: time.Unix(0, 0).UTC(), Step: c.step, Values: make([]float64, 672)}
		end := series.End()
		s := State{Fits: 1, Step: c.step, Horizon: 4, Samples: 672, Growth: portfolioGrowth}
		for after := c.step; ; after += c.step {
			s.FittedTo = end.Add(-after)
			if s.Due(series, 4) {
				if after < c.want*3/4-c.step || after > c.want*5/4+c.step {
					t.Errorf("samples %v apart: a refit after %v, want %v give or take a quarter", c.step, after, c.want)
				}
				break
			}
		}
	}
}
