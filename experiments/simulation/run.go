package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/forecasters"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/experiments/score"
	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/operator/core"
)

// World is what every scaler meets.
type World struct {
	Scenario scenarios.Scenario
	Passes   int // measured
	Switches []scenarios.Switch
	Policies string // policies.yaml; the scenario's if empty
	// Tuning of the rivals' rules; the zero value has their defaults.
	Tuning sim.Tuning
	// SLO is the share of requests, 0–1, that mash2 is told must be answered; 0 for none.
	SLO float64
	// Skipped is left out of the warm-up; see sim.Options.
	Skipped time.Duration
	// Foresight is how far ahead mash2 is told the load; see sim.Options.
	Foresight time.Duration
	// Forecaster of mash2 by name; the operator's default if empty.
	Forecaster string
	// Model of mash2-rl, as rl.Encode writes it; nil for none.
	Model []byte
	// Records is the folder of a run's records, empty for none; nil keeps none.
	// Version of the program is told in them.
	Records func(scaler, fidelity string, seed uint64) string
	Version string
	// Transcript is filled with mash2's actions in the runs that are watched.
	Transcript []string
}

// MaxTranscript is the most lines of a Transcript: it keeps a page readable.
const MaxTranscript = 2000

// Run is one scaler with one seed; watched also keeps plans and the transcript.
func (w *World) Run(ctx context.Context, scaler string, fidelity sim.Fidelity, seed uint64, watched bool) (score.Outcome, error) {
	s := w.Scenario
	out := score.Outcome{
		Scaler: scaler, Seed: seed, PassSeconds: s.PassDuration().Seconds(), WarmupPasses: s.Warmup.Passes, Passes: w.Passes,
		Objective: score.ObjectiveFor(s, w.Switches),
	}
	begun := time.Now()
	if scaler == "oracle" {
		costs, err := sim.Oracle(s, sim.DefaultParams(), s.Warmup.Passes+w.Passes, seed)
		if err != nil {
			return out, err
		}
		bound := 0.0
		for _, usd := range costs[s.Warmup.Passes:] {
			bound += usd
		}
		out.BoundUSD, out.WallSeconds = &bound, time.Since(begun).Seconds()
		return out, nil
	}
	operator := core.DefaultConfig()
	operator.Forecaster, operator.FindForecaster = cmp.Or(w.Forecaster, operator.Forecaster), forecasters.ByName
	if w.Model != nil {
		operator.Models = map[string][]byte{"model": w.Model}
	}
	var plans []score.Planned
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	watch := func(c api.Cycle) {
		plans = append(plans, score.PlansOf([]api.Cycle{c}, func(t time.Time) time.Duration { return t.Sub(sim.Epoch) })...)
		for _, o := range c.Outcomes {
			if len(lines) < MaxTranscript {
				lines = append(lines, line{c.Time, ActionLine(o)})
			}
		}
	}
	if !watched {
		watch = nil
	}
	log := recording{version: w.Version}
	if w.Records != nil {
		log.dir = w.Records(scaler, string(fidelity), seed)
	}
	defer log.close()
	result, err := sim.Run(ctx, sim.Options{
		Record:   log.begin(),
		Scenario: s, Scaler: scaler, Seed: seed, Fidelity: fidelity,
		WarmupPasses: s.Warmup.Passes, Passes: w.Passes, Switches: w.Switches, Policies: w.Policies, Operator: &operator, Report: watch, Tuning: w.Tuning,
		Skipped: w.Skipped, Foresight: w.Foresight, SLO: sim.SLO{Objective: w.SLO},
	})
	if err = errors.Join(err, log.failed()); err != nil {
		return out, err
	}
	out.WallSeconds = time.Since(begun).Seconds()
	out.Workloads, out.Pools = result.Workloads, result.Pools
	if n := len(result.Rollbacks); w.SLO > 0 && strings.HasPrefix(scaler, sim.Mash2) {
		out.Rollbacks = &n
	}
	for i := range out.Workloads {
		out.Workloads[i].Steps = score.ShiftSteps(out.Workloads[i].Steps, result.Start)
	}
	for i := range out.Pools {
		out.Pools[i].Steps = score.ShiftPoolSteps(out.Pools[i].Steps, result.Start)
	}
	for _, l := range result.Ledger {
		n := score.Node{Pool: l.Pool, MachineType: l.MachineType, Price: &l.Price, Requested: (l.Requested - result.Start).Seconds()}
		if l.Deleted >= 0 {
			deleted := (l.Deleted - result.Start).Seconds()
			n.Deleted = &deleted
		}
		out.Nodes = append(out.Nodes, n)
	}
	for _, at := range result.Resizes {
		out.Resizes = append(out.Resizes, at.Seconds())
	}
	for _, at := range result.OOMKills {
		out.OOMKills = append(out.OOMKills, at.Seconds())
	}
	for _, p := range plans {
		if p.At -= result.Start.Seconds(); p.At > 0 {
			out.Plans = append(out.Plans, p)
		}
	}
	for _, l := range lines {
		w.Transcript = append(w.Transcript, fmt.Sprintf("%10s  %s", result.ScenarioTime(l.at).Round(time.Second), l.text))
	}
	return out, nil
}

// ActionLine says what became of an action.
func ActionLine(o api.Outcome) string {
	text := fmt.Sprintf("%s  %s", o.Agent, o.Action)
	switch {
	case o.Error != "":
		text += "  FAILED: " + o.Error
	case o.Skipped != "":
		text += "  skipped: " + o.Skipped
	}
	return text
}

// recordings reads those to compare with.
func (o Options) recordings(scenario string) ([]score.Recording, error) {
	var out []score.Recording
	for _, file := range o.Against {
		r, err := score.ReadRecording(file)
		if err != nil {
			return nil, err
		}
		if r.Scenario != scenario {
			return nil, fmt.Errorf("%s is of scenario %s, not %s", file, r.Scenario, scenario)
		}
		out = append(out, r)
	}
	return out, nil
}

// switchesOf are the recorded switches of the policy; a recording of runs alone has
// them where mash2 demo makes them.
func switchesOf(r score.Recording, s scenarios.Scenario) []scenarios.Switch {
	var out []scenarios.Switch
	for _, e := range r.Switches {
		out = append(out, SwitchAt(e))
	}
	for _, run := range r.Runs {
		if run.Phase == score.Switch && len(out) == 0 {
			out = append(out, AddedSwitch(s, run.Pass))
		}
	}
	return out
}

// against compares every scaler that is in the recordings with its simulations.
func against(recordings []score.Recording, outcomes []score.Outcome) ([]score.Difference, error) {
	var out []score.Difference
	for _, scaler := range recordings[0].Scalers() {
		of := only(outcomes, scaler)
		if len(of) == 0 {
			continue
		}
		var real []score.Outcome
		var runs [][]score.Run
		for _, r := range recordings {
			real = append(real, only(r.Outcomes, scaler)...)
			if own := r.RunsOf(scaler); len(own) > 0 {
				runs = append(runs, own)
			}
		}
		if len(real) > 0 {
			d, err := score.Compare(real, of)
			if err != nil {
				return nil, err
			}
			out = append(out, d...)
		}
		if len(runs) > 0 {
			World, err := byPass(of)
			if err != nil {
				return nil, err
			}
			out = append(out, score.CompareRuns(runs, World)...)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("--against: no scaler is in the recordings and in --scaler")
	}
	return out, nil
}

// byPass are the runs of each outcome's passes.
func byPass(outcomes []score.Outcome) ([][]score.Run, error) {
	var out [][]score.Run
	for _, o := range outcomes {
		var runs []score.Run
		for pass := range o.WarmupPasses + o.Passes {
			r, err := o.RunOfPass(pass)
			if err != nil {
				return nil, err
			}
			runs = append(runs, r)
		}
		out = append(out, runs)
	}
	return out, nil
}

// agreement compares the two fidelities, the fluid with that of every request,
// whichever was run first.
func (o Options) agreement(outcomes [2][]score.Outcome) ([]score.Agreement, error) {
	exact, fluid := o.byFidelity(outcomes)
	var out []score.Agreement
	for _, scaler := range o.Scalers {
		if scaler == "oracle" {
			continue
		}
		differences, err := score.Compare(only(exact, scaler), only(fluid, scaler))
		if err != nil {
			return nil, err
		}
		for _, d := range differences {
			out = append(out, score.Agreement(d))
		}
	}
	return out, nil
}

func (o Options) byFidelity(outcomes [2][]score.Outcome) (exact, fluid []score.Outcome) {
	if o.Fidelities[0] == string(sim.PerRequest) {
		return outcomes[0], outcomes[1]
	}
	return outcomes[1], outcomes[0]
}

// Differences of agreements, for a table.
func Differences(all []score.Agreement) []score.Difference {
	var out []score.Difference
	for _, a := range all {
		out = append(out, score.Difference(a))
	}
	return out
}

// only are the outcomes of one scaler.
func only(outcomes []score.Outcome, scaler string) []score.Outcome {
	var out []score.Outcome
	for _, o := range outcomes {
		if o.Scaler == scaler {
			out = append(out, o)
		}
	}
	return out
}
