package forecast

import "math"

// harmonic is dynamic harmonic regression (Young, Pedregal and Tych 1999;
// Hyndman and Athanasopoulos 2021, §10.5): a regression on a line and the
// harmonics of every season, with autoregressive errors.
type harmonic struct{}

func (harmonic) name() string { return "harmonic" }

// orders of the harmonics: Fourier pairs for a season.
func orders(period, most int) int { return max(1, min(most, period/2-1)) }

// waves writes the harmonics of all seasons at t and returns how many.
func waves(x []float64, t float64, periods []int, most []int) int {
	n := 0
	for i, m := range periods {
		s1, c1 := math.Sincos(2 * math.Pi * math.Mod(t, float64(m)) / float64(m))
		s, c := s1, c1
		for range orders(m, most[min(i, len(most)-1)]) {
			x[n], x[n+1] = s, c
			n += 2
			s, c = s*c1+c*s1, c*c1-s*s1
		}
	}
	return n
}

func countWaves(periods []int, most []int) int {
	n := 0
	for i, m := range periods {
		n += 2 * orders(m, most[min(i, len(most)-1)])
	}
	return n
}

var harmonicOrders = []int{10, 12}

// Number of autoregressive terms of the errors.
const harmonicAR = 2

func (harmonic) learn(h history, _ int) []float64 {
	if len(h.periods) == 0 {
		return nil
	}
	n := countWaves(h.periods, harmonicOrders) + 2
	if len(h.y) < 2*n {
		return nil
	}
	unit := scale(h.y)
	sums := newNormal(n)
	x := make([]float64, n)
	length := float64(len(h.y))
	for t, v := range h.y {
		x[0], x[1] = 1, (float64(t)-length)/length
		waves(x[2:], float64(t), h.periods, harmonicOrders)
		// The newest cycles count more.
		sums.add(x, v/unit, math.Exp2(-(length-float64(t))/length*2))
	}
	penalty := make([]float64, n)
	for i := range penalty {
		penalty[i] = 0.1
	}
	penalty[0], penalty[1] = 1e-9, 0.02*length
	c := ridge(sums.a, sums.b, penalty)
	if c == nil {
		return nil
	}
	for i := range c {
		c[i] *= unit
	}
	params := append([]float64{length, 0, 0}, c...)
	p := harmonic{}.predictor(h, 0, params).(*harmonicState)
	ar := newNormal(harmonicAR)
	e2, e1 := p.error(0), p.error(1)
	for t := harmonicAR; t < len(h.y); t++ {
		e := p.error(t)
		ar.add([]float64{e1 / unit, e2 / unit}, e/unit, 1)
		e1, e2 = e, e1
	}
	ridgeAR := 0.01*ar.a[0][0] + 1e-9
	if phi := ridge(ar.a, ar.b, []float64{ridgeAR, ridgeAR}); phi != nil {
		copy(params[1:], phi)
	}
	return params
}

func (harmonic) predictor(h history, _ int, params []float64) predictor {
	return &harmonicState{plainAnalogues: plainAnalogues{h.raw}, h: h, params: params, x: make([]float64, countWaves(h.periods, harmonicOrders))}
}

type harmonicState struct {
	plainAnalogues
	h      history
	params []float64 // length of the history learnt from, AR, coefficients
	x      []float64
}

// error is what the curve missed at sample t.
func (p *harmonicState) error(t int) float64 { return p.h.at(t) - p.curve(t) }

func (p *harmonicState) curve(t int) float64 {
	length, c := p.params[0], p.params[3:]
	t += p.h.shift
	n := waves(p.x, float64(t), p.h.periods, harmonicOrders)
	v := c[0] + c[1]*(float64(t)-length)/length
	for i, w := range p.x[:min(n, len(c)-2)] {
		v += c[2+i] * w
	}
	return v
}

func (p *harmonicState) point(o int, dst []float64) {
	e1, e2 := p.error(o), 0.0
	if o > 0 {
		e2 = p.error(o - 1)
	}
	for k := range dst {
		e1, e2 = p.params[1]*e1+p.params[2]*e2, e1
		dst[k] = p.curve(o+1+k) + e1
	}
	p.h.bounded(o, dst)
}
