package dense

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/mash2-io/mash2/planning/rl"
	"github.com/mash2-io/mash2/planning/rl/onnx"
	"github.com/mash2-io/mash2/strategic/model"
)

// file of a network whose parameters are drawn.
func file(t *testing.T, outputs int) ([]byte, *rl.Network) {
	t.Helper()
	net, err := rl.NewNetwork(rl.MLP(2, []int{5}, false, rl.ReLU, outputs))
	if err != nil {
		t.Fatal(err)
	}
	net.InitKaiming(rand.New(rand.NewPCG(7, 7)))
	data, err := onnx.Write(onnx.Model{Network: net})
	if err != nil {
		t.Fatal(err)
	}
	return data, net
}

// TestPredict: as the layers' formula says, by the features' names.
func TestPredict(t *testing.T) {
	data, net := file(t, 1)
	m, err := Read(data, []string{"cpu", "memory"})
	if err != nil {
		t.Fatal(err)
	}
	cpu, memory := 0.7, -1.5
	got, err := model.Predict(m, map[string]float64{"memory": memory, "cpu": cpu, "other": 3})
	if err != nil {
		t.Fatal(err)
	}
	// Parameters: 2×5 weights, row i those out of input i; 5 biases; 5 weights; a bias.
	p := net.Params
	want := float64(p[20])
	for j := range 5 {
		want += math.Max(0, cpu*float64(p[j])+memory*float64(p[5+j])+float64(p[10+j])) * float64(p[15+j])
	}
	if math.Abs(got-want) > 1e-5 || want == float64(p[20]) {
		t.Errorf("%g, want %g", got, want)
	}
}

func TestRefuses(t *testing.T) {
	one, _ := file(t, 1)
	three, _ := file(t, 3)
	names := []string{"cpu", "memory"}
	for name, c := range map[string]struct {
		data  []byte
		names []string
		want  string
	}{
		"too few features":    {one, names[:1], "reads 2 numbers, there are 1"},
		"no features":         {one, nil, "features"},
		"three outputs":       {three, names, "3 outputs"},
		"bytes of no network": {[]byte("no"), names, "onnx"},
	} {
		if _, err := Read(c.data, c.names); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	m, err := Read(one, names)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Predict([]float64{1, math.NaN()}); !errors.Is(err, model.ErrMissing) {
		t.Errorf("a value that is missing: %v", err)
	}
	if _, err := m.Predict([]float64{1, 1e300}); err == nil {
		t.Error("a value beyond single precision is predicted")
	}
	// A policy of Stable-Baselines3 that decides by its largest output.
	chosen, err := os.ReadFile("../../../planning/rl/onnx/testdata/sb3-dqn-greedy.onnx")
	if err != nil {
		t.Fatal(err)
	}
	if m, err = Read(chosen, []string{"a", "b", "c", "d"}); err != nil {
		t.Fatal(err)
	}
	if y, err := m.Predict([]float64{1, 2, 0, -1}); err != nil || y != math.Trunc(y) || y < 0 || y > 1 {
		t.Errorf("the largest output is %g, %v", y, err)
	}
}
