package rl

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Kind is what a layer does.
type Kind string

// The kinds of layers.
const (
	// Dense is y = Wx + b, of any number of outputs.
	Dense Kind = "dense"
	// LayerNorm is y = g ∘ (x − mean x)/√(var x + 1e-5) + b (Ba et al. 2016).
	LayerNorm Kind = "layernorm"
	// ReLU is y = max(x, 0).
	ReLU Kind = "relu"
	// Tanh is the hyperbolic tangent, within 1e-6.
	Tanh Kind = "tanh"
	// Dueling is yᵢ = x₀ + xᵢ − mean of x₁…xₙ: a state's value and the advantages of n
	// actions (Wang et al. 2016, eq. 9). It has one output less than inputs.
	Dueling Kind = "dueling"
)

// Layer is one stage of a network.
type Layer struct {
	Kind Kind `json:"kind"`
	// Outputs of a dense layer. The other kinds have as many as their input gives them.
	Outputs int `json:"outputs,omitempty"`
}

// Architecture is the shape of a network.
type Architecture struct {
	Inputs int     `json:"inputs"`
	Layers []Layer `json:"layers"`
}

// MLP is a multilayer perceptron: dense layers of the hidden sizes, each with LayerNorm
// behind it if norm is set and with an activation, and a linear head.
func MLP(inputs int, hidden []int, norm bool, activation Kind, outputs int) Architecture {
	a := Architecture{Inputs: inputs}
	for _, n := range hidden {
		a.Layers = append(a.Layers, Layer{Dense, n})
		if norm {
			a.Layers = append(a.Layers, Layer{Kind: LayerNorm})
		}
		a.Layers = append(a.Layers, Layer{Kind: activation})
	}
	a.Layers = append(a.Layers, Layer{Dense, outputs})
	return a
}

// maxWidth and maxLayers bound what a file can ask for.
const maxWidth, maxLayers = 1 << 14, 64

// stage is a layer with its place among the parameters.
type stage struct {
	kind    Kind
	in, out int
	// at is where its parameters begin: of a dense layer in×out weights, row i being
	// those that go out from input i, and out biases; of LayerNorm gains and biases.
	at int
}

func (a Architecture) stages() (out []stage, size int, err error) {
	if a.Inputs < 1 || a.Inputs > maxWidth || len(a.Layers) == 0 || len(a.Layers) > maxLayers {
		return nil, 0, fmt.Errorf("a network of %d inputs and %d layers", a.Inputs, len(a.Layers))
	}
	width := a.Inputs
	for i, l := range a.Layers {
		s := stage{kind: l.Kind, in: width, out: width, at: size}
		switch l.Kind {
		case Dense:
			if l.Outputs < 1 || l.Outputs > maxWidth {
				return nil, 0, fmt.Errorf("layer %d is dense with %d outputs", i, l.Outputs)
			}
			s.out = l.Outputs
			size += s.in*s.out + s.out
		case LayerNorm:
			size += 2 * width
		case ReLU, Tanh:
		case Dueling:
			if s.out--; s.out < 1 {
				return nil, 0, errors.New("a dueling layer needs a value and an advantage at least")
			}
		default:
			return nil, 0, fmt.Errorf("layer %d is of unknown kind %q", i, l.Kind)
		}
		out = append(out, s)
		width = s.out
	}
	return out, size, nil
}

// Network is a feed-forward network. Its parameters may be changed; whoever computes
// with it has a [Pass].
type Network struct {
	Architecture Architecture
	// Params are all parameters, layer after layer: see stage.
	Params []float32
	stages []stage
}

// NewNetwork makes a network whose parameters are zero, those of LayerNorm's gains one.
func NewNetwork(a Architecture) (*Network, error) {
	stages, size, err := a.stages()
	if err != nil {
		return nil, err
	}
	n := &Network{Architecture: a, Params: make([]float32, size), stages: stages}
	for _, s := range stages {
		if s.kind == LayerNorm {
			for i := range s.in {
				n.Params[s.at+i] = 1
			}
		}
	}
	return n, nil
}

// Outputs is the length of an output.
func (n *Network) Outputs() int { return n.stages[len(n.stages)-1].out }

// Clone copies a network with its parameters.
func (n *Network) Clone() *Network {
	out := *n
	out.Params = slices.Clone(n.Params)
	return &out
}

// Follow moves parameters towards those of another network of the same shape:
// θ ← (1−tau)·θ + tau·θ'. With tau 1 it copies them.
func (n *Network) Follow(other *Network, tau float32) {
	if tau == 1 {
		copy(n.Params, other.Params)
		return
	}
	for i, v := range other.Params[:len(n.Params)] {
		n.Params[i] += tau * (v - n.Params[i])
	}
}

// InitKaiming draws weights and biases of dense layers uniformly from ±1/√in: He et al.
// 2015 with the gain that PyTorch's Linear has, a = √5.
func (n *Network) InitKaiming(rng *rand.Rand) {
	for _, s := range n.stages {
		if s.kind != Dense {
			continue
		}
		bound := 1 / math.Sqrt(float64(s.in))
		for i := range s.in*s.out + s.out {
			n.Params[s.at+i] = float32((2*rng.Float64() - 1) * bound)
		}
	}
}

// InitOrthogonal makes the weights of dense layers orthogonal (Saxe et al. 2014) and
// biases zero. Hidden layers are scaled by √2, the last dense layer by head.
func (n *Network) InitOrthogonal(rng *rand.Rand, head float64) {
	last := 0
	for i, s := range n.stages {
		if s.kind == Dense {
			last = i
		}
	}
	for i, s := range n.stages {
		if s.kind != Dense {
			continue
		}
		gain := math.Sqrt2
		if i == last {
			gain = head
		}
		rows, cols := s.in, s.out
		wide := cols > rows
		if wide {
			rows, cols = cols, rows
		}
		q := orthonormal(rng, rows, cols)
		for r := range s.in {
			for c := range s.out {
				i, j := c, r
				if wide {
					i, j = r, c
				}
				n.Params[s.at+r*s.out+c] = float32(gain * q[i][j])
			}
		}
		clear(n.Params[s.at+s.in*s.out:][:s.out])
	}
}

// orthonormal returns cols random vectors of length rows ≥ cols, orthonormal by modified
// Gram–Schmidt, done twice against rounding (Giraud et al. 2005).
func orthonormal(rng *rand.Rand, rows, cols int) [][]float64 {
	out := make([][]float64, cols)
	for i := range out {
		v := make([]float64, rows)
		for j := range v {
			v[j] = rng.NormFloat64()
		}
		for range 2 {
			for _, u := range out[:i] {
				var dot float64
				for j := range v {
					dot += u[j] * v[j]
				}
				for j := range v {
					v[j] -= dot * u[j]
				}
			}
		}
		var norm float64
		for _, x := range v {
			norm += x * x
		}
		for j := range v {
			v[j] /= math.Sqrt(norm)
		}
		out[i] = v
	}
	return out
}
