package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Change is an entry of the timeline: something that a cycle decided, did or found that
// the cycle before it had not.
type Change struct {
	Cycle uint64    `json:"cycle"`
	Time  time.Time `json:"time"`
	Kind  string    `json:"kind"` // policy, paused, replicas, pool, action, finding, held
	// Object is what it is about, such as "workload web/shop".
	Object api.ObjectRef `json:"object"`
	// From and To are sizes, of replicas and pools.
	From *int32 `json:"from,omitempty"`
	To   *int32 `json:"to,omitempty"`
	// Text is why, in a sentence.
	Text    string `json:"text"`
	Warning bool   `json:"warning,omitempty"`
}

// Kinds of changes. ActionFailed is told when an action begins to fail, when it fails
// otherwise, and when it succeeds again.
const (
	PolicyChanged   = "policy"
	PausedChanged   = "paused"
	ReplicasChanged = "replicas"
	PoolChanged     = "pool"
	ActionFailed    = "action"
	FindingAppeared = "finding"
	CycleHeld       = "held"
	// Surged is a scaling beyond the plan, in the midst of a move, and Moved what was done to
	// nodes and pods for one. An Account has them, whose records have the actions.
	Surged = "surge"
	Moved  = "move"
)

// Comparer tells what each cycle has that the one before it had not. The zero value has
// seen none.
type Comparer struct{ before remembered }

// Next returns the changes of a cycle, given each in order of time.
func (m *Comparer) Next(c api.Cycle) []Change {
	out := changes(m.before, c)
	m.before = remember(c, m.before)
	return out
}

// remembered is what the next cycle is compared with.
type remembered struct {
	policy   string
	paused   bool
	held     string
	replicas map[api.Key]int32
	pools    map[string]int32
	findings map[finding]bool
	failures map[attempt]failure
}

// attempt is what is tried anew each cycle while it fails.
type attempt struct {
	kind   string
	object api.ObjectRef
}

type failure struct {
	action, err string
	since       time.Time
}

// Failing is an action that fails each time that it is tried.
type Failing struct {
	Object api.ObjectRef `json:"object"`
	Action string        `json:"action"`
	Error  string        `json:"error"`
	// Since is the first failure that was seen.
	Since time.Time `json:"since"`
}

// failing are those of the last cycle, the longest first.
func (m *Comparer) failing() []Failing {
	var out []Failing
	for k, f := range m.before.failures {
		out = append(out, Failing{k.object, f.action, f.err, f.since})
	}
	slices.SortFunc(out, func(a, b Failing) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Object.String(), b.Object.String()), strings.Compare(a.Action, b.Action))
	})
	return out
}

// failing are the attempts that failed last, c included. One that was left for later has
// not succeeded.
func failing(c api.Cycle, before map[attempt]failure) map[attempt]failure {
	out := map[attempt]failure{}
	for _, o := range c.Outcomes {
		k := attempt{o.Kind, o.Object}
		was, known := before[k]
		switch {
		case o.Error != "" && known:
			out[k] = failure{o.Action, o.Error, was.since}
		case o.Error != "":
			out[k] = failure{o.Action, o.Error, c.Time}
		case o.Skipped != "" && known:
			out[k] = was
		}
	}
	return out
}

// finding without its text, whose figures move with every sample.
type finding struct {
	reason string
	object api.ObjectRef
}

func remember(c api.Cycle, before remembered) remembered {
	m := remembered{policy: c.Policy.Name, paused: c.Paused, held: c.Error, findings: map[finding]bool{}, failures: failing(c, before.failures)}
	for _, f := range c.Findings {
		m.findings[finding{f.Reason, f.Object}] = true
	}
	if c.Error != "" {
		// It decided nothing: what was in force still is.
		m.policy, m.paused, m.replicas, m.pools = before.policy, before.paused, before.replicas, before.pools
		return m
	}
	m.replicas, m.pools = make(map[api.Key]int32, len(c.Plan.Workloads)), map[string]int32{}
	for _, w := range c.Plan.Workloads {
		m.replicas[w.Key] = w.Replicas
	}
	for _, p := range c.Plan.Nodes.Pools {
		m.pools[p.Pool] = p.Nodes
	}
	return m
}

// changes are what a cycle has that the one before it had not.
func changes(before remembered, c api.Cycle) []Change {
	var out []Change
	tell := func(k Change) {
		k.Cycle, k.Time = c.ID, c.Time
		out = append(out, k)
	}
	if c.Error != "" && before.held == "" {
		tell(Change{Kind: CycleHeld, Object: api.CycleRef, Text: "nothing was changed: " + c.Error, Warning: true})
	}
	if c.Error == "" {
		if before.policy != "" && c.Policy.Name != before.policy {
			tell(Change{Kind: PolicyChanged, Object: api.NamedPolicyRef(c.Policy.Name), Text: c.Policy.Reason})
		}
		if c.Paused != before.paused {
			text := "writing goes on"
			if c.Paused {
				text = "paused: nothing is written"
			}
			tell(Change{Kind: PausedChanged, Object: api.PolicyRef, Text: text, Warning: c.Paused})
		}
		for _, w := range c.Plan.Workloads {
			if was, known := before.replicas[w.Key]; known && was != w.Replicas {
				tell(Change{
					Kind: ReplicasChanged, Object: api.WorkloadRef(w.Key), From: &was, To: new(w.Replicas),
					Text: replicasWhy(w),
				})
			}
		}
		for _, p := range c.Plan.Nodes.Pools {
			if was, known := before.pools[p.Pool]; known && was != p.Nodes {
				tell(Change{Kind: PoolChanged, Object: api.PoolRef(p.Pool), From: &was, To: new(p.Nodes), Text: nodesWhy(p)})
			}
		}
	}
	for _, o := range c.Outcomes {
		was, failed := before.failures[attempt{o.Kind, o.Object}]
		switch {
		case o.Error != "" && o.Error == was.err: // told when it began
		case o.Error == "" && o.Skipped == "" && failed:
			tell(Change{Kind: ActionFailed, Object: o.Object, Text: fmt.Sprintf("%s: done; it had failed since %s", o.Action, was.since.UTC().Format(time.RFC3339))})
		case o.Error != "":
			tell(Change{Kind: ActionFailed, Object: o.Object, Text: o.Action + ": failed: " + o.Error, Warning: true})
		}
	}
	for _, f := range c.Findings {
		if f.Severity == api.Warning && !before.findings[finding{f.Reason, f.Object}] {
			tell(Change{Kind: FindingAppeared, Object: f.Object, Text: f.Reason + ": " + f.Message, Warning: true})
		}
	}
	return out
}

// replicasWhy is what bound a workload's replicas and why, in one sentence.
func replicasWhy(w api.WorkloadPlan) string {
	if strings.HasPrefix(w.Reason, string(w.Binding)) {
		return w.Reason
	}
	return fmt.Sprintf("%s: %s", w.Binding, w.Reason)
}

// nodesWhy is why a pool has its planned size. The planner's reason compares that with
// the nodes there are, which a change from plan to plan does not tell.
func nodesWhy(p api.PoolPlan) string {
	n := "nodes are"
	if p.Current == 1 {
		n = "node is"
	}
	return fmt.Sprintf("%d %s there; %s", p.Current, n, p.Reason)
}

// done are the actions of a record that no planned size tells of: those of a plan carried
// out later than in the cycle that planned it, or beyond it. Before are the sizes planned in
// the cycle before.
func done(e Entry, before remembered) []Change {
	var out []Change
	steps := []struct {
		kind, one, many string
		n               int
		object          api.ObjectRef
		why             string
	}{
		{kind: "CordonNode", one: "cordoned", many: "%d nodes cordoned"},
		{kind: "UncordonNode", one: "its cordon was taken back", many: "cordons of %d nodes were taken back"},
		{kind: "EvictPod", one: "evicted", many: "%d pods evicted"},
		{kind: "RemoveNode", one: "removed", many: "%d nodes removed"},
	}
	for i, a := range e.Actions {
		if outcome(e.Cycle.Outcomes, i) != "done" {
			continue
		}
		switch a := a.(type) {
		case api.ScaleWorkload:
			was, known := before.replicas[a.Workload]
			for _, w := range e.Cycle.Plan.Workloads {
				if w.Key == a.Workload && (a.To > w.Replicas || known && a.From > was) {
					out = append(out, Change{Kind: Surged, Object: a.Object(), From: new(a.From), To: new(a.To), Text: a.Reason})
				}
			}
			continue
		case api.ResizePool:
			for _, p := range e.Cycle.Plan.Nodes.Pools {
				if was, known := before.pools[p.Pool]; p.Pool == a.Pool && known && was == p.Nodes {
					out = append(out, Change{Kind: Moved, Object: a.Object(), Text: fmt.Sprintf("resized %d → %d per zone: %s", a.From, a.To, a.Reason)})
				}
			}
			continue
		}
		for k := range steps {
			if s := &steps[k]; s.kind == a.Kind() {
				if s.n++; s.n == 1 {
					_, s.why, _ = strings.Cut(a.String(), ": ")
					s.object = a.Object()
				}
			}
		}
	}
	for _, s := range steps {
		switch {
		case s.n == 1:
			out = append(out, Change{Kind: Moved, Object: s.object, Text: s.one + ": " + s.why})
		case s.n > 1:
			out = append(out, Change{Kind: Moved, Object: api.CycleRef, Text: fmt.Sprintf(s.many, s.n) + ": " + s.why})
		}
	}
	for i := range out {
		out[i].Cycle, out[i].Time = e.Cycle.ID, e.Cycle.Time
	}
	return out
}
