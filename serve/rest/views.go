package rest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/strategic"
)

// Viewer is who asks, and what they may see.
type Viewer struct {
	Name string
	// All is true for who may list ManagedWorkloads in all namespaces: then pools, money
	// and everything else that is not one namespace's is shown too.
	All bool
	// Nodes is true for who may list nodes besides.
	Nodes bool
	// Namespaces that may be seen, if not All.
	Namespaces map[string]bool
	// Addresses is true for who may list Strategies in all namespaces, AddressesOf has the
	// namespaces for who may not: addresses that strategies ask and call may be secrets.
	Addresses   bool
	AddressesOf map[string]bool
}

// sees reports whether a namespace may be shown.
func (v Viewer) sees(namespace string) bool { return v.All || v.Namespaces[namespace] }

// addresses reports whether those of a namespace's strategies may be shown.
func (v Viewer) addresses(namespace string) bool { return v.Addresses || v.AddressesOf[namespace] }

// actions of strategies, without addresses that may not be shown.
func (v Viewer) actions(all []api.StrategyAction) []api.StrategyAction {
	all = slices.Clone(all)
	for i := range all {
		if !v.addresses(all[i].Strategy.Namespace) {
			all[i].URL = ""
		}
	}
	return all
}

// about reports whether something about an object may be shown: of one namespace what is
// about its own objects. What is said of the policy may name anybody's.
func (v Viewer) about(o api.ObjectRef) bool {
	if v.All {
		return v.Nodes || o.Kind != api.KindNode
	}
	return o.Key.Namespace != "" && v.sees(o.Key.Namespace)
}

// reason of a policy without what a strategy of another namespace reads and wants.
func (v Viewer) reason(text string) string {
	of, is := strings.CutPrefix(text, "strategy ")
	namespace, _, _ := strings.Cut(of, "/")
	if v.All || !is || v.sees(namespace) {
		return text
	}
	return "a strategy of another namespace"
}

// Overview is the present at a glance.
type Overview struct {
	Cycle uint64    `json:"cycle"`
	Time  time.Time `json:"time"`
	// Newest is the time of the newest cycle, and Error why it decided nothing: then the
	// rest is of the last one that did.
	Newest      time.Time `json:"newest"`
	NewestCycle uint64    `json:"newestCycle"`
	Error       string    `json:"error,omitempty"`
	Program     string    `json:"program"`
	// Recorded is true where nothing new comes.
	Recorded bool `json:"recorded,omitempty"`
	// Period between cycles, seconds.
	Period float64 `json:"period"`
	Viewer string  `json:"viewer"`
	// Everything is true where pools, money and all namespaces are shown.
	Everything bool `json:"everything"`
	// Actions tells whether the page can act for this viewer at all; whether they may is
	// for Kubernetes to say.
	Actions bool `json:"actions"`

	// Otherwise tells whether recorded cycles can be decided again with a change.
	Otherwise bool `json:"otherwise"`

	Paused bool `json:"paused"`
	// RolledBack is until when the whole plan is taken back, unless a person ends it; zero
	// while it isn't. Findings of the workload say why, to who sees it.
	RolledBack time.Time  `json:"rolledBack,omitzero"`
	Policy     PolicyView `json:"policy"`
	Policies   []string   `json:"policies"`

	Workloads int `json:"workloads"`
	Held      int `json:"held"`
	Shadow    int `json:"shadow"`
	// Replicas there are and planned, of the workloads shown.
	Replicas int64 `json:"replicas"`
	Planned  int64 `json:"planned"`

	Pools    []PoolView    `json:"pools,omitempty"`
	Refusal  *api.Refusal  `json:"refusal,omitempty"`
	Unplaced []string      `json:"unplaced,omitempty"`
	Money    *Money        `json:"money,omitempty"`
	Findings []api.Finding `json:"findings"`
	Steps    []StepView    `json:"steps,omitempty"`
	Total    *Series       `json:"total,omitempty"`
}

// PolicyView is the policy in force and the next one.
type PolicyView struct {
	Name      string           `json:"name"`
	Source    api.PolicySource `json:"source"`
	Reason    string           `json:"reason"`
	Since     time.Time        `json:"since,omitzero"`
	Objective float64          `json:"objective,omitempty"` // share of time, 0–1
	// Signals that may choose it, and whether each is on; Strategies of users, and what they
	// want. Only for who may see the whole cluster.
	Signals         []api.SignalState    `json:"signals,omitempty"`
	Strategies      []api.StrategyState  `json:"strategies,omitempty"`
	StrategyActions []api.StrategyAction `json:"strategyActions,omitempty"`
	// Next is what the schedule chooses next, and when; empty where it doesn't.
	Next   string    `json:"next,omitempty"`
	NextAt time.Time `json:"nextAt,omitzero"`
}

// PoolView is a pool as it is and as it is planned.
type PoolView struct {
	Name        string  `json:"name"`
	MachineType string  `json:"machineType"`
	Managed     bool    `json:"managed"`
	Target      int32   `json:"target"` // nodes asked for
	Ready       int32   `json:"ready"`
	Planned     int32   `json:"planned"`
	HourlyCost  float64 `json:"hourlyCost"` // USD/h of Target
	Reason      string  `json:"reason"`
	Hold        string  `json:"hold,omitempty"`
}

// StepView is how long a step of the newest cycle took, milliseconds.
type StepView struct {
	Step         string  `json:"step"`
	Milliseconds float64 `json:"milliseconds"`
}

// WorkloadView is a workload in a line.
type WorkloadView struct {
	Key      api.Key     `json:"key"`
	Mode     api.Mode    `json:"mode"`
	Replicas int32       `json:"replicas"`
	Ready    int32       `json:"ready"`
	Planned  int32       `json:"planned"`
	HPA      int32       `json:"hpa"` // of the stock HPA, estimated
	Binding  api.Binding `json:"binding"`
	Reason   string      `json:"reason"`
	Held     bool        `json:"held,omitempty"`
	// Hold is why it is not acted on; empty if it is.
	Hold   string    `json:"hold,omitempty"`
	Demand *float64  `json:"demand"` // reference millicores; null if not known
	Trust  api.Trust `json:"trust,omitempty"`
	// Canary is the phase of the trial that it is in; empty where it is in none.
	Canary api.CanaryPhase `json:"canary,omitempty"`
	// Hourly is what its replicas take of nodes, USD/h.
	Hourly float64         `json:"hourly"`
	Pools  []api.PoolShare `json:"pools,omitempty"`
}

// WorkloadDetail is a workload with its past and what is expected of it.
type WorkloadDetail struct {
	WorkloadView
	Cycle    uint64              `json:"cycle"`
	Time     time.Time           `json:"time"`
	Bounds   [2]int32            `json:"bounds"` // least and most replicas
	Plan     api.WorkloadPlan    `json:"plan"`
	Past     Series              `json:"past"`
	Forecast *Curves             `json:"forecast,omitempty"`
	Path     []PathPoint         `json:"path"`
	Findings []api.Finding       `json:"findings"`
	Changes  []record.Change     `json:"changes"`
	Observed *api.WorkloadStatus `json:"observed,omitempty"`
	Skill    *api.ForecastSkill  `json:"skill,omitempty"`
	Actions  []api.Outcome       `json:"actions"` // of this cycle, about this workload
}

// Curves are a forecast of demand, reference millicores.
type Curves struct {
	Model  string      `json:"model"`
	Times  []int64     `json:"times"` // Unix seconds
	Levels []float64   `json:"levels"`
	Bands  [][]float64 `json:"bands"` // one row a level
	Mean   []float64   `json:"mean"`
}

// PathPoint is what is planned from a time on: what demand asks for, and the author's least
// number of replicas.
type PathPoint struct {
	At       int64 `json:"at"` // Unix seconds
	Replicas int32 `json:"replicas"`
}

// overview is what a viewer sees at a glance.
func (s *Store) overview(v Viewer) Overview {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c, spec := s.last.Cycle, s.last.Spec
	o := Overview{
		Cycle: c.ID, Time: c.Time, Newest: s.newest.Time, NewestCycle: s.newest.ID, Error: s.newest.Error, Program: s.config.Program,
		Period: s.config.Period.Seconds(), Recorded: s.config.Recorded, Otherwise: v.All && s.config.Otherwise != nil, Viewer: v.Name, Everything: v.All, Paused: s.newest.Paused,
		Policy:   PolicyView{Name: c.Policy.Name, Source: c.Policy.Source, Reason: v.reason(c.Policy.Reason), Since: c.Policy.Since, Objective: c.Policy.Objective},
		Policies: slices.Sorted(maps.Keys(spec.Policies)), Findings: v.findings(s.newest.Findings, nil),
	}
	if back := c.Plan.Rollback; back != nil {
		o.RolledBack = back.Until
	}
	if e, at, ok := strategic.Next(spec, c.Time); ok {
		o.Policy.Next, o.Policy.NextAt = e.Policy, at
	}
	for i := range c.Plan.Workloads {
		w := &c.Plan.Workloads[i]
		if !v.sees(w.Key.Namespace) {
			continue
		}
		o.Workloads++
		o.Replicas += int64(w.Current)
		o.Planned += int64(w.Replicas)
		if w.Held {
			o.Held++
		}
		if w.Shadow {
			o.Shadow++
		}
	}
	if !v.All {
		o.Error = ""
		if s.newest.Error != "" {
			o.Error = "the newest cycle changed nothing; who may see the whole cluster can see why"
		}
		return o
	}
	o.Policy.Signals, o.Policy.Strategies, o.Policy.StrategyActions = c.Policy.Signals, strategyViews(c.Policy.Strategies), v.actions(c.Policy.StrategyActions)
	o.Refusal = c.Plan.Nodes.Refusal
	for _, u := range c.Plan.Nodes.Unplaced {
		o.Unplaced = append(o.Unplaced, fmt.Sprintf("%d pods of %s: %s", u.Count, u.Name, u.Reason))
	}
	for _, p := range c.Pools {
		pool := PoolView{
			Name: p.Name, MachineType: p.MachineType, Managed: p.Managed, Target: p.TargetNodes, Ready: p.ReadyNodes,
			Planned: p.TargetNodes, HourlyCost: p.HourlyCost, Hold: p.Hold,
		}
		if i := slices.IndexFunc(c.Plan.Nodes.Pools, func(q api.PoolPlan) bool { return q.Pool == p.Name }); i >= 0 {
			pool.Planned, pool.Reason = c.Plan.Nodes.Pools[i].Nodes, c.Plan.Nodes.Pools[i].Reason
		}
		o.Pools = append(o.Pools, pool)
	}
	m := s.ledger.money(c.Time, s.hourly, s.hpaHourly)
	o.Money = &m
	for _, t := range s.newest.Steps {
		o.Steps = append(o.Steps, StepView{t.Step, float64(t.Duration.Microseconds()) / 1000})
	}
	if s.total != nil {
		o.Total = new(s.total.series(time.Time{}))
	}
	return o
}

// findings that a viewer may see, about some workload if one is named.
func (v Viewer) findings(all []api.Finding, of *api.Key) []api.Finding {
	out := []api.Finding{}
	for _, f := range all {
		if v.about(f.Object) && (of == nil || f.Object == api.WorkloadRef(*of)) {
			out = append(out, f)
		}
	}
	return out
}

// workloadList is every workload that a viewer may see, in order of key.
func (s *Store) workloadList(v Viewer) []WorkloadView {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := s.last.Cycle
	seen := statuses(c)
	out := []WorkloadView{}
	for i := range c.Plan.Workloads {
		if v.sees(c.Plan.Workloads[i].Key.Namespace) {
			out = append(out, s.view(&c.Plan.Workloads[i], seen))
		}
	}
	// Those that are off are seen and not planned.
	for _, w := range c.Workloads {
		if w.Mode == api.ModeOff && v.sees(w.Key.Namespace) {
			out = append(out, viewOff(w))
		}
	}
	slices.SortFunc(out, func(a, b WorkloadView) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	return out
}

// viewOff is one that is off.
func viewOff(w api.WorkloadStatus) WorkloadView {
	return WorkloadView{Key: w.Key, Mode: w.Mode, Replicas: w.Replicas, Ready: w.ReadyReplicas, Planned: w.Replicas, Reason: "it is not planned", Hold: w.Hold}
}

func statuses(c api.Cycle) map[api.Key]api.WorkloadStatus {
	seen := make(map[api.Key]api.WorkloadStatus, len(c.Workloads))
	for _, w := range c.Workloads {
		seen[w.Key] = w
	}
	return seen
}

func (s *Store) view(plan *api.WorkloadPlan, seen map[api.Key]api.WorkloadStatus) WorkloadView {
	w := seen[plan.Key]
	v := WorkloadView{
		Key: plan.Key, Mode: w.Mode, Replicas: plan.Current, Ready: w.ReadyReplicas, Planned: plan.Replicas,
		Binding: plan.Binding, Reason: plan.Reason, Held: plan.Held, Hold: w.Hold, Pools: plan.Pools,
	}
	if plan.Demand >= 0 {
		v.Demand = new(plan.Demand)
	}
	if plan.Skill != nil {
		v.Trust = plan.Skill.Trust
	}
	if plan.Canary != nil {
		v.Canary = plan.Canary.Phase
	}
	if p := s.workloads[plan.Key]; p != nil {
		v.HPA = p.hpaNow
		v.Hourly = p.unit * float64(plan.Current)
		if len(plan.Pools) == 0 {
			v.Hourly = 0 // it has no price
		}
	}
	return v
}

// workload is one with its past; false if there is none that the viewer may see. One that is off
// has no plan.
func (s *Store) workload(v Viewer, key api.Key) (WorkloadDetail, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := s.last.Cycle
	seen := statuses(c)
	i := slices.IndexFunc(c.Plan.Workloads, func(w api.WorkloadPlan) bool { return w.Key == key })
	w, known := seen[key]
	if i < 0 && w.Mode != api.ModeOff || !v.sees(key.Namespace) {
		return WorkloadDetail{}, false
	}
	d := WorkloadDetail{
		Cycle: c.ID, Time: c.Time, Past: noSeries(), Path: []PathPoint{}, Actions: []api.Outcome{},
		Findings: v.findings(s.newest.Findings, &key), Changes: s.changesOf(v, Filter{Workload: key.String(), Limit: 50}),
	}
	if known {
		d.Observed = &w
	}
	for _, w := range s.last.Snapshot.Workloads {
		if w.Key == key {
			d.Bounds = [2]int32{w.MinReplicas, w.MaxReplicas}
		}
	}
	if p := s.workloads[key]; p != nil {
		d.Past = p.history.series(time.Time{})
	}
	for _, o := range c.Outcomes {
		if o.Object == api.WorkloadRef(key) {
			d.Actions = append(d.Actions, o)
		}
	}
	if i < 0 {
		d.WorkloadView = viewOff(w)
		return d, true
	}
	plan := c.Plan.Workloads[i]
	d.WorkloadView, d.Skill = s.view(&plan, seen), plan.Skill
	for _, step := range plan.Path {
		if s.last.Brief {
			break // it has the path's turns only
		}
		d.Path = append(d.Path, PathPoint{step.At.Unix(), max(step.Replicas, d.Bounds[0])})
	}
	d.Forecast = curves(plan.Forecast)
	plan.Path, plan.Forecast = nil, nil
	d.Plan = plan
	return d, true
}

// curves are nil for no forecast, and for one without curves.
func curves(f *api.Forecast) *Curves {
	if f == nil || len(f.Quantiles) == 0 {
		return nil
	}
	c := &Curves{Model: f.Model, Levels: f.Levels, Times: []int64{}}
	n := len(f.Quantiles[0])
	// A page has a thousand pixels.
	every := 1 + n/400
	thin := func(row []float64) []float64 {
		out := []float64{}
		for i := 0; i < len(row); i += every {
			v := row[i]
			if math.IsNaN(v) || math.IsInf(v, 0) {
				v = 0
			}
			out = append(out, v)
		}
		return out
	}
	for i := 0; i < n; i += every {
		c.Times = append(c.Times, f.Start.Add(time.Duration(i)*f.Step).Unix())
	}
	for _, row := range f.Quantiles {
		c.Bands = append(c.Bands, thin(row))
	}
	c.Mean = thin(f.Mean)
	return c
}

// Filter narrows changes.
type Filter struct {
	Workload string    // namespace/name; all if empty
	Before   time.Time // older than that; zero for no bound
	// Limit is how many there are at most, the newest ones: the last cycle is whole, beyond it.
	Limit int
}

// changeList is the timeline that a viewer may see, newest first.
func (s *Store) changeList(v Viewer, f Filter) []record.Change {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.changesOf(v, f)
}

func (s *Store) changesOf(v Viewer, f Filter) []record.Change {
	out := []record.Change{}
	for _, k := range slices.Backward(s.changes) {
		switch {
		case len(out) >= f.Limit && (len(out) == 0 || !k.Time.Equal(out[len(out)-1].Time)):
			// Who goes on before the time of the last one misses none.
			return out
		case !f.Before.IsZero() && !k.Time.Before(f.Before):
		case f.Workload != "" && (k.Object.Kind != api.KindWorkload || k.Object.Key.String() != f.Workload):
		case v.about(k.Object) || k.Kind == record.PolicyChanged || k.Kind == record.PausedChanged:
			if k.Kind == record.PolicyChanged {
				k.Text = v.reason(k.Text)
			}
			out = append(out, k)
		}
	}
	return out
}

// headList are cycles, newest first.
func (s *Store) headList(before time.Time, limit int) []Head {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := []Head{}
	for _, h := range slices.Backward(s.heads) {
		if len(out) == limit {
			break
		}
		if before.IsZero() || h.Time.Before(before) {
			out = append(out, h)
		}
	}
	return out
}

// strategyViews leaves out the sums that strategies learn by, which are many numbers that
// nobody reads.
func strategyViews(states []api.StrategyState) []api.StrategyState {
	out := api.WithoutSpecs(states)
	for i, s := range out {
		if s.Learning == nil {
			continue
		}
		l := *s.Learning
		l.Arms = nil
		for _, a := range s.Learning.Arms {
			l.Arms = append(l.Arms, api.LearnedArm{Policy: a.Policy, Rounds: a.Rounds})
		}
		out[i].Learning = &l
	}
	return out
}
