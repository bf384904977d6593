package forecast

import (
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
	// Start is the first sample that parameters were learnt from.
	Start time.Time `json:"start"`
	// Up and Down widen, or narrow, residuals above and below the forecast so
	// that stated coverage is what was seen.
	Up   float64 `json:"up"`
	Down float64 `json:"down"`
}

// An expert of less weight is left out: it costs more than it helps.
const leastWeight = 0.02

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
	switch {
	case e.Seasonal != nil:
		return newSeasonalPredictor(h.raw, *e.Seasonal)
	case e.Name == NaiveName:
		return lastValue{h.raw}
	case e.Name == LevelName:
		return newSmoothed(h.raw, e.Params[0])
	}
	for _, r := range recipes() {
		if r.name() == e.Name {
			return r.predictor(h, horizon, e.Params)
		}
	}
	return lastValue{h.raw} // of an unknown, older build
}

// mixture is the weighted mean of experts' paths.
type mixture struct {
	parts   []predictor
	weights []float64
	// phases tells analogous origins; nil for evenly spaced ones.
	phases   *seasonalPredictor
	raw      []float64
	path     []float64
	up, down float64
}

func (m *mixture) point(o int, dst []float64) {
	if cap(m.path) < len(dst) {
		m.path = make([]float64, len(dst))
	}
	path := m.path[:len(dst)]
	sum := make([]float64, len(dst))
	for i, p := range m.parts {
		p.point(o, path)
		for h, v := range path {
			sum[h] += m.weights[i] * v
		}
	}
	copy(dst, sum)
}

func (m *mixture) analogues(o, horizon int) []analogue {
	if m.phases != nil {
		if a := m.phases.analogues(o, horizon); len(a) >= maxAnalogues/4 {
			return a
		}
	}
	return spacedOrigins(m.raw, o, horizon)
}

func (m *mixture) steady() int {
	if m.phases == nil {
		return math.MaxInt
	}
	return m.phases.steady()
}

func (m *mixture) spread() (up, down float64) { return m.up, m.down }

// newMixture puts experts together over h.
func newMixture(h history, fit MixtureFit, phases *SeasonalFit, horizon int) *mixture {
	m := &mixture{raw: h.raw, up: fit.Up, down: fit.Down}
	for _, e := range fit.Experts {
		m.parts = append(m.parts, e.predictorOf(h, horizon))
		m.weights = append(m.weights, e.Weight)
	}
	if phases != nil {
		m.phases = newSeasonalPredictor(h.raw, *phases)
	}
	return m
}

// fitMixture learns experts and their weights: parameters from what was known
// before the first of origins, weights by what came after each of them, in
// order of time. Then all that counts is learnt anew from the whole history.
// It returns the mixture as it was known at the first origin, too: for skill.
func fitMixture(h history, period float64, origins []int, horizon int) (fit, before MixtureFit) {
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
	weights := aggregate(paths, h.raw, origins, horizon)
	kept := 0.0
	for _, w := range weights {
		if w >= leastWeight {
			kept += w
		}
	}
	for i, w := range weights {
		if w < leastWeight || kept == 0 {
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
	return fit, before
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

// aggregate weighs experts by their paths from origins. A round is an origin:
// its losses are known before the next forecast that is weighed by them only
// where origins do not overlap, so the weights say what was best of late, not
// what a player would have earned.
func aggregate(paths [][]float64, y []float64, origins []int, horizon int) []float64 {
	prior := make([]float64, len(paths))
	for j := range prior {
		prior[j] = 1 / float64(len(paths))
	}
	if len(paths) == 1 {
		return prior
	}
	// Losses are measured in those of the best expert: rates then mean the
	// same for every series.
	unit := math.Inf(1)
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
		return prior
	}
	unit = max(unit, 1e-9*scaleOfKnown(y))
	b := newBOA(prior, 0)
	mean, rounds := make([]float64, len(paths)), 0.0
	regret := make([]float64, len(paths))
	for i, o := range origins {
		clear(regret)
		n := 0
		for k := range min(horizon, len(y)-1-o) {
			actual := y[o+1+k]
			if math.IsNaN(actual) {
				continue
			}
			mixed := 0.0
			for j, path := range paths {
				mixed += b.weights[j] * path[i*horizon+k]
			}
			slope := 1.0
			if mixed < actual {
				slope = -1
			}
			for j, path := range paths {
				regret[j] += slope * (mixed - path[i*horizon+k])
			}
			n++
		}
		if n == 0 {
			continue
		}
		for j := range regret {
			regret[j] /= float64(n) * unit
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
		return prior
	}
	for j := range mean {
		mean[j] /= rounds * (rounds + 1) / 2
	}
	return mean
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

// calibrate finds the factors by which residuals above and below must be
// multiplied for the 0.9 and 0.1 quantiles from origins to have covered what
// they said: split conformal prediction with the ratio to the model's own spread
// as its score (Lei et al. 2018, §5). A handful of origins that overlap are few
// observations, so factors are drawn to 1. M's own
// factors are 1 meanwhile. The loss is that at the origins, with the factors.
func (m *mixture) calibrate(origins []int, horizon int) (loss float64) {
	m.up, m.down, loss = calibrate(m, m.raw, origins, horizon)
	return loss
}

func calibrate(m predictor, y []float64, origins []int, horizon int) (up, down, loss float64) {
	levels := []float64{0.1, 0.5, 0.9}
	made := make([]distribution, len(origins))
	var above, below []float64
	for i, o := range origins {
		made[i] = distribute(m, y, o, horizon, levels)
		d := made[i]
		for k := range min(horizon, len(y)-1-o) {
			e := y[o+1+k] - d.mean[k]
			if math.IsNaN(e) {
				continue
			}
			above = append(above, ratio(e, d.quantiles[2][k]-d.mean[k]))
			below = append(below, ratio(-e, d.mean[k]-d.quantiles[0][k]))
		}
	}
	// Origins closer than a horizon tell of the same stretch.
	span := float64(origins[len(origins)-1]-origins[0]) / float64(horizon)
	independent := min(float64(len(origins)), span+1)
	// Of few scores the conformal quantile is a higher one: at five or fewer
	// the 0.95 one, which is as far as they reach.
	level := 0.9 + 0.05*min(1, 5/independent)
	factor := func(ratios []float64) float64 {
		if len(ratios) == 0 {
			return 1
		}
		slices.Sort(ratios)
		f := ratios[min(len(ratios)-1, int(level*float64(len(ratios))))]
		f = max(0.4, min(4, f))
		return math.Pow(f, independent/(independent+2))
	}
	up, down = factor(above), factor(below)
	n := 0.0
	for i, o := range origins {
		d := made[i]
		for k, mean := range d.mean {
			for _, q := range d.quantiles {
				if e := q[k] - mean; e > 0 {
					q[k] = mean + up*e
				} else {
					q[k] = max(0, mean+down*e)
				}
			}
		}
		made[i].quantiles = [][]float64{d.quantiles[1], d.quantiles[2]} // skillLevels
		actual := y[o+1 : min(len(y), o+1+horizon)]
		if l := made[i].loss(actual); !math.IsNaN(l) {
			loss += l
			n++
		}
	}
	if n == 0 {
		return up, down, math.Inf(1)
	}
	return up, down, loss / n
}

func ratio(e, spread float64) float64 {
	switch {
	case e <= 0:
		return 0
	case !(spread > e/4): // none, or next to none
		return 4
	}
	return e / spread
}

// mixtureOf rebuilds the history and the mixture that a state holds for series.
func mixtureOf(s State, series api.Series, horizon int) *mixture {
	h := history{periods: s.Mixture.Periods}
	h = h.filled(series.Values)
	h.shift = int(series.Start.Sub(s.Mixture.Start) / series.Step)
	return newMixture(h, *s.Mixture, s.Seasonal, horizon)
}
