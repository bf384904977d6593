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
	"math"
	"os"
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
	// Out is the folder for the model, its card and its curve.
	Out string
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
	began := time.Now()
	out := Result{Algorithm: o.Algorithm, Environment: o.Environment}
	best := Point{Return: math.Inf(-1)}
	var policy rl.Policy
	chunk := max(1, o.Steps/points/round) * round
	for o.Steps-out.Steps >= round {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		steps := min(chunk, (o.Steps-out.Steps)/round*round)
		learner.Learn(steps)
		out.Steps += steps
		now := learner.Policy()
		judge := task.New
		if task.Peers != nil {
			task.Peers.Set(now)
			judge = task.Judge
		}
		at := Point{out.Steps, mean(rl.Evaluate(now, judge(), episodes, selection(o.Seed)))}
		if math.IsNaN(at.Return) {
			return Result{}, fmt.Errorf("training diverged at step %d: a return is not a number", at.Step)
		}
		out.Curve = append(out.Curve, at)
		if at.Return >= best.Return {
			best, policy = at, now
		}
		fmt.Fprintf(progress, "step %d of %d: mean return %.1f of %d greedy episodes, best %.1f at step %d\n",
			at.Step, o.Steps, at.Return, episodes, best.Return, best.Step)
		if o.StopAt != nil && at.Return >= *o.StopAt {
			out.Stopped = true
			break
		}
	}
	out.Seconds = time.Since(began).Seconds()
	out.Card, err = save(o, task, best, out, policy)
	return out, err
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
