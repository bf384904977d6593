package training

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// after cancels a training once it has told so many lines of progress.
type after struct {
	lines  int
	cancel context.CancelFunc
	said   bytes.Buffer
}

func (a *after) Write(p []byte) (int, error) {
	if a.lines -= bytes.Count(p, []byte("\n")); a.lines <= 0 {
		a.cancel()
	}
	return a.said.Write(p)
}

// ended runs a training and stops it after so many evaluations.
func ended(t *testing.T, o Options, evaluations int) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := Run(ctx, o, &after{lines: evaluations, cancel: cancel})
	return err
}

// TestResumes: a training that was stopped three times comes to the same model, curve and
// card as one that was not, of every kind of learner.
func TestResumes(t *testing.T) {
	for _, o := range []Options{
		{Environment: "cartpole", Algorithm: "dqn", Steps: 2000},
		{Environment: "cartpole", Algorithm: "ppo", Steps: 4096},
		{Environment: "pendulum", Algorithm: "td3", Steps: 1600},
		{Environment: "marlise", Algorithm: "mdqn", Steps: 3200},
		{Environment: "marlise", Algorithm: "ddpg", Steps: 3200},
	} {
		t.Run(o.Environment+"/"+o.Algorithm, func(t *testing.T) {
			o.Seed, o.Out = 7, t.TempDir()
			whole, err := Run(t.Context(), o, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join(o.Out, ModelFile))
			if err != nil {
				t.Fatal(err)
			}
			o.Out = t.TempDir()
			for range 3 {
				if err := ended(t, o, 4); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the same command goes on") {
					t.Fatalf("%v", err)
				}
			}
			progress := &after{lines: 1 << 30}
			got, err := Run(t.Context(), o, progress)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(progress.said.String(), "going on from step ") {
				t.Errorf("it says %q first", progress.said.String())
			}
			model, err := os.ReadFile(filepath.Join(o.Out, ModelFile))
			if err != nil || !bytes.Equal(model, want) {
				t.Errorf("another model than of a training that was not stopped, %v", err)
			}
			if len(got.Curve) != len(whole.Curve) || got.Curve[len(got.Curve)-1] != whole.Curve[len(whole.Curve)-1] || got.Steps != whole.Steps {
				t.Errorf("curve %v, want %v", got.Curve, whole.Curve)
			}
			if _, err := os.Stat(filepath.Join(o.Out, CheckpointFile)); !os.IsNotExist(err) {
				t.Errorf("the checkpoint is left: %v", err)
			}
		})
	}
}

// TestCheckpointsOfOthers: a checkpoint that is damaged or of another training is refused
// with what to do, and left as it was; --restart begins anew.
func TestCheckpointsOfOthers(t *testing.T) {
	o := Options{Environment: "cartpole", Algorithm: "dqn", Steps: 2000, Seed: 7, Out: t.TempDir()}
	if err := ended(t, o, 4); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	path := filepath.Join(o.Out, CheckpointFile)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(name string, o Options, data []byte, want string) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Run(t.Context(), o, io.Discard)
		if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--restart") {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, data) {
			t.Errorf("%s: the checkpoint was changed, %v", name, err)
		}
	}
	other := o
	other.Seed = 8
	refused("another seed", other, good, "is of another training (--environment cartpole --algorithm dqn --steps 2000 --seed 7)")
	other = o
	other.Algorithm = "double-dqn"
	refused("another algorithm", other, good, "is of another training")
	damaged := bytes.Clone(good)
	damaged[len(damaged)/2] ^= 1
	refused("a flipped bit", o, damaged, "is damaged")
	refused("half of it", o, good[:len(good)/2], "is damaged")
	refused("nothing", o, nil, "no checkpoint that this program reads")
	refused("another version", o, append([]byte(checkpointMagic), 9, 9, 9), "no checkpoint that this program reads")
	other.Restart, other.Steps = true, 50
	if _, err := Run(t.Context(), other, io.Discard); err != nil {
		t.Errorf("--restart: %v", err)
	}
}
