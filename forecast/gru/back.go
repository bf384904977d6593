package gru

import "math"

// Back adds to d what a step adds to the gradient of a loss, and passes it on: back
// propagation through time (Werbos 1990). The step went from state before, by input x and
// gates g, to state after. slope is the loss's by the step's read-out, dAfter by after without
// the read-out. It writes the slopes by x and by before to dx and dBefore.
func (p Parts) Back(d Parts, x, before, after []float64, g Gates, slope float64, dAfter, dx, dBefore []float64) {
	inputs, hidden := len(x), len(before)
	d.D[0] += slope
	for k, v := range x {
		d.X[k] += slope * v
		dx[k] = slope * p.X[k]
	}
	clear(dBefore)
	for i := range hidden {
		d.V[i] += slope * after[i]
		dh := dAfter[i] + slope*p.V[i]
		r, z, n, un := g.R[i], g.Z[i], g.N[i], g.Un[i]
		dBefore[i] += dh * z
		dn := dh * (1 - z) * (1 - n*n)
		dz := dh * (before[i] - n) * z * (1 - z)
		dr := dn * un * r * (1 - r)
		du := dn * r
		d.B[0][i] += dr
		d.B[1][i] += dz
		d.B[2][i] += dn
		d.B[3][i] += du
		for k, v := range x {
			at := i*inputs + k
			d.W[0][at] += dr * v
			d.W[1][at] += dz * v
			d.W[2][at] += dn * v
			dx[k] += dr*p.W[0][at] + dz*p.W[1][at] + dn*p.W[2][at]
		}
		for k, h := range before {
			at := i*hidden + k
			d.U[0][at] += dr * h
			d.U[1][at] += dz * h
			d.U[2][at] += du * h
			dBefore[k] += dr*p.U[0][at] + dz*p.U[1][at] + du*p.U[2][at]
		}
	}
}

// Adam is the optimiser of Kingma and Ba (2015), with gradients no longer than 1.
type Adam struct {
	m, v []float64
	n    int
}

// Step moves weights down a gradient.
func (a *Adam) Step(weights, gradient []float64, rate float64) {
	const b1, b2, tiny, most = 0.9, 0.999, 1e-8, 1.0
	if a.m == nil {
		a.m, a.v = make([]float64, len(weights)), make([]float64, len(weights))
	}
	norm := 0.0
	for _, g := range gradient {
		norm += g * g
	}
	shrink := min(1, most/math.Sqrt(norm+tiny))
	a.n++
	c1, c2 := 1-math.Pow(b1, float64(a.n)), 1-math.Pow(b2, float64(a.n))
	for i, g := range gradient {
		g *= shrink
		a.m[i] = b1*a.m[i] + (1-b1)*g
		a.v[i] = b2*a.v[i] + (1-b2)*g*g
		weights[i] -= rate * a.m[i] / c1 / (math.Sqrt(a.v[i]/c2) + tiny)
	}
}
