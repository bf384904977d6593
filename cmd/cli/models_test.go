package cli

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/strategic/model"
)

func TestReadModels(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, size int) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("web.rl", 3)
	put("candidate-1/model.rl", 4)
	put("candidate-1/card.json", 5)
	put("report.html", 6)
	put("empty/card.json", 7)
	// As a ConfigMap is mounted: links to a hidden folder.
	put("..2026/jobs.rl", 8)
	if err := os.Symlink(filepath.Join("..2026", "jobs.rl"), filepath.Join(dir, "jobs.rl")); err != nil {
		t.Fatal(err)
	}
	got, err := readModels(dir)
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(got.rl)); !slices.Equal(names, []string{"candidate-1", "jobs", "web"}) || len(got.rl["jobs"]) != 8 || len(got.rl["candidate-1"]) != 4 || len(got.qos) > 0 {
		t.Errorf("%v", names)
	}
	put("candidate-1.rl", 1)
	if _, err := readModels(dir); err == nil || !strings.Contains(err.Error(), "two models candidate-1") {
		t.Errorf("%v", err)
	}
	if err := os.Remove(filepath.Join(dir, "candidate-1.rl")); err != nil {
		t.Fatal(err)
	}
	put("large.rl", maxModel+1)
	if _, err := readModels(dir); err == nil || !strings.Contains(err.Error(), "large.rl has") {
		t.Errorf("%v", err)
	}
	if _, err := readModels(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a folder that is not there")
	}
	if got, err := readModels(""); err != nil || len(got.rl)+len(got.qos) > 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestReadModelsOfStrategies: mash2's own and those of other programs, which become own.
func TestReadModelsOfStrategies(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, data []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	own, err := model.Encode(&model.Linear{Names: []string{"latency"}, Coefficients: []float64{2}})
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join("..", "..", "strategic", "model", "foreign", "testdata")
	files, err := os.ReadDir(foreign)
	if err != nil {
		t.Fatal(err)
	}
	put("qos/model.json", own)
	put("line.json", own)
	want := []string{"line", "qos"}
	for _, f := range files {
		ext := filepath.Ext(f.Name())
		if ext != ".txt" && ext != ".json" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(foreign, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ownModel(data); err == nil {
			put(f.Name(), data)
			want = append(want, strings.TrimSuffix(f.Name(), ext))
		}
	}
	got, err := readModels(dir)
	if err != nil {
		t.Fatal(err)
	}
	models, err := got.strategyModels()
	slices.Sort(want)
	if names := slices.Sorted(maps.Keys(models)); err != nil || !slices.Equal(names, want) || len(want) < 4 {
		t.Errorf("%v: %v, want %v", err, names, want)
	}
	if v, err := models["qos"].Predict([]float64{3}); v != 6 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	put("torn.json", []byte(strings.Replace(string(own), "[2]", "[3]", 1)))
	if _, err := readModels(dir); !errors.Is(err, model.ErrTorn) || !strings.HasPrefix(err.Error(), "torn.json: ") {
		t.Error(err)
	}
	// What is no model at all, such as a card or notes, is left out as before.
	put("torn.json", []byte(`{"environment": "qos"}`))
	put("notes.txt", []byte("of last week"))
	if got, err := readModels(dir); err != nil || len(got.qos) != len(want) {
		t.Errorf("%v: %d models, want %d", err, len(got.qos), len(want))
	}
}

// TestReadNetworks: an ONNX file is a model of strategies where a file beside it names what it
// reads.
func TestReadNetworks(t *testing.T) {
	dir := t.TempDir()
	network, err := os.ReadFile(filepath.Join("..", "..", "planning", "rl", "onnx", "testdata", "matmul-clip.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	put("other.onnx", string(network))
	if got, err := readModels(dir); err != nil || len(got.qos) > 0 {
		t.Errorf("without names: %v, %v", got.qos, err)
	}
	put("other.features", "cpu\n")
	if _, err := readModels(dir); err == nil || !strings.HasPrefix(err.Error(), "other.onnx: onnx: the network reads ") {
		t.Errorf("too few names: %v", err)
	}
	greedy, err := os.ReadFile(filepath.Join("..", "..", "planning", "rl", "onnx", "testdata", "sb3-dqn-greedy.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	put("qos/model.onnx", string(greedy))
	put("qos/model.features", "a\nb\nc\nd\n")
	got, err := readModels(dir)
	if err != nil {
		t.Fatal(err)
	}
	models, err := got.strategyModels()
	if err != nil || models["qos"] == nil || !slices.Equal(models["qos"].Features(), []string{"a", "b", "c", "d"}) {
		t.Fatalf("%v, %v", models, err)
	}
	if y, err := models["qos"].Predict([]float64{0.1, 0.2, 0.3, 0.4}); err != nil || y != 0 && y != 1 {
		t.Errorf("%g, %v", y, err)
	}
}
