package api

import (
	"math"
	"slices"
	"time"
)

// Series is a regularly sampled history, oldest first. Sample i belongs to
// Start + i·Step. A gap is NaN, never zero: absence of data is not absence of
// demand.
type Series struct {
	Start  time.Time     `json:"start"`
	Step   time.Duration `json:"step"`
	Values []float64     `json:"-"`
	// Censored are the stretches, oldest first, in which samples are lower
	// bounds: usage at a CPU limit says that demand was no less.
	Censored []Span `json:"censored,omitempty"`
	// Past is what is known of before Start at a coarser step, each sample the mean
	// over the Step that begins at its time; it may reach a little beyond Start.
	// Nil when nothing is, or not yet.
	Past *Series `json:"-"`
}

// Span is a stretch of time, both ends included.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Bound tells whether the sample at a time is a lower bound only.
func (s Series) Bound(at time.Time) bool {
	for _, c := range slices.Backward(s.Censored) {
		if c.To.Before(at) {
			return false
		}
		if !c.From.After(at) {
			return true
		}
	}
	return false
}

// End is the time of the last sample; the zero time when there is none.
func (s Series) End() time.Time {
	if len(s.Values) == 0 {
		return time.Time{}
	}
	return s.Start.Add(time.Duration(len(s.Values)-1) * s.Step)
}

// Last returns the newest sample that is not a gap and its time.
func (s Series) Last() (v float64, at time.Time, ok bool) {
	for i := len(s.Values) - 1; i >= 0; i-- {
		if !math.IsNaN(s.Values[i]) {
			return s.Values[i], s.Start.Add(time.Duration(i) * s.Step), true
		}
	}
	return 0, time.Time{}, false
}

// Forecast is a predictive distribution of demand, per step and for the peak.
// Demand is in the unit of the series it was made from.
type Forecast struct {
	Model string        `json:"model"`
	Start time.Time     `json:"start"` // time of the first step, one Step after the last sample
	Step  time.Duration `json:"step"`
	// Seasons are the periods the model found, shortest first; none if empty.
	Seasons []time.Duration `json:"seasons,omitempty"`
	Mean    []float64       `json:"-"` // one per step
	// Levels are the quantile levels in (0, 1), increasing.
	Levels []float64 `json:"levels,omitempty"`
	// Quantiles has one row per level, one column per step; rows never cross.
	Quantiles [][]float64 `json:"-"`
	// PeakQuantiles are the quantiles of the maximum over all steps: not the
	// maximum of the step quantiles.
	PeakQuantiles []float64 `json:"peakQuantiles,omitempty"`
	// Skill is 1 − error/error of the reference forecast over recent origins:
	// 1 perfect, 0 no better than the reference, negative worse. NaN until
	// there were enough origins.
	Skill float64 `json:"-"`
	// SeasonalSkill is the same over what was a season before; NaN while that
	// is not known, and without a season.
	SeasonalSkill float64 `json:"-"`
	// Coverage of the 90 % interval by what came; nil until enough of it did.
	Coverage *Coverage `json:"-"`
}

// Coverage is the share of results, 0–1, that came within the 5 % and the 95 % quantile
// of their forecasts, and the standard error of that share.
type Coverage struct {
	Share float64 `json:"share"`
	Error float64 `json:"error"`
}

// TooSeldom reports whether results came within less often than least, by more than two
// standard errors. Of what is not known it is false.
func (c *Coverage) TooSeldom(least float64) bool { return c != nil && c.Share+2*c.Error < least }

// TooOften reports whether they did so more often than most, likewise.
func (c *Coverage) TooOften(most float64) bool { return c != nil && c.Share-2*c.Error > most }

// Quantile returns, per step, the forecast at level q, interpolated linearly
// between levels and held constant outside them. It returns nil for a forecast
// without quantiles.
func (f Forecast) Quantile(q float64) []float64 {
	if len(f.Levels) == 0 || len(f.Quantiles) != len(f.Levels) {
		return nil
	}
	lo, hi, w := bracket(f.Levels, q)
	out := make([]float64, len(f.Quantiles[lo]))
	for i := range out {
		out[i] = f.Quantiles[lo][i]*(1-w) + f.Quantiles[hi][i]*w
	}
	return out
}

// Peak returns the quantile q of the maximum over the horizon, NaN when the
// forecast has none.
func (f Forecast) Peak(q float64) float64 {
	if len(f.Levels) == 0 || len(f.PeakQuantiles) != len(f.Levels) {
		return math.NaN()
	}
	lo, hi, w := bracket(f.Levels, q)
	return f.PeakQuantiles[lo]*(1-w) + f.PeakQuantiles[hi]*w
}

func bracket(levels []float64, q float64) (lo, hi int, w float64) {
	for hi = 0; hi < len(levels) && levels[hi] < q; hi++ {
	}
	switch {
	case hi == 0:
		return 0, 0, 0
	case hi == len(levels):
		return hi - 1, hi - 1, 0
	}
	lo = hi - 1
	return lo, hi, (q - levels[lo]) / (levels[hi] - levels[lo])
}
