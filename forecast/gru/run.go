package gru

// Runner runs a net faster than [Parts.Step]: its sigmoids are approximations. Outputs
// differ from those of Parts.Step by less than 1e-5 over any stretch of inputs that
// features can be (TestRunner); values are of the order of 1.
type Runner struct {
	hidden int
	// rows has for each hidden unit three rows, of r, z and n: the weights of the
	// inputs, then those of the state, then two biases (of n: b and c).
	rows []float64
	// out is w, v, d.
	out  []float64
	next []float64
}

// NewRunner copies the weights of a net. A Runner is for one goroutine.
func NewRunner(n *Net) *Runner {
	p := Split(n.Weights, n.Inputs, n.Hidden)
	r := &Runner{hidden: n.Hidden, next: make([]float64, n.Hidden)}
	for i := range n.Hidden {
		for g := range p.W {
			r.rows = append(r.rows, p.W[g][i*n.Inputs:][:n.Inputs]...)
			r.rows = append(r.rows, p.U[g][i*n.Hidden:][:n.Hidden]...)
			r.rows = append(r.rows, p.B[g][i], p.B[3][i])
		}
	}
	r.out = append(append(append(r.out, p.X...), p.V...), p.D...)
	return r
}

// Hidden is the length of a state.
func (r *Runner) Hidden() int { return r.hidden }

// Clone shares the weights, which are never written to.
func (r *Runner) Clone() *Runner {
	out := *r
	out.next = make([]float64, r.hidden)
	return &out
}

// Step replaces the state by that after input x and returns the read-out.
func (r *Runner) Step(x, state []float64) float64 {
	inputs, hidden := len(x), len(state)
	row := inputs + hidden + 2
	for i := range hidden {
		three := r.rows[3*i*row:][:3*row]
		ra, rb, rc := three[:row:row], three[row:2*row:2*row], three[2*row:]
		a, b, c, d := ra[row-2], rb[row-2], rc[row-2], rc[row-1]
		wa, wb, wc := ra[:inputs], rb[:inputs], rc[:inputs]
		for k, v := range x {
			a += wa[k] * v
			b += wb[k] * v
			c += wc[k] * v
		}
		ua, ub, ud := ra[inputs:][:hidden], rb[inputs:][:hidden], rc[inputs:][:hidden]
		// Two sums each: an addition needn't wait for the one before it.
		var a2, b2, d2 float64
		k := 0
		for ; k+1 < len(state) && k+1 < len(ua) && k+1 < len(ub) && k+1 < len(ud); k += 2 {
			v, v2 := state[k], state[k+1]
			a += ua[k] * v
			b += ub[k] * v
			d += ud[k] * v
			a2 += ua[k+1] * v2
			b2 += ub[k+1] * v2
			d2 += ud[k+1] * v2
		}
		for ; k < len(state); k++ {
			a += ua[k] * state[k]
			b += ub[k] * state[k]
			d += ud[k] * state[k]
		}
		a, b, d = a+a2, b+b2, d+d2
		z := 0.5 + 0.5*tanh(0.5*b)
		n := tanh(c + (0.5+0.5*tanh(0.5*a))*d)
		r.next[i] = n + z*(state[i]-n)
	}
	copy(state, r.next)
	y := r.out[inputs+hidden]
	for k, v := range x {
		y += r.out[k] * v
	}
	for k, v := range state {
		y += r.out[inputs+k] * v
	}
	return y
}

// tanh within 1e-6: the rational approximation of degrees 13 and 6 that Eigen uses
// (MathFunctionsImpl.h, ptanh_float), beyond whose bounds it is ±1 within that.
func tanh(x float64) float64 {
	const bound = 7.90531110763549805
	switch {
	case x > bound:
		x = bound
	case x < -bound:
		x = -bound
	}
	q := x * x
	top := -2.76076847742355e-16
	top = top*q + 2.00018790482477e-13
	top = top*q - 8.60467152213735e-11
	top = top*q + 5.12229709037114e-08
	top = top*q + 1.48572235717979e-05
	top = top*q + 6.37261928875436e-04
	top = top*q + 4.89352455891786e-03
	bottom := 1.19825839466702e-06
	bottom = bottom*q + 1.18534705686654e-04
	bottom = bottom*q + 2.26843463243900e-03
	bottom = bottom*q + 4.89352518554385e-03
	return x * top / bottom
}
