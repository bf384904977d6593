package sensing

import (
	"math"
	"time"

	"github.com/mash2-io/mash2/api"
)

// grid numbers sample times: step i is at i·Step since the Unix epoch, so that
// every workload and every restart samples at the same times.
type grid struct{ step time.Duration }

// at is the last step that is not after t.
func (g grid) at(t time.Time) int64 {
	n, s := t.UnixNano(), int64(g.step)
	i := n / s
	if n%s < 0 {
		i--
	}
	return i
}

// time of step i.
func (g grid) time(i int64) time.Time { return time.Unix(0, i*int64(g.step)).UTC() }

// history holds the newest window samples of one workload and hands them out
// without copying. A value that was handed out is never written again: new
// samples go behind the part handed out, older ones (a backfill) before it, and
// a revision of what was handed out first moves the history to new memory.
//
// The buffer is longer than the window by the slack, so that moving the window
// copies it once per slack steps, not at each.
type history struct {
	window, slack int
	base          int64 // step of buf[0]
	buf           []float64
	// Samples are known within [lo, hi); NaN between them is a gap.
	lo, hi int64
	// bounds are the steps, in order, whose samples are lower bounds of demand:
	// first and last of each run.
	bounds [][2]int64
	// past is what is known of before the window, nil when nothing is.
	past *api.Series
	// What was handed out lies within [pubLo, pubHi).
	pubLo, pubHi int64
}

func newHistory(window, slack int) *history {
	return &history{window: window, slack: max(slack, 1)}
}

// set notes the sample of a step. NaN, infinite and negative values are gaps.
// A step older than the window is ignored.
func (h *history) set(step int64, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
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

// bound notes that the sample of a step is a lower bound of demand. Steps before
// the newest bound are bounds already or never.
func (h *history) bound(step int64) {
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

// censored are the stretches of bounds.
func (h *history) censored(g grid) []api.Span {
	var out []api.Span
	for _, b := range h.bounds {
		out = append(out, api.Span{From: g.time(b[0]), To: g.time(b[1])})
	}
	return out
}

// sameSample tells whether a sample that was fetched again is the same but for
// the order in which its parts were summed.
func sameSample(a, b float64) bool {
	return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b))
}

// reach makes the buffer cover a step, with the whole window before it.
func (h *history) reach(step int64) {
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
func (h *history) move(base int64) {
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

// series hands out the window as an immutable series, without copying.
func (h *history) series(g grid) api.Series {
	if h.hi <= h.lo {
		return api.Series{Step: g.step, Past: h.past}
	}
	lo := max(h.lo, h.hi-int64(h.window))
	if h.pubHi <= h.pubLo {
		h.pubLo, h.pubHi = lo, h.hi
	} else {
		h.pubLo, h.pubHi = min(h.pubLo, lo), max(h.pubHi, h.hi)
	}
	return api.Series{
		Start:  g.time(lo),
		Step:   g.step,
		Values: h.buf[lo-h.base : h.hi-h.base : h.hi-h.base],

		Censored: h.censored(g), Past: h.past,
	}
}

// gaps is the share of steps in [from, to] without a sample, counted from the
// first sample on; 0 when there is none at all.
func (h *history) gaps(from, to int64) float64 {
	if h.hi <= h.lo {
		return 0
	}
	from = max(from, h.lo)
	if to < from {
		return 0
	}
	var gaps int64
	for i := from; i <= to; i++ {
		if i >= h.hi || math.IsNaN(h.buf[i-h.base]) {
			gaps++
		}
	}
	return float64(gaps) / float64(to-from+1)
}
