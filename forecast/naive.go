package forecast

import (
	"math"

	"github.com/mash2-io/mash2/api"
)

// Naive says that things stay as they are: the last value, with the changes
// over the same leads in the past around it. It is the reference of every
// skill, and what is left when nothing better is known.
type Naive struct{}

// Name implements Forecaster.
func (Naive) Name() string { return NaiveName }

// Update implements Forecaster. There is nothing to learn.
func (Naive) Update(s State, series api.Series, horizon int) (State, error) {
	if err := Check(s, series, horizon, nil); err != nil {
		return s, err
	}
	if !s.Due(series, horizon) {
		return s, nil
	}
	next := s.fitted(series, horizon)
	next.Model = NaiveName
	return next, nil
}

// Forecast implements Forecaster.
func (Naive) Forecast(s State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	if err := Check(s, series, horizon, levels); err != nil {
		return api.Forecast{}, err
	}
	return predict(NaiveName, lastValue{series.Values}, series.Values, State{kept: s.kept}, series, horizon, levels), nil
}

// lastValue is the naive predictor.
type lastValue struct{ y []float64 }

func (p lastValue) point(o int, dst []float64) {
	v := math.NaN()
	for i := o; i >= 0; i-- {
		if !math.IsNaN(p.y[i]) {
			v = p.y[i]
			break
		}
	}
	if math.IsNaN(v) { // nothing before o
		v = 0
	}
	for h := range dst {
		dst[h] = v
	}
}

func (p lastValue) steady() int { return math.MaxInt }

func (p lastValue) levelled() {}

// maxAnalogues bounds the residual paths behind one forecast: enough for a 0.98
// quantile, few enough to sort them at every step.
const maxAnalogues = 50

func (p lastValue) analogues(o, horizon int) []analogue {
	return spacedOrigins(p.y, o, horizon)
}

// spacedOrigins lists up to maxAnalogues past origins at equal distances, at
// samples that are not gaps, of equal weight. Origins whose path is complete
// come first; when the history is too short for that, all there are.
func spacedOrigins(y []float64, o, horizon int) []analogue {
	last := o - horizon
	if last < maxAnalogues/4 {
		last = o - 1
	}
	stride := max(1, (last+maxAnalogues)/maxAnalogues)
	out := make([]analogue, 0, maxAnalogues)
	for i := last; i >= 0; i -= stride {
		if !math.IsNaN(y[i]) {
			out = append(out, analogue{i, 1})
		}
	}
	return out
}
