package forecast

// arima is a seasonal autoregression of seasonal differences, ARIMA(p,0,0)(P,1,0)
// in the words of Box and Jenkins (1970), estimated by conditional least squares
// with a ridge: d_t = y_t − y_{t−S} is regressed on its own newest values and on
// those around whole seasons before. With all coefficients 0 it is the seasonal
// naive model, to which the ridge shrinks it. S is the shortest season or, with
// week, the longest.
type arima struct{ week bool }

func (m arima) name() string {
	if m.week {
		return "arima-long"
	}
	return "arima"
}

// lags of d that are regressed on.
func (m arima) lags(h history) (difference int, lags []int) {
	short, long := h.season(), h.long()
	s := short
	if m.week {
		s = long
	}
	lags = []int{1, 2, 3}
	add := func(at ...int) {
		for _, l := range at {
			if l > lags[len(lags)-1] && 3*l < len(h.y) {
				lags = append(lags, l)
			}
		}
	}
	if short > 3 {
		add(short, short+1, 2*short)
	}
	if long > short {
		add(long-1, long, long+1)
	}
	return s, lags
}

func (m arima) learn(h history, _ int) []float64 {
	if m.week && h.long() == h.season() {
		return nil
	}
	return m.regress(h)
}

func (m arima) regress(h history) []float64 {
	s, lags := m.lags(h)
	first := s + lags[len(lags)-1]
	if len(h.y)-first < 3*len(lags)+10 {
		return nil
	}
	unit := scale(h.y)
	sums := newNormal(len(lags))
	x := make([]float64, len(lags))
	d := func(t int) float64 { return (h.y[t] - h.y[t-s]) / unit }
	for t := first; t < len(h.y); t++ {
		for i, l := range lags {
			x[i] = d(t - l)
		}
		sums.add(x, d(t), 1)
	}
	energy := 0.0
	for i := range lags {
		energy += sums.a[i][i] / float64(len(lags))
	}
	penalty := make([]float64, len(lags))
	for i := range penalty {
		penalty[i] = 0.01*energy + 1e-12
	}
	coefficients := ridge(sums.a, sums.b, penalty)
	if coefficients == nil {
		return nil
	}
	params := []float64{float64(s)}
	for i, l := range lags {
		params = append(params, float64(l), coefficients[i])
	}
	return params
}

func (m arima) predictor(h history, _ int, params []float64) predictor {
	return &arimaPredictor{plainAnalogues{h.raw}, h, params, nil}
}

type arimaPredictor struct {
	plainAnalogues
	h      history
	params []float64
	d      []float64 // scratch: differences to come
}

func (p *arimaPredictor) point(o int, dst []float64) {
	s := int(p.params[0])
	p.d = p.d[:0]
	for k := range dst {
		v := 0.0
		for i := 1; i < len(p.params); i += 2 {
			lag := int(p.params[i])
			switch t := o + 1 + k - lag; {
			case lag <= k:
				v += p.params[i+1] * p.d[k-lag]
			case t >= s:
				v += p.params[i+1] * (p.h.at(t) - p.h.at(t-s))
			}
		}
		p.d = append(p.d, v)
		if k < s {
			dst[k] = v + p.h.at(max(0, o+1+k-s))
		} else {
			dst[k] = v + dst[k-s]
		}
	}
	p.h.bounded(o, dst)
}
