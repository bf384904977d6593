package forecasters

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
)

// The field's baselines against values that are known from elsewhere, so that what
// is beaten is what others run.

var near = cmpopts.EquateApprox(1e-9, 1e-9)

// TestAutopilotDecays is the example that the Vertical Pod Autoscaler tests its
// decaying histogram with (kubernetes/autoscaler, vertical-pod-autoscaler/pkg/
// recommender/util/decaying_histogram_test.go, TestDecayingHistogramPercentiles):
// 1, 2, 3 and 4, a half-life apart and weighing what they are, as in Autopilot's
// load-adjusted histogram. Weights are then 1/8, 2/4, 3/2 and 4, and so are
// percentiles up to 2 % those of 1, to 10 % of 2, to 34 % of 3.
func TestAutopilotDecays(t *testing.T) {
	series := api.Series{Start: time.Unix(0, 0), Step: 12 * time.Hour, Values: []float64{1, 2, 3, 4}}
	levels := []float64{0.02, 0.03, 0.10, 0.11, 0.34, 0.35, 0.89, 0.9}
	got, err := forecast.Predict(Autopilot{}, series, 2, levels)
	if err != nil {
		t.Fatal(err)
	}
	// From 0.9 on with the paper's margin of 10 %.
	if diff := cmp.Diff([]float64{1, 2, 2, 3, 3, 4, 4, 4.4}, got.PeakQuantiles, near); diff != "" {
		t.Errorf("percentiles (-want +got):\n%s", diff)
	}
	// S_avg of the paper, Σ w·u / Σ w.
	if mean := (1./8 + 2./4 + 3./2 + 4) / (1./8 + 1./4 + 1./2 + 1); math.Abs(got.Mean[1]-mean) > 1e-9 {
		t.Errorf("mean %v, want %v", got.Mean[1], mean)
	}
}

// TestAutopilotHolds: a recommendation is the largest of the last hour (Rzadca et
// al. 2020, §3.2.2), and no longer.
func TestAutopilotHolds(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		want   float64 // of the 0.1 percentile
	}{
		{[]float64{8, 1, 1}, 8},    // an hour ago 8 was all there was
		{[]float64{8, 1, 1, 1}, 1}, // since then the ones have been 11 % of the load or more
	} {
		series := api.Series{Start: time.Unix(0, 0), Step: 30 * time.Minute, Values: tc.values}
		got, err := forecast.Predict(Autopilot{}, series, 1, []float64{0.1})
		if err != nil {
			t.Fatal(err)
		}
		if got.PeakQuantiles[0] != tc.want {
			t.Errorf("%v: recommended %v, want %v", tc.values, got.PeakQuantiles[0], tc.want)
		}
	}
}

// TestDSPEstimators: by hand, after the formulas of gocrane/crane's
// pkg/prediction/dsp/estimators.go.
func TestDSPEstimators(t *testing.T) {
	t.Run("largest", func(t *testing.T) {
		// Two periods and one sample more than whole ones, which is not read.
		got := dspEstimator{largest: true, margin: 0.1}.next([]float64{99, 1, 5, 2, 0, 3, 4, 2, 1}, 4, time.Minute)
		if diff := cmp.Diff([]float64{3.3, 5.5, 2.2, 1.1}, got, near); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	// Waves that fit a period of four hours in steps of ten minutes k times; one of
	// k = 9, 27 minutes, is faster than an hour, and half its height is its amplitude
	// |X|/n: below 1, above 0.05.
	const m = 24
	wave := func(height float64, k, t int) float64 {
		return height * math.Cos(2*math.Pi*float64(k*t)/m)
	}
	strong := func(t int) float64 {
		return 30 + wave(8, 1, t) + wave(6, 2, t) + wave(4, 3, t) + wave(3, 10, t)
	}
	y := make([]float64, 3*m)
	for t := range y {
		y[t] = strong(t) + wave(1, 9, t)
	}
	for name, tc := range map[string]struct {
		e    dspEstimator
		weak float64
	}{
		"the fast and weak is dropped": {dspEstimator{margin: 0.01, items: 3, amplitude: 1, frequencyThreshold: 1.0 / 3600}, 0},
		"it is strong enough":          {dspEstimator{margin: 0.15, items: 3, amplitude: 0.05, frequencyThreshold: 1.0 / 3600}, 1},
		"it is among the items kept":   {dspEstimator{margin: 0.15, items: 50, amplitude: 1, frequencyThreshold: 1.0 / 3600}, 1},
		"it is not fast":               {dspEstimator{margin: 0.01, items: 3, amplitude: 1, frequencyThreshold: 1.0 / 1200}, 1},
		"the mean is not an item":      {dspEstimator{margin: 0.01, items: 5, amplitude: 1, frequencyThreshold: 1.0 / 3600}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			want := make([]float64, m)
			for k := range want {
				want[k] = (1 + tc.e.margin) * (strong(k) + wave(tc.weak, 9, k))
			}
			if diff := cmp.Diff(want, tc.e.next(y, m, 10*time.Minute), near); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDSPKeepsWhatIsSlow: upstream only fast components are ever dropped, however
// many are larger; and only what is not above zero becomes 0.01.
func TestDSPKeepsWhatIsSlow(t *testing.T) {
	const m, slow = 1024, 150
	y := make([]float64, m)
	for i := range y {
		y[i] = 6e-3
		for k := 1; k <= slow; k++ {
			y[i] += 1e-5 * math.Cos(2*math.Pi*float64(k*k+k*i)/m)
		}
	}
	e := dspEstimator{margin: 0.15, items: 3, amplitude: 1, frequencyThreshold: (slow + 0.5) / (m * 60)}
	want := make([]float64, m)
	for i, v := range y {
		want[i] = 1.15 * v
	}
	if diff := cmp.Diff(want, e.next(y, m, time.Minute), near); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range y {
		y[i] = 0
	}
	if got := e.next(y, m, time.Minute)[7]; math.Abs(got-0.0115) > 1e-12 {
		t.Errorf("of nothing %v, want 0.0115", got)
	}
}

// TestDSPRepeatsTheDay: four days to the letter, by the hour: each of the estimators
// of the least margin, 1 %, is right but for that, and one of these is chosen. Every
// quantile is the estimate, and the peak's is the largest of it. Three days and no
// period give the 0.99 percentile of the histogram.
func TestDSPRepeatsTheDay(t *testing.T) {
	day := make([]float64, 24)
	for h := range day {
		day[h] = 100 + 60*math.Sin(2*math.Pi*float64(h)/24)
	}
	series := api.Series{Start: time.Unix(0, 0), Step: time.Hour, Values: slices.Repeat(day, 4)}
	got, err := forecast.Predict(DSP{}, series, 30, []float64{0.5, 0.9})
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float64, 30)
	for h := range want {
		want[h] = 1.01 * day[h%24]
	}
	for _, q := range append(got.Quantiles, got.Mean) {
		if diff := cmp.Diff(want, q, near); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	if math.Abs(got.PeakQuantiles[1]-1.01*160) > 1e-9 {
		t.Errorf("peak %v, want 161.6", got.PeakQuantiles[1])
	}
	series.Values = slices.Repeat([]float64{5}, 72)
	if got, err = forecast.Predict(DSP{}, series, 2, []float64{0.5}); err != nil || got.Mean[1] != 5 {
		t.Errorf("of fives %v, %v", got.Mean, err)
	}
}

// Every name is found and is the name of what is found, and of the ones that an
// operator can choose none is of the field.
func TestByName(t *testing.T) {
	for _, name := range Names() {
		if f, err := ByName(name); err != nil || f.Name() != name {
			t.Errorf("%s is %v, %v", name, f, err)
		}
	}
	for _, name := range []string{DSPName, AutopilotName} {
		if _, err := forecast.ByName(name); !errors.Is(err, forecast.ErrUnknownModel) {
			t.Errorf("an operator may choose %s: %v", name, err)
		}
	}
	if _, err := ByName("oracle"); !errors.Is(err, forecast.ErrUnknownModel) {
		t.Errorf("oracle: %v", err)
	}
}

// What every forecaster keeps to holds for these too: bad input is refused, the input
// stays as it is, quantiles don't cross and the peak is below none of them.
func TestRivalsKeepToTheRules(t *testing.T) {
	levels := []float64{0.05, 0.5, 0.9, 0.99}
	for _, f := range []forecast.Forecaster{DSP{}, Autopilot{}} {
		for name, values := range map[string][]float64{"all gaps": {math.NaN(), math.NaN()}, "negative": {1, -1}} {
			series := api.Series{Start: time.Unix(0, 0), Step: time.Minute, Values: values}
			if _, err := f.Forecast(forecast.State{}, series, 1, levels); !errors.Is(err, forecast.ErrNoHistory) && !errors.Is(err, forecast.ErrBadSample) {
				t.Errorf("%s, %s: error %v", f.Name(), name, err)
			}
		}
		for seed := range uint64(200) {
			r := rand.New(rand.NewPCG(seed, 7))
			values := make([]float64, 1+r.IntN(250))
			for i := range values {
				if values[i] = math.Exp(3 * r.NormFloat64()); r.IntN(5) == 0 {
					values[i] = math.NaN()
				}
			}
			values[r.IntN(len(values))] = 1 // one sample at least
			series := api.Series{Start: time.Unix(0, 0), Step: time.Hour, Values: values}
			before := slices.Clone(values)
			horizon := 1 + r.IntN(40)
			got, err := forecast.Predict(f, series, horizon, levels)
			if err != nil {
				t.Fatalf("%s, seed %d: %v", f.Name(), seed, err)
			}
			if diff := cmp.Diff(before, values, cmpopts.EquateNaNs()); diff != "" {
				t.Fatalf("%s has written to the series (-before +now):\n%s", f.Name(), diff)
			}
			for h := range horizon {
				if m := got.Mean[h]; !(m >= 0) || math.IsInf(m, 0) {
					t.Fatalf("%s, seed %d: mean %v", f.Name(), seed, m)
				}
				for i := range levels {
					if q := got.Quantiles[i]; i > 0 && q[h] < got.Quantiles[i-1][h] || got.PeakQuantiles[i] < q[h] {
						t.Fatalf("%s, seed %d: quantiles cross, or the peak is below one: %v, %v", f.Name(), seed, got.Quantiles, got.PeakQuantiles)
					}
				}
			}
		}
	}
}
