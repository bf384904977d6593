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
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Runs a scenario on a real local control plane with simulated nodes and load, and reports",
		Long: `Runs a scenario on a real local control plane (etcd, kube-apiserver,
controller-manager, scheduler) with simulated GKE node pools and simulated load,
this binary as the operator, and the stock HPA with an autoscaled pool beside
it. The first pass is cold; each further one has all before it as history. In
the last pass the policy switches to PERFORMANCE.`,
		Args: cli.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&scenario, "scenario", "heartbeat", "a built-in scenario ("+strings.Join(scenarios.Names(), ", ")+") or a file")
	f.Float64Var(&o.Speed, "speed", 10, "divides load, scrapes, sync periods and boots; figures are in scenario time")
	f.Uint64Var(&o.Seed, "seed", 1, "of all that is random")
	f.IntVar(&o.Warm, "warm-passes", 2, "passes between the cold one and the one with the switch")
	f.BoolVar(&o.Switch, "switch", true, "add a pass in which the policy switches to PERFORMANCE under load; ignored for a scenario that switches by itself")
	f.BoolVar(&o.Baseline, "baseline", true, "run the stock HPA and an autoscaled pool beside mash2")
	f.StringVar(&o.Karpenter, "karpenter", "", "run the stock HPA on nodes of Karpenter's, too, by this program (make karpenter)")
	f.BoolVar(&keep, "keep", false, "leave the cluster running at the end, until interrupted")
	f.StringVar(&o.Report, "report", "out/demo", "folder for the HTML report, the cycle records and the operator's log")
	f.StringVar(&o.Records, "records", "", "folder to keep every cycle in, for mash2 replay and mash2 explain; nothing is kept if empty")
	show := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !(o.Speed > 0) || o.Warm < 0 {
			return cli.Usagef("--speed must be above 0 and --warm-passes 0 or more, are %g and %d", o.Speed, o.Warm)
		}
		s, err := scenarios.Load(scenario)
		if err != nil {
			return cli.Usage(err)
		}
		if !s.UsersOnly() {
			return cli.Usagef("scenario %s has arrivals, noise, events or several services, which the demo has not: use mash2 simulate", s.Name)
		}
		o.Scenario, o.Progress = s, cmd.ErrOrStderr()
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
