package forecast

import (
	"math"
	"slices"
)

// boosted is gradient boosting of simple parts in the manner of MFLES (Blume
// 2024, statsforecast): round after round a robust line, the harmonics of one
// season and a smoothed level are fitted to what the rounds before left, each
// taken in part. It stops when a round helps no more on the newest part of the
// history, or after 30.
type boosted struct{}

func (boosted) name() string { return "boosted" }

var boostedOrders = []int{8, 10}

const (
	boostedRounds = 30
	lineRate      = 0.5
	seasonRate    = 0.6
)

func (boosted) learn(h history, _ int) []float64 {
	n := len(h.y)
	if n < 24 {
		return nil
	}
	unit := scale(h.y)
	width := countWaves(h.periods, boostedOrders)
	coefficients := make([]float64, width)
	mean := 0.0
	for _, v := range h.y {
		mean += v / unit / float64(n)
	}
	line := [2]float64{mean, 0} // at the end, and per history
	rest := make([]float64, n)
	for t, v := range h.y {
		rest[t] = v/unit - mean
	}
	before := math.Inf(1)
	x := make([]float64, width)
	for round := range boostedRounds {
		// A line through the medians of the first and the last third.
		a, b := middle(rest[:n/3]), middle(rest[n-n/3:])
		slope := lineRate * (b - a) * 1.5
		base := lineRate*b + slope/6
		if round > 2 { // a trend is learnt at once or not at all
			slope, base = 0, lineRate*middle(rest)
		}
		line[0] += base
		line[1] += slope
		for t := range rest {
			rest[t] -= base + slope*float64(t-n)/float64(n)
		}
		if len(h.periods) > 0 {
			i := round % len(h.periods)
			begin := countWaves(h.periods[:i], boostedOrders)
			one, order := h.periods[i:i+1], boostedOrders[min(i, 1):]
			k := countWaves(one, order)
			sums := newNormal(k)
			for t, v := range rest {
				waves(x, float64(t), one, order)
				sums.add(x[:k], v, math.Exp2(-3*float64(n-t)/float64(n)))
			}
			penalty := make([]float64, k)
			for j := range penalty {
				penalty[j] = 1e-3 * float64(n)
			}
			if c := ridge(sums.a, sums.b, penalty); c != nil {
				for j, v := range c {
					coefficients[begin+j] += seasonRate * v
				}
				for t := range rest {
					waves(x, float64(t), one, order)
					for j, v := range c {
						rest[t] -= seasonRate * v * x[j]
					}
				}
			}
		}
		loss := 0.0
		for _, v := range rest[n/2:] {
			loss += v * v
		}
		if round >= 2*len(h.periods) && loss > before*0.999 {
			break
		}
		before = loss
	}
	params := []float64{float64(n), 0.1, line[0] * unit, line[1] * unit}
	for _, c := range coefficients {
		params = append(params, c*unit)
	}
	return params
}

// middle is the median, for any number of values.
func middle(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(xs))
	return sorted[len(sorted)/2]
}

func (boosted) predictor(h history, _ int, params []float64) predictor {
	p := &boostedState{plainAnalogues{h.raw}, h, params, make([]float64, countWaves(h.periods, boostedOrders)), make([]float64, len(h.y)-h.from)}
	level := p.levelBefore(h.from)
	for t, v := range h.y[h.from:] {
		level = p.follow(level, h.from+t, v)
		p.level[t] = level
	}
	return p
}

func (p *boostedState) follow(level float64, t int, v float64) float64 {
	return level + p.params[1]*(v-p.curve(t)-level)
}

// levelBefore is the level of what was before sample t, from as much of it as
// counts.
func (p *boostedState) levelBefore(t int) float64 {
	const counts = 128 // of which the first weighs 10⁻⁶
	level := 0.0
	for u := max(0, t-counts); u < t; u++ {
		level = p.follow(level, u, p.h.y[u])
	}
	return level
}

type boostedState struct {
	plainAnalogues
	h        history
	params   []float64 // length, smoothing, line, seasons
	x, level []float64
}

func (p *boostedState) curve(t int) float64 {
	t += p.h.shift
	length := p.params[0]
	v := p.params[2] + p.params[3]*(float64(t)-length)/length
	n := waves(p.x, float64(t), p.h.periods, boostedOrders)
	for i, c := range p.params[4:min(len(p.params), 4+n)] {
		v += c * p.x[i]
	}
	return v
}

func (p *boostedState) point(o int, dst []float64) {
	level := 0.0
	if o >= p.h.from {
		level = p.level[o-p.h.from]
	} else {
		level = p.levelBefore(o + 1)
	}
	for k := range dst {
		dst[k] = p.curve(o+1+k) + level
	}
	p.h.bounded(o, dst)
}
