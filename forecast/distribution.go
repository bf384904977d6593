package forecast

import (
	"math"
	"sync"
)

// predictor is a model with its parameters set, over one history y.
type predictor interface {
	// point writes what is said at sample o about samples o+1 … o+len(dst). It
	// reads y[:o+1] only.
	point(o int, dst []float64)
	// analogues lists origins before o whose residuals tell about those of o.
	analogues(o, horizon int) []analogue
	// smooth tells that how far off it is changes slowly from one step to the
	// next, up to horizon.
	smooth(horizon int) bool
}

// ensemble is a predictor that makes several paths itself: what they differ by
// from their mean are its residuals.
type ensemble interface {
	ensemble(o int, mean []float64) (residuals, weights []float64)
}

// calibrated is a predictor whose residuals are to be multiplied, those above
// its path by up, those below by down, for its quantiles to cover what they say.
type calibrated interface {
	spread() (up, down float64)
}

// analogue is a past origin and the weight (> 0) of its residual path.
type analogue struct {
	origin int
	weight float64
}

// distribution is a forecast made at one origin.
type distribution struct {
	mean      []float64
	quantiles [][]float64 // level × step
	peak      []float64   // per level
}

// distribute makes p's forecast at sample o: its point path plus the weighted
// residual paths of the analogous origins, cut off at zero. It reads y[:o+1]
// only. Without any residual path the distribution is the point path.
func distribute(p predictor, y []float64, o, horizon int, levels []float64) distribution {
	d := distribution{mean: make([]float64, horizon)}
	if len(levels) == 0 {
		p.point(o, d.mean)
		floorAtZero(d.mean)
		return d
	}
	scratch := scratches.Get().(*[]float64)
	defer scratches.Put(scratch)
	residuals, weights := residualPaths(p, y, o, d.mean, scratch)
	if len(weights) == 0 {
		residuals, weights = make([]float64, horizon), []float64{1}
	}
	if c, ok := p.(calibrated); ok {
		up, down := c.spread()
		for i, r := range residuals {
			if r > 0 {
				residuals[i] = up * r
			} else {
				residuals[i] = down * r
			}
		}
	}
	d.quantiles = make([][]float64, len(levels))
	for i := range d.quantiles {
		d.quantiles[i] = make([]float64, horizon)
	}
	d.peak = make([]float64, len(levels))

	q := newQuantiler(weights, levels)
	for i := range weights {
		peak := 0.0
		for h, r := range residuals[i*horizon : (i+1)*horizon] {
			if v := d.mean[h] + r; v > peak {
				peak = v
			}
		}
		q.values[i] = peak
	}
	q.quantiles(d.peak)
	out := make([]float64, len(levels))
	before := -1
	smooth := p.smooth(horizon)
	for h := 0; h < horizon; h = nextLead(h, horizon, smooth) {
		for i := range weights {
			q.values[i] = max(0, d.mean[h]+residuals[i*horizon+h])
		}
		q.quantiles(out)
		for i, v := range out {
			row := d.quantiles[i]
			row[h] = v
			if before < h-1 {
				d.between(row, before, h, d.peak[i])
			}
		}
		before = h
	}
	floorAtZero(d.mean)
	return d
}

// between interpolates a level's quantiles after step a and before step b: how
// far they are from the mean, so that what the mean does between the two stays.
// They don't cross, nor is a step above the peak.
func (d distribution) between(row []float64, a, b int, peak float64) {
	off, ahead := row[a]-d.mean[a], row[b]-d.mean[b]
	for j := a + 1; j < b; j++ {
		w := float64(j-a) / float64(b-a)
		// In this form rounding keeps the order of levels.
		row[j] = min(peak, max(0, d.mean[j]+min(off*(1-w)+ahead*w, max(off, ahead))))
	}
}

// leadsApart: where quantiles change slowly, two that are computed are apart by
// their lead over this.
const leadsApart = 8

// nextLead is the step after h at which quantiles are computed: the next one
// or, where they change slowly, one that is up to an eighth further. The last
// step is always among them.
func nextLead(h, horizon int, smooth bool) int {
	if !smooth || h >= horizon-1 {
		return h + 1
	}
	return min(h+1+h/leadsApart, horizon-1)
}

// scratches keeps the memory of residual paths, which nobody reads once the
// quantiles are known: most of what a forecast would allocate.
var scratches = sync.Pool{New: func() any { return new([]float64) }}

// residualPaths writes the point path to mean and returns the residual paths,
// path after path, with their weights. The paths may be in scratch.
func residualPaths(p predictor, y []float64, o int, mean []float64, scratch *[]float64) (residuals, weights []float64) {
	if e, ok := p.(ensemble); ok {
		return e.ensemble(o, mean)
	}
	horizon := len(mean)
	p.point(o, mean)
	analogues := p.analogues(o, horizon)
	weights = make([]float64, 0, len(analogues))
	if n := (len(analogues) + 1) * horizon; cap(*scratch) < n {
		*scratch = make([]float64, n)
	}
	residuals = (*scratch)[:0]
	for _, a := range analogues {
		path := residuals[len(residuals) : len(residuals)+horizon]
		p.point(a.origin, path)
		if completeResiduals(y[:o+1], a.origin, path) {
			residuals = residuals[:len(residuals)+horizon]
			weights = append(weights, a.weight)
		}
	}
	return residuals, weights
}

func floorAtZero(xs []float64) {
	for i, x := range xs {
		xs[i] = max(0, x)
	}
}

// completeResiduals turns the point path made at origin into its residuals
// against y. Gaps take the residual before them. Beyond the end of y the last
// residual goes on growing with the square root of the lead, as a random walk's
// does. It returns false when too little of the path was observed.
func completeResiduals(y []float64, origin int, path []float64) bool {
	known := min(len(path), len(y)-1-origin)
	if known < 1 {
		return false
	}
	seen, first, last := 0, -1, math.NaN()
	for h := range known {
		r := y[origin+1+h] - path[h]
		if math.IsNaN(r) {
			r = last
		} else {
			seen++
			last = r
			if first < 0 {
				first = h
			}
		}
		path[h] = r
	}
	if 2*seen < known {
		return false
	}
	for h := range first {
		path[h] = path[first]
	}
	for h := known; h < len(path); h++ {
		path[h] = last * math.Sqrt(float64(h+1)/float64(known))
	}
	return true
}

// quantiler computes quantiles of values with fixed weights, again and again
// for values that change little.
type quantiler struct {
	values  []float64 // to be set before every call of quantiles
	weights []float64
	targets []float64 // the cumulative weight each level asks for
	order   []int     // of the last call: nearly sorts the next
	sorted  []float64
}

// newQuantiler prepares for increasing levels. The quantile at q is the least
// value whose cumulative weight reaches q·(W + w̄): with equal weights the
// ⌈q(n+1)⌉-th smallest, the quantile of split conformal prediction (Lei et al.
// 2018, §2.2); the largest when that is beyond n. As a quantile of one
// distribution it is monotone in q and in the values.
func newQuantiler(weights, levels []float64) *quantiler {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	total += total / float64(len(weights))
	q := &quantiler{
		values: make([]float64, len(weights)), weights: weights,
		targets: make([]float64, len(levels)),
		order:   make([]int, len(weights)), sorted: make([]float64, len(weights)),
	}
	for i := range q.order {
		q.order[i] = i
	}
	for k, level := range levels {
		// The tolerance makes sums of weights that are equal on paper equal.
		q.targets[k] = level * total * (1 - 1e-9)
	}
	return q
}

func (q *quantiler) quantiles(out []float64) {
	// Insertion sort: from one step to the next the order changes little.
	for i, k := range q.order {
		v := q.values[k]
		j := i
		for ; j > 0 && q.sorted[j-1] > v; j-- {
			q.sorted[j], q.order[j] = q.sorted[j-1], q.order[j-1]
		}
		q.sorted[j], q.order[j] = v, k
	}
	i, cum := 0, q.weights[q.order[0]]
	for k, target := range q.targets {
		for i < len(q.order)-1 && cum < target {
			i++
			cum += q.weights[q.order[i]]
		}
		out[k] = q.sorted[i]
	}
}
