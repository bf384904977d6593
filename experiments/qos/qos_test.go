package qos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/planning/rl"
	"github.com/mash2-io/mash2/planning/rl/onnx"
	"github.com/mash2-io/mash2/strategic/model"
)

// generated is a file in the published form: an hour of readings every 5 s on two nodes whose
// latency bends upwards with the node's CPU of the minute before.
func generated(seed uint64, separator string) []byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	columns := append([]string{timeColumn, nodeColumn, pipelineColumn, latencyColumn}, Metrics...)
	var b bytes.Buffer
	fmt.Fprintln(&b, strings.Join(columns, separator))
	for n := range 2 {
		busy, level := 0.0, 4.0
		for i := range 720 {
			if i%120 == 0 {
				level = 2 + 6*rng.Float64()
			}
			busy = 0.8*busy + 0.2*rng.NormFloat64()
			cpu := max(level+busy, 0.1)
			latency := 0.04 + 0.01*float64(n) + 0.04/(9.5-min(cpu, 9)) + 0.002*rng.NormFloat64()
			second := 1715762700 + 5*i
			fmt.Fprintln(&b, strings.Join([]string{fmt.Sprint(second), fmt.Sprint("node-", n), "", "", fmt.Sprint(cpu), fmt.Sprint(8e9 + 1e9*float64(n)), fmt.Sprint(cpu / 2), "1e9"}, separator))
			fmt.Fprintln(&b, strings.Join([]string{fmt.Sprint(second), fmt.Sprint("node-", n), "app", fmt.Sprint(max(latency, 0)), "", "", "", ""}, separator))
		}
	}
	return b.Bytes()
}

func written(t *testing.T, seed uint64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), fmt.Sprintf("run-%d.csv", seed))
	if err := os.WriteFile(path, generated(seed, ";"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRead: samples by hand, of latencies that count up and one node's metric.
func TestRead(t *testing.T) {
	var b strings.Builder
	fmt.Fprintln(&b, strings.Join(append([]string{timeColumn, nodeColumn, pipelineColumn, latencyColumn}, Metrics...), ","))
	for i := 1; i <= 24; i++ {
		fmt.Fprintf(&b, "%d,a,,,%d,2,3,4\n%d,a,app,%d,,,,\n", 5*i, i, 5*i, i)
	}
	got, err := Read([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	// At i readings i−11 to i are known and i+1 to i+12 come; three quarters of twelve have to
	// be there: i from 9 to 15.
	if len(got) != 7 || got[0].Time.Unix() != 45 || got[6].Time.Unix() != 75 {
		t.Fatalf("%d samples: %+v", len(got), got)
	}
	s := got[3] // i = 12
	if s.Node != "a" || s.Last != 6.5 || s.Y != 18.5 || s.X[0] != 6.5 || s.X[1] != 12 || s.X[2] != 2 || s.X[7] != 4 {
		t.Errorf("%+v", s)
	}
	both, err := Read(generated(1, ";"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Read(generated(1, ",")); err != nil || len(again) != len(both) || len(both) < 1300 {
		t.Errorf("%d and %d samples, %v", len(both), len(again), err)
	}
}

func TestReadRefuses(t *testing.T) {
	head := strings.Join(append([]string{timeColumn, nodeColumn, pipelineColumn, latencyColumn}, Metrics...), ";") + "\n"
	for name, c := range map[string]struct{ text, want string }{
		"nothing":               {"", "first line"},
		"no column":             {"timestamp;cluster\n", "no column pipeline_id"},
		"no time":               {head + "noon;a;;;1;2;3;4\n", "line 2: timestamp"},
		"a word":                {head + "1;a;;;1;2;3;4\n5;a;;;1;many;3;4\n", "line 3: node_mem_usage"},
		"NaN":                   {head + "1;a;app;NaN;;;;\n", "line 2: " + latencyColumn},
		"a latency below 0":     {head + "1;a;app;-1;;;;\n", "line 2: " + latencyColumn},
		"a row that is shorter": {head + "1;a\n", "line 2"},
	} {
		if _, err := Read([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// FuzzRead: bytes are an error or samples of finite numbers in the order of time.
func FuzzRead(f *testing.F) {
	f.Add(generated(1, ";")[:4000])
	f.Add([]byte("timestamp;cluster\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Read(data)
		if err != nil {
			return
		}
		for i, x := range s {
			if len(x.X) != len(Features()) || x.Y < 0 || i > 0 && x.Time.Before(s[i-1].Time) {
				t.Fatalf("sample %d: %+v", i, x)
			}
		}
	})
}

// TestSplit: between what trains and what is held out lies all that a sample looks at.
func TestSplit(t *testing.T) {
	in, err := ReadFile(written(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	_, before, after := split(in)
	gap := after[0].Time.Sub(before[len(before)-1].Time)
	if len(before) < 900 || len(after) < 300 || gap < Window+Horizon {
		t.Errorf("%d before, %d after, %s between", len(before), len(after), gap)
	}
}

// TestTrainAndEvaluate on generated files: the forest beats the straight line and the mean on a run it
// never saw; the same seed gives the same files; of a file that was trained on, only what was
// held out is scored; a network from an ONNX file is scored beside it.
func TestTrainAndEvaluate(t *testing.T) {
	var inputs []string
	for seed := range uint64(4) {
		inputs = append(inputs, written(t, seed))
	}
	train := func(dir string) Result {
		got, err := Train(t.Context(), Options{Inputs: inputs[:3], Seed: 5, Out: dir}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	dir, twin := t.TempDir(), t.TempDir()
	if got := train(dir); got.Algorithm != "forest" || got.Samples < 2500 || len(got.HeldOut) != 4 {
		t.Errorf("%+v", got)
	}
	train(twin)
	for _, name := range []string{ModelFile, LinearFile, CardFile} {
		a, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(twin, name)); err != nil || !bytes.Equal(a, b) {
			t.Errorf("two files %s of one seed, %v", name, err)
		}
	}
	net, err := rl.NewNetwork(rl.MLP(len(Features()), []int{4}, false, rl.ReLU, 1))
	if err != nil {
		t.Fatal(err)
	}
	network := filepath.Join(t.TempDir(), "network.onnx")
	data, err := onnx.Write(onnx.Model{Network: net})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(network, data, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Evaluate(t.Context(), []string{dir, network}, inputs[3:], 1, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	mine := got.Models[0]
	if mine.Gain["linear"].Mean <= 0 || mine.Gain["mean"].Mean <= 0 || mine.Interval == nil || mine.Return != -mine.MAE {
		t.Errorf("%+v", mine)
	}
	if got.Inputs[0].HeldOut || got.Models[1].Algorithm != "onnx" || len(got.Ranking) != 5 {
		t.Errorf("%+v", got)
	}
	held, err := Evaluate(t.Context(), []string{dir}, inputs[:1], 1, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !held.Inputs[0].HeldOut || held.Samples > got.Samples/2 {
		t.Errorf("%d samples of a file that was trained on, %d of another", held.Samples, got.Samples)
	}
	if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}
}

func TestRefuses(t *testing.T) {
	in, dir := written(t, 1), t.TempDir()
	if _, err := Train(t.Context(), Options{Inputs: []string{in}, Algorithm: "linear", Out: dir}, io.Discard); err != nil {
		t.Fatal(err)
	}
	changed := t.TempDir()
	for _, name := range []string{ModelFile, LinearFile, CardFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == CardFile {
			text = bytes.Replace(text, []byte(`"hash": "`), []byte(`"hash": "0`), 1)
		}
		if err := os.WriteFile(filepath.Join(changed, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	train := func(o Options) error { _, err := Train(t.Context(), o, io.Discard); return err }
	evaluate := func(model, input string) error {
		_, err := Evaluate(t.Context(), []string{model}, []string{input}, 1, io.Discard)
		return err
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no input":        {train(Options{Out: dir}), "--input"},
		"a file twice":    {train(Options{Inputs: []string{in, in}, Out: dir}), "twice"},
		"no such file":    {train(Options{Inputs: []string{in + "x"}, Out: dir}), in + "x"},
		"an algorithm":    {train(Options{Inputs: []string{in}, Algorithm: "dqn", Out: dir}), `--algorithm: "dqn"`},
		"no folder":       {train(Options{Inputs: []string{in}}), "--out"},
		"another's card":  {evaluate(changed, in), "the card is of another model"},
		"no model there":  {evaluate(dir+"x", in), dir + "x"},
		"a file of words": {evaluate(in, in), in},
	} {
		if !errors.Is(c.err, training.ErrInput) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
}

// TestInterval: the mean lies inside, errors that are all alike have no width, and two blocks are too few.
func TestInterval(t *testing.T) {
	s, err := Read(generated(2, ";"))
	if err != nil {
		t.Fatal(err)
	}
	same, mixed, sum := make([]float64, len(s)), make([]float64, len(s)), 0.0
	for i := range s {
		same[i], mixed[i] = 2, math.Mod(float64(i)*7, 11)
		sum += mixed[i] / float64(len(s))
	}
	if got := interval(same, s, 1); got == nil || got[0] != 2 || got[1] != 2 {
		t.Errorf("%v", got)
	}
	if got := interval(mixed, s, 1); got == nil || got[0] > sum || got[1] < sum || got[0] == got[1] {
		t.Errorf("%v around %g", got, sum)
	}
	if got := interval(mixed[:100], s[:100], 1); got != nil {
		t.Errorf("%v of %s", got, s[99].Time.Sub(s[0].Time))
	}
}

// TestForestFits: a forest of much data that nothing explains is still one that the operator
// reads.
func TestForestFits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x, y := make([][]float64, 12_000), make([]float64, 12_000)
	for i := range x {
		x[i], y[i] = []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}, rng.NormFloat64()
	}
	r, c, err := grow([]string{"a", "b", "c"}, x, y, 1)
	if err != nil {
		t.Fatal(err)
	}
	data, err := model.Encode(r.Forest)
	if err != nil || len(data) > mostModel || len(data) < mostModel/8 || c.Leaf <= 10 {
		t.Errorf("%v: %d bytes with leaves of %d", err, len(data), c.Leaf)
	}
}

// TestPublished trains on the published files. What it asserts is that they are read whole and that
// the result is reported, not that it is good: docs/how-to/models.md has the figures.
func TestPublished(t *testing.T) {
	root := os.Getenv("MASH2_DATA")
	if root == "" {
		root = "../../../shared/data"
	}
	paths, err := filepath.Glob(filepath.Join(root, "data-connector-qos", "*.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < 2 {
		t.Skipf("the published files are not in %s (MASH2_DATA names another folder)", root)
	}
	for _, path := range paths {
		in, err := ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// Two nodes, an hour, a sample every 5 s but for the ends.
		if len(in.Samples) < 1300 || len(in.Samples) > 1442 {
			t.Errorf("%s: %d samples", path, len(in.Samples))
		}
		for _, s := range in.Samples {
			if s.Y < 0.04 || s.Y > 0.15 {
				t.Fatalf("%s: a latency of %g s", path, s.Y)
			}
		}
	}
}
