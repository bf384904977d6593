package trainticket

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/planning/rl"
)

// ModelFile of a folder holds the teacher and a student of each service.
const ModelFile = "model.zip"

// CoScalFile of a folder is the table of the rival.
const CoScalFile = "coscal.json"

// teacherFile is the teacher's name in it; students' are those of their services.
const teacherFile = "teacher"

// Card says what a model is.
type Card struct {
	Environment string  `json:"environment"`
	Algorithm   string  `json:"algorithm"`
	Seed        uint64  `json:"seed"`
	From        string  `json:"from,omitempty"`
	Episodes    int     `json:"episodes"`
	Seconds     float64 `json:"seconds"`
	Curve       []Point `json:"curve"`
	// Imitation is the students' mean squared error to the teacher.
	Imitation float64 `json:"imitation"`
	// Parameters of the teacher's policy and of each student.
	TeacherParameters int      `json:"teacherParameters"`
	StudentParameters int      `json:"studentParameters"`
	Limits            []string `json:"limits"`
	// Hash is the SHA-256 of the model's file.
	Hash    string `json:"hash"`
	Version string `json:"version"`
}

// model is what a training leaves.
type model struct {
	Card     Card
	Teacher  rl.Policy
	Students []rl.Policy // in the order of the application's services
}

//go:embed shipped/model.zip
var shippedModel []byte

//go:embed shipped/card.json
var shippedCard []byte

// application is the scenario as an episode has it.
func application() (scenarios.Scenario, error) {
	return world(rand.New(rand.NewPCG(1, 71)), AsTrained, nil)
}

// save writes a model to a folder that is there, and returns the card's path.
func save(dir string, m model) (string, error) {
	s, err := application()
	if err != nil {
		return "", err
	}
	var data bytes.Buffer
	z := zip.NewWriter(&data)
	put := func(name string, p rl.Policy) error {
		text, err := rl.Encode(rl.Model{Environment: Environment, Algorithm: m.Card.Algorithm, Policy: p})
		if err != nil {
			return err
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate}) // no time: equal models, equal bytes
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	if err := put(teacherFile, m.Teacher); err != nil {
		return "", err
	}
	for i, p := range m.Students {
		if err := put(s.Services[i].Name, p); err != nil {
			return "", err
		}
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(data.Bytes())
	m.Card.Hash = hex.EncodeToString(sum[:])
	m.Card.TeacherParameters, m.Card.StudentParameters = len(m.Teacher.Network.Params), len(m.Students[0].Network.Params)
	text, err := json.MarshalIndent(m.Card, "", "  ")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, training.CardFile)
	if err := training.WriteFile(path, append(text, '\n')); err != nil {
		return "", err
	}
	return path, training.WriteFile(filepath.Join(dir, ModelFile), data.Bytes())
}

// open reads the model that comes with the program, or that of a folder.
func open(name string) (model, error) {
	data, card := shippedModel, shippedCard
	if name != Builtin {
		var err error
		if card, err = os.ReadFile(filepath.Join(name, training.CardFile)); err != nil {
			return model{}, err
		}
		if data, err = os.ReadFile(filepath.Join(name, ModelFile)); err != nil {
			return model{}, err
		}
	}
	m, err := decode(data, card)
	if err != nil {
		return model{}, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// most bytes of one policy: students have three thousand.
const mostBytes = 1 << 24

func decode(data, card []byte) (model, error) {
	var m model
	if err := json.Unmarshal(card, &m.Card); err != nil {
		return m, fmt.Errorf("its card: %w", err)
	}
	sum := sha256.Sum256(data)
	if m.Card.Hash != hex.EncodeToString(sum[:]) {
		return m, fmt.Errorf("its card is of another model: %w", rl.ErrTorn)
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return m, err
	}
	read := func(name string) (rl.Policy, error) {
		f, err := z.Open(name)
		if err != nil {
			return rl.Policy{}, err
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, mostBytes))
		if err != nil {
			return rl.Policy{}, err
		}
		p, err := rl.Decode(text)
		if err != nil {
			return rl.Policy{}, fmt.Errorf("%s: %w", name, err)
		}
		if p.Environment != Environment {
			return rl.Policy{}, fmt.Errorf("%s %w", name, errNotOurs)
		}
		return p.Policy, nil
	}
	if m.Teacher, err = read(teacherFile); err != nil {
		return m, err
	}
	s, err := application()
	if err != nil {
		return m, err
	}
	for _, v := range s.Services {
		p, err := read(v.Name)
		if err != nil {
			return m, err
		}
		m.Students = append(m.Students, p)
	}
	return m, m.check()
}
