package planning

import (
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
	// Forecast of the workload's demand, nil when there is none; Licensed is
	// true when its skill entitles it to lower replicas, and ForecastNote says
	// why there is none or why it is not licensed.
	Forecast     *api.Forecast
	Licensed     bool
	ForecastNote string
	// Outlooks are the same for the workload's signals, one for each; nil when
	// there are none.
	Outlooks []Outlook
	// Speed is the CPUSpeed of the pool that is planned for.
	Speed float64
	// Windows are the stretches of the path that decide.
	Windows Windows
}

// Outlook is what is forecast of a signal: see Input.Forecast.
type Outlook struct {
	Forecast *api.Forecast
	Licensed bool
	Note     string
	// Skill of it, in use or not; nil where nothing was forecast.
	Skill *api.ForecastSkill
}

// UsesCPU tells whether CPU usage is a demand input: with signals it is none
// where the author says so, nor where there are no pods that could use any.
func (in Input) UsesCPU() bool { return usesCPU(in.Workload) }

func usesCPU(w api.Workload) bool {
	return len(w.Signals) == 0 || !w.IgnoreCPU && w.Replicas > 0
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
	// Horizon is the length of the whole path.
	Horizon time.Duration
}

// MoveCheck reports why the workloads of a plan can't be moved to its pool now,
// nil when they can or need not. A Refusal's Stay is the pool that they stay on.
// It is pure.
type MoveCheck func(api.Snapshot, api.Plan, api.Policy) *api.Refusal

// WorkloadPlanner decides the replicas that one workload needs, without regard
// to others: the least that is feasible. The Hierarchy adds what the utility
// pays for and the Guard enforces limits.
//
// A planner is pure: equal inputs give equal plans. A workload that can't be
// planned comes back Held with a Reason; an error means the planner itself
// failed, and the workload is held for it.
type WorkloadPlanner interface {
	PlanWorkload(Input) (api.WorkloadPlan, error)
}

// NodePlanner packs all pods of the snapshot, with managed workloads at their
// planned NodeReplicas, onto the pools that p.NodePools names: the candidates
// under evaluation, which the planner is free to combine when there are
// several. Nodes of pools in p.ManagedPools but not in p.NodePools are to be
// emptied; pools outside p.ManagedPools are as they are.
//
// The plan never has more nodes in a pool than p.MaxNodesPerPool and
// Pool.MaxPerZone allow: pods beyond that are Unplaced. It is pure and
// deterministic. An error means that nothing could be planned (an unknown
// pool, a pool without allocatable).
type NodePlanner interface {
	PlanNodes(s api.Snapshot, plans []api.WorkloadPlan, p api.Policy, b api.Budget) (api.NodePlan, error)
}

// NodePreparer is a NodePlanner that can be asked for many plans of one snapshot
// at less cost.
type NodePreparer interface {
	// Prepare returns a function with the answers of PlanNodes for one snapshot,
	// whose pools' bounds alone may differ from call to call. It is for one
	// caller at a time. Afterwards, after returns what helps in the next cycle,
	// where it is before: a cache, nil if there is none, and never written to.
	Prepare(before any) (plan func(api.Snapshot, []api.WorkloadPlan, api.Policy, api.Budget) (api.NodePlan, error), after func() any)
}
