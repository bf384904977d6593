package forecast

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/forecasttest"
	"github.com/mash2-io/mash2/forecast/score"
)

// slid hands every window of n samples of long, from one to another, to Update,
// and returns the last state.
func slid(t *testing.T, f Forecaster, s State, long api.Series, n, from, to, horizon int) State {
	t.Helper()
	for i := from; i <= to; i++ {
		var err error
		if s, err = f.Update(s, windowOf(long, i, n), horizon); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func windowOf(long api.Series, i, n int) api.Series {
	w := long
	w.Start, w.Values = long.Start.Add(durationOf(i, long)), long.Values[i:i+n:i+n]
	return w
}

// Between refits, which are seldom, the weights of the mixture follow what comes:
// where the season ends and only a level is left, the experts of no season take
// over, and what is said is nearer to what comes than what the weights of the
// refit would say.
func TestWeightsFollowBetweenRefits(t *testing.T) {
	const n, horizon, after = 720, 24, 240
	long := forecasttest.Sampled(forecasttest.Sine(144*60, 100, 60), time.Minute, n+after+horizon, 0, 5, 0.03, 3)
	f := Auto{Portfolio: true}
	first, err := f.Update(NewState("x"), windowOf(long, 0, n), horizon)
	if err != nil {
		t.Fatal(err)
	}
	if first.Model != MixtureName {
		t.Fatalf("the model is %s; the test is for a mixture", first.Model)
	}
	changed := long
	changed.Values = append([]float64(nil), long.Values...)
	for i := n; i < len(changed.Values); i++ {
		changed.Values[i] = 150 + 0.05*(changed.Values[i]-100)
	}
	share := func(s State) (w float64) {
		for _, e := range s.Mixture.Experts {
			if e.Name == NaiveName || e.Name == LevelName {
				w += e.Weight
			}
		}
		return w
	}
	steady := slid(t, f, first, long, n, 1, after, horizon)
	last := slid(t, f, first, changed, n, 1, after, horizon)
	if last.Fits != first.Fits || steady.Fits != first.Fits {
		t.Fatalf("%d and %d refits; the test is for none", last.Fits-first.Fits, steady.Fits-first.Fits)
	}
	if got, was := share(last), share(first); got < 0.5 || was > 0.3 {
		t.Errorf("the last value and the level weigh %.2f after the season ended, %.2f before; want most, and little", got, was)
	}
	if got := share(steady); got > 0.3 {
		t.Errorf("the last value and the level weigh %.2f although the season goes on", got)
	}
	window := windowOf(changed, after, n)
	actual := changed.Values[after+n : after+n+horizon]
	miss := func(s State) float64 {
		fc, err := f.Forecast(s, window, horizon, []float64{0.5})
		if err != nil {
			t.Fatal(err)
		}
		return 2 * score.Pinball(actual, fc.Mean, 0.5) // mean absolute
	}
	frozen := last
	frozen.Mixture = first.Mixture
	if got, without := miss(last), miss(frozen); got > without/2 {
		t.Errorf("error %.2f with the weights of now, %.2f with those of the refit; want half of it", got, without)
	}
}

// Rounds move the factor of the residuals until quantiles hold what they say.
func TestFactorsFollowMisses(t *testing.T) {
	for name, tc := range map[string]struct {
		missed int // of ten
		want   func(before, after float64) bool
	}{
		"none missed: narrower":        {0, func(before, after float64) bool { return after < before }},
		"one of ten: as it is":         {1, func(before, after float64) bool { return math.Abs(after-before) < 1e-12 }},
		"half of them: wider":          {5, func(before, after float64) bool { return after > 1.1*before }},
		"all of them: wider, bounded":  {10, func(before, after float64) bool { return after > 1.3*before && after <= mostFactor }},
		"nothing was said: as it was ": {-1, func(before, after float64) bool { return after == before }},
	} {
		t.Run(name, func(t *testing.T) {
			quantile, actual := make([]float64, 10), make([]float64, 10)
			for i := range quantile {
				quantile[i] = 5
				if i < tc.missed {
					actual[i] = 6
				}
			}
			if tc.missed < 0 {
				quantile = nil
			}
			above := func(v, q float64) bool { return v > q }
			for _, before := range []float64{1, 2.5} {
				if got := adapted(before, quantile, actual, above); !tc.want(before, got) {
					t.Errorf("the factor is %v after %v", got, before)
				}
			}
			factor := 1.0
			for range 100 {
				factor = adapted(factor, quantile, actual, above)
			}
			if factor < leastFactor || factor > mostFactor {
				t.Errorf("after 100 rounds the factor is %v", factor)
			}
		})
	}
}

// A state is a value: what was said of an old one is what it still says after
// newer ones were made of it, and what is kept of paths has a bound.
func TestRoundsWriteToNothing(t *testing.T) {
	const n, horizon = 720, 24
	for name, period := range map[string]float64{"a short season": 30, "a long one": 144} {
		t.Run(name, func(t *testing.T) {
			long := forecasttest.Sampled(forecasttest.Sine(period*60, 100, 60), time.Minute, n+200, 0, 5, 0.03, 3)
			f := Auto{Portfolio: true}
			s, err := f.Update(NewState("y"), windowOf(long, 0, n), horizon)
			if err != nil {
				t.Fatal(err)
			}
			if s.Model != MixtureName {
				t.Fatalf("the model is %s; the test is for a mixture", s.Model)
			}
			s = slid(t, f, s, long, n, 1, 50, horizon)
			say := func() api.Forecast {
				fc, err := f.Forecast(s, windowOf(long, 50, n), horizon, benchLevels)
				if err != nil {
					t.Fatal(err)
				}
				return fc
			}
			before := say()
			later := slid(t, f, s, long, n, 51, 200, horizon)
			if diff := cmp.Diff(before, say(), cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("the old state says something else after newer ones were made (-before +now):\n%s", diff)
			}
			if later.said.steps() > mostSteps || len(later.play.rounds) > roundsApart+1 {
				t.Errorf("%d steps of paths and %d rounds are kept", later.said.steps(), len(later.play.rounds))
			}
		})
	}
}

// A spread that is matched by samples says at its own end what one that is matched
// by leads says, and later what was said of the same samples.
func TestAlignedSpread(t *testing.T) {
	const horizon = 12
	y := forecasttest.Sampled(forecasttest.Sine(20*60, 100, 60), time.Minute, 300, 0, 5, 0, 5)
	p := newSeasonalPredictor(y.Values, SeasonalFit{Period: 20, Cycles: 3})
	by := taken(p, y.Values, y.End(), horizon, 4, false)
	aligned := taken(p, y.Values, y.End(), horizon, 4, true)
	flat := func(n int) []float64 {
		mean := make([]float64, n)
		for i := range mean {
			mean[i] = 1000 // where nothing is cut off at zero
		}
		return mean
	}
	levels := []float64{0.1, 0.5, 0.9}
	first := aligned.around(flat(horizon), levels, y)
	if diff := cmp.Diff(by.around(flat(horizon), levels, y).quantiles, first.quantiles); diff != "" {
		t.Errorf("at its own end (-by leads +aligned):\n%s", diff)
	}
	later := y
	later.Values = append(append([]float64(nil), y.Values...), 100, 100)
	if !aligned.of(later, horizon) {
		t.Fatal("two samples later it is not for a forecast")
	}
	second := aligned.around(flat(horizon), levels, later)
	for i := range levels {
		for h := range horizon - 2 {
			if got, want := second.quantiles[i][h], first.quantiles[i][h+2]; got != want {
				t.Errorf("quantile %v of step %d two samples later is %v, of the same sample it was %v", levels[i], h, got, want)
			}
		}
	}
}
