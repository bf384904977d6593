package rl

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
)

func someModel(t *testing.T) (Model, []byte) {
	t.Helper()
	m := Model{Environment: "pendulum", Algorithm: "td3", Policy: decisions(t)["student"]}
	data, err := Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return m, data
}

// TestModelRoundTrip: what is read decides as what was written.
func TestModelRoundTrip(t *testing.T) {
	m, data := someModel(t)
	got, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if got.Environment != m.Environment || got.Algorithm != m.Algorithm || !slices.Equal(got.Policy.Network.Params, m.Policy.Network.Params) {
		t.Errorf("read %+v", got)
	}
	x := []float32{1, 2, 3, 4, 5}
	if a, b := got.Policy.NewActor().Act(x), m.Policy.NewActor().Act(x); !slices.Equal(a.Continuous, b.Continuous) {
		t.Errorf("decides %v, want %v", a, b)
	}
	if again, err := Encode(got); err != nil || !bytes.Equal(again, data) {
		t.Errorf("written anew it is other bytes, %v", err)
	}
}

// TestModelTorn: cut at any byte, or with any byte changed, a model is refused.
func TestModelTorn(t *testing.T) {
	_, data := someModel(t)
	for n := range data {
		if _, err := Decode(data[:n]); !errors.Is(err, ErrTorn) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(data), err)
		}
		changed := slices.Clone(data)
		changed[n] ^= 1
		if _, err := Decode(changed); !errors.Is(err, ErrTorn) && !errors.Is(err, ErrVersion) {
			t.Fatalf("byte %d changed: %v", n, err)
		}
	}
	if _, err := Decode(append(slices.Clone(data), 0)); !errors.Is(err, ErrTorn) {
		t.Errorf("a byte more: %v", err)
	}
}

func TestModelVersion(t *testing.T) {
	_, data := someModel(t)
	data[len(magic)] = ModelVersion + 1
	if _, err := Decode(data); !errors.Is(err, ErrVersion) {
		t.Errorf("another version: %v", err)
	}
	if _, err := Decode([]byte("{\"weights\": []} and more")); !errors.Is(err, ErrVersion) {
		t.Errorf("another file: %v", err)
	}
}

// TestEncodeRefuses a policy whose network does not fit its actions.
func TestEncodeRefuses(t *testing.T) {
	m, _ := someModel(t)
	m.Policy.Actions = Space{N: 2}
	if _, err := Encode(m); err == nil {
		t.Error("no error")
	}
}

// FuzzDecode: whatever the bytes, there is an error or a model that decides.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(magic))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if m, err := Decode(data); err == nil {
			m.Policy.NewActor().Act(make([]float32, m.Policy.Network.Architecture.Inputs))
		}
	})
}

// TestModelInputs: what an observation is goes with the model, and must fit it.
func TestModelInputs(t *testing.T) {
	m, _ := someModel(t)
	n := m.Policy.Network.Architecture.Inputs
	for i := range n {
		m.Inputs = append(m.Inputs, Input{Name: string(rune('a' + i)), Scale: float64(i + 1)})
	}
	data, err := Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(data)
	if err != nil || !reflect.DeepEqual(got.Inputs, m.Inputs) {
		t.Errorf("%+v, %v", got.Inputs, err)
	}
	for name, inputs := range map[string][]Input{
		"one too few":         m.Inputs[1:],
		"a scale of 0":        append(slices.Clone(m.Inputs[:n-1]), Input{Name: "x"}),
		"a scale without end": append(slices.Clone(m.Inputs[:n-1]), Input{Name: "x", Scale: math.Inf(1)}),
	} {
		m.Inputs = inputs
		if _, err := Encode(m); err == nil {
			t.Errorf("%s is written", name)
		}
	}
}
