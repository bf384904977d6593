package rest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record"
)

// errNotThere is of something that isn't there, or that the viewer may not see: which of
// these is not told.
var errNotThere = errors.New("there is no such thing, or you may not see it")

// entry is the cycle in force at a time, the newest for the zero time: from memory, or
// from the records where it is older.
func (s *Store) entry(at time.Time) (record.Entry, error) {
	s.mu.RLock()
	header := record.Segment{Header: record.Header{Program: s.config.Program}}
	if s.last.Cycle.ID == 0 {
		s.mu.RUnlock()
		return record.Entry{}, errNoCycle
	}
	if at.IsZero() || !at.Before(s.last.Cycle.Time) {
		defer s.mu.RUnlock()
		return record.Entry{Record: s.last, Segment: header}, nil
	}
	for _, r := range slices.Backward(s.cycles) {
		if !r.Cycle.Time.After(at) {
			defer s.mu.RUnlock()
			return record.Entry{Record: r, Segment: header}, nil
		}
	}
	s.mu.RUnlock()
	return s.recorded(func(l *record.Log) (record.Entry, error) { return l.At(at) })
}

// recorded reads the log.
func (s *Store) recorded(read func(*record.Log) (record.Entry, error)) (record.Entry, error) {
	if s.config.Records == nil {
		return record.Entry{}, fmt.Errorf("%w: it is older than what is kept in memory, and there are no records", errNotThere)
	}
	l, err := s.config.Records()
	if err != nil {
		return record.Entry{}, fmt.Errorf("%w: %w", errNotThere, err)
	}
	done, err := s.alone(context.Background())
	if err != nil {
		return record.Entry{}, err
	}
	defer done()
	return read(l)
}

// readingWait is for how long somebody waits to read records: with the time that deciding
// again may take it is less than a connection stays open.
const readingWait = 10 * time.Second

var errReading = errors.New("records are being read for somebody else; try again in a few seconds")

// alone waits until nobody reads records, which takes seconds of one core: one at a time, whoever asks.
func (s *Store) alone(ctx context.Context) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, readingWait)
	defer cancel()
	select {
	case s.reading <- struct{}{}:
		return func() { <-s.reading }, nil
	case <-ctx.Done():
		return nil, errReading
	}
}

// cycle is one by its number. Numbers begin anew with each process: the newest counts.
func (s *Store) cycle(id uint64) (record.Entry, error) {
	var at time.Time
	s.mu.RLock()
	for _, h := range slices.Backward(s.heads) {
		if h.Cycle == id {
			at = h.Time
			break
		}
	}
	s.mu.RUnlock()
	if at.IsZero() {
		return record.Entry{}, errNotThere
	}
	e, err := s.entry(at)
	if err == nil && e.Cycle.ID != id {
		err = errNotThere
	}
	return e, err
}

// explain answers a question as far as the viewer may know the answer: of one namespace
// no plan for all workloads, no pool, and no other's action.
func (s *Store) explain(v Viewer, q record.Question) (record.Explanation, error) {
	namespace, _, named := strings.Cut(q.Workload, "/")
	switch {
	case !v.All && !named:
		return record.Explanation{}, fmt.Errorf("%w: name a workload of a namespace that you may see", errNotThere)
	case !v.All && (!v.sees(namespace) || q.Pool != ""):
		return record.Explanation{}, errNotThere
	}
	e, err := s.entry(q.At)
	if err != nil {
		return record.Explanation{}, err
	}
	x, err := e.Explain(q)
	if err != nil {
		if !v.All {
			return record.Explanation{}, errNotThere
		}
		return record.Explanation{}, fmt.Errorf("%w: %w", errNotThere, err)
	}
	if q.Workload != "" && x.Observed == nil {
		for _, w := range e.Cycle.Workloads {
			if w.Key.String() == q.Workload {
				x.Observed = &w
			}
		}
	}
	return v.shown(x), nil
}

// shown is an explanation without what the viewer may not see.
func (v Viewer) shown(x record.Explanation) record.Explanation {
	findings := v.findings(x.Findings, nil)
	x.Findings = findings
	x.Actions = slices.DeleteFunc(slices.Clone(x.Actions), func(d record.Done) bool { return !v.about(d.Object) })
	if v.All {
		x.Policy.StrategyActions = v.actions(x.Policy.StrategyActions)
		x.Nodes = v.nodePlan(x.Nodes)
		if x.Pool != nil {
			x.Pool = new(v.poolPlan(*x.Pool))
		}
		return x
	}
	x.Policy = v.ownPolicy(x.Policy)
	x.Chosen, x.Candidates, x.Nodes, x.Pool, x.Workloads = api.Candidate{}, []record.LostCandidate{}, api.NodePlan{}, nil, nil
	x.Now = nil // of all
	if x.Error != "" {
		x.Error = "this cycle changed nothing"
	}
	return x
}

// nodePlan and poolPlan are without names of nodes, for who may not list them.
func (v Viewer) nodePlan(p api.NodePlan) api.NodePlan {
	p.Pools = slices.Clone(p.Pools)
	for i := range p.Pools {
		p.Pools[i] = v.poolPlan(p.Pools[i])
	}
	return p
}

func (v Viewer) poolPlan(p api.PoolPlan) api.PoolPlan {
	if !v.Nodes {
		p.Surplus, p.SurplusSince = nil, nil
	}
	return p
}

// shownCycle is a cycle without what the viewer may not see.
func (v Viewer) shownCycle(c api.Cycle) api.Cycle {
	c.Findings = v.findings(c.Findings, nil)
	c.Outcomes = slices.DeleteFunc(slices.Clone(c.Outcomes), func(o api.Outcome) bool { return !v.about(o.Object) })
	if v.All {
		c.Policy.StrategyActions = v.actions(c.Policy.StrategyActions)
		c.Plan.Nodes = v.nodePlan(c.Plan.Nodes)
		return c
	}
	mine := func(k api.Key) bool { return v.sees(k.Namespace) }
	out := api.Cycle{ID: c.ID, Time: c.Time, Policy: v.ownPolicy(c.Policy), Paused: c.Paused, Findings: c.Findings, Outcomes: c.Outcomes}
	out.Plan = api.Plan{Time: c.Plan.Time, Policy: c.Plan.Policy, Workloads: []api.WorkloadPlan{}}
	for _, w := range c.Plan.Workloads {
		if mine(w.Key) {
			out.Plan.Workloads = append(out.Plan.Workloads, w)
		}
	}
	for _, w := range c.Workloads {
		if mine(w.Key) {
			out.Workloads = append(out.Workloads, w)
		}
	}
	return out
}

// ownPolicy is what everybody may know of the policy in force.
func (v Viewer) ownPolicy(p api.Policy) api.Policy {
	return api.Policy{Name: p.Name, Source: p.Source, Since: p.Since, Reason: v.reason(p.Reason), Objective: p.Objective}
}
