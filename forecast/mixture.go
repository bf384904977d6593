package forecast

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// MixtureName is the model of a forecast that several experts made together.
const MixtureName = "mixture"

// Expert is a model of the portfolio with its parameters and its share in the
// mixture.
type Expert struct {
	Name   string    `json:"name"`
	Weight float64   `json:"weight"` // 0–1
	Params []float64 `json:"params,omitempty"`
	// Seasonal holds the parameters of an expert of the seasonal kind.
	Seasonal *SeasonalFit `json:"seasonal,omitempty"`
}

// MixtureFit is what was learnt of one series for a mixture.
type MixtureFit struct {
	// Experts whose weight counts, and Periods, the whole seasons they know.
	Experts []Expert `json:"experts"`
	Periods []int    `json:"periods,omitempty"`
	// Unit of losses in the aggregation: the mean absolute error of the expert
	// that was best.
	Unit float64 `json:"unit,omitempty"`
	// Start is the first sample that parameters were learnt from.
	Start time.Time `json:"start"`
	// Up and Down widen, or narrow, residuals above and below the forecast so
	// that stated coverage is what was seen.
	Up   float64 `json:"up"`
	Down float64 `json:"down"`
}

// reads tells whether f may be applied to series. Phases count from the first sample
// that it was learnt from: it has none for those before. And experts read two cycles of
// each season, which a history that began anew after an absence does not have.
func (f MixtureFit) reads(series api.Series) bool {
	return !series.Start.Before(f.Start) && !slices.ContainsFunc(f.Periods, func(m int) bool { return 2*m > len(series.Values) })
}

// An expert of less weight is left out: it costs more than it helps.
const leastWeight = 0.03

// kind is an expert as the mixture handles it: fitted to a part of a history,
// used on all of it.
type kind struct {
	name string
	fit  func(h history) (Expert, bool)
}

// kinds lists the experts for a series: last value, level, seasonal models of
// the periods given, and the portfolio's recipes.
func kinds(h history, periods []float64, horizon int) []kind {
	out := []kind{
		{NaiveName, func(history) (Expert, bool) { return Expert{}, true }},
		{LevelName, func(h history) (Expert, bool) {
			return Expert{Params: []float64{fitAlpha(h.raw, len(h.raw)-1, horizon)}}, true
		}},
	}
	for _, p := range periods {
		out = append(out, kind{SeasonalName, func(h history) (Expert, bool) {
			if float64(len(h.raw)) < 2*p {
				return Expert{}, false
			}
			fit := fitSeasonal(h.raw, p, horizon)
			return Expert{Seasonal: &fit}, true
		}})
	}
	for _, r := range recipes() {
		out = append(out, kind{r.name(), func(h history) (Expert, bool) {
			params := learn(r, h, horizon)
			return Expert{Params: params}, params != nil
		}})
	}
	return out
}

// learn returns what r learns of h, nil when one of the parameters is no finite
// number.
func learn(r recipe, h history, horizon int) []float64 {
	params := r.learn(h, horizon)
	for _, v := range params {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	}
	return params
}

// predictorOf makes the expert's predictor over h.
func (e Expert) predictorOf(h history, horizon int) predictor {
	r := recipeOf(e.Name)
	if h.whole != nil && (r == nil || recurs(r) && h.mark == nil) {
		return later{e.predictorOf(*h.whole, horizon), h.cut}
	}
	switch {
	case r != nil:
		return r.predictor(h, horizon, e.Params)
	case e.Seasonal != nil && h.from > 0:
		return newSeasonalPredictorOnce(h.raw, *e.Seasonal)
	case e.Seasonal != nil:
		return newSeasonalPredictor(h.raw, *e.Seasonal)
	case e.Name == LevelName && h.ends.first > 0:
		return newSmoothedAt(h.raw, e.Params[0])
	case e.Name == LevelName:
		return newSmoothed(h.raw, e.Params[0])
	}
	return lastValue{h.raw} // that, or unknown: of an older build
}

// mixture is the weighted mean of experts' paths.
type mixture struct {
	// recent are the experts over the end of the history, nil where they are not;
	// whole are those over all of it, made by overAll when a path asks for them.
	recent, whole *panel
	overAll       func() *panel
	weights       []float64
	// phases tells analogous origins; nil for evenly spaced ones.
	phases   *seasonalPredictor
	raw      []float64
	path     []float64
	up, down float64
	// shift is that of the history. Said are paths made before, used those made or
	// asked for of this one.
	shift      int
	said, used paths
	unit       float64 // of these
}

// paths by the sample they were made at, counted from the first one that
// parameters were learnt from, in units of usual errors, at single precision. A
// path is never written to again.
type paths map[int][]float32

// with are p and more, but none from before sample first, and mostSteps at most
// unless more are more.
func (p paths) with(more paths, first int) paths {
	out, steps := maps.Clone(more), more.steps()
	older := slices.Sorted(maps.Keys(p))
	for _, at := range slices.Backward(older) {
		if _, ok := out[at]; ok {
			continue
		}
		if steps += len(p[at]); at < first || steps > mostSteps {
			break
		}
		out[at] = p[at]
	}
	return out
}

func (p paths) steps() (n int) {
	for _, path := range p {
		n += len(path)
	}
	return n
}

// mostSteps of paths are kept: 64 KiB. Where they are matched by samples five phases
// of eight seasons are wanted at each quarter of a horizon, and they are longer by
// that: two hundred of 80 for a season as long as a horizon of 64.
const mostSteps = 16 << 10

func (m *mixture) point(o int, dst []float64) {
	at := o + m.shift
	path, ok := m.used[at]
	if !ok {
		path, ok = m.said[at]
	}
	if !ok || len(path) < len(dst) {
		clear(dst)
		m.parallel(o, func(i int, part []float64) {
			for h, v := range part {
				dst[h] += m.weights[i] * v
			}
		}, len(dst))
		path = make([]float32, len(dst))
		for h, v := range dst {
			path[h] = single(v / m.unit)
		}
	}
	m.used[at] = path
	for h := range dst { // the same the first time and later
		dst[h] = float64(path[h]) * m.unit
	}
}

// single is v at single precision, no further than that reaches.
func single(v float64) float32 {
	return float32(max(-math.MaxFloat32, min(math.MaxFloat32, v)))
}

// parallel hands the experts' paths from o to take, one after the other.
func (m *mixture) parallel(o int, take func(i int, path []float64), horizon int) {
	if cap(m.path) < horizon {
		m.path = make([]float64, horizon)
	}
	panel := m.panelOf(o)
	for i, p := range panel.parts {
		p.point(o-panel.h.cut, m.path[:horizon])
		take(i, m.path[:horizon])
	}
}

// analogues of different origins lie on one grid: a path made for one of them
// serves the others.
func (m *mixture) analogues(o, horizon int) []analogue {
	if m.phases != nil {
		if a := m.phases.analogues(o, horizon); len(a) >= maxAnalogues/4 {
			spacing := m.phases.spacing()
			for i, x := range a {
				// The nearest one that is not after it.
				a[i].origin -= (x.origin + m.shift) % spacing
			}
			return slices.DeleteFunc(a, func(x analogue) bool { return x.origin < 0 })
		}
	}
	last := o - horizon
	if last < maxAnalogues/4 {
		return spacedOrigins(m.raw, o, horizon)
	}
	stride := max(1, (len(m.raw)-horizon+maxAnalogues)/maxAnalogues)
	out := make([]analogue, 0, maxAnalogues)
	for i := last - (last+m.shift)%stride; i >= 0; i -= stride {
		if !math.IsNaN(m.raw[i]) {
			out = append(out, analogue{i, 1})
		}
	}
	return out
}

func (m *mixture) steady() int {
	if m.phases == nil {
		return math.MaxInt
	}
	return m.phases.steady()
}

func (m *mixture) period() float64 {
	if m.phases == nil {
		return 0
	}
	return m.phases.period()
}

func (m *mixture) spread() (up, down float64) { return m.up, m.down }

// newMixture puts experts together over h.
func newMixture(h history, fit MixtureFit, phases *SeasonalFit, horizon int) *mixture {
	m := &mixture{raw: h.raw, up: fit.Up, down: fit.Down, shift: h.shift, used: paths{}, unit: 1}
	if fit.Unit > 0 {
		m.unit = fit.Unit
	}
	for _, e := range fit.Experts {
		m.weights = append(m.weights, e.Weight)
	}
	m.overAll = func() *panel {
		if h.ends.first > 0 {
			h.ends = extremesOf(h.y, 0)
		}
		return newPanel(h, fit.Experts, nil, horizon)
	}
	if phases != nil { // whose paths are not asked for
		m.phases = newSeasonalPredictorOnce(h.raw, *phases)
	}
	return m
}

// fitMixture learns experts and their weights: parameters from what was known
// before the first of origins, weights by what came after each of them, in
// order of time. Then all that counts is learnt anew from the whole history.
// It returns the mixture as it was known at the first origin, too: for skill. Said
// are its paths from origins by weights that know nothing of what came after them.
// Last is the fit before, if there was one.
func fitMixture(h history, last *MixtureFit, period float64, origins []int, horizon int) (fit, before MixtureFit, said []float64) {
	known := h.until(origins[0] + 1)
	all := kinds(h, seasonalPeriods(h, period), horizon)
	var experts []Expert
	var used []kind
	var paths [][]float64 // by expert: origin after origin
	for _, k := range all {
		e, ok := k.fit(known)
		if !ok {
			continue
		}
		e.Name = k.name
		p := e.predictorOf(h, horizon)
		path := make([]float64, len(origins)*horizon)
		for i, o := range origins {
			p.point(o, path[i*horizon:(i+1)*horizon])
		}
		experts, used, paths = append(experts, e), append(used, k), append(paths, path)
	}
	weights, unit := aggregate(last.prior(experts), paths, h.raw, origins, horizon)
	fit.Unit, before.Unit = unit, unit
	said = heldOut(paths, h.raw, origins, horizon)
	kept := counted(weights)
	for i, w := range weights {
		// The two that need no season stay, to be there when it ends.
		if w == 0 && used[i].name != NaiveName && used[i].name != LevelName || kept == 0 {
			continue
		}
		experts[i].Weight = w / kept
		before.Experts = append(before.Experts, experts[i])
		now, ok := used[i].fit(h)
		if !ok {
			now = experts[i]
		}
		now.Name, now.Weight = used[i].name, w/kept
		fit.Experts = append(fit.Experts, now)
	}
	fit.Up, fit.Down, before.Up, before.Down = 1, 1, 1, 1
	fit.Periods, before.Periods = h.periods, h.periods
	return fit, before, said
}

// remembered is the share of a refit's prior that is the weights of before.
const remembered = 0.5

// prior are the weights of experts before the origins of a refit are looked at:
// half of it even, half as f, the last fit, had come to. Nil is no fit before.
func (f *MixtureFit) prior(experts []Expert) []float64 {
	out, sum := make([]float64, len(experts)), 0.0
	for i, e := range experts {
		if f == nil {
			break
		}
		out[i] = f.weightOf(e)
		sum += out[i]
	}
	even := 1 / float64(len(out))
	for i := range out {
		if sum == 0 {
			out[i] = even
			continue
		}
		out[i] = remembered*out[i]/sum + (1-remembered)*even
	}
	return out
}

// weightOf is that of the same expert as e; 0 without one.
func (f *MixtureFit) weightOf(e Expert) float64 {
	for _, was := range f.Experts {
		if was.Name == e.Name && (e.Seasonal == nil || was.Seasonal != nil && math.Abs(was.Seasonal.Period-e.Seasonal.Period) < 0.01*e.Seasonal.Period) {
			return was.Weight
		}
	}
	return 0
}

// counted sets weights that are too small to nothing, and returns the sum of the
// others.
func counted(weights []float64) (sum float64) {
	for i, w := range weights {
		if w < leastWeight {
			weights[i] = 0
		}
		sum += weights[i]
	}
	return sum
}

// heldOut are the mixture's paths from origins, each by weights of the other
// origins that do not overlap it: cross-conformal prediction (Vovk 2015; Barber et
// al. 2021, CV+). By weights that saw what came the mixture would be nearer to it
// than it will be to what comes. Nil of fewer than two experts, or where no origin
// has others that far from it.
func heldOut(paths [][]float64, y []float64, origins []int, horizon int) []float64 {
	if len(paths) < 2 || origins[len(origins)-1]-origins[0] < 2*horizon {
		return nil
	}
	out := make([]float64, len(origins)*horizon)
	others, left := make([]int, 0, len(origins)), make([][]float64, len(paths))
	// The weights of before have seen what came after these origins.
	even := slices.Repeat([]float64{1 / float64(len(paths))}, len(paths))
	for i, o := range origins {
		others = others[:0]
		for j := range left {
			left[j] = left[j][:0]
		}
		for i, other := range origins {
			if other < o+horizon && o < other+horizon {
				continue
			}
			others = append(others, other)
			for j, path := range paths {
				left[j] = append(left[j], path[i*horizon:(i+1)*horizon]...)
			}
		}
		weights, _ := aggregate(even, left, y, others, horizon)
		sum := counted(weights)
		if sum == 0 {
			return nil
		}
		for j, w := range weights {
			for k, v := range paths[j][i*horizon : (i+1)*horizon] {
				out[i*horizon+k] += w / sum * v
			}
		}
	}
	return out
}

// seasonalPeriods are those that the seasonal model is tried with.
func seasonalPeriods(h history, period float64) []float64 {
	var out []float64
	add := func(p float64) {
		if p > 1 && !slices.ContainsFunc(out, func(x float64) bool { return math.Abs(x-p) < 0.01*p }) {
			out = append(out, p)
		}
	}
	add(period)
	for _, m := range h.periods {
		add(float64(m))
	}
	return out
}

// aggregate weighs experts by their paths from origins, beginning with prior. A
// round is an origin: its losses are known before the next forecast that is weighed
// by them only where origins do not overlap, so the weights say what was best of
// late, not what a player would have earned.
// It returns the unit of losses, too; 0 where nothing was seen that paths could be
// compared with.
func aggregate(prior []float64, paths [][]float64, y []float64, origins []int, horizon int) (weights []float64, unit float64) {
	// Losses are measured in those of the best expert: rates then mean the
	// same for every series.
	unit = math.Inf(1)
	for _, path := range paths {
		sum, n := 0.0, 0
		for i, o := range origins {
			for k := range min(horizon, len(y)-1-o) {
				if e := math.Abs(y[o+1+k] - path[i*horizon+k]); !math.IsNaN(e) {
					sum += e
					n++
				}
			}
		}
		if n > 0 {
			unit = min(unit, sum/float64(n))
		}
	}
	if math.IsInf(unit, 1) {
		return prior, 0
	}
	if len(paths) == 1 {
		return prior, unit
	}
	unit = max(unit, 1e-9*scaleOfKnown(y))
	b := newBOA(prior, 0)
	mean, rounds := make([]float64, len(paths)), 0.0
	regret, said := make([]float64, len(paths)), make([][]float64, len(paths))
	for i, o := range origins {
		for j, path := range paths {
			said[j] = path[i*horizon:][:horizon]
		}
		if !b.regrets(said, y[o+1:min(len(y), o+1+horizon)], unit, regret) {
			continue
		}
		b.learn(regret)
		// From online to batch: what is used from here on is the mean of the
		// weights of all rounds, whose expected loss has the same bound
		// (Cesa-Bianchi et al. 2004), later ones counting more.
		rounds++
		for j, w := range b.weights {
			mean[j] += rounds * w
		}
	}
	if rounds == 0 {
		return prior, unit
	}
	for j := range mean {
		mean[j] /= rounds * (rounds + 1) / 2
	}
	return mean, unit
}

// scaleOfKnown is the mean size of what is not a gap, 1 if that is nothing.
func scaleOfKnown(y []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range y {
		if !math.IsNaN(v) {
			sum += math.Abs(v)
			n++
		}
	}
	if n == 0 || sum == 0 {
		return 1
	}
	return sum / float64(n)
}
