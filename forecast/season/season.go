// Package season finds the periods that a series may repeat itself after.
package season

import (
	"cmp"
	"math"
	"slices"
)

// Season is a period found in a series.
type Season struct {
	// Period in samples; it need not be whole.
	Period float64 `json:"period"`
	// Strength is the autocorrelation of the series' changes one period apart,
	// at the resolution that shows it best, 0–1.
	Strength float64 `json:"strength"`
}

// The search for seasons. A period is looked for at the resolution where it is
// between minLag and maxLag bins long; octaves overlap, so that smooth seasons
// are seen in coarse bins, where noise averages out, and steep ones in fine
// bins.
const (
	minLag = 4
	maxLag = 64
	// significance is the least z-score of an autocorrelation. About 60 lags at
	// log2(n) resolutions are tried, so a usual 3 would be passed by chance;
	// TestNoSeasonInNoise holds the rate of false positives.
	significance = 4
	// Distinct is how far apart two periods must be to be told apart, relative.
	Distinct = 0.06
	// maxSeasons bounds what is handed on for the closer look.
	maxSeasons = 6
)

// Find lists the periods, in samples, that a series may have, shortest
// first. Gaps are NaN. A period needs two full cycles; multiples of a period
// are listed only when they are stronger than it.
//
// The test is made on changes of bin means, not on the values: where a series
// wanders (a random walk, any slow trend), its values are autocorrelated at
// every lag while its changes are not. An autocorrelation r of m pairs is
// significant by Fisher's z = atanh(r)·√(m−3), with m reduced by Bartlett's
// formula for the changes' own short memory, and by their kurtosis, because a
// few large changes are few observations. A season so found is a candidate: it
// is for a backtest to say whether it helps.
func Find(values []float64) []Season {
	b := pyramid{values: [][]float64{values}}
	var found []Season
	scale := 1.0
	for level := 0; len(b.level(level)) >= 2*minLag; level++ {
		for _, width := range []int{1, 2} {
			for _, s := range seasonsAt(b.correlator(level, width), width, len(b.level(level))/2) {
				found = append(found, Season{s.Period * scale, s.Strength})
			}
		}
		scale *= 2
	}
	found = mergeSeasons(found)
	for i, s := range found {
		found[i].Period = b.refine(s.Period)
	}
	return snapped(mergeSeasons(found)) // some were the same after all
}

// snapped takes a period that is nearly a whole part of a stronger, longer one to
// be that part: a week whose days differ shows its day less sharply than itself.
func snapped(found []Season) []Season {
	const nearly, most = 0.01, 14
	for i, s := range found {
		for _, l := range found[i+1:] {
			ratio := l.Period / s.Period
			whole := math.Round(ratio)
			if l.Strength > s.Strength && whole >= 2 && whole <= most && math.Abs(ratio-whole) < nearly*whole {
				found[i].Period = l.Period / whole
			}
		}
	}
	return found
}

// pyramid is a series in ever larger bins, each twice the one before, with
// their prefix sums and correlators; made as they are asked for.
type pyramid struct {
	values      [][]float64
	sums        []Means
	correlators map[[2]int]correlator
}

// correlator of the steps of a level through a box of width.
func (b *pyramid) correlator(level, width int) correlator {
	key := [2]int{level, width}
	c, ok := b.correlators[key]
	if !ok {
		if b.correlators == nil {
			b.correlators = map[[2]int]correlator{}
		}
		c = newCorrelator(b.steps(level, width))
		b.correlators[key] = c
	}
	return c
}

func (b *pyramid) level(l int) []float64 {
	for len(b.values) <= l {
		b.values = append(b.values, halve(b.values[len(b.values)-1]))
	}
	return b.values[l]
}

// halve averages pairs of bins, leaving out gaps.
func halve(bins []float64) []float64 {
	out := make([]float64, len(bins)/2)
	for i := range out {
		a, b := bins[2*i], bins[2*i+1]
		switch {
		case math.IsNaN(a):
			out[i] = b
		case math.IsNaN(b):
			out[i] = a
		default:
			out[i] = (a + b) / 2
		}
	}
	return out
}

// seasonsAt finds the significant local maxima, up to lag longest, of the
// autocorrelation of changes through a box of width.
func seasonsAt(c correlator, width, longest int) []Season {
	if c.effective == 0 {
		return nil
	}
	top := min(maxLag, longest)
	r := make([]float64, top+2)
	pairs := make([]float64, top+2)
	for lag := 1; lag < len(r) && lag < len(c.x); lag++ {
		r[lag], pairs[lag] = c.at(lag)
	}
	// Bartlett: the variance of r at a long lag is Σ ρ² over the changes' own
	// memory, which is shorter than any period looked for.
	memory := 1.0
	for lag := 1; lag < minLag && lag < len(r); lag++ {
		memory += 2 * r[lag] * r[lag]
	}
	cumulative := make([]float64, len(r)+1)
	for lag, v := range r {
		cumulative[lag+1] = cumulative[lag] + v
	}
	var out []Season
	// Below 2·width the boxes overlap and say nothing of the series.
	for lag := max(minLag, 2*width+2); lag <= top; lag++ {
		if r[lag] <= 0 || r[lag] < r[lag-1] || r[lag] < r[lag+1] {
			continue
		}
		// What stands out is what counts: where something slow lifts the
		// autocorrelation at every lag, a ripple on it is no season. Over the
		// half period before its end a season's own averages to nothing.
		half := max((lag+1)/2, 2*width)
		base := max(0, (cumulative[lag]-cumulative[half])/float64(lag-half))
		m := pairs[lag]*c.effective/memory - 3
		if m <= 0 || fisher(r[lag])-fisher(base) < significance/math.Sqrt(m) {
			continue
		}
		out = append(out, Season{float64(lag) + vertex(r[lag-1], r[lag], r[lag+1]), r[lag]})
	}
	return out
}

// fisher is Fisher's z of a correlation.
func fisher(r float64) float64 { return math.Atanh(min(r, 0.999)) }

// correlator computes autocorrelations of a series with gaps, after clipping
// outliers and taking the mean out.
type correlator struct {
	x       []float64 // 0 at gaps
	valid   []float64 // 1, or 0 at gaps; nil without gaps
	squares []float64 // prefix sums of x²
	// effective is the share of observations that count as independent ones of
	// a normal variable: 3(Σx²)²/(nΣx⁴), at most 1; 0 for a constant.
	effective float64
}

// Autocorrelations of values, NaN at gaps, at lags of 1 and more; freak values are
// clipped. It is 0 where there is nothing to tell.
func Autocorrelations(values []float64, lags ...int) []float64 {
	c := newCorrelator(slices.Clone(values))
	out := make([]float64, len(lags))
	for i, lag := range lags {
		out[i], _ = c.at(lag)
	}
	return out
}

// newCorrelator takes raw over.
func newCorrelator(raw []float64) correlator {
	c := correlator{x: raw, squares: make([]float64, len(raw)+1)}
	sum, n := 0.0, 0.0
	for i, v := range raw {
		if math.IsNaN(v) {
			if c.valid == nil {
				c.valid = slices.Repeat([]float64{1}, len(raw))
			}
			c.x[i], c.valid[i] = 0, 0
			continue
		}
		sum += v
		n++
	}
	if n == 0 {
		return c
	}
	mean := sum / n
	for i := range c.x {
		if c.valid == nil || c.valid[i] > 0 {
			c.x[i] -= mean
		}
	}
	// One freak value must not hide a season: clip at 4 standard deviations,
	// twice, the first time those of the freak itself.
	var s2, s4 float64
	for range 3 {
		limit := math.Inf(1)
		if s2 > 0 {
			limit = 4 * math.Sqrt(s2/n)
		}
		s2, s4 = 0, 0
		for i, v := range c.x {
			v = min(limit, max(-limit, v))
			c.x[i] = v
			s2 += v * v
			s4 += v * v * v * v
		}
	}
	if s4 > 0 {
		c.effective = min(1, 3*s2*s2/(n*s4))
	}
	for i, v := range c.x {
		c.squares[i+1] = c.squares[i] + v*v
	}
	return c
}

// at returns the autocorrelation at a lag and the number of pairs behind it.
func (c correlator) at(lag int) (r, pairs float64) {
	n := len(c.x) - lag
	if n < 1 {
		return 0, 0
	}
	a, b := c.x[:n], c.x[lag:]
	var ab, aa, bb float64
	if c.valid == nil {
		ab = dot(a, b)
		aa, bb, pairs = c.squares[n], c.squares[len(c.x)]-c.squares[lag], float64(n)
	} else {
		va, vb := c.valid[:n], c.valid[lag:]
		ab = dot(a, b) // 0 at gaps
		for i, v := range a {
			w := b[i]
			aa += v * v * vb[i]
			bb += w * w * va[i]
			pairs += va[i] * vb[i]
		}
	}
	if aa <= 0 || bb <= 0 {
		return 0, 0
	}
	return ab / math.Sqrt(aa*bb), pairs
}

// dot is Σ a·b of vectors of one length, in four sums that don't wait for each
// other.
func dot(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}

// vertex is the offset, in −0.5…0.5, of the top of the parabola through three
// equidistant points whose middle is the highest.
func vertex(left, mid, right float64) float64 {
	d := left - 2*mid + right
	if d >= 0 {
		return 0
	}
	return max(-0.5, min(0.5, (left-right)/(2*d)))
}

// mergeSeasons joins what several resolutions found of one period, drops
// multiples that are no stronger than what they are multiples of, and keeps
// the strongest few, shortest first.
func mergeSeasons(found []Season) []Season {
	slices.SortStableFunc(found, func(a, b Season) int { return cmp.Compare(a.Period, b.Period) })
	var merged []Season
	for _, s := range found {
		if n := len(merged); n > 0 && s.Period <= merged[n-1].Period*(1+Distinct) {
			if s.Strength > merged[n-1].Strength {
				merged[n-1] = s
			}
			continue
		}
		merged = append(merged, s)
	}
	var kept []Season
next:
	for _, s := range merged {
		for _, k := range kept {
			ratio := s.Period / k.Period
			whole := math.Round(ratio)
			// The error of a period found at a lag of minLag bins or more.
			if whole >= 2 && math.Abs(ratio-whole) < Distinct*whole && s.Strength <= k.Strength+0.05 {
				continue next
			}
		}
		kept = append(kept, s)
	}
	slices.SortStableFunc(kept, func(a, b Season) int { return cmp.Compare(b.Strength, a.Strength) })
	kept = kept[:min(len(kept), maxSeasons)]
	slices.SortStableFunc(kept, func(a, b Season) int { return cmp.Compare(a.Period, b.Period) })
	return kept
}

// refine sharpens a period in two ways. Changes seen through an ever
// smaller box, and in ever smaller bins, have an ever sharper maximum, which is
// followed as far as it stands as high as that of the smooth changes. And a
// maximum near k periods, found to a fraction of a bin, fixes one period k times
// better.
func (b *pyramid) refine(period float64) float64 {
	// keep is the least height of a sharper maximum, relative.
	const keep = 0.8
	level := 0
	for period/float64(int(1)<<level) >= 2*maxLag {
		level++
	}
	p := period / float64(int(1)<<level)
	width := max(1, int(math.Round(p/8)))
	best := b.correlator(level, width)
	p, base := best.peakNear(p, max(1, int(p*Distinct)), width)
	if base == 0 {
		return period
	}
	for w, l, at, reach := width, level, p, width; w > 1 || l > 0; {
		if w > 1 {
			w /= 2
		} else {
			l--
			at, reach = 2*at, 2*reach
		}
		c := b.correlator(l, w)
		if sharper, r := c.peakNear(at, reach, w); r >= keep*base {
			best, width, level, p = c, w, l, sharper
			at, reach = sharper, w
		}
	}
	for k := 2.0; k*p <= 0.7*float64(len(best.x)); k *= 2 {
		peak, r := best.peakNear(k*p, width, width)
		if r < base/2 {
			break
		}
		p = peak / k
	}
	return p * float64(int(1)<<level)
}

// peakNear finds the largest autocorrelation within reach of a lag, and its
// lag to a fraction by the parabola through points width apart. R is 0 when
// none is positive.
func (c correlator) peakNear(lag float64, reach, width int) (at, r float64) {
	centre, best := int(math.Round(lag)), 0
	for l := max(1, centre-reach); l <= centre+reach; l++ {
		if v, _ := c.at(l); v > r {
			best, r = l, v
		}
	}
	if best <= width {
		return lag, 0
	}
	left, _ := c.at(best - width)
	right, _ := c.at(best + width)
	return float64(best) + float64(width)*vertex(left, r, right), r
}

// steps is, per sample of a level, the mean of the last width values minus that of the
// width before them: a change seen through a box. A gap in either makes a gap
// unless half of the values are there.
func (b *pyramid) steps(level, width int) []float64 {
	values := b.level(level)
	for len(b.sums) <= level {
		b.sums = append(b.sums, NewMeans(b.level(len(b.sums)), 1))
	}
	sums := b.sums[level]
	out := make([]float64, max(0, len(values)-2*width+1))
	for i := range out {
		mid := i + width
		before, n := sums.Of(i, mid)
		after, m := sums.Of(mid, mid+width)
		if 2*n < width || 2*m < width {
			out[i] = math.NaN()
			continue
		}
		out[i] = after - before
	}
	return out
}
