package api

import (
	"encoding/json"
	"slices"
	"time"
)

// Scale is how much of a workload runs: how many replicas, and of which size. Where
// they run is beside it: see PoolShare. Nodes are planned for the size.
type Scale struct {
	Replicas int32 `json:"replicas"`
	// Containers are what the containers of every replica request, in order of name.
	// Nil: as their template says.
	Containers []ContainerResources `json:"containers,omitempty"`
}

// ContainerResources are what one container of a replica requests.
type ContainerResources struct {
	Name     string    `json:"name"`
	Requests Resources `json:"requests"`
}

// Requests of one replica: the sum over its containers, 1 pod. It is false where the
// scale states no size.
func (s Scale) Requests() (Resources, bool) {
	if s.Containers == nil {
		return Resources{}, false
	}
	sum := Resources{}
	for _, c := range s.Containers {
		sum = sum.Plus(c.Requests)
	}
	sum.Pods = 1
	return sum, true
}

// PoolShare is how many of a workload's replicas run on a pool.
type PoolShare struct {
	Pool     string `json:"pool"`
	Replicas int32  `json:"replicas"`
}

// PathStep is the scale wanted from a time on.
type PathStep struct {
	At time.Time `json:"at"`
	Scale
	// Need is Replicas before rounding up; 0 if not known.
	Need float64 `json:"need,omitempty"`
}

// Binding names the constraint that decided a scale.
type Binding string

// The constraints. What demand asks for comes first, then what people and policies
// want, then what holds a change back.
const (
	BindingForecast  Binding = "forecast"
	BindingRamp      Binding = "ramp"
	BindingFloor     Binding = "floor"   // the reactive rule
	BindingTrigger   Binding = "trigger" // the same of a trigger
	BindingInactive  Binding = "inactive"
	BindingLearned   Binding = "learned" // a model
	BindingUtility   Binding = "utility"
	BindingTolerance Binding = "tolerance"

	BindingMinReplicas       Binding = "minReplicas"
	BindingPolicyMinReplicas Binding = "policyMinReplicas"
	BindingMaxReplicas       Binding = "maxReplicas"
	BindingBudget            Binding = "budget" // of nodes or money

	BindingStabilization Binding = "stabilization"
	BindingScaleUpRate   Binding = "scaleUpRate"
	BindingScaleDownRate Binding = "scaleDownRate"
	BindingStale         Binding = "stale"
	BindingSLO           Binding = "slo"      // it burns, or nobody knows
	BindingRollback      Binding = "rollback" // to what ran while it was kept
	BindingCanary        Binding = "canary"   // a trial allows no plan of its own, or a band
	BindingHold          Binding = "hold"
)

// WorkloadPlan is what one workload should run, and where: what was decided of a
// planner's proposal.
type WorkloadPlan struct {
	Key Key `json:"key"`
	// Held plans keep the current replicas; Reason says why.
	Held bool `json:"held,omitempty"`
	// Shadow plans are shown and never written.
	Shadow bool `json:"shadow,omitempty"`
	// Scale wanted now, after the pod startup latency and every guard.
	Scale
	// Pools that the replicas are to run on, in order of name; nil where nodes are
	// not planned. The shares add up to Replicas.
	Pools []PoolShare `json:"pools,omitempty"`
	// Prefers is, of a workload with replicas on and off spot machines, the pool that its
	// new pods are to go to now.
	Prefers string `json:"prefers,omitempty"`
	// NodeReplicas is the largest value of the path up to the node startup latency: for how
	// many replicas of this size nodes must be there.
	NodeReplicas int32 `json:"nodeReplicas"`
	// Ramp is how many of these replicas only the newest ramp of demand asks for,
	// were it to go on.
	Ramp int32 `json:"ramp,omitempty"`
	// Current replicas when the plan was made.
	Current int32 `json:"current"`
	// Path over the horizon, times increasing.
	Path []PathStep `json:"path,omitempty"`
	// Floor is what the reactive rule asks for now; Replicas is never below it.
	Floor int32 `json:"floor"`
	// FloorSource names what the floor was read from: prometheus,
	// metrics.k8s.io, trigger, or none.
	FloorSource string `json:"floorSource,omitempty"`
	// Demand now and its planned peak (policy's quantile), reference
	// millicores; NaN-free: negative when not known.
	Demand     float64 `json:"demand"`
	PeakDemand float64 `json:"peakDemand"`
	// Request is the request basis, millicores: by how much CPU a replica is
	// counted, the denominator of eq. 3. It is the mean of those there are, which
	// need not be what Scale asks of new ones.
	Request int64 `json:"request"`
	// Binding names the constraint that decided Replicas.
	Binding Binding `json:"binding"`
	Reason  string  `json:"reason"`
	// Forecast behind the path; nil when the plan is reactive.
	Forecast *Forecast `json:"forecast,omitempty"`
	// Triggers besides CPU, in the author's order, and whether they ask for a
	// first replica.
	Triggers []TriggerPlan `json:"triggers,omitempty"`
	Activity Activity      `json:"activity,omitempty"`
	// SLOs of the workload and what is proven of them, in the author's order.
	SLOs []SLOPlan `json:"slos,omitempty"`
	// Canary is the trial that the workload is in; nil where it is in none.
	Canary *CanaryPlan `json:"canary,omitempty"`
	// Sizing is what its containers should request; nil where that is its author's.
	Sizing *SizingPlan `json:"sizing,omitempty"`
	// Agents is what the agents of its pods may do; nil where they have none.
	Agents *AgentsPlan `json:"agents,omitempty"`
	// Skill of what is forecast for this workload, whether or not it may act;
	// nil where nothing is forecast.
	Skill *ForecastSkill `json:"skill,omitempty"`
	// Need is what demand asks for now in replicas before rounding up, bounds
	// and guards: the figure that tolerances are relative to. 0 if not known.
	Need float64 `json:"need"`
}

// MarshalJSON writes triggers and ramp under their old names, signals and rise, as well:
// readers of the JSON form have a release to change.
func (p WorkloadPlan) MarshalJSON() ([]byte, error) {
	type plain WorkloadPlan
	return json.Marshal(struct {
		plain
		Signals []TriggerPlan `json:"signals,omitempty"`
		Rise    int32         `json:"rise,omitempty"`
	}{plain(p), p.Triggers, p.Ramp})
}

// ForecastSkill is how good forecasts of one workload were of late, and what
// they may do therefore.
type ForecastSkill struct {
	Model string `json:"model"`
	// LastValue and Seasonal are 1 − loss/loss of the last value and of what
	// was a season before: 1 perfect, 0 no better, negative worse. Nil until
	// there were enough results, or without a season.
	LastValue *float64 `json:"lastValue,omitempty"`
	Seasonal  *float64 `json:"seasonal,omitempty"`
	// Coverage is the share of results, 0–1, within the 90 % interval of their
	// forecasts. Nil until there were enough.
	Coverage *float64 `json:"coverage,omitempty"`
	Trust    Trust    `json:"trust"`
}

// MarshalJSON writes trust under its old name, licence, as well: readers of the JSON
// form have a release to change.
func (s ForecastSkill) MarshalJSON() ([]byte, error) {
	type plain ForecastSkill
	return json.Marshal(struct {
		plain
		Licence Trust `json:"licence"`
	}{plain(s), s.Trust})
}

// Trust is what a forecast may do.
type Trust string

// The degrees of trust, the least first.
const (
	TrustNone Trust = "none" // plans are reactive
	TrustUp   Trust = "up"   // it may raise replicas
	TrustFull Trust = "full" // and lower them
)

// PoolPlan is the size one pool should have.
type PoolPlan struct {
	Pool string `json:"pool"`
	// SizePerZone × zones = Nodes: what is asked for and what is paid.
	SizePerZone int32 `json:"sizePerZone"`
	Nodes       int32 `json:"nodes"`
	// Needed is the packing's own count, ≤ Nodes when zones round up.
	Needed int32 `json:"needed"`
	// Now is the size per zone that pods need at once; SizePerZone may be
	// larger because of the path. Shrinking goes to SizePerZone only.
	Now int32 `json:"now"`
	// Current target size over all zones when planned.
	Current int32 `json:"current"`
	// HourlyCost of Nodes, USD/h.
	HourlyCost float64 `json:"hourlyCost"`
	// Surplus names nodes the packing leaves without movable pods, those to
	// remove first.
	Surplus []string `json:"surplus,omitempty"`
	// SurplusSince is, of each of Surplus, since when the plan has done without so many
	// nodes; zero for longer than is remembered.
	SurplusSince []time.Time `json:"surplusSince,omitempty"`
	// Unready are nodes that have not become Ready in time, where they are so many that no
	// others are planned in their place; 0 otherwise.
	Unready int32  `json:"unready,omitempty"`
	Reason  string `json:"reason"`
}

// NodePlan is the packing of all pods onto pools.
type NodePlan struct {
	Solver string `json:"solver"`
	// Pool that all workloads are planned on; empty when nodes are not planned, or
	// workloads are on several. It is kept for readers of the JSON form: nothing here
	// reads it. See WorkloadPlan.Pools.
	Pool  string     `json:"pool,omitempty"`
	Pools []PoolPlan `json:"pools,omitempty"` // in order of name
	// Unplaced are pods no planned node can hold, by shape.
	Unplaced   []Unplaced `json:"unplaced,omitempty"`
	HourlyCost float64    `json:"hourlyCost"` // USD/h
	// LowerBound on the hourly cost of any packing, USD/h.
	LowerBound float64 `json:"lowerBound"`
	// Gap of the packing of all pods from scratch: by how much it is at most dearer
	// than the cheapest one, over its cost, 0–1. Nodes there are cost HourlyCost
	// whatever could be had from scratch.
	Gap float64 `json:"gap"`
	// Requested over allocatable of the planned nodes' dominant resource, 0–1.
	PackingEfficiency float64 `json:"packingEfficiency"`
	// Iterations the solver used of its budget, and whether it finished.
	Iterations int  `json:"iterations"`
	Complete   bool `json:"complete"`
	// Fallback says why Solver is not the one that was asked for; empty when
	// it is.
	Fallback string `json:"fallback,omitempty"`
	// Refusal is why workloads stay on Pool although the policy wants them on
	// another one; nil when they need not.
	Refusal *Refusal `json:"refusal,omitempty"`
}

// Refusal is why workloads are not moved to a pool now.
type Refusal struct {
	Pool string `json:"pool"` // that they don't move to
	Stay string `json:"stay"` // that they stay on
	// Reason of the first obstacle, CamelCase; Message has all of them, with
	// names.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// GaveUp is true when the move had begun and ran out of time.
	GaveUp bool `json:"gaveUp,omitempty"`
}

// Unplaced pods of one shape.
type Unplaced struct {
	// Object is a workload or pod that has the shape, and Name its namespace/name.
	Object ObjectRef `json:"object"`
	Name   string    `json:"name"`
	Count  int32     `json:"count"`
	Reason string    `json:"reason"`
}

// Utility is a value of eq. 1 with its parts: all terms dimensionless.
type Utility struct {
	Performance float64 `json:"performance"`
	Cost        float64 `json:"cost"`
	Resilience  float64 `json:"resilience"`
	Total       float64 `json:"total"` // Σ weight × term, cost counted negatively
}

// Candidate is a plan that was considered.
type Candidate struct {
	Pool       string  `json:"pool,omitempty"`
	Nodes      int32   `json:"nodes"`
	Replicas   int64   `json:"replicas"` // over all workloads
	HourlyCost float64 `json:"hourlyCost"`
	Utility    Utility `json:"utility"`
	// Infeasible says which constraint rules it out; empty if feasible.
	Infeasible string `json:"infeasible,omitempty"`
	// Note tells what sets it apart from the chosen one ("web/shop −1 replica").
	Note string `json:"note,omitempty"`
}

// Plan is what one cycle wants.
type Plan struct {
	Time      time.Time      `json:"time"`
	Policy    string         `json:"policy"`
	Workloads []WorkloadPlan `json:"workloads"` // in order of key
	Nodes     NodePlan       `json:"nodes"`
	Utility   Utility        `json:"utility"`
	// Candidates that lost, best first, at most a few per kind.
	Candidates []Candidate `json:"candidates,omitempty"`
	Findings   []Finding   `json:"findings,omitempty"`
	// Rollback is not nil while the plan is one that was taken back to.
	Rollback *Rollback `json:"rollback,omitempty"`
	// Search tells how much work the choice took.
	Search Search `json:"search"`
}

// PoolsInUse are the names of the pools that workloads are planned on, in order.
func (p Plan) PoolsInUse() []string {
	var out []string
	for _, w := range p.Workloads {
		for _, share := range w.Pools {
			if !slices.Contains(out, share.Pool) {
				out = append(out, share.Pool)
			}
		}
	}
	slices.Sort(out)
	return out
}

// PlacedOn is the pool that new pods of a workload are to prefer; empty where all workloads
// are on one pool, whose nodes are the only ones then.
func (p Plan) PlacedOn(w WorkloadPlan) string {
	if w.Prefers != "" && !w.Shadow {
		return w.Prefers
	}
	if w.Shadow || len(w.Pools) != 1 || len(p.PoolsInUse()) < 2 {
		return ""
	}
	return w.Pools[0].Pool
}

// Search is what looking for the best plan took, and whether it got to an end.
type Search struct {
	// Packings asked of the node planner.
	Packings int `json:"packings"`
	// Complete is true when no feasible neighbour of the plan scores higher;
	// false when the budget of packings ran out before that was certain.
	Complete bool `json:"complete"`
	// Exhaustive is true when every feasible plan was considered.
	Exhaustive bool `json:"exhaustive,omitempty"`
}

// Budget bounds the work of a solver. Work, not time: the same input and budget
// give the same plan on a busy machine and on an idle one.
type Budget struct {
	// Iterations of the solver's own main loop; 0 takes its default.
	Iterations int
	// SizesOnly asks for no more than what candidates are told apart by: the
	// sizes of pools, what they cost, and which pods have no place.
	SizesOnly bool
}
