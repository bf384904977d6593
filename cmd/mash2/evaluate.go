package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/continuum"
	"github.com/mash2-io/mash2/experiments/gym"
	"github.com/mash2-io/mash2/experiments/margins"
	"github.com/mash2-io/mash2/experiments/qos"
	"github.com/mash2-io/mash2/experiments/shop"
	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/experiments/trainticket"
	"github.com/mash2-io/mash2/experiments/whatif"
)

func newEvaluate() *cobra.Command {
	var models []string
	var environment string
	var episodes int
	var seed uint64
	var inputs []string
	var trial whatif.Trial
	environments := append(gym.Names(), append(append(trainticket.Environments(), trainticket.NodesEnvironment), margins.Environment, qos.Environment, continuum.Environment, shop.Environment)...)
	cmd := &cobra.Command{
		Use:   "evaluate",
		Short: "Ranks trained policies, models and rules",
		Long: `Plays episodes with trained policies, without exploration, and ranks them by mean
return. All play from the same starts, which follow from --seed. Intervals are 95 %, by
Student's t. For a policy in an ONNX file that was trained elsewhere, the largest output is
the decision. In a continuous space its outputs from -1 to 1 are scaled to the bounds.

In marlise a model decides for every pod. The rules rule:spread, rule:proportional,
rule:threshold and rule:fixed are valid as models. A promotion is proposed by response times,
with its statistical test.

In the environment qos, models predict the latencies of --input and are ranked by mean
absolute error, beside a linear model, the mean and the last value. Models may be files of
LightGBM, XGBoost, scikit-learn or ONNX. If a model was trained on the file, only its held-out
part counts. Intervals are 95 %, by a bootstrap over blocks of five minutes.

train-ticket is a chain of forty services whose load rises from 200 to 800 requests a second
within a minute; train-ticket-changed is the same with another call graph,
train-ticket-nodes the same on machines that are scaled as well. The model
builtin:drpc comes with the program. The rules are rule:hpa, rule:firm, rule:coscal, rule:plan,
which is mash2, rule:agents, which is mash2 with agents that resize pods in place, rule:joint,
rule:predictive and rule:proportional. Models are ranked by how the users fared, and the table shows what each took.

In margins a model says what part of its margin a workload needs. It is compared with the
planner's own margins, by the cost of nodes and the time in violation, on as many drawn workloads
as there are episodes, or on the recorded load of the scenarios in --input. builtin:margins comes
with the program, rule:part:0.85 always takes that part.

edge-cloud and shop compare rules and need no model. In edge-cloud an application moves
between an edge and a cloud node by predicted performance per cost, for --episodes days. In
shop a learner chooses among policies, beside fixed schedules and the oracle, for
--episodes years.

With --records, candidates are compared on what a workload was asked for while an operator
recorded it. Each replays that demand in virtual time, in the pods, bounds and pools of the
records, as mash2 whatif does. A candidate is a model of replicas, which plans for mash2, or
a rule: rule: and a scaler of mash2 simulate. It is promoted over --incumbent if it keeps
the SLO and costs less with proof: a sequential test over blocks of a day. The exit code is 0
either way.

  mash2 evaluate --model cartpole-dqn --model cartpole-ppo --environment cartpole --episodes 100
  mash2 evaluate --model rule:threshold --model agents-ddpg --environment marlise --episodes 100
  mash2 evaluate --model forest --environment qos --input evening.csv
  mash2 evaluate --model builtin:drpc --model rule:hpa --environment train-ticket --episodes 10
  mash2 evaluate --model builtin:margins --model rule:part:0.9 --environment margins --episodes 100
  mash2 evaluate --environment edge-cloud --episodes 20
  mash2 evaluate --environment shop --episodes 20
  mash2 evaluate --records D --workload shop/web --model agents/candidate-4 --model rule:hpa:70`,
		Args: cli.NoArgs,
	}
	f := cmd.Flags()
	f.StringArrayVar(&models, "model", nil, "folder that mash2 train wrote, an ONNX file, or a rule; may be repeated")
	f.StringVar(&environment, "environment", "", "environment: "+strings.Join(environments, ", "))
	f.StringArrayVar(&inputs, "input", nil, "qos: CSV file of latencies and node metrics, may be gzipped; margins: scenario with recorded load; train-ticket: CSV file of machines that the load is to keep the hosts as busy as, with a column cpu_util_percent and a row each 30 s; may be repeated")
	f.IntVar(&episodes, "episodes", 100, "episodes of each model (default of train-ticket: 10); days of edge-cloud, years of shop")
	f.Uint64Var(&seed, "seed", 1, "seed of the starts")
	registerTrial(cmd, &trial)
	show := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.CheckOutput(cmd); err != nil {
			return err
		}
		progress := cli.ProgressTo(cmd.ErrOrStderr())
		if trial.Records != "" {
			for _, name := range []string{"environment", "episodes", "input"} {
				if cmd.Flags().Changed(name) {
					return cli.Usagef("--records has no --%s", name)
				}
			}
			trial.Candidates, trial.Seed = models, seed
			trial.Given = func(flag string) bool { return cmd.Flags().Changed(flag) }
			if err := trial.Validate(); err != nil {
				return cli.Usage(err)
			}
			out, err := trial.Run(cmd.Context(), progress)
			if err != nil {
				return asUsage(err)
			}
			return show(out, verdictText(out))
		}
		for _, name := range trialFlags(cmd) {
			if cmd.Flags().Changed(name) {
				return cli.Usagef("--%s goes with --records", name)
			}
		}
		switch environment {
		case continuum.Environment, shop.Environment:
			if err := notOf(cmd, environment, "model", "input"); err != nil {
				return err
			}
			if environment == shop.Environment {
				out, err := shop.Evaluate(cmd.Context(), episodes, seed, progress)
				if err != nil {
					return asTraining(err)
				}
				return show(out, shopText(out))
			}
			out, err := continuum.Evaluate(cmd.Context(), episodes, seed, progress)
			if err != nil {
				return asTraining(err)
			}
			return show(out, continuumText(out))
		case trainticket.Environment, trainticket.OtherEnvironment, trainticket.NodesEnvironment:
			if len(inputs) > 1 {
				return cli.Usagef("--input: %s takes one file", environment)
			}
			if !cmd.Flags().Changed("episodes") {
				episodes = 10
			}
			out, err := trainticket.Evaluate(cmd.Context(), models, environment, strings.Join(inputs, ""), episodes, seed, progress)
			if err != nil {
				return asTraining(err)
			}
			return show(out, chainText(out))
		case margins.Environment:
			out, err := margins.Evaluate(cmd.Context(), models, inputs, episodes, seed, progress)
			if err != nil {
				return asTraining(err)
			}
			return show(out, marginsText(out))
		case qos.Environment:
			if err := notOf(cmd, qos.Environment, "episodes"); err != nil {
				return err
			}
			out, err := qos.Evaluate(cmd.Context(), models, inputs, seed, progress)
			if err != nil {
				return asTraining(err)
			}
			return show(out, qosText(out.Models)+"\n"+out.Why)
		}
		if environment == "" {
			return cli.Usagef("--environment must name one of %s, or --records an operator's records", strings.Join(environments, ", "))
		}
		if err := known(environment, environments); err != nil {
			return err
		}
		if err := notOf(cmd, environment, "input"); err != nil {
			return err
		}
		out, err := training.Evaluate(cmd.Context(), models, environment, episodes, seed, progress)
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
	agentsText(t, e)
	if len(e.Models) > 0 && e.Models[0].Replicas != nil {
		fmt.Fprintln(t, "\nmodel\tReady replicas\tSLO violated, % of cycles\t")
		for _, s := range e.Models {
			fmt.Fprintf(t, "%s\t%.2f\t%.2f\t\n", s.Name, s.Replicas.Ready, 100*s.Replicas.Violating)
		}
	}
	_ = t.Flush() // into memory
	return strings.TrimRight(b.String(), "\n")
}

// agentsText adds what requests saw, in MARLISE's world.
func agentsText(w io.Writer, e training.Evaluation) {
	if len(e.Models) == 0 || e.Models[0].Service == nil {
		return
	}
	fmt.Fprintln(w, "\nmodel\tmean ms\tp95 ms\tmillicores moved a minute\twrites a minute\tbudget used\tby priority, ms\t")
	for _, s := range e.Models {
		v := s.Service
		fmt.Fprintf(w, "%s\t%.1f\t%.0f\t%.0f\t%.1f\t%.0f %%\t", s.Name, 1000*v.MeanSeconds, 1000*v.P95Seconds, v.Churn, v.Writes, 100*v.Allocated)
		for i, c := range v.ByPriority {
			if i > 0 {
				fmt.Fprint(w, ", ")
			}
			fmt.Fprintf(w, "%s: %.1f", c.Priorities, 1000*c.MeanSeconds)
		}
		fmt.Fprintln(w, "\t")
	}
	fmt.Fprintln(w, "\n"+e.Why)
}

// known refuses an environment that is none of the names.
func known(environment string, names []string) error {
	if slices.Contains(names, environment) {
		return nil
	}
	return cli.Usagef("--environment: unknown environment %q: want one of %s", environment, strings.Join(names, ", "))
}

// notOf refuses flags that an environment does not have.
func notOf(cmd *cobra.Command, environment string, flags ...string) error {
	for _, name := range flags {
		if cmd.Flags().Changed(name) {
			return cli.Usagef("environment %[2]q has no --%[1]s", name, environment)
		}
	}
	return nil
}

// qosText is a table, as it was scored.
func qosText(scores []qos.Score) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "model\terror (ms)\t95 % interval\tRMSE\tbias\trelative\t")
	for _, s := range scores {
		interval := "–"
		if s.Interval != nil {
			interval = fmt.Sprintf("%.2f … %.2f", -s.Interval[1], -s.Interval[0])
		}
		fmt.Fprintf(t, "%s\t%.2f\t%s\t%.2f\t%+.2f\t%.1f %%\t\n", s.Name, s.MAE, interval, s.RMSE, s.Bias, 100*s.MAPE)
	}
	_ = t.Flush() // into memory
	return strings.TrimRight(b.String(), "\n")
}

// chainText is a table, in the order of the ranking.
func chainText(e trainticket.Evaluation) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "model\tR_qos\tfailed\tp50 ms\tp95 ms\tp99 ms\tcores\t$/hour\treplicas\tscalings\tleft out\t")
	for _, name := range e.Ranking {
		for _, s := range e.Models {
			if s.Name != name {
				continue
			}
			left := "–"
			if s.LeftOut != nil {
				left = fmt.Sprintf("%.2f %%", 100*s.LeftOut.Mean)
			}
			fmt.Fprintf(t, "%s\t%.4f\t%.4f %%\t%.1f\t%.0f\t%.0f\t%.1f\t%.3f\t%.0f\t%.0f\t%s\t\n", s.Name, s.Return, 100*s.FailedRatio.Mean,
				s.P50Ms.Mean, s.P95Ms.Mean, s.P99Ms.Mean, s.Cores.Mean, s.CostUSD.Mean, s.Replicas.Mean, s.ScaleActions.Mean, left)
		}
	}
	_ = t.Flush() // into memory
	if p := e.Profile; p != nil {
		fmt.Fprintf(&b, "Load keeps the hosts as busy as the file's machines. Profiled up to %.0f requests a second, at %.0f %% of the hosts' CPU; off by %.1f a second, a straight line by %.1f.\n",
			p.MostRequests, 100*p.Most, p.RMSE, p.LineRMSE)
	}
	for _, s := range e.Models {
		if s.Retrain != nil && *s.Retrain > 0 {
			fmt.Fprintf(&b, "%s asks to be taught again in %.0f %% of the episodes.\n", s.Name, 100**s.Retrain)
		}
	}
	return b.String() + e.Why
}

// marginsText is a table, in the order of the ranking.
func marginsText(e margins.Evaluation) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "model\treplicas at peak\tcost beside the planner\t95 % interval\tworst\tviolating, % of the time\tmore than the planner\t95 % interval\t")
	for _, name := range e.Ranking {
		for _, s := range e.Models {
			if s.Name != name {
				continue
			}
			for _, x := range s.Sizes {
				cost, more := "–", "–"
				if x.CostInterval != nil {
					cost, more = fmt.Sprintf("%.3f … %.3f", x.CostInterval[0], x.CostInterval[1]), fmt.Sprintf("%+.3f … %+.3f", 100*x.MoreInterval[0], 100*x.MoreInterval[1])
				}
				fmt.Fprintf(t, "%s\t%d\t%.3f\t%s\t%.2f\t%.3f\t%+.3f\t%s\t\n", s.Name, x.Replicas, x.Cost, cost, x.Worst, 100*x.Violating, 100*x.More, more)
			}
		}
	}
	_ = t.Flush() // into memory
	return b.String() + e.Why
}

// shopText is a table, in the order of the ranking.
func shopText(e shop.Evaluation) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "choice\treward\tregret to oracle\tto best schedule\tgain over owner\tworst share\t")
	for _, name := range e.Ranking {
		for _, s := range e.Models {
			if s.Name == name {
				fmt.Fprintf(t, "%s\t%.4f\t%.4f\t%.4f\t%+.4f\t%.3f\t\n", s.Name, s.Return,
					s.AgainstOracle[len(s.AgainstOracle)-1].Mean, s.AgainstSchedule[len(s.AgainstSchedule)-1].Mean, s.Gain.Mean, s.Worst)
			}
		}
	}
	_ = t.Flush() // into memory
	return b.String() + e.Why
}

// continuumText is a table, in the order of the ranking.
func continuumText(e continuum.Evaluation) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "rule\tper cost\ttime (ms)\tagainst cloud\tagainst edge\tcost\tmoves\tSLA broken\t")
	for _, name := range e.Ranking {
		for _, s := range e.Models {
			if s.Name == name {
				fmt.Fprintf(t, "%s\t%.2f\t%.1f\t%+.1f %%\t%+.1f %%\t%.1f\t%.1f\t%.2f %%\t\n", s.Name, s.Return, s.Time.Mean,
					100*s.AgainstCloud.Mean, 100*s.AgainstEdge.Mean, s.Cost.Mean, s.Moves.Mean, 100*s.Broken.Mean)
			}
		}
	}
	_ = t.Flush() // into memory
	return b.String() + e.Why
}
