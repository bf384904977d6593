package training

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/mash2-io/mash2/experiments/gym"
	"github.com/mash2-io/mash2/planning/rl"
)

// Evaluation compares models on the same episodes.
type Evaluation struct {
	Environment string  `json:"environment"`
	Seed        uint64  `json:"seed"`
	Models      []Score `json:"models"`
	// Ranking has the names of models, the highest mean return first.
	Ranking []string `json:"ranking"`
	// Promote is whether the first is to replace a rule: null where there is no rule to
	// compare with.
	Promote *bool  `json:"promote"`
	Why     string `json:"why"`
}

// Score of a model.
type Score struct {
	Name        string `json:"name"`
	Environment string `json:"environment"`
	Algorithm   string `json:"algorithm"`
	// Return is the mean over episodes, Interval its 95 % confidence interval by
	// Student's t; null for a single episode.
	Return   float64     `json:"return"`
	Interval *[2]float64 `json:"interval"`
	Episodes int         `json:"episodes"`
	// Solved is whether the mean reaches what Gymnasium calls solved; null where it
	// names nothing.
	Solved *bool `json:"solved"`
	// Service is what requests saw, in MARLISE's world only.
	Service *gym.Service `json:"service,omitempty"`
	// Replicas is what there was on average, in the world of replicas only.
	Replicas *Replicas `json:"replicas,omitempty"`
}

// MaxEpisodes bounds what can be asked for.
const MaxEpisodes = 1_000_000

// Evaluate plays episodes with each model, in a folder or an ONNX file, greedily and all from the same
// starts. Errors wrap ErrInput where what was asked for can't be done.
func Evaluate(ctx context.Context, dirs []string, environment string, count int, seed uint64, progress io.Writer) (Evaluation, error) {
	out := Evaluation{Environment: environment, Seed: seed, Why: "no rule to compare with in this environment"}
	task, err := gym.ByName(environment)
	if err != nil {
		return out, Inputf("--environment: %w", err)
	}
	if count < 1 || count > MaxEpisodes {
		return out, Inputf("--episodes must be from 1 to %d, is %d", MaxEpisodes, count)
	}
	if len(dirs) == 0 {
		return out, Inputf("--model must name a folder or an ONNX file")
	}
	if task.Peers != nil {
		return evaluateAgents(ctx, out, dirs, count, progress)
	}
	if environment == gym.ReplicasName {
		return evaluateReplicas(ctx, out, task, dirs, count, progress)
	}
	models := make([]rl.Model, len(dirs))
	for i, dir := range dirs {
		if slices.Contains(dirs[:i], dir) {
			return out, Inputf("--model: %s twice", dir)
		}
		if models[i], err = open(dir, environment, task.Spec.Actions); err != nil {
			return out, Inputf("--model: %w", err)
		}
		if got := models[i].Environment; got != environment {
			return out, Inputf("--model: %s was trained in %s, not in %s", dir, got, environment)
		}
		p := models[i].Policy
		if p.Network.Architecture.Inputs != task.Spec.Observations || p.Actions.N != task.Spec.Actions.N ||
			!slices.Equal(p.Actions.Low, task.Spec.Actions.Low) || !slices.Equal(p.Actions.High, task.Spec.Actions.High) {
			return out, Inputf("--model: %s does not fit the observations or actions of %s", dir, environment)
		}
	}
	for i, m := range models {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		returns := rl.Evaluate(m.Policy, task.New(), count, seed)
		s := Score{Name: dirs[i], Environment: m.Environment, Algorithm: m.Algorithm, Episodes: count}
		if s.Return, s.Interval = MeanOf(returns); math.IsNaN(s.Return) {
			return out, fmt.Errorf("--model: the return of %s is not a number", dirs[i])
		}
		if task.Solved != 0 {
			solved := s.Return >= task.Solved
			s.Solved = &solved
		}
		out.Models = append(out.Models, s)
		fmt.Fprintf(progress, "%s: mean return %.1f of %d episodes\n", dirs[i], s.Return, count)
	}
	out.Ranking = ranking(out.Models)
	return out, nil
}

// MeanOf is the mean of numbers, and its 95 % confidence interval by Student's t, nil for a single one.
func MeanOf(x []float64) (float64, *[2]float64) {
	m, deviation := stat.MeanStdDev(x, nil)
	if len(x) < 2 {
		return m, nil
	}
	half := distuv.StudentsT{Sigma: 1, Nu: float64(len(x) - 1)}.Quantile(0.975) * deviation / math.Sqrt(float64(len(x)))
	return m, &[2]float64{m - half, m + half}
}

// ranking has the names, the highest return first.
func ranking(models []Score) (names []string) {
	ranked := slices.Clone(models)
	slices.SortStableFunc(ranked, func(a, b Score) int { return cmp.Compare(b.Return, a.Return) })
	for _, s := range ranked {
		names = append(names, s.Name)
	}
	return names
}
