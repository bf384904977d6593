package model

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func stump() *Ensemble {
	return &Ensemble{Names: []string{"cpu", "memory"}, Trees: []Tree{{
		{Feature: 1, Threshold: 0.5, Left: 1, Right: 2}, {Feature: Leaf, Value: 2}, {Feature: Leaf, Value: 3},
	}}}
}

func TestPredictByName(t *testing.T) {
	for name, c := range map[string]struct {
		values  map[string]float64
		want    float64
		missing bool
	}{
		"below":                     {map[string]float64{"cpu": 1, "memory": 0.4}, 2, false},
		"on the threshold":          {map[string]float64{"cpu": 1, "memory": 0.5}, 2, false},
		"above, and another":        {map[string]float64{"cpu": 1, "memory": 0.6, "disk": 1}, 3, false},
		"one is absent":             {map[string]float64{"memory": 0.6}, 0, true},
		"one that is asked for NaN": {map[string]float64{"cpu": 1, "memory": math.NaN()}, 0, true},
	} {
		got, err := Predict(stump(), c.values)
		if got != c.want || errors.Is(err, ErrMissing) != c.missing {
			t.Errorf("%s: %g, %v", name, got, err)
		}
	}
	if _, err := stump().Predict([]float64{1, math.Inf(1)}); err == nil {
		t.Error("infinity is predicted")
	}
	if _, err := stump().Predict([]float64{1}); err == nil {
		t.Error("half a row is predicted")
	}
	e := stump()
	e.Output, e.Base = Exp, 1000
	if _, err := e.Predict([]float64{1, 0}); err == nil {
		t.Error("a prediction of infinity is one")
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(e *Ensemble)
		want   string
	}{
		"no trees":      {func(e *Ensemble) { e.Trees = nil }, "trees: 0"},
		"no nodes":      {func(e *Ensemble) { e.Trees = append(e.Trees, Tree{}) }, "trees[1]: has no nodes"},
		"no features":   {func(e *Ensemble) { e.Names = nil }, "features: 0"},
		"an empty name": {func(e *Ensemble) { e.Names = []string{"cpu", ""} }, "features[1]"},
		"a circle":      {func(e *Ensemble) { e.Trees[0][0].Left = 0 }, "trees[0][0]: children"},
		"out of range":  {func(e *Ensemble) { e.Trees[0][0].Right = 3 }, "trees[0][0]: children"},
		"a feature":     {func(e *Ensemble) { e.Trees[0][0].Feature = 2 }, "trees[0][0]: feature 2"},
		"a threshold":   {func(e *Ensemble) { e.Trees[0][0].Threshold = math.NaN() }, "trees[0][0]: a threshold"},
		"a leaf":        {func(e *Ensemble) { e.Trees[0][1].Value = math.Inf(1) }, "trees[0][1]: a leaf"},
		"missing":       {func(e *Ensemble) { e.Trees[0][0].Missing = missingEnd }, "trees[0][0]: missing"},
		"output":        {func(e *Ensemble) { e.Output = "cosine" }, "output: \"cosine\""},
		"scale":         {func(e *Ensemble) { e.Output = Logistic }, "scale: is 0"},
		"base":          {func(e *Ensemble) { e.Base = math.NaN() }, "base: is NaN"},
	} {
		e := stump()
		c.change(e)
		if err := e.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := stump().Validate(); err != nil {
		t.Error(err)
	}
}

// TestFitLinear finds the plane that rows lie on, however large a feature is, and whatever
// never changes or repeats another.
func TestFitLinear(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var x [][]float64
	var y []float64
	for range 50 {
		a, b := rng.Float64(), 1e9*rng.Float64()
		x, y = append(x, []float64{a, b, 7.1, a}), append(y, 3*a-2e-9*b+0.5)
	}
	m, err := FitLinear([]string{"a", "b", "constant", "again"}, x, y)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range x {
		if got, err := m.Predict(row); err != nil || math.Abs(got-y[i]) > 1e-6 {
			t.Fatalf("row %d: %g, %v; want %g", i, got, err, y[i])
		}
	}
	if m.Coefficients[2] != 0 {
		t.Errorf("the constant has the coefficient %g", m.Coefficients[2])
	}
	if _, err := m.Predict([]float64{1, 2, 3, math.NaN()}); !errors.Is(err, ErrMissing) {
		t.Errorf("a value that is missing: %v", err)
	}
	if _, err := FitLinear([]string{"a", "b", "constant", "again"}, x[:4], y[:4]); err == nil {
		t.Error("four rows for four features")
	}
}

func TestEncodeDecode(t *testing.T) {
	for name, m := range map[string]Model{
		"ensemble": stump(), "linear": &Linear{Names: []string{"a"}, Coefficients: []float64{2}, Intercept: 1},
	} {
		data, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := Encode(got)
		if err != nil || string(again) != string(data) {
			t.Errorf("%s: %s, then %s, %v", name, data, again, err)
		}
		for what, c := range map[string]struct {
			data string
			want error
		}{
			"torn":            {string(data[:len(data)/2]), nil},
			"changed":         {strings.Replace(string(data), `:1`, `:3`, 1), nil},
			"another version": {strings.Replace(string(data), `"mash2Model":1`, `"mash2Model":2`, 1), ErrVersion},
			"another file":    {`{"a":1}`, ErrVersion},
			"a leaf changed":  {strings.NewReplacer(`"v":2`, `"v":5`, `"intercept":1`, `"intercept":2`).Replace(string(data)), ErrTorn},
		} {
			if _, err := Decode([]byte(c.data)); err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	if _, err := Encode(&Ensemble{Names: []string{"a"}}); err == nil {
		t.Error("an ensemble of no trees is written")
	}
}

// FuzzDecode: bytes are an error or a valid model, which is written as the same model.
func FuzzDecode(f *testing.F) {
	data, err := Encode(stump())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"mash2Model":1,"sha256":"","model":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode(data)
		if err != nil {
			return
		}
		if _, err := Encode(m); err != nil {
			t.Fatal(err)
		}
	})
}
