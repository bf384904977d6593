package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/whatif"
)

func newWhatif() *cobra.Command {
	var o whatif.Options
	var prom cli.PrometheusFlags
	var maxCost, maxViolation float64
	cmd := &cobra.Command{
		Use:   "whatif",
		Short: "Replays a workload's history under each policy and each rival",
		Long: `Reads the CPU that a workload has used, from Prometheus, a file or records, and replays
that demand in virtual time. Shows what each policy and each rival would have done: minutes
in violation of the SLO, node-hours, cost, scalings.

  mash2 whatif --prometheus http://prometheus:9090 \
    --selector 'namespace="shop",pod=~"web-.+"' --from 48h --to 24h --report out/whatif
  mash2 whatif --trace cpu.csv.gz --from 24h --policy COST_SAVING
  mash2 whatif --records D --workload shop/web --from 24h
  mash2 whatif --records D --from 24h   # all workloads in one table, beside the HPA
  mash2 whatif --records D --namespace shop --from 24h

The figures are of the stretch from --from to --to. The time before it, --warm-passes times
as long, is history that every scaler has seen.

CPU usage says nothing about the cost of a request, latencies, pods and nodes. Flags state
these, and the output lists every assumption that no flag states. Requests and limits of pods
are read from kube-state-metrics if Prometheus has it.

As a gate, --max-cost and --max-violation limit every policy of --policy. If one exceeds a
limit, the exit code is 1 and a sentence says which.`,
		Args: cli.NoArgs,
	}
	registerHistory(cmd, &o.History, &prom)
	registerWorld(cmd, &o.World)
	f := cmd.Flags()
	f.StringSliceVar(&o.Policies, "policy", []string{"COST_SAVING", "PERFORMANCE"}, "policies to try, each for the whole time")
	f.StringVar(&o.PoliciesFile, "policies-file", "", "policies.yaml as in the policy ConfigMap, with node pools named as in --pool; without it COST_SAVING has the first pool and PERFORMANCE the last")
	f.StringSliceVar(&o.Rivals, "rival", []string{"hpa:50", "hpa:60", "hpa:70", "hpa:80", "hpa:90", "hpa-overprovisioned", "keda-rps", "phpa", "karpenter", "static", "oracle"},
		"rivals, as in mash2 simulate --scaler; mash2:PERCENT is the first policy at another target")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of all random numbers")
	f.IntVar(&o.Seeds, "seeds", 1, "number of seeds, from --seed on; with several, 95 % intervals are shown")
	f.Float64Var(&maxCost, "max-cost", 0, "exit with 1 if the nodes of a policy cost more in the whole stretch, in USD")
	f.Float64Var(&maxViolation, "max-violation", 0, "exit with 1 if a policy violates the SLO in a larger share of the minutes with traffic, 0 to 1")
	f.StringVar(&o.Report, "report", "", "folder for an HTML report, its figures, and the scenario with its demand")
	show := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.CheckOutput(cmd); err != nil {
			return err
		}
		if cmd.Flags().Changed("max-cost") {
			o.Gate.MaxCostUSD = &maxCost
		}
		if cmd.Flags().Changed("max-violation") {
			o.Gate.MaxViolationRatio = &maxViolation
		}
		o.PrometheusURL = prom.URL
		if err := o.Validate(); err != nil {
			return cli.Usage(err)
		}
		if prom.URL != "" {
			if err := prom.Validate(); err != nil {
				return err
			}
			var err error
			if o.Transport, err = prom.Transport(); err != nil {
				return err
			}
		}
		o.Given = func(flag string) bool { return cmd.Flags().Changed(flag) }
		if o.Whole() {
			all, err := o.RunFleet(cmd.Context(), cli.ProgressTo(cmd.ErrOrStderr()))
			if err != nil {
				return asUsage(err)
			}
			return show(all, fleetText(all))
		}
		out, err := o.Run(cmd.Context(), cli.ProgressTo(cmd.ErrOrStderr()))
		if err != nil {
			return asUsage(err)
		}
		if err := show(out, whatifText(out)); err != nil {
			return err
		}
		if out.Gate != nil && !out.Gate.Passed {
			return errors.New(out.Gate.Sentence())
		}
		return nil
	}
	return cmd
}

// fleetText is a table of all workloads for people.
func fleetText(o whatif.Fleet) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	table := func(header []string, rows [][]string) {
		for _, row := range append([][]string{header}, rows...) {
			fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
		}
		_ = t.Flush() // into memory
	}
	table(o.Header(), o.Rows())
	fmt.Fprintln(&b)
	for _, line := range o.Sentences() {
		fmt.Fprintln(&b, line)
	}
	if t := o.Together; t != nil {
		fmt.Fprintln(&b)
		table(t.Header(), t.Rows())
		fmt.Fprintln(&b)
		for _, line := range t.Sentences() {
			fmt.Fprintln(&b, line)
		}
	}
	fmt.Fprintln(&b, "\n"+o.KnownError.Sentence())
	table(o.KnownError.Table())
	return strings.TrimRight(b.String(), "\n")
}

// whatifText is what is printed for people.
func whatifText(o whatif.Result) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	table := func(header []string, rows [][]string) {
		for _, row := range append([][]string{header}, rows...) {
			fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
		}
		_ = t.Flush() // into memory
	}
	fmt.Fprintln(&b, o.Replayed())
	if o.Recorded != nil {
		fmt.Fprintln(&b, o.Recorded.Sentence())
		if o.RecordsError != nil {
			fmt.Fprintln(&b, o.RecordsError.Sentence())
		}
	}
	for _, n := range o.History.Notes {
		fmt.Fprintln(&b, "note:", n)
	}
	fmt.Fprintln(&b)
	table(o.Header(), o.Rows())
	fmt.Fprintln(&b)
	for _, line := range o.Sentences() {
		fmt.Fprintln(&b, line)
	}
	fmt.Fprintln(&b, "\nassumptions, because the history does not say:")
	for _, a := range o.Assumptions {
		fmt.Fprintln(&b, "  "+a.Text())
	}
	fmt.Fprintln(&b, "\n"+o.KnownError.Sentence())
	table(o.KnownError.Table())
	if o.Gate != nil {
		if o.Gate.Passed {
			fmt.Fprintln(&b, "\ngate: passed")
		} else {
			fmt.Fprintln(&b, "\ngate: exceeded:", o.Gate.Sentence())
		}
	}
	if o.Report != "" {
		fmt.Fprintf(&b, "\nreport: %s; the scenario alone: %s\n", o.Report, o.Again())
	}
	return strings.TrimRight(b.String(), "\n")
}
