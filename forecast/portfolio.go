package forecast

import (
	"math"
	"slices"

	"github.com/mash2-io/mash2/forecast/season"
)

// recipe is a model of the portfolio: how to learn its parameters from a
// history, and how to forecast by them from any sample of it. Between refits
// parameters stand still while the model's state follows the series.
type recipe interface {
	name() string
	// learn returns parameters from all of h; nil when h is not for this model.
	// Whoever asks for parameters of the past hands in the past only.
	learn(h history, horizon int) []float64
	// predictor over h with parameters of it or of an earlier part.
	predictor(h history, horizon int, params []float64) predictor
}

// recipes of the portfolio, in the order in which ties are broken.
func recipes() []recipe {
	return []recipe{
		ets{}, theta{}, mstl{}, logged{mstl{}}, arima{}, logged{arima{}}, arima{week: true}, logged{arima{week: true}}, harmonic{}, logged{harmonic{}},
		prophet{}, boosted{}, card{}, logged{card{}}, analogs{}, recurrent{},
	}
}

// history is a series as the models of the portfolio read it.
type history struct {
	raw  []float64 // NaN at gaps
	y    []float64 // gaps filled from the past
	ends extremes  // of y
	// periods are whole seasons, shortest first, each with two full cycles.
	periods []int
	// shift is how many samples lie between the first one that parameters were
	// learnt from and the first one here: phases count from the former.
	shift int
	// from is the sample that models which forget may begin with, where forecasts
	// of the end are wanted only.
	from int
	// logs are shared by all parts of a history.
	logs *history
	// resumed is set where only the end of a history is there.
	resumed
}

// newHistory reads a series whose seasons were found.
func newHistory(raw []float64, seasons []season.Season) history {
	var h history
	for _, s := range seasons {
		m := math.Round(s.Period)
		cycles := float64(len(raw)) / s.Period
		// Models of whole seasons are for seasons that are whole: over the
		// history the error must not amount to much of a season.
		if m >= 2 && cycles >= 2 && 2*int(m) <= len(raw) && math.Abs(s.Period-m)*cycles <= max(1, m/16) {
			h.periods = append(h.periods, int(m))
		}
	}
	h.periods = nested(raw, h.periods)
	return h.filled(raw)
}

// filled is h over raw: gaps are filled with what was a season before, or just
// before.
func (h history) filled(raw []float64) history {
	h = h.withoutGaps(raw)
	h.ends = extremesOf(h.y, 0)
	return h
}

// withoutGaps is filled without extremes.
func (h history) withoutGaps(raw []float64) history {
	h.raw, h.logs, h.y = raw, new(history), raw
	gap := slices.IndexFunc(raw, math.IsNaN)
	if gap < 0 {
		return h
	}
	h.y = slices.Clone(raw)
	back := h.season()
	last := firstKnown(raw)
	if gap > 0 {
		last = raw[gap-1]
	}
	for t, v := range h.y[gap:] {
		if t += gap; math.IsNaN(v) {
			v = last
			if t >= back && back > 1 {
				v = h.y[t-back]
			}
		}
		h.y[t], last = v, v
	}
	return h
}

// extremes are the least and the largest of values so far, from sample first on.
type extremes struct {
	first  int
	lo, hi []float64
	logs   bool // of the values' logarithms, whose order is theirs
}

func extremesOf(y []float64, first int) extremes {
	block := make([]float64, 2*(len(y)-first))
	e := extremes{first: first, lo: block[: len(y)-first : len(y)-first], hi: block[len(y)-first:]}
	if len(y) == 0 {
		return e
	}
	lo, hi := y[0], y[0]
	for _, v := range y[:first] {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	for t, v := range y[first:] {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
		e.lo[t], e.hi[t] = lo, hi
	}
	return e
}

func (e extremes) at(o int) (lo, hi float64) {
	lo, hi = e.lo[o-e.first], e.hi[o-e.first]
	if e.logs {
		lo, hi = logOf(lo), logOf(hi)
	}
	return lo, hi
}

// nested keeps the strongest plain reading of periods: a short one and, of the
// longer ones, a whole multiple of it whose values differ less from one cycle to
// the next than those of any other multiple. Seven short ones are looked at even
// if they were not found: a week of days that are mostly alike is hard to see.
func nested(raw []float64, periods []int) []int {
	// better is how much less the difference over the longer one must be.
	const better, mostMultiple = 0.95, 14
	if len(periods) == 0 {
		return nil
	}
	differ := func(lag int) float64 {
		sum, n := 0.0, 0
		for t := lag; t < len(raw); t++ {
			if e := math.Abs(raw[t] - raw[t-lag]); !math.IsNaN(e) {
				sum += e
				n++
			}
		}
		if n < len(raw)/4 || n == 0 {
			return math.Inf(1)
		}
		return sum / float64(n)
	}
	// The base: what repeats itself best; of much alike ones the shortest.
	base, least := 0, math.Inf(1)
	for _, m := range periods {
		if d := differ(m); d < least*0.8 {
			base, least = m, d
		}
	}
	if base == 0 {
		return periods[:1]
	}
	for _, m := range periods { // the base may be a week whose day was found too
		if base > m && base%m == 0 && base/m <= mostMultiple {
			base = m
			break
		}
	}
	long, least := 0, math.Inf(1)
	candidates := append([]int{7 * base}, periods...)
	for _, m := range candidates {
		if m > base && m%base == 0 && m/base <= mostMultiple && 3*m <= len(raw) {
			if d := differ(m); d < least {
				long, least = m, d
			}
		}
	}
	for k := 1; long > 0 && k*base < long; k++ {
		if least > better*differ(k*base) {
			long = 0
		}
	}
	if long == 0 {
		return []int{base}
	}
	return []int{base, long}
}

// firstKnown is what stands in for gaps before anything was seen.
func firstKnown(raw []float64) float64 {
	for _, v := range raw {
		if !math.IsNaN(v) {
			return v
		}
	}
	return 0
}

// until is the history as it was known after n samples.
func (h history) until(n int) history {
	h.raw, h.y = h.raw[:n:n], h.y[:n:n]
	var periods []int
	for _, m := range h.periods {
		if 2*m <= n {
			periods = append(periods, m)
		}
	}
	h.periods = periods
	return h
}

// season is the shortest period, 1 without one; long the longest one.
func (h history) season() int {
	if len(h.periods) == 0 {
		return 1
	}
	return h.periods[0]
}

func (h history) long() int {
	if len(h.periods) == 0 {
		return 1
	}
	return h.periods[len(h.periods)-1]
}

// scale is the mean size of values, 1 when they are all zero: parameters are
// learnt on values divided by it.
func scale(y []float64) float64 {
	sum := 0.0
	for _, v := range y {
		sum += math.Abs(v) / float64(len(y))
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return 1
	}
	return sum
}

// plainAnalogues makes the origins of residuals those of the naive model.
type plainAnalogues struct{ raw []float64 }

func (p plainAnalogues) analogues(o, horizon int) []analogue {
	return spacedOrigins(p.raw, o, horizon)
}
func (plainAnalogues) steady() int { return 1 }

// bounded keeps a path made at o within what the history makes believable: a
// model that runs away must not take others along.
func (h history) bounded(o int, path []float64) {
	lo, hi := h.ends.at(o)
	reach := hi - lo
	lo, hi = max(0, lo-reach), hi+reach
	for i, v := range path {
		if math.IsNaN(v) {
			v = h.at(o)
		}
		path[i] = min(hi, max(lo, v))
	}
}

// search minimises f over a box by pattern search (Kolda, Lewis and Torczon 2003),
// deterministic, with a budget of evaluations.
func search(x, lo, hi []float64, evaluations int, f func([]float64) float64) []float64 {
	best := f(x)
	step := 0.25
	x = append([]float64(nil), x...)
	try := append([]float64(nil), x...)
	for n := 0; n < evaluations && step > 0.01; {
		improved := false
		for i := range x {
			for _, sign := range [2]float64{1, -1} {
				copy(try, x)
				try[i] = min(hi[i], max(lo[i], x[i]+sign*step*(hi[i]-lo[i])))
				if try[i] == x[i] {
					continue
				}
				n++
				if v := f(try); v < best {
					best, improved = v, true
					copy(x, try)
					break
				}
			}
		}
		if !improved {
			step /= 2
		}
	}
	return x
}

// ridge solves (A + diag(penalty)) x = b in place for symmetric positive A by
// Cholesky's decomposition; nil when A is not positive enough.
func ridge(a [][]float64, b, penalty []float64) []float64 {
	n := len(b)
	for i := range n {
		a[i][i] += penalty[i]
	}
	for j := range n {
		for k := range j {
			a[j][j] -= a[j][k] * a[j][k]
		}
		if !(a[j][j] > 1e-300) {
			return nil
		}
		a[j][j] = math.Sqrt(a[j][j])
		for i := j + 1; i < n; i++ {
			for k := range j {
				a[i][j] -= a[i][k] * a[j][k]
			}
			a[i][j] /= a[j][j]
		}
	}
	x := append([]float64(nil), b...)
	for i := range n {
		for k := range i {
			x[i] -= a[i][k] * x[k]
		}
		x[i] /= a[i][i]
	}
	for i := n - 1; i >= 0; i-- {
		for k := i + 1; k < n; k++ {
			x[i] -= a[k][i] * x[k]
		}
		x[i] /= a[i][i]
	}
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	}
	return x
}

// normal sums up a regression: Σ w·x·xᵀ and Σ w·x·y.
type normal struct {
	a [][]float64
	b []float64
	n float64
}

func newNormal(p int) *normal {
	r := &normal{a: make([][]float64, p), b: make([]float64, p)}
	for i := range r.a {
		r.a[i] = make([]float64, p)
	}
	return r
}

func (r *normal) add(x []float64, y, w float64) {
	for i, xi := range x {
		if xi == 0 {
			continue
		}
		row := r.a[i]
		wx := w * xi
		for j := 0; j <= i; j++ {
			row[j] += wx * x[j]
		}
		r.b[i] += wx * y
	}
	r.n += w
}
