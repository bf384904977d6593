package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/testbed"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/horizontal"
	"github.com/mash2-io/mash2/planning/node"
)

// simulateFlags are the settings of mash2 simulate.
type simulateFlags struct {
	scenario, fidelity, output string
	scalers                    []string
	seed                       uint64
	seeds, warm                int
}

func newSimulate() *cobra.Command {
	var o simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Runs a scenario in virtual time",
		Long: `Runs a scenario in virtual time: the operator's own loop, planners and execution
in a simulated cluster, beside the stock HPA's rules with Cluster Autoscaler's.
The first pass is cold; each further one has all before it as history.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.scenario, "scenario", "heartbeat", "a built-in scenario ("+strings.Join(scenarios.Names(), ", ")+") or a file")
	f.StringSliceVar(&o.scalers, "scaler", []string{"mash2", "hpa"}, "scalers to compare: mash2, hpa, hpa:PERCENT, static")
	f.Uint64Var(&o.seed, "seed", 1, "of all that is random")
	f.IntVar(&o.seeds, "seeds", 1, "number of seeds, from --seed on; with several, intervals are shown")
	f.IntVar(&o.warm, "warm-passes", 2, "passes after the cold one")
	f.StringVar(&o.fidelity, "fidelity", string(sim.Fluid), "fluid, or request for every single one")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	return cmd
}

// simulation is what -o json prints.
type simulation struct {
	Scenario string        `json:"scenario"`
	Seed     uint64        `json:"seed"`
	Fidelity string        `json:"fidelity"`
	Runs     []testbed.Run `json:"runs"`
}

func (o *simulateFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	switch {
	case o.output != "text" && o.output != "json":
		return usagef("--output must be text or json, not %q", o.output)
	case o.seeds < 1:
		return usagef("--seeds must be 1 or more, is %d", o.seeds)
	case o.warm < 0:
		return usagef("--warm-passes must be 0 or more, is %d", o.warm)
	case len(o.scalers) == 0:
		return usagef("--scaler must name at least one")
	}
	scenario, err := scenarios.Load(o.scenario)
	if err != nil {
		return usageError{err}
	}
	out := simulation{Scenario: scenario.Name, Seed: o.seed, Fidelity: o.fidelity}
	for i := range o.seeds {
		for _, scaler := range o.scalers {
			runs, err := o.simulate(ctx, scenario, scaler, o.seed+uint64(i))
			if err != nil {
				return err
			}
			out.Runs = append(out.Runs, runs...)
			fmt.Fprintf(stderr, "%s %s seed %d: %.0f s of scenario time in %.2f s\n",
				scenario.Name, scaler, o.seed+uint64(i), runs[len(runs)-1].SimulatedSeconds*float64(len(runs)), runs[0].WallSeconds*float64(len(runs)))
		}
	}
	if o.output == "json" {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(out)
	}
	return out.print(stdout)
}

// simulate is one scaler with one seed: a run for each pass.
func (o *simulateFlags) simulate(ctx context.Context, s scenarios.Scenario, scaler string, seed uint64) ([]testbed.Run, error) {
	var operator operatorFlags
	operator.speed = 1
	for _, d := range operator.durations() {
		*d.value = d.def
	}
	operator.packings = planning.DefaultConfig().Packings
	packer, err := node.New(node.Config{Solver: "ffd"})
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	result, err := sim.Run(ctx, sim.Options{
		Scenario: s, Scaler: scaler, Seed: seed, Fidelity: sim.Fidelity(o.fidelity), Passes: 1 + o.warm,
		Planner: planning.Hierarchy{
			Config:     operator.planning(),
			Planners:   map[string]planning.WorkloadPlanner{planning.DefaultPlanner: horizontal.Planner{}},
			Nodes:      packer,
			Forecaster: forecast.Auto{},
		},
	})
	if err != nil {
		return nil, usageError{err}
	}
	wall := time.Since(begun).Seconds()
	var runs []testbed.Run
	for _, p := range result.Workloads[0].ByPass {
		phase := "warm"
		if p.Pass == 0 {
			phase = "cold"
		}
		r := testbed.RunOf(scaler, seed, phase, p)
		r.NodeHours, r.CostUSD = result.NodeHours[p.Pass], result.CostUSD[p.Pass]
		r.WallSeconds = wall / float64(len(result.Workloads[0].ByPass))
		for _, pool := range result.Pools {
			if pool.PackingEfficiency != nil {
				r.PackingEfficiency = pool.PackingEfficiency
			}
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// print is a table: a row for each scaler and phase, means over seeds and
// passes with 95 % intervals over seeds.
func (s simulation) print(w io.Writer) error {
	type group struct{ scaler, phase string }
	var order []group
	members := map[group][]testbed.Run{}
	for _, r := range s.Runs {
		g := group{r.Scaler, r.Phase}
		if members[g] == nil {
			order = append(order, g)
		}
		members[g] = append(members[g], r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "scaler\tpass\tSLO minutes violated\tfailed %\tp95 ms\tCPU %\treplicas\tpending pod-s\tnode $\tpod $\t")
	value := func(x *float64) float64 {
		if x == nil {
			return math.NaN()
		}
		return *x
	}
	for _, g := range order {
		cell := func(format string, of func(testbed.Run) float64) string {
			bySeed := map[uint64][]float64{}
			for _, r := range members[g] {
				bySeed[r.Seed] = append(bySeed[r.Seed], of(r))
			}
			var means []float64
			for _, xs := range bySeed {
				means = append(means, mean(xs))
			}
			slices.Sort(means)
			text := fmt.Sprintf(format, mean(means))
			if half := interval95(means); len(means) > 1 {
				text += "±" + fmt.Sprintf(format, half)
			}
			return text
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", g.scaler, g.phase,
			cell("%.1f", func(r testbed.Run) float64 { return float64(r.SLOViolationMinutes) }),
			cell("%.3f", func(r testbed.Run) float64 { return 100 * value(r.FailedRatio) }),
			cell("%.0f", func(r testbed.Run) float64 { return value(r.P95Ms) }),
			cell("%.0f", func(r testbed.Run) float64 { return 100 * value(r.MeanCPUUtilization) }),
			cell("%.1f", func(r testbed.Run) float64 { return value(r.MeanReplicas) }),
			cell("%.0f", func(r testbed.Run) float64 { return r.PendingPodSeconds }),
			cell("%.4f", func(r testbed.Run) float64 { return r.CostUSD }),
			cell("%.4f", func(r testbed.Run) float64 { return r.PodCostUSD }))
	}
	return t.Flush()
}

func mean(xs []float64) float64 {
	var sum float64
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// interval95 is half the width of the 95 % interval of the mean by Student's t.
func interval95(xs []float64) float64 {
	n := len(xs)
	if n < 2 {
		return math.NaN()
	}
	m, sum := mean(xs), 0.0
	for _, x := range xs {
		sum += (x - m) * (x - m)
	}
	// Student's t at 97.5 %, by degrees of freedom; 1.96 beyond.
	table := []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086}
	t := 1.96
	if n-2 < len(table) {
		t = table[n-2]
	}
	return t * math.Sqrt(sum/float64(n-1)/float64(n))
}
