package strategy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/strategic/strategy/when"
)

// maxLine bounds a line of recorded inputs, bytes.
const maxLine = 1 << 20

// Step is one moment of recorded inputs.
type Step struct {
	Time time.Time `json:"time"`
	// Policy in force but for strategies. What learns takes it for the one that was.
	Policy string `json:"policy"`
	// Sensors by name; null is one that could not be read.
	Sensors map[string]*float64 `json:"sensors"`
}

// Steps reads recorded inputs, a JSON object a line in order of time. Errors name the line.
func Steps(r io.Reader) ([]Step, error) {
	var out []Step
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var s Step
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.DisallowUnknownFields()
		err := d.Decode(&s)
		if err == nil && d.More() {
			err = errors.New("has more than one JSON object")
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", n, err)
		case s.Time.IsZero():
			return nil, fmt.Errorf("line %d: time: is required", n)
		case len(out) > 0 && !s.Time.After(out[len(out)-1].Time):
			return nil, fmt.Errorf("line %d: time: %s is not after the line before", n, s.Time.Format(time.RFC3339))
		}
		out = append(out, s)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	if len(out) == 0 {
		return nil, errors.New("has no line")
	}
	return out, nil
}

// Unknown returns an error for a step with a sensor that no strategy has: misspelt, it would
// read as one that could not be read.
func Unknown(strategies []api.Strategy, steps []Step) error {
	known := map[string]bool{}
	for _, s := range strategies {
		p, err := compile(s.Spec)
		if err != nil {
			return err
		}
		for _, sensor := range p.spec.Sensors {
			known[sensor.Name] = true
		}
	}
	for _, step := range steps {
		for _, name := range slices.Sorted(maps.Keys(step.Sensors)) {
			if !known[name] {
				return fmt.Errorf("%s: sensors: no strategy has a sensor %q: want %s", step.Time.Format(time.RFC3339), name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			}
		}
	}
	return nil
}

// Result is what strategies wanted at one moment.
type Result struct {
	Time    time.Time            `json:"time"`
	Actions []api.StrategyAction `json:"actions"`
	States  []api.StrategyState  `json:"states"`
	// Findings are what somebody should know.
	Findings []string `json:"findings"`
}

// Run decides on recorded inputs, step by step. A sensor takes the value of a step at which
// it is due, and keeps it until it is due again, as in a cluster.
func Run(strategies []api.Strategy, steps []Step, models map[string]Model) []Result {
	strategies = slices.Clone(strategies)
	for i := range strategies {
		strategies[i].Readings = nil
	}
	read := map[string]time.Time{}
	var last []api.StrategyState
	var out []Result
	for _, step := range steps {
		for i := range strategies {
			strategies[i].Readings = take(strategies[i], step, read)
		}
		o := Decide(Input{Time: step.Time, Policy: step.Policy, Strategies: strategies, Last: last, Models: models})
		// What is recorded came of the recorded policy, whatever is wanted here.
		o.recorded(step.Policy)
		last = o.States
		r := Result{Time: step.Time, Actions: o.Actions, States: api.WithoutSpecs(o.States), Findings: []string{}}
		if r.Actions == nil {
			r.Actions = []api.StrategyAction{}
		}
		for _, f := range o.Findings {
			r.Findings = append(r.Findings, f.String())
		}
		out = append(out, r)
	}
	return out
}

// take returns the readings of a strategy after a step.
func take(s api.Strategy, step Step, read map[string]time.Time) []api.SensorReading {
	p, err := compile(s.Spec)
	if err != nil {
		return nil // Decide says so
	}
	var out []api.SensorReading
	for _, sensor := range p.spec.Sensors {
		if sensor.Strategy != nil {
			continue
		}
		r := api.SensorReading{Sensor: sensor.Name, Missing: "it was not read yet"}
		for _, was := range s.Readings {
			if was.Sensor == sensor.Name {
				r = was
			}
		}
		id := s.Key.String() + " " + sensor.Name
		if due, ok := when.Next(sensor.When, id, read[id]); ok && !due.After(step.Time) {
			if value := step.Sensors[sensor.Name]; value != nil && !math.IsNaN(*value) {
				r, read[id] = api.SensorReading{Sensor: sensor.Name, Value: *value, At: step.Time}, step.Time
			} else {
				r.Missing = "it could not be read" // and is due until it can be
			}
		}
		out = append(out, r)
	}
	return out
}
