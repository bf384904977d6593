package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of onnx.proto (IR version 8) as far as they are needed. Fields that are
// not known are passed over, as protocol buffers ask.

type graph struct {
	nodes        []node
	initializers map[string]tensor
	inputs       []value
	outputs      []string
}

type node struct {
	op, name        string
	inputs, outputs []string
	attributes      map[string]attribute
}

type attribute struct {
	f float32
	i int64
	t *tensor
}

// value is an input of a graph: its name, and its sizes, 0 where they are not fixed.
type value struct {
	name string
	dims []int64
}

type tensor struct {
	dims  []int64
	kind  int64
	data  []float32
	whole []int64
}

// Element types of tensors.
const (
	kindFloat = 1
	kindInt64 = 7
)

// maxElements of all of a model's tensors bounds what a file can ask for.
const maxElements = 1 << 26

var errTorn = errors.New("onnx: the file is torn or is no ONNX model")

// fields calls do for each field of a message: of varints and fixed numbers the value is
// in n, of everything else in b.
func fields(b []byte, do func(num protowire.Number, typ protowire.Type, n uint64, b []byte) error) error {
	for len(b) > 0 {
		num, typ, used := protowire.ConsumeTag(b)
		if used < 0 {
			return errTorn
		}
		b = b[used:]
		var n uint64
		var inner []byte
		switch typ {
		case protowire.VarintType:
			n, used = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var v uint32
			v, used = protowire.ConsumeFixed32(b)
			n = uint64(v)
		case protowire.Fixed64Type:
			n, used = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			inner, used = protowire.ConsumeBytes(b)
		default:
			return errTorn
		}
		if used < 0 {
			return errTorn
		}
		b = b[used:]
		if err := do(num, typ, n, inner); err != nil {
			return err
		}
	}
	return nil
}

func parseModel(b []byte) (g graph, opset int64, err error) {
	found := false
	err = fields(b, func(num protowire.Number, typ protowire.Type, _ uint64, b []byte) error {
		if typ != protowire.BytesType {
			return nil
		}
		switch num {
		case 7: // graph
			found = true
			return parseGraph(b, &g)
		case 8: // opset_import: domain 1, version 2
			domain, version := "", int64(0)
			err := fields(b, func(num protowire.Number, _ protowire.Type, n uint64, b []byte) error {
				switch num {
				case 1:
					domain = string(b)
				case 2:
					version = int64(n)
				}
				return nil
			})
			if domain == "" || domain == "ai.onnx" {
				opset = version
			}
			return err
		}
		return nil
	})
	if err == nil && !found {
		err = errTorn
	}
	return g, opset, err
}

func parseGraph(b []byte, g *graph) error {
	g.initializers = map[string]tensor{}
	total := 0
	err := fields(b, func(num protowire.Number, typ protowire.Type, _ uint64, b []byte) error {
		if typ != protowire.BytesType {
			return nil
		}
		switch num {
		case 1:
			n, err := parseNode(b)
			g.nodes = append(g.nodes, n)
			return err
		case 5:
			name, t, err := parseTensor(b)
			if total += len(t.data) + len(t.whole); total > maxElements {
				return fmt.Errorf("onnx: more than %d numbers", maxElements)
			}
			g.initializers[name] = t
			return err
		case 11:
			v, err := parseValue(b)
			g.inputs = append(g.inputs, v)
			return err
		case 12:
			v, err := parseValue(b)
			g.outputs = append(g.outputs, v.name)
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	// Constants may be nodes, or initialisers that are listed as inputs too.
	kept := g.nodes[:0]
	for _, n := range g.nodes {
		if a, ok := n.attributes["value"]; n.op == "Constant" && ok && a.t != nil && len(n.outputs) == 1 {
			g.initializers[n.outputs[0]] = *a.t
			continue
		}
		kept = append(kept, n)
	}
	g.nodes = kept
	var inputs []value
	for _, v := range g.inputs {
		if _, constant := g.initializers[v.name]; !constant {
			inputs = append(inputs, v)
		}
	}
	g.inputs = inputs
	return nil
}

func parseNode(b []byte) (node, error) {
	n := node{attributes: map[string]attribute{}}
	err := fields(b, func(num protowire.Number, _ protowire.Type, _ uint64, b []byte) error {
		switch num {
		case 1:
			n.inputs = append(n.inputs, string(b))
		case 2:
			n.outputs = append(n.outputs, string(b))
		case 3:
			n.name = string(b)
		case 4:
			n.op = string(b)
		case 5:
			name, a := "", attribute{}
			err := fields(b, func(num protowire.Number, _ protowire.Type, v uint64, b []byte) error {
				switch num {
				case 1:
					name = string(b)
				case 2:
					a.f = math.Float32frombits(uint32(v))
				case 3:
					a.i = int64(v)
				case 5:
					_, t, err := parseTensor(b)
					a.t = &t
					return err
				}
				return nil
			})
			n.attributes[name] = a
			return err
		}
		return nil
	})
	return n, err
}

// parseValue reads ValueInfoProto: its name, and the sizes of a tensor type.
func parseValue(b []byte) (v value, err error) {
	const typeField, tensorType, shape, dim, dimValue = 2, 1, 2, 1, 1
	inside := func(b []byte, want protowire.Number, do func(b []byte) error) error {
		return fields(b, func(num protowire.Number, typ protowire.Type, _ uint64, b []byte) error {
			if num != want || typ != protowire.BytesType {
				return nil
			}
			return do(b)
		})
	}
	err = fields(b, func(num protowire.Number, _ protowire.Type, _ uint64, b []byte) error {
		switch num {
		case 1:
			v.name = string(b)
		case typeField:
			return inside(b, tensorType, func(b []byte) error {
				return inside(b, shape, func(b []byte) error {
					return inside(b, dim, func(b []byte) error {
						size := int64(0)
						err := fields(b, func(num protowire.Number, typ protowire.Type, n uint64, _ []byte) error {
							if num == dimValue && typ == protowire.VarintType {
								size = int64(n)
							}
							return nil
						})
						v.dims = append(v.dims, size)
						return err
					})
				})
			})
		}
		return nil
	})
	return v, err
}

// parseTensor reads TensorProto: of floats and 64-bit integers the data, of other types
// the type only, which is refused where the tensor is used.
func parseTensor(b []byte) (name string, t tensor, err error) {
	var raw []byte
	err = fields(b, func(num protowire.Number, typ protowire.Type, n uint64, b []byte) error {
		packed := func(each func(b []byte) (uint64, int), take func(uint64)) error {
			if typ != protowire.BytesType {
				take(n)
				return nil
			}
			for len(b) > 0 {
				v, used := each(b)
				if used < 0 {
					return errTorn
				}
				take(v)
				b = b[used:]
			}
			return nil
		}
		switch num {
		case 1:
			return packed(protowire.ConsumeVarint, func(v uint64) { t.dims = append(t.dims, int64(v)) })
		case 2:
			t.kind = int64(n)
		case 4:
			return packed(func(b []byte) (uint64, int) {
				v, used := protowire.ConsumeFixed32(b)
				return uint64(v), used
			}, func(v uint64) { t.data = append(t.data, math.Float32frombits(uint32(v))) })
		case 7:
			return packed(protowire.ConsumeVarint, func(v uint64) { t.whole = append(t.whole, int64(v)) })
		case 8:
			name = string(b)
		case 9:
			raw = b
		}
		return nil
	})
	if err != nil {
		return name, t, err
	}
	switch {
	case len(raw) == 0:
	case t.kind == kindFloat && len(raw)%4 == 0:
		for ; len(raw) > 0; raw = raw[4:] {
			t.data = append(t.data, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
		}
	case t.kind == kindInt64 && len(raw)%8 == 0:
		for ; len(raw) > 0; raw = raw[8:] {
			t.whole = append(t.whole, int64(binary.LittleEndian.Uint64(raw)))
		}
	}
	size := int64(1)
	for _, d := range t.dims {
		if d < 0 || d > maxElements || size*max(d, 1) > maxElements {
			return name, t, fmt.Errorf("onnx: tensor %q has the sizes %v", name, t.dims)
		}
		size *= d
	}
	if (t.kind == kindFloat && int64(len(t.data)) != size) || (t.kind == kindInt64 && int64(len(t.whole)) != size) {
		return name, t, fmt.Errorf("onnx: tensor %q has %d numbers, its sizes are %v", name, len(t.data)+len(t.whole), t.dims)
	}
	return name, t, nil
}
