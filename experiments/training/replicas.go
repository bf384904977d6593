package training

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/experiments/gym"
	"github.com/mash2-io/mash2/planning/rl"
)

// Replicas are means over the cycles of all episodes.
type Replicas struct {
	// Ready replicas, and the share of cycles that violated the SLO, 0–1.
	Ready     float64 `json:"ready"`
	Violating float64 `json:"violating"`
}

// Rules of the world of replicas.
const (
	// ruleFloor asks for ever fewer replicas, and so has the reactive floor.
	ruleFloor = "rule:floor"
	// rulePlan is the operator's own planner without forecasts, with its windows and margins.
	rulePlan = "rule:plan"
)

// evaluateReplicas plays the world of replicas with models and rules.
func evaluateReplicas(ctx context.Context, out Evaluation, task gym.Task, names []string, count int, progress io.Writer) (Evaluation, error) {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return out, Inputf("--model: %s twice", name)
		}
		if err := ctx.Err(); err != nil {
			return out, err
		}
		env := &gym.Replicas{Planned: name == rulePlan}
		s := Score{Name: name, Environment: task.Name, Algorithm: "rule", Episodes: count}
		decide := func([]float32) rl.Action { return rl.Action{} }
		switch {
		case name == ruleFloor || name == rulePlan:
		case strings.HasPrefix(name, "rule:"):
			return out, Inputf("--model: unknown rule %q: want %s or %s", name, ruleFloor, rulePlan)
		default:
			m, err := open(name, task.Name, task.Spec.Actions)
			if err != nil {
				return out, Inputf("--model: %w", err)
			}
			if m.Environment != task.Name || m.Policy.Network.Architecture.Inputs != task.Spec.Observations || m.Policy.Actions.N != task.Spec.Actions.N {
				return out, Inputf("--model: %s does not fit the environment %s", name, task.Name)
			}
			s.Algorithm, decide = m.Algorithm, m.Policy.NewActor().Act
		}
		returns := rl.Play(env, decide, count, out.Seed)
		s.Return, s.Interval = MeanOf(returns)
		s.Replicas = &Replicas{env.Ready / max(1, env.Cycles), env.Violating / max(1, env.Cycles)}
		out.Models = append(out.Models, s)
		fmt.Fprintf(progress, "%s: mean return %.1f, %.2f replicas, %.2f %% of cycles violate the SLO\n", name, s.Return, s.Replicas.Ready, 100*s.Replicas.Violating)
	}
	out.Ranking = ranking(out.Models)
	out.Why = "the first is not promoted by itself: look at replicas and violations, and try it by mash2 simulate --scaler mash2-rl"
	return out, nil
}
