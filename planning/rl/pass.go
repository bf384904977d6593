package rl

import (
	"math"

	"gonum.org/v1/gonum/blas"
	gonum "gonum.org/v1/gonum/blas/gonum"
)

var kernels gonum.Implementation

// Pass computes with a network: it holds the values between its layers. A Pass is for
// one goroutine; several may share a network that nobody changes.
type Pass struct {
	net *Network
	// rows is the batch that there is room for, last that of the last Forward.
	rows, last int
	// values has the inputs and then each layer's outputs, row after row; grads the
	// derivatives by them, made when first asked for.
	values, grads [][]float32
	// inverse has 1/deviation of each row for each LayerNorm, by layer.
	inverse [][]float32
}

// NewPass makes room for batches of up to rows.
func (n *Network) NewPass(rows int) *Pass {
	p := &Pass{net: n, rows: rows, values: [][]float32{make([]float32, rows*n.Architecture.Inputs)}, inverse: make([][]float32, len(n.stages))}
	for i, s := range n.stages {
		p.values = append(p.values, make([]float32, rows*s.out))
		if s.kind == LayerNorm {
			p.inverse[i] = make([]float32, rows)
		}
	}
	return p
}

// Forward returns the outputs for a batch: x has one input after the other, rows of
// them, and the result one output after the other. It holds until the next Forward.
// Nothing is allocated.
func (p *Pass) Forward(x []float32, rows int) []float32 {
	n := p.net
	p.last = rows
	copy(p.values[0], x[:rows*n.Architecture.Inputs])
	for i := range n.stages {
		s := &n.stages[i]
		in, out := p.values[i][:rows*s.in], p.values[i+1][:rows*s.out]
		switch s.kind {
		case Dense:
			dense(n.Params[s.at:][:(s.in+1)*s.out], in, out, rows, s)
		case LayerNorm:
			layerNorm(n.Params[s.at:][:2*s.in], in, out, p.inverse[i], s.in)
		case ReLU:
			for j, v := range in {
				out[j] = max(v, 0)
			}
		case Tanh:
			for j, v := range in {
				out[j] = tanh(v)
			}
		case Dueling:
			for r := range rows {
				a, y := in[r*s.in+1:][:s.out], out[r*s.out:][:s.out]
				shift := in[r*s.in] - mean(a)
				for j, v := range a {
					y[j] = shift + v
				}
			}
		}
	}
	return p.values[len(p.values)-1][:rows*n.Outputs()]
}

// narrow is the width up to which a plain loop beats a call.
const narrow = 8

func dense(params, in, out []float32, rows int, s *stage) {
	bias := params[s.in*s.out:]
	for r := range rows {
		copy(out[r*s.out:][:s.out], bias)
	}
	switch {
	case rows > 1:
		kernels.Sgemm(blas.NoTrans, blas.NoTrans, rows, s.out, s.in, 1, in, s.in, params, s.out, 1, out, s.out)
	case s.out <= narrow:
		for k, v := range in {
			row := params[k*s.out:][:len(out)]
			for j := range out {
				out[j] += v * row[j]
			}
		}
	default:
		for k, v := range in {
			kernels.Saxpy(s.out, v, params[k*s.out:], 1, out, 1) // returns at once for 0
		}
	}
}

func mean(x []float32) float32 {
	var sum float32
	for _, v := range x {
		sum += v
	}
	return sum / float32(len(x))
}

// normEpsilon keeps LayerNorm from dividing by zero; PyTorch's.
const normEpsilon = 1e-5

func layerNorm(params, in, out, inverse []float32, width int) {
	gain, bias := params[:width], params[width:]
	for r := 0; r*width < len(in); r++ {
		x, y := in[r*width:][:width], out[r*width:][:width]
		m := mean(x)
		var sum float32
		for _, v := range x {
			sum += (v - m) * (v - m)
		}
		inverse[r] = float32(1 / math.Sqrt(float64(sum)/float64(width)+normEpsilon))
		for j, v := range x {
			y[j] = (v-m)*inverse[r]*gain[j] + bias[j]
		}
	}
}

// Backward adds to grads, which is as long as the parameters, the derivatives of a loss
// by the parameters, from those by the outputs of the last Forward, and returns those by
// its inputs. With grads nil it returns those only. The result holds until the next call.
func (p *Pass) Backward(outputs, grads []float32) (inputs []float32) {
	n, rows := p.net, p.last
	if p.grads == nil {
		for _, v := range p.values {
			p.grads = append(p.grads, make([]float32, len(v)))
		}
	}
	copy(p.grads[len(n.stages)], outputs[:rows*n.Outputs()])
	for i := len(n.stages) - 1; i >= 0; i-- {
		s := &n.stages[i]
		in, out := p.values[i][:rows*s.in], p.values[i+1][:rows*s.out]
		din, dout := p.grads[i][:rows*s.in], p.grads[i+1][:rows*s.out]
		switch s.kind {
		case Dense:
			if grads != nil {
				g := grads[s.at:][:(s.in+1)*s.out]
				kernels.Sgemm(blas.Trans, blas.NoTrans, s.in, s.out, rows, 1, in, s.in, dout, s.out, 1, g, s.out)
				bias := g[s.in*s.out:]
				for r := range rows {
					for j, v := range dout[r*s.out:][:s.out] {
						bias[j] += v
					}
				}
			}
			kernels.Sgemm(blas.NoTrans, blas.Trans, rows, s.in, s.out, 1, dout, s.out, n.Params[s.at:], s.out, 0, din, s.in)
		case LayerNorm:
			var g []float32
			if grads != nil {
				g = grads[s.at:][:2*s.in]
			}
			layerNormBack(n.Params[s.at:][:s.in], g, in, din, dout, p.inverse[i])
		case ReLU:
			for j, v := range in {
				din[j] = 0
				if v > 0 {
					din[j] = dout[j]
				}
			}
		case Tanh:
			for j, y := range out {
				din[j] = dout[j] * (1 - y*y)
			}
		case Dueling:
			for r := range rows {
				d, a := dout[r*s.out:][:s.out], din[r*s.in:][:s.in]
				m := mean(d)
				a[0] = m * float32(s.out)
				for j, v := range d {
					a[j+1] = v - m
				}
			}
		}
	}
	return p.grads[0][:rows*n.Architecture.Inputs]
}

// layerNormBack: with x̂ the normalised input and e = g ∘ dy,
// dx = (e − mean e − x̂·mean(e ∘ x̂)) / deviation.
func layerNormBack(gain, grads, in, din, dout, inverse []float32) {
	width := len(gain)
	for r := 0; r*width < len(in); r++ {
		x, dx, dy := in[r*width:][:width], din[r*width:][:width], dout[r*width:][:width]
		m, inv := mean(x), inverse[r]
		var me, mex float32
		for j, v := range dy {
			hat := (x[j] - m) * inv
			if grads != nil {
				grads[j] += v * hat
				grads[width+j] += v
			}
			me += gain[j] * v
			mex += gain[j] * v * hat
		}
		me, mex = me/float32(width), mex/float32(width)
		for j, v := range dy {
			dx[j] = (gain[j]*v - me - (x[j]-m)*inv*mex) * inv
		}
	}
}

// tanh within 1e-6: the rational approximation of degrees 13 and 6 that Eigen uses
// (MathFunctionsImpl.h, ptanh_float), beyond whose bounds it is ±1 within that.
func tanh(x float32) float32 {
	const bound = 7.90531110763549805
	x = min(max(x, -bound), bound)
	q := x * x
	top := float32(-2.76076847742355e-16)
	top = top*q + 2.00018790482477e-13
	top = top*q - 8.60467152213735e-11
	top = top*q + 5.12229709037114e-08
	top = top*q + 1.48572235717979e-05
	top = top*q + 6.37261928875436e-04
	top = top*q + 4.89352455891786e-03
	low := float32(1.19825839466702e-06)
	low = low*q + 1.18534705686654e-04
	low = low*q + 2.26843463243900e-03
	low = low*q + 4.89352518554385e-03
	return x * top / low
}
