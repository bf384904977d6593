package forecasters

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/forecast/season"
)

// DSP is the periodic predictor of Crane (gocrane/crane, pkg/prediction/dsp), a
// baseline, as its documents describe it: if a day or a week is a period, the
// next one is either the largest value at the same phase of past ones or their
// spectrum without its weak and fast parts, with a margin; of a fixed set of such
// estimators the one that was best on the last period. Otherwise the 0.99
// percentile of a histogram that forgets with a half-life of 12 hours. It makes
// no distribution: every quantile is its estimate.
type DSP struct{}

// DSPName is the name of DSP.
const DSPName = "dsp"

// Name implements forecast.Forecaster.
func (DSP) Name() string { return DSPName }

// Update implements forecast.Forecaster. Crane estimates anew each time.
func (DSP) Update(s forecast.State, series api.Series, horizon int) (forecast.State, error) {
	return forecast.Naive{}.Update(s, series, horizon)
}

// dspEstimator is one of Crane's default set.
type dspEstimator struct {
	largest            bool // else by the spectrum
	margin             float64
	items              int     // least number of components
	amplitude          float64 // below which a fast component is dropped
	frequencyThreshold float64 // in Hz, above which a component is fast
}

var dspEstimators = []dspEstimator{
	{largest: true, margin: 0.01}, {largest: true, margin: 0.1}, {largest: true, margin: 0.15}, {largest: true, margin: 0.2},
	{margin: 0.01, items: 3, amplitude: 1, frequencyThreshold: 1.0 / 3600},
	{margin: 0.15, items: 3, amplitude: 1, frequencyThreshold: 1.0 / 3600},
	{margin: 0.01, items: 50, amplitude: 0.05, frequencyThreshold: 1.0 / 3600},
	{margin: 0.15, items: 50, amplitude: 0.05, frequencyThreshold: 1.0 / 3600},
}

// Forecast implements forecast.Forecaster.
func (DSP) Forecast(s forecast.State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	if err := forecast.Check(s, series, horizon, levels); err != nil {
		return api.Forecast{}, err
	}
	y := filled(series.Values)
	clipOutliers(y)
	path := make([]float64, horizon)
	if m := dspPeriod(y, series.Step); m > 0 {
		best, bestErr := dspEstimators[0], math.Inf(1)
		n := len(y) - m
		for _, e := range dspEstimators {
			guess := e.next(y[:n], m, series.Step)
			if err := dspError(y[n:], guess); err < bestErr {
				best, bestErr = e, err
			}
		}
		next := best.next(y, m, series.Step)
		for k := range path {
			path[k] = next[k%m]
		}
	} else {
		copy(path, flat(decayedPercentiles(y, series.Step, []float64{0.99})[0], horizon))
	}
	f := api.Forecast{
		Model: DSPName, Start: series.End().Add(series.Step), Step: series.Step,
		Mean: path, Levels: slices.Clone(levels), Skill: math.NaN(),
	}
	for range levels {
		f.Quantiles = append(f.Quantiles, slices.Clone(path))
		f.PeakQuantiles = append(f.PeakQuantiles, slices.Max(path))
	}
	return f, nil
}

// dspError counts what falls short ten times, as a resource's estimate is used.
func dspError(actual, guess []float64) float64 {
	sum := 0.0
	for i, v := range actual {
		sum += max(0.9*(v-guess[i]), 0.1*(guess[i]-v))
	}
	return sum
}

// filled is values with those before them, or the first one, in place of gaps.
func filled(values []float64) []float64 {
	y := slices.Clone(values)
	last := 0.0
	if first := slices.IndexFunc(y, func(v float64) bool { return !math.IsNaN(v) }); first >= 0 {
		last = y[first]
	}
	for t, v := range y {
		if math.IsNaN(v) {
			y[t] = last
		}
		last = y[t]
	}
	return y
}

// clipOutliers puts the value before in place of what is outside 0.1–99.9 %.
func clipOutliers(y []float64) {
	sorted := slices.Sorted(slices.Values(y))
	lo, hi := sorted[len(sorted)/1000], sorted[len(sorted)-1-len(sorted)/1000]
	for t := 1; t < len(y); t++ {
		if y[t] < lo || y[t] > hi {
			y[t] = y[t-1]
		}
	}
}

// dspPeriod is a day or a week in samples, if the autocorrelation stands on a
// hill there and three cycles were seen (two of a week); 0 if neither.
func dspPeriod(y []float64, step time.Duration) int {
	for _, p := range []struct {
		period time.Duration
		cycles int
	}{{24 * time.Hour, 3}, {7 * 24 * time.Hour, 2}} {
		m := int(math.Round(float64(p.period) / float64(step)))
		if m < 4 || len(y) < p.cycles*m {
			continue
		}
		r := season.Autocorrelations(y, m, m-m/4, min(len(y)-2, m+m/4))
		if here, left, right := r[0], r[1], r[2]; here > 0.2 && here > left && here > right {
			return m
		}
	}
	return 0
}

// dspItems is the largest number of fast components that are kept.
const dspItems = 100

// next estimates the period after y.
func (e dspEstimator) next(y []float64, m int, step time.Duration) []float64 {
	out := make([]float64, m)
	cycles := len(y) / m
	recent := y[len(y)-cycles*m:]
	if e.largest {
		for t, v := range recent {
			out[t%m] = max(out[t%m], v*(1+e.margin))
		}
		return out
	}
	n := len(recent)
	transform := fourier.NewFFT(n)
	c := transform.Coefficients(nil, recent)
	order := make([]int, len(c)-1) // without the mean
	for i := range order {
		order[i] = i + 1
	}
	size := func(i int) float64 { return math.Hypot(real(c[i]), imag(c[i])) / float64(n) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size(b), size(a)) })
	for rank, i := range order {
		frequency := float64(i) / (float64(n) * step.Seconds())
		if frequency > e.frequencyThreshold && rank >= e.items && (rank >= dspItems || size(i) < e.amplitude) {
			c[i] = 0
		}
	}
	back := transform.Sequence(nil, c)
	for k := range out {
		v := back[k] / float64(n)
		if v <= 0 {
			v = 0.01
		}
		out[k] = v * (1 + e.margin)
	}
	return out
}
