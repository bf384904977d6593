package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/sim"
)

// simulateFlags are the settings of mash2 simulate.
type simulateFlags struct {
	forecaster                   string
	scenario, trace, report      string
	records                      string
	against, scalers, fidelities []string
	seed                         uint64
	seeds, warm                  int
}

func newSimulate() *cobra.Command {
	var o simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Runs a scenario in virtual time",
		Long: `Runs a scenario in virtual time: the operator's own loop, planners and execution
in a simulated cluster, beside baselines. Each scaler has a cluster of its own,
with the same load, bounds and warm-up.

  mash2       this operator, with the targets of its policies
  mash2:70    the same with workloads that state a target of 70 %
  mash2-any[:PERCENT]
              the same with policies that allow every pool of the scenario, where
              mash2's name one each
  hpa         the stock HPA's rules, with Cluster Autoscaler's, at the scenario's
              target: 80 % in all that are built in
  hpa:60      the same at another target
  hpa-overprovisioned[:PERCENT]
              the HPA, and pause pods that hold a share of the cluster free, 20 %:
              Cluster Autoscaler's FAQ on overprovisioning
  keda-rps[:RPS]
              a ScaledObject of KEDA on requests per second and replica, by default
              80 % (the scenario's target) of what a replica's CPU request can serve
  phpa[:PERCENT]
              the Predictive HPA with its examples' settings; a pass is its season
  karpenter[:PERCENT]
              the HPA with Karpenter's rules instead, of all machine types of the
              scenario's pools
  static      sized for the scenario's peak
  oracle      a bound: what no scaler can be cheaper than without a violation

Passes of the warm-up, the scenario's or --warm-passes, come first and are not
measured. --against compares with recordings of mash2 demo, results.json in its
report's folder or what it printed with -o json: the same passes and the same switch
of the policy are simulated, and errors are told by scaler. --fidelity fluid,request
compares the two with each other.`,
		Args: cli.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&o.scenario, "scenario", "heartbeat", "a built-in scenario ("+strings.Join(scenarios.Names(), ", ")+") or a file")
	f.StringVar(&o.trace, "trace", "", "a CSV[.gz] file instead of the one that the scenario's arrivals are read from")
	f.StringSliceVar(&o.scalers, "scaler", []string{"mash2", "hpa"}, "scalers to compare: "+strings.Join(sim.Scalers(), ", ")+", oracle")
	f.Uint64Var(&o.seed, "seed", 1, "of all that is random")
	f.IntVar(&o.seeds, "seeds", 1, "number of seeds, from --seed on; with several, 95 % intervals are shown")
	f.IntVar(&o.warm, "warm-passes", -1, "passes that come first and are not measured; -1 for the scenario's")
	f.StringSliceVar(&o.fidelities, "fidelity", []string{string(sim.Fluid)}, "fluid, or request for every single one; both compares the second with the first")
	f.StringVar(&o.report, "report", "", "folder for an HTML report and its figures as PNG")
	f.StringSliceVar(&o.against, "against", nil, "recordings of mash2 demo to compare with, such as out/demo/results.json")
	f.StringVar(&o.records, "records", "", "folder for records of mash2's cycles, to replay and explain; one below it for each run when there are several")
	cli.ForecasterFlag(cmd, &o.forecaster)
	show := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.CheckOutput(cmd); err != nil {
			return err
		}
		s, err := o.load()
		if err != nil {
			return cli.Usage(err)
		}
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(sim.GCPercent)
		}
		out, err := o.run(cmd.Context(), s, cli.ProgressTo(cmd.ErrOrStderr()))
		if err != nil {
			return err
		}
		return show(out, out.text())
	}
	return cmd
}

// load checks the flags and loads the scenario.
func (o *simulateFlags) load() (scenarios.Scenario, error) {
	switch {
	case o.seeds < 1:
		return scenarios.Scenario{}, fmt.Errorf("--seeds must be 1 or more, is %d", o.seeds)
	case o.warm < -1:
		return scenarios.Scenario{}, fmt.Errorf("--warm-passes must be 0 or more, or -1, is %d", o.warm)
	case len(o.scalers) == 0:
		return scenarios.Scenario{}, fmt.Errorf("--scaler must name at least one")
	case len(o.fidelities) == 0 || len(o.fidelities) > 2 || len(o.fidelities) == 2 && o.fidelities[0] == o.fidelities[1]:
		return scenarios.Scenario{}, fmt.Errorf("--fidelity must be %s or %s, or one after the other", sim.Fluid, sim.PerRequest)
	}
	for _, f := range o.fidelities {
		if f != string(sim.Fluid) && f != string(sim.PerRequest) {
			return scenarios.Scenario{}, fmt.Errorf("--fidelity must be %s or %s, not %q", sim.Fluid, sim.PerRequest, f)
		}
	}
	for i, name := range o.scalers {
		if err := checkScaler(name); err != nil {
			return scenarios.Scenario{}, err
		}
		if slices.Contains(o.scalers[:i], name) {
			return scenarios.Scenario{}, fmt.Errorf("--scaler names %s twice", name)
		}
	}
	if err := cli.CheckForecaster(o.forecaster); err != nil {
		return scenarios.Scenario{}, err
	}
	if o.records != "" && o.recorded() == 0 {
		return scenarios.Scenario{}, fmt.Errorf("--records: only cycles of mash2 and mash2-any can be recorded, and --scaler names neither")
	}
	return scenarios.LoadWith(o.scenario, scenarios.Changes{Trace: o.trace, Warmup: o.warm})
}

func checkScaler(name string) error {
	if name == "oracle" {
		return nil
	}
	if _, _, err := sim.ParseScaler(name); err != nil {
		return fmt.Errorf("--scaler: %w, or oracle", err)
	}
	return nil
}

// simulation is what -o json prints.
type simulation struct {
	Scenario string      `json:"scenario"`
	Seed     uint64      `json:"seed"`
	Fidelity string      `json:"fidelity"`
	Runs     []score.Run `json:"runs"`
	// Summary is by scaler over seeds.
	Summary []score.Summary `json:"summary"`
	// Against are the differences from a real control plane, by scaler.
	Against []score.Difference `json:"against,omitempty"`
	// Fidelities are the differences between the two, by scaler.
	Fidelities []score.Agreement `json:"fidelities,omitempty"`
	Report     string            `json:"report,omitempty"`
}

// run simulates all scalers with all seeds.
func (o *simulateFlags) run(ctx context.Context, s scenarios.Scenario, progress io.Writer) (simulation, error) {
	out := simulation{Scenario: s.Name, Seed: o.seed, Fidelity: strings.Join(o.fidelities, ",")}
	world := simulated{flags: o, scenario: s, passes: max(1, s.Repeat)}
	recordings, err := o.recordings(s.Name)
	if err != nil {
		return out, cli.Usage(err)
	}
	if len(recordings) > 0 {
		world.scenario.Warmup.Passes, world.passes = recordings[0].Passes()
		world.switches = switchesOf(recordings[0], s)
	}
	var outcomes [2][]score.Outcome // by fidelity
	for n, fidelity := range o.fidelities {
		for i := range o.seeds {
			seed := o.seed + uint64(i)
			for _, scaler := range o.scalers {
				begun := time.Now()
				outcome, err := world.run(ctx, scaler, sim.Fidelity(fidelity), seed, n == 0 && i == 0 && o.report != "")
				if err != nil {
					return out, fmt.Errorf("simulating %s with %s, seed %d: %w", s.Name, scaler, seed, err)
				}
				run, err := outcome.Run()
				if err != nil {
					return out, err
				}
				outcomes[n] = append(outcomes[n], outcome)
				if n == 0 {
					out.Runs = append(out.Runs, run)
				}
				fmt.Fprintf(progress, "%s %s seed %d, %s: %v of scenario time in %v\n", s.Name, scaler, seed, fidelity,
					time.Duration(float64(outcome.WarmupPasses+outcome.Passes)*outcome.PassSeconds)*time.Second, time.Since(begun).Round(time.Millisecond))
			}
		}
	}
	out.Summary = score.Summarize(out.Runs)
	if len(recordings) > 0 {
		if out.Against, err = against(recordings, outcomes[0]); err != nil {
			return out, cli.Usage(err)
		}
	}
	if len(o.fidelities) == 2 {
		if out.Fidelities, err = o.agreement(outcomes); err != nil {
			return out, err
		}
	}
	if o.report != "" {
		if out.Report, err = o.writeReport(out, world, outcomes, recordings); err != nil {
			return out, err
		}
	}
	return out, nil
}

// switchAt is a recorded switch of the policy.
func switchAt(e score.Event) scenarios.Switch {
	return scenarios.Switch{At: scenarios.Duration{Duration: time.Duration(e.At * float64(time.Second))}, Policy: e.Name}
}

// text is a table: a row for each scaler, means over seeds with 95 % intervals.
func (s simulation) text() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	write := func(header []string, rows [][]string) {
		for _, row := range append([][]string{header}, rows...) {
			fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
		}
		_ = t.Flush() // into memory
	}
	write(s.header(), s.rows())
	for _, line := range s.equalSLO() {
		fmt.Fprintln(&b, line)
	}
	if len(s.Against) > 0 {
		table := score.DifferenceTable(s.Against, score.RealAndSimulated)
		fmt.Fprintln(&b, "\nagainst the real control plane:")
		write(table.Header, table.Rows)
	}
	if len(s.Fidelities) > 0 {
		table := score.DifferenceTable(differences(s.Fidelities), score.Fidelities)
		fmt.Fprintln(&b, "\nfluid beside every single request:")
		write(table.Header, table.Rows)
	}
	if s.Report != "" {
		fmt.Fprintln(&b, "report:", s.Report)
	}
	return strings.TrimRight(b.String(), "\n")
}

func (s simulation) header() []string {
	out := []string{"scaler"}
	for _, m := range score.Columns() {
		out = append(out, m.Title)
	}
	return out
}

func (s simulation) rows() [][]string {
	var out [][]string
	for _, sum := range s.Summary {
		row := []string{sum.Scaler}
		for _, m := range score.Columns() {
			row = append(row, sum.Metrics[m.Name].Text(m))
		}
		out = append(out, row)
	}
	return out
}

// equalSLO compares mash2 with the cheapest of the HPA's targets that violates
// the SLO in no more minutes.
func (s simulation) equalSLO() []string {
	var of *score.Summary
	var swept []score.Summary
	for i := range s.Summary {
		switch name := s.Summary[i].Scaler; {
		case name == "mash2":
			of = &s.Summary[i]
		case score.Kind(name) == "hpa":
			swept = append(swept, s.Summary[i])
		}
	}
	if of == nil || len(swept) < 2 {
		return nil
	}
	best, ok := score.AtEqualSLO(*of, swept)
	if !ok {
		return []string{fmt.Sprintf("at equal SLO: none of the HPA's %d targets violates the SLO in as few minutes as mash2 (%.1f)", len(swept), of.Mean("sloViolationMinutes"))}
	}
	than := func(name string) string {
		return score.Relative(s.Runs, of.Scaler, best.Scaler, score.MetricNamed(name)).Text(score.Percent)
	}
	return []string{fmt.Sprintf("at equal SLO: the cheapest of the HPA's %d targets with no more minutes in violation than mash2 is %s (%.1f and %.1f min); relative to it mash2's nodes cost %s, its pods %s",
		len(swept), best.Scaler, best.Mean("sloViolationMinutes"), of.Mean("sloViolationMinutes"), than("costUsd"), than("podCostUsd"))}
}
