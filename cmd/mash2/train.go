package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/gym"
	"github.com/mash2-io/mash2/experiments/margins"
	"github.com/mash2-io/mash2/experiments/qos"
	"github.com/mash2-io/mash2/experiments/scalingops"
	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/experiments/trainticket"
)

func newTrain() *cobra.Command {
	var o training.Options
	var ops scalingOpsFlags
	var from string
	environments := append(gym.Names(), append(trainticket.Environments(), margins.Environment, qos.Environment, scalingops.Environment)...)
	cmd := &cobra.Command{
		Use:   "train",
		Short: "Trains a policy by reinforcement learning, or a model of the quality of service",
		Long: `Trains a policy by reinforcement learning and writes it to a folder: the model, and a
card that describes it. During training the policy is evaluated at regular steps without
exploration, and the best one is kept.

In the environment qos it learns from --input to predict an application's latency on a node
from that node's CPU and memory, by a random forest or by least squares (--algorithm linear).
The last 30 % of each file's time are held out, and the card has the errors on that part.

  mash2 train --environment cartpole --algorithm dqn --steps 100000 --seed 11 --out cartpole-dqn
  mash2 evaluate --model cartpole-dqn --environment cartpole --episodes 100 --seed 12
  mash2 train --environment qos --input morning.csv --out forest

--environment train-ticket trains a teacher that sees a chain of forty services, and a student
of 643 parameters for each of them that imitates it. --from goes on from an earlier model, for
example in train-ticket-changed, the same application with another call graph:

  mash2 train --environment train-ticket --steps 100000 --out drpc
  mash2 train --environment train-ticket-changed --from drpc --steps 15000 --out retrained

--environment scaling-ops trains several agents that scale a workload from its history. It
ranks them, beside rules, on the part of the history that they were not trained on, and
writes a report from which you choose:

  mash2 train --environment scaling-ops --input HISTORY.csv --out agents
  mash2 train --environment scaling-ops --from-prometheus URL --workload shop/web --out agents

With --from the candidates learn on from the model in use, on history that came since, and the
answer is which of them to use instead, if one is better by more than chance:

  mash2 train --environment scaling-ops --from-prometheus URL --workload shop/web --past 24h --from agents/candidate-4 --out agents-today

--environment margins trains a model that says what part of its margin a workload needs, on
fifteen hundred drawn workloads, and on the recorded load of the scenarios in --input:

  mash2 train --environment margins --steps 57600000 --input experiments/traces/development/crane-1.yaml --out margins`,
		Args: cli.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&o.Environment, "environment", "", "environment: "+strings.Join(environments, ", "))
	var inputs []string
	f.StringArrayVar(&inputs, "input", nil, "qos: CSV file of latencies and node metrics, .gz too, may be repeated; margins: scenario with recorded load, may be repeated; scaling-ops: CSV of the history with columns time, cpu (mean millicores of a replica), requests (a second, in all), delay (ms), replicas")
	f.StringVar(&o.Algorithm, "algorithm", "", "algorithm: "+strings.Join(training.Algorithms(), ", ")+"; of qos: "+strings.Join(qos.Algorithms(), ", ")+"; of train-ticket: "+strings.Join(trainticket.Algorithms(), ", ")+" (default: the first)")
	f.IntVar(&o.Steps, "steps", 100_000, "steps in the environment; scaling-ops: steps of each candidate (default 30000); margins: decisions (default 57600000)")
	ops.register(cmd)
	f.Uint64Var(&o.Seed, "seed", 1, "seed of all random numbers")
	var stopAt float64
	f.Float64Var(&stopAt, "stop-at", 0, "stop when an evaluation has at least this mean return (default: never)")
	f.StringVar(&o.Out, "out", "", "folder for the model, its card and its curve; an existing model is replaced, and a training that was ended before its time goes on")
	f.BoolVar(&o.Restart, "restart", false, "begin anew where --out has a training that was ended before its time")
	f.StringVar(&from, "from", "", "train-ticket: folder of a model that is to learn on, or "+trainticket.Builtin+"; scaling-ops: folder of the model in use, from which candidates learn on and which they have to beat")
	show := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.CheckOutput(cmd); err != nil {
			return err
		}
		if o.Environment == scalingops.Environment {
			if err := notOf(cmd, scalingops.Environment, "stop-at", "restart"); err != nil {
				return err
			}
			if len(inputs) > 1 {
				return cli.Usagef("--input: %s takes one history, not %d", scalingops.Environment, len(inputs))
			}
			ops.input = strings.Join(inputs, "")
			if ops.Seed = o.Seed; cmd.Flags().Changed("steps") {
				ops.Steps = o.Steps
			}
			return ops.run(cmd, o.Algorithm, from, o.Out, show)
		}
		if err := ops.refuse(cmd, o.Environment); err != nil {
			return err
		}
		o.Version = cli.Version()
		if slices.Contains(trainticket.Environments(), o.Environment) {
			if err := notOf(cmd, o.Environment, "stop-at", "restart", "input"); err != nil {
				return err
			}
			out, err := trainticket.Train(cmd.Context(), trainticket.Options{
				Environment: o.Environment, Algorithm: o.Algorithm, Steps: o.Steps, Seed: o.Seed, From: from, Out: o.Out, Version: o.Version,
			}, cli.ProgressTo(cmd.ErrOrStderr()))
			if err != nil {
				return asTraining(err)
			}
			return show(out, out.Text())
		}
		if err := notOf(cmd, o.Environment, "from"); err != nil {
			return err
		}
		if o.Environment == margins.Environment {
			if err := notOf(cmd, o.Environment, "algorithm", "stop-at", "restart"); err != nil {
				return err
			}
			if !cmd.Flags().Changed("steps") {
				o.Steps = margins.DefaultSteps
			}
			out, err := margins.Train(cmd.Context(), margins.Options{Steps: o.Steps, Seed: o.Seed, Inputs: inputs, Out: o.Out, Version: o.Version}, cli.ProgressTo(cmd.ErrOrStderr()))
			if err != nil {
				return asTraining(err)
			}
			return show(out, fmt.Sprintf("%d decisions in %.0f s; cost %.4f of the planner's at the end, violating %.4f %% of the time, the planner %.4f %%; card: %s",
				out.Steps, out.Seconds, out.Cost, 100*out.Violating, 100*out.Before, out.Card))
		}
		if o.Environment == qos.Environment {
			if err := notOf(cmd, qos.Environment, "steps", "stop-at", "restart"); err != nil {
				return err
			}
			out, err := qos.Train(cmd.Context(), qos.Options{Inputs: inputs, Algorithm: o.Algorithm, Seed: o.Seed, Out: o.Out, Version: o.Version}, cli.ProgressTo(cmd.ErrOrStderr()))
			if err != nil {
				return asTraining(err)
			}
			return show(out, fmt.Sprintf("%d samples in %.1f s; held out:\n%s\ncard: %s", out.Samples, out.Seconds, qosText(out.HeldOut), out.Card))
		}
		if err := known(o.Environment, environments); err != nil {
			return err
		}
		if err := notOf(cmd, o.Environment, "input"); err != nil {
			return err
		}
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

// asTraining marks errors of what was asked for.
func asTraining(err error) error {
	if errors.Is(err, training.ErrInput) {
		return cli.Usage(err)
	}
	return err
}
