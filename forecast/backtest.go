package forecast

import (
	"fmt"
	"math"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast/score"
)

// Window is one forecast of a backtest and what came.
type Window struct {
	Origin   int // index of the last sample the forecaster saw
	Forecast api.Forecast
	Actual   []float64 // NaN at gaps
}

// Backtest forecasts the last windows non-overlapping stretches of horizon
// samples of series, oldest first, each from the samples before it only, fitted
// anew. It returns an error wrapping ErrBadRequest when the series is too short
// to leave a sample before the first window.
func Backtest(f Forecaster, series api.Series, horizon, windows int, levels []float64) ([]Window, error) {
	if err := Check(State{}, series, horizon, levels); err != nil {
		return nil, err
	}
	if windows < 1 || len(series.Values)-1 < horizon*windows {
		return nil, fmt.Errorf("%w: %d windows of %d samples in a series of %d",
			ErrBadRequest, windows, horizon, len(series.Values))
	}
	out := make([]Window, 0, windows)
	for i := range windows {
		end := len(series.Values) - horizon*(windows-i)
		past := series
		past.Values = series.Values[:end:end]
		fc, err := Predict(f, past, horizon, levels)
		if err != nil {
			return nil, fmt.Errorf("window %d of %d: %w", i+1, windows, err)
		}
		out = append(out, Window{Origin: end - 1, Forecast: fc, Actual: series.Values[end : end+horizon]})
	}
	return out, nil
}

// Score sums up a backtest; what is undefined is NaN.
type Score struct {
	SMAPE, MASE, WQL float64
	// Pinball and Coverage, per level of the forecasts.
	Pinball, Coverage []float64
	// PeakUnder is, per level, the share of windows whose peak was above the
	// forecast quantile of the peak.
	PeakUnder []float64
}

// Evaluate scores windows of one backtest over series. Period, in samples, is
// that of MASE's scale, taken from the history before the first window.
func Evaluate(series api.Series, windows []Window, period int) Score {
	s := Score{SMAPE: math.NaN(), MASE: math.NaN(), WQL: math.NaN()}
	if len(windows) == 0 {
		return s
	}
	levels := windows[0].Forecast.Levels
	var actual, mean, peaks []float64
	quantiles, tops := make([][]float64, len(levels)), make([][]float64, len(levels))
	for _, w := range windows {
		actual = append(actual, w.Actual...)
		mean = append(mean, w.Forecast.Mean...)
		peaks = append(peaks, peak(w.Actual))
		for i := range levels {
			quantiles[i] = append(quantiles[i], w.Forecast.Quantiles[i]...)
			tops[i] = append(tops[i], w.Forecast.PeakQuantiles[i])
		}
	}
	s.SMAPE = score.SMAPE(actual, mean)
	s.MASE = score.MASE(actual, mean, series.Values[:windows[0].Origin+1], period)
	s.WQL = score.WQL(actual, quantiles, levels)
	for i, q := range levels {
		s.Pinball = append(s.Pinball, score.Pinball(actual, quantiles[i], q))
		s.Coverage = append(s.Coverage, score.Coverage(actual, quantiles[i]))
		s.PeakUnder = append(s.PeakUnder, score.PeakUnderRatio(peaks, tops[i]))
	}
	return s
}

// peak is the largest of xs that is not a gap, NaN if none.
func peak(xs []float64) float64 {
	p := math.NaN()
	for _, x := range xs {
		if math.IsNaN(p) || x > p {
			p = x
		}
	}
	return p
}
