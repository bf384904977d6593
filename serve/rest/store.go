// Package rest serves what cycles decided, as JSON: to the operator's page and to
// scripts. It keeps a bounded past in memory, and reads older cycles from the records.
//
// Who asks sees what Kubernetes lets them see: see [Viewer].
package rest

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/record/knowledge"
)

// Bounds of what is kept in memory.
const (
	// mostPoints of all workloads together, and of one.
	mostPoints           = 600_000
	fewestPoints, points = 96, 480
	// mostPlans of workloads are kept in recent cycles, and at most so many cycles.
	mostPlans, mostCycles = 40_000, 240
	mostHeads             = 2_000
	mostChanges           = 4_000
)

// Config of a Store.
type Config struct {
	// Program is the version that decides.
	Program string
	// Period between cycles: a longer gap is time of which nothing is known.
	Period time.Duration
	// Speed is how many times faster than real time the world runs that is shown; 0 is 1.
	Speed float64
	// Recorded is true of a page over records: its newest cycle is as old as it is.
	Recorded bool
	// Records opens the log of older cycles; nil where none are kept.
	Records func() (*record.Log, error)
	// Otherwise decides a recorded cycle again with a change; nil where nothing is recorded.
	// Its answer is shown as JSON; a RefusedError is of a change that can't be made.
	Otherwise func(ctx context.Context, at time.Time, o Otherwise) (any, error)
	// Knowledge searches the knowledge base; nil where there is none.
	Knowledge func(knowledge.Query) ([]knowledge.Entry, error)
	// MoneyFile keeps what was spent for the next process; only in memory if empty.
	MoneyFile string
	// Failed is told when the MoneyFile can't be read or written; nil for nobody.
	Failed func(error)
}

// Store is what is known of cycles. It is for several goroutines; Add for one.
type Store struct {
	config Config

	mu        sync.RWMutex
	last      api.Record // the newest cycle that decided something
	newest    api.Cycle  // the newest of all
	heads     []Head
	cycles    []api.Record // recent ones, without snapshots and curves
	changes   []record.Change
	workloads map[api.Key]*past
	total     *history
	ledger    *ledger
	hourly    float64 // USD/h now
	hpaHourly float64
	comparer  record.Comparer
	listeners map[chan struct{}]bool

	reading chan struct{} // has room for the one who reads records
}

// Otherwise is what is to be changed in a cycle that is decided again; see package replay.
type Otherwise struct {
	Workload      string   // whose bounds, namespace/name
	With, Without []string // FIELD=VALUE, and limits
	Policy        string
}

// past of one workload.
type past struct {
	history *history
	hpa     stockHPA
	hpaNow  int32
	unit    float64 // what one replica costs, USD/h, on nodes that are full
}

// NewStore returns an empty one.
func NewStore(c Config) *Store {
	if c.Failed == nil {
		c.Failed = func(error) {}
	}
	s := &Store{config: c, workloads: map[api.Key]*past{}, listeners: map[chan struct{}]bool{}, reading: make(chan struct{}, 1)}
	s.LoadMoney()
	return s
}

// LoadMoney reads what was spent anew: who begins to lead may have another's file.
func (s *Store) LoadMoney() {
	l, err := newLedger(s.config.MoneyFile)
	if err != nil {
		s.config.Failed(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = l
}

// Head is a cycle in a line.
type Head struct {
	Cycle    uint64    `json:"cycle"`
	Time     time.Time `json:"time"`
	Policy   string    `json:"policy"`
	Paused   bool      `json:"paused,omitempty"`
	Error    string    `json:"error,omitempty"`
	Replicas int64     `json:"replicas"` // planned, of all workloads
	Nodes    int32     `json:"nodes"`    // planned
	Hourly   float64   `json:"hourly"`   // USD/h of the nodes there are
	Actions  int       `json:"actions"`
	Failed   int       `json:"failed"` // of these actions
	Warnings int       `json:"warnings"`
}

func headOf(c api.Cycle) Head {
	h := Head{Cycle: c.ID, Time: c.Time, Policy: c.Policy.Name, Paused: c.Paused, Error: c.Error, Hourly: record.HourlyCost(c), Actions: len(c.Outcomes)}
	for _, w := range c.Plan.Workloads {
		h.Replicas += int64(w.Replicas)
	}
	for _, p := range c.Plan.Nodes.Pools {
		h.Nodes += p.Nodes
	}
	for _, o := range c.Outcomes {
		if o.Error != "" {
			h.Failed++
		}
	}
	for _, f := range c.Findings {
		if f.Severity == api.Warning {
			h.Warnings++
		}
	}
	return h
}

// Add keeps a cycle and wakes who listens. The record is shared: nobody may change it.
func (s *Store) Add(r api.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Cycle.Workloads == nil {
		// A record leaves out what its snapshot tells.
		r.Cycle.Pools, r.Cycle.Workloads = api.Observed(r.Snapshot, r.Cycle.Policy)
	}
	c := r.Cycle
	s.newest = c
	head := headOf(c)
	s.heads = keep(s.heads, head, mostHeads)
	for _, k := range s.comparer.Next(c) {
		s.changes = keep(s.changes, k, mostChanges)
	}
	if c.Error == "" {
		s.follow(r, head)
		s.last = r
		brief := r
		brief.Snapshot, brief.Memory = api.Snapshot{}, nil
		brief.Cycle.Plan, brief.Brief = record.Brief(c.Plan), true
		s.cycles = keep(s.cycles, brief, min(mostCycles, max(1, mostPlans/max(1, len(c.Plan.Workloads)))))
	}
	for wake := range s.listeners {
		select {
		case wake <- struct{}{}:
		default: // it has not come round to the cycle before
		}
	}
}

// keep appends x and drops the oldest beyond a limit.
func keep[T any](all []T, x T, most int) []T {
	if n := len(all) + 1 - most; n > 0 {
		clear(all[:n]) // what they hold may go
		all = all[n:]
	}
	return append(all, x)
}

// follow adds a cycle to histories and to what was spent.
func (s *Store) follow(r api.Record, head Head) {
	c := r.Cycle
	seen := make(map[api.Key]api.Workload, len(r.Snapshot.Workloads))
	for _, w := range r.Snapshot.Workloads {
		seen[w.Key] = w
	}
	prices := poolPrices(r.Snapshot.Pools)
	size := min(points, max(fewestPoints, mostPoints/max(1, len(c.Plan.Workloads))))
	var sum point
	var ours, theirs float64 // what replicas cost, there and with the HPA
	for _, plan := range c.Plan.Workloads {
		w, ok := seen[plan.Key]
		if !ok {
			continue
		}
		p := s.workloads[plan.Key]
		if p == nil {
			p = &past{history: newHistory(size), hpa: stockHPA{stabilization: s.stabilization()}}
			s.workloads[plan.Key] = p
		}
		p.hpaNow = p.hpa.step(c.Time, needOf(plan, w), w)
		p.unit = unitPrice(plan, w, prices)
		ours += p.unit * float64(w.Replicas)
		theirs += p.unit * float64(p.hpaNow)
		v := [columns]float32{
			demandColumn: known32(plan.Demand), peakColumn: known32(plan.PeakDemand), replicasColumn: float32(w.Replicas),
			readyColumn: float32(w.ReadyReplicas), plannedColumn: float32(plan.Replicas), floorColumn: float32(plan.Floor), hpaColumn: float32(p.hpaNow),
		}
		p.history.add(point{c.Time.Unix(), v})
		for i, x := range v {
			if x == x {
				sum.values[i] += x
			}
		}
	}
	for key := range s.workloads {
		if _, ok := seen[key]; !ok {
			delete(s.workloads, key)
		}
	}
	if s.total == nil {
		s.total = newHistory(points)
	}
	sum.at = c.Time.Unix()
	s.total.add(sum)

	// What was, until now, at the prices of then.
	if d := c.Time.Sub(s.last.Cycle.Time); !s.last.Cycle.Time.IsZero() && d > 0 && d <= 5*s.config.Period {
		s.ledger.spend(c.Time, d, s.hourly, s.hpaHourly)
	}
	s.hourly, s.hpaHourly = head.Hourly, head.Hourly
	if ours > 0 {
		s.hpaHourly = head.Hourly * theirs / ours
	}
	if err := s.ledger.save(c.Time); err != nil {
		s.config.Failed(err)
	}
}

// stabilization of the stock HPA, in the world's time.
func (s *Store) stabilization() time.Duration {
	if s.config.Speed > 0 {
		return time.Duration(float64(hpaStabilization) / s.config.Speed)
	}
	return hpaStabilization
}

func known32(v float64) float32 {
	if v < 0 {
		return float32(math.NaN())
	}
	return float32(v)
}

// needOf is how many replicas demand would use in full on the nodes they run on; -1 if
// not known.
func needOf(plan api.WorkloadPlan, w api.Workload) float64 {
	need := -1.0
	if plan.Demand >= 0 && plan.Request > 0 && !w.DemandStale && !w.IgnoreCPU {
		speed := w.SpeedNow
		if speed <= 0 {
			speed = 1
		}
		need = plan.Demand / speed / float64(plan.Request)
	}
	for _, t := range plan.Triggers {
		if t.Missing == "" {
			// Triggers have targets of their own.
			need = max(need, float64(t.Replicas)*hpaTarget)
		}
	}
	return need
}

func poolPrices(pools []api.Pool) map[string]api.Pool {
	out := make(map[string]api.Pool, len(pools))
	for _, p := range pools {
		out[p.Name] = p
	}
	return out
}

// unitPrice is what one replica takes of a node of its pool, in money: the larger of its
// shares of CPU and memory. Without a pool it is its CPU, so that workloads compare.
func unitPrice(plan api.WorkloadPlan, w api.Workload, pools map[string]api.Pool) float64 {
	if w.Shape == nil {
		return 0
	}
	for _, share := range plan.Pools {
		p, ok := pools[share.Pool]
		if !ok || p.Allocatable.MilliCPU <= 0 || p.Allocatable.Memory <= 0 {
			continue
		}
		return p.Price * max(
			float64(w.Shape.Requests.MilliCPU)/float64(p.Allocatable.MilliCPU),
			float64(w.Shape.Requests.Memory)/float64(p.Allocatable.Memory))
	}
	return float64(w.Shape.Requests.MilliCPU) / 1e6
}

// Fill adds recorded cycles, for a page over records.
func (s *Store) Fill(l *record.Log) error {
	for e, err := range l.Records(time.Time{}) {
		if err != nil {
			return err
		}
		s.Add(e.Record)
	}
	return nil
}

// Complete gives the newest cycle its whole plan, where it was read from a record that
// has only the brief one.
func (s *Store) Complete(p api.Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Time.Equal(s.last.Cycle.Plan.Time) {
		s.last.Cycle.Plan, s.last.Brief = p, false
	}
}

// Recall puts what was recorded from a time on before what is there already, so that a
// page after a restart has a past. It takes as long as reading takes; cycles may be added
// meanwhile.
func (s *Store) Recall(l *record.Log, from time.Time) error {
	past := NewStore(Config{Period: s.config.Period, Speed: s.config.Speed})
	for e, err := range l.Records(from) {
		if err != nil {
			return err
		}
		if !e.Cycle.Time.Before(from) {
			past.Add(e.Record)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := func(at time.Time) bool { return len(s.heads) == 0 || at.Before(s.heads[0].Time) }
	var heads []Head
	for _, h := range past.heads {
		if before(h.Time) {
			heads = append(heads, h)
		}
	}
	var changes []record.Change
	for _, k := range past.changes {
		if before(k.Time) {
			changes = append(changes, k)
		}
	}
	for key, q := range past.workloads {
		if p := s.workloads[key]; p != nil {
			p.history = joined(q.history, p.history)
		} else {
			s.workloads[key] = q // the first cycle is still to come
		}
	}
	if s.total == nil {
		s.total = past.total
	} else if past.total != nil {
		s.total = joined(past.total, s.total)
	}
	s.heads, s.changes = newest(append(heads, s.heads...), mostHeads), newest(append(changes, s.changes...), mostChanges)
	return nil
}

// joined is one history after the other.
func joined(first, second *history) *history {
	out := newHistory(second.size)
	last := int64(0)
	for _, h := range []*history{first, second} {
		for _, p := range h.points() {
			if p.at > last {
				out.add(p)
				last = p.at
			}
		}
	}
	return out
}

// newest are the last so many.
func newest[T any](all []T, most int) []T { return all[max(0, len(all)-most):] }

// listen returns a channel that has something after each cycle; stop ends it.
func (s *Store) listen() (wake <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[c] = true
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, c)
	}
}
