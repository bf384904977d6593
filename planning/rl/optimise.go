package rl

import "math"

// Adam is the optimiser of Kingma & Ba 2015, with decoupled weight decay (AdamW:
// Loshchilov & Hutter 2019) and AMSGrad (Reddi et al. 2018) if asked for. The zero value
// but for Rate is ready to use.
type Adam struct {
	// Rate is the learning rate. It may be changed between steps.
	Rate float64
	// Beta1 and Beta2 are the decays of the moments; 0 for 0.9 and 0.999.
	Beta1, Beta2 float64
	// Epsilon is added to the root of the second moment; 0 for 1e-8.
	Epsilon float64
	// Decay is the weight decay of AdamW: each step takes Rate·Decay of every parameter.
	Decay float64
	// AMSGrad divides by the largest second moment there was.
	AMSGrad bool

	steps                 int
	first, second, larges []float32
}

// Step moves parameters against their gradients.
func (a *Adam) Step(params, grads []float32) {
	b1, b2, eps := or(a.Beta1, 0.9), or(a.Beta2, 0.999), or(a.Epsilon, 1e-8)
	if a.first == nil {
		a.first, a.second = make([]float32, len(params)), make([]float32, len(params))
		if a.AMSGrad {
			a.larges = make([]float32, len(params))
		}
	}
	a.steps++
	rate := float32(a.Rate / (1 - math.Pow(b1, float64(a.steps))))
	correct := float32(1 / math.Sqrt(1-math.Pow(b2, float64(a.steps))))
	keep := float32(1 - a.Rate*a.Decay)
	beta1, beta2, e := float32(b1), float32(b2), float32(eps)
	first, second := a.first[:len(params)], a.second[:len(params)]
	for i, g := range grads[:len(params)] {
		first[i] = beta1*first[i] + (1-beta1)*g
		second[i] = beta2*second[i] + (1-beta2)*g*g
		v := second[i]
		if a.AMSGrad {
			v = max(v, a.larges[i])
			a.larges[i] = v
		}
		root := float32(math.Sqrt(float64(v)))
		params[i] = keep*params[i] - rate*first[i]/(root*correct+e)
	}
}

func or(v, otherwise float64) float64 {
	if v == 0 {
		return otherwise
	}
	return v
}

// ClipValue cuts each gradient to ±limit; 0 is no limit.
func ClipValue(grads []float32, limit float64) {
	if limit <= 0 {
		return
	}
	l := float32(limit)
	for i, g := range grads {
		grads[i] = min(max(g, -l), l)
	}
}

// ClipNorm scales gradients so that their Euclidean norm is limit at most, and returns
// what it was; 0 is no limit.
func ClipNorm(grads []float32, limit float64) float64 {
	var sum float64
	for _, g := range grads {
		sum += float64(g) * float64(g)
	}
	norm := math.Sqrt(sum)
	if limit > 0 && norm > limit {
		scale := float32(limit / norm)
		for i := range grads {
			grads[i] *= scale
		}
	}
	return norm
}
