package demand

import (
	"math"

	"github.com/mash2-io/mash2/api"
)

// History holds the newest window samples of one workload and hands them out
// without copying. A value that was handed out is never written again: new
// samples go behind the part handed out, older ones (a backfill) before it, and
// a revision of what was handed out first moves the history to new memory.
//
// The buffer is longer than the window by the slack, so that moving the window
// copies it once per slack steps, not at each.
type History struct {
	window, slack int
	base          int64 // step of buf[0]
	buf           []float64
	// Samples are known within [lo, hi); NaN between them is a gap.
	lo, hi int64
	// bounds are the steps, in order, whose samples are lower bounds of demand:
	// first and last of each run.
	bounds [][2]int64
	// Past is what is known of before the window, nil when nothing is.
	Past *api.Series
	// means are the newest means of the pods that were Ready for long, by step.
	means []stepMean
	// What was handed out lies within [pubLo, pubHi).
	pubLo, pubHi int64
}

// NewHistory of the newest window steps; see [History] for the slack, in steps.
func NewHistory(window, slack int) *History {
	return &History{window: window, slack: max(slack, 1)}
}

// Set notes the sample of a step, to seven digits. NaN, infinite and negative values are
// gaps. A step older than the window is ignored.
func (h *History) Set(step int64, v float64) {
	v = measured(v)
	if !Usable(v) {
		return
	}
	if h.hi > h.lo && step <= h.hi-1-int64(h.window) {
		return
	}
	h.reach(step)
	i := step - h.base
	if step >= h.pubLo && step < h.pubHi {
		if sameSample(h.buf[i], v) {
			return
		}
		h.move(h.base)
	}
	h.buf[i] = v
	if h.hi == h.lo {
		h.lo, h.hi = step, step+1
		return
	}
	h.lo, h.hi = min(h.lo, step), max(h.hi, step+1)
}

// Bound notes that the sample of a step is a lower bound of demand. Steps before
// the newest bound are bounds already or never.
func (h *History) Bound(step int64) {
	n := len(h.bounds)
	switch {
	case n == 0 || step > h.bounds[n-1][1]+1:
		h.bounds = append(h.bounds, [2]int64{step, step})
	case step == h.bounds[n-1][1]+1:
		h.bounds[n-1][1] = step
	}
	for len(h.bounds) > 0 && h.bounds[0][1] <= h.hi-1-int64(h.window) {
		h.bounds = h.bounds[1:]
	}
}

// stepMean is the mean usage of settled pods at a step.
type stepMean struct {
	step int64
	mean float64
}

// keptMeans is how many of them are kept: those of the window of a rate, and some.
const keptMeans = 16

// settle notes the mean usage of the pods that were Ready for long.
func (h *History) settle(step int64, mean float64) {
	if n := len(h.means); n > 0 && step <= h.means[n-1].step {
		return
	}
	if len(h.means) == keptMeans {
		copy(h.means, h.means[1:])
		h.means = h.means[:keptMeans-1]
	}
	h.means = append(h.means, stepMean{step, mean})
}

// settled is that mean at a step.
func (h *History) settled(step int64) (mean float64, ok bool) {
	for _, m := range h.means {
		if m.step == step {
			return m.mean, true
		}
	}
	return 0, false
}

// before is the newest sample of the steps before one, no more than so many.
func (h *History) before(step, most int64) (sample float64, ok bool) {
	for s := step - 1; s >= max(step-most, h.lo); s-- {
		if s < h.hi && !math.IsNaN(h.buf[s-h.base]) {
			return h.buf[s-h.base], true
		}
	}
	return 0, false
}

// censored are the stretches of bounds.
func (h *History) censored(g Grid) []api.Span {
	var out []api.Span
	for _, b := range h.bounds {
		out = append(out, api.Span{From: g.Time(b[0]), To: g.Time(b[1])})
	}
	return out
}

// measured is a sample to 24 bits. No measurement is truer than that, and the rest is
// noise, which would be most of what a record of a cycle consists of.
func measured(v float64) float64 {
	if math.Abs(v) >= math.MaxFloat32 || math.Abs(v) < 0x1p-126 {
		return v
	}
	return float64(float32(v))
}

// sameSample reports whether a sample that was fetched again is the same but for
// the order in which its parts were summed, which may change its last bit.
func sameSample(a, b float64) bool {
	return math.Abs(a-b) <= 0x1p-23*math.Max(math.Abs(a), math.Abs(b))
}

// reach makes the buffer cover a step, with the whole window before it.
func (h *History) reach(step int64) {
	switch {
	case h.buf == nil:
		h.move(step - int64(h.window) + 1)
	case step >= h.base+int64(len(h.buf)):
		h.move(step - int64(h.window) + 1)
		h.lo = max(h.lo, h.base)
		h.hi = max(h.hi, h.lo)
	case step < h.base:
		// Only while the newest step is younger than the window is long.
		h.move(step)
	}
}

// move copies the history to new memory that starts at base, leaving what was
// handed out to its readers.
func (h *History) move(base int64) {
	buf := make([]float64, h.window+h.slack)
	for i := range buf {
		buf[i] = math.NaN()
	}
	from, to := max(h.lo, h.base, base), min(h.hi, base+int64(len(buf)))
	if from < to {
		copy(buf[from-base:to-base], h.buf[from-h.base:to-h.base])
	}
	h.buf, h.base = buf, base
	h.pubLo, h.pubHi = 0, 0
}

// Series hands out the window as an immutable series, without copying.
func (h *History) Series(g Grid) api.Series {
	if h.hi <= h.lo {
		return api.Series{Step: g.Step, Past: h.Past}
	}
	lo := max(h.lo, h.hi-int64(h.window))
	if h.pubHi <= h.pubLo {
		h.pubLo, h.pubHi = lo, h.hi
	} else {
		h.pubLo, h.pubHi = min(h.pubLo, lo), max(h.pubHi, h.hi)
	}
	return api.Series{
		Start:  g.Time(lo),
		Step:   g.Step,
		Values: h.buf[lo-h.base : h.hi-h.base : h.hi-h.base],

		Censored: h.censored(g), Past: h.Past,
	}
}
