package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/demo"
	"github.com/mash2-io/mash2/experiments/scenarios"
)

func newDemo() *cobra.Command {
	var o demo.Options
	var scenario string
	var keep, tutorial bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Runs a scenario on a real local control plane with simulated nodes and load",
		Long: `Runs a scenario on a real local control plane (etcd, kube-apiserver,
controller-manager, scheduler) with simulated GKE node pools and simulated load,
this binary as the operator, and the stock HPA with an autoscaled pool beside
it. The first pass starts without history; each later pass has the earlier ones
as history. In the last pass the policy switches to PERFORMANCE.`,
		Args: cli.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&scenario, "scenario", "heartbeat", "a built-in scenario ("+strings.Join(scenarios.Names(), ", ")+") or a file")
	f.Float64Var(&o.Speed, "speed", 10, "speed-up: divides the times of load, scrapes, sync periods and boots; figures are in scenario time")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of all random numbers")
	f.IntVar(&o.Warm, "warm-passes", 2, "passes between the first one and the one with the switch")
	f.BoolVar(&o.Switch, "switch", true, "add a pass in which the policy switches to PERFORMANCE under load; ignored if the scenario has a switch")
	f.BoolVar(&o.Baseline, "baseline", true, "run the stock HPA and an autoscaled pool beside mash2")
	f.StringVar(&o.Karpenter, "karpenter", "", "path of the Karpenter program (make karpenter); a second stock HPA then runs on its nodes")
	f.BoolVar(&keep, "keep", false, "keep the cluster running at the end, until interrupted")
	f.BoolVar(&tutorial, "tutorial", false, "start the cluster of docs/tutorial/first-steps.md, a Deployment under load, the stock HPA and an idle operator; until interrupted")
	f.StringVar(&o.Report, "report", "out/demo", "folder for the HTML report, the cycle records and the operator's log")
	f.StringVar(&o.Records, "records", "", "folder in which every cycle is recorded, for mash2 replay and mash2 explain; empty: no records")
	show := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.CheckOutput(cmd); err != nil {
			return err
		}
		if !(o.Speed > 0) || o.Warm < 0 {
			return cli.Usagef("--speed must be above 0 and --warm-passes 0 or more, are %g and %d", o.Speed, o.Warm)
		}
		s, err := scenarios.Load(scenario)
		if err != nil {
			return cli.Usage(err)
		}
		if !s.UsersOnly() {
			return cli.Usagef("scenario %s has arrivals, noise, events or several services, which mash2 demo can't play: use mash2 simulate", s.Name)
		}
		o.Scenario, o.Progress = s, cmd.ErrOrStderr()
		if tutorial {
			if o.Program, err = os.Executable(); err != nil {
				return err
			}
			return o.Tutorial(cmd.Context())
		}
		return demonstrate(cmd.Context(), o, keep, show)
	}
	return cmd
}

// demonstrate runs the demo, prints its result and, if it is to be kept, leaves the
// cluster running until the context ends.
func demonstrate(ctx context.Context, o demo.Options, keep bool, show func(any, string) error) (err error) {
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	return o.Run(ctx, func(r demo.Result, kubeconfig string) error {
		if err := show(r, demoText(r)); err != nil {
			return err
		}
		if keep {
			fmt.Fprintf(o.Progress, "the cluster stays until you interrupt: kubectl --kubeconfig %s get mw -A\n", kubeconfig)
			<-ctx.Done()
		}
		return nil
	})
}

// demoText is the results in columns.
func demoText(result demo.Result) string {
	header := result.Header()
	all := append([][]string{header}, result.Rows()...)
	widths := make([]int, len(header))
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var b strings.Builder
	for _, row := range all {
		for i, cell := range row {
			if i < 2 {
				fmt.Fprintf(&b, "%-*s  ", widths[i], cell)
			} else {
				fmt.Fprintf(&b, "%*s  ", widths[i], cell)
			}
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "least Ready pods of mash2's workload at any moment: %d\nreport: %s", result.MinReadyPods, result.Report)
	return b.String()
}
