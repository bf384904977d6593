package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/forecast"
)

// What a scenario is planned by: the last value, which never has trust to act,
// so that planning is reactive; the season before as it was; and ours.
var plannedBy = []string{forecast.NaiveName, forecast.SeasonalNaiveName, forecast.QuickName, forecast.AutoName}

// scenarioSeeds of each scenario; a day of recorded load takes a minute of each
// forecaster.
var scenarioSeeds = []struct {
	scenario string
	seeds    int
}{{"heartbeat-warm", 4}, {"sawtooth-warm", 4}, {"noise", 4}, {"regime-change", 2}, {"day", 1}}

// scenarioMetrics are the figures of it.
var scenarioMetrics = []string{"sloViolationMinutes", "costUsd", "podCostUsd", "p95Ms", "pendingPodSeconds", "scaleActions"}

// scenarios prints what the operator does by each forecaster, all else being the
// same: mash2 simulate on scenarios, the same seeds for all.
func (o options) scenarios(w io.Writer) error {
	if o.mash2 == "" {
		if o.only == "" {
			fmt.Fprintln(os.Stderr, "scenarios: left out, they are simulated by the program that --mash2 names")
			return nil
		}
		return errors.New("scenarios are simulated by the program that --mash2 names: make build makes bin/mash2")
	}
	rows := make([][]string, len(scenarioSeeds)*len(plannedBy))
	jobs := make([]int, len(rows))
	for i := range jobs {
		jobs[i] = i
	}
	err := parallel(jobs, runtime.GOMAXPROCS(0), func(i int) error {
		of, by := scenarioSeeds[i/len(plannedBy)], plannedBy[i%len(plannedBy)]
		row, err := o.simulate(of.scenario, by, of.seeds)
		if err != nil {
			return fmt.Errorf("%s by %s: %w", of.scenario, by, err)
		}
		rows[i] = row
		fmt.Fprintf(os.Stderr, "%s by %s\n", of.scenario, by)
		return nil
	})
	if err != nil {
		return err
	}
	header := []string{"scenario, seeds", "forecaster"}
	for _, name := range scenarioMetrics {
		header = append(header, score.MetricNamed(name).Title)
	}
	table(w, "Scenarios, the operator with each forecaster", header, rows,
		"Means over seeds, ± half the 95 % interval. By the last value the operator plans reactively: a forecast that is no better than that has no trust to act.")
	return nil
}

// simulate runs one scenario and returns its row.
func (o options) simulate(scenario, forecaster string, seeds int) ([]string, error) {
	cmd := exec.Command(o.mash2, "simulate", "--scenario", scenario, "--scaler", "mash2", "--forecaster", forecaster, "--seeds", strconv.Itoa(seeds), "-o", "json")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	var simulated struct {
		Runs []score.Run `json:"runs"`
	}
	if err := json.Unmarshal(out.Bytes(), &simulated); err != nil {
		return nil, err
	}
	summaries := score.Summarize(simulated.Runs)
	if len(summaries) != 1 {
		return nil, fmt.Errorf("%d summaries, want that of one scaler", len(summaries))
	}
	row := []string{fmt.Sprintf("%s, %d", scenario, seeds), forecaster}
	for _, name := range scenarioMetrics {
		row = append(row, summaries[0].Metrics[name].Text(score.MetricNamed(name)))
	}
	return row, nil
}
