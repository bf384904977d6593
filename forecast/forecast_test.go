package forecast

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/forecasttest"
)

func mustByName(t testing.TB, name string) Forecaster {
	t.Helper()
	f, err := ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	if f.Name() != name {
		t.Fatalf("ByName(%q) is %q", name, f.Name())
	}
	return f
}

func TestByNameRefusesOthers(t *testing.T) {
	if _, err := ByName("oracle"); !errors.Is(err, ErrUnknownModel) {
		t.Errorf("error %v, want ErrUnknownModel", err)
	}
}

func TestRefusals(t *testing.T) {
	nan := math.NaN()
	tests := map[string]struct {
		values  []float64
		step    time.Duration
		horizon int
		levels  []float64
		want    error
	}{
		"nothing":             {nil, time.Minute, 1, nil, ErrNoHistory},
		"gaps only":           {[]float64{nan, nan}, time.Minute, 1, nil, ErrNoHistory},
		"negative demand":     {[]float64{1, -1}, time.Minute, 1, nil, ErrBadSample},
		"infinite demand":     {[]float64{1, math.Inf(1)}, time.Minute, 1, nil, ErrBadSample},
		"absurd demand":       {[]float64{1, 1e200}, time.Minute, 1, nil, ErrBadSample},
		"no step":             {[]float64{1}, 0, 1, nil, ErrBadRequest},
		"no horizon":          {[]float64{1}, time.Minute, 0, nil, ErrBadRequest},
		"a level of 1":        {[]float64{1}, time.Minute, 1, []float64{0.5, 1}, ErrBadRequest},
		"levels out of order": {[]float64{1}, time.Minute, 1, []float64{0.9, 0.5}, ErrBadRequest},
		"a NaN level":         {[]float64{1}, time.Minute, 1, []float64{nan}, ErrBadRequest},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			series := api.Series{Step: tc.step, Values: tc.values}
			for _, model := range Names() {
				f := mustByName(t, model)
				if _, err := f.Forecast(State{}, series, tc.horizon, tc.levels); !errors.Is(err, tc.want) {
					t.Errorf("%s.Forecast: error %v, want %v", model, err, tc.want)
				}
				if len(tc.levels) > 0 {
					continue // Update takes no levels
				}
				if _, err := f.Update(State{}, series, tc.horizon); !errors.Is(err, tc.want) {
					t.Errorf("%s.Update: error %v, want %v", model, err, tc.want)
				}
			}
		})
	}
}

func TestPlainHistories(t *testing.T) {
	nan := math.NaN()
	tests := map[string]struct {
		values []float64
		want   float64
	}{
		"one sample":             {[]float64{7}, 7},
		"a constant":             {slices.Repeat([]float64{7}, 300), 7},
		"zeros":                  {make([]float64, 300), 0},
		"a constant with gaps":   {slices.Repeat([]float64{nan, 7, 7, nan, nan}, 60), 7},
		"gaps at the end":        {append(slices.Repeat([]float64{7}, 100), slices.Repeat([]float64{nan}, 50)...), 7},
		"one sample among gaps":  {append(slices.Repeat([]float64{nan}, 60), 7, nan), 7},
		"shorter than a horizon": {[]float64{7, 7, 7}, 7},
	}
	levels := []float64{0.1, 0.5, 0.9}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			series := api.Series{Start: time.Unix(0, 0), Step: time.Minute, Values: tc.values}
			for _, model := range Names() {
				got, err := Predict(mustByName(t, model), series, 5, levels)
				if err != nil {
					t.Fatal(err)
				}
				flat := slices.Repeat([]float64{tc.want}, 5)
				want := api.Forecast{
					Start: series.End().Add(time.Minute), Step: time.Minute,
					Mean: flat, Levels: levels, Quantiles: [][]float64{flat, flat, flat}, PeakQuantiles: flat[:3],
				}
				ignore := cmpopts.IgnoreFields(api.Forecast{}, "Model", "Skill", "SeasonalSkill")
				if diff := cmp.Diff(want, got, ignore, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", model, diff)
				}
			}
		})
	}
}

// anySeries draws a series of any sort: noise of every kind, seasons, gaps.
func anySeries(t *rapid.T) api.Series {
	n := rapid.IntRange(1, 250).Draw(t, "n")
	seed := rapid.Uint64().Draw(t, "seed")
	kinds := []string{"seasonal"}
	for k := range forecasttest.Noises {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	kind := rapid.SampledFrom(kinds).Draw(t, "kind")
	r := rand.New(rand.NewPCG(seed, 5))
	var values []float64
	if noise := forecasttest.Noises[kind]; noise != nil {
		values = noise(r, n)
	} else {
		f := forecasttest.Square(rapid.Float64Range(40, 2000).Draw(t, "period"))
		values = forecasttest.Sampled(f, 15*time.Second, n, 0.05, 5, 0, seed).Values
	}
	gaps := rapid.Float64Range(0, 0.9).Draw(t, "gaps")
	for i := range values {
		values[i] = math.Abs(values[i])
		if r.Float64() < gaps {
			values[i] = math.NaN()
		}
	}
	values[r.IntN(n)] = 1 // one sample at least
	if rapid.Bool().Draw(t, "freak") {
		values[r.IntN(n)] = maxSample
	}
	return api.Series{Start: time.Unix(0, 0).UTC(), Step: 15 * time.Second, Values: values}
}

func TestForecastsAreDistributions(t *testing.T) {
	levels := []float64{0.05, 0.5, 0.8, 0.9, 0.95, 0.99}
	rapid.Check(t, func(t *rapid.T) {
		series := anySeries(t)
		before := slices.Clone(series.Values)
		horizon := rapid.IntRange(1, 70).Draw(t, "horizon")
		f, err := ByName(rapid.SampledFrom(Names()).Draw(t, "model"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := f.Update(State{}, series, horizon)
		if err != nil {
			t.Fatal(err)
		}
		stateBefore, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("a state that JSON can't hold: %v", err)
		}
		got, err := f.Forecast(s, series, horizon, levels)
		if err != nil {
			t.Fatal(err)
		}
		for h := range horizon {
			if m := got.Mean[h]; !(m >= 0) || math.IsInf(m, 0) {
				t.Fatalf("step %d: mean %v", h, m)
			}
			for i := range levels {
				v := got.Quantiles[i][h]
				switch {
				case !(v >= 0) || math.IsInf(v, 0):
					t.Fatalf("step %d: quantile %v is %v", h, levels[i], v)
				case i > 0 && v < got.Quantiles[i-1][h]:
					t.Fatalf("step %d: quantiles cross at %v", h, levels[i])
				case got.PeakQuantiles[i] < v:
					t.Fatalf("the peak's quantile %v is below that of step %d", levels[i], h)
				}
			}
		}
		if diff := cmp.Diff(before, series.Values, cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("the series was written to:\n%s", diff)
		}
		again, err := f.Forecast(s, series, horizon, levels)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, again, cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("the same forecast twice differs:\n%s", diff)
		}
		if stateAfter, _ := json.Marshal(s); string(stateAfter) != string(stateBefore) {
			t.Fatal("the state was written to")
		}
		fresh := s // as from a checkpoint, which holds no spread
		fresh.kept, fresh.keptLong = kept{}, kept{}
		again, err = f.Forecast(fresh, series, horizon, levels)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, again, cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-6, 1e-6)); diff != "" {
			t.Fatalf("what was kept of the spread is not what it is:\n%s", diff)
		}
		refit, err := f.Update(State{}, series, horizon)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, refit, cmp.AllowUnexported(State{}, kept{}, spread{}, play{}, round{}, boa{}, word{}, marks{}), cmpopts.IgnoreTypes(reading{})); diff != "" {
			t.Fatalf("the state is not a function of the history:\n%s", diff)
		}
	})
}

// A predictor reads nothing after its origin, so that residuals and skill,
// which are made of past origins' forecasts, are honest.
func TestPredictorsDoNotLookAhead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		series := anySeries(t)
		n := len(series.Values)
		o := rapid.IntRange(0, n-1).Draw(t, "origin")
		horizon := rapid.IntRange(1, 60).Draw(t, "horizon")
		changed := slices.Clone(series.Values)
		for i := o + 1; i < n; i++ {
			changed[i] = 1e6
		}
		fit := SeasonalFit{
			Period: rapid.Float64Range(4, 60).Draw(t, "period"),
			Cycles: rapid.IntRange(1, 5).Draw(t, "cycles"),
			Level:  rapid.SampledFrom([]LevelMode{LevelAsWas, LevelShifted, LevelRescaled}).Draw(t, "level"),
			Recent: 3, Gain: []float64{0.7, 0.3},
		}
		models := map[string]func(y []float64) predictor{
			"last value": func(y []float64) predictor { return lastValue{y} },
			"level":      func(y []float64) predictor { return newSmoothed(y, 0.2) },
			"level once": func(y []float64) predictor { return newSmoothedOnce(y, 0.9) },
			"seasonal":   func(y []float64) predictor { return newSeasonalPredictor(y, fit) },
		}
		for name, model := range models {
			want := distribute(model(series.Values), series.Values, o, horizon, []float64{0.5, 0.9})
			got := distribute(model(changed), changed, o, horizon, []float64{0.5, 0.9})
			if diff := cmp.Diff(want.quantiles, got.quantiles); diff != "" {
				t.Fatalf("%s: the future changed the forecast:\n%s", name, diff)
			}
		}
	})
}

// The level of one forecast is that of the whole history, whatever gaps there are.
func TestLastLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := rapid.SliceOfN(rapid.Float64Range(0, 1000), 1, 1500).Draw(t, "y")
		for range rapid.IntRange(0, 5).Draw(t, "gaps") {
			at := rapid.IntRange(0, len(y)-1).Draw(t, "gap")
			for i := at; i < min(len(y), at+rapid.IntRange(1, 900).Draw(t, "length")); i++ {
				y[i] = math.NaN()
			}
		}
		alpha := rapid.SampledFrom(alphas[:]).Draw(t, "alpha")
		want, got := newSmoothed(y, alpha).at(len(y)-1), newSmoothedLast(y, alpha).at(len(y)-1)
		if !cmp.Equal(got, want, cmpopts.EquateApprox(1e-9, 1e-9), cmpopts.EquateNaNs()) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// Reading the whole history or only its tail gives the same forecast.
func TestTailIsEnough(t *testing.T) {
	series := forecasttest.Sampled(forecasttest.Heartbeat, 15*time.Second, 3000, 0.05, 5, 0.02, 1)
	s, err := Auto{}.Update(State{}, series, 20)
	if err != nil {
		t.Fatal(err)
	}
	levels := []float64{0.5, 0.95}
	got, err := Auto{}.Forecast(s, series, 20, levels)
	if err != nil {
		t.Fatal(err)
	}
	y := series.Values
	want := distribute(newSeasonalPredictor(y, *s.Seasonal), y, len(y)-1, 20, levels)
	if diff := cmp.Diff(want.quantiles, got.Quantiles, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("(-whole +tail):\n%s", diff)
	}
}

func TestRefitsAreRareAndSpread(t *testing.T) {
	long := forecasttest.Sampled(forecasttest.Heartbeat, 15*time.Second, 800, 0.05, 5, 0, 1)
	first := map[int]int{} // how many series are refitted at which cycle
	for name := range 50 {
		s := NewState(string(rune('a' + name)))
		fits := 0
		for i := range 100 {
			window := long
			window.Values = long.Values[:640+i]
			due := s.Due(window, 20)
			next, err := Naive{}.Update(s, window, 20) // the cheapest; due times are common to all
			if err != nil {
				t.Fatal(err)
			}
			if (next.Fits > s.Fits) != due {
				t.Fatal("Update and Due disagree")
			}
			if next.Fits == 2 && s.Fits == 1 {
				first[i]++
			}
			fits, s = next.Fits, next
		}
		// 640 samples: the first at once, then every 40 or so, ±25 %.
		if fits < 2 || fits > 4 {
			t.Errorf("%d refits in 100 cycles", fits)
		}
	}
	for cycle, n := range first {
		if n > 15 {
			t.Errorf("%d of 50 series are refitted in cycle %d", n, cycle)
		}
	}
}

// A start reads the newest samples first, and its past later, while cycles go on:
// what was fitted to the beginning of that must not last as long as what is fitted
// to all of it.
func TestAPastReadLaterIsFitted(t *testing.T) {
	whole := forecasttest.Sampled(forecasttest.Heartbeat, 15*time.Second, 4000, 0.05, 5, 0, 1)
	newest := func(n int) api.Series {
		s := whole
		s.Start, s.Values = whole.Start.Add(time.Duration(len(whole.Values)-n)*whole.Step), whole.Values[len(whole.Values)-n:]
		return s
	}
	s, err := Naive{}.Update(NewState("a"), newest(20), 20)
	if err != nil {
		t.Fatal(err)
	}
	fits := 0
	for n := 20; n <= 4000; n += 20 { // the newest sample stays the same
		next, err := Naive{}.Update(s, newest(n), 20)
		if err != nil {
			t.Fatal(err)
		}
		fits += next.Fits - s.Fits
		s = next
		if 3*s.Samples < 2*n {
			t.Errorf("%d samples are known, fitted are %d", n, s.Samples)
		}
	}
	if fits > 14 { // of each half as much again: 200 = 1.5^13.1
		t.Errorf("%d refits while a past of 200 times as many samples was read", fits)
	}
}

func TestStateOfAnotherStepIsNotUsed(t *testing.T) {
	series := forecasttest.Sampled(forecasttest.Heartbeat, 15*time.Second, 500, 0, 1, 0, 1)
	s, err := Auto{}.Update(State{}, series, 20)
	if err != nil {
		t.Fatal(err)
	}
	series.Step = time.Minute
	got, err := Auto{}.Forecast(s, series, 20, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Model != NaiveName || !s.Due(series, 20) {
		t.Errorf("model %s, due %v; want the last value and a refit", got.Model, s.Due(series, 20))
	}
}

// After an absence longer than the window a history begins anew: what was learnt of
// seasons that it has no two cycles of is not used, and learnt anew.
func TestStateOfALongerHistoryIsNotUsed(t *testing.T) {
	const n, period, horizon = 480, 24, 12
	series := forecasttest.Sampled(forecasttest.Sine(period*60, 100, 60), time.Minute, n, 0, 5, 0, 3)
	for _, model := range Names() {
		f := mustByName(t, model)
		s, err := f.Update(NewState("x"), series, horizon)
		if err != nil {
			t.Fatal(err)
		}
		for _, left := range []int{1, 3, period, 2*period - 1, 2 * period} {
			later := api.Series{Start: series.End().Add(series.Step), Step: series.Step, Values: series.Values[:left:left]}
			s.FittedTo, s.Samples = later.End(), left // as if no refit were due for another reason
			if _, err := f.Forecast(s, later, horizon, []float64{0.5, 0.9}); err != nil {
				t.Errorf("%s of %d samples: %v", model, left, err)
			}
			seasonal := s.Mixture != nil && len(s.Mixture.Periods) > 0
			if due := s.Due(later, horizon); due != (seasonal && left < 2*slices.Max(s.Mixture.Periods)) {
				t.Errorf("%s of %d samples: a refit is due: %v", model, left, due)
			}
		}
	}
}

// Samples belong to whoever hands them in: no forecaster writes to them.
func TestNobodyWritesToTheSeries(t *testing.T) {
	for name, gap := range map[string]bool{"without gaps": false, "with one": true} {
		t.Run(name, func(t *testing.T) {
			series := forecasttest.Sampled(forecasttest.Sine(86400, 100, 60), 10*time.Minute, 2100, 0, 5, 0, 8)
			// Outliers, a freak, an outage, and what a limit has cut off.
			series.Values[300], series.Values[301], series.Values[400] = 900, 0, 1e5
			for i := 500; i < 530; i++ {
				series.Values[i] = 0
			}
			if gap {
				series.Values[77] = math.NaN()
			}
			series.Censored = []api.Span{{From: at(series, 600), To: at(series, 620)}}
			before := slices.Clone(series.Values)
			for _, model := range Names() {
				f, err := ByName(model)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range []Forecaster{f, Guarded(f)} {
					if _, err := Predict(f, series, 24, benchLevels); err != nil {
						t.Errorf("%s: %v", model, err)
					}
					if diff := cmp.Diff(before, series.Values, cmpopts.EquateNaNs()); diff != "" {
						t.Fatalf("%s has written to the series (-before +now):\n%s", model, diff)
					}
				}
			}
		})
	}
}
