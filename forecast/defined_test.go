package forecast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/forecasttest"
)

// The behaviours that docs/explanation/forecasting.md defines, one test each, for the
// operator's forecaster and, where it can be afforded, for the whole portfolio.

// walk runs f over series as the operator does, from sample `from` on, and hands
// out what is forecast after each sample.
func walk(t *testing.T, f Forecaster, series api.Series, from, horizon int, each func(n int, got api.Forecast)) {
	t.Helper()
	s := NewState(t.Name())
	for n := from; n < len(series.Values); n++ {
		past := series
		past.Values = series.Values[:n:n]
		var err error
		if s, err = f.Update(s, past, horizon); err != nil {
			t.Fatal(err)
		}
		got, err := f.Forecast(s, past, horizon, []float64{0.1, 0.5, 0.9})
		if err != nil {
			t.Fatal(err)
		}
		each(n, got)
	}
}

// quickAndAuto runs a test for the choice of one model and for the whole portfolio.
func quickAndAuto(t *testing.T, test func(t *testing.T, f Forecaster)) {
	t.Helper()
	for _, model := range []string{QuickName, AutoName} {
		t.Run(model, func(t *testing.T) { test(t, mustByName(t, model)) })
	}
}

// Cold start: from the first sample on there is a distribution, bounded by what
// was seen; it has no skill, and so no trust, before there was enough to judge
// it by; a season is in use before its third cycle ends.
func TestColdStart(t *testing.T) {
	quickAndAuto(t, func(t *testing.T, f Forecaster) {
		const period, horizon = 40, 20
		series := forecasttest.Sampled(forecasttest.Square(600), 15*time.Second, 6*period, 0.03, 2, 0, 1)
		trusted, top := 0, 0.0
		walk(t, Monitored{f}, series, 1, horizon, func(n int, got api.Forecast) {
			top = max(top, series.Values[n-1])
			for i, q := range got.PeakQuantiles {
				if !(q >= 0 && q <= 2*top) {
					t.Fatalf("sample %d: the peak's quantile %v is %v, the largest seen is %v", n, got.Levels[i], q, top)
				}
			}
			if n < 16 && got.Skill > 0 {
				t.Errorf("sample %d: a skill of %.2f already", n, got.Skill)
			}
			if trusted == 0 && got.Skill >= 0.1 {
				trusted = n
			}
		})
		if trusted == 0 || trusted > 3*period {
			t.Errorf("trusted after %d samples, want by the end of the third cycle, %d", trusted, 3*period)
		}
		t.Logf("trusted after %d samples of a period of %d", trusted, period)
	})
}

// Gaps are absence of data, not of demand: with a third of the samples missing
// and an outage of a whole season, the forecast stays that of the series without
// gaps, and no low quantile falls to zero.
func TestGaps(t *testing.T) {
	const period, horizon = 40, 20
	whole := forecasttest.Sampled(forecasttest.Square(600), 15*time.Second, 16*period, 0.03, 2, 0, 1)
	holed := whole
	holed.Values = slices.Clone(whole.Values)
	r := rand.New(rand.NewPCG(5, 5))
	for i := range holed.Values {
		if r.Float64() < 0.33 || i >= 13*period && i < 14*period {
			holed.Values[i] = math.NaN()
		}
	}
	for _, model := range []string{QuickName, AutoName} {
		f := mustByName(t, model)
		worst, base := 0.0, 0.0
		for n := 14*period + 5; n < 15*period; n += 9 {
			past, full := holed, whole
			past.Values, full.Values = holed.Values[:n], whole.Values[:n]
			got, err := Predict(f, past, horizon, []float64{0.1, 0.9})
			if err != nil {
				t.Fatal(err)
			}
			want, err := Predict(f, full, horizon, []float64{0.1, 0.9})
			if err != nil {
				t.Fatal(err)
			}
			for h := range horizon {
				worst += math.Abs(got.Mean[h] - whole.Values[n+h])
				base += math.Abs(want.Mean[h] - whole.Values[n+h])
				if got.Quantiles[0][h] < 40 {
					t.Errorf("%s: after %d samples the 0.1 quantile of step %d is %.0f, where demand is 100 or 300", model, n, h, got.Quantiles[0][h])
				}
			}
		}
		t.Logf("%s: error with gaps %.0f, without %.0f", model, worst, base)
		if worst > 2.5*base+300 {
			t.Errorf("%s: error %.0f with gaps, %.0f without", model, worst, base)
		}
	}
}

// Counter resets: where a container starts again, a rate over the reset may be
// far too small or far too large for one sample. One such sample does not change
// what is forecast a season later.
func TestCounterReset(t *testing.T) {
	const period, horizon = 40, 20
	clean := forecasttest.Sampled(forecasttest.Square(600), 15*time.Second, 12*period, 0.03, 2, 0, 1)
	for name, freak := range map[string]float64{"nothing": 0, "fifty times": 15000} {
		for _, model := range []string{QuickName, AutoName} {
			f := mustByName(t, model)
			dirty := clean
			dirty.Values = slices.Clone(clean.Values)
			dirty.Values[10*period+3] = freak
			for n := 11*period - 10; n < 11*period+20; n += 10 {
				past, pure := dirty, clean
				past.Values, pure.Values = dirty.Values[:n], clean.Values[:n]
				got, err := Predict(f, past, horizon, []float64{0.5, 0.9})
				if err != nil {
					t.Fatal(err)
				}
				want, err := Predict(f, pure, horizon, []float64{0.5, 0.9})
				if err != nil {
					t.Fatal(err)
				}
				off, size := 0.0, 0.0
				for h := range horizon {
					off += math.Abs(got.Quantiles[0][h] - want.Quantiles[0][h])
					size += want.Quantiles[0][h]
				}
				if off > 0.15*size {
					t.Errorf("%s, %s at one sample: after %d samples the median is off by %.0f %%", model, name, n, 100*off/size)
				}
			}
		}
	}
}

// Changes of regime: a level shift, a deploy that halves or doubles what a
// request costs, traffic that stops and comes back, a phase that jumps, a season
// that ends. While the forecast keeps its trust it errs less than the last
// value, or it loses the trust within two horizons; and it comes back, where
// a refit's past origins lie around the change with the refit after that.
func TestRegimes(t *testing.T) {
	const period, horizon, at, soon, n = 40, 40, 400, 200, 1000
	beat := func(i int) float64 {
		if i%period < period*2/5 {
			return 400
		}
		return 60
	}
	for name, tc := range map[string]struct {
		after func(i int) float64
		back  bool // there is something to learn afterwards
	}{
		"the level shifts":                  {func(i int) float64 { return beat(i) + 500 }, true},
		"a deploy halves a request's cost":  {func(i int) float64 { return beat(i) / 2 }, true},
		"a deploy doubles a request's cost": {func(i int) float64 { return beat(i) * 2 }, true},
		"the phase jumps":                   {func(i int) float64 { return beat(i + period/2) }, true},
		"the season ends":                   {func(int) float64 { return 200 }, false},
		"traffic stops for two cycles":      {func(i int) float64 { return beat(i) * max(0, min(1, float64(i-at-2*period))) }, true},
		"nothing but a tenth of it stays":   {func(i int) float64 { return beat(i) * 0.1 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			quickAndAuto(t, func(t *testing.T, f Forecaster) {
				r := rand.New(rand.NewPCG(1, 1))
				series := api.Series{Start: time.Unix(0, 0).UTC(), Step: 15 * time.Second, Values: make([]float64, n)}
				for i := range series.Values {
					v := beat(i)
					if i >= at {
						v = tc.after(i)
					}
					series.Values[i] = max(0, v*(1+0.03*r.NormFloat64()))
				}
				var ours, naive, late, lateNaive float64
				trusted, back, last := 0, -1, 0
				walk(t, Monitored{f}, series, at-20, horizon, func(k int, got api.Forecast) {
					if k < at {
						return
					}
					if got.Skill >= 0.1 && k > at+2*horizon && back < 0 {
						back = k - at
					}
					e, en := 0.0, 0.0
					for h := range min(20, n-k) {
						e += math.Abs(got.Mean[h] - series.Values[k+h])
						en += math.Abs(series.Values[k-1] - series.Values[k+h])
					}
					if got.Skill >= 0.1 && k < at+soon {
						trusted++
						ours, naive = ours+e, naive+en
					}
					if k > n-2*period {
						late, lateNaive = late+e, lateNaive+en
						if got.Skill >= 0.1 {
							last++
						}
					}
				})
				t.Logf("trusted in %d of %d samples after, error there %.2f of the last value's; back after %d; in the last %d samples trusted in %d, error there %.2f", trusted, soon, ours/naive, back, 2*period, last, late/lateNaive)
				if trusted > 2*horizon && ours > naive {
					t.Errorf("trusted in %d samples after the change with %.2f of the last value's error", trusted, ours/naive)
				}
				if tc.back && (back < 0 || last < period || late > 0.5*lateNaive) {
					t.Errorf("trusted again after %d samples; in the last %d in %d, error there %.2f of the last value's", back, 2*period, last, late/lateNaive)
				}
			})
		})
	}
}

// Zero traffic is a demand like another: forecasts of it are zero, they are
// neither NaN nor negative, and when traffic comes back as it was, what was there
// before is not forgotten. Where a refit of the portfolio is upset by the outage
// later, the trust is gone within a horizon.
func TestZeroTraffic(t *testing.T) {
	const period, horizon = 40, 20
	series := forecasttest.Sampled(forecasttest.Square(600), 15*time.Second, 26*period, 0.03, 0, 0, 0)
	for i := 12 * period; i < 16*period; i++ {
		series.Values[i] = 0
	}
	quickAndAuto(t, func(t *testing.T, f Forecaster) {
		back, good, upset := 0, 0, 0
		walk(t, Monitored{f}, series, 11*period, horizon, func(n int, got api.Forecast) {
			if n == 16*period { // four cycles of nothing
				for h, v := range got.Quantiles[1] {
					if v > 1 {
						t.Errorf("after four seasons of nothing the median of step %d is %.0f", h, v)
					}
				}
			}
			if n > 16*period && n+horizon <= len(series.Values) {
				off := 0.0
				for h, v := range got.Quantiles[1] {
					off += math.Abs(v-series.Values[n+h]) / horizon
				}
				switch {
				case off < 40: // of 100 to 300
					good++
				case back > 0 && got.Skill >= 0.1:
					upset++
					fallthrough
				default:
					good = 0
				}
				if good == period && back == 0 {
					back = n/period - 16
				}
			}
			for _, q := range got.Quantiles {
				for _, v := range q {
					if !(v >= 0) {
						t.Fatalf("sample %d: a quantile is %v", n, v)
					}
				}
			}
		})
		t.Logf("after the outage the season is back in %d seasons; trusted later in %d samples that are far off", back, upset)
		if back == 0 || back > 5 {
			t.Errorf("after the outage the season is back in %d seasons", back)
		}
		if upset > horizon {
			t.Errorf("trusted in %d samples that are far off", upset)
		}
	})
	nothing := api.Series{Start: time.Unix(0, 0), Step: time.Minute, Values: make([]float64, 500)}
	for _, model := range Names() {
		got, err := Predict(mustByName(t, model), nothing, horizon, []float64{0.5, 0.95})
		if err != nil {
			t.Fatal(err)
		}
		if got.PeakQuantiles[1] != 0 || got.Skill > 0 {
			t.Errorf("%s: of nothing but zeros the peak is %v, the skill %v", model, got.PeakQuantiles[1], got.Skill)
		}
	}
}

// A forecaster that beats the last value, and is clearly outdone by repeating the
// season from a time on, loses its trust within a horizon: something better is
// known.
func TestOutdoneBySeason(t *testing.T) {
	const period, horizon, turn = 40, 20, 12 * 40
	series := forecasttest.Sampled(forecasttest.Square(600), 15*time.Second, 16*period, 0.02, 1, 0, 1)
	from := series.Start.Add(turn * series.Step)
	for name, tc := range map[string]struct {
		say  func(v float64) float64
		want bool
	}{
		"right":              {func(v float64) float64 { return v }, true},
		"an eighth too high": {func(v float64) float64 { return 1.125*v + 15 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			lost, skill, seasonal := -1, math.NaN(), math.NaN()
			walk(t, Monitored{liar{from: from, say: func(v float64, _ int) float64 { return tc.say(v) }}}, series, 8*period, horizon, func(n int, got api.Forecast) {
				skill, seasonal = got.Skill, got.SeasonalSkill
				switch {
				case n > 9*period && n <= turn && !(skill > 0):
					t.Fatalf("sample %d: a skill of %.2f while it was right", n, skill)
				case n > turn && skill <= 0 && lost < 0:
					lost = n - turn
				}
			})
			t.Logf("skill %.2f, against the season %.2f; lost after %d samples", skill, seasonal, lost)
			if (skill > 0) != tc.want || (lost < 0) != tc.want || lost > horizon {
				t.Errorf("skill %.2f, against the season %.2f, lost after %d samples; trusted is to be %v", skill, seasonal, lost, tc.want)
			}
		})
	}
}

// The seasonal models say how good they are, so that they can be trusted alone.
func TestSeasonalSkill(t *testing.T) {
	series := forecasttest.Sampled(forecasttest.Square(600), 15*time.Second, 400, 0.03, 2, 0, 1)
	for _, f := range []Forecaster{Seasonal{}, SeasonalNaive{}} {
		got, err := Predict(f, series, 20, []float64{0.5, 0.9})
		if err != nil {
			t.Fatal(err)
		}
		if !(got.Skill > 0.5 && got.Skill <= 1) {
			t.Errorf("%s: skill %.2f", f.Name(), got.Skill)
		}
	}
}

// TestMostlyGaps: where most of a history is missing, what is known of it still says how far off
// forecasts were: quantiles are no single path.
func TestMostlyGaps(t *testing.T) {
	const horizon = 20
	for _, missing := range []float64{0.55, 0.7, 0.85, 0.95} {
		for _, model := range []string{NaiveName, LevelName, SeasonalName, QuickName, AutoName} {
			t.Run(fmt.Sprintf("%s, %.0f %% missing", model, 100*missing), func(t *testing.T) {
				src := rand.New(rand.NewPCG(1, 2))
				series := api.Series{Start: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), Step: time.Minute, Values: make([]float64, 2000)}
				for i := range series.Values {
					if series.Values[i] = 1000 + 100*src.NormFloat64(); src.Float64() < missing && i < len(series.Values)-1 {
						series.Values[i] = math.NaN()
					}
				}
				f, err := Predict(mustByName(t, model), series, horizon, []float64{0.1, 0.9})
				if err != nil {
					t.Fatal(err)
				}
				for h, m := range f.Mean {
					if f.Quantiles[1][h]-f.Quantiles[0][h] < 100 {
						t.Fatalf("%d ahead by %s: mean %.0f, quantiles %.0f to %.0f", h+1, f.Model, m, f.Quantiles[0][h], f.Quantiles[1][h])
					}
				}
			})
		}
	}
}

// TestYoungWalks: nobody can foresee a random walk. In its first hour, of which few forecasts came
// due that don't tell of the same samples, skill is claimed in few cycles.
func TestYoungWalks(t *testing.T) {
	const walks, from, hour, horizon = 60, 24, 240, 60
	f := Guarded(mustByName(t, QuickName))
	claims := 0
	for seed := range uint64(walks) {
		src := rand.New(rand.NewPCG(seed, 9))
		series := api.Series{Start: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), Step: 15 * time.Second}
		for v := 1000.0; len(series.Values) < hour; v = max(10, v+20*src.NormFloat64()) {
			series.Values = append(series.Values, v)
		}
		walk(t, f, series, from, horizon, func(_ int, got api.Forecast) {
			if got.Skill >= 0.1 {
				claims++
			}
		})
	}
	share := float64(claims) / (walks * (hour - from))
	t.Logf("skill is claimed in %.1f %% of the cycles", 100*share)
	if share > 0.03 {
		t.Error("that is too often")
	}
}
