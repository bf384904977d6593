package api

import "time"

// Agents is how the running pods of a workload should share CPU, and memory where that is
// allowed (package vertical), as its author wants it, and how they do.
type Agents struct {
	// Stopped is true where they should change nothing.
	Stopped bool `json:"stopped,omitempty"`
	// MilliCPU that all limits may be together; 0 for what the planned replicas would have
	// by their template.
	MilliCPU int64 `json:"milliCPU,omitempty"`
	// Floor and Ceiling of each pod's limit, millicores; no ceiling if 0.
	Floor   int64 `json:"floor"`
	Ceiling int64 `json:"ceiling,omitempty"`
	// Memory of each pod and of all of them; nil where it stays as it is.
	Memory *MemoryBounds `json:"memory,omitempty"`
	// Interval between decisions.
	Interval time.Duration `json:"interval"`
	// Container that is resized; empty for the only one.
	Container string `json:"container,omitempty"`
	// Model that decides about CPU; empty for the rule spread.
	Model string `json:"model,omitempty"`
	// Priorities of pods by name, above 0 up to 1; 1 for others.
	Priorities map[string]float64 `json:"priorities,omitempty"`
	// Selector of the pods' labels, as kubectl reads it.
	Selector string `json:"selector"`
	// Target whose pods they are: others may have the same labels.
	Target TargetRef `json:"target,omitzero"`
	// Template is the CPU limit of the container in the pod template, millicores; 0 without.
	Template int64 `json:"template,omitempty"`
	// State of the fast loop when it was looked at; nil while there is none.
	State *AgentsState `json:"state,omitempty"`
}

// MemoryBounds of limits, bytes.
type MemoryBounds struct {
	// Budget that all limits may be together.
	Budget int64 `json:"budget"`
	// Least and Most of each pod's limit; no most if 0.
	Least int64 `json:"least"`
	Most  int64 `json:"most,omitempty"`
}

// AgentsPlan is the envelope that the slow loop gives the fast one: what agents may do until
// the next plan.
type AgentsPlan struct {
	Agents
	// Budget of all limits, and Least and Most of each, millicores.
	Budget int64 `json:"budget"`
	Least  int64 `json:"least"`
	Most   int64 `json:"most"`
	// Until is when it ends: without a newer one nothing is changed.
	Until time.Time `json:"until"`
	// Hold is why nothing may be changed; empty if it may.
	Hold string `json:"hold,omitempty"`
}

// AgentsState is what agents did in the last interval.
type AgentsState struct {
	Time time.Time `json:"time"`
	// Mind names the rule or the algorithm that decided.
	Mind string `json:"mind"`
	// Trusted is true when a model was proven to be better than the rule here; nil without
	// a model.
	Trusted *bool `json:"trusted,omitempty"`
	// Trial says how far a model has come with that; empty without one.
	Trial string `json:"trial,omitempty"`
	// Pods that take part, in order of name.
	Pods []AgentState `json:"pods,omitempty"`
	// Refused are those that don't, with the reason, and Waits why nothing was changed.
	Refused []string `json:"refused,omitempty"`
	Waits   string   `json:"waits,omitempty"`
	// Error of reading or of writing.
	Error string `json:"error,omitempty"`
	// Models that could decide.
	Models []string `json:"models,omitempty"`
}

// AgentState is a pod with an agent.
type AgentState struct {
	Pod string `json:"pod"`
	// Limit that it has and Next that was decided, millicores.
	Limit int64 `json:"limit"`
	Next  int64 `json:"next"`
	// Usage that was read last, millicores; nil without a reading.
	Usage *float64 `json:"usage,omitempty"`
	// Priority, above 0 up to 1, and Binding, the bound that decided.
	Priority float64 `json:"priority"`
	Binding  string  `json:"binding,omitempty"`
	// Memory is what is decided about the pod's memory; nil where nothing is.
	Memory *AgentMemory `json:"memory,omitempty"`
}

// AgentMemory is a pod's memory, bytes.
type AgentMemory struct {
	// Limit that it has and Next that was decided.
	Limit int64 `json:"limit"`
	Next  int64 `json:"next"`
	// Used is the working set that was read last; nil without a reading.
	Used *float64 `json:"used,omitempty"`
	// Binding is the bound that decided, and Stays why nothing is decided.
	Binding string `json:"binding,omitempty"`
	Stays   string `json:"stays,omitempty"`
}
