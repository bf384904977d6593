package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/report"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/testbed"
)

// simulationError is how far simulated means over passes are from measured
// ones: (simulated − measured) / measured, of CPU in points of utilisation, of
// pending time in pod-seconds. Undefined is null.
type simulationError struct {
	Scaler            string   `json:"scaler"`
	Phase             string   `json:"phase"`
	Replicas          *float64 `json:"replicas"`
	CPUPoints         float64  `json:"cpuPoints"`
	PendingPodSeconds float64  `json:"pendingPodSeconds"`
	CostUSD           *float64 `json:"costUsd"`
	PodCostUSD        *float64 `json:"podCostUsd"`
	P95Ms             *float64 `json:"p95Ms"`
}

// String tells it in words.
func (e simulationError) String() string {
	percent := func(x *float64) string {
		if x == nil {
			return "–"
		}
		return fmt.Sprintf("%+.1f %%", 100**x)
	}
	return fmt.Sprintf("replicas %s, CPU %+.1f points, pending %+.0f pod-s, node cost %s, pod cost %s, p95 %s",
		percent(e.Replicas), e.CPUPoints, e.PendingPodSeconds, percent(e.CostUSD), percent(e.PodCostUSD), percent(e.P95Ms))
}

// compare reads what a demo measured, in one or several files (a comma between
// them), and compares means by scaler and phase.
func (s *simulation) compare(files string) error {
	var measured []testbed.Run
	for _, file := range strings.Split(files, ",") {
		data, err := os.ReadFile(file)
		if err != nil {
			return usageError{err}
		}
		var real struct {
			Scenario string        `json:"scenario"`
			Runs     []testbed.Run `json:"runs"`
		}
		if err := json.Unmarshal(data, &real); err != nil {
			return usageError{fmt.Errorf("%s: not what mash2 demo -o json prints: %w", file, err)}
		}
		if real.Scenario != s.Scenario {
			return usagef("%s is of scenario %q, simulated is %q", file, real.Scenario, s.Scenario)
		}
		measured = append(measured, real.Runs...)
	}
	value := func(x *float64) float64 {
		if x == nil {
			return math.NaN()
		}
		return *x
	}
	for _, g := range groups(s.Runs) {
		for _, m := range groups(measured) {
			if m.scaler != g.scaler || m.phase != g.phase {
				continue
			}
			of := func(f func(testbed.Run) float64) (simulated, real float64) {
				var a, b []float64
				for _, r := range g.runs {
					a = append(a, f(r))
				}
				for _, r := range m.runs {
					b = append(b, f(r))
				}
				return mean(a), mean(b)
			}
			relative := func(f func(testbed.Run) float64) *float64 {
				a, b := of(f)
				x := a/b - 1
				if math.IsNaN(x) || math.IsInf(x, 0) {
					return nil
				}
				return &x
			}
			e := simulationError{Scaler: g.scaler, Phase: g.phase}
			e.Replicas = relative(func(r testbed.Run) float64 { return value(r.MeanReplicas) })
			e.CostUSD = relative(func(r testbed.Run) float64 { return r.CostUSD })
			e.PodCostUSD = relative(func(r testbed.Run) float64 { return r.PodCostUSD })
			e.P95Ms = relative(func(r testbed.Run) float64 { return value(r.P95Ms) })
			a, b := of(func(r testbed.Run) float64 { return 100 * value(r.MeanCPUUtilization) })
			e.CPUPoints = a - b
			a, b = of(func(r testbed.Run) float64 { return r.PendingPodSeconds })
			e.PendingPodSeconds = a - b
			s.Errors = append(s.Errors, e)
		}
	}
	if len(s.Errors) == 0 {
		return usagef("--against: no scaler and phase is in both")
	}
	return nil
}

// writeReport writes the page and the pictures.
func (o *simulateFlags) writeReport(s simulation, scenario scenarios.Scenario) error {
	if err := os.MkdirAll(o.report, 0o755); err != nil {
		return err
	}
	page := report.Page{
		Title: fmt.Sprintf("%s, simulated", s.Scenario),
		Intro: []string{
			scenario.Description,
			fmt.Sprintf("Made by: mash2 simulate --scenario %s --scaler %s --seed %d --seeds %d --warm-passes %d --fidelity %s. "+
				"Each scaler has a cluster of its own, with equal load and equal bounds. Figures over time are those of seed %d.",
				o.scenario, strings.Join(o.scalers, ","), o.seed, o.seeds, o.warm, o.fidelity, o.seed),
		},
		Tables: []report.Table{{Title: "Results", Header: simulationHeader, Rows: s.table(),
			Note: "Means over passes and seeds; ± is half the 95 % interval of the mean over seeds (Student's t). Node cost counts from boot request to deletion. " +
				"A violating minute has its p95 or failed ratio beyond the scenario's SLO. The oracle is a lower bound on node cost without any violation."}},
		Made: time.Now(),
	}
	if len(s.Errors) > 0 {
		t := report.Table{Title: "Simulation against the real control plane", Header: []string{"scaler", "pass", "difference of the simulation"},
			Note: "Means by scaler and phase against " + o.against + "."}
		for _, e := range s.Errors {
			t.Rows = append(t.Rows, []string{e.Scaler, e.Phase, e.String()})
		}
		page.Tables = append(page.Tables, t)
	}
	var views []testbed.View
	var pools []load.PoolResult
	for _, d := range s.drawn {
		views = append(views, testbed.View{
			Name: d.scaler, Workload: d.result.Workloads[0], Request: scenario.Workload.CPU.Request.AsApproximateFloat64(),
			NodeCost: report.Series{X: d.result.CostAt.Minutes, Y: d.result.CostAt.USD},
		})
		for _, p := range d.result.Pools {
			if p.Name != "" {
				p.Name = d.scaler + ": " + p.Name
				pools = append(pools, p)
			}
		}
		page.Legend = append(page.Legend, d.scaler)
	}
	page.Figures, page.Pairs = testbed.Draw(views, pools, nil)
	if f, ok := pareto(s.Runs); ok {
		page.Figures = append([]report.Figure{f}, page.Figures...)
	}
	for _, d := range s.drawn {
		if len(d.cycles) > 0 && d.scaler == "mash2" {
			minutes := func(t time.Time) float64 { return d.result.ScenarioTime(t).Minutes() }
			for _, f := range []report.Figure{testbed.DemandFigure(d.cycles, minutes), testbed.PackingFigure(d.cycles, minutes)} {
				f.XLabel = "scenario time, min"
				page.Figures = append(page.Figures, f)
			}
			page.Transcript = transcript(d.cycles, d.result)
		}
	}
	file, err := os.Create(filepath.Join(o.report, "report.html"))
	if err != nil {
		return err
	}
	if err := errors.Join(report.Write(file, page), file.Close()); err != nil {
		return err
	}
	for _, f := range append(append([]report.Figure(nil), page.Figures...), page.Pairs...) {
		png, err := f.PNG()
		if err != nil {
			return err
		}
		name := strings.Trim(strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return '-'
		}, strings.ToLower(f.Title)), "-") + ".png"
		if err := os.WriteFile(filepath.Join(o.report, name), png, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pareto is cost by violating time, a point for each pass and seed.
func pareto(runs []testbed.Run) (report.Figure, bool) {
	f := report.Figure{
		Title: "Cost and service", XLabel: "node cost of a pass, USD", YLabel: "violating minutes, %", Scatter: true,
		Note: "Down and left is better. The oracle's points are lower bounds on cost without violations.",
	}
	for i, g := range groups(runs) {
		s := report.Series{Name: g.scaler + " " + g.phase, Color: i}
		for _, r := range g.runs {
			if r.SLOViolationRatio != nil {
				s.X, s.Y = append(s.X, r.CostUSD), append(s.Y, 100**r.SLOViolationRatio)
			}
		}
		f.Series = append(f.Series, s)
	}
	return f, len(f.Series) > 0
}

// transcript is what mash2 did, line by line.
func transcript(cycles []api.Cycle, r sim.Result) []string {
	var lines []string
	for _, c := range cycles {
		for _, o := range c.Outcomes {
			line := fmt.Sprintf("%8s  %s  %s", r.ScenarioTime(c.Time).Round(time.Second), o.Agent, o.Action)
			if o.Error != "" {
				line += "  FAILED: " + o.Error
			}
			lines = append(lines, line)
		}
	}
	return lines
}
