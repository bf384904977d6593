// Package training trains policies on the tasks of package gym, keeps them as files and
// compares them.
//
// While a policy is trained it is evaluated at regular steps: greedily, that is without
// exploration, on the same 50 starts each time. The one with the highest mean return is
// kept, of equal ones the last. Its card has that mean, which is the best of several and
// so a little flattering: [Evaluate] with another seed is the fair figure.
package training

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/mash2-io/mash2/experiments/gym"
	"github.com/mash2-io/mash2/planning/rl"
)

// ErrInput is what errors of what was asked for are.
var ErrInput = errors.New("bad input")

// Inputf says what is wrong with what was asked for: the error wraps ErrInput.
func Inputf(format string, args ...any) error { return inputError{fmt.Errorf(format, args...)} }

type inputError struct{ error }

func (e inputError) Unwrap() []error { return []error{e.error, ErrInput} }

// Options of a training.
type Options struct {
	Environment, Algorithm string
	// Steps of the environment, over all that are stepped side by side.
	Steps int
	Seed  uint64
	// StopAt ends the training once an evaluation's mean return reaches it; nil for never.
	StopAt *float64
	// Out is the folder for the model, its card and its curve. A training that was ended
	// before its time has left a checkpoint there, and the same one goes on from it: to the
	// bytes that it would have come to. Restart begins anew.
	Out     string
	Restart bool
	// Version of this program, for the card.
	Version string
}

// Point of a learning curve.
type Point struct {
	Step int `json:"step"`
	// Return is the mean of greedy episodes.
	Return float64 `json:"return"`
}

// Result of a training.
type Result struct {
	Algorithm   string  `json:"algorithm"`
	Environment string  `json:"environment"`
	Steps       int     `json:"steps"`
	Seconds     float64 `json:"seconds"`
	Curve       []Point `json:"curve"`
	Card        string  `json:"card"`
	// Stopped is true of a training that ended early, at the return that was asked for.
	Stopped bool `json:"stopped,omitempty"`
	// ResumedFrom is the step at which a training went on that had been ended before; 0 for
	// one that began.
	ResumedFrom int `json:"resumedFrom,omitempty"`
}

const (
	// points of a curve, at most.
	points = 40
	// episodes of each evaluation during training.
	episodes = 50
	// MaxSteps bounds what can be asked for.
	MaxSteps = 1_000_000_000
)

// Run trains and writes the best policy to a folder. Errors wrap ErrInput where what was
// asked for can't be done.
func Run(ctx context.Context, o Options, progress io.Writer) (Result, error) {
	task, err := gym.For(o.Environment, o.Algorithm)
	if err != nil {
		return Result{}, Inputf("--environment: %w", err)
	}
	with, err := algorithmFor(o.Algorithm, task)
	if err != nil {
		return Result{}, Inputf("--algorithm: %w", err)
	}
	if o.Steps < 1 || o.Steps > MaxSteps {
		return Result{}, Inputf("--steps must be from 1 to %d, is %d", MaxSteps, o.Steps)
	}
	if o.Out == "" {
		return Result{}, Inputf("--out must name a folder")
	}
	learner, err := with.new(task, o.Steps, o.Seed)
	if err != nil {
		return Result{}, err
	}
	round := learner.Round()
	if o.Steps < round {
		return Result{}, Inputf("--steps must be %d or more for %s, is %d", round, o.Algorithm, o.Steps)
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return Result{}, Inputf("--out: %w", err)
	}
	t := &course{Options: o, task: task, learner: learner, done: Result{Algorithm: o.Algorithm, Environment: o.Environment}, best: Point{Return: math.Inf(-1)}}
	if err := t.resume(progress); err != nil {
		return Result{}, err
	}
	if err := t.run(ctx, progress); err != nil {
		return Result{}, err
	}
	t.done.Card, err = save(o, task, t.best, t.done, t.policy)
	if err == nil {
		err = t.forget()
	}
	return t.done, err
}

// resume goes on from a checkpoint if there is one and it may.
func (t *course) resume(progress io.Writer) error {
	if t.Restart {
		return t.forget()
	}
	c, ok, err := readCheckpoint(t.Options)
	if err != nil || !ok {
		return err
	}
	if err := t.restore(c); err != nil {
		return Inputf("%s can't be continued by this program: %w: --restart begins anew", filepath.Join(t.Out, CheckpointFile), err)
	}
	t.done.ResumedFrom = t.done.Steps
	fmt.Fprintf(progress, "going on from step %d of %d, where an earlier run ended\n", t.done.Steps, t.Steps)
	return nil
}

// forget removes the checkpoint.
func (t *course) forget() error {
	if err := os.Remove(filepath.Join(t.Out, CheckpointFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// run learns and evaluates in turn, to the end.
func (t *course) run(ctx context.Context, progress io.Writer) error {
	began := time.Now().Add(-time.Duration(t.done.Seconds * float64(time.Second)))
	round := t.learner.Round()
	chunk := max(1, t.Steps/points/round) * round
	keep := keeper{path: filepath.Join(t.Out, CheckpointFile)}
	before := t.peers
	for t.Steps-t.done.Steps >= round {
		if err := ctx.Err(); err != nil {
			if t.done.Steps == 0 {
				return err
			}
			keep.next = time.Time{}
			return errors.Join(fmt.Errorf("stopped at step %d of %d, the same command goes on from there: %w", t.done.Steps, t.Steps, err), t.keep(&keep, before, chunk))
		}
		steps := min(chunk, (t.Steps-t.done.Steps)/round*round)
		t.learner.Learn(steps)
		t.done.Steps += steps
		now := t.learner.Policy()
		judge := t.task.New
		before = t.peers
		if t.task.Peers != nil {
			t.task.Peers.Set(now)
			judge, t.peers = t.task.Judge, now
		}
		at := Point{t.done.Steps, mean(rl.Evaluate(now, judge(), episodes, selection(t.Seed)))}
		if math.IsNaN(at.Return) {
			return fmt.Errorf("training diverged at step %d: a return is not a number", at.Step)
		}
		t.done.Curve = append(t.done.Curve, at)
		if at.Return >= t.best.Return {
			t.best, t.policy = at, now
		}
		fmt.Fprintf(progress, "step %d of %d: mean return %.1f of %d greedy episodes, best %.1f at step %d\n",
			at.Step, t.Steps, at.Return, episodes, t.best.Return, t.best.Step)
		t.done.Seconds = time.Since(began).Seconds()
		if t.StopAt != nil && at.Return >= *t.StopAt {
			t.done.Stopped = true
			return nil
		}
		if err := t.keep(&keep, before, chunk); err != nil {
			return err
		}
	}
	return nil
}

// keep a checkpoint, with what others follow in the episodes under way.
func (t *course) keep(k *keeper, peers rl.Policy, chunk int) error {
	if t.task.Peers != nil && chunk < t.task.Limit*t.learner.Round() {
		return nil // an episode may be older than what is known of its peers
	}
	return k.keep(func() (checkpoint, error) { return t.checkpoint(peers) })
}

// selection is the seed of the starts that policies are chosen by: not one that somebody
// is likely to evaluate with.
func selection(seed uint64) uint64 { return seed ^ 0x9e3779b97f4a7c15 }

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
