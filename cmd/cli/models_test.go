package cli

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/operator/agents"
	"github.com/mash2-io/mash2/planning/learned"
	"github.com/mash2-io/mash2/planning/vertical"
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

// TestStartWithoutBadModels: the operator begins with the models that it can use, says which it can't,
// and refuses a folder that is not there.
func TestStartWithoutBadModels(t *testing.T) {
	dir := t.TempDir()
	own, err := model.Encode(&model.Linear{Names: []string{"latency"}, Coefficients: []float64{2}})
	if err != nil {
		t.Fatal(err)
	}
	ofAgents, _ := vertical.ShippedModel()
	ofReplicas, _ := learned.ShippedModel()
	for name, data := range map[string][]byte{
		"web.rl": ofReplicas, "pods.rl": ofAgents, "qos.json": own,
		"half.rl":    ofReplicas[:len(ofReplicas)/2],
		"margins.rl": ofReplicas, // the name of the one that comes with the program
		"torn.json":  []byte(strings.Replace(string(own), "[2]", "[3]", 1)),
		"large.rl":   make([]byte, maxModel+1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link.rl")); err != nil {
		t.Fatal(err)
	}
	o := operatorFlags{modelsDir: dir}
	if err := o.takeModels(); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(o.models)); !slices.Equal(got, []string{"web"}) {
		t.Errorf("of replicas: %v", got)
	}
	if got := slices.Sorted(maps.Keys(o.agents)); !slices.Equal(got, []string{agents.BuiltinMind, "pods"}) {
		t.Errorf("of agents: %v", got)
	}
	if got := slices.Sorted(maps.Keys(o.files.Strategies)); !slices.Equal(got, []string{"qos"}) {
		t.Errorf("of strategies: %v", got)
	}
	if o.leftOut == nil {
		t.Fatal("all are used")
	}
	why := strings.Split(o.leftOut.Error(), "\n")
	for i, want := range []string{"half.rl: ", "large.rl has ", "link.rl", "margins.rl: ", "torn.json: "} {
		if len(why) != 5 || !strings.Contains(why[i], want) {
			t.Fatalf("%q, want %q", why, want)
		}
	}
	if o.modelsDir = filepath.Join(dir, "nowhere"); o.takeModels() == nil {
		t.Error("a folder that is not there")
	}
	o = operatorFlags{}
	if err := o.takeModels(); err != nil || o.leftOut != nil || len(o.agents) != 1 {
		t.Errorf("without a folder: %v, %v", err, o.leftOut)
	}
	panics := func(modelFiles) error { panic("a file like no other") }
	if got, refused, err := usableModels(dir, maxModel, panics); err != nil || len(got.rl)+len(got.qos) > 0 || !strings.Contains(errors.Join(refused...).Error(), "web.rl: reading it panicked: a file like no other") {
		t.Errorf("%v, %v, %v", got, refused, err)
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
