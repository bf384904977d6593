// Package score has the measures by which forecasts are judged, as their literature defines
// them.
package score

import "math"

// Gaps (NaN) in actual are left out of every score; a score without any pair
// left is NaN. A forecast that is NaN where there is an actual covers nothing, and makes
// every other score NaN: what isn't forecast must not look better for it. The slices of one
// call have equal lengths.

// Pinball is the mean quantile loss of forecasts at level q: q(y−f) where the
// actual y is above the forecast f, (1−q)(f−y) where it is below.
func Pinball(actual, forecast []float64, q float64) float64 {
	return meanOver(actual, forecast, func(y, f float64) float64 {
		return max(q*(y-f), (q-1)*(y-f))
	})
}

// SMAPE is the symmetric mean absolute percentage error as the M4 competition
// defines it, 0–200: the mean of 200·|y−f|/(|y|+|f|), where 0/0 is 0.
func SMAPE(actual, forecast []float64) float64 {
	return meanOver(actual, forecast, func(y, f float64) float64 {
		if y == f {
			return 0
		}
		return 200 * math.Abs(y-f) / (math.Abs(y) + math.Abs(f))
	})
}

// MASE is the mean absolute error relative to that of the seasonal last value
// inside history: mean|y_t − y_{t−period}| (Hyndman & Koehler 2006). Period is
// in samples, 1 for the plain last value. NaN when history has no such pair, or
// when it repeats itself exactly.
func MASE(actual, forecast, history []float64, period int) float64 {
	if period < 1 || period >= len(history) {
		return math.NaN()
	}
	var now, before []float64
	for i, y := range history[period:] {
		if !math.IsNaN(history[i]) {
			now, before = append(now, y), append(before, history[i])
		}
	}
	scale := meanOver(now, before, absolute)
	if scale == 0 {
		return math.NaN()
	}
	return meanOver(actual, forecast, absolute) / scale
}

// Coverage is the share of actuals at or below the forecast quantile, 0–1; for
// a calibrated forecast it is the quantile's level.
func Coverage(actual, forecast []float64) float64 {
	return meanOver(actual, forecast, func(y, f float64) float64 {
		if y <= f {
			return 1
		}
		return 0
	})
}

// PeakUnderRatio is the share of windows whose actual peak is above the peak
// that was forecast, 0–1: peaks and forecasts are one per window.
func PeakUnderRatio(peaks, forecasts []float64) float64 {
	return 1 - Coverage(peaks, forecasts)
}

// WQL is the weighted quantile loss: twice the sum of pinball losses over
// levels and steps, by the sum of |actual|, averaged over levels. Quantiles
// have one row per level. NaN when the actuals are all zero.
func WQL(actual []float64, quantiles [][]float64, levels []float64) float64 {
	loss, total, n := 0.0, 0.0, 0
	for _, y := range actual {
		if !math.IsNaN(y) {
			total += math.Abs(y)
			n++
		}
	}
	if n == 0 || total == 0 || len(levels) == 0 {
		return math.NaN()
	}
	for i, q := range levels {
		loss += 2 * Pinball(actual, quantiles[i], q) * float64(n) / total
	}
	return loss / float64(len(levels))
}

func absolute(y, f float64) float64 { return math.Abs(y - f) }

func meanOver(actual, forecast []float64, loss func(y, f float64) float64) float64 {
	sum, n := 0.0, 0
	for i := range min(len(actual), len(forecast)) {
		if math.IsNaN(actual[i]) {
			continue
		}
		sum += loss(actual[i], forecast[i])
		n++
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}
