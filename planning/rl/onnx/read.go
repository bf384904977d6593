package onnx

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/planning/rl"
)

// Step is what comes behind a network's layers.
type Step struct {
	Op Op
	// Low and High of Clip.
	Low, High float32
}

// Op is what a step does.
type Op string

// The steps.
const (
	Clip    Op = "Clip"
	Softmax Op = "Softmax"
	// ArgMax makes of each output one number, the index of the largest.
	ArgMax Op = "ArgMax"
)

// Model is a policy's network as a graph has it.
type Model struct {
	Network *rl.Network
	// Tail are steps behind its layers, in order. Whoever decides by the largest output,
	// or cuts outputs to an action's bounds, needs none of them.
	Tail []Step
}

// Read reads a model: what its graph computes of its input until one of its outputs, the
// first if output is empty. The first size of an input is the batch's; the others,
// multiplied, are how many numbers the network reads. It returns an error for what is not in the package's list.
func Read(data []byte, output string) (Model, error) {
	g, opset, err := parseModel(data)
	if err != nil {
		return Model{}, err
	}
	if opset < 7 {
		return Model{}, fmt.Errorf("onnx: operator set %d, 7 or later is read", opset)
	}
	if len(g.inputs) != 1 {
		return Model{}, fmt.Errorf("onnx: %d inputs, one is read", len(g.inputs))
	}
	if output == "" && len(g.outputs) > 0 {
		output = g.outputs[0]
	}
	if !slices.Contains(g.outputs, output) {
		return Model{}, fmt.Errorf("onnx: no output %q, there are %s", output, strings.Join(g.outputs, ", "))
	}
	chain, err := g.chain(output)
	if err != nil {
		return Model{}, err
	}
	r := reader{graph: g, width: width(g.inputs[0].dims)}
	if r.width == 0 { // as wide as the first weights make it
		r.width = r.firstWidth(chain)
	}
	if r.width < 1 || r.width > maxElements {
		return Model{}, fmt.Errorf("onnx: the input %q has the sizes %v, its width can't be told", g.inputs[0].name, g.inputs[0].dims)
	}
	r.arch.Inputs = r.width
	for _, n := range chain {
		if err := r.take(n); err != nil {
			return Model{}, fmt.Errorf("onnx: %s %q: %w", n.op, n.name, err)
		}
	}
	if len(r.arch.Layers) == 0 {
		return Model{}, fmt.Errorf("onnx: no layers between %q and %q", g.inputs[0].name, output)
	}
	net, err := rl.NewNetwork(r.arch)
	if err != nil {
		return Model{}, fmt.Errorf("onnx: %w", err)
	}
	for _, v := range r.params {
		if v-v != 0 {
			return Model{}, fmt.Errorf("onnx: a weight is %g", v)
		}
	}
	copy(net.Params, r.params)
	return Model{Network: net, Tail: r.tail}, nil
}

// width is what one input of a batch has, 0 if that is not fixed.
func width(dims []int64) int {
	n := int64(1)
	for _, d := range dims[min(1, len(dims)):] {
		if n *= d; n > maxElements {
			return 0
		}
	}
	if len(dims) < 2 {
		return 0
	}
	return int(n)
}

// chain lists the nodes from a graph's input to an output.
func (g graph) chain(output string) ([]node, error) {
	made := map[string]int{}
	for i, n := range g.nodes {
		for _, o := range n.outputs[:min(1, len(n.outputs))] { // of Dropout the second is its mask
			made[o] = i
		}
	}
	var out []node
	for at := output; at != g.inputs[0].name; {
		i, ok := made[at]
		if !ok || len(out) > len(g.nodes) {
			return nil, fmt.Errorf("onnx: nothing makes %q", at)
		}
		n, data := g.nodes[i], ""
		for _, in := range n.inputs {
			if _, constant := g.initializers[in]; constant || in == "" {
				continue
			}
			if data != "" {
				return nil, fmt.Errorf("onnx: %s %q joins %q and %q: a graph that branches is not read", n.op, n.name, data, in)
			}
			data = in
		}
		if data == "" {
			return nil, fmt.Errorf("onnx: %s %q depends on no input", n.op, n.name)
		}
		out, at = append(out, n), data
	}
	slices.Reverse(out)
	return out, nil
}

// reader makes a network of nodes, one after the other.
type reader struct {
	graph  graph
	arch   rl.Architecture
	params []float32
	width  int // of what the layers so far give
	eyes   int // numbers of matrices that the file does not have
	tail   []Step
}

// firstWidth is the input's width by the first weights of a chain.
func (r *reader) firstWidth(chain []node) int {
	for _, n := range chain {
		if n.op != "Gemm" && n.op != "MatMul" || len(n.inputs) < 2 {
			continue
		}
		if t := r.graph.initializers[n.inputs[1]]; len(t.dims) == 2 {
			if n.op == "Gemm" && n.attributes["transB"].i != 0 {
				return int(t.dims[1])
			}
			return int(t.dims[0])
		}
	}
	return 0
}

// constant is a node's input of floats that is a constant.
func (r *reader) constant(n node, i int) (tensor, error) {
	if i >= len(n.inputs) {
		return tensor{}, fmt.Errorf("has no input %d", i)
	}
	t, ok := r.graph.initializers[n.inputs[i]]
	if !ok {
		return tensor{}, fmt.Errorf("its input %d is no constant", i)
	}
	if t.kind != kindFloat {
		return tensor{}, fmt.Errorf("its input %d is of element type %d, float (1) is read", i, t.kind)
	}
	return t, nil
}

// vector is a constant as one number for each of the present outputs.
func (r *reader) vector(t tensor) ([]float32, error) {
	out := make([]float32, r.width)
	switch len(t.data) {
	case 1:
		for i := range out {
			out[i] = t.data[0]
		}
	case r.width:
		if len(t.dims) > 0 && t.dims[len(t.dims)-1] != int64(r.width) {
			return nil, fmt.Errorf("a constant of the sizes %v for a width of %d", t.dims, r.width)
		}
		copy(out, t.data)
	default:
		return nil, fmt.Errorf("a constant of the sizes %v for a width of %d", t.dims, r.width)
	}
	return out, nil
}

// maxDiagonal is the width up to which an operation by elements may become a matrix. All such
// matrices together have no more numbers than one of this width: a small file stays small.
const maxDiagonal = 1 << 11

func (r *reader) take(n node) error {
	if len(r.tail) > 0 {
		if last := r.tail[len(r.tail)-1].Op; last == ArgMax || n.op != string(Softmax) && n.op != string(ArgMax) && n.op != string(Clip) {
			return fmt.Errorf("behind %s, which is read at the end only", last)
		}
	}
	switch n.op {
	case "Identity", "Dropout":
		return nil
	case "Cast":
		if to := n.attributes["to"].i; to != kindFloat {
			return fmt.Errorf("to element type %d, float (1) is read", to)
		}
		return nil
	case "Flatten":
		if a, stated := n.attributes["axis"]; stated && a.i != 1 {
			return fmt.Errorf("axis %d, 1 is read", a.i)
		}
		return nil
	case "Reshape":
		t := r.graph.initializers[n.inputs[min(1, len(n.inputs)-1)]]
		if len(t.whole) == 2 && (t.whole[1] == int64(r.width) || t.whole[1] == -1) {
			return nil
		}
		return fmt.Errorf("to %v, a batch of %d numbers each is read", t.whole, r.width)
	case "Relu":
		return r.layer(rl.Layer{Kind: rl.ReLU})
	case "Tanh":
		return r.layer(rl.Layer{Kind: rl.Tanh})
	case "Gemm":
		return r.gemm(n)
	case "MatMul":
		w, err := r.weights(n)
		if err != nil {
			return err
		}
		return r.dense(w, int(w.dims[1]), nil)
	case "Add", "Sub", "Mul", "Div":
		return r.elementwise(n)
	case "LayerNormalization":
		return r.norm(n)
	case "Clip":
		return r.clip(n)
	case "Softmax", "ArgMax":
		axis := int64(-1)
		if n.op == "ArgMax" {
			axis = 0
		}
		if a, stated := n.attributes["axis"]; stated {
			axis = a.i
		}
		if axis != -1 && axis != 1 {
			return fmt.Errorf("axis %d, that of one input's outputs is read", axis)
		}
		if n.attributes["select_last_index"].i != 0 {
			return fmt.Errorf("select_last_index is not read")
		}
		r.tail = append(r.tail, Step{Op: Op(n.op)})
		return nil
	}
	return fmt.Errorf("the operator is not read")
}

func (r *reader) layer(l rl.Layer, params ...float32) error {
	if len(r.params)+len(params) > maxElements {
		return fmt.Errorf("more than %d numbers", maxElements)
	}
	r.arch.Layers, r.params = append(r.arch.Layers, l), append(r.params, params...)
	return nil
}

// dense adds a layer of weights [inputs, outputs] and biases, nil for zero.
func (r *reader) dense(w tensor, outputs int, bias []float32) error {
	if len(w.dims) != 2 || w.dims[0] != int64(r.width) || outputs < 1 {
		return fmt.Errorf("weights of the sizes %v behind a width of %d", w.dims, r.width)
	}
	if bias == nil {
		bias = make([]float32, outputs)
	}
	r.width = outputs
	return r.layer(rl.Layer{Kind: rl.Dense, Outputs: outputs}, slices.Concat(w.data, bias)...)
}

func (r *reader) weights(n node) (tensor, error) {
	w, err := r.constant(n, 1)
	if err != nil {
		return w, err
	}
	if len(w.dims) != 2 {
		return w, fmt.Errorf("weights of the sizes %v, a matrix is read", w.dims)
	}
	return w, nil
}

func (r *reader) gemm(n node) error {
	if n.attributes["transA"].i != 0 {
		return fmt.Errorf("transA is not read")
	}
	w, err := r.weights(n)
	if err != nil {
		return err
	}
	if n.attributes["transB"].i != 0 {
		t := tensor{dims: []int64{w.dims[1], w.dims[0]}, kind: kindFloat, data: make([]float32, len(w.data))}
		rows, cols := int(w.dims[0]), int(w.dims[1])
		for i := range rows {
			for j := range cols {
				t.data[j*rows+i] = w.data[i*cols+j]
			}
		}
		w = t
	}
	factor := func(name string) float32 {
		if a, stated := n.attributes[name]; stated {
			return a.f
		}
		return 1
	}
	if alpha := factor("alpha"); alpha != 1 {
		w.data = slices.Clone(w.data)
		for i := range w.data {
			w.data[i] *= alpha
		}
	}
	outputs := int(w.dims[1])
	var bias []float32
	if len(n.inputs) > 2 && n.inputs[2] != "" {
		c, err := r.constant(n, 2)
		if err != nil {
			return err
		}
		wide := reader{width: outputs}
		if bias, err = wide.vector(c); err != nil {
			return err
		}
		for i := range bias {
			bias[i] *= factor("beta")
		}
	}
	return r.dense(w, outputs, bias)
}

// elementwise is an operation with a constant: of the layer before if that is dense, a
// diagonal one of its own otherwise.
func (r *reader) elementwise(n node) error {
	if len(n.inputs) != 2 {
		return fmt.Errorf("%d inputs", len(n.inputs))
	}
	at := 1
	if _, first := r.graph.initializers[n.inputs[0]]; first {
		if at = 0; n.op == "Sub" || n.op == "Div" {
			return fmt.Errorf("of a constant is not read")
		}
	}
	t, err := r.constant(n, at)
	if err != nil {
		return err
	}
	v, err := r.vector(t)
	if err != nil {
		return err
	}
	if last := len(r.arch.Layers) - 1; last < 0 || r.arch.Layers[last].Kind != rl.Dense {
		if r.eyes += r.width * r.width; r.width > maxDiagonal || r.eyes > maxDiagonal*maxDiagonal {
			return fmt.Errorf("with a constant where no dense layer is before, of a width of %d: one of up to %d is read, or several narrower ones", r.width, maxDiagonal)
		}
		eye := tensor{dims: []int64{int64(r.width), int64(r.width)}, kind: kindFloat, data: make([]float32, r.width*r.width)}
		for i := range r.width {
			eye.data[i*r.width+i] = 1
		}
		if err := r.dense(eye, r.width, nil); err != nil {
			return err
		}
	}
	bias := r.params[len(r.params)-r.width:]
	inputs := r.arch.Inputs
	for _, l := range r.arch.Layers[:len(r.arch.Layers)-1] {
		if l.Kind == rl.Dense {
			inputs = l.Outputs
		}
	}
	w := r.params[len(r.params)-r.width*(inputs+1):][:r.width*inputs]
	for i, c := range v {
		switch n.op {
		case "Add":
			bias[i] += c
		case "Sub":
			bias[i] -= c
		default:
			if n.op == "Div" {
				c = 1 / c
			}
			bias[i] *= c
			for k := i; k < len(w); k += r.width {
				w[k] *= c
			}
		}
	}
	return nil
}

func (r *reader) norm(n node) error {
	if a, stated := n.attributes["axis"]; stated && a.i != -1 && a.i != 1 {
		return fmt.Errorf("axis %d, the last is read", a.i)
	}
	if a, stated := n.attributes["epsilon"]; stated && math.Abs(float64(a.f)-1e-5) > 1e-9 {
		return fmt.Errorf("epsilon %g, 1e-5 is read", a.f)
	}
	t, err := r.constant(n, 1)
	if err != nil {
		return err
	}
	gain, err := r.vector(t)
	if err != nil {
		return err
	}
	bias := make([]float32, r.width)
	if len(n.inputs) > 2 && n.inputs[2] != "" {
		if t, err = r.constant(n, 2); err != nil {
			return err
		}
		if bias, err = r.vector(t); err != nil {
			return err
		}
	}
	return r.layer(rl.Layer{Kind: rl.LayerNorm}, slices.Concat(gain, bias)...)
}

func (r *reader) clip(n node) error {
	s := Step{Op: Clip, Low: -math.MaxFloat32, High: math.MaxFloat32}
	for i, bound := range []*float32{&s.Low, &s.High} {
		name := []string{"min", "max"}[i]
		if a, stated := n.attributes[name]; stated { // until operator set 11
			*bound = a.f
		}
		if i+1 >= len(n.inputs) || n.inputs[i+1] == "" {
			continue
		}
		t, err := r.constant(n, i+1)
		if err != nil {
			return err
		}
		if len(t.data) != 1 {
			return fmt.Errorf("%s of the sizes %v, one number is read", name, t.dims)
		}
		*bound = t.data[0]
	}
	r.tail = append(r.tail, s)
	return nil
}

// Apply makes of a network's outputs, one after the other and width numbers each, those
// of the model, in place; ArgMax leaves one number of each.
func (m Model) Apply(outputs []float32) []float32 {
	width := m.Network.Outputs()
	for _, s := range m.Tail {
		switch s.Op {
		case Clip:
			for i, v := range outputs {
				outputs[i] = min(max(v, s.Low), s.High)
			}
		case Softmax:
			for r := 0; r < len(outputs); r += width {
				softmax(outputs[r:][:width])
			}
		case ArgMax:
			for r := 0; r*width < len(outputs); r++ {
				row := outputs[r*width:][:width]
				outputs[r] = float32(slices.Index(row, slices.Max(row)))
			}
			outputs = outputs[:len(outputs)/width]
		}
	}
	return outputs
}

func softmax(x []float32) {
	most, sum := slices.Max(x), 0.0
	for i, v := range x {
		e := math.Exp(float64(v - most))
		x[i], sum = float32(e), sum+e
	}
	for i := range x {
		x[i] = float32(float64(x[i]) / sum)
	}
}
