// Package gru is a small recurrent network of gated units: what runs it, and what
// those need who train one.
package gru

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
)

// Net is one layer of gated recurrent units (Cho et al. 2014, with the reset gate
// behind the matrix as in cuDNN) and a linear read-out with a direct path from the
// inputs:
//
//	r = σ(W_r x + U_r h + b_r)
//	z = σ(W_z x + U_z h + b_z)
//	n = tanh(W_n x + b_n + r ∘ (U_n h + c_n))
//	h' = (1−z) ∘ n + z ∘ h
//	y = v·h' + w·x + d
type Net struct {
	Inputs int `json:"inputs"`
	Hidden int `json:"hidden"`
	// Weights in the order W_r W_z W_n (hidden × inputs each), U_r U_z U_n
	// (hidden × hidden each), b_r b_z b_n c_n (hidden each), v, w, d.
	Weights []float64 `json:"weights"`
	// Trained names what it was trained on.
	Trained []string `json:"trained,omitempty"`
}

// Size is the number of weights of a net.
func Size(inputs, hidden int) int {
	return 3*hidden*inputs + 3*hidden*hidden + 4*hidden + hidden + inputs + 1
}

// Parts are a net's weights, or their gradients, by name.
type Parts struct {
	W, U [3][]float64 // of r, z, n: row after row
	B    [4][]float64 // b_r, b_z, b_n, c_n
	V, X []float64    // read-out of the state and of the inputs
	D    []float64    // one number
}

// Split cuts a vector of Size numbers into parts, without copying.
func Split(weights []float64, inputs, hidden int) Parts {
	cut := func(n int) []float64 {
		part := weights[:n:n]
		weights = weights[n:]
		return part
	}
	var p Parts
	for i := range p.W {
		p.W[i] = cut(hidden * inputs)
	}
	for i := range p.U {
		p.U[i] = cut(hidden * hidden)
	}
	for i := range p.B {
		p.B[i] = cut(hidden)
	}
	p.V, p.X, p.D = cut(hidden), cut(inputs), cut(1)
	return p
}

// Gates are what a step went through: what learning needs of it. All have
// one number per hidden unit.
type Gates struct{ R, Z, N, Un []float64 }

// NewGates makes room for a step's.
func NewGates(hidden int) Gates {
	return Gates{make([]float64, hidden), make([]float64, hidden), make([]float64, hidden), make([]float64, hidden)}
}

// Step writes the state after input x to next and returns the read-out. State and
// next may be the same.
func (p Parts) Step(x, state, next []float64, g Gates) float64 {
	hidden, inputs := len(state), len(x)
	for i := range hidden {
		r, z, n := p.B[0][i], p.B[1][i], p.B[2][i]
		wr, wz, wn := p.W[0][i*inputs:], p.W[1][i*inputs:], p.W[2][i*inputs:]
		for k, v := range x {
			r += wr[k] * v
			z += wz[k] * v
			n += wn[k] * v
		}
		un := p.B[3][i]
		ur, uz, uu := p.U[0][i*hidden:][:hidden], p.U[1][i*hidden:][:hidden], p.U[2][i*hidden:][:hidden]
		for k, h := range state {
			r += ur[k] * h
			z += uz[k] * h
			un += uu[k] * h
		}
		g.R[i], g.Z[i], g.Un[i] = Sigmoid(r), Sigmoid(z), un
		g.N[i] = math.Tanh(n + g.R[i]*un)
	}
	y := p.D[0]
	for i := range hidden {
		next[i] = (1-g.Z[i])*g.N[i] + g.Z[i]*state[i]
		y += p.V[i] * next[i]
	}
	for k, v := range x {
		y += p.X[k] * v
	}
	return y
}

// Sigmoid is the logistic function.
func Sigmoid(v float64) float64 { return 1 / (1 + math.Exp(-v)) }

// Features of a series at one sample, for the net that is shipped: Inputs
// numbers. Values are in units of the series' mean. V is the newest one, before
// the one before it; with a season, then is what was a season before v and next
// what came after that.
func Features(x []float64, v, before, then, next float64, seasonal bool) {
	x[0], x[1] = limit(v-1), limit(v-before)
	x[2], x[3], x[4] = 0, 0, 0
	if seasonal {
		x[2], x[3], x[4] = limit(next-then), limit(v-then), 1
	}
}

// Inputs of the net that is shipped.
const Inputs = 5

// limit keeps a freak from saturating every unit.
func limit(v float64) float64 { return max(-4, min(4, v)) }

//go:embed weights.json
var shipped []byte

// Shipped is the net that make train-gru made.
func Shipped() (Net, error) { return Parse(shipped) }

// Parse reads a net. It returns an error for one whose shape does not fit its
// weights.
func Parse(text []byte) (Net, error) {
	var n Net
	if err := json.Unmarshal(text, &n); err != nil {
		return n, fmt.Errorf("reading a network: %w", err)
	}
	if n.Inputs < 1 || n.Hidden < 1 || n.Inputs > 1000 || n.Hidden > 1000 || len(n.Weights) != Size(n.Inputs, n.Hidden) {
		return n, fmt.Errorf("a network of %d inputs and %d units has %d weights, not %d", n.Inputs, n.Hidden, Size(n.Inputs, n.Hidden), len(n.Weights))
	}
	return n, nil
}
