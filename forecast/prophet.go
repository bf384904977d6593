package forecast

import "math"

// prophet is the model of Taylor and Letham (2018), "Forecasting at scale": a
// piecewise linear trend with 25 possible changes in the first four fifths of
// the history and Fourier seasons, fitted at the posterior's mode. The priors
// are theirs: a Laplace prior of scale 0.05 on changes of slope, taken as ridges
// that are weighted anew four times, and normal ones of 5 on the line and 10 on
// the seasons. There is no yearly season.
type prophet struct{}

func (prophet) name() string { return "prophet" }

const prophetChanges = 25

var prophetOrders = []int{4, 3} // daily, weekly

func (prophet) learn(h history, _ int) []float64 {
	n := 2 + prophetChanges + countWaves(h.periods, prophetOrders)
	if len(h.y) < n+20 {
		return nil
	}
	top := 0.0
	for _, v := range h.y {
		top = max(top, math.Abs(v))
	}
	if top == 0 {
		top = 1
	}
	length := float64(len(h.y))
	sums := newNormal(n)
	x := make([]float64, n)
	energy := 0.0
	for t, v := range h.y {
		prophetRow(x, float64(t)/length)
		waves(x[2+prophetChanges:], float64(t), h.periods, prophetOrders)
		sums.add(x, v/top, 1)
		energy += v / top * v / top
	}
	delta := make([]float64, prophetChanges)
	sigma2 := 0.05 * 0.05
	var c []float64
	for range 4 {
		penalty := make([]float64, n)
		for i := range penalty {
			switch {
			case i < 2:
				penalty[i] = sigma2 / 25
			case i < 2+prophetChanges:
				// |δ|/τ as δ²/(2τ|δ|) at the δ before.
				penalty[i] = sigma2 / (0.05 * max(1e-4, math.Abs(delta[i-2])))
				if c == nil {
					penalty[i] = sigma2 / (0.05 * 0.05)
				}
			default:
				penalty[i] = sigma2 / 100
			}
		}
		a := make([][]float64, n)
		for i := range a {
			a[i] = append([]float64(nil), sums.a[i]...)
		}
		next := ridge(a, sums.b, penalty)
		if next == nil {
			break
		}
		c = next
		copy(delta, c[2:])
		// The residual variance, from the normal equations.
		fit := energy
		for i := range c {
			fit -= 2 * c[i] * sums.b[i]
			for j := range c {
				fit += c[i] * c[j] * sums.a[max(i, j)][min(i, j)]
			}
		}
		sigma2 = max(1e-6, fit/length)
	}
	if c == nil {
		return nil
	}
	for i := range c {
		c[i] *= top
	}
	return append([]float64{length}, c...)
}

// prophetRow writes intercept, slope and changes of slope at a time in 0–1.
func prophetRow(x []float64, t float64) {
	x[0], x[1] = 1, t
	for i := range prophetChanges {
		x[2+i] = max(0, t-0.8*float64(i+1)/(prophetChanges+1))
	}
}

func (prophet) predictor(h history, _ int, params []float64) predictor {
	return &prophetState{plainAnalogues{h.raw}, h, params, make([]float64, 2+prophetChanges+countWaves(h.periods, prophetOrders))}
}

type prophetState struct {
	plainAnalogues
	h      history
	params []float64
	x      []float64
}

func (p *prophetState) point(o int, dst []float64) {
	length, c := p.params[0], p.params[1:]
	for k := range dst {
		t := float64(o + 1 + k + p.h.shift)
		prophetRow(p.x, t/length)
		n := min(len(c), 2+prophetChanges+waves(p.x[2+prophetChanges:], t, p.h.periods, prophetOrders))
		v := 0.0
		for i, w := range p.x[:n] {
			v += c[i] * w
		}
		dst[k] = v
	}
	p.h.bounded(o, dst)
}
