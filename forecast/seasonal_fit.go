package forecast

import (
	"math"

	"github.com/mash2-io/mash2/forecast/season"
)

// fitOrigins is how many past origins parameters are fitted on. It is prime, so
// that origins spread evenly over a few cycles do not fall on few phases.
const fitOrigins = 53

// trainingOrigins spreads origins over the newest cycles of y, none before
// first; paths near the end are cut short when the history is.
func trainingOrigins(n int, first, period float64, horizon int) []int {
	hi := n - 1 - horizon
	lo := int(math.Ceil(first))
	if hi-lo < int(period/2) {
		hi = n - 2
	}
	lo = max(lo, hi-int(6*period))
	if hi < lo {
		return nil
	}
	count := min(fitOrigins, hi-lo+1)
	out := make([]int, count)
	for i := range out {
		out[i] = lo + int(float64(hi-lo)*float64(i+1)/float64(count))
	}
	return out
}

// choosePeriod returns the period to forecast by: the one with the least error
// at past origins, or a fraction of it that does as well. A super-period has to
// earn its place; a multiple that only repeats the period does not. Before is the
// one of seasons that was chosen before, 0 without: another must be better by more
// than luck.
func choosePeriod(y []float64, seasons []season.Season, before float64, horizon int) (float64, bool) {
	const (
		tolerance   = 0.05 // of error, relative
		maxMultiple = 6    // any two periods are multiples if this is large
	)
	if len(seasons) == 0 {
		return 0, false
	}
	longest := seasons[len(seasons)-1].Period
	origins := trainingOrigins(len(y), longest, longest, horizon)
	p := newSeasonalPredictor(y, SeasonalFit{})
	errs := make([]float64, len(seasons))
	best := -1
	for i, s := range seasons {
		fit := SeasonalFit{Period: s.Period, Cycles: 5, Level: LevelShifted, Recent: 1}
		fit.Gain = fitGain(p.with(fit), origins, horizon)
		errs[i] = pathError(p.with(fit), y, origins, horizon)
		if s.Period == before {
			errs[i] *= 1 - margin
		}
		if !math.IsNaN(errs[i]) && (best < 0 || errs[i] < errs[best]) {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	for i, s := range seasons[:best] {
		ratio := seasons[best].Period / s.Period
		whole := math.Round(ratio)
		if whole <= maxMultiple && math.Abs(ratio-whole) < season.Distinct*whole/2 && errs[i] <= errs[best]*(1+tolerance) {
			return s.Period, true
		}
	}
	return seasons[best].Period, true
}

// listSeasons reports the period in use and the shorter ones inside it that
// carry at least two thirds of its strength.
func listSeasons(seasons []season.Season, period float64) []season.Season {
	var out []season.Season
	strength := 0.0
	for _, s := range seasons {
		if s.Period == period {
			strength = s.Strength
		}
	}
	for _, s := range seasons {
		if s.Period == period || s.Period <= period/2 && s.Strength >= strength*2/3*0.9 {
			out = append(out, s)
		}
	}
	return out
}

// pathError is the mean absolute error of the point paths from origins, NaN
// when there is nothing to compare with.
func pathError(p predictor, y []float64, origins []int, horizon int) float64 {
	path := make([]float64, horizon)
	sum, n := 0.0, 0
	for _, o := range origins {
		p.point(o, path)
		for h, v := range path[:min(horizon, len(y)-1-o)] {
			if e := math.Abs(y[o+1+h] - v); !math.IsNaN(e) {
				sum += e
				n++
			}
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}

// fitSeasonal chooses the parameters for a period by the error at past origins
// of y.
func fitSeasonal(y []float64, period float64, horizon int) SeasonalFit {
	origins := trainingOrigins(len(y), period, period, horizon)
	p := newSeasonalPredictor(y, SeasonalFit{})
	best, bestErr := SeasonalFit{Period: period, Cycles: 5, Level: LevelShifted}, math.Inf(1)
	// The first of these follows a shift of level within a season and averages
	// noise out; to be given up for another it must be clearly worse.
	for _, cycles := range []int{5, 1} {
		for _, level := range []LevelMode{LevelShifted, LevelRescaled, LevelAsWas} {
			fit := SeasonalFit{Period: period, Cycles: cycles, Level: level}
			if e := pathError(p.with(fit), y, origins, horizon); e < bestErr*(1-margin) {
				best, bestErr = fit, e
			}
		}
	}
	plain := best
	for _, recent := range []int{1, max(2, min(16, int(math.Round(period/16))))} {
		fit := plain
		fit.Recent = recent
		fit.Gain = fitGain(p.with(fit), origins, horizon)
		if e := pathError(p.with(fit), y, origins, horizon); e < bestErr {
			best, bestErr = fit, e
		}
	}
	return best
}

// fitGain regresses, per lead, what the path missed on the deviation seen at
// the origin, and smooths over neighbouring leads. Gains are in 0–1. P is for
// this call: its own gain is set to nothing.
func fitGain(p *seasonalPredictor, origins []int, horizon int) []float64 {
	y := p.y
	p.fit.Gain = []float64{0}
	path := make([]float64, horizon)
	xy, xx := make([]float64, horizon), make([]float64, horizon)
	energy := 0.0
	for _, o := range origins {
		p.point(o, path)
		d := p.deviation(o)
		energy += d * d
		for h, v := range path[:min(horizon, len(y)-1-o)] {
			if e := y[o+1+h] - v; !math.IsNaN(e) {
				xy[h] += d * e
				xx[h] += d * d
			}
		}
	}
	// A ridge worth two average origins: few origins teach little.
	ridge := 2 * energy / float64(max(1, len(origins)))
	gain := make([]float64, horizon)
	for h := range gain {
		sxy, sxx := 0.0, 0.0
		reach := h / 4
		for j := h - reach; j <= min(horizon-1, h+reach); j++ {
			sxy += xy[j]
			sxx += xx[j]
		}
		if w := sxx + ridge*float64(2*reach+1); w > 0 {
			gain[h] = max(0, min(1, sxy/w))
		}
	}
	return gain
}

// median reorders xs; the mean of the middle two when their number is even, NaN
// for none. It is for a handful of values.
func median(xs []float64) float64 {
	for i := 1; i < len(xs); i++ {
		for j := i; j > 0 && xs[j] < xs[j-1]; j-- {
			xs[j], xs[j-1] = xs[j-1], xs[j]
		}
	}
	n := len(xs)
	switch {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return xs[n/2]
	}
	return (xs[n/2-1] + xs[n/2]) / 2
}

// SeasonOf is the period, in whole samples, that a forecast of values would
// repeat; 1 when there is none. It is the scale of MASE.
func SeasonOf(values []float64, horizon int) int {
	if p, ok := choosePeriod(values, season.Find(values), 0, horizon); ok {
		return max(1, int(math.Round(p)))
	}
	return 1
}
