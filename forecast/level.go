package forecast

import (
	"math"

	"github.com/mash2-io/mash2/api"
)

// Level is simple exponential smoothing (Brown 1956): a level that follows the
// series, for noise around something slow. The smoothing factor is the one of
// a short list with the least absolute error at past origins.
type Level struct{}

// Name implements Forecaster.
func (Level) Name() string { return LevelName }

// Update implements Forecaster.
func (Level) Update(s State, series api.Series, horizon int) (State, error) {
	if err := Check(s, series, horizon, nil); err != nil {
		return s, err
	}
	if !s.Due(series, horizon) {
		return s, nil
	}
	next := s.fitted(series, horizon)
	next.Model = LevelName
	next.Alpha = fitAlpha(series.Values, len(series.Values)-1, horizon)
	return next, nil
}

// Forecast implements Forecaster.
func (Level) Forecast(s State, series api.Series, horizon int, levels []float64) (api.Forecast, error) {
	if err := Check(s, series, horizon, levels); err != nil {
		return api.Forecast{}, err
	}
	alpha := 1.0
	if s.usable(series) && s.Alpha > 0 {
		alpha = s.Alpha
	}
	return predict(LevelName, newSmoothedOnce(series.Values, alpha), series.Values, State{}, series, horizon, levels), nil
}

// smoothed is the level predictor: level[o] is known at sample o. Where it is
// asked for at few origins only, as for one forecast, level is nil and what is
// older than memory samples is not read.
type smoothed struct {
	y, level []float64
	alpha    float64
	memory   int
}

// newSmoothed is for many origins.
func newSmoothed(y []float64, alpha float64) smoothed {
	p := smoothed{y: y, alpha: alpha, level: make([]float64, len(y))}
	l := math.NaN()
	for i, v := range y {
		l = p.next(l, v)
		p.level[i] = l
	}
	return p
}

// newSmoothedOnce is for one forecast.
func newSmoothedOnce(y []float64, alpha float64) smoothed {
	p := newSmoothedAt(y, alpha)
	if (maxAnalogues+1)*p.memory > len(y) {
		return newSmoothed(y, alpha)
	}
	return p
}

// newSmoothedAt is for a few origins.
func newSmoothedAt(y []float64, alpha float64) smoothed {
	return smoothed{y: y, alpha: alpha, memory: memoryOf(alpha, 1e-4)}
}

// newSmoothedLast is for the point path at the end of y alone, as good as from all of it.
func newSmoothedLast(y []float64, alpha float64) smoothed {
	memory, known := 0, memoryOf(alpha, 1e-12) // gaps make nothing forgotten
	for i := len(y) - 1; i >= 0 && known > 0; i-- {
		memory++
		if !math.IsNaN(y[i]) {
			known--
		}
	}
	return smoothed{y: y, alpha: alpha, memory: memory}
}

// memoryOf is after how many samples no more than forgotten is left of one's weight.
func memoryOf(alpha, forgotten float64) int {
	if alpha >= 1 {
		return 1
	}
	return int(math.Ceil(math.Log(forgotten) / math.Log1p(-alpha)))
}

func (p smoothed) next(level, v float64) float64 {
	switch {
	case math.IsNaN(v):
		return level
	case math.IsNaN(level):
		return v
	}
	return level + p.alpha*(v-level)
}

func (p smoothed) at(o int) float64 {
	if p.level != nil {
		return p.level[o]
	}
	l := math.NaN()
	for _, v := range p.y[max(0, o+1-p.memory) : o+1] {
		l = p.next(l, v)
	}
	// Gaps for longer than the memory: what was before them.
	for i := o - p.memory; math.IsNaN(l) && i >= 0; i-- {
		l = p.y[i]
	}
	return l
}

func (p smoothed) point(o int, dst []float64) {
	v := p.at(o)
	if math.IsNaN(v) {
		v = 0
	}
	for h := range dst {
		dst[h] = v
	}
}

func (p smoothed) steady() int { return math.MaxInt }

func (p smoothed) levelled() {}

func (p smoothed) analogues(o, horizon int) []analogue { return spacedOrigins(p.y, o, horizon) }

// alphas that are tried, the last value (1) first so that it wins ties.
var alphas = [...]float64{1, 0.5, 0.2, 0.1, 0.05, 0.02}

// fitAlpha chooses the smoothing factor by the mean absolute error at origins
// up to o.
func fitAlpha(y []float64, o, horizon int) float64 {
	best, bestErr := alphas[0], math.Inf(1)
	origins := spacedOrigins(y[:o+1], o, horizon)
	for _, a := range alphas {
		p := newSmoothed(y[:o+1], a)
		sum, n := 0.0, 0
		for _, at := range origins {
			for t := at.origin + 1; t <= min(o, at.origin+horizon); t++ {
				if e := math.Abs(y[t] - p.level[at.origin]); !math.IsNaN(e) {
					sum += e
					n++
				}
			}
		}
		if n == 0 {
			break
		}
		// A tie within rounding is not an improvement.
		if mae := sum / float64(n); mae < bestErr*(1-1e-9) {
			best, bestErr = a, mae
		}
	}
	return best
}
