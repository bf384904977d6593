package forecast

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/mash2-io/mash2/api"
)

// predictor is a model with its parameters set, over one history y.
type predictor interface {
	// point writes what is said at sample o about samples o+1 … o+len(dst). It
	// reads y[:o+1] only.
	point(o int, dst []float64)
	// analogues lists origins before o whose residuals tell about those of o.
	analogues(o, horizon int) []analogue
	// steady is over how many steps, of the lead or of the origin, how far off
	// it is changes little; 1 where it may change at once.
	steady() int
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

// phased is a predictor whose residuals are alike a period apart rather than from one
// sample to the next.
type phased interface{ period() float64 } // samples; 0 if it has none

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
	mean := make([]float64, horizon)
	if len(levels) == 0 {
		p.point(o, mean)
		floorAtZero(mean)
		return distribution{mean: mean}
	}
	s := scratch.Get().(*spread)
	defer scratch.Put(s)
	s.fill(p, y, o, mean)
	return s.around(mean, levels, 0)
}

// scratch space of distribute, which is most of what a forecast would allocate.
var scratch = sync.Pool{New: func() any { return new(spread) }}

// spread is how far what comes may be off what is said: residual paths and, for
// the steps at which quantiles are computed, the residuals in order.
type spread struct {
	horizon int
	stride  int       // for how many samples it is kept
	paths   []float64 // path after path
	weights []float64
	leads   []int
	// By lead: the paths, in the order of their residuals there.
	orders []uint16
	// values and order are scratch space of fill.
	values []float64
	order  []uint16
}

// fill takes p's residual paths at sample o, and writes its point path to mean.
func (s *spread) fill(p predictor, y []float64, o int, mean []float64) {
	s.horizon = len(mean)
	s.residualPaths(p, y, o, mean)
	if len(s.weights) == 0 {
		s.weights = append(s.weights, 1)
		s.paths = append(s.paths[:0], make([]float64, len(mean))...)
	}
	if c, ok := p.(calibrated); ok {
		up, down := c.spread()
		for i, r := range s.paths {
			if r > 0 {
				s.paths[i] = up * r
			} else {
				s.paths[i] = down * r
			}
		}
	}
	s.leads = s.leads[:0]
	steady := p.steady()
	for h := 0; h < s.horizon; h = nextLead(h, s.horizon, steady) {
		s.leads = append(s.leads, h)
	}
	n := len(s.weights)
	s.orders = slices.Grow(s.orders[:0], n*len(s.leads))[:n*len(s.leads)]
	s.values, s.order = slices.Grow(s.values[:0], n)[:n], slices.Grow(s.order[:0], n)[:n]
	values, order := s.values, s.order
	for i := range order {
		order[i] = uint16(i)
	}
	for i, h := range s.leads {
		for j, path := range order {
			values[j] = s.paths[int(path)*s.horizon+h]
		}
		inOrder(order, values)
		copy(s.orders[i*n:], order)
	}
}

// inOrder sorts values, one of each path of order, with these paths.
func inOrder(order []uint16, values []float64) {
	// Insertion sort: from one step to the next the order changes little.
	for i, v := range values {
		k, j := order[i], i
		for ; j > 0 && values[j-1] > v; j-- {
			values[j], order[j] = values[j-1], order[j-1]
		}
		values[j], order[j] = v, k
	}
}

// around is the distribution around a point path, which becomes its mean. The
// path may be shorter than those it was taken from; with after, it begins as many
// samples later than they do, and each of its steps is taken as the same sample of
// theirs, at the same phase, and not as the same lead.
//
// The quantile at q is the least value whose cumulative weight reaches
// q·(W + w̄): with equal weights the ⌈q(n+1)⌉-th smallest, the quantile of split
// conformal prediction (Lei et al. 2018, §2.2); the largest when that is beyond
// n. As a quantile of one distribution it is monotone in q and in the values.
func (s *spread) around(mean, levels []float64, after int) distribution {
	n, horizon := len(s.weights), len(mean)
	d := distribution{mean: mean, quantiles: make([][]float64, len(levels)), peak: make([]float64, len(levels))}
	rows := make([]float64, len(levels)*horizon)
	targets, total := make([]float64, len(levels)), 0.0
	for _, path := range s.orders[:n] {
		total += s.weights[path]
	}
	for k, level := range levels {
		d.quantiles[k] = rows[k*horizon : (k+1)*horizon]
		// The tolerance makes sums of weights that are equal on paper equal.
		targets[k] = level * (total + total/float64(n)) * (1 - 1e-9)
	}
	// At is where in an order each level is.
	quantile := func(order []uint16, out func(k, at int)) {
		i, sum := 0, s.weights[order[0]]
		for k, target := range targets {
			for i < n-1 && sum < target {
				i++
				sum += s.weights[order[i]]
			}
			out(k, i)
		}
	}

	// The order of the last lead is nearly that of the peaks.
	peaks, order := make([]float64, n), slices.Clone(s.orders[len(s.orders)-n:])
	for i, path := range order {
		peaks[i] = highestSum(mean, s.paths[int(path)*s.horizon+after:][:len(mean)])
	}
	inOrder(order, peaks)
	quantile(order, func(k, at int) { d.peak[k] = peaks[at] })

	before := make([]float64, len(levels))
	from := -1
	for at, of := range s.leads {
		lead, order := of-after, s.orders[at*n:(at+1)*n]
		quantile(order, func(k, i int) {
			row, off := d.quantiles[k], s.paths[int(order[i])*s.horizon+of]
			// How far they are off the mean is interpolated, so that what the mean does
			// in between stays. In this form rounding keeps the order of levels. No step
			// is above the peak.
			was, most, each := before[k], max(before[k], off), 1/float64(lead-from)
			for j := max(0, from+1); j < min(lead, horizon); j++ {
				w := float64(j-from) * each
				row[j] = min(d.peak[k], max(0, mean[j]+min(was*(1-w)+off*w, most)))
			}
			if lead >= 0 && lead < horizon {
				row[lead] = max(0, mean[lead]+off)
			}
			before[k] = off
		})
		if from = lead; from >= horizon-1 {
			break
		}
	}
	floorAtZero(mean)
	return d
}

// highestSum is the largest a[i]+b[i] of vectors of one length, at least 0. Four at a
// time: this is most of what a forecast takes.
func highestSum(a, b []float64) float64 {
	highest, i := 0.0, 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		if v := x[0] + y[0]; v > highest {
			highest = v
		}
		if v := x[1] + y[1]; v > highest {
			highest = v
		}
		if v := x[2] + y[2]; v > highest {
			highest = v
		}
		if v := x[3] + y[3]; v > highest {
			highest = v
		}
	}
	for ; i < len(a); i++ {
		highest = max(highest, a[i]+b[i])
	}
	return highest
}

// kept is a spread that is used for some samples, and the end of the series that
// it was taken at. It is never written to again.
type kept struct {
	spread *spread
	at     time.Time
	// aligned: what is said later is matched to it by samples, not by leads. It
	// then reaches further than the horizon.
	aligned bool
}

// keptFor: a spread that is steady is kept for the horizon over this.
const keptFor = 4

// renewed is k while it is for a forecast at the end of series, else what the
// predictor says there; empty where that isn't steady. Different ids are renewed
// at different times.
func (k kept) renewed(id uint64, series api.Series, horizon int, made func() (p predictor, y []float64)) kept {
	if k.stands(id, series, horizon) {
		return k
	}
	p, y := made()
	stride := min(horizon/keptFor, p.steady())
	if stride <= 1 {
		return kept{}
	}
	return taken(p, y, series.End(), horizon, stride, false)
}

// renewedAligned is as renewed, for a predictor that is steady or not.
func (k kept) renewedAligned(id uint64, series api.Series, horizon, steady int, made func() predictor) kept {
	if k.stands(id, series, horizon) {
		return k
	}
	stride := max(1, horizon/roundsApart)
	aligned := steady < stride
	if aligned {
		stride = max(1, horizon/keptFor)
	}
	return taken(made(), series.Values, series.End(), horizon, stride, aligned)
}

func taken(p predictor, y []float64, at time.Time, horizon, stride int, aligned bool) kept {
	k := kept{&spread{stride: stride}, at, aligned}
	if aligned {
		horizon += stride - 1
	}
	k.spread.fill(p, y, len(y)-1, make([]float64, horizon))
	k.spread.values, k.spread.order = nil, nil // they are not kept
	return k
}

// stands tells whether k is for a forecast at the end of series and its renewal
// not yet due.
func (k kept) stands(id uint64, series api.Series, horizon int) bool {
	if !k.of(series, horizon) {
		return false
	}
	now, stride := series.End().UnixNano()/int64(series.Step), int64(k.spread.stride)
	return series.End().Equal(k.at) || (now+int64(id%uint64(stride)))%stride != 0
}

// around is the distribution around a point path from the end of series.
func (k kept) around(mean, levels []float64, series api.Series) distribution {
	after := 0
	if k.aligned {
		after = k.age(series)
	}
	return k.spread.around(mean, levels, after)
}

func (k kept) age(series api.Series) int { return int(series.End().Sub(k.at) / series.Step) }

// of tells whether k is for a forecast at the end of series.
func (k kept) of(series api.Series, horizon int) bool {
	if k.spread == nil || series.End().Before(k.at) {
		return false
	}
	age := k.age(series)
	if k.aligned {
		horizon += age
	}
	return age < k.spread.stride && horizon <= k.spread.horizon
}

// leadsApart: where quantiles change slowly, two that are computed are apart by
// their lead over this.
const leadsApart = 8

// nextLead is the step after h at which quantiles are computed: the next one
// or, where they are steady, one that is up to an eighth further. The last step
// is always among them.
func nextLead(h, horizon, steady int) int {
	if h >= horizon-1 {
		return h + 1
	}
	return min(h+min(1+h/leadsApart, steady), horizon-1)
}

// residualPaths writes the point path to mean and takes the residual paths with
// their weights.
func (s *spread) residualPaths(p predictor, y []float64, o int, mean []float64) {
	if e, ok := p.(ensemble); ok {
		paths, weights := e.ensemble(o, mean)
		s.paths, s.weights = append(s.paths[:0], paths...), append(s.weights[:0], weights...)
		return
	}
	horizon := len(mean)
	p.point(o, mean)
	analogues := p.analogues(o, horizon)
	_, flat := p.(levelled)
	now, period := math.Inf(1), 0
	if of, ok := p.(phased); ok {
		period = int(math.Round(of.period()))
	}
	if flat {
		now = meanOfKnown(y[max(0, o+1-horizon) : o+1])
	}
	s.paths = slices.Grow(s.paths[:0], (len(analogues)+1)*horizon)
	for _, share := range []float64{observedShare, 0} { // 0: at least one sample
		s.paths, s.weights = s.paths[:0], s.weights[:0]
		for _, a := range analogues {
			n := len(s.paths)
			path := s.paths[n : n+horizon]
			p.point(a.origin, path)
			if completeResiduals(y[:o+1], a.origin, path, period, share) {
				if then := meanOfKnown(y[max(0, a.origin+1-horizon) : a.origin+1]); flat && then > muchMore*now {
					for h := range path {
						path[h] *= muchMore * now / then
					}
				}
				s.paths = s.paths[:n+horizon]
				s.weights = append(s.weights, a.weight)
			}
		}
		if len(s.weights) >= min(fewestPaths, len(analogues)) {
			break
		}
	}
}

const (
	// observedShare of a residual path must have been observed, unless that leaves fewer
	// than fewestPaths: where most of a history is missing, paths of which little is known
	// tell how far off forecasts were, and no path at all would tell that they never are.
	observedShare = 0.5
	fewestPaths   = 8
)

// levelled is a predictor that knows nothing but a level. What it was off by when
// there was more than muchMore times of what there is now, means over a horizon, is
// taken in proportion to that: else its quantiles stay as wide as they were for as
// long as the history, after demand fell to next to nothing.
type levelled interface{ levelled() }

// muchMore is beyond what demand differs by within most days.
const muchMore = 4

// meanOfKnown leaves out gaps; NaN of nothing.
func meanOfKnown(y []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range y {
		if !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	return sum / float64(n)
}

func floorAtZero(xs []float64) {
	for i, x := range xs {
		xs[i] = max(0, x)
	}
}

// completeResiduals turns the point path made at origin into its residuals
// against y. Gaps take the residual before them. Beyond the end of y the residual a
// period before, or the last one where there is no period or less than one was
// observed, goes on growing with the square root of the lead, as a random walk's does.
// It returns false when less than a share of the path was observed, or nothing.
func completeResiduals(y []float64, origin int, path []float64, period int, share float64) bool {
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
	if seen == 0 || float64(seen) < share*float64(known) {
		return false
	}
	for h := range first {
		path[h] = path[first]
	}
	for h := known; h < len(path); h++ {
		like := last
		if period > 0 {
			// The newest sample at this phase that was observed.
			if at := h - ((h-known)/period+1)*period; at >= 0 {
				like = path[at]
			}
		}
		path[h] = like * math.Sqrt(float64(h+1)/float64(known))
	}
	return true
}
