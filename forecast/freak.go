package forecast

import (
	"math"
	"time"

	"github.com/mash2-io/mash2/api"
)

// freakish is how many times all else a single sample must be to be no demand. A
// rate over a counter that fell by a little (a scrape of an old value) is the
// whole counter: thousands of times what is usual. A burst of demand lasts
// longer, or comes again.
const freakish = 8

// withoutFreak is series without the one sample, if there is one, that is beyond
// freakish times every other, and which is not among its newest two: those may be
// the beginning of something. What a State knows of a history until its last refit
// spares looking at that part again.
func (s State) withoutFreak(series api.Series) api.Series {
	from, first, second := 0, s.Top, s.Second
	if s.Fits == 0 || s.Step != series.Step || series.Start.After(s.FittedTo) || series.End().Before(s.FittedTo) {
		first, second = 0, 0
	} else {
		from = min(len(series.Values), int(s.FittedTo.Sub(series.Start)/series.Step)+1)
	}
	at := -1
	for i, v := range series.Values[from:] {
		switch {
		case v > first:
			first, second, at = v, first, from+i
		case v > second:
			second = v
		}
	}
	if !(second > 0 && first > freakish*second) {
		return series
	}
	if at < 0 { // it was there at the last refit
		for i, v := range series.Values[:from] {
			if v == first {
				at = i
			}
		}
	}
	if at < 0 || at >= len(series.Values)-2 {
		return series
	}
	values := append([]float64(nil), series.Values...)
	values[at] = math.NaN()
	series.Values = values
	return series
}

// durationOf is the time from the first sample to sample i.
func durationOf(i int, series api.Series) time.Duration { return time.Duration(i) * series.Step }

// highest are the largest two values of y.
func highest(y []float64) (first, second float64) {
	for _, v := range y {
		switch {
		case v > first:
			first, second = v, first
		case v > second:
			second = v
		}
	}
	return first, second
}

// An outage is the one stretch of nothing, outageLeast samples or more, that is
// over and outageTimes as long as every other.
const (
	outageLeast = 16
	outageTimes = 3
)

// withoutOutage is y with an outage, if there was one, made a gap: what came to
// no service was not the absence of demand, and models learnt on how it began and
// ended expect that again. Nights and weekends without traffic come again, and
// are left as they are.
func withoutOutage(y []float64) []float64 {
	var first, second, begin int
	run := 0
	for i, v := range y {
		if v == 0 || run > 0 && math.IsNaN(v) {
			run++
			continue
		}
		switch {
		case run > first:
			first, second, begin = run, first, i-run
		case run > second:
			second = run
		}
		run = 0
	}
	if begin == 0 || first < outageLeast || first < outageTimes*max(second, run) {
		return y
	}
	out := append([]float64(nil), y...)
	for i := range first {
		out[begin+i] = math.NaN()
	}
	return out
}
