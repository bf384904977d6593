package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Question is what an Explanation answers.
type Question struct {
	// At is a time: the cycle in force then is explained. Zero for the last one.
	At time.Time
	// Workload and Pool narrow the answer; empty for all of them.
	Workload string // namespace/name
	Pool     string
}

// Explanation is why a cycle decided as it did, from its record alone.
type Explanation struct {
	Cycle   uint64    `json:"cycle"`
	Time    time.Time `json:"time"`
	Program string    `json:"program"` // that recorded
	// Brief is true where figures have four digits and forecasts no curves.
	Brief bool `json:"brief,omitempty"`
	// Error is why the cycle decided nothing; empty if it did.
	Error  string     `json:"error,omitempty"`
	Paused bool       `json:"paused,omitempty"`
	Policy api.Policy `json:"policy"`

	// Workload asked for, what decided its replicas, the forecast behind it (null
	// without one that was used) and what was observed.
	Workload string              `json:"workload,omitempty"`
	Binding  api.Binding         `json:"binding,omitempty"`
	Reason   string              `json:"reason,omitempty"`
	Forecast *api.Forecast       `json:"forecast"`
	Trust    *api.ForecastSkill  `json:"trust,omitempty"`
	Decided  *api.WorkloadPlan   `json:"decided,omitempty"`
	Observed *api.WorkloadStatus `json:"observed,omitempty"`
	// Pods are those of the workload by pool; pods without a node come last, with no pool.
	Pods []PodsOn `json:"pods,omitempty"`
	// Now is what was there when the cycle began; null where it isn't kept.
	Now *Running `json:"now,omitempty"`
	// Workloads are all of them where none was asked for.
	Workloads []api.WorkloadPlan `json:"workloads,omitempty"`

	// Chosen is the plan for all workloads and nodes; Candidates lost against it.
	Chosen     api.Candidate   `json:"chosen"`
	Candidates []LostCandidate `json:"candidates"`

	// Pool asked for, and what its machines are.
	Pool     *api.PoolPlan `json:"pool,omitempty"`
	Machines *Machines     `json:"machines,omitempty"`
	Nodes    api.NodePlan  `json:"nodes"`

	Actions  []Done        `json:"actions"`
	Findings []api.Finding `json:"findings,omitempty"`
	// Lost is what of the records after this cycle is missing: another one may have been in force.
	Lost []string `json:"lost,omitempty"`
}

// Running is what there is, which plans may be ahead of.
type Running struct {
	// Pods of managed workloads, and how many are Ready.
	Pods  int `json:"pods"`
	Ready int `json:"ready"`
	// Nodes that are asked for of the provider, in the pools that mash2 may resize, and how
	// many of these pools' are Ready.
	Nodes      int `json:"nodes"`
	ReadyNodes int `json:"readyNodes"`
}

func running(e Entry) *Running {
	if len(e.Snapshot.Pods) == 0 {
		return nil
	}
	out := &Running{}
	for _, p := range e.Snapshot.Pods {
		if p.Workload == (api.Key{}) {
			continue
		}
		out.Pods++
		if p.Ready {
			out.Ready++
		}
	}
	c := e.Cycle
	if c.Pools == nil {
		c.Pools, _ = api.Observed(e.Snapshot, c.Policy)
	}
	for _, p := range c.Pools {
		if p.Managed {
			out.Nodes += int(p.TargetNodes)
			out.ReadyNodes += int(p.ReadyNodes)
		}
	}
	return out
}

// Machines are those of a pool.
type Machines struct {
	Type  string  `json:"type"`
	Price float64 `json:"price"` // USD per node and hour
	// Spot machines are taken away, each so many times per hour.
	Spot          bool    `json:"spot,omitempty"`
	Interruptions float64 `json:"interruptions,omitempty"`
	// Standing is the CPU that DaemonSets and static pods request of one, and StandingUsage
	// what they were read to use, null where that is not known; millicores.
	Standing      int64    `json:"standing"`
	StandingUsage *float64 `json:"standingUsage"`
}

// PodsOn are how many pods a workload has on a pool.
type PodsOn struct {
	Pool  string `json:"pool,omitempty"` // empty for pods without a node, or on a node of no pool
	Pods  int    `json:"pods"`
	Ready int    `json:"ready"`
	// Leaving are those on cordoned nodes.
	Leaving int `json:"leaving,omitempty"`
}

// LostCandidate is a plan that was considered, and why it lost.
type LostCandidate struct {
	api.Candidate
	Why string `json:"why"`
}

// Done is an action and what came of it.
type Done struct {
	Object  api.ObjectRef `json:"object"`
	Action  string        `json:"action"`
	Outcome string        `json:"outcome"` // done, failed: …, skipped: …
}

// Explain answers a question. The error is of a question about something that the
// cycle doesn't know, and names what it knows.
func (l *Log) Explain(q Question) (Explanation, error) {
	e, err := l.At(q.At)
	if err != nil {
		return Explanation{}, err
	}
	return explain(e, q)
}

// At is the record in force at a time: the last one that is not later. The zero time
// asks for the last of all. It is the first one for a time before all.
func (l *Log) At(at time.Time) (Entry, error) {
	first := len(l.Segments) - 1
	if !at.IsZero() {
		first = l.begun(at)
	}
	// Where no record of a segment is whole, one of an earlier segment was in force.
	for ; first >= 0; first-- {
		var found Entry
		for e, err := range l.records(first) {
			if err != nil {
				return found, err
			}
			if found.Cycle.ID != 0 && !at.IsZero() && e.Cycle.Time.After(at) {
				break
			}
			found = e
		}
		if found.Cycle.ID != 0 && (first == 0 || at.IsZero() || !found.Cycle.Time.After(at)) {
			return found, nil
		}
	}
	return Entry{}, fmt.Errorf("no cycle was recorded by %s", at.Format(time.RFC3339))
}

func explain(e Entry, q Question) (Explanation, error) {
	c, p := e.Cycle, e.Cycle.Plan
	out := Explanation{
		Cycle: c.ID, Time: c.Time, Program: e.Segment.Program, Brief: e.Brief, Error: c.Error, Paused: c.Paused, Policy: c.Policy,
		Nodes: p.Nodes, Candidates: []LostCandidate{}, Actions: []Done{}, Now: running(e), Lost: e.Lost,
	}
	out.Chosen = api.Candidate{Pool: strings.Join(p.PoolsInUse(), " + "), HourlyCost: p.Nodes.HourlyCost, Utility: p.Utility}
	for _, pool := range p.Nodes.Pools {
		out.Chosen.Nodes += pool.Nodes
	}
	for _, w := range p.Workloads {
		out.Chosen.Replicas += int64(w.Replicas)
	}
	for _, k := range p.Candidates {
		if q.Pool == "" || k.Pool == q.Pool {
			out.Candidates = append(out.Candidates, LostCandidate{k, why(k, out.Chosen)})
		}
	}
	objects, pools := []api.ObjectRef{}, []api.ObjectRef{}
	switch {
	case q.Workload != "":
		i := slices.IndexFunc(p.Workloads, func(w api.WorkloadPlan) bool { return w.Key.String() == q.Workload })
		if i < 0 {
			return out, fmt.Errorf("cycle %d planned no workload %s%s", c.ID, q.Workload, known(p.Workloads, func(w api.WorkloadPlan) string { return w.Key.String() }))
		}
		w := p.Workloads[i]
		out.Workload, out.Binding, out.Reason, out.Forecast, out.Trust, out.Decided = q.Workload, w.Binding, w.Reason, w.Forecast, w.Skill, &w
		out.Observed = observed(e.Snapshot, w.Key)
		out.Pods = podsOf(e.Snapshot, w.Key)
		objects = append(objects, api.WorkloadRef(w.Key))
		for _, share := range w.Pools {
			pools = append(pools, api.PoolRef(share.Pool))
		}
		for _, on := range out.Pods {
			pools = append(pools, api.PoolRef(on.Pool))
		}
	case q.Pool == "":
		out.Workloads = p.Workloads
	}
	if q.Pool != "" {
		i := slices.IndexFunc(p.Nodes.Pools, func(n api.PoolPlan) bool { return n.Pool == q.Pool })
		if i < 0 {
			return out, fmt.Errorf("cycle %d planned no pool %s%s", c.ID, q.Pool, known(p.Nodes.Pools, func(n api.PoolPlan) string { return n.Pool }))
		}
		out.Pool = &p.Nodes.Pools[i]
		for _, pool := range e.Snapshot.Pools {
			if pool.Name == q.Pool {
				out.Machines = &Machines{pool.MachineType, pool.Price, pool.Spot, pool.Interruptions, pool.Overhead.MilliCPU, pool.StandingUsage}
			}
		}
		objects = append(objects, api.PoolRef(q.Pool))
		for _, n := range e.Snapshot.Nodes {
			if n.Pool == q.Pool {
				objects = append(objects, api.NodeRef(n.Name))
			}
		}
	}
	about := func(object api.ObjectRef) bool { return len(objects) == 0 || slices.Contains(objects, object) }
	for i, a := range e.Actions {
		// Nodes that can't be had are why pods wait.
		failed := i < len(c.Outcomes) && c.Outcomes[i].Error != ""
		if about(a.Object()) || failed && slices.Contains(pools, a.Object()) {
			out.Actions = append(out.Actions, Done{a.Object(), a.String(), outcome(c.Outcomes, i)})
		}
	}
	for _, f := range c.Findings {
		// What one pool waits for is also why another one still has its nodes, and why
		// the pods are where they are.
		if about(f.Object) || f.Object.Key == (api.Key{}) || q.Pool != "" && f.Object.Kind == api.KindPool || slices.Contains(pools, f.Object) {
			out.Findings = append(out.Findings, f)
		}
	}
	return out, nil
}

// why a candidate lost against the chosen plan.
func why(k, chosen api.Candidate) string {
	switch {
	case k.Infeasible != "":
		return "not feasible: " + k.Infeasible
	case k.Utility.Total <= chosen.Utility.Total:
		s := fmt.Sprintf("utility %.4g, %.3g less", k.Utility.Total, chosen.Utility.Total-k.Utility.Total)
		if d := k.HourlyCost - chosen.HourlyCost; d != 0 {
			s += fmt.Sprintf("; %+.3g USD/h", d)
		}
		return s
	case k.Note != "":
		return k.Note
	}
	return fmt.Sprintf("utility %.4g, but no more than the margin for moving", k.Utility.Total)
}

func outcome(all []api.Outcome, i int) string {
	switch {
	case i >= len(all):
		return "not known"
	case all[i].Error != "":
		return "failed: " + all[i].Error
	case all[i].Skipped != "":
		return "skipped: " + all[i].Skipped
	}
	return "done"
}

// observed is what a snapshot tells of a workload.
func observed(s api.Snapshot, key api.Key) *api.WorkloadStatus {
	for _, w := range s.Workloads {
		if w.Key != key {
			continue
		}
		demand := -1.0
		if v, _, ok := w.Demand.Last(); ok {
			demand = v
		} else if w.Usage != nil {
			demand = w.Usage.MilliCPU
		}
		return &api.WorkloadStatus{
			Key: w.Key, Generation: w.Generation, Replicas: w.Replicas, ReadyReplicas: w.ReadyReplicas,
			Demand: demand, DemandStale: w.DemandStale, Hold: w.Hold, HoldReason: w.HoldReason,
		}
	}
	return nil
}

// podsOf counts the pods of a workload by pool, in order of name.
func podsOf(s api.Snapshot, key api.Key) []PodsOn {
	type place struct {
		pool     string
		cordoned bool
	}
	nodes := make(map[string]place, len(s.Nodes))
	for _, n := range s.Nodes {
		nodes[n.Name] = place{n.Pool, n.Cordoned}
	}
	by := map[string]PodsOn{}
	for _, p := range s.Pods {
		if p.Workload != key {
			continue
		}
		at := nodes[p.Node]
		on := by[at.pool]
		on.Pool = at.pool
		on.Pods++
		if p.Ready {
			on.Ready++
		}
		if at.cordoned {
			on.Leaving++
		}
		by[at.pool] = on
	}
	return slices.SortedFunc(maps.Values(by), func(a, b PodsOn) int {
		if (a.Pool == "") != (b.Pool == "") {
			return strings.Compare(b.Pool, a.Pool)
		}
		return strings.Compare(a.Pool, b.Pool)
	})
}

// known lists a few names.
func known[T any](all []T, name func(T) string) string {
	if len(all) == 0 {
		return "; it planned none"
	}
	var names []string
	for i, x := range all {
		if i == 5 {
			names = append(names, "…")
			break
		}
		names = append(names, name(x))
	}
	return "; it knows " + strings.Join(names, ", ")
}
