package whatif

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/experiments/score"
)

// comparedWithReality is what KnownErrorCommand printed: the simulation beside
// recordings of a real control plane. make whatif-error makes it anew.
//
//go:embed error.json
var comparedWithReality []byte

// KnownErrorCommand is how the simulation's error was found, from the root of the
// repository.
const KnownErrorCommand = "mash2 simulate --scenario heartbeat --seeds 8 --against " +
	"experiments/comparison/testdata/heartbeat-real-1.json,experiments/comparison/testdata/heartbeat-real-2.json -o json"

// KnownError is how far the simulation is from a real control plane, in the phase
// that is compared: warm, with history, as a replay is.
type KnownError struct {
	Command     string             `json:"command"`
	Scenario    string             `json:"scenario"`
	Fidelity    string             `json:"fidelity"`
	Phase       string             `json:"phase"`
	Differences []score.Difference `json:"differences"`
}

func readKnownError() (KnownError, error) {
	var printed struct {
		Scenario string             `json:"scenario"`
		Fidelity string             `json:"fidelity"`
		Against  []score.Difference `json:"against"`
	}
	if err := json.Unmarshal(comparedWithReality, &printed); err != nil {
		return KnownError{}, fmt.Errorf("the comparison with a real control plane that is built in: %w", err)
	}
	out := KnownError{Command: KnownErrorCommand, Scenario: printed.Scenario, Fidelity: printed.Fidelity, Phase: score.Warm}
	for _, d := range printed.Against {
		if d.Phase == out.Phase {
			out.Differences = append(out.Differences, d)
		}
	}
	return out, nil
}

// of is the relative error of one figure of one scaler, false if it isn't known.
func (k KnownError) of(scaler, figure string) (float64, bool) {
	i := slices.IndexFunc(k.Differences, func(d score.Difference) bool { return d.Scaler == scaler && d.Name == figure })
	if i < 0 || k.Differences[i].Error == nil {
		return 0, false
	}
	return *k.Differences[i].Error, true
}

// Sentence introduces the table.
func (k KnownError) Sentence() string {
	return fmt.Sprintf("known error of the simulation (%s, passes with history, against recordings of a real control plane; %s):", k.Scenario, k.Command)
}

// Table has a row for each figure and scaler.
func (k KnownError) Table() (header []string, rows [][]string) {
	header = []string{"scaler", "figure", "real", "simulated", "error"}
	for _, d := range k.Differences {
		m := score.Metric{Format: "%.2f", Scale: 1}
		if d.Unit == "USD" {
			m.Format = "%.4f"
		}
		e := "–"
		if d.Error != nil {
			e = fmt.Sprintf("%+.1f %%", 100**d.Error)
		}
		rows = append(rows, []string{d.Scaler, strings.Join([]string{d.Name, d.Unit}, ", "), d.Real.Text(m), d.Simulated.Text(m), e})
	}
	return header, rows
}
