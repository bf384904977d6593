package forecast

import "math"

// mstl takes all seasons out, the shorter ones first (Bandara, Hyndman and
// Bergmeir 2021), and forecasts what is left by a level with an autoregression
// around it; seasons repeat. How fast old cycles fade and how fast the level
// follows is what errs least over horizons.
type mstl struct{}

func (mstl) name() string { return "mstl" }

func (mstl) learn(h history, horizon int) []float64 {
	if len(h.periods) == 0 {
		return nil
	}
	origins := laterOrigins(len(h.y), horizon)
	cut := h.until(origins[0] + 1)
	best, bestErr := []float64(nil), math.Inf(1)
	fades := []float64{1, 0.8, 0.5}
	for _, fade := range fades {
		x := newIndices(cut.y, h.periods, false, fade)
		for _, alpha := range []float64{0.01, 0.05, 0.2} {
			for _, rho := range []float64{0, 0.6, 0.8, 0.9, 0.96} {
				p := x.encode([]float64{alpha, rho, fade})
				e := pathError(mstl{}.predictor(h, horizon, p), h.raw, origins, horizon)
				if e < bestErr {
					best, bestErr = p, e
				}
			}
		}
	}
	if best == nil {
		return nil
	}
	return newIndices(h.y, h.periods, false, best[2]).encode(best[:3:3])
}

func (mstl) predictor(h history, _ int, params []float64) predictor {
	p := &mstlState{
		plainAnalogues: plainAnalogues{h.raw}, h: h, rho: params[1], x: decodeIndices(params[3:]),
		level: make([]float64, len(h.y)-h.since), e: make([]float64, len(h.y)-h.since),
	}
	level := 0.0
	if h.mark != nil {
		level = h.mark[0]
	}
	for i := range p.level {
		v := p.x.remove(h.since+i+h.shift, h.at(h.since+i))
		if i == 0 && h.mark == nil {
			level = v
		}
		level += params[0] * (v - level)
		p.level[i], p.e[i] = level, v-level
	}
	return p
}

func (p *mstlState) marked(o int) []float64 { return []float64{p.level[o-p.h.since]} }

type mstlState struct {
	plainAnalogues
	h        history
	rho      float64
	x        indices
	level, e []float64
}

func (p *mstlState) point(o int, dst []float64) {
	level, e := p.level[o-p.h.since], p.e[o-p.h.since]
	for k := range dst {
		e *= p.rho
		dst[k] = p.x.restore(o+1+k+p.h.shift, level+e)
	}
	p.h.bounded(o, dst)
}
