package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/record"
	"github.com/mash2-io/mash2/strategic"
)

// ErrChange is of a change that can't be made; its text says which there are.
var ErrChange = errors.New("no such change")

// Change is what is otherwise in a Counterfactual; the zero value changes nothing.
type Change struct {
	// With are fields of the policy in force, each as FIELD=VALUE; see [Fields]. With
	// Workload named, workload.minReplicas and workload.maxReplicas are its own bounds.
	With []string
	// Without the limits that are named: budget.
	Without []string
	// Policy is another policy by name; Planner another planner of every workload.
	Policy, Planner string
	// Workload is the ManagedWorkload whose bounds With changes, namespace/name.
	Workload string
	// FindForecaster, if not nil, is core.Config's.
	FindForecaster func(name string) (forecast.Forecaster, error)
}

// Counterfactual is a recorded cycle decided again, and decided with a change, from the
// same snapshot and the same memory. It is one cycle: what would have followed from it is
// not told (mash2 whatif simulates that).
type Counterfactual struct {
	Cycle uint64    `json:"cycle"`
	Time  time.Time `json:"time"`
	// Reproduced is true where the cycle decided again, without the change, gives what was
	// recorded. Where it doesn't, by another version, both sides are this program's.
	Reproduced bool `json:"reproduced"`
	// Change in words, and Summary of what it would have made.
	Change  string `json:"change"`
	Summary string `json:"summary"`
	// Note is why the change makes no difference, or not the one that it asks for; else empty.
	Note string `json:"note,omitempty"`
	// Was and Otherwise are the two decisions.
	Was       Outcome `json:"was"`
	Otherwise Outcome `json:"otherwise"`
	// Workloads and Pools that differ, in order of name.
	Workloads []WorkloadDifference `json:"workloads"`
	Pools     []PoolDifference     `json:"pools"`
	// Decided is the whole decision as it was, with curves.
	Decided mash2.Decision `json:"-"`
}

// Outcome is a decision in figures.
type Outcome struct {
	Policy     string  `json:"policy"`
	Replicas   int64   `json:"replicas"`   // of all workloads
	Nodes      int32   `json:"nodes"`      // of all pools planned
	HourlyCost float64 `json:"hourlyCost"` // USD/h
	Utility    float64 `json:"utility"`
}

// WorkloadDifference is what a workload would have had instead.
type WorkloadDifference struct {
	Workload  string       `json:"workload"`
	Was       WorkloadSide `json:"was"`
	Otherwise WorkloadSide `json:"otherwise"`
}

// WorkloadSide is one of the two.
type WorkloadSide struct {
	Replicas int32       `json:"replicas"`
	Binding  api.Binding `json:"binding"`
	Reason   string      `json:"reason"`
}

// PoolDifference is what a pool would have had instead, nodes.
type PoolDifference struct {
	Pool      string `json:"pool"`
	Was       int32  `json:"was"`
	Otherwise int32  `json:"otherwise"`
}

// Otherwise decides the cycle in force at a time again, the last one for the zero time,
// and with a change. The error wraps ErrChange or ErrNoPlanner for what can't be changed.
func Otherwise(ctx context.Context, l *record.Log, at time.Time, change Change) (Counterfactual, error) {
	o := Options{FindForecaster: change.FindForecaster}
	e, planner, decide, memory, err := o.before(ctx, l, at)
	if err != nil {
		return Counterfactual{}, err
	}
	was := decide.Decide(e.Snapshot, e.Spec, memory)
	digest, err := record.Digest(was.Policy, was.Plan, was.Actions)
	if err != nil {
		return Counterfactual{}, err
	}
	out := Counterfactual{Cycle: e.Cycle.ID, Time: e.Cycle.Time, Reproduced: digest == e.Digest, Decided: was}
	o.Planner = change.Planner
	if _, ok := planner.Planners[o.Planner]; o.Planner != "" && !ok {
		return out, fmt.Errorf("%w: %q; there is %s", ErrNoPlanner, o.Planner, strings.Join(slices.Sorted(maps.Keys(planner.Planners)), ", "))
	}
	s, spec, err := o.input(e.Record)
	if err != nil {
		return out, err
	}
	if spec, err = change.policy(spec, was.Policy.Name); err != nil {
		return out, err
	}
	if err := change.pools(s); err != nil {
		return out, err
	}
	if s, err = change.bounds(s); err != nil {
		return out, err
	}
	out.compare(was, decide.Decide(s, spec, memory), change)
	return out, nil
}

// before is the entry in force at a time, with the planner and its memory before it.
func (o Options) before(ctx context.Context, l *record.Log, at time.Time) (e record.Entry, p planning.Hierarchy, decide mash2.Decider, m planning.Memory, err error) {
	there, err := l.At(at)
	if err != nil {
		return e, p, decide, m, err
	}
	segment := ""
	for next, err := range l.Records(there.Segment.Time) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return e, p, decide, m, err
		}
		if !at.IsZero() && next.Cycle.Time.After(at) && segment != "" {
			break
		}
		if next.Cycle.Error != "" && !next.Key {
			continue
		}
		switch {
		case next.Key:
			if m, err = memoryOf(next); err != nil {
				return e, p, decide, m, err
			}
		case e.Cycle.Error == "":
			m = decide.Decide(e.Snapshot, e.Spec, m).Memory
		}
		if next.Segment.Name != segment {
			segment = next.Segment.Name
			if p, decide, err = o.planners(next.Segment.Config); err != nil {
				return e, p, decide, m, fmt.Errorf("records in %s: %w", segment, err)
			}
		}
		e = next
	}
	if e.Cycle.ID == 0 || e.Cycle.Error != "" {
		return e, p, decide, m, fmt.Errorf("no cycle was planned before %s", at.Format(time.RFC3339))
	}
	return e, p, decide, m, nil
}

// field of a policy that can be changed.
type field struct {
	kind string // what its value is
	set  func(p *api.Policy, text string) error
}

func number(to func(*api.Policy) *float64) field {
	return field{"a number", func(p *api.Policy, text string) (err error) {
		*to(p), err = strconv.ParseFloat(text, 64)
		return err
	}}
}

func count(to func(*api.Policy) *int32) field {
	return field{"a whole number", func(p *api.Policy, text string) error {
		n, err := strconv.ParseInt(text, 10, 32)
		*to(p) = int32(n)
		return err
	}}
}

func truth(to func(*api.Policy) *bool) field {
	return field{"true or false", func(p *api.Policy, text string) (err error) {
		*to(p), err = strconv.ParseBool(text)
		return err
	}}
}

// A quantile or a target that is stated counts instead of the objective, as in policies.yaml.
func instead(f field) field {
	return field{f.kind, func(p *api.Policy, text string) error {
		p.Objective = 0
		return f.set(p, text)
	}}
}

var fields = map[string]field{
	"objective":           number(func(p *api.Policy) *float64 { return &p.Objective }),
	"quantile":            instead(number(func(p *api.Policy) *float64 { return &p.Quantile })),
	"targetUtilization":   instead(number(func(p *api.Policy) *float64 { return &p.TargetUtilization })),
	"maxHourlyCost":       number(func(p *api.Policy) *float64 { return &p.MaxHourlyCost }),
	"weights.performance": number(func(p *api.Policy) *float64 { return &p.Weights.Performance }),
	"weights.cost":        number(func(p *api.Policy) *float64 { return &p.Weights.Cost }),
	"weights.resilience":  number(func(p *api.Policy) *float64 { return &p.Weights.Resilience }),
	"minReplicas":         count(func(p *api.Policy) *int32 { return &p.MinReplicas }),
	"minNodesPerPool":     count(func(p *api.Policy) *int32 { return &p.MinNodesPerPool }),
	"maxNodesPerPool":     count(func(p *api.Policy) *int32 { return &p.MaxNodesPerPool }),
	"burst":               truth(func(p *api.Policy) *bool { return &p.Burst }),
	"mixPools":            truth(func(p *api.Policy) *bool { return &p.MixPools }),
	"scaleToZero":         truth(func(p *api.Policy) *bool { return &p.ScaleToZero }),
	"nodePools": {"names, with commas", func(p *api.Policy, text string) error {
		p.NodePools = strings.Split(text, ",")
		return nil
	}},
}

const (
	workloadMin = "workload.minReplicas"
	workloadMax = "workload.maxReplicas"
)

// Fields that a Change may name, in order.
func Fields() []string {
	return append(slices.Sorted(maps.Keys(fields)), workloadMax, workloadMin)
}

// policy is a specification with the policy in force changed.
func (c Change) policy(spec api.PolicySpec, name string) (api.PolicySpec, error) {
	spec.Policies = maps.Clone(spec.Policies)
	if c.Policy != "" {
		if _, ok := spec.Policies[c.Policy]; !ok {
			return spec, fmt.Errorf("%w: there is no policy %q; there is %s", ErrChange, c.Policy, strings.Join(slices.Sorted(maps.Keys(spec.Policies)), ", "))
		}
		name, spec.Manual = c.Policy, c.Policy
	}
	p := spec.Policies[name]
	for _, with := range c.With {
		key, value, ok := strings.Cut(with, "=")
		if ok && (key == workloadMin || key == workloadMax) {
			continue
		}
		f, known := fields[key]
		if !ok || !known {
			if own := "workload." + key; own == workloadMin || own == workloadMax {
				return spec, fmt.Errorf("%w: %q is no field of a policy; a workload's own bound is %s=%s", ErrChange, key, own, cmp.Or(value, "N"))
			}
			return spec, fmt.Errorf("%w: %q must be FIELD=VALUE with a field of %s", ErrChange, with, strings.Join(Fields(), ", "))
		}
		if err := f.set(&p, value); err != nil {
			return spec, fmt.Errorf("%w: %s must be %s, is %q", ErrChange, key, f.kind, value)
		}
	}
	for _, without := range c.Without {
		if without != "budget" {
			return spec, fmt.Errorf("%w: %q can't be removed, budget can; --with %s=N changes a workload's bound", ErrChange, without, workloadMax)
		}
		p.MaxHourlyCost, p.MaxNodesPerPool = 0, 0
	}
	spec.Policies[name] = p
	if err := strategic.Validate(spec); err != nil {
		return spec, fmt.Errorf("%w: %w", ErrChange, err)
	}
	return spec, nil
}

// pools checks that there are those that With names.
func (c Change) pools(s api.Snapshot) error {
	for _, with := range c.With {
		key, value, _ := strings.Cut(with, "=")
		if key != "nodePools" {
			continue
		}
		for name := range strings.SplitSeq(value, ",") {
			if slices.ContainsFunc(s.Pools, func(p api.Pool) bool { return p.Name == name }) {
				continue
			}
			var there []string
			for _, p := range s.Pools {
				there = append(there, p.Name)
			}
			return fmt.Errorf("%w: there is no node pool %q; there is %s", ErrChange, name, cmp.Or(strings.Join(there, ", "), "none"))
		}
	}
	return nil
}

// bounds is a snapshot with the workload's own bounds changed.
func (c Change) bounds(s api.Snapshot) (api.Snapshot, error) {
	for _, with := range c.With {
		key, value, _ := strings.Cut(with, "=")
		if key != workloadMin && key != workloadMax {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < 0 {
			return s, fmt.Errorf("%w: %s must be a whole number, is %q", ErrChange, key, value)
		}
		i := slices.IndexFunc(s.Workloads, func(w api.Workload) bool { return w.Key.String() == c.Workload })
		if i < 0 {
			return s, fmt.Errorf("%w: %s needs --workload with the name of a workload that the cycle planned, not %q", ErrChange, key, c.Workload)
		}
		s.Workloads = slices.Clone(s.Workloads)
		w := &s.Workloads[i]
		if key == workloadMin {
			w.MinReplicas = int32(n)
		} else {
			w.MaxReplicas = int32(n)
		}
		if w.MinReplicas > w.MaxReplicas || w.MaxReplicas < 1 {
			return s, fmt.Errorf("%w: %s: replicas would be between %d and %d", ErrChange, key, w.MinReplicas, w.MaxReplicas)
		}
	}
	return s, nil
}

// words of a change.
func (c Change) words() string {
	var out []string
	if c.Policy != "" {
		out = append(out, "under "+c.Policy)
	}
	if c.Planner != "" {
		out = append(out, "by planner "+c.Planner)
	}
	for _, w := range c.With {
		key, value, _ := strings.Cut(w, "=")
		out = append(out, "with "+key+" "+value)
	}
	for _, w := range c.Without {
		out = append(out, "without "+w)
	}
	return cmp.Or(strings.Join(out, ", "), "with nothing changed")
}

func outcomeOf(d mash2.Decision) Outcome {
	o := Outcome{Policy: d.Policy.Name, HourlyCost: d.Plan.Nodes.HourlyCost, Utility: d.Plan.Utility.Total}
	for _, w := range d.Plan.Workloads {
		o.Replicas += int64(w.Replicas)
	}
	for _, p := range d.Plan.Nodes.Pools {
		o.Nodes += p.Nodes
	}
	return o
}

// compare fills in how two decisions differ.
func (f *Counterfactual) compare(was, is mash2.Decision, c Change) {
	f.Was, f.Otherwise, f.Change = outcomeOf(was), outcomeOf(is), c.words()
	if p := was.Policy; len(c.Without) > 0 && c.Policy == "" && p.MaxHourlyCost == 0 && p.MaxNodesPerPool == 0 {
		f.Change += fmt.Sprintf(" (%s has none: neither maxHourlyCost nor maxNodesPerPool)", p.Name)
	}
	f.Workloads, f.Pools = []WorkloadDifference{}, []PoolDifference{}
	side := func(w *api.WorkloadPlan) WorkloadSide {
		if w == nil {
			return WorkloadSide{}
		}
		return WorkloadSide{w.Replicas, w.Binding, w.Reason}
	}
	each(was.Plan.Workloads, is.Plan.Workloads, func(w api.WorkloadPlan) string { return w.Key.String() }, func(key string, a, b *api.WorkloadPlan) {
		if d := (WorkloadDifference{key, side(a), side(b)}); d.Was != d.Otherwise {
			f.Workloads = append(f.Workloads, d)
		}
	})
	each(was.Plan.Nodes.Pools, is.Plan.Nodes.Pools, func(p api.PoolPlan) string { return p.Pool }, func(key string, a, b *api.PoolPlan) {
		d := PoolDifference{Pool: key}
		if a != nil {
			d.Was = a.Nodes
		}
		if b != nil {
			d.Otherwise = b.Nodes
		}
		if d.Was != d.Otherwise {
			f.Pools = append(f.Pools, d)
		}
	})
	f.Summary = f.summary()
	most := is.Policy.MaxHourlyCost
	another := slices.ContainsFunc(f.Workloads, func(d WorkloadDifference) bool { return d.Was.Replicas != d.Otherwise.Replicas })
	switch {
	case !another && len(f.Pools) == 0:
		f.Note = c.noDifference(was, is)
	case most > 0 && most != was.Policy.MaxHourlyCost && f.Otherwise.HourlyCost > most:
		f.Note = fmt.Sprintf("above %.3g USD/h: a limit of money stops growth at once, and takes nothing away from what runs", most)
	}
}

// noDifference says why a decision is the same with the change, by what binds with it.
func (c Change) noDifference(was, is mash2.Decision) string {
	var out []string
	forecast := slices.ContainsFunc(was.Plan.Workloads, func(w api.WorkloadPlan) bool {
		return w.Forecast != nil && (c.Workload == "" || w.Key.String() == c.Workload)
	})
	if !forecast && slices.ContainsFunc(c.With, func(with string) bool { return strings.HasPrefix(with, "quantile=") }) {
		out = append(out, "no forecast was used in this cycle: its quantile does not count")
	}
	for _, w := range is.Plan.Workloads {
		if w.Key.String() == c.Workload {
			out = append(out, fmt.Sprintf("%s has %d replicas by %s with the change as well", w.Key, w.Replicas, w.Binding))
		}
	}
	return strings.Join(out, "; ")
}

// summary is the difference in a sentence.
func (f *Counterfactual) summary() string {
	var parts []string
	more := 0
	for _, w := range f.Workloads {
		if w.Was.Replicas == w.Otherwise.Replicas {
			continue
		}
		if len(parts) == 3 {
			more++
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %d instead of %d replicas", w.Workload, w.Otherwise.Replicas, w.Was.Replicas))
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("%d more workloads differ", more))
	}
	for _, p := range f.Pools {
		parts = append(parts, fmt.Sprintf("pool %s %d instead of %d nodes", p.Pool, p.Otherwise, p.Was))
	}
	if d := f.Otherwise.HourlyCost - f.Was.HourlyCost; d != 0 {
		parts = append(parts, fmt.Sprintf("%+.3g USD/h", d))
	}
	if len(parts) == 0 {
		return f.Change + ": the same replicas and nodes"
	}
	return f.Change + ": " + strings.Join(parts, ", ")
}
