package planning

import (
	"fmt"
	"math"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Input is everything a WorkloadPlanner may look at. Its slices and pointers
// are shared with the snapshot and must not be written to.
type Input struct {
	Time     time.Time
	Workload api.Workload
	Policy   api.Policy
	// Pods are the workload's own pods, terminating ones included.
	Pods []api.Pod
	// Readings are the newest of metrics.k8s.io, two at most, oldest first.
	Readings []api.Usage
	// Metrics and ResourceMetrics tell how the two sources of demand are.
	Metrics, ResourceMetrics api.SourceHealth
	// Forecast of the workload's demand, nil when there is none; Trusted is
	// true when its skill entitles it to lower replicas, and ForecastNote says
	// why there is none or why it is not trusted.
	Forecast     *api.Forecast
	Trusted      bool
	ForecastNote string
	// Outlooks are the same for the workload's triggers, one for each; nil when
	// there are none.
	Outlooks []Outlook
	// Speed is what a requested core does on the pool that is planned for: its CPUSpeed,
	// times what replicas burst by where the policy counts on that.
	Speed float64
	// ResizeTo is what the replicas there are being resized to, millicores; 0 if they
	// aren't. Until they are they supply no more than the smaller of both.
	ResizeTo int64
	// Margins that keep the policy's objective; not known where Quantile and
	// TargetUtilization count instead.
	Margins Margins
	// Windows are the stretches of the path that decide.
	Windows Windows
}

// Outlook is what is forecast of a trigger: see Input.Forecast.
type Outlook struct {
	Forecast *api.Forecast
	Trusted  bool
	Note     string
	// Skill of it, in use or not; nil where nothing was forecast.
	Skill *api.ForecastSkill
}

// UsesCPU tells whether CPU usage is a demand input: with triggers it is none
// where the author says so, nor where there are no pods that could use any.
func (in Input) UsesCPU() bool { return usesCPU(in.Workload) }

func usesCPU(w api.Workload) bool {
	return len(w.Triggers) == 0 || !w.IgnoreCPU && w.Replicas > 0
}

// Expected is what a forecast's mean says of demand: the average until a time,
// which a decision of now is for, and the peak of all steps. With no step until
// then the average is what there is now.
func Expected(f api.Forecast, until time.Time, now float64) (mean, peak float64) {
	var sum float64
	n := 0
	for i, v := range f.Mean {
		if !(v >= 0) || math.IsInf(v, 0) {
			continue
		}
		peak = math.Max(peak, v)
		if !f.Start.Add(time.Duration(i) * f.Step).After(until) {
			sum += v
			n++
		}
	}
	if n == 0 {
		return now, math.Max(peak, now)
	}
	return sum / float64(n), peak
}

// Windows are lengths of the path, all from now.
type Windows struct {
	// Pod is how long until replicas asked for in the next cycle are Ready:
	// replicas now must cover it.
	Pod time.Duration
	// Node is the same for nodes of the pool planned for.
	Node time.Duration
	// Trough is how long replicas must stay unneeded before they are given up.
	Trough time.Duration
	// NodeTrough is the same for nodes.
	NodeTrough time.Duration
	// PodHold and NodeHold are how long of the past replicas, and nodes, are held that were
	// needed, where no trusted forecast looks ahead; replicas where margins keep an
	// objective, and no shorter than nodes.
	PodHold, NodeHold time.Duration
	// Tolerance is the relative difference between need and replicas that changes nothing.
	Tolerance float64
	// Late is by how much demand is there sooner than it shows.
	Late time.Duration
	// Horizon is the length of the whole path.
	Horizon time.Duration
}

// MoveCheck reports why the workloads of a plan can't be moved to its pool now,
// nil when they can or need not. A Refusal's Stay is the pool that they stay on.
// It is pure.
type MoveCheck func(api.Snapshot, api.Plan, api.Policy) *api.Refusal

// Proposal is what a WorkloadPlanner asks for one workload by itself: the least that
// is feasible. The Guard makes a Range of it, and the Hierarchy a plan.
type Proposal struct {
	Key api.Key
	// Held is true when nothing can be proposed; Reason says why, and Scale is
	// what there is.
	Held bool
	// Unknown is true where it is Held as no demand is known: bounds hold all the same.
	Unknown bool
	// Scale needed now, after the pod startup latency.
	api.Scale
	// NodeReplicas is the largest number of replicas of this size up to the node
	// lead.
	NodeReplicas int32
	// Ramp is how many of the replicas only the newest ramp of demand asks for,
	// were it to go on.
	Ramp int32
	// Path over the horizon, times increasing, from now on.
	Path []api.PathStep
	// Floor is what the reactive rule asks for now, and FloorSource what it was
	// read from: prometheus, metrics.k8s.io, trigger, or none.
	Floor       int32
	FloorSource string
	// Demand now and its planned peak (policy's quantile), reference millicores;
	// negative when not known.
	Demand, PeakDemand float64
	// Request is the request basis, millicores: by how much CPU a replica is
	// counted.
	Request int64
	// Need is what demand asks for now in replicas before rounding up: the figure
	// that tolerances are relative to. 0 if not known.
	Need float64
	// Binding names the demand that decided, and Reason tells it in a sentence.
	Binding api.Binding
	Reason  string
	// Forecast behind the path; nil when it is reactive.
	Forecast *api.Forecast
	// Part of the Input's margins that was taken; 0 for all.
	Part float64
	// Triggers besides CPU, in the author's order, and whether they ask for a first
	// replica.
	Triggers []api.TriggerPlan
	Activity api.Activity
}

// hold is the proposal for a workload that nobody can plan.
func hold(w api.Workload, reason string) Proposal {
	return Proposal{
		Key: w.Key, Held: true, Binding: api.BindingHold, FloorSource: "none",
		Scale: api.Scale{Replicas: w.Replicas}, NodeReplicas: w.Replicas,
		Demand: -1, PeakDemand: -1,
		Reason: fmt.Sprintf("held at %d: %s", w.Replicas, reason),
	}
}

// plan is the proposal as a plan, before anything is decided.
func (p Proposal) plan() api.WorkloadPlan {
	return api.WorkloadPlan{
		Key: p.Key, Held: p.Held, Scale: p.Scale, NodeReplicas: p.NodeReplicas, Ramp: p.Ramp, Path: p.Path,
		Floor: p.Floor, FloorSource: p.FloorSource, Demand: p.Demand, PeakDemand: p.PeakDemand, Request: p.Request, Need: p.Need,
		Binding: p.Binding, Reason: p.Reason, Forecast: p.Forecast, Triggers: p.Triggers, Activity: p.Activity,
	}
}

// WorkloadPlanner proposes the scale that one workload needs, without regard to
// others: the least that is feasible. The Hierarchy adds what the utility pays for
// and the Guard enforces limits.
//
// A planner is pure: equal inputs give equal proposals, and it is asked about several
// workloads at the same time. A workload that can't be planned comes back Held with a
// Reason; an error means the planner itself failed, and the workload is held for it.
type WorkloadPlanner interface {
	PlanWorkload(Input) (Proposal, error)
}

// NodePlanner packs all pods of a snapshot onto the open pools of its input, each
// workload's on those that it may run on, and empties the other pools that have
// bounds.
//
// The plan never has more nodes in a pool than its bounds allow: pods beyond that are
// Unplaced. It is pure and deterministic. An error means that nothing could be
// planned (an unknown pool, a pool without allocatable).
type NodePlanner interface {
	PlanNodes(api.NodeInput) (api.NodePlan, error)
}

// NodePreparer is a NodePlanner that can be asked for many plans of one snapshot
// at less cost.
type NodePreparer interface {
	// Prepare returns a function with the answers of PlanNodes for inputs of one
	// snapshot. It is for one caller at a time. Afterwards, after returns what helps
	// in the next cycle, where it is before; nil if nothing does.
	Prepare(before api.WarmStart) (plan PlanNodes, after func() api.WarmStart)
}

// PlanNodes is the type of NodePlanner's method.
type PlanNodes = func(api.NodeInput) (api.NodePlan, error)
