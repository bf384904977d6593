package onnx

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mash2-io/mash2/planning/rl"
)

// Versions that are written: of the representation, and of the operators, the first with
// LayerNormalization.
const (
	irVersion = 8
	opset     = 17
)

// Names of the input and the output that are written: [batch, inputs] and [batch, outputs].
const (
	Input  = "observation"
	Output = "action"
)

// Write turns a model into an ONNX file. A dueling layer, which is linear, becomes a
// MatMul by its matrix.
func Write(m Model) ([]byte, error) {
	var w writer
	at, params := 0, m.Network.Params
	next := func(n int) []float32 {
		at += n
		return params[at-n : at]
	}
	width := m.Network.Architecture.Inputs
	for _, l := range m.Network.Architecture.Layers {
		switch l.Kind {
		case rl.Dense:
			weights, bias := next(width*l.Outputs), next(l.Outputs)
			w.node("Gemm", w.tensor(weights, width, l.Outputs), w.tensor(bias, l.Outputs))
			width = l.Outputs
		case rl.LayerNorm:
			w.node("LayerNormalization", w.tensor(next(width), width), w.tensor(next(width), width))
		case rl.ReLU:
			w.node("Relu")
		case rl.Tanh:
			w.node("Tanh")
		case rl.Dueling:
			n := width - 1
			matrix := make([]float32, width*n)
			for i := range n {
				matrix[i] = 1
				for j := range n {
					matrix[(j+1)*n+i] = -1 / float32(n)
					if i == j {
						matrix[(j+1)*n+i]++
					}
				}
			}
			w.node("MatMul", w.tensor(matrix, width, n))
			width = n
		default:
			return nil, fmt.Errorf("onnx: a layer of kind %q can't be written", l.Kind)
		}
	}
	for _, s := range m.Tail {
		switch s.Op {
		case Clip:
			w.node("Clip", w.tensor([]float32{s.Low}), w.tensor([]float32{s.High}))
		case Softmax:
			w.node("Softmax")
		case ArgMax:
			return nil, fmt.Errorf("onnx: %s is not written: decide by the largest output", s.Op)
		}
	}
	return w.model(m.Network.Architecture.Inputs, width), nil
}

// writer collects a graph: nodes that follow one another, and their constants.
type writer struct {
	nodes   []node
	tensors [][]byte
}

func text(b []byte, num protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
}

func inner(b []byte, num protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), message)
}

func number(b []byte, num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

// tensor adds a constant and returns its name.
func (w *writer) tensor(data []float32, dims ...int) string {
	name := fmt.Sprintf("c%d", len(w.tensors))
	var b []byte
	for _, d := range dims {
		b = number(b, 1, uint64(d))
	}
	b = number(b, 2, kindFloat)
	b = text(b, 8, name)
	raw := make([]byte, 0, 4*len(data))
	for _, v := range data {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	w.tensors = append(w.tensors, inner(b, 9, raw))
	return name
}

// node adds an operation on the output of the one before.
func (w *writer) node(op string, constants ...string) {
	in, out := Input, fmt.Sprintf("v%d", len(w.nodes))
	if n := len(w.nodes); n > 0 {
		in = w.nodes[n-1].outputs[0]
	}
	w.nodes = append(w.nodes, node{op: op, name: fmt.Sprintf("%s_%d", op, len(w.nodes)), inputs: append([]string{in}, constants...), outputs: []string{out}})
}

func (w *writer) model(inputs, outputs int) []byte {
	w.nodes[len(w.nodes)-1].outputs[0] = Output
	var g []byte
	for _, n := range w.nodes {
		var b []byte
		for _, in := range n.inputs {
			b = text(b, 1, in)
		}
		b = text(b, 2, n.outputs[0])
		b = text(b, 3, n.name)
		g = inner(g, 1, text(b, 4, n.op))
	}
	g = text(g, 2, "policy")
	for _, t := range w.tensors {
		g = inner(g, 5, t)
	}
	value := func(name string, width int) []byte {
		var shape []byte
		shape = inner(shape, 1, text(nil, 2, "batch"))
		shape = inner(shape, 1, number(nil, 1, uint64(width)))
		tensorType := inner(number(nil, 1, kindFloat), 2, shape)
		return inner(text(nil, 1, name), 2, inner(nil, 1, tensorType))
	}
	g = inner(g, 11, value(Input, inputs))
	g = inner(g, 12, value(Output, outputs))
	b := number(nil, 1, irVersion)
	b = text(b, 2, "mash2")
	b = inner(b, 7, g)
	return inner(b, 8, number(text(nil, 1, ""), 2, opset))
}
