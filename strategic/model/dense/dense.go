// Package dense makes a model of a small neural network in an ONNX file: what planning/rl/onnx
// reads, with one output.
package dense

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/mash2-io/mash2/planning/rl"
	"github.com/mash2-io/mash2/planning/rl/onnx"
	"github.com/mash2-io/mash2/strategic/model"
)

// Network is a dense network with names for its inputs. It is not for several goroutines
// at once.
type Network struct {
	names []string
	model onnx.Model
	pass  *rl.Pass
	row   []float32
}

// Read reads an ONNX file. The file does not name the numbers that its input consists of:
// names says what they are, in their order. It returns an error for a graph that is not
// read, for another number of inputs than names, and for one with several outputs, unless
// ArgMax makes one number of them.
func Read(data []byte, names []string) (*Network, error) {
	if err := model.CheckFeatures(names); err != nil {
		return nil, err
	}
	m, err := onnx.Read(data, "")
	if err != nil {
		return nil, err
	}
	if got := m.Network.Architecture.Inputs; got != len(names) {
		return nil, fmt.Errorf("onnx: the network reads %d numbers, there are %d features", got, len(names))
	}
	chooses := len(m.Tail) > 0 && m.Tail[len(m.Tail)-1].Op == onnx.ArgMax
	if got := m.Network.Outputs(); got != 1 && !chooses {
		return nil, fmt.Errorf("onnx: the network has %d outputs, one is read", got)
	}
	return &Network{names: slices.Clone(names), model: m, pass: m.Network.NewPass(1), row: make([]float32, len(names))}, nil
}

// Features implements model.Model.
func (n *Network) Features() []string { return n.names }

// Predict implements model.Model, in single precision.
func (n *Network) Predict(x []float64) (float64, error) {
	if len(x) != len(n.names) {
		return 0, fmt.Errorf("%d values for %d features", len(x), len(n.names))
	}
	for i, v := range x {
		if math.IsNaN(v) {
			return 0, fmt.Errorf("%w: %s", model.ErrMissing, n.names[i])
		}
		if n.row[i] = float32(v); n.row[i]-n.row[i] != 0 {
			return 0, fmt.Errorf("%s is %g, beyond single precision", n.names[i], v)
		}
	}
	y := float64(n.model.Apply(n.pass.Forward(n.row, 1))[0])
	if y-y != 0 {
		return 0, fmt.Errorf("the model's prediction is %g", y)
	}
	return y, nil
}

// kept is a network as it is kept beside other models: the ONNX file, and the names that it
// lacks.
type kept struct {
	Format   int      `json:"mash2Network"`
	Features []string `json:"features"`
	ONNX     []byte   `json:"onnx"`
}

// Version of the format that Encode writes and Decode reads.
const Version = 1

// ErrNoNetwork is returned for bytes that Encode has not written.
var ErrNoNetwork = errors.New("no network of this format")

// Encode turns an ONNX file and the names of its inputs into bytes, once [Read] reads them.
func Encode(data []byte, names []string) ([]byte, error) {
	if _, err := Read(data, names); err != nil {
		return nil, err
	}
	return json.Marshal(kept{Version, names, data})
}

// Decode reads what Encode wrote. It returns ErrNoNetwork for anything else, and Read's
// errors.
func Decode(data []byte) (*Network, error) {
	var f kept
	if err := json.Unmarshal(data, &f); err != nil || f.Format != Version {
		return nil, ErrNoNetwork
	}
	return Read(f.ONNX, f.Features)
}
