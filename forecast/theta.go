package forecast

import "math"

// theta is the dynamic optimised theta model of Fiorucci et al. (2016) on the
// series without its seasons, by ratio where it stays above zero as is usual
// with it: a level by simple smoothing, and the share 1 − 1/θ of the slope of
// the regression line through all that was seen. Smoothing and θ are those of
// the least absolute error over horizons, not one step ahead.
type theta struct{}

func (theta) name() string { return "theta" }

func (theta) learn(h history, horizon int) []float64 {
	if len(h.y) < 8 {
		return nil
	}
	x := newIndices(h.y, h.periods, strictlyPositive(h.y), 0.9)
	best, bestErr := []float64(nil), math.Inf(1)
	for _, alpha := range []float64{0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 0.9} {
		for _, th := range []float64{1, 2, 5} {
			p := x.encode([]float64{alpha, th})
			e := pathError(theta{}.predictor(h, horizon, p), h.raw, laterOrigins(len(h.y), horizon), horizon)
			if e < bestErr {
				best, bestErr = p, e
			}
		}
	}
	return best
}

// laterOrigins spreads a few origins over the second half of a history.
func laterOrigins(n, horizon int) []int {
	lo, hi := n/2, max(n/2, n-1-horizon)
	if hi <= lo {
		hi = n - 2
	}
	var out []int
	count := min(23, hi-lo+1)
	for i := range count {
		out = append(out, lo+(hi-lo)*(i+1)/count)
	}
	return out
}

func (theta) predictor(h history, _ int, params []float64) predictor {
	n := len(h.y) - h.since
	block := make([]float64, 3*n)
	p := &thetaState{
		plainAnalogues: plainAnalogues{h.raw}, h: h, alpha: params[0], theta: params[1], x: decodeIndices(params[2:]),
		level: block[:n], slope: block[n : 2*n], mean: block[2*n:],
	}
	var level, mean, slope float64
	if m := h.mark; m != nil {
		p.before, level, slope, mean = m[0], m[1], m[2], m[3]
	}
	for i, v := range h.y[h.since:] {
		v = p.x.remove(h.since+i+h.shift, v)
		t := p.before + float64(i+1)
		if t == 1 {
			level, mean = v, v
		} else {
			level += p.alpha * (v - level)
			// The regression line's slope, updated (ibid., eq. 16).
			slope = ((t-2)*slope + 6*(v-mean)/t) / (t + 1)
			mean += (v - mean) / t
		}
		p.level[i], p.slope[i], p.mean[i] = level, slope, mean
	}
	return p
}

func (p *thetaState) marked(o int) []float64 {
	i := o - p.h.since
	return []float64{p.before + float64(i+1), p.level[i], p.slope[i], p.mean[i]}
}

type thetaState struct {
	plainAnalogues
	h                  history
	alpha, theta       float64
	x                  indices
	before             float64 // how many samples were seen before these
	level, slope, mean []float64
}

func (p *thetaState) point(o int, dst []float64) {
	i := o - p.h.since
	level, drift := p.level[i], (1-1/p.theta)*p.slope[i]
	if p.before+float64(i) < 10 {
		drift = 0
	}
	for k := range dst {
		dst[k] = p.x.restore(o+1+k+p.h.shift, level+drift*(float64(k)+1/p.alpha))
	}
	p.h.bounded(o, dst)
}
