package api

import (
	"fmt"
	"strconv"
	"time"
)

// Context is what the Strategic Agent knows besides the time: c_t of MAS-H² §3.1.
type Context struct {
	// Signals as they were read, in the order of the policy's signals.
	Signals []SignalReading `json:",omitempty"`
	// Strategies of users, in order of key.
	Strategies []Strategy `json:",omitempty"`
	// Last is what each signal was before this cycle, and LastStrategies what each strategy
	// was. They come from the planner's memory.
	Last           []SignalState   `json:",omitempty"`
	LastStrategies []StrategyState `json:",omitempty"`
	// PlacesPods is true where an admission policy has new pods prefer the pool that their
	// workload is planned on: without it workloads can't be kept on different pools.
	PlacesPods bool `json:",omitempty"`
}

// SignalsConfigMap is the ConfigMap, in the policy's namespace, whose keys are signals.
const SignalsConfigMap = "mash2-signals"

// Signal puts a policy in force while what it reads says so.
type Signal struct {
	Name string `json:"name"`
	// Query in PromQL whose one value is read; empty where Key of SignalsConfigMap is.
	Query string `json:"query,omitempty"`
	Key   string `json:"key,omitempty"`
	// Compare says how the value is compared: at or above On, at or below On, or by text.
	Compare SignalCompare `json:"compare"`
	// On is from what value on the signal is on, Off from what value on it is off again.
	// Between the two it stays what it was. For CompareEquals, Text is what it is on at.
	On   float64 `json:"on,omitempty"`
	Off  float64 `json:"off,omitempty"`
	Text string  `json:"text,omitempty"`
	// Policy that is in force while the signal is on.
	Policy string `json:"policy"`
	// MinStay is how long the signal stays on, or off, at least.
	MinStay time.Duration `json:"minStay,omitempty"`
}

// Source is what a signal reads. Another source is another signal to its readings.
func (s Signal) Source() string {
	if s.Query != "" {
		return "prometheus " + s.Query
	}
	return fmt.Sprintf("ConfigMap %s key %s", SignalsConfigMap, s.Key)
}

// SignalCompare is how a signal compares.
type SignalCompare string

// The comparisons.
const (
	CompareAbove  SignalCompare = "above"
	CompareBelow  SignalCompare = "below"
	CompareEquals SignalCompare = "equals"
)

// SignalReading is what a signal was when it was last read.
type SignalReading struct {
	Name   string    `json:"name"`
	Source string    `json:"source"`
	Value  float64   `json:"value"`
	Text   string    `json:"text,omitempty"` // of a ConfigMap
	At     time.Time `json:"at,omitzero"`
	// Missing is not empty when there is no recent value, and says why.
	Missing string `json:"missing,omitempty"`
}

// String is what was read.
func (r SignalReading) String() string {
	if r.Text != "" {
		return strconv.Quote(r.Text)
	}
	return strconv.FormatFloat(r.Value, 'g', 6, 64)
}

// SignalState is whether a signal is on.
type SignalState struct {
	Name string `json:"name"`
	On   bool   `json:"on"`
	// Since is when it last turned on or off; zero if it never did.
	Since time.Time `json:"since,omitzero"`
	// Reason says in a sentence why it is on or off.
	Reason string `json:"reason,omitempty"`
}
