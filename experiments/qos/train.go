package qos

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/strategic/model"
	"github.com/mash2-io/mash2/strategic/model/forest"
)

// Environment is the name that commands take.
const Environment = "qos"

// Names of the files in a model's folder.
const (
	ModelFile = "model.json"
	// LinearFile is least squares on the same rows, which the model is compared with.
	LinearFile = "linear.json"
	CardFile   = "card.json"
)

// Algorithms that learn. The first is the default.
func Algorithms() []string { return []string{"forest", "linear"} }

// share of a file's time that trains.
const share = 0.7

// Options of a training.
type Options struct {
	// Inputs are the paths of CSV files.
	Inputs    []string
	Algorithm string
	Seed      uint64
	Out       string
	Version   string
}

// Card says what a model is.
type Card struct {
	Environment string `json:"environment"`
	Algorithm   string `json:"algorithm"`
	Seed        uint64 `json:"seed"`
	// Inputs are the files it was trained on, until which time, and what is held out.
	Inputs []Trained `json:"inputs"`
	// Samples that it was trained on.
	Samples  int      `json:"samples"`
	Features []string `json:"features"`
	Target   string   `json:"target"`
	// MeanLatency of those samples, in seconds.
	MeanLatency float64 `json:"meanLatency"`
	// Settings of a forest.
	Settings *forest.Config `json:"settings,omitempty"`
	// Importance of each feature of a forest; they add up to 1.
	Importance map[string]float64 `json:"importance,omitempty"`
	// HeldOut are its errors on what is held out, and those of others there.
	HeldOut []Score  `json:"heldOut"`
	Limits  []string `json:"limits"`
	// Hash is the SHA-256 of the model's file, in hexadecimal.
	Hash    string `json:"hash"`
	Format  int    `json:"format"`
	Version string `json:"version"`
}

// Trained is what of a file was trained on.
type Trained struct {
	Input
	// Until is the time of the last sample that was trained on, From that of the first
	// that is held out.
	Until time.Time `json:"until"`
	From  time.Time `json:"from"`
}

// Result of a training.
type Result struct {
	Algorithm   string           `json:"algorithm"`
	Environment string           `json:"environment"`
	Steps       int              `json:"steps"`
	Seconds     float64          `json:"seconds"`
	Curve       []training.Point `json:"curve"`
	Card        string           `json:"card"`
	Samples     int              `json:"samples"`
	HeldOut     []Score          `json:"heldOut"`
}

// Train learns from files and writes the model, a linear one and a card to a folder. Errors
// wrap training.ErrInput where what was asked for can't be done.
func Train(ctx context.Context, o Options, progress io.Writer) (Result, error) {
	if o.Algorithm == "" {
		o.Algorithm = Algorithms()[0]
	}
	if !slices.Contains(Algorithms(), o.Algorithm) {
		return Result{}, training.Inputf("--algorithm: %q is none of environment %s: want one of %v", o.Algorithm, Environment, Algorithms())
	}
	if o.Out == "" {
		return Result{}, training.Inputf("--out must name a folder")
	}
	inputs, err := readAll(o.Inputs)
	if err != nil {
		return Result{}, err
	}
	began := time.Now()
	card := Card{
		Environment: Environment, Algorithm: o.Algorithm, Seed: o.Seed, Features: Features(), Format: model.Version, Version: o.Version,
		Target: fmt.Sprintf("mean latency over the next %s, in seconds", Horizon),
		Limits: []string{
			"It knows the load, the nodes and the application of its files, and no other.",
			"A forest predicts nothing beyond what it was shown: on a node that is busier than all it saw, it says too little.",
			"Samples that follow one another overlap: count the time, not the samples.",
		},
	}
	var known, later []Sample
	for _, in := range inputs {
		t, before, after := split(in)
		card.Inputs = append(card.Inputs, t)
		known, later = append(known, before...), append(later, after...)
	}
	if len(known) <= len(card.Features) || len(later) == 0 {
		return Result{}, training.Inputf("--input: %d samples to train on and %d to hold out are too few: record for longer", len(known), len(later))
	}
	x, y := make([][]float64, len(known)), make([]float64, len(known))
	for i, s := range known {
		x[i], y[i] = s.X, s.Y
		card.MeanLatency += s.Y / float64(len(known))
	}
	card.Samples = len(known)
	line, err := model.FitLinear(card.Features, x, y)
	if err != nil {
		return Result{}, err
	}
	var m model.Model = line
	out := Result{Algorithm: o.Algorithm, Environment: Environment, Curve: []training.Point{}, Samples: len(known)}
	if o.Algorithm == "forest" {
		r, c, err := grow(card.Features, x, y, o.Seed)
		if err != nil {
			return Result{}, err
		}
		m, card.Settings, card.Importance, out.Steps = r.Forest, &c, map[string]float64{}, c.Trees
		for i, name := range card.Features {
			card.Importance[name] = math.Round(1e4*r.Importance[i]) / 1e4
		}
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	judged := []judged{{name: o.Algorithm, algorithm: o.Algorithm, model: m}}
	if o.Algorithm != "linear" {
		judged = append(judged, baseline("linear", line))
	}
	if card.HeldOut, err = score(append(judged, baseline("mean", constant(card.MeanLatency))), later, o.Seed); err != nil {
		return Result{}, err
	}
	out.HeldOut, out.Seconds = card.HeldOut, time.Since(began).Seconds()
	fmt.Fprintf(progress, "%d samples, %d held out: mean absolute error %.2f ms\n", len(known), len(later), card.HeldOut[0].MAE)
	out.Card, err = save(o.Out, card, m, line)
	return out, err
}

// mostModel is how large a forest may be, in bytes as model.Encode writes it: a ConfigMap
// holds a mebibyte, the operator reads no larger one, and records carry it.
const mostModel = 900 << 10

// grow a forest. Leaves are made larger until it is small enough.
func grow(features []string, x [][]float64, y []float64, seed uint64) (forest.Result, forest.Config, error) {
	c := forest.Config{Trees: 60, Depth: 16, Leaf: 10, Seed: seed}
	for {
		r, err := forest.Train(c, features, x, y)
		if err != nil {
			return r, c, err
		}
		data, err := model.Encode(r.Forest)
		if err != nil || len(data) <= mostModel || c.Leaf > len(x) {
			return r, c, err
		}
		c.Leaf *= 2
	}
}

func readAll(paths []string) ([]Input, error) {
	if len(paths) == 0 {
		return nil, training.Inputf("--input must name a CSV file")
	}
	var out []Input
	for i, path := range paths {
		if slices.Contains(paths[:i], path) {
			return nil, training.Inputf("--input: %s twice", path)
		}
		in, err := ReadFile(path)
		if err != nil {
			return nil, training.Inputf("--input: %w", err)
		}
		out = append(out, in)
	}
	return out, nil
}

// split a file's samples by time, with a gap between: no sample that is trained on saw
// anything of what is held out.
func split(in Input) (t Trained, before, after []Sample) {
	first, last := in.Samples[0].Time, in.Samples[len(in.Samples)-1].Time
	t = Trained{Input: in, Until: first.Add(time.Duration(share * float64(last.Sub(first))))}
	t.From = t.Until.Add(Window + Horizon)
	for _, s := range in.Samples {
		switch {
		case !s.Time.After(t.Until):
			before = append(before, s)
		case !s.Time.Before(t.From):
			after = append(after, s)
		}
	}
	return t, before, after
}

func save(dir string, card Card, m model.Model, line *model.Linear) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", training.Inputf("--out: %w", err)
	}
	data, err := model.Encode(m)
	if err != nil {
		return "", err
	}
	beside, err := model.Encode(line)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	card.Hash = hex.EncodeToString(sum[:])
	text, err := json.MarshalIndent(card, "", "  ")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, CardFile)
	// The model last: a card without its model is refused, and so is a model beside
	// another's card.
	for _, f := range []struct {
		name string
		data []byte
	}{{CardFile, append(text, '\n')}, {LinearFile, beside}, {ModelFile, data}} {
		if err := training.WriteFile(filepath.Join(dir, f.name), f.data); err != nil {
			return "", err
		}
	}
	return path, nil
}

// Load reads a model, the linear one and the card from a folder. Errors name the file.
func Load(dir string) (m, line model.Model, card Card, err error) {
	text, err := os.ReadFile(filepath.Join(dir, CardFile))
	if err != nil {
		return nil, nil, card, err
	}
	if err := json.Unmarshal(text, &card); err != nil {
		return nil, nil, card, fmt.Errorf("%s: %w", filepath.Join(dir, CardFile), err)
	}
	if card.Environment != Environment {
		return nil, nil, card, fmt.Errorf("%s: trained in %q, not in %s", filepath.Join(dir, CardFile), card.Environment, Environment)
	}
	read := func(name string) (model.Model, []byte, error) {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		m, err := model.Decode(data)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		return m, data, nil
	}
	m, data, err := read(ModelFile)
	if err != nil {
		return nil, nil, card, err
	}
	if sum := sha256.Sum256(data); card.Hash != hex.EncodeToString(sum[:]) {
		return nil, nil, card, fmt.Errorf("%s: the card is of another model: its hash does not fit %s", filepath.Join(dir, CardFile), ModelFile)
	}
	line, _, err = read(LinearFile)
	return m, line, card, err
}
