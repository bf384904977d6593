package demand

import (
	"math"
	"slices"
)

// tails are the shares of the largest maxima that a tail is told by: a quarter of them
// knows how much a quantity varies, the largest few whether it has rare peaks.
var tails = []float64{0.25, 0.1, 0.05}

const (
	// leastMaxima is the number of maxima that tell of a tail.
	leastMaxima = 16
	// leastDays is the number of days that do.
	leastDays = 5
)

// ReturnLevel is what a quantity exceeds in the next day with probability p, told by its
// maxima in equal parts of the past, the oldest first, of which perDay are a day or a
// little more. It is 0 where there are too few.
//
// A tail is what goes beyond a threshold, with excesses taken as exponential: the
// generalised Pareto distribution of shape 0 (Coles, An Introduction to Statistical
// Modeling of Extreme Values, 2001, section 4.3.3),
//
//	level = u + σ·ln(ζ·m/p)
//
// with σ the mean excess over the threshold u, ζ the share of maxima above it and m their
// number in a day. Thresholds differ in how rare a peak they see: the largest level counts.
// Where all days have the same peak the maxima in them vary a lot, and days don't: then
// their tail counts instead, if it is lower.
func ReturnLevel(maxima []float64, perDay int, p float64) (level float64) {
	n := len(maxima)
	if n < leastMaxima {
		return 0
	}
	for _, share := range tails {
		level = math.Max(level, tailOf(maxima, max(2, int(math.Round(share*float64(n)))), float64(perDay), p))
	}
	// Days overlap by a part, so that a peak at the same hour of each is in each.
	var days []float64
	for end := n; end >= perDay; end -= max(1, perDay-1) {
		days = append(days, slices.Max(maxima[end-perDay:end]))
	}
	if len(days) >= leastDays {
		level = math.Max(math.Min(level, tailOf(days, len(days)-1, 1, p)), slices.Max(maxima))
	}
	return level
}

// tailOf is the level by the k largest of some maxima, of which m are a day.
func tailOf(maxima []float64, k int, m, p float64) float64 {
	n := len(maxima)
	sorted := slices.Sorted(slices.Values(maxima))
	threshold, excess := sorted[n-k-1], 0.0
	for _, v := range sorted[n-k:] {
		excess += (v - threshold) / float64(k)
	}
	return threshold + excess*math.Log(float64(k)/float64(n)*m/p)
}
