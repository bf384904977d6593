package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/quick"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/forecasttest"
)

// TestAutoLearnsThePeriod: nothing but the series tells the period, and the
// forecast is far better than the last value's, at every phase.
func TestAutoLearnsThePeriod(t *testing.T) {
	const windows = 12
	tests := map[string]struct {
		f       forecasttest.Signal
		step    time.Duration
		n       int
		gaps    float64
		horizon int
		want    time.Duration // among the seasons
	}{
		"heartbeat":           {f: forecasttest.Heartbeat, step: 15 * time.Second, n: 600, horizon: 20, want: 13 * time.Minute},
		"heartbeat with gaps": {f: forecasttest.Heartbeat, step: 15 * time.Second, n: 600, gaps: 0.05, horizon: 20, want: 13 * time.Minute},
		"3:20":                {f: forecasttest.Square(200), step: 15 * time.Second, n: 600, gaps: 0.02, horizon: 20, want: 200 * time.Second},
		"a day at one minute": {
			f:    func(s float64) float64 { return 50 + 5*math.Pow(1+math.Sin(2*math.Pi*s/86400), 4) },
			step: time.Minute, n: 5 * 1440, gaps: 0.02, horizon: 120, want: 24 * time.Hour,
		},
	}
	levels := []float64{0.5, 0.9, 0.95}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			series := forecasttest.Sampled(tc.f, tc.step, tc.n, 0.05, 3, tc.gaps, 2)
			scores := map[string]Score{}
			for _, model := range []string{QuickName, AutoName, NaiveName} {
				got, err := Backtest(mustByName(t, model), series, tc.horizon, windows, levels)
				if err != nil {
					t.Fatal(err)
				}
				scores[model] = Evaluate(series, got, 1)
				if model == NaiveName {
					continue
				}
				f := got[windows-1].Forecast
				want := SeasonalName
				if model == AutoName && f.Model == MixtureName {
					want = MixtureName
				}
				if f.Model != want || !(f.Skill > 0.3) {
					t.Errorf("model %s with skill %.2f", f.Model, f.Skill)
				}
				if len(f.Seasons) == 0 {
					t.Fatal("no season")
				}
				if !slices.ContainsFunc(f.Seasons, func(d time.Duration) bool {
					return math.Abs(float64(d-tc.want)) < 0.015*float64(tc.want)
				}) {
					t.Errorf("seasons %v without %v", f.Seasons, tc.want)
				}
			}
			naive := scores[NaiveName]
			for _, model := range []string{QuickName, AutoName} {
				auto := scores[model]
				t.Logf("%s: wql %.3f, of the last value %.3f; coverage %.2f; peak under %.2f",
					model, auto.WQL, naive.WQL, auto.Coverage, auto.PeakUnder)
				if auto.WQL > naive.WQL/2 {
					t.Errorf("%s: loss %.3f, that of the last value %.3f", model, auto.WQL, naive.WQL)
				}
				if auto.Coverage[2] < 0.9 {
					t.Errorf("%s: the 0.95 quantile covers %.2f", model, auto.Coverage[2])
				}
			}
		})
	}
}

// TestRampIsCovered: the high part starts up to two samples early or late. What
// is planned for the samples around its start must mostly be there before it.
func TestRampIsCovered(t *testing.T) {
	const period, cycles, horizon = 40, 12, 12
	covered, peaks, total := 0, 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 9))
		series := api.Series{Start: time.Unix(0, 0), Step: 15 * time.Second, Values: make([]float64, period*(cycles+1))}
		for i := range series.Values {
			series.Values[i] = 10 + r.Float64()
		}
		for c := range cycles + 1 {
			start := c*period + 15 + r.IntN(5) - 2
			for i := start; i < start+12; i++ {
				series.Values[i] += 390
			}
		}
		origin := cycles*period + 9 // 4–8 samples before the ramp
		past := series
		past.Values = series.Values[:origin+1]
		f, err := Predict(Auto{}, past, horizon, []float64{0.5, 0.95})
		if err != nil {
			t.Fatal(err)
		}
		for h := range horizon {
			if at := origin + 1 + h - cycles*period; at >= 12 && at <= 19 {
				total++
				if series.Values[origin+1+h] <= f.Quantiles[1][h]+1 {
					covered++
				}
			}
		}
		if f.PeakQuantiles[1] >= 390 {
			peaks++
		}
	}
	if share := float64(covered) / float64(total); share < 0.9 {
		t.Errorf("the 0.95 quantile covers %.2f of the samples around a ramp", share)
	}
	if peaks < 58 {
		t.Errorf("the peak was foreseen %d times of 60", peaks)
	}
}

// TestPeakIsNotTheMaxOfSteps: in independent noise the peak of 30 steps is well
// above any step's quantile. The quantile of the peak must cover peaks as often
// as it says; the largest step quantile does not.
func TestPeakIsNotTheMaxOfSteps(t *testing.T) {
	const horizon, series = 30, 150
	joint, shortcut := 0, 0
	for seed := range uint64(series) {
		r := rand.New(rand.NewPCG(seed, 11))
		values := forecasttest.Generate(600, func() float64 { return 100 + 10*r.NormFloat64() })
		past := api.Series{Start: time.Unix(0, 0), Step: time.Minute, Values: values[:570]}
		f, err := Predict(Level{}, past, horizon, []float64{0.8})
		if err != nil {
			t.Fatal(err)
		}
		p := slices.Max(values[570:])
		if p <= f.PeakQuantiles[0] {
			joint++
		}
		if p <= slices.Max(f.Quantiles[0]) {
			shortcut++
		}
	}
	if share := float64(joint) / series; share < 0.7 || share > 0.92 {
		t.Errorf("the peak's 0.8 quantile covers %.2f of the peaks", share)
	}
	if share := float64(shortcut) / series; share > 0.4 {
		t.Errorf("the largest 0.8 step quantile covers %.2f of the peaks: the case shows no difference", share)
	}
}

// TestLevelShift: demand doubles for good. A season later the forecast is at
// the new level, without waiting for a refit.
func TestLevelShift(t *testing.T) {
	const period, horizon = 52, 20
	series := forecasttest.Sampled(forecasttest.Heartbeat, 15*time.Second, 10*period, 0.03, 3, 0, 1)
	s, err := Auto{}.Update(State{}, api.Series{Start: series.Start, Step: series.Step, Values: series.Values[:8*period]}, horizon)
	if err != nil {
		t.Fatal(err)
	}
	for i := 8 * period; i < len(series.Values); i++ {
		series.Values[i] += 500
	}
	past := series
	past.Values = series.Values[:9*period]
	f, err := Auto{}.Forecast(s, past, horizon, []float64{0.5})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for h, v := range f.Mean {
		sum += v - series.Values[9*period+h]
	}
	if bias := sum / horizon; math.Abs(bias) > 75 {
		t.Errorf("a season after a shift by 500 the forecast is off by %.0f", bias)
	}
}

// TestNoSeasonNoSeasonalModel: where there is no season, auto says so, and its
// skill is not negative by choice.
func TestNoSeasonNoSeasonalModel(t *testing.T) {
	for name, noise := range forecasttest.Noises {
		t.Run(name, func(t *testing.T) {
			seasonal := 0
			for seed := range uint64(25) {
				values := noise(rand.New(rand.NewPCG(seed, 21)), 300)
				low := slices.Min(values)
				for i := range values {
					values[i] -= low
				}
				s, err := Auto{}.Update(State{}, api.Series{Start: time.Unix(0, 0), Step: time.Minute, Values: values}, 10)
				if err != nil {
					t.Fatal(err)
				}
				if s.Model == SeasonalName {
					seasonal++
				}
				if s.Skill == nil || *s.Skill < 0 {
					t.Errorf("seed %d: model %s with skill %v", seed, s.Model, s.Skill)
				}
			}
			if seasonal > 1 {
				t.Errorf("%d of 25 are forecast by a season", seasonal)
			}
		})
	}
}

// TestBacktestDoesNotSeeTheFuture: what comes after a window does not change
// the forecast of it.
func TestBacktestDoesNotSeeTheFuture(t *testing.T) {
	const horizon, windows = 15, 4
	series := forecasttest.Sampled(forecasttest.Heartbeat, 15*time.Second, 400, 0.05, 5, 0.02, 4)
	changed := series
	changed.Values = slices.Clone(series.Values)
	for i := 400 - 2*horizon; i < 400; i++ {
		changed.Values[i] = 12345
	}
	quickAndAuto(t, func(t *testing.T, f Forecaster) {
		want, err := Backtest(f, series, horizon, windows, []float64{0.5, 0.9})
		if err != nil {
			t.Fatal(err)
		}
		if got := want[windows-1].Origin; got != 400-horizon-1 {
			t.Errorf("last origin %d", got)
		}
		got, err := Backtest(f, changed, horizon, windows, []float64{0.5, 0.9})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 { // those whose origin is before the change
			if diff := cmp.Diff(want[i].Forecast, got[i].Forecast, cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("window %d (-want +got):\n%s", i, diff)
			}
		}
		if cmp.Equal(want[3].Forecast, got[3].Forecast, cmpopts.EquateNaNs()) {
			t.Error("the last window did not see its past change")
		}
	})
}

// told is a predictor of given residual paths around a level.
type told struct {
	predictor
	level              float64
	residuals, weights []float64
}

func (told) steady() int { return 1 }

func (p told) ensemble(_ int, mean []float64) (residuals, weights []float64) {
	for h := range mean {
		mean[h] = p.level
	}
	return p.residuals, p.weights
}

// TestQuantilesOfPaths compares with sorting, and with the definition.
func TestQuantilesOfPaths(t *testing.T) {
	const horizon, level = 3, 100
	levels := []float64{0.01, 0.25, 0.5, 0.9, 0.99}
	check := func(seed uint64, size uint8) bool {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + int(size)%60
		weights := forecasttest.Generate(n, func() float64 { return 0.05 + r.Float64() })
		residuals := forecasttest.Generate(n*horizon, func() float64 { return math.Round(10 * r.NormFloat64()) })
		total := 0.0
		for _, w := range weights {
			total += w
		}
		d := distribute(told{level: level, residuals: slices.Clone(residuals), weights: weights}, nil, 0, horizon, levels)
		for h := range horizon + 1 {
			values := make([]float64, n) // of a step, or of the peak
			for i := range values {
				path := residuals[i*horizon : (i+1)*horizon]
				if values[i] = level + slices.Max(path); h < horizon {
					values[i] = level + path[h]
				}
			}
			for k, q := range levels {
				want, sorted := math.NaN(), slices.Sorted(slices.Values(values))
				for _, x := range sorted {
					cum := 0.0
					for i, v := range values {
						if v <= x {
							cum += weights[i]
						}
					}
					if want = x; cum >= q*(total+total/float64(n))*(1-1e-9) {
						break
					}
				}
				got := d.peak[k]
				if h < horizon {
					got = d.quantiles[k][h]
				}
				if got != want {
					t.Logf("n %d step %d level %v: %v, want %v", n, h, q, got, want)
					return false
				}
			}
		}
		return true
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
}

// Of nine equal observations the 0.9 quantile is
// the ninth, ⌈0.9·10⌉, and the 0.5 quantile the fifth.
func TestQuantilesOfEqualWeights(t *testing.T) {
	p := told{residuals: []float64{9, 1, 8, 2, 7, 3, 6, 4, 5}, weights: slices.Repeat([]float64{1}, 9)}
	d := distribute(p, nil, 0, 1, []float64{0.5, 0.9, 0.99})
	if diff := cmp.Diff([]float64{5, 9, 9}, d.peak); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPhaseJump: three beats four minutes apart are followed by a minute's
// pause, after which the beat's phase is another and no season of both is known
// yet. A pattern that came back is followed all the same.
func TestPhaseJump(t *testing.T) {
	const horizon, ahead = 63, 20
	ours, naive := 0.0, 0.0
	for seed := range uint64(8) {
		long := forecasttest.Sampled(forecasttest.Heartbeat, 15*time.Second, 104, 0.03, 3, 0, seed)
		s := NewState("beat")
		for n := 12; n < 84; n++ {
			past := long
			past.Values = long.Values[:n]
			var err error
			if s, err = (Auto{}).Update(s, past, horizon); err != nil {
				t.Fatal(err)
			}
			f, err := Auto{}.Forecast(s, past, horizon, []float64{0.5, 0.9})
			if err != nil {
				t.Fatal(err)
			}
			if n < 68 { // the pause, and a quarter of a pass after it
				continue
			}
			for k := range ahead {
				ours += math.Abs(f.Mean[k] - long.Values[n+k])
				naive += math.Abs(long.Values[n-1] - long.Values[n+k])
			}
		}
	}
	t.Logf("error %.2f of the last value's", ours/naive)
	if ours > 0.85*naive {
		t.Errorf("error %.2f of the last value's", ours/naive)
	}
}
