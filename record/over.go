package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
)

// mostListed changes are in an Account; the rest is counted.
const mostListed = 1000

// Account is what changed between two times, and why, from the records alone.
type Account struct {
	From time.Time `json:"from"` // of the first cycle
	To   time.Time `json:"to"`   // of the last one
	// Cycles in between, and how many of them decided nothing.
	Cycles int `json:"cycles"`
	Held   int `json:"held"`
	// Policies in force, in order, without repetition.
	Policies []string `json:"policies"`
	// Workloads whose planned replicas changed and Pools whose planned nodes did, those
	// that changed most first.
	Workloads []Course `json:"workloads"`
	Pools     []Course `json:"pools"`
	// Unchanged is the workload or the pool that was asked for, if its size stayed.
	Unchanged []Course `json:"unchanged,omitempty"`
	// HourlyFrom and HourlyTo are what the nodes of managed pools cost at both ends, USD/h,
	// and Spent what they did in between, USD.
	HourlyFrom float64 `json:"hourlyFrom"`
	HourlyTo   float64 `json:"hourlyTo"`
	Spent      float64 `json:"spent"`
	// Changes in order of time, at most 1,000; Left are those that are not listed.
	Changes []Change `json:"changes"`
	Left    int      `json:"left,omitempty"`
	// Failing are actions that failed last, and Open the warnings of the last cycle, with
	// what was so all the time.
	Failing []Failing     `json:"failing,omitempty"`
	Open    []api.Finding `json:"open,omitempty"`
	// Gone are warnings of the first cycle that the last one doesn't have.
	Gone []api.Finding `json:"gone,omitempty"`
	// Lost is what of the records of that time is missing: what was decided then is not told.
	Lost []string `json:"lost,omitempty"`
}

// Course of a planned size from one time to another.
type Course struct {
	Object api.ObjectRef `json:"object"`
	// From is the size in force when the time begins: that of the cycle before, if there
	// is one.
	From  int32 `json:"from"`
	To    int32 `json:"to"`
	Least int32 `json:"least"`
	Most  int32 `json:"most"`
	Steps int   `json:"steps"` // how often it changed
	// DemandFrom and DemandTo are a workload's CPU usage at both ends, reference
	// millicores; 0 if not known.
	DemandFrom float64 `json:"demandFrom,omitempty"`
	DemandTo   float64 `json:"demandTo,omitempty"`
	// Why is the reason of the last size, of what was asked for by name.
	Why string `json:"why,omitempty"`
}

// Over accounts for the cycles from one time to another, about a workload or a pool if one
// is named. It holds one cycle at a time. The error is of a time without a cycle, and of
// something that no cycle knew.
func (l *Log) Over(q Question, from, to time.Time) (Account, error) {
	out := Account{Policies: []string{}, Workloads: []Course{}, Pools: []Course{}, Changes: []Change{}}
	var compare Comparer
	courses := map[api.ObjectRef]*Course{}
	asked := q.Workload != "" || q.Pool != ""
	var before api.Cycle // the last one before that decided something
	var first []api.Finding
	var last api.Cycle
	known := q.Workload == "" && q.Pool == ""
	about := func(o api.ObjectRef) bool {
		switch {
		case q.Workload == "" && q.Pool == "", o.Kind == api.KindPolicy:
			return true
		case o.Key == (api.Key{}): // Prometheus, the policy file, the cycle: they are about all
			return true
		case q.Workload != "" && o.Kind == api.KindWorkload:
			return o.Key.String() == q.Workload
		}
		return q.Pool != "" && o == api.PoolRef(q.Pool)
	}
	follow := func(o api.ObjectRef, size int32, demand float64, why string) {
		if !about(o) {
			return
		}
		known = true
		demand = max(demand, 0)
		c := courses[o]
		if c == nil {
			c = &Course{Object: o, From: size, To: size, Least: size, Most: size, DemandFrom: demand}
			courses[o] = c
		}
		if c.To != size {
			c.Steps++
		}
		c.To, c.Least, c.Most, c.DemandTo = size, min(c.Least, size), max(c.Most, size), demand
		if asked {
			c.Why = why
		}
	}
	plan := func(c api.Cycle) {
		for _, w := range c.Plan.Workloads {
			follow(api.WorkloadRef(w.Key), w.Replicas, w.Demand, replicasWhy(w))
		}
		for _, p := range c.Plan.Nodes.Pools {
			follow(api.PoolRef(p.Pool), p.Nodes, 0, nodesWhy(p))
		}
	}
	for e, err := range l.Records(from) {
		if err != nil {
			return out, err
		}
		c := e.Cycle
		if c.Time.After(to) {
			break
		}
		if c.Pools == nil { // a record leaves out what its snapshot tells
			c.Pools, _ = api.Observed(e.Snapshot, c.Policy)
		}
		planned := compare.before
		changes := compare.Next(c)
		if c.Time.Before(from) {
			if c.Error == "" {
				before = c // it is what the first one is compared with
			}
			out.Lost = e.Lost // between it and the first one
			continue
		}
		out.Lost = append(out.Lost, e.Lost...)
		hourly := HourlyCost(c)
		if out.Cycles++; out.Cycles == 1 {
			out.From, first = c.Time, c.Findings
			if c.Error != "" { // it saw no nodes
				hourly = HourlyCost(before)
			}
			out.HourlyFrom, out.HourlyTo = hourly, hourly
			plan(before)
		} else {
			out.Spent += out.HourlyTo * c.Time.Sub(out.To).Hours()
		}
		out.To = c.Time
		if c.Error != "" {
			out.Held++
		} else {
			out.HourlyTo, last = hourly, c
			if n := len(out.Policies); n == 0 || out.Policies[n-1] != c.Policy.Name {
				out.Policies = append(out.Policies, c.Policy.Name)
			}
			plan(c)
		}
		for _, k := range append(changes, done(e, planned)...) {
			switch {
			case !about(k.Object):
			case len(out.Changes) == mostListed:
				out.Left++
			default:
				out.Changes = append(out.Changes, k)
			}
		}
	}
	switch {
	case out.Cycles == 0:
		return out, fmt.Errorf("no cycle was recorded from %s to %s", from.Format(time.RFC3339), to.Format(time.RFC3339))
	case !known:
		return out, fmt.Errorf("no cycle from %s to %s planned %s", from.Format(time.RFC3339), to.Format(time.RFC3339), cmp.Or(q.Workload, "pool "+q.Pool))
	}
	for _, c := range courses {
		switch {
		case c.Steps == 0 && (asked || c.Object.Kind == api.KindWorkload && alone(courses)):
			out.Unchanged = append(out.Unchanged, *c)
		case c.Steps == 0:
		case c.Object.Kind == api.KindPool:
			out.Pools = append(out.Pools, *c)
		default:
			out.Workloads = append(out.Workloads, *c)
		}
	}
	for _, all := range [][]Course{out.Workloads, out.Pools, out.Unchanged} {
		slices.SortFunc(all, func(a, b Course) int {
			return cmp.Or(cmp.Compare(b.Most-b.Least, a.Most-a.Least), strings.Compare(a.Object.String(), b.Object.String()))
		})
	}
	out.Failing = slices.DeleteFunc(compare.failing(), func(f Failing) bool { return !about(f.Object) })
	for _, f := range last.Findings {
		if f.Severity == api.Warning && about(f.Object) {
			out.Open = append(out.Open, f)
		}
	}
	for _, f := range first {
		still := slices.ContainsFunc(last.Findings, func(g api.Finding) bool { return g.Reason == f.Reason && g.Object == f.Object })
		if f.Severity == api.Warning && !still && about(f.Object) {
			out.Gone = append(out.Gone, f)
		}
	}
	return out, nil
}

// alone tells whether there is one workload, which is then what was asked about.
func alone(courses map[api.ObjectRef]*Course) bool {
	n := 0
	for o := range courses {
		if o.Kind == api.KindWorkload {
			n++
		}
	}
	return n == 1
}

// HourlyCost is what the nodes of the pools that mash2 may resize cost, USD/h.
func HourlyCost(c api.Cycle) float64 {
	sum := 0.0
	for _, p := range c.Pools {
		if p.Managed {
			sum += p.HourlyCost
		}
	}
	return sum
}
