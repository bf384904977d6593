package score

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// RecordingFile is the name of the file with a Recording in a report's folder.
const RecordingFile = "results.json"

// Recording is all that an experiment measured, with its time series, so that
// another can be compared with it.
type Recording struct {
	Scenario string  `json:"scenario"`
	Speed    float64 `json:"speed,omitempty"` // of a real plane
	Seed     uint64  `json:"seed"`
	// Switches of the policy, named by it.
	Switches []Event   `json:"switches,omitempty"`
	Outcomes []Outcome `json:"outcomes,omitempty"`
	// Runs by pass are all that is left of it if there are no outcomes: what the
	// experiment printed.
	Runs []Run `json:"runs,omitempty"`
}

// Passes of the recording: those that are not measured, and those that are.
func (r Recording) Passes() (warmup, measured int) {
	if len(r.Outcomes) > 0 {
		return r.Outcomes[0].WarmupPasses, r.Outcomes[0].Passes
	}
	for _, run := range r.Runs {
		measured = max(measured, run.Pass+1)
	}
	return 0, measured
}

// Scalers that are in it, in their order.
func (r Recording) Scalers() []string {
	var out []string
	add := func(name string) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, o := range r.Outcomes {
		add(o.Scaler)
	}
	for _, run := range r.Runs {
		add(run.Scaler)
	}
	return out
}

// RunsOf are the printed runs of a scaler, by pass.
func (r Recording) RunsOf(scaler string) []Run {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(run Run) bool { return run.Scaler != scaler })
}

// Write writes the recording to a file.
func (r Recording) Write(file string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing the recording: %w", err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return fmt.Errorf("writing the recording: %w", err)
	}
	return nil
}

// ReadRecording reads a file that Write wrote.
func ReadRecording(file string) (Recording, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Recording{}, fmt.Errorf("reading the recording: %w", err)
	}
	var r Recording
	if err := json.Unmarshal(data, &r); err != nil {
		return Recording{}, fmt.Errorf("%s: %w", file, err)
	}
	if r.Scenario == "" || len(r.Outcomes) == 0 && len(r.Runs) == 0 {
		return Recording{}, fmt.Errorf("%s: has no outcomes or runs in it: not what mash2 demo records as %s or prints", file, RecordingFile)
	}
	return r, nil
}
