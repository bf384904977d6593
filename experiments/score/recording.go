package score

import (
	"encoding/json"
	"fmt"
	"os"
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
	Outcomes []Outcome `json:"outcomes"`
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
	if r.Scenario == "" || len(r.Outcomes) == 0 {
		return Recording{}, fmt.Errorf("%s: has no outcomes in it: not what mash2 demo records as %s", file, RecordingFile)
	}
	return r, nil
}
