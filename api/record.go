package api

// Record is one cycle as it is kept: what it was decided from, and what came of it.
// Policy, plan and actions follow from Snapshot, Spec and Memory.
type Record struct {
	Snapshot Snapshot
	Spec     PolicySpec
	// Memory is the planner's before the cycle; nil where a log doesn't keep it
	// because it follows from the record before.
	Memory any
	// Cycle is what was reported. A cycle with an Error before anything was planned
	// has no Snapshot of its own.
	Cycle   Cycle
	Actions []Action
	// Digest of the policy, the plan and the actions, to the last bit. It is set by
	// who keeps the record.
	Digest string
	// Brief is true when Cycle.Plan is short of what people don't read; see package
	// record.
	Brief bool
}
