package training

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The ONNX file beside a model decides as the model does.
func TestONNXFile(t *testing.T) {
	for algorithm, environment := range map[string]string{"dqn": "cartpole", "ppo": "cartpole", "td3": "pendulum"} {
		t.Run(environment+" "+algorithm, func(t *testing.T) {
			dir := t.TempDir()
			o := Options{Environment: environment, Algorithm: algorithm, Steps: 2000, Seed: 3, Out: dir}
			if _, err := Run(t.Context(), o, io.Discard); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, ONNXFile)
			out, err := Evaluate(t.Context(), []string{dir, file}, o.Environment, 20, 5, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if a, b := out.Models[0], out.Models[1]; a.Return != b.Return || b.Algorithm != "onnx" {
				t.Errorf("%+v and %+v", a, b)
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, data[:len(data)-10], 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Evaluate(t.Context(), []string{file}, o.Environment, 1, 5, io.Discard); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("a torn file: error = %v", err)
			}
			if _, err := Evaluate(t.Context(), []string{filepath.Join("..", "..", "planning", "rl", "onnx", "testdata", "sb3-ppo.onnx")}, o.Environment, 1, 5, io.Discard); err == nil {
				t.Error("a policy of another environment is taken")
			}
		})
	}
}
