package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/api"
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
	report, against            string
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
	f.StringSliceVar(&o.scalers, "scaler", []string{"mash2", "hpa"}, "scalers to compare: mash2, hpa, hpa:PERCENT, static, oracle (a lower bound on cost)")
	f.Uint64Var(&o.seed, "seed", 1, "of all that is random")
	f.IntVar(&o.seeds, "seeds", 1, "number of seeds, from --seed on; with several, intervals are shown")
	f.IntVar(&o.warm, "warm-passes", 2, "passes after the cold one")
	f.StringVar(&o.fidelity, "fidelity", string(sim.Fluid), "fluid, or request for every single one")
	f.StringVar(&o.report, "report", "", "folder for an HTML report and its figures as PNG")
	f.StringVar(&o.against, "against", "", "JSON that mash2 demo printed for the same scenario: tells how far the simulation is from it")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	return cmd
}

// simulation is what -o json prints.
type simulation struct {
	Scenario string        `json:"scenario"`
	Seed     uint64        `json:"seed"`
	Fidelity string        `json:"fidelity"`
	Runs     []testbed.Run `json:"runs"`
	// Errors of the simulation relative to a run on a real control plane, by
	// scaler and phase; only with --against.
	Errors []simulationError `json:"errors,omitempty"`

	drawn []drawnRun
}

// drawnRun is what figures are made of.
type drawnRun struct {
	scaler string
	result sim.Result
	cycles []api.Cycle
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
			runs, drawn, err := o.simulate(ctx, scenario, scaler, o.seed+uint64(i))
			if err != nil {
				return err
			}
			out.Runs = append(out.Runs, runs...)
			if drawn != nil && i == 0 {
				out.drawn = append(out.drawn, *drawn)
			}
			fmt.Fprintf(stderr, "%s %s seed %d: %.0f s of scenario time in %.2f s\n",
				scenario.Name, scaler, o.seed+uint64(i), runs[len(runs)-1].SimulatedSeconds*float64(len(runs)), runs[0].WallSeconds*float64(len(runs)))
		}
	}
	if o.against != "" {
		if err := out.compare(o.against); err != nil {
			return err
		}
	}
	if o.report != "" {
		if err := o.writeReport(out, scenario); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
		fmt.Fprintf(stderr, "report: %s\n", filepath.Join(o.report, "report.html"))
	}
	if o.output == "json" {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(out)
	}
	return out.print(stdout)
}

// simulate is one scaler with one seed: a run for each pass.
func (o *simulateFlags) simulate(ctx context.Context, s scenarios.Scenario, scaler string, seed uint64) ([]testbed.Run, *drawnRun, error) {
	if scaler == "oracle" {
		runs, err := o.oracle(s, seed)
		return runs, nil, err
	}
	var operator operatorFlags
	operator.speed = 1
	for _, d := range operator.durations() {
		*d.value = d.def
	}
	operator.packings = planning.DefaultConfig().Packings
	packer, err := node.New(node.Config{Solver: "ffd"})
	if err != nil {
		return nil, nil, err
	}
	drawn := &drawnRun{scaler: scaler}
	begun := time.Now()
	result, err := sim.Run(ctx, sim.Options{
		Scenario: s, Scaler: scaler, Seed: seed, Fidelity: sim.Fidelity(o.fidelity), Passes: 1 + o.warm,
		Planner: planning.Hierarchy{
			Config:     operator.planning(),
			Planners:   map[string]planning.WorkloadPlanner{planning.DefaultPlanner: horizontal.Planner{}},
			Nodes:      packer,
			Forecaster: forecast.Auto{},
		},
		Report: func(c api.Cycle) {
			if o.report != "" {
				drawn.cycles = append(drawn.cycles, c)
			}
		},
	})
	if err != nil {
		return nil, nil, usageError{err}
	}
	drawn.result = result
	wall := time.Since(begun).Seconds()
	var runs []testbed.Run
	for pass := range result.Workloads[0].ByPass {
		r := testbed.RunOf(scaler, seed, phaseOf(pass), result.Joined(pass))
		r.NodeHours, r.CostUSD = result.NodeHours[pass], result.CostUSD[pass]
		r.WallSeconds = wall / float64(len(result.Workloads[0].ByPass))
		r.PackingEfficiency = result.Packing()
		runs = append(runs, r)
	}
	return runs, drawn, nil
}

func phaseOf(pass int) string {
	if pass == 0 {
		return "cold"
	}
	return "warm"
}

// oracle is the bound on cost, as a run without anything else.
func (o *simulateFlags) oracle(s scenarios.Scenario, seed uint64) ([]testbed.Run, error) {
	costs, err := sim.Oracle(s, sim.DefaultParams(), 1+o.warm, seed)
	if err != nil {
		return nil, usageError{err}
	}
	zero := 0.0
	var runs []testbed.Run
	for pass, cost := range costs {
		runs = append(runs, testbed.Run{
			Scaler: "oracle", Seed: seed, Phase: phaseOf(pass), Pass: pass, CostUSD: cost,
			SLOViolationRatio: &zero, SimulatedSeconds: s.PassDuration().Seconds(),
		})
	}
	return runs, nil
}

// print is a table: a row for each scaler and phase, means over seeds and
// passes with 95 % intervals over seeds.
func (s simulation) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{simulationHeader}, s.table()...) {
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, e := range s.Errors {
		if _, err := fmt.Fprintf(w, "%s %s against the real control plane: %s\n", e.Scaler, e.Phase, e); err != nil {
			return err
		}
	}
	return nil
}

var simulationHeader = []string{"scaler", "pass", "SLO minutes violated", "failed %", "p95 ms", "CPU %", "replicas", "pending pod-s", "node $", "pod $"}

// runGroup is the runs of one scaler in one phase.
type runGroup struct {
	scaler, phase string
	runs          []testbed.Run
}

// groups keeps the order in which scalers and phases came.
func groups(runs []testbed.Run) []runGroup {
	var out []runGroup
	for _, r := range runs {
		i := slices.IndexFunc(out, func(g runGroup) bool { return g.scaler == r.Scaler && g.phase == r.Phase })
		if i < 0 {
			out = append(out, runGroup{scaler: r.Scaler, phase: r.Phase})
			i = len(out) - 1
		}
		out[i].runs = append(out[i].runs, r)
	}
	return out
}

// table has a row for each scaler and phase.
func (s simulation) table() [][]string {
	var rows [][]string
	value := func(x *float64) float64 {
		if x == nil {
			return math.NaN()
		}
		return *x
	}
	for _, g := range groups(s.Runs) {
		cell := func(format string, of func(testbed.Run) float64) string {
			bySeed := map[uint64][]float64{}
			for _, r := range g.runs {
				bySeed[r.Seed] = append(bySeed[r.Seed], of(r))
			}
			var means []float64
			for _, xs := range bySeed {
				means = append(means, mean(xs))
			}
			slices.Sort(means)
			if math.IsNaN(mean(means)) {
				return "–"
			}
			text := fmt.Sprintf(format, mean(means))
			if half := interval95(means); len(means) > 1 {
				text += "±" + fmt.Sprintf(format, half)
			}
			return text
		}
		rows = append(rows, []string{
			g.scaler, g.phase,
			cell("%.1f", func(r testbed.Run) float64 { return float64(r.SLOViolationMinutes) }),
			cell("%.3f", func(r testbed.Run) float64 { return 100 * value(r.FailedRatio) }),
			cell("%.0f", func(r testbed.Run) float64 { return value(r.P95Ms) }),
			cell("%.0f", func(r testbed.Run) float64 { return 100 * value(r.MeanCPUUtilization) }),
			cell("%.1f", func(r testbed.Run) float64 { return value(r.MeanReplicas) }),
			cell("%.0f", func(r testbed.Run) float64 { return r.PendingPodSeconds }),
			cell("%.4f", func(r testbed.Run) float64 { return r.CostUSD }),
			cell("%.4f", func(r testbed.Run) float64 { return r.PodCostUSD }),
		})
	}
	return rows
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
