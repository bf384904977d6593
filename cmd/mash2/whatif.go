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
		Short: "Replays a workload's own history under each policy and each rival",
		Long: `Reads the CPU that a workload has used, from Prometheus, from a file or from records, lets the same
demand come in virtual time, and tells what each policy and each rival would have
done with it: minutes in violation of the SLO, node-hours, money, scalings.

  mash2 whatif --prometheus http://prometheus:9090 \
    --selector 'namespace="shop",pod=~"web-.+"' --from 48h --to 24h --report out/whatif
  mash2 whatif --trace cpu.csv.gz --from 24h --policy COST_SAVING
  mash2 whatif --records D --workload shop/web --from 24h
  mash2 whatif --records D --from 24h   # of every workload, in one table, beside the HPA

The stretch from --from to --to is what counts. As much time before it, once or
--warm-passes times, is the history that every scaler has seen.

CPU usage says nothing of what a request costs, of latencies, of pods and of nodes:
these are flags, and whatever isn't given is told as an assumption. Requests and
limits are read from kube-state-metrics where Prometheus has it.

As a gate: --max-cost and --max-violation bound every policy that is asked for; if
one exceeds them the exit code is 1 and a sentence says what did.`,
		Args: cli.NoArgs,
	}
	registerHistory(cmd, &o.History, &prom)
	registerWorld(cmd, &o.World)
	f := cmd.Flags()
	f.StringSliceVar(&o.Policies, "policy", []string{"COST_SAVING", "PERFORMANCE"}, "policies to try, each for the whole time")
	f.StringVar(&o.PoliciesFile, "policies-file", "", "policies.yaml as in the policy ConfigMap, with node pools named as in --pool; without it COST_SAVING has the first pool and PERFORMANCE the last")
	f.StringSliceVar(&o.Rivals, "rival", []string{"hpa:50", "hpa:60", "hpa:70", "hpa:80", "hpa:90", "hpa-overprovisioned", "keda-rps", "phpa", "karpenter", "static", "oracle"},
		"what to compare with, as in mash2 simulate --scaler; mash2:PERCENT is the first policy at another target")
	f.Uint64Var(&o.Seed, "seed", 1, "of all that is random")
	f.IntVar(&o.Seeds, "seeds", 1, "number of seeds, from --seed on; with several, 95 % intervals are shown")
	f.Float64Var(&maxCost, "max-cost", 0, "most that the nodes of a policy may cost in the whole stretch, USD")
	f.Float64Var(&maxViolation, "max-violation", 0, "most minutes in violation of the SLO that a policy may have, as a share of those with traffic, 0 to 1")
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
	fmt.Fprintln(&b, "\nthe history doesn't tell, and was taken for true:")
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
