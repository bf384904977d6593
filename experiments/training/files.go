package training

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mash2-io/mash2/experiments/gym"
	"github.com/mash2-io/mash2/planning/rl"
	"github.com/mash2-io/mash2/planning/rl/onnx"
	"github.com/mash2-io/mash2/planning/vertical"
)

// Names of a model's files in its folder.
const (
	ModelFile = "model.rl"
	CardFile  = "card.json"
	// ONNXFile has the network for other programs: an action is the index of its largest
	// output, or what lies between an action's bounds as its outputs lie between -1 and 1.
	ONNXFile = "policy.onnx"
)

// builtin is before the name of a model that comes with the program.
const builtin = "builtin:"

// onnxSuffix is that of models which are no folders.
const onnxSuffix = ".onnx"

// Card says what a model is.
type Card struct {
	Environment string `json:"environment"`
	Algorithm   string `json:"algorithm"`
	Seed        uint64 `json:"seed"`
	// Steps it was trained for, and the one that the kept policy is of.
	Steps    int `json:"steps"`
	BestStep int `json:"bestStep"`
	// Return is the mean over Episodes greedy episodes that the policy was chosen by.
	Return   float64 `json:"return"`
	Episodes int     `json:"episodes"`
	Curve    []Point `json:"curve"`
	Seconds  float64 `json:"seconds"`
	// Parameters is how many the network has.
	Parameters   int             `json:"parameters"`
	Architecture rl.Architecture `json:"architecture"`
	// Limits are what the model is not for, in words.
	Limits []string `json:"limits"`
	// Hash is the SHA-256 of the model's file, in hexadecimal.
	Hash    string `json:"hash"`
	Format  int    `json:"format"`
	Version string `json:"version"`
}

func save(o Options, task gym.Task, best Point, r Result, p rl.Policy) (card string, err error) {
	curve, err := curvePage(o, best, r)
	if err != nil {
		return "", err
	}
	if err := WriteFile(filepath.Join(o.Out, CurveFile), curve); err != nil {
		return "", err
	}
	return Save(o.Out, rl.Model{Environment: o.Environment, Algorithm: o.Algorithm, Policy: p, Inputs: task.Inputs}, Card{
		Seed: o.Seed, Steps: r.Steps, BestStep: best.Step, Return: best.Return, Episodes: episodes, Curve: r.Curve, Seconds: r.Seconds,
		Limits:  limits(task),
		Version: o.Version,
	})
}

// Save writes a model with its card, in which it fills in what follows from the model, and
// the same policy for other programs, to a folder that is there. It returns the card's path.
func Save(dir string, m rl.Model, card Card) (path string, err error) {
	data, err := rl.Encode(m)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	card.Environment, card.Algorithm = m.Environment, m.Algorithm
	card.Parameters, card.Architecture = len(m.Policy.Network.Params), m.Policy.Network.Architecture
	card.Hash, card.Format = hex.EncodeToString(sum[:]), rl.ModelVersion
	text, err := json.MarshalIndent(card, "", "  ")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, CardFile)
	// The model last: a card without its model is refused, and so is a model beside
	// another's card.
	if err := WriteFile(path, append(text, '\n')); err != nil {
		return "", err
	}
	graph := onnx.Model{Network: m.Policy.Network}
	if !m.Policy.Actions.Discrete() {
		graph.Tail = []onnx.Step{{Op: onnx.Clip, Low: -1, High: 1}}
	}
	others, err := onnx.Write(graph)
	if err != nil {
		return "", err
	}
	if err := WriteFile(filepath.Join(dir, ONNXFile), others); err != nil {
		return "", err
	}
	return path, WriteFile(filepath.Join(dir, ModelFile), data)
}

// limits are what a model is not for.
func limits(task gym.Task) []string {
	out := []string{
		fmt.Sprintf("It was trained in the environment %s only, in episodes of up to %d steps.", task.Name, task.Limit),
		"Its return is that of the best of several evaluations on the same starts: evaluate it with another seed.",
	}
	if task.Peers != nil {
		return append(out, "It was trained on simulated load only. It may decide for a workload where it has beaten the threshold rule on that workload.")
	}
	return append(out, "It was not trained on, and must not decide for, any workload.")
}

// open reads a model that comes with the program, one from a folder, or the policy of an ONNX file, which knows nothing of
// an environment.
func open(path, environment string, actions rl.Space) (rl.Model, error) {
	if name, ok := strings.CutPrefix(path, builtin); ok {
		if name != vertical.Shipped {
			return rl.Model{}, fmt.Errorf("there is no model %s: want %s", path, builtin+vertical.Shipped)
		}
		data, _ := vertical.ShippedModel()
		return rl.Decode(data)
	}
	if !strings.HasSuffix(path, onnxSuffix) {
		m, _, err := Load(path)
		return m, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return rl.Model{}, err
	}
	m, err := onnx.Read(data, "")
	if err != nil {
		return rl.Model{}, fmt.Errorf("%s: %w", path, err)
	}
	p := rl.Policy{Network: m.Network, Actions: actions}
	if err := p.Validate(); err != nil {
		return rl.Model{}, fmt.Errorf("%s: %w", path, err)
	}
	return rl.Model{Environment: environment, Algorithm: "onnx", Policy: p}, nil
}

// WriteFile replaces a file in one go.
func WriteFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Load reads a model and its card from a folder. Errors name the file.
func Load(dir string) (rl.Model, Card, error) {
	var card Card
	path := filepath.Join(dir, ModelFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return rl.Model{}, card, err
	}
	m, err := rl.Decode(data)
	if err != nil {
		return rl.Model{}, card, fmt.Errorf("%s: %w", path, err)
	}
	path = filepath.Join(dir, CardFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return rl.Model{}, card, err
	}
	if err := json.Unmarshal(text, &card); err != nil {
		return rl.Model{}, card, fmt.Errorf("%s: %w", path, err)
	}
	if sum := sha256.Sum256(data); card.Hash != hex.EncodeToString(sum[:]) {
		return rl.Model{}, card, fmt.Errorf("%s: the card is of another model: its hash does not fit %s", path, ModelFile)
	}
	return m, card, nil
}
