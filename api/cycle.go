package api

import "time"

// Outcome is how an action ended.
type Outcome struct {
	Agent  Agent     `json:"agent"`
	Kind   string    `json:"kind"`
	Object ObjectRef `json:"object"`
	Action string    `json:"action"`
	// Error is empty when it was carried out; Skipped says why it was not
	// tried (paused, or asked for again too soon).
	Error   string `json:"error,omitempty"`
	Skipped string `json:"skipped,omitempty"`
	// Reason of a finding about what was skipped; empty where nobody need know.
	Reason   string        `json:"reason,omitempty"`
	Duration time.Duration `json:"duration"`
}

// NotTriedError is what an actuator returns for an action that it leaves for later:
// no failure, the outcome is Skipped.
type NotTriedError struct {
	Why string
	// Reason is CamelCase where somebody should know; empty where nobody need.
	Reason string
}

// Error says why.
func (e *NotTriedError) Error() string { return "not tried: " + e.Why }

// StepTime is how long a numbered step of the cycle took.
type StepTime struct {
	Step     string        `json:"step"` // observe, decide, plan, sequence, act
	Duration time.Duration `json:"duration"`
}

// Cycle is one walk down the corridor as a record. Logs, metrics, Events,
// status and pages read it and nothing else.
type Cycle struct {
	ID         uint64    `json:"id"`
	Time       time.Time `json:"time"`
	Policy     Policy    `json:"policy"`
	Paused     bool      `json:"paused,omitempty"`
	Plan       Plan      `json:"plan"`
	Outcomes   []Outcome `json:"outcomes,omitempty"`
	Findings   []Finding `json:"findings,omitempty"`
	MemoryHash string    `json:"memoryHash,omitempty"`
	// Pools as observed: size, Ready nodes and what they cost.
	Pools []PoolStatus `json:"pools,omitempty"`
	// Workloads as observed, parallel to Plan.Workloads.
	Workloads []WorkloadStatus `json:"workloads,omitempty"`
	Steps     []StepTime       `json:"steps,omitempty"`
	// Error is not empty when the cycle stopped early, and says where.
	Error string `json:"error,omitempty"`
}

// PoolStatus is what a cycle saw of a pool.
type PoolStatus struct {
	Name        string  `json:"name"`
	MachineType string  `json:"machineType"`
	TargetNodes int32   `json:"targetNodes"`
	ReadyNodes  int32   `json:"readyNodes"`
	HourlyCost  float64 `json:"hourlyCost"` // USD/h of the target size
	Managed     bool    `json:"managed"`
	Hold        string  `json:"hold,omitempty"`
}

// WorkloadStatus is what a cycle saw of a workload.
type WorkloadStatus struct {
	Key           Key     `json:"key"`
	Mode          Mode    `json:"mode,omitempty"`
	Generation    int64   `json:"generation"`
	Replicas      int32   `json:"replicas"`
	ReadyReplicas int32   `json:"readyReplicas"`
	Demand        float64 `json:"demand"` // reference millicores now; negative if not known
	DemandStale   bool    `json:"demandStale,omitempty"`
	// Hold and HoldReason are the snapshot's: why it must not be acted on.
	Hold       string `json:"hold,omitempty"`
	HoldReason string `json:"holdReason,omitempty"` // CamelCase
}
