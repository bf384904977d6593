package forecast

import "math"

// logged is a recipe on logarithms, for series that stay above zero: what is
// additive in it becomes a ratio.
type logged struct{ recipe }

func (m logged) name() string { return m.recipe.name() + "-log" }

func (m logged) learn(h history, horizon int) []float64 {
	if !strictlyPositive(h.y) {
		return nil
	}
	return m.recipe.learn(inLogs(h), horizon)
}

func (m logged) predictor(h history, horizon int, params []float64) predictor {
	return expPredictor{m.recipe.predictor(inLogs(h), horizon, params), plainAnalogues{h.raw}}
}

func inLogs(h history) history {
	// Values that come to zero after parameters were learnt are taken as small.
	log := func(xs []float64) []float64 {
		out := make([]float64, len(xs))
		for i, v := range xs {
			out[i] = math.Log(max(v, 1e-9)) + logOffset
			if math.IsNaN(v) {
				out[i] = v
			}
		}
		return out
	}
	h.raw, h.y, h.lo, h.hi = log(h.raw), log(h.y), log(h.lo), log(h.hi)
	return h
}

// logOffset keeps logarithms positive, as values are, for models that keep
// their paths so.
const logOffset = 50

type expPredictor struct {
	predictor
	plainAnalogues
}

func (p expPredictor) point(o int, dst []float64) {
	p.predictor.point(o, dst)
	for i, v := range dst {
		dst[i] = math.Exp(min(v-logOffset, 138)) // at most maxSample
	}
}

func (p expPredictor) analogues(o, horizon int) []analogue {
	return p.plainAnalogues.analogues(o, horizon)
}

func (p expPredictor) steady() int { return 1 }
