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

// inLogs is h in logarithms: computed once for all models that want them.
func inLogs(h history) history {
	l := h.logs
	if cap(l.y) < len(h.y) {
		n := max(len(h.y), len(h.raw))
		block := make([]float64, 4*n)
		l.raw, l.y = append(block[:0:n], l.raw...), append(block[n:n:2*n], l.y...)
		l.lo, l.hi = append(block[2*n:2*n:3*n], l.lo...), append(block[3*n:3*n:4*n], l.hi...)
	}
	n := len(h.y)
	if known := len(l.y); known < n {
		raw, y, lo, hi := l.raw[:n], l.y[:n], l.lo[:n], l.hi[:n]
		for t := known; t < n; t++ {
			v := logOf(h.y[t])
			raw[t], y[t], lo[t], hi[t] = v, v, v, v
			if math.IsNaN(h.raw[t]) {
				raw[t] = math.NaN()
			}
			if t > 0 {
				if lo[t-1] < v {
					lo[t] = lo[t-1]
				}
				if hi[t-1] > v {
					hi[t] = hi[t-1]
				}
			}
		}
		l.raw, l.y, l.lo, l.hi = raw, y, lo, hi
	}
	h.raw, h.y, h.lo, h.hi = l.raw[:n:n], l.y[:n:n], l.lo[:n], l.hi[:n]
	return h
}

// logOf takes values that come to zero after parameters were learnt as small.
func logOf(v float64) float64 { return math.Log(max(v, 1e-9)) + logOffset }

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
