package api

import "time"

// CanaryPolicy says how workloads in mode Canary are tried. The zero value of a field takes
// its default.
type CanaryPolicy struct {
	// Share of a namespace's workloads in mode Canary that mash2 acts for, 0–0.5; at
	// least one. 0.2 by default.
	Share float64 `json:"share,omitempty"`
	// WorseBy is how much worse canaries may be than their controls: by how many error
	// budgets the share of bad events. 0.5 by default.
	WorseBy float64 `json:"worseBy,omitempty"`
	// DearerBy is how much more than their controls canaries may request for the same
	// demand, as a share. 0.25 by default.
	DearerBy float64 `json:"dearerBy,omitempty"`
	// Alpha is how likely a canary that is not worse is ever stopped, and one that is
	// worse is ever taken for good, at most, 0–0.5. 0.05 by default.
	Alpha float64 `json:"alpha,omitempty"`
	// Band is by how much, as a share, a canary may have more replicas than the reactive
	// rule, which an HPA would follow; it never has fewer. 0: no such limit.
	Band float64 `json:"band,omitempty"`
	// Baseline is how long workloads are watched before, an hour by default, and Soak how
	// long canaries run at least, a day by default.
	Baseline time.Duration `json:"baseline,omitempty"`
	Soak     time.Duration `json:"soak,omitempty"`
	// Paused is true while nothing is written, so that nothing can be learnt. Set by
	// strategic.Decide.
	Paused bool `json:"paused,omitempty"`
}

// Defaulted is the policy with its defaults.
func (p CanaryPolicy) Defaulted() CanaryPolicy {
	for _, f := range []struct {
		field *float64
		value float64
	}{{&p.Share, 0.2}, {&p.WorseBy, 0.5}, {&p.DearerBy, 0.25}, {&p.Alpha, 0.05}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	if p.Baseline <= 0 {
		p.Baseline = time.Hour
	}
	if p.Soak <= 0 {
		p.Soak = 24 * time.Hour
	}
	return p
}

// CanaryPhase is how far a trial is.
type CanaryPhase string

// The phases, in their order.
const (
	CanaryWaiting  CanaryPhase = "Waiting"  // for workloads that can be compared
	CanaryBaseline CanaryPhase = "Baseline" // what they differ by anyway is measured
	CanaryRunning  CanaryPhase = "Running"  // canaries are acted for
	CanaryPromoted CanaryPhase = "Promoted" // all are
	CanaryStopped  CanaryPhase = "Stopped"  // none is, until a person starts another trial
)

// CanaryRole is what a workload is in a trial.
type CanaryRole string

// The roles.
const (
	CanaryCanary  CanaryRole = "Canary"
	CanaryControl CanaryRole = "Control"
	CanaryNone    CanaryRole = "None" // neither
)

// CanaryPlan is what is known of the trial of a workload's namespace.
type CanaryPlan struct {
	Phase CanaryPhase `json:"phase"`
	Role  CanaryRole  `json:"role"`
	// Since is when the phase began.
	Since time.Time `json:"since"`
	// Acts is true while mash2 acts for the workload, by a plan of its own.
	Acts bool `json:"acts"`
	// With is the other one of its pair.
	With string `json:"with,omitempty"`
	// Pairs that count.
	Pairs int `json:"pairs"`
	// Known is how much of the phase there is evidence of.
	Known time.Duration `json:"known"`
	// Worse and Fine are the evidence, at 1 to begin with, that canaries are worse than
	// they may be and that they are not. Needed is what proves either.
	Worse  float64 `json:"worse"`
	Fine   float64 `json:"fine"`
	Needed float64 `json:"needed"`
	// Excess is how much worse they were, error budgets, of which a block counts 14.4 at most.
	Excess float64 `json:"excess"`
	// Cost is what canaries request for their demand over what their controls do, both
	// relative to the time before; nil if not known.
	Cost *float64 `json:"cost,omitempty"`
	// Waits says what the trial waits for, or why it ended.
	Waits string `json:"waits"`
}
