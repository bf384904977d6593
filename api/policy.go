package api

import (
	"math"
	"time"
)

// Names of the policies every installation has; a ConfigMap may redefine them
// and add more.
const (
	CostSaving  = "COST_SAVING"
	Performance = "PERFORMANCE"
)

// PolicySpec is the decoded, validated content of the policy ConfigMap: the
// set of policies and the rules that choose among them.
type PolicySpec struct {
	// Manual names the policy chosen by hand; it has precedence. Empty lets
	// signals and the schedule choose.
	Manual string `json:"manual,omitempty"`
	// Policies are all policies that may become active, by name: the built-in
	// ones, overridden and extended by the ConfigMap.
	Policies map[string]Policy `json:"policies"`
	// Signals in order of precedence: the first that is on chooses, before the schedule.
	Signals []Signal `json:"signals,omitempty"`
	// Schedule entries; the entry that fired last is in force.
	Schedule []ScheduleEntry `json:"schedule,omitempty"`
	// Default is in force when nothing else chooses.
	Default string `json:"default,omitempty"`
	// Paused stops every write while true.
	Paused bool `json:"paused,omitempty"`
	// RollbackEnded is when a person ended a rollback; zero for never.
	RollbackEnded time.Time `json:"rollbackEnded,omitzero"`
	// Generation tells one content from another (the ConfigMap's resource
	// version, or a hash).
	Generation string `json:"generation,omitempty"`
}

// ScheduleEntry activates a policy at the times of a cron expression.
type ScheduleEntry struct {
	Cron     string `json:"cron"`               // five fields
	TimeZone string `json:"timeZone,omitempty"` // IANA name, UTC when empty
	Policy   string `json:"policy"`
}

// PolicySource tells what chose the active policy.
type PolicySource string

// In order of precedence.
const (
	SourceManual   PolicySource = "manual"
	SourceStrategy PolicySource = "strategy"
	SourceSignal   PolicySource = "signal"
	SourceSchedule PolicySource = "schedule"
	SourceDefault  PolicySource = "default"
)

// Weights of the three dimensionless terms of the utility (MAS-H² eq. 1); see
// package planning for the terms.
type Weights struct {
	Performance float64 `json:"performance"`
	Cost        float64 `json:"cost"`
	Resilience  float64 `json:"resilience"`
}

// Policy is one business intent: what to maximise, and within what limits.
type Policy struct {
	Name   string       `json:"name"`
	Source PolicySource `json:"source,omitempty"` // set by strategic.Decide
	Since  time.Time    `json:"since,omitzero"`   // when a schedule or signal activated it; zero if not known
	// Reason says in a sentence why this policy is active.
	Reason  string  `json:"reason,omitempty"`
	Weights Weights `json:"weights"`
	// NodePools that managed workloads may run on under this policy. Empty
	// leaves nodes alone: only replicas are planned.
	NodePools []string `json:"nodePools,omitempty"`
	// MachineType narrows NodePools to pools of that type; empty for any.
	MachineType string `json:"machineType,omitempty"`
	// MinReplicas is the paper's R_min(π), for every managed workload.
	MinReplicas int32 `json:"minReplicas"`
	// ScaleToZero lets workloads whose author allows 0 replicas have none while
	// nothing asks for them. MinReplicas holds for the others, and while
	// something does.
	ScaleToZero bool `json:"scaleToZero,omitempty"`
	// Objective is the share of time, in (0, 1), in which demand is to fit into what
	// replicas can use. The margin that keeps it is found by what each workload's demand
	// did before; until its history tells, and for one that states a target utilisation,
	// Quantile and TargetUtilization count. 0: they always do.
	Objective float64 `json:"objective,omitempty"`
	// Burst counts what replicas can use beyond their requests, as far as their limits and
	// the cores of machines that are full of requests let all of them. Only where margins
	// keep the Objective.
	Burst bool `json:"burst,omitempty"`
	// Quantile of the demand forecast, in (0, 1), that must fit into requests:
	// eq. 3 of the paper.
	Quantile float64 `json:"quantile"`
	// TargetUtilization is the planned expected usage relative to requests, in
	// (0, 1], and what the reactive floor holds as an HPA does.
	TargetUtilization float64 `json:"targetUtilization"`
	// MaxHourlyCost bounds the price of all planned nodes, USD/h; 0 is
	// unbounded. What runs beyond it goes down as its own rules allow.
	MaxHourlyCost float64 `json:"maxHourlyCost,omitempty"`
	// MinNodesPerPool keeps nodes in the pool that is planned on, all zones
	// together and rounded up to whole rounds of zones, whether pods need them
	// or not: headroom for what no forecast sees.
	MinNodesPerPool int32 `json:"minNodesPerPool,omitempty"`
	// MaxNodesPerPool bounds a pool's planned nodes, all zones together; 0
	// leaves the pool's own bounds.
	MaxNodesPerPool int32 `json:"maxNodesPerPool,omitempty"`
	// Spot says how much of a workload may run on machines that their provider may take
	// away. Nil: pools of such machines are pools as any other.
	Spot *Spot `json:"spot,omitempty"`
	// MixPools has workloads on several of NodePools at once, each on the one that suits it.
	// False: all are on one of them, with Spot on one beside spot machines. It takes an
	// admission policy that has new pods prefer the pool of their workload.
	MixPools bool `json:"mixPools,omitempty"`
	// Disruption is what moving pods may cost, and when it may happen.
	Disruption Disruption `json:"disruption,omitzero"`
	// Rollback says when the whole plan is taken back because an SLO burns.
	Rollback RollbackPolicy `json:"rollback,omitzero"`
	// Canary says how workloads in mode Canary are tried.
	Canary CanaryPolicy `json:"canary,omitzero"`
	// Signals are what each signal is after this cycle. Set by strategic.Decide.
	Signals []SignalState `json:"signals,omitempty"`
	// Strategies are what each of the users' strategies is after this cycle, and
	// StrategyActions what they want. Set by strategy.Steer.
	Strategies      []StrategyState  `json:"strategies,omitempty"`
	StrategyActions []StrategyAction `json:"strategyActions,omitempty"`
	// ManagedPools are all pools that some policy names, in order of name: the
	// only pools mash2 may ever touch. Set by strategic.Decide.
	ManagedPools []string `json:"managedPools,omitempty"`
}

// Spot bounds the replicas of a workload that run on spot machines, beside others that
// run elsewhere.
type Spot struct {
	// MaxShare of a workload's replicas, in (0, 1].
	MaxShare float64 `json:"maxShare"`
	// Floor is how many of them are kept off spot machines at least.
	Floor int32 `json:"floor"`
}

// Off is how many of so many replicas are to run off spot machines.
func (s Spot) Off(replicas int32) int32 {
	// A share of ten that is meant to be three is no four by rounding.
	spot := int32(math.Floor(s.MaxShare*float64(replicas) + 1e-9))
	return min(max(replicas-spot, s.Floor), max(replicas, 0))
}

// Disruption bounds what moving pods between nodes may take. The zero value of
// a duration or number takes the default of execution.Defaults.
type Disruption struct {
	// PodPrice is what moving one pod is deemed to cost, USD; Payback is within
	// what time the saving of giving nodes up must be worth the pods moved for
	// it. A node of 0.10 USD/h and a payback of 1 h pay for 10 pods of 0.01.
	// Only shrinking has to pay: a pool that the policy doesn't allow is left
	// at any price.
	PodPrice float64       `json:"podPrice,omitempty"`
	Payback  time.Duration `json:"payback,omitempty"`
	// MaxEvictions is how many pods of nobody's workload one cycle evicts.
	MaxEvictions int32 `json:"maxEvictions,omitempty"`
	// GrowTimeout is how long the nodes of the pool moved to may take, from the
	// resize on; MoveTimeout how long pods may take to run there, from the
	// cordon on, and so how long two pools are paid for at most. After either
	// the move is given up, and tried again after RetryAfter.
	GrowTimeout time.Duration `json:"growTimeout,omitempty"`
	MoveTimeout time.Duration `json:"moveTimeout,omitempty"`
	RetryAfter  time.Duration `json:"retryAfter,omitempty"`
	// Windows are when moves and shrinking may begin; none: at any time. What
	// has begun is finished.
	Windows []Window `json:"windows,omitempty"`
	// Closed is set by strategic.Decide outside all windows, and says until
	// when; empty inside.
	Closed string `json:"closed,omitempty"`
}

// Window opens at the times of a cron expression and stays open for a while.
type Window struct {
	Cron     string        `json:"cron"`               // five fields
	TimeZone string        `json:"timeZone,omitempty"` // IANA name, UTC when empty
	Duration time.Duration `json:"duration"`
}
