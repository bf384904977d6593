package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/gym"
	"github.com/mash2-io/mash2/experiments/training"
)

func newTrain() *cobra.Command {
	var o training.Options
	cmd := &cobra.Command{
		Use:   "train",
		Short: "Trains a policy by reinforcement learning",
		Long: `Trains a policy by reinforcement learning and writes it to a folder: the model and
a card that says what it is. While it is trained, the policy is evaluated at regular
steps without exploration; the best one is kept.

  mash2 train --environment cartpole --algorithm dqn --steps 100000 --seed 11 --out cartpole-dqn
  mash2 evaluate --model cartpole-dqn --environment cartpole --episodes 100 --seed 12`,
		Args: cli.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&o.Environment, "environment", "", "what to learn: "+strings.Join(gym.Names(), ", "))
	f.StringVar(&o.Algorithm, "algorithm", "", "how to learn: "+strings.Join(training.Algorithms(), ", "))
	f.IntVar(&o.Steps, "steps", 100_000, "steps of the environment")
	f.Uint64Var(&o.Seed, "seed", 1, "of all that is random")
	var stopAt float64
	f.Float64Var(&stopAt, "stop-at", 0, "end early, at an evaluation whose mean return is this or more (default: never)")
	f.StringVar(&o.Out, "out", "", "folder for the model, its card and its curve; a model that is there is replaced")
	show := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.CheckOutput(cmd); err != nil {
			return err
		}
		o.Version = cli.Version()
		if cmd.Flags().Changed("stop-at") {
			o.StopAt = &stopAt
		}
		out, err := training.Run(cmd.Context(), o, cli.ProgressTo(cmd.ErrOrStderr()))
		if err != nil {
			return asTraining(err)
		}
		last := out.Curve[len(out.Curve)-1]
		return show(out, fmt.Sprintf("%d steps in %.1f s; mean return %.1f at the end; card: %s", out.Steps, out.Seconds, last.Return, out.Card))
	}
	return cmd
}

func newEvaluate() *cobra.Command {
	var models []string
	var environment string
	var episodes int
	var seed uint64
	cmd := &cobra.Command{
		Use:   "evaluate",
		Short: "Ranks trained policies",
		Long: `Plays episodes with trained policies, without exploration, and ranks them by mean
return. All meet the same starts, which come from --seed. Intervals are of 95 %, by
Student's t. A policy in an ONNX file, trained elsewhere, decides by its largest output; in a
continuous space by outputs from -1 to 1, which stand for what lies between the bounds.

  mash2 evaluate --model cartpole-dqn --model cartpole-ppo --environment cartpole --episodes 100`,
		Args: cli.NoArgs,
	}
	f := cmd.Flags()
	f.StringArrayVar(&models, "model", nil, "folder that mash2 train wrote, or an ONNX file; may be repeated")
	f.StringVar(&environment, "environment", "", "where to play: "+strings.Join(gym.Names(), ", "))
	f.IntVar(&episodes, "episodes", 100, "episodes of each model")
	f.Uint64Var(&seed, "seed", 1, "of the starts")
	show := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.CheckOutput(cmd); err != nil {
			return err
		}
		out, err := training.Evaluate(cmd.Context(), models, environment, episodes, seed, cli.ProgressTo(cmd.ErrOrStderr()))
		if err != nil {
			return asTraining(err)
		}
		return show(out, evaluationText(out))
	}
	return cmd
}

// evaluationText is a table, in the order of the ranking.
func evaluationText(e training.Evaluation) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "model\talgorithm\treturn\t95 % interval\tepisodes\t")
	for _, name := range e.Ranking {
		for _, s := range e.Models {
			if s.Name != name {
				continue
			}
			interval := "–"
			if s.Interval != nil {
				interval = fmt.Sprintf("%.1f … %.1f", s.Interval[0], s.Interval[1])
			}
			fmt.Fprintf(t, "%s\t%s\t%.1f\t%s\t%d\t\n", s.Name, s.Algorithm, s.Return, interval, s.Episodes)
		}
	}
	_ = t.Flush() // into memory
	return strings.TrimRight(b.String(), "\n")
}

// asTraining marks errors of what was asked for.
func asTraining(err error) error {
	if errors.Is(err, training.ErrInput) {
		return cli.Usage(err)
	}
	return err
}
