package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/report"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/simulation"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// finish scores what every scaler did and writes the report's folder.
func (r run) finish(marks []score.Event) (Result, error) {
	result := Result{Scenario: r.Scenario.Name, Speed: r.Speed}
	results := r.bed.Load.Results()
	cycles, err := r.bed.Cycles()
	if err != nil {
		return result, err
	}
	recording := score.Recording{Scenario: r.Scenario.Name, Speed: r.Speed, Seed: r.Seed, Switches: marks}
	if recording.Outcomes, err = r.bed.Outcomes(results, cycles); err != nil {
		return result, err
	}
	if result.Runs, err = runsOf(recording.Outcomes, r.switched); err != nil {
		return result, err
	}
	result.MinReadyPods = minReadyPods(result.Runs)
	page, err := r.page(result, recording, results, cycles)
	if err != nil {
		return result, err
	}
	if result.Report, err = report.WriteFolder(r.Report, page); err != nil {
		return result, err
	}
	if err := recording.Write(filepath.Join(r.Report, score.RecordingFile)); err != nil {
		return result, err
	}
	if err := r.keepLogs(); err != nil {
		return result, err
	}
	fmt.Fprintf(r.Progress, "report: %s\n", result.Report)
	return result, nil
}

// runsOf are the outcomes by pass; from switched on, where that is a pass, they are of
// the switch.
func runsOf(outcomes []score.Outcome, switched int) ([]score.Run, error) {
	var out []score.Run
	for _, outcome := range outcomes {
		for pass := range outcome.WarmupPasses + outcome.Passes {
			run, err := outcome.RunOfPass(pass)
			if err != nil {
				return out, err
			}
			if switched >= 0 && pass >= switched {
				run.Phase = score.Switch
			}
			out = append(out, run)
		}
	}
	return out, nil
}

// minReadyPods is the least of mash2's runs, -1 without one.
func minReadyPods(runs []score.Run) int32 {
	least := int32(-1)
	for _, r := range runs {
		if r.Scaler == testbed.Mash2 && (least < 0 || r.MinReadyPods < least) {
			least = r.MinReadyPods
		}
	}
	return least
}

// page is the report.
func (r run) page(result Result, recording score.Recording, results load.Results, cycles []api.Cycle) (report.Page, error) {
	s := r.Scenario
	figures, pairs, err := score.Figures(recording.Outcomes, recording.Switches)
	if err != nil {
		return report.Page{}, err
	}
	grid := report.Section{Title: "Pair plots", Text: []string{"A point for every ten seconds."}, Grid: pairs}
	for _, w := range results.Workloads {
		grid.Legend = append(grid.Legend, w.Namespace)
	}
	transcript := report.Section{Title: "What mash2 did"}
	for _, c := range cycles {
		for _, out := range c.Outcomes {
			line := fmt.Sprintf("%8s  %s", r.bed.Load.ScenarioTime(c.Time).Round(time.Second), simulation.ActionLine(out))
			transcript.Lines = append(transcript.Lines, line)
		}
	}
	return report.Page{
		Title: fmt.Sprintf("%s at %g× real time", s.Name, r.Speed),
		Intro: []string{
			s.Description,
			fmt.Sprintf("Made by: mash2 demo --scenario %s --speed %g --seed %d --warm-passes %d. All times, rates and costs are in scenario time. "+
				"mash2 and the stock HPA (target %.0f %%, in a node pool that is autoscaled by Cluster Autoscaler's rules) serve equal virtual users side by side in one cluster, with equal bounds of replicas and of first pools.",
				s.Name, r.Speed, r.Seed, r.Warm, 100*s.Workload.TargetUtilization),
			"Control plane, scheduler, HPA controller and Prometheus are real; nodes, pods' inner life, GKE and users are simulated.",
		},
		Sections: []report.Section{
			{Title: "Results", Tables: []report.Table{{Header: result.Header(), Rows: result.Rows(),
				Note: "Node cost counts from boot request to deletion. A violating minute has its p95 or failed ratio beyond the scenario's SLO."}}},
			{Title: "Over time", Figures: figures},
			grid,
			transcript,
		},
		Made: time.Now(),
	}, nil
}

// keepLogs copies what the operator wrote beside the page.
func (r run) keepLogs() error {
	for from, to := range map[string]string{r.bed.CycleLog(): "cycles.jsonl", r.bed.OperatorLog(): "operator.log"} {
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.Report, to), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Header of the table of results.
func (r Result) Header() []string {
	return []string{"scaler", "pass", "max replicas", "mean", "CPU mean", "CPU peak", "failed", "p95 ms", "SLO viol. min", "pending pod-s", "node-hours", "node cost $", "pod cost $", "packing", "scalings", "min Ready"}
}

// Rows of the table of results: one for each scaler and pass.
func (r Result) Rows() [][]string {
	number := func(v *float64, format string, scale float64) string {
		if v == nil {
			return "–"
		}
		return fmt.Sprintf(format, *v*scale)
	}
	var out [][]string
	for _, run := range r.Runs {
		out = append(out, []string{
			run.Scaler, fmt.Sprintf("%d %s", run.Pass+1, run.Phase), fmt.Sprint(run.MaxReplicas), number(run.MeanReplicas, "%.1f", 1),
			number(run.MeanCPUUtilization, "%.0f%%", 100), number(run.PeakCPUUtilization, "%.0f%%", 100),
			fmt.Sprint(run.FailedRequests), number(run.P95Ms, "%.0f", 1), fmt.Sprint(run.SLOViolationMinutes),
			fmt.Sprintf("%.0f", run.PendingPodSeconds), fmt.Sprintf("%.2f", run.NodeHours), fmt.Sprintf("%.4f", run.CostUSD),
			fmt.Sprintf("%.4f", run.PodCostUSD), number(run.PackingEfficiency, "%.0f%%", 100), fmt.Sprint(run.ScaleActions), fmt.Sprint(run.MinReadyPods),
		})
	}
	return out
}
