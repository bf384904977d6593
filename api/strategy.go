package api

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Strategy is a user's own strategy as it was read.
type Strategy struct {
	Key        Key
	Generation int64
	// Spec is the JSON of the v1alpha1.StrategySpec.
	Spec string
	// Readings of its sensors, in their order, as far as any were read.
	Readings []SensorReading `json:",omitempty"`
	// Triggered by a person, in order of target.
	Triggered []HandTrigger `json:",omitempty"`
	// Deliveries of its webhooks by this process, of the last hour, in order of id.
	Deliveries []Delivery `json:",omitempty"`
	// CallsSince is from when on Deliveries has every call; zero where there are none.
	CallsSince time.Time `json:",omitzero"`
}

// AnnotationTriggered of a Strategy has what a person triggers, as a JSON object of times
// by target.
const AnnotationTriggered = Group + "/triggered"

// HandTrigger is a sensor or a rule that a person triggers.
type HandTrigger struct {
	// Target is sensor/NAME or rule/NAME.
	Target string    `json:"target"`
	At     time.Time `json:"at"`
}

// SensorTarget and RuleTarget are targets of a HandTrigger.
func SensorTarget(name string) string { return "sensor/" + name }

// RuleTarget is that of a rule.
func RuleTarget(name string) string { return "rule/" + name }

// HandTriggerCounts is for how long a trigger counts that had no effect yet.
const HandTriggerCounts = 10 * time.Minute

// TriggeredAt is when a target was triggered by a person, as far as that still counts; the
// zero time otherwise.
func (s Strategy) TriggeredAt(target string, now time.Time) time.Time {
	for _, t := range s.Triggered {
		// Another machine's clock may be a little ahead.
		if age := now.Sub(t.At); t.Target == target && age <= HandTriggerCounts && age >= -time.Minute {
			return t.At
		}
	}
	return time.Time{}
}

// Delivery is what became of a call of a webhook.
type Delivery struct {
	ID string `json:"id"` // of the CallWebhook
	// Done is when it was taken; zero if it was not.
	Done time.Time `json:"done,omitzero"`
	// Attempts that failed, Error of the last one, and Next when it is tried again.
	Attempts int       `json:"attempts,omitempty"`
	Error    string    `json:"error,omitempty"`
	Next     time.Time `json:"next,omitzero"`
}

// SensorReading is what a sensor was when it was last read.
type SensorReading struct {
	Sensor string    `json:"sensor"`
	Value  float64   `json:"value"`
	At     time.Time `json:"at,omitzero"`
	// Missing is not empty when the value can't be used, and says why.
	Missing string `json:"missing,omitempty"`
}

// StrategyState is what a strategy was after a cycle.
type StrategyState struct {
	Key    Key         `json:"key"`
	Rules  []RuleState `json:"rules,omitempty"`
	Choice *Choice     `json:"choice,omitempty"`
	// Learning is what it has learned of policies, also while it is Off or can't be used.
	Learning *Learning `json:"learning,omitempty"`
	// Outputs that could be computed, in order of name.
	Outputs []StrategyOutput `json:"outputs,omitempty"`
	// Spec that it was decided by, and whether it is the last one that could be used while the
	// cluster's can't be.
	Spec  string `json:"spec,omitempty"`
	Stays bool   `json:"stays,omitempty"`
}

// WithoutSpecs returns states as people read them.
func WithoutSpecs(states []StrategyState) []StrategyState {
	states = slices.Clone(states)
	for i := range states {
		states[i].Spec = ""
	}
	return states
}

// StrategyOutput is a number that other strategies read.
type StrategyOutput struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// RuleState is whether a rule is on.
type RuleState struct {
	Name string `json:"name"`
	On   bool   `json:"on"`
	// Since is when it last turned; zero if it never did. Pending is from when on it has
	// wanted to turn without a break; zero while it doesn't.
	Since   time.Time `json:"since,omitzero"`
	Pending time.Time `json:"pending,omitzero"`
	// Triggered is the last trigger by a person that it has followed.
	Triggered time.Time `json:"triggered,omitzero"`
	// Reason says in a sentence why it is on or off.
	Reason string `json:"reason"`
	// Proposed are the replicas that the rule proposed last, of workloads by name, while it is on.
	Proposed []RuleProposal `json:"proposed,omitempty"`
}

// RuleProposal is how many replicas a rule wants a workload of its namespace to have at least.
type RuleProposal struct {
	Workload string `json:"workload"`
	Replicas int32  `json:"replicas"`
}

// Choice is the candidate that a strategy has chosen.
type Choice struct {
	Candidate string    `json:"candidate"`
	Since     time.Time `json:"since,omitzero"` // zero where it began
	// Better is the best other candidate, and Gain by how much better it has been: the
	// relative advantage integrated over time, hours, up to At.
	Better string    `json:"better,omitempty"`
	Gain   float64   `json:"gain,omitempty"`
	At     time.Time `json:"at,omitzero"`
	// Reason says in a sentence why it is chosen.
	Reason string `json:"reason"`
}

// StrategyActionKind is a kind of StrategyAction.
type StrategyActionKind string

// The kinds.
const (
	ActionSetPolicy       StrategyActionKind = "setPolicy"
	ActionMove            StrategyActionKind = "move"
	ActionSetBounds       StrategyActionKind = "setBounds"
	ActionProposeReplicas StrategyActionKind = "proposeReplicas"
	ActionCallWebhook     StrategyActionKind = "callWebhook"
)

// StrategyAction is what a strategy wants in a cycle.
type StrategyAction struct {
	Strategy Key                `json:"strategy"`
	Rule     string             `json:"rule"` // the rule's name, choose or learn
	Kind     StrategyActionKind `json:"kind"`
	Policy   string             `json:"policy,omitempty"`
	Pools    []string           `json:"pools,omitempty"`
	Workload Key                `json:"workload,omitzero"`
	// MinReplicas and MaxReplicas, 0 for none; of a proposal the least.
	MinReplicas int32     `json:"minReplicas,omitempty"`
	MaxReplicas int32     `json:"maxReplicas,omitempty"`
	URL         string    `json:"url,omitempty"` // of a webhook
	Since       time.Time `json:"since,omitzero"`
	Reason      string    `json:"reason"`
	// NotDone says why it has no effect; empty if it has.
	NotDone string `json:"notDone,omitempty"`
}

// What is wanted, in words.
func (a StrategyAction) What() string {
	switch a.Kind {
	case ActionSetPolicy:
		return "policy " + a.Policy
	case ActionMove:
		if a.Workload != (Key{}) {
			return fmt.Sprintf("%s on pools %s", a.Workload, strings.Join(a.Pools, ", "))
		}
		return "pools " + strings.Join(a.Pools, ", ")
	case ActionCallWebhook:
		return "a call of " + hostOf(a.URL)
	case ActionProposeReplicas:
		return fmt.Sprintf("%d replicas of %s at least", a.MinReplicas, a.Workload)
	}
	switch {
	case a.MaxReplicas == 0:
		return fmt.Sprintf("%s at %d replicas at least", a.Workload, a.MinReplicas)
	case a.MinReplicas == 0:
		return fmt.Sprintf("%s at %d replicas at most", a.Workload, a.MaxReplicas)
	}
	return fmt.Sprintf("%s at %d to %d replicas", a.Workload, a.MinReplicas, a.MaxReplicas)
}

// hostOf leaves out what of an address may be a secret.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "a webhook"
	}
	return u.Host
}

// On is what an action is about: two that want different things of it contradict one another.
func (a StrategyAction) On() string {
	switch a.Kind {
	case ActionSetPolicy:
		return "the policy"
	case ActionMove:
		if a.Workload != (Key{}) {
			return "the pools of " + a.Workload.String()
		}
		return "the pools"
	case ActionCallWebhook:
		return a.URL
	}
	return string(a.Kind) + " of " + a.Workload.String()
}
