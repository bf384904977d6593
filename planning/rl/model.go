package rl

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Model is a policy and what it was learned by.
type Model struct {
	Environment, Algorithm string
	Policy                 Policy
	// Inputs say what the numbers of an observation are, for who makes one elsewhere than
	// in the environment; nil where that is the environment's alone.
	Inputs []Input
}

// Input is one number of an observation: a measurement divided by Scale.
type Input struct {
	// Name is the environment's word for it.
	Name string `json:"name"`
	// Scale is in the measurement's unit and above 0.
	Scale float64 `json:"scale"`
	// Millicores is how much CPU all replicas together used for each unit of it when the
	// model was trained, for who can't measure it; 0 if not known.
	Millicores float64 `json:"millicores,omitempty"`
}

// ModelVersion is the version of the format that Encode writes and Decode reads.
const ModelVersion = 1

var (
	// ErrTorn is returned for bytes that are not all that was written.
	ErrTorn = errors.New("the model is torn or was changed: its checksum does not fit")
	// ErrVersion is returned for a model of a format that this program does not read.
	ErrVersion = errors.New("the model is of another format")
)

// A model is: magic, version and length of the header (4 bytes each), the header as JSON,
// parameters as float32, SHA-256 of all before it. Numbers are little-endian.
const magic = "mash2-rl"

type header struct {
	Environment  string       `json:"environment"`
	Algorithm    string       `json:"algorithm"`
	Actions      Space        `json:"actions"`
	Architecture Architecture `json:"architecture"`
	Inputs       []Input      `json:"inputs,omitempty"`
}

// Encode turns a model into bytes. It returns an error for a policy that does not fit
// its space.
func Encode(m Model) ([]byte, error) {
	if err := m.validate(); err != nil {
		return nil, err
	}
	head, err := json.Marshal(header{m.Environment, m.Algorithm, m.Policy.Actions, m.Policy.Network.Architecture, m.Inputs})
	if err != nil {
		return nil, err
	}
	out := binary.LittleEndian.AppendUint32([]byte(magic), ModelVersion)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(head)))
	out = append(out, head...)
	for _, v := range m.Policy.Network.Params {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	sum := sha256.Sum256(out)
	return append(out, sum[:]...), nil
}

// Decode reads a model. It returns ErrVersion, ErrTorn or, for a model that was written
// so, what is wrong with it.
func Decode(data []byte) (Model, error) {
	const fixed = len(magic) + 8
	if len(data) < fixed && bytes.HasPrefix([]byte(magic), data[:min(len(data), len(magic))]) {
		return Model{}, ErrTorn
	}
	if !bytes.HasPrefix(data, []byte(magic)) {
		return Model{}, fmt.Errorf("%w: it does not begin with %q", ErrVersion, magic)
	}
	if v := binary.LittleEndian.Uint32(data[len(magic):]); v != ModelVersion {
		return Model{}, fmt.Errorf("%w: version %d, this program reads %d", ErrVersion, v, ModelVersion)
	}
	if len(data) < fixed+sha256.Size {
		return Model{}, ErrTorn
	}
	body, sum := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return Model{}, ErrTorn
	}
	length := int64(binary.LittleEndian.Uint32(body[len(magic)+4:]))
	if length > int64(len(body)-fixed) {
		return Model{}, fmt.Errorf("a model's header of %d bytes in %d", length, len(body)-fixed)
	}
	var head header
	decoder := json.NewDecoder(bytes.NewReader(body[fixed:][:length]))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&head); err != nil {
		return Model{}, fmt.Errorf("a model's header: %w", err)
	}
	params := body[fixed+int(length):]
	if _, size, err := head.Architecture.stages(); err != nil || len(params) != 4*size {
		return Model{}, errors.Join(fmt.Errorf("a model of %d bytes of parameters, its network has %d", len(params), size), err)
	}
	net, err := NewNetwork(head.Architecture)
	if err != nil {
		return Model{}, err
	}
	for i := range net.Params {
		v := math.Float32frombits(binary.LittleEndian.Uint32(params[4*i:]))
		if v-v != 0 {
			return Model{}, fmt.Errorf("parameter %d of a model is %g", i, v)
		}
		net.Params[i] = v
	}
	m := Model{head.Environment, head.Algorithm, Policy{net, head.Actions}, head.Inputs}
	return m, m.validate()
}

// validate returns an error for a model whose parts don't fit.
func (m Model) validate() error {
	if err := m.Policy.Validate(); err != nil {
		return err
	}
	if n := m.Policy.Network.Architecture.Inputs; m.Inputs != nil && len(m.Inputs) != n {
		return fmt.Errorf("a model of %d observations says what %d are", n, len(m.Inputs))
	}
	for _, in := range m.Inputs {
		if !(in.Scale > 0) || math.IsInf(in.Scale, 0) || !(in.Millicores >= 0) || math.IsInf(in.Millicores, 0) {
			return fmt.Errorf("a model's input %q has scale %g and %g millicores", in.Name, in.Scale, in.Millicores)
		}
	}
	return nil
}
