package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mash2-io/mash2/cmd/cli"
	"github.com/mash2-io/mash2/experiments/report"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/simulation"
	"github.com/mash2-io/mash2/experiments/testbed"
)

type demoFlags struct {
	scenario string
	speed    float64
	seed     uint64
	warm     int
	switchTo bool
	baseline bool
	keep     bool
	report   string
	// records is the folder that the operator keeps its records in, or empty.
	records string
	// karpenter is the program of experiments/karpenter, or empty.
	karpenter string
}

func newDemo() *cobra.Command {
	var o demoFlags
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
	f.StringVar(&o.scenario, "scenario", "heartbeat", "a built-in scenario ("+strings.Join(scenarios.Names(), ", ")+") or a file")
	f.Float64Var(&o.speed, "speed", 10, "divides load, scrapes, sync periods and boots; figures are in scenario time")
	f.Uint64Var(&o.seed, "seed", 1, "of all that is random")
	f.IntVar(&o.warm, "warm-passes", 2, "passes between the cold one and the one with the switch")
	f.BoolVar(&o.switchTo, "switch", true, "add a pass in which the policy switches to PERFORMANCE under load; ignored for a scenario that switches by itself")
	f.BoolVar(&o.baseline, "baseline", true, "run the stock HPA and an autoscaled pool beside mash2")
	f.StringVar(&o.karpenter, "karpenter", "", "run the stock HPA on nodes of Karpenter's, too, by this program (make karpenter)")
	f.BoolVar(&o.keep, "keep", false, "leave the cluster running at the end, until interrupted")
	f.StringVar(&o.report, "report", "out/demo", "folder for the HTML report, the cycle records and the operator's log")
	f.StringVar(&o.records, "records", "", "folder to keep every cycle in, for mash2 replay and mash2 explain; nothing is kept if empty")
	show := cli.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !(o.speed > 0) || o.warm < 0 {
			return cli.Usagef("--speed must be above 0 and --warm-passes 0 or more, are %g and %d", o.speed, o.warm)
		}
		s, err := scenarios.Load(o.scenario)
		if err != nil {
			return cli.Usage(err)
		}
		if !s.UsersOnly() {
			return cli.Usagef("scenario %s has arrivals, noise, events or several services, which the demo has not: use mash2 simulate", s.Name)
		}
		return o.run(cmd.Context(), s, cmd.ErrOrStderr(), show)
	}
	return cmd
}

// demoResult is the JSON of the command-line contract.
type demoResult struct {
	Scenario     string      `json:"scenario"`
	Speed        float64     `json:"speed"`
	Runs         []score.Run `json:"runs"`
	MinReadyPods int32       `json:"minReadyPods"` // of mash2's workload, at any moment
	Report       string      `json:"report"`
}

func (o demoFlags) run(ctx context.Context, s scenarios.Scenario, progress io.Writer, show func(any, string) error) (err error) {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.report, 0o755); err != nil {
		return err
	}
	// The scenario's own switches rule; else one is added in a last pass.
	passes, switched := 1+o.warm, -1
	if len(s.Policy.Switches) == 0 && o.switchTo {
		switched = passes
		passes++
	}
	total := time.Duration(passes) * s.PassDuration()
	fmt.Fprintf(progress, "%s: %d passes of %v at %g× real time: %v, plus a start of about 20 s\n",
		s.Name, passes, s.PassDuration(), o.speed, (time.Duration(float64(total) / o.speed)).Round(time.Second))
	bed, err := testbed.Start(ctx, testbed.Options{
		Scenario: s, Speed: o.speed, Seed: o.seed, Baseline: o.baseline, Karpenter: o.karpenter, Passes: passes, Progress: progress,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.Stop()) }()
	args := []string{"--verbose"}
	if o.records != "" {
		dir, err := filepath.Abs(o.records)
		if err != nil {
			return err
		}
		args = append(args, "--records="+dir)
	}
	operator, err := bed.StartOperator(program, nil, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, operator.Stop()) }()
	start, cancel := context.WithTimeout(ctx, 2*time.Minute)
	err = bed.WaitLeading(start, operator, time.Time{})
	cancel()
	if err != nil {
		return err
	}
	bed.Load.Begin()
	marks, err := o.play(ctx, bed, operator, s, passes, switched, progress)
	if err != nil {
		return err
	}
	result, err := o.finish(bed, s, marks, switched, progress)
	if err != nil {
		return err
	}
	if err := show(result, table(result)); err != nil {
		return err
	}
	if o.keep {
		fmt.Fprintf(progress, "the cluster stays until you interrupt: kubectl --kubeconfig %s get mw -A\n", bed.Cluster.Kubeconfig)
		<-ctx.Done()
	}
	return nil
}

// play waits for the scenario's end, switches policies at their times and says
// where it is.
func (o demoFlags) play(ctx context.Context, bed *testbed.Testbed, operator *testbed.Operator, s scenarios.Scenario, passes, switched int, progress io.Writer) ([]score.Event, error) {
	switches := bed.Load.Switches(false)
	if switched >= 0 {
		switches = append(switches, simulation.AddedSwitch(s, switched))
	}
	var marks []score.Event
	done := make(chan error, 1)
	go func() { done <- bed.Load.Wait() }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	said := time.Time{}
	active := s.Policy.Initial
	for {
		select {
		case <-ctx.Done():
			return nil, errors.New("interrupted")
		case <-operator.Done():
			return nil, fmt.Errorf("the operator ended: %w; its log ends with:\n%s", operator.Err(), tail(bed.OperatorLog(), 20))
		case err := <-done:
			return marks, err
		case now := <-tick.C:
			t := bed.Load.ScenarioTime(now)
			for len(switches) > 0 && t >= switches[0].At.Duration {
				sw := switches[0]
				switches = switches[1:]
				if sw.Policy == active {
					continue
				}
				active = sw.Policy
				if err := bed.SetPolicy(ctx, sw.Policy); err != nil {
					return nil, err
				}
				marks = append(marks, score.Event{At: t.Seconds(), Name: sw.Policy})
				fmt.Fprintf(progress, "%8s  policy set to %s\n", t.Round(time.Second), sw.Policy)
			}
			if now.Sub(said) >= 5*time.Second {
				said = now
				line, err := status(bed, t, passes, s.PassDuration())
				if err != nil {
					return nil, err
				}
				fmt.Fprintln(progress, line)
			}
		}
	}
}

func status(bed *testbed.Testbed, t time.Duration, passes int, length time.Duration) (string, error) {
	cycles, err := bed.Cycles()
	if err != nil {
		return "", err
	}
	line := fmt.Sprintf("%8s  pass %d of %d", t.Round(time.Second), min(int(t/length)+1, passes), passes)
	for _, c := range slices.Backward(cycles) {
		if c.Error != "" || len(c.Plan.Workloads) == 0 {
			continue
		}
		w := c.Plan.Workloads[0]
		model := "reactive"
		if w.Forecast != nil {
			model = w.Forecast.Model
		}
		line += fmt.Sprintf("  %-11s replicas %2d → %2d  pool %s  $%.3f/h  %-8s  %s",
			c.Policy.Name, w.Current, w.Replicas, c.Plan.Nodes.Pool, c.Plan.Nodes.HourlyCost, model, w.Binding)
		break
	}
	return line, nil
}

// finish scores the runs and writes the report.
func (o demoFlags) finish(bed *testbed.Testbed, s scenarios.Scenario, marks []score.Event, switched int, progress io.Writer) (demoResult, error) {
	results := bed.Load.Results()
	result := demoResult{Scenario: s.Name, Speed: o.speed, MinReadyPods: -1}
	cycles, err := bed.Cycles()
	if err != nil {
		return result, err
	}
	recording := score.Recording{Scenario: s.Name, Speed: o.speed, Seed: o.seed, Switches: marks}
	if recording.Outcomes, err = bed.Outcomes(results, cycles); err != nil {
		return result, err
	}
	for _, outcome := range recording.Outcomes {
		for pass := range outcome.WarmupPasses + outcome.Passes {
			run, err := outcome.RunOfPass(pass)
			if err != nil {
				return result, err
			}
			if switched >= 0 && pass >= switched {
				run.Phase = score.Switch
			}
			result.Runs = append(result.Runs, run)
		}
	}
	for _, r := range result.Runs {
		if r.Scaler == testbed.Mash2 && (result.MinReadyPods < 0 || r.MinReadyPods < result.MinReadyPods) {
			result.MinReadyPods = r.MinReadyPods
		}
	}
	figures, pairs, err := score.Figures(recording.Outcomes, marks)
	if err != nil {
		return result, err
	}
	page := report.Page{
		Title: fmt.Sprintf("%s at %g× real time", s.Name, o.speed),
		Intro: []string{
			s.Description,
			fmt.Sprintf("Made by: mash2 demo --scenario %s --speed %g --seed %d --warm-passes %d. All times, rates and costs are in scenario time. "+
				"mash2 and the stock HPA (target %.0f %%, in a node pool that is autoscaled by Cluster Autoscaler's rules) serve equal virtual users side by side in one cluster, with equal bounds of replicas and of first pools.",
				s.Name, o.speed, o.seed, o.warm, 100*s.Workload.TargetUtilization),
			"Control plane, scheduler, HPA controller and Prometheus are real; nodes, pods' inner life, GKE and users are simulated.",
		},
		Sections: []report.Section{
			{Title: "Results", Tables: []report.Table{{Header: header, Rows: rows(result),
				Note: "Node cost counts from boot request to deletion. A violating minute has its p95 or failed ratio beyond the scenario's SLO."}}},
			{Title: "Over time", Figures: figures},
			{Title: "Pair plots", Text: []string{"A point for every ten seconds."}, Grid: pairs},
		},
		Made: time.Now(),
	}
	for _, w := range results.Workloads {
		page.Sections[2].Legend = append(page.Sections[2].Legend, w.Namespace)
	}
	transcript := report.Section{Title: "What mash2 did"}
	for _, c := range cycles {
		for _, out := range c.Outcomes {
			line := fmt.Sprintf("%8s  %s", bed.Load.ScenarioTime(c.Time).Round(time.Second), simulation.ActionLine(out))
			transcript.Lines = append(transcript.Lines, line)
		}
	}
	page.Sections = append(page.Sections, transcript)
	if result.Report, err = report.WriteFolder(o.report, page); err != nil {
		return result, err
	}
	if err := recording.Write(filepath.Join(o.report, score.RecordingFile)); err != nil {
		return result, err
	}
	for from, to := range map[string]string{bed.CycleLog(): "cycles.jsonl", bed.OperatorLog(): "operator.log"} {
		data, err := os.ReadFile(from)
		if err != nil {
			return result, err
		}
		if err := os.WriteFile(filepath.Join(o.report, to), data, 0o644); err != nil {
			return result, err
		}
	}
	fmt.Fprintf(progress, "report: %s\n", result.Report)
	return result, nil
}

var header = []string{"scaler", "pass", "max replicas", "mean", "CPU mean", "CPU peak", "failed", "p95 ms", "SLO viol. min", "pending pod-s", "node-hours", "node cost $", "pod cost $", "packing", "scalings", "min Ready"}

func rows(result demoResult) [][]string {
	number := func(v *float64, format string, scale float64) string {
		if v == nil {
			return "–"
		}
		return fmt.Sprintf(format, *v*scale)
	}
	var out [][]string
	for _, r := range result.Runs {
		out = append(out, []string{
			r.Scaler, fmt.Sprintf("%d %s", r.Pass+1, r.Phase), fmt.Sprint(r.MaxReplicas), number(r.MeanReplicas, "%.1f", 1),
			number(r.MeanCPUUtilization, "%.0f%%", 100), number(r.PeakCPUUtilization, "%.0f%%", 100),
			fmt.Sprint(r.FailedRequests), number(r.P95Ms, "%.0f", 1), fmt.Sprint(r.SLOViolationMinutes),
			fmt.Sprintf("%.0f", r.PendingPodSeconds), fmt.Sprintf("%.2f", r.NodeHours), fmt.Sprintf("%.4f", r.CostUSD),
			fmt.Sprintf("%.4f", r.PodCostUSD), number(r.PackingEfficiency, "%.0f%%", 100), fmt.Sprint(r.ScaleActions), fmt.Sprint(r.MinReadyPods),
		})
	}
	return out
}

// table prints the results in columns.
func table(result demoResult) string {
	all := append([][]string{header}, rows(result)...)
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

// tail is the last n lines of a file, or why there are none.
func tail(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
