package onnx

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mash2-io/mash2/planning/rl"
)

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// run computes a model's outputs.
func run(m Model, x [][]float32) [][]float32 {
	pass := m.Network.NewPass(1)
	var out [][]float32
	for _, row := range x {
		out = append(out, slices.Clone(m.Apply(slices.Clone(pass.Forward(row, 1)))))
	}
	return out
}

func farthest(t *testing.T, got, want [][]float32) (worst float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		if len(got[i]) != len(want[i]) {
			t.Fatalf("%d outputs, want %d", len(got[i]), len(want[i]))
		}
		for j := range want[i] {
			worst = max(worst, math.Abs(float64(got[i][j]-want[i][j])))
		}
	}
	return worst
}

// Policies that PyTorch exported decide as PyTorch does (testdata/make.py).
func TestPoliciesOfOthers(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.onnx")
	if err != nil || len(paths) < 9 {
		t.Fatalf("%d fixtures, %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".onnx")
		t.Run(name, func(t *testing.T) {
			var want struct {
				Inputs  [][]float32
				Outputs map[string][][]float32
			}
			if err := json.Unmarshal(fixture(t, name+".json"), &want); err != nil {
				t.Fatal(err)
			}
			for output, rows := range want.Outputs {
				m, err := Read(fixture(t, name+".onnx"), output)
				if err != nil {
					t.Fatal(err)
				}
				if worst := farthest(t, run(m, want.Inputs), rows); worst > 1e-5 {
					t.Errorf("%s is off by %g", output, worst)
				}
			}
		})
	}
}

// What is written is read again as the same network, and PyTorch's too.
func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		arch rl.Architecture
		tail []Step
		// folded: read as another network that computes the same.
		folded bool
	}{
		"with ReLU":      {arch: rl.MLP(5, []int{24, 18}, false, rl.ReLU, 2)},
		"with LayerNorm": {arch: rl.MLP(4, []int{12, 8}, true, rl.Tanh, 3)},
		"linear":         {arch: rl.MLP(3, nil, false, rl.ReLU, 2), tail: []Step{{Op: Softmax}}},
		"with bounds":    {arch: rl.MLP(3, []int{6}, false, rl.Tanh, 2), tail: []Step{{Op: Clip, Low: -0.1, High: 0.2}}},
		"dueling": {
			arch:   rl.Architecture{Inputs: 4, Layers: []rl.Layer{{Kind: rl.Dense, Outputs: 9}, {Kind: rl.ReLU}, {Kind: rl.Dense, Outputs: 4}, {Kind: rl.Dueling}}},
			folded: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			net, err := rl.NewNetwork(c.arch)
			if err != nil {
				t.Fatal(err)
			}
			for i := range net.Params {
				net.Params[i] = float32(rng.NormFloat64())
			}
			m := Model{Network: net, Tail: c.tail}
			data, err := Write(m)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Read(data, "")
			if err != nil {
				t.Fatal(err)
			}
			if !c.folded && !slices.Equal(again.Network.Params, net.Params) {
				t.Error("other parameters")
			}
			if !slices.Equal(again.Tail, c.tail) {
				t.Errorf("tail %v, want %v", again.Tail, c.tail)
			}
			var x [][]float32
			for range 20 {
				row := make([]float32, c.arch.Inputs)
				for i := range row {
					row[i] = float32(rng.NormFloat64())
				}
				x = append(x, row)
			}
			if worst := farthest(t, run(again, x), run(m, x)); worst > 1e-5 {
				t.Errorf("off by %g", worst)
			}
		})
	}
}

// A mask that Dropout made is not what it let through.
func TestMaskOfDropout(t *testing.T) {
	for behind, want := range map[string]bool{"kept": true, "mask": false} {
		g := graph{inputs: []value{{name: "x"}}, nodes: []node{
			{op: "Dropout", inputs: []string{"x"}, outputs: []string{"kept", "mask"}},
			{op: "Relu", inputs: []string{behind}, outputs: []string{"y"}},
		}}
		if chain, err := g.chain("y"); (err == nil) != want {
			t.Errorf("behind %s: %d nodes, %v", behind, len(chain), err)
		}
	}
}

// file is a model of nodes on one input of a width, with constants.
func file(width int, build func(w *writer)) []byte {
	var w writer
	build(&w)
	return w.model(width, 1)
}

func TestWhatIsRefused(t *testing.T) {
	ppo := fixture(t, "sb3-ppo.onnx")
	relabelled := func(op string, old string) []byte {
		b := slices.Clone(ppo)
		for i := range b {
			if strings.HasPrefix(string(b[i:min(len(b), i+len(old))]), old) {
				copy(b[i:], op)
			}
		}
		return b
	}
	for name, c := range map[string]struct {
		data   []byte
		output string
		want   string
	}{
		"nothing":             {want: "no ONNX model"},
		"not a model":         {data: []byte("hello, world"), want: "no ONNX model"},
		"torn":                {data: ppo[:len(ppo)/2], want: "no ONNX model"},
		"no such output":      {data: ppo, output: "log_prob", want: `no output "log_prob", there are action, value`},
		"another operator":    {data: relabelled("Cosh", "Tanh"), want: `Cosh "`},
		"weights do not fit":  {data: file(3, func(w *writer) { w.node("MatMul", w.tensor(make([]float32, 8), 4, 2)) }), want: "weights of the sizes [4 2] behind a width of 3"},
		"a bias does not fit": {data: file(4, func(w *writer) { w.node("Gemm", w.tensor(make([]float32, 8), 4, 2), w.tensor(make([]float32, 3), 3)) }), want: "a constant of the sizes [3] for a width of 2"},
		"a weight is no number": {
			data: file(1, func(w *writer) { w.node("MatMul", w.tensor([]float32{float32(math.NaN())}, 1, 1)) }), want: "a weight is NaN",
		},
		"division by zero": {
			data: file(1, func(w *writer) {
				w.node("MatMul", w.tensor([]float32{1}, 1, 1))
				w.node("Div", w.tensor([]float32{0}, 1))
			}), want: "a weight is",
		},
		"a tensor that is not all there": {data: file(2, func(w *writer) { w.node("MatMul", w.tensor(make([]float32, 3), 2, 2)) }), want: "has 3 numbers, its sizes are [2 2]"},
		"sizes that overflow":            {data: file(2, func(w *writer) { w.node("MatMul", w.tensor(nil, 1<<31, 1<<31)) }), want: "has the sizes"},
		"layers behind Clip": {
			data: file(1, func(w *writer) {
				w.node("MatMul", w.tensor([]float32{1}, 1, 1))
				w.node("Clip", w.tensor([]float32{0}), w.tensor([]float32{1}))
				w.node("Relu")
			}), want: "behind Clip, which is read at the end only",
		},
		"a graph that branches": {
			data: file(2, func(w *writer) {
				w.node("MatMul", w.tensor(make([]float32, 4), 2, 2))
				w.node("Add", Input)
			}), want: `joins "v0" and "observation": a graph that branches is not read`,
		},
		"constants that make large matrices": {
			data: file(maxDiagonal, func(w *writer) {
				for range 2 {
					w.node("Relu")
					w.node("Mul", w.tensor([]float32{1}, 1))
				}
			}), want: "of a width of 2048: one of up to 2048 is read, or several narrower ones",
		},
		"nothing but an activation": {data: file(2, func(w *writer) { w.node("Identity") }), want: "no layers"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Read(c.data, c.output); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want one that says %q", err, c.want)
			}
		})
	}
	if _, err := Write(Model{Network: must(rl.NewNetwork(rl.MLP(1, nil, false, rl.ReLU, 2))), Tail: []Step{{Op: ArgMax}}}); err == nil {
		t.Error("ArgMax is written")
	}
}

// A small file must not ask for ever more: an operation by elements becomes a matrix, and weights
// may be used again.
func TestANetworkHasNoMoreNumbersThanAFile(t *testing.T) {
	r := reader{width: 2, params: make([]float32, maxElements-4, maxElements)}
	w := tensor{dims: []int64{2, 1}, kind: kindFloat, data: make([]float32, 2)}
	if err := r.dense(w, 1, nil); err != nil {
		t.Error(err)
	}
	r.width = 2
	if err := r.dense(w, 1, nil); err == nil || !strings.Contains(err.Error(), "more than 67108864 numbers") {
		t.Errorf("error = %v", err)
	}
}

func must(n *rl.Network, err error) *rl.Network {
	if err != nil {
		panic(err)
	}
	return n
}

// The same weights in the other forms that exporters write them in.
func TestGemmAsOthersWriteIt(t *testing.T) {
	attribute := func(b []byte, name string, num protowire.Number, bits uint64) []byte {
		a := text(nil, 1, name)
		if num == 2 {
			a = protowire.AppendFixed32(protowire.AppendTag(a, 2, protowire.Fixed32Type), uint32(bits))
		} else {
			a = number(a, 3, bits)
		}
		return inner(b, 5, a)
	}
	var b []byte
	b = attribute(b, "transB", 3, 1)
	b = attribute(b, "alpha", 2, uint64(math.Float32bits(0.5)))
	b = attribute(b, "beta", 2, uint64(math.Float32bits(2)))
	got, err := parseNode(b)
	if err != nil {
		t.Fatal(err)
	}
	got.inputs = []string{"x", "w", "b"}
	r := reader{width: 2, graph: graph{initializers: map[string]tensor{
		"w": {dims: []int64{3, 2}, kind: kindFloat, data: []float32{1, 2, 3, 4, 5, 6}},
		"b": {dims: []int64{1, 3}, kind: kindFloat, data: []float32{1, 2, 3}},
	}}}
	if err := r.gemm(got); err != nil {
		t.Fatal(err)
	}
	if want := []float32{0.5, 1.5, 2.5, 1, 2, 3, 2, 4, 6}; !slices.Equal(r.params, want) {
		t.Errorf("parameters %v, want %v", r.params, want)
	}
}

// FuzzRead: no bytes make Read panic, and what it accepts computes.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"matmul-clip.onnx", "sb3-td3.onnx", "cleanrl-ddpg.onnx"} {
		f.Add(fixture(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Read(data, "")
		if err != nil {
			return
		}
		x := make([]float32, m.Network.Architecture.Inputs)
		m.Apply(slices.Clone(m.Network.NewPass(1).Forward(x, 1)))
	})
}
