package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/simulation"
)

func newSimulate() *cobra.Command {
	var o simulation.Options
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Runs a scenario in virtual time",
		Long: `Runs a scenario in virtual time: the operator's own loop, planners and execution
in a simulated cluster, beside baselines. Each scaler has a cluster of its own,
with the same load, bounds and warm-up.

  mash2       this operator, with the targets of its policies
  mash2:70    the same with workloads that state a target of 70 %
  mash2-any[:PERCENT]
              the same with policies that allow every pool of the scenario; mash2's
              policies name one pool each
  mash2-sized[:PERCENT]
              mash2-any, and what containers request is chosen from usage, in place
  mash2-agents[:PERCENT]
              mash2, with agents that let pods grow in place up to that share of their
              template's CPU limit (200 %) until replicas are Ready
  mash2-rl    mash2-any with planner rl, by --model or by the model of margins that comes with the
              program
  hpa         the rules of the stock HPA and Cluster Autoscaler, at the scenario's
              target, which is 80 % in every built-in scenario
  hpa:60      the same at another target
  hpa-overprovisioned[:PERCENT]
              the HPA, and pause pods that keep a share of the cluster free (20 %), as
              in Cluster Autoscaler's FAQ on overprovisioning
  keda-rps[:RPS]
              a ScaledObject of KEDA on requests per second and replica, by default
              80 % (the scenario's target) of what a replica's CPU request can serve
  phpa[:PERCENT]
              the Predictive HPA with the settings of its examples; its season is a pass
  karpenter[:PERCENT]
              the HPA with Karpenter's rules for nodes, over all machine types of the
              scenario's pools
  hpa-vpa[:PERCENT], karpenter-vpa[:PERCENT]
              hpa and karpenter with a VerticalPodAutoscaler of memory for each workload
  keda-vpa[:RPS]
              keda-rps with a VerticalPodAutoscaler of CPU and memory
  attune[:PERCENT], autopilot[:PERCENT]
              karpenter with requests of CPU and memory by Attune's documented percentiles
              (mode Auto), or by the windows of Google's Autopilot (S_p95, S_p98)
  static      sized for the scenario's peak
  oracle      a bound: no scaler without a violation that leaves requests as they are can cost less

Warm-up passes, those of the scenario or --warm-passes, come first and are not measured.
--against compares with recordings of mash2 demo (results.json in its report's folder, or
its output with -o json): it simulates the same passes and the same switch of the policy,
and prints the errors by scaler. --fidelity fluid,request compares the two fidelities.`,
		Args: cli.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&o.Scenario, "scenario", "heartbeat", "a built-in scenario ("+strings.Join(scenarios.Names(), ", ")+") or a file")
	f.StringVar(&o.Trace, "trace", "", "CSV[.gz] file that replaces the scenario's own arrivals")
	f.StringSliceVar(&o.Scalers, "scaler", []string{"mash2", "hpa"}, "scalers to compare: "+strings.Join(sim.Scalers(), ", ")+", oracle")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of all random numbers")
	f.IntVar(&o.Seeds, "seeds", 1, "number of seeds, from --seed on; with several, 95 % intervals are shown")
	f.IntVar(&o.Warm, "warm-passes", -1, "passes before the measured ones; -1: as in the scenario")
	f.Float64Var(&o.Scale, "scale", 1, "factor of load, replica bounds and pool bounds")
	f.StringSliceVar(&o.Fidelities, "fidelity", []string{string(sim.Fluid)}, "fluid, or request for single requests; with both, the second is compared with the first")
	f.Float64Var(&o.SLO, "slo", 0, "SLO given to mash2, as a percentage of answered requests such as 99.9: no scale-down while it is not known to be kept, and rollback when it burns; 0: none")
	f.StringVar(&o.Report, "report", "", "folder for an HTML report and its figures as PNG")
	f.StringSliceVar(&o.Against, "against", nil, "recordings of mash2 demo to compare with, such as out/demo/results.json")
	f.StringVar(&o.Records, "records", "", "folder for records of mash2's cycles, for replay and explain; several runs get a subfolder each")
	f.StringVar(&o.Model, "model", "", "model of mash2-rl: a folder of mash2 train --environment margins or scaling-ops, such as agents/candidate-4, or its model.rl (default builtin:margins)")
	o.Version = cli.Version()
	cli.ForecasterFlag(cmd, &o.Forecaster)
	show := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.CheckOutput(cmd); err != nil {
			return err
		}
		if o.Scale == 0 {
			return cli.Usage(errors.New("--scale must be a positive number, is 0"))
		}
		s, err := o.Load()
		if err != nil {
			return cli.Usage(err)
		}
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(sim.GCPercent)
		}
		out, err := o.Run(cmd.Context(), s, cli.ProgressTo(cmd.ErrOrStderr()))
		if err != nil {
			return asUsage(err)
		}
		return show(out, simulationText(out))
	}
	return cmd
}

// simulationText is a table: a row for each scaler, means over seeds with 95 % intervals.
func simulationText(s simulation.Result) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	write := func(header []string, rows [][]string) {
		for _, row := range append([][]string{header}, rows...) {
			fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
		}
		_ = t.Flush() // into memory
	}
	write(s.Header(), s.Rows())
	for _, r := range s.Runs {
		if r.Rollbacks != nil {
			fmt.Fprintf(&b, "%s, seed %d: the plan was taken back %d times\n", r.Scaler, r.Seed, *r.Rollbacks)
		}
	}
	for _, line := range s.EqualSLO() {
		fmt.Fprintln(&b, line)
	}
	if len(s.Against) > 0 {
		table := score.DifferenceTable(s.Against, score.RealAndSimulated)
		fmt.Fprintln(&b, "\nagainst the real control plane:")
		write(table.Header, table.Rows)
	}
	if len(s.Fidelities) > 0 {
		table := score.DifferenceTable(simulation.Differences(s.Fidelities), score.Fidelities)
		fmt.Fprintln(&b, "\nfluid beside every single request:")
		write(table.Header, table.Rows)
	}
	if s.Report != "" {
		fmt.Fprintln(&b, "report:", s.Report)
	}
	return strings.TrimRight(b.String(), "\n")
}

// asUsage marks errors of what was asked for.
func asUsage(err error) error {
	if errors.Is(err, simulation.ErrInput) {
		return cli.Usage(err)
	}
	return err
}
