package api

import "time"

// SLO is what was read of a service level objective of a workload.
type SLO struct {
	Name string
	// Objective is the share of events that are to be good, in (0, 1).
	Objective float64
	// Total and Bad are the events of the Window that ended At.
	At         time.Time
	Window     time.Duration
	Total, Bad float64
	// Missing is not empty when there is no such reading, and says why.
	Missing string
}

// SLOVerdict is what the readings of an objective prove.
type SLOVerdict string

// The verdicts. Whatever isn't proven is inconclusive.
const (
	SLOGood         SLOVerdict = "Good"
	SLOBurning      SLOVerdict = "Burning"
	SLOInconclusive SLOVerdict = "Inconclusive"
)

// SLOPlan is what a plan made of an objective.
type SLOPlan struct {
	Name      string     `json:"name"`
	Objective float64    `json:"objective"`
	Verdict   SLOVerdict `json:"verdict"`
	// BurnRate is the share of bad events over that which the objective allows, of the
	// newest reading; negative if not known.
	BurnRate float64 `json:"burnRate"`
	// Events behind the verdict.
	Events float64 `json:"events"`
	Reason string  `json:"reason"`
	// Proven is a time whose plan kept the objective; zero if none is known.
	Proven time.Time `json:"proven,omitzero"`
}

// RollbackPolicy says whose objectives take the whole plan back, and for how long.
type RollbackPolicy struct {
	// Hold is how long mash2 stays out after a rollback, unless a person ends it.
	Hold time.Duration `json:"hold,omitempty"`
	// Namespaces whose objectives may take the plan back; empty for all of them.
	Namespaces []string `json:"namespaces,omitempty"`
	// Ended is when a person last ended a rollback; zero for never. Set by
	// strategic.Decide.
	Ended time.Time `json:"ended,omitzero"`
}

// Rollback is a plan that was taken back, while mash2 stays out.
type Rollback struct {
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
	// To is the time whose plan runs again.
	To time.Time `json:"to"`
	// Workload whose objective SLO burnt, and why that was found.
	Workload Key    `json:"workload"`
	SLO      string `json:"slo"`
	Reason   string `json:"reason"`
	// Restored are how many workloads had fewer replicas than then, or ran elsewhere.
	Restored int `json:"restored"`
}
