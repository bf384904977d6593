// Package simulation runs scalers through a scenario in virtual time, each in a
// cluster of its own, and compares them: with one another, with recordings of a real
// control plane, and at both fidelities.
package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/forecasters"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/training"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning/learned"
	"github.com/mash2-io/mash2/planning/rl"
)

// ErrInput is wrapped by errors of what was asked for, unlike those of the simulation.
var ErrInput = errors.New("bad input")

// Input marks an error as ErrInput without changing what it says.
func Input(err error) error { return inputError{err} }

type inputError struct{ error }

func (e inputError) Unwrap() []error { return []error{e.error, ErrInput} }

// Options of a comparison. Their names in errors are those of mash2 simulate's flags.
type Options struct {
	// Scenario is a built-in one or a file; Trace replaces the file that its
	// arrivals are read from, if it is not empty.
	Scenario, Trace string
	// Scalers to compare, as sim.ParseScaler knows them, or oracle.
	Scalers []string
	// Fidelities are one or both of sim's; the second is compared with the first.
	Fidelities []string
	// Seed of all that is random, and the number of seeds from it on.
	Seed  uint64
	Seeds int
	// Warm is how many passes come first and are not measured; -1 for the
	// scenario's.
	Warm int
	// Scale multiplies load, replicas' bounds and pools' bounds alike; 0 and 1 leave
	// them.
	Scale float64
	// Against are files with recordings to compare with.
	Against []string
	// Forecaster of mash2 by name; the operator's default if empty.
	Forecaster string
	// Model is a folder that mash2 train wrote, or its model.rl, for mash2-rl; empty for
	// the one that comes with the program.
	Model string
	// SLO is the share of requests, in percent, that mash2 is told must be answered; 0
	// for none.
	SLO float64
	// Report is a folder for a page and its figures; none if empty.
	Report string
	// Records is a folder for records of mash2's cycles, one below it for each run
	// when there are several; none if empty. Version of the program is told in them.
	Records, Version string
}

// Load checks the options and loads the scenario.
func (o Options) Load() (scenarios.Scenario, error) {
	switch {
	case o.Seeds < 1:
		return scenarios.Scenario{}, fmt.Errorf("--seeds must be 1 or more, is %d", o.Seeds)
	case !(o.Scale >= 0) || math.IsInf(o.Scale, 0):
		return scenarios.Scenario{}, fmt.Errorf("--scale must be a positive number, is %g", o.Scale)
	case o.Warm < -1:
		return scenarios.Scenario{}, fmt.Errorf("--warm-passes must be 0 or more, or -1, is %d", o.Warm)
	case !(o.SLO >= 0 && o.SLO < 100):
		return scenarios.Scenario{}, fmt.Errorf("--slo must be a percentage below 100, such as 99.9, is %g", o.SLO)
	case len(o.Scalers) == 0:
		return scenarios.Scenario{}, fmt.Errorf("--scaler must name at least one")
	case len(o.Fidelities) == 0 || len(o.Fidelities) > 2 || len(o.Fidelities) == 2 && o.Fidelities[0] == o.Fidelities[1]:
		return scenarios.Scenario{}, fmt.Errorf("--fidelity must be %s or %s, or one after the other", sim.Fluid, sim.PerRequest)
	}
	for _, f := range o.Fidelities {
		if f != string(sim.Fluid) && f != string(sim.PerRequest) {
			return scenarios.Scenario{}, fmt.Errorf("--fidelity must be %s or %s, not %q", sim.Fluid, sim.PerRequest, f)
		}
	}
	for i, name := range o.Scalers {
		if err := checkScaler(name); err != nil {
			return scenarios.Scenario{}, err
		}
		if slices.Contains(o.Scalers[:i], name) {
			return scenarios.Scenario{}, fmt.Errorf("--scaler names %s twice", name)
		}
	}
	if _, err := forecasters.ByName(cmp.Or(o.Forecaster, forecast.QuickName)); err != nil {
		return scenarios.Scenario{}, fmt.Errorf("--forecaster: %w", err)
	}
	if o.Model != "" && !slices.Contains(o.Scalers, sim.Mash2RL) {
		return scenarios.Scenario{}, fmt.Errorf("--model is what --scaler %s plans by, which is not among the scalers", sim.Mash2RL)
	}
	if _, err := o.model(); err != nil {
		return scenarios.Scenario{}, err
	}
	if o.Records != "" && o.recorded() == 0 {
		return scenarios.Scenario{}, fmt.Errorf("--records: only cycles of mash2, mash2-any and the like can be recorded, and --scaler names none of them")
	}
	return scenarios.LoadWith(o.Scenario, scenarios.Changes{Trace: o.Trace, Warmup: o.Warm, Scale: o.Scale})
}

// model reads the model; nil where there is none.
func (o Options) model() ([]byte, error) {
	if o.Model == "" {
		return nil, nil
	}
	return ReadModel(o.Model)
}

// Builtin is the model that comes with the program, as --model names it.
const Builtin = "builtin:" + learned.Shipped

// ReadModel reads what mash2-rl plans by, from a folder that mash2 train wrote or its
// model.rl, or Builtin. An error names --model.
func ReadModel(path string) ([]byte, error) {
	if path == Builtin {
		data, _ := learned.ShippedModel()
		return data, nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, training.ModelFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	m, err := rl.Decode(data)
	if err == nil {
		err = learned.Check(m)
	}
	if err != nil {
		return nil, fmt.Errorf("--model: %s: %w", path, err)
	}
	return data, nil
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

// Result is what mash2 simulate prints as JSON.
type Result struct {
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

// Run simulates all scalers with all seeds.
func (o Options) Run(ctx context.Context, s scenarios.Scenario, progress io.Writer) (Result, error) {
	out := Result{Scenario: s.Name, Seed: o.Seed, Fidelity: strings.Join(o.Fidelities, ",")}
	world := World{Scenario: s, Passes: max(1, s.Repeat), Forecaster: o.Forecaster, Records: o.recordsOf, Version: o.Version, SLO: o.SLO / 100}
	var err error
	if world.Model, err = o.model(); err != nil {
		return out, err
	}
	recordings, err := o.recordings(s.Name)
	if err != nil {
		return out, Input(err)
	}
	if len(recordings) > 0 {
		world.Scenario.Warmup.Passes, world.Passes = recordings[0].Passes()
		world.Switches = switchesOf(recordings[0], s)
	}
	var outcomes [2][]score.Outcome // by fidelity
	for n, fidelity := range o.Fidelities {
		for i := range o.Seeds {
			seed := o.Seed + uint64(i)
			for _, scaler := range o.Scalers {
				begun := time.Now()
				outcome, err := world.Run(ctx, scaler, sim.Fidelity(fidelity), seed, n == 0 && i == 0 && o.Report != "")
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
			return out, Input(err)
		}
	}
	if len(o.Fidelities) == 2 {
		if out.Fidelities, err = o.agreement(outcomes); err != nil {
			return out, err
		}
	}
	if o.Report != "" {
		if out.Report, err = o.writeReport(out, world, outcomes, recordings); err != nil {
			return out, err
		}
	}
	return out, nil
}

// SwitchAt is a recorded switch of the policy.
func SwitchAt(e score.Event) scenarios.Switch {
	return scenarios.Switch{At: scenarios.Duration{Duration: time.Duration(e.At * float64(time.Second))}, Policy: e.Name}
}

// AddedSwitch is the switch that is added in a pass: in the middle of its first
// minutes of full load.
func AddedSwitch(s scenarios.Scenario, pass int) scenarios.Switch {
	at := time.Duration(pass)*s.PassDuration() + 90*time.Second
	return scenarios.Switch{At: scenarios.Duration{Duration: at}, Policy: api.Performance}
}

// Header of the table of results.
func (s Result) Header() []string {
	out := []string{"scaler"}
	for _, m := range score.Columns() {
		out = append(out, m.Title)
	}
	return out
}

// Rows of the table of results: one for each scaler, means over seeds with 95 %
// intervals.
func (s Result) Rows() [][]string {
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

// EqualSLO compares mash2 with the cheapest of the HPA's targets that violates
// the SLO in no more minutes.
func (s Result) EqualSLO() []string {
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
