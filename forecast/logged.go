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
	return expPredictor{m.recipe.predictor(inLogs(h), horizon, params), h}
}

// inLogs is h in logarithms: computed once for all models that want them.
func inLogs(h history) history {
	h.ends.logs = true
	if h.whole != nil {
		h.resumed.logs = true
		return h
	}
	l := h.logs
	if cap(l.y) < len(h.y) {
		n := max(len(h.y), len(h.raw))
		block := make([]float64, 2*n)
		l.raw, l.y = append(block[:0:n], l.raw...), append(block[n:n:2*n], l.y...)
	}
	n := len(h.y)
	if known := len(l.y); known < n {
		raw, y := l.raw[:n], l.y[:n]
		for t := known; t < n; t++ {
			v := logOf(h.y[t])
			raw[t], y[t] = v, v
			if math.IsNaN(h.raw[t]) {
				raw[t] = math.NaN()
			}
		}
		l.raw, l.y = raw, y
	}
	h.raw, h.y = l.raw[:n:n], l.y[:n:n]
	return h
}

// logOf takes values that come to zero after parameters were learnt as small.
func logOf(v float64) float64 { return math.Log(max(v, 1e-9)) + logOffset }

// logOffset keeps logarithms positive, as values are, for models that keep
// their paths so.
const logOffset = 50

type expPredictor struct {
	predictor
	h history // not in logarithms
}

func (p expPredictor) point(o int, dst []float64) {
	p.predictor.point(o, dst)
	for i, v := range dst {
		dst[i] = math.Exp(v - logOffset)
	}
	// In logarithms one zero makes everything believable.
	p.h.bounded(o, dst)
}

func (p expPredictor) marked(o int) []float64 {
	if m, ok := p.predictor.(marked); ok {
		return m.marked(o)
	}
	return nil
}

func (p expPredictor) analogues(o, horizon int) []analogue {
	return spacedOrigins(p.h.raw, o, horizon)
}

func (p expPredictor) steady() int { return 1 }
