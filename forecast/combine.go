package forecast

import (
	"math"
	"slices"
)

// boa is Bernstein online aggregation (Wintenberger 2017, algorithm 1 with the
// adaptive rates of §3): experts are weighted by their regrets and the squares
// of these. With the gradient of the loss at the mixture in place of the loss,
// as here, its regret to the best fixed mixture of E experts over T rounds is
// O(√(T·ln E)·log log T) and O(ln E) where one expert is better than the others
// by a margin. Regrets may be discounted (Chernov and Zhdanov 2010), so that it
// comes back within a few rounds after a change of the best: the bound then holds
// with 1/forget in place of T.
type boa struct {
	prior             []float64
	regret, square, e []float64
	weights           []float64
	forget            float64 // share of the past that a round takes away
}

func newBOA(prior []float64, forget float64) *boa {
	n := len(prior)
	b := &boa{
		prior: prior, regret: make([]float64, n), square: make([]float64, n), e: make([]float64, n),
		weights: append([]float64(nil), prior...), forget: forget,
	}
	return b
}

// regrets writes by how much the mixture's absolute loss, linearised, was above
// each expert's, a mean over the steps of a round: said are the experts' paths,
// of which as much counts as there are actual values. It returns false where all
// of these are gaps.
func (b *boa) regrets(said [][]float64, actual []float64, unit float64, out []float64) bool {
	clear(out)
	n := 0
	for k, v := range actual {
		if math.IsNaN(v) {
			continue
		}
		mixed := 0.0
		for j, path := range said {
			mixed += b.weights[j] * path[k]
		}
		slope := 1.0
		if mixed < v {
			slope = -1
		}
		for j, path := range said {
			out[j] += slope * (mixed - path[k])
		}
		n++
	}
	for j := range out {
		out[j] /= float64(max(1, n)) * unit
	}
	return n > 0
}

// clone is b, to be written to.
func (b *boa) clone() *boa {
	return &boa{
		prior: b.prior, regret: slices.Clone(b.regret), square: slices.Clone(b.square), e: slices.Clone(b.e),
		weights: slices.Clone(b.weights), forget: b.forget,
	}
}

// learn takes the regrets of one round: by how much the mixture's loss,
// linearised, was above each expert's.
func (b *boa) learn(r []float64) {
	logs := make([]float64, len(r))
	top := math.Inf(-1)
	for j, v := range r {
		b.e[j] = max(b.e[j], math.Abs(v))
		b.regret[j] *= 1 - b.forget
		b.square[j] = (1-b.forget)*b.square[j] + v*v
		eta := 1.0
		if b.e[j] > 0 {
			eta = min(1/(2*b.e[j]), math.Sqrt(math.Log(1/b.prior[j])/b.square[j]))
		}
		b.regret[j] += v - eta*v*v
		logs[j] = math.Log(b.prior[j]) + math.Log(eta) + eta*b.regret[j]
		top = max(top, logs[j])
	}
	sum := 0.0
	for j, l := range logs {
		b.weights[j] = math.Exp(l - top)
		sum += b.weights[j]
	}
	for j := range b.weights {
		b.weights[j] /= sum
	}
}
