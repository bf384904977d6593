package forecast

// card is the method of Doornik, Castle and Hendry (2020), "Card forecasts for
// M4", in outline: the mean of a damped seasonal difference (delta) and of an
// autoregression around seasons (rho) is put behind the series as if it had
// been observed, and a richer autoregression with day and week in it is
// estimated on both. Its forecast is the calibrated one.
type card struct{}

func (card) name() string { return "card" }

func (card) learn(h history, _ int) []float64 {
	s := h.season()
	if s < 2 || len(h.y) < 4*s {
		return nil
	}
	rho := mstl{}.learn(h, s)
	if rho == nil {
		return nil
	}
	n := len(h.y)
	path := make([]float64, max(2*s, min(h.long(), n/4)))
	mstl{}.predictor(h, 0, rho).point(n-1, path)
	// Delta: the last long cycle again, plus the damped change since the one
	// before it.
	long := h.long()
	change := 0.0
	for t := n - s; t < n; t++ {
		if t-long >= 0 {
			change += (h.y[t] - h.y[t-long]) / float64(s)
		}
	}
	for k := range path {
		delta := h.y[n-long+k%long] + change/2
		path[k] = (path[k] + delta) / 2
	}
	extended := h
	extended.y = append(append(make([]float64, 0, n+len(path)), h.y...), path...)
	return arima{week: true}.regress(extended)
}

func (card) predictor(h history, horizon int, params []float64) predictor {
	return arima{}.predictor(h, horizon, params)
}
