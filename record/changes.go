package record

import (
	"fmt"
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

// Kinds of changes.
const (
	PolicyChanged   = "policy"
	PausedChanged   = "paused"
	ReplicasChanged = "replicas"
	PoolChanged     = "pool"
	ActionFailed    = "action"
	FindingAppeared = "finding"
	CycleHeld       = "held"
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
}

// finding without its text, whose figures move with every sample.
type finding struct {
	reason string
	object api.ObjectRef
}

func remember(c api.Cycle, before remembered) remembered {
	m := remembered{policy: c.Policy.Name, paused: c.Paused, held: c.Error, findings: map[finding]bool{}}
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
					Text: fmt.Sprintf("%s: %s", w.Binding, w.Reason),
				})
			}
		}
		for _, p := range c.Plan.Nodes.Pools {
			if was, known := before.pools[p.Pool]; known && was != p.Nodes {
				tell(Change{Kind: PoolChanged, Object: api.PoolRef(p.Pool), From: &was, To: new(p.Nodes), Text: p.Reason})
			}
		}
	}
	for _, o := range c.Outcomes {
		if o.Error != "" {
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
