// Package plannertest is the conformance suite that every
// planning.WorkloadPlanner passes.
package plannertest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning"
)

// rounds is how many random inputs each property is tried on.
const rounds = 300

// Test checks the properties that the Hierarchy relies on, on random inputs:
//
//   - equal inputs give equal plans, and inputs are left as they are;
//   - a plan is for its workload, with non-negative replicas, a path of
//     increasing times that starts now, and nothing that isn't a number;
//   - replicas are never below the reactive floor, nor nodes below replicas;
//   - a held plan keeps the replicas and says why;
//   - without fresh demand replicas never go down;
//   - more demand never leads to fewer replicas;
//   - after the Guard, replicas are within the author's bounds.
func Test(t *testing.T, p planning.WorkloadPlanner) {
	t.Helper()
	s := suite{p}
	for name, check := range map[string]func(t *testing.T, r *rand.Rand){
		"deterministic and without traces": s.deterministic,
		"well formed":                      s.wellFormed,
		"never down without fresh demand":  s.neverDown,
		"monotone in demand":               s.monotone,
		"within bounds after the Guard":    s.withinBounds,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(rounds) {
				check(t, rand.New(rand.NewPCG(seed, 7)))
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// suite is the checks of one planner, each of one random input.
type suite struct{ planner planning.WorkloadPlanner }

func (s suite) plan(t *testing.T, in planning.Input) planning.Proposal {
	t.Helper()
	out, err := s.planner.PlanWorkload(in)
	if err != nil {
		t.Fatalf("PlanWorkload: %v", err)
	}
	return out
}

// deterministic: equal inputs give equal plans, and inputs are left as they are.
func (s suite) deterministic(t *testing.T, r *rand.Rand) {
	in := Input(r)
	before := deepCopy(in)
	one, two := s.plan(t, in), s.plan(t, in)
	if diff := cmp.Diff(one, two, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("two plans of one input differ:\n%s", diff)
	}
	if diff := cmp.Diff(before, in, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("the input was written to:\n%s", diff)
	}
}

// wellFormed: a plan is for its workload and made of numbers.
func (s suite) wellFormed(t *testing.T, r *rand.Rand) {
	in := Input(r)
	out := s.plan(t, in)
	if out.Key != in.Workload.Key {
		t.Errorf("the proposal for %s is for %s", in.Workload.Key, out.Key)
	}
	if out.Reason == "" || out.Binding == "" {
		t.Errorf("reason %q, binding %q", out.Reason, out.Binding)
	}
	if out.Replicas < 0 || out.Replicas < out.Floor || out.NodeReplicas < out.Replicas {
		t.Errorf("replicas %d, floor %d, for nodes %d", out.Replicas, out.Floor, out.NodeReplicas)
	}
	for _, x := range []float64{out.Demand, out.PeakDemand, out.Need} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			t.Errorf("demand %v, peak %v, need %v", out.Demand, out.PeakDemand, out.Need)
		}
	}
	for i, step := range out.Path {
		if i == 0 && !step.At.Equal(in.Time) || i > 0 && !step.At.After(out.Path[i-1].At) || step.Replicas < 0 {
			t.Errorf("path of %v: step %d is %+v", in.Time, i, step)
		}
	}
	if out.Held && (out.Replicas != in.Workload.Replicas || out.Binding != "hold") {
		t.Errorf("held with %d replicas of %d, binding %q", out.Replicas, in.Workload.Replicas, out.Binding)
	}
	if !out.Held && len(out.Path) == 0 {
		t.Error("no path")
	}
}

// neverDown: without fresh demand replicas never go down.
func (s suite) neverDown(t *testing.T, r *rand.Rand) {
	in := Input(r)
	w := &in.Workload
	switch {
	case len(w.Triggers) > 0 && (!in.UsesCPU() || r.IntN(2) == 0):
		w.Triggers[r.IntN(len(w.Triggers))].Missing = "no answer"
		if w.Replicas == 0 {
			return // there is no down from there
		}
	case r.IntN(2) == 0:
		in.Metrics.Reachable = false
	default:
		w.DemandStale = true
	}
	if out := s.plan(t, in); out.Replicas < in.Workload.Replicas {
		t.Errorf("%d replicas of %d: %s", out.Replicas, in.Workload.Replicas, out.Reason)
	}
}

// monotone: more demand never leads to fewer replicas.
func (s suite) monotone(t *testing.T, r *rand.Rand) {
	in := Input(r)
	more := deepCopy(in)
	factor := 1 + 2*r.Float64()
	for i := range more.Workload.Demand.Values {
		more.Workload.Demand.Values[i] *= factor
	}
	if u := more.Workload.Usage; u != nil {
		u.MilliCPU *= factor
	}
	for i := range more.Workload.Triggers {
		more.Workload.Triggers[i].Value *= factor
		if f := more.Outlooks[i].Forecast; f != nil {
			scale(f, factor)
		}
	}
	if f := more.Forecast; f != nil {
		scale(f, factor)
	}
	more.Margins.Most *= factor
	less, greater := s.plan(t, in), s.plan(t, more)
	if greater.Replicas < less.Replicas || greater.NodeReplicas < less.NodeReplicas {
		t.Errorf("%.2f times the demand: %d replicas after %d, nodes for %d after %d",
			factor, greater.Replicas, less.Replicas, greater.NodeReplicas, less.NodeReplicas)
	}
}

// withinBounds: after the Guard, replicas are within the author's bounds.
func (s suite) withinBounds(t *testing.T, r *rand.Rand) {
	in := Input(r)
	out := s.plan(t, in)
	rng := planning.Guard{Config: planning.DefaultConfig()}.Range(planning.Subject{
		Time: in.Time, Workload: in.Workload, Policy: in.Policy, Proposal: out, Speed: in.Speed,
		Memory:  planning.WorkloadMemory{Replicas: in.Workload.Replicas},
		Windows: in.Windows, Trusted: in.Trusted,
	})
	if rng.Hold == "" && (rng.Lo.Replicas < in.Workload.MinReplicas || rng.Hi.Replicas > in.Workload.MaxReplicas) {
		t.Errorf("range %d–%d, bounds %d–%d", rng.Lo.Replicas, rng.Hi.Replicas, in.Workload.MinReplicas, in.Workload.MaxReplicas)
	}
}

// Input draws an input as a Hierarchy might pass it, the odd ones included:
// no shape, no demand, gaps, no forecast, a second source only.
func Input(r *rand.Rand) planning.Input {
	now := time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)
	step := 15 * time.Second
	in := planning.Input{
		Time:            now,
		Policy:          api.Policy{Name: "P", Quantile: 0.05 + 0.9*r.Float64(), TargetUtilization: 0.3 + 0.7*r.Float64(), MinReplicas: int32(r.IntN(3))},
		Speed:           0.25 + r.Float64(),
		Metrics:         api.SourceHealth{Reachable: r.IntN(8) > 0, LastOK: now},
		ResourceMetrics: api.SourceHealth{Reachable: true, LastOK: now},
		Windows: planning.Windows{
			Pod: 40 * time.Second, Node: 2 * time.Minute, Trough: 55 * time.Second,
			NodeTrough: 4 * time.Minute, Horizon: 10 * time.Minute,
		},
	}
	w := &in.Workload
	w.Key = api.Key{Namespace: "web", Name: fmt.Sprintf("app-%d", r.IntN(10))}
	w.Mode, w.Planner = api.ModeFull, "horizontal"
	w.MinReplicas = int32(r.IntN(4))
	w.MaxReplicas = w.MinReplicas + 1 + int32(r.IntN(30))
	w.Replicas = int32(r.IntN(int(w.MaxReplicas) + 1))
	w.ReadyReplicas = int32(r.IntN(int(w.Replicas) + 1))
	w.SpeedNow = float64(r.IntN(3)) / 2
	if r.IntN(10) > 0 {
		w.Shape = &api.PodShape{ID: "shape", Requests: api.Resources{MilliCPU: int64(r.IntN(1000)), Memory: 64 << 20, Pods: 1}}
	}
	if r.IntN(15) == 0 {
		w.Hold, w.HoldReason = "another autoscaler scales it", "Conflict"
	}
	level := 4000 * r.Float64()
	w.Demand = api.Series{Start: now.Add(-30 * step), Step: step}
	for range r.IntN(31) {
		v := level * (0.5 + r.Float64())
		if r.IntN(12) == 0 {
			v = math.NaN()
		}
		w.Demand.Values = append(w.Demand.Values, v)
	}
	w.DemandStale = r.IntN(8) == 0
	if r.IntN(2) == 0 {
		w.Usage = &api.Usage{At: now, Window: step, MilliCPU: level * (0.5 + r.Float64()), Pods: 1 + int32(r.IntN(5))}
	}
	if r.IntN(3) > 0 {
		start := now
		if len(w.Demand.Values) > 0 {
			start = w.Demand.End().Add(step)
		}
		in.Forecast = drawn(r, start, step, level)
		in.Trusted = in.Forecast.Skill > 0.5
	}
	for i := range max(0, r.IntN(5)-2) {
		level := 100 * r.Float64()
		s := api.Trigger{
			Name: fmt.Sprintf("queue-%d", i), Target: 1 + 20*r.Float64(), Value: level * r.Float64(), At: now,
			Ratio: r.IntN(3) == 0, Activates: r.IntN(4) > 0, Activation: float64(r.IntN(2)) * 10 * r.Float64(),
		}
		if r.IntN(6) == 0 {
			s.Missing = "the server could not find the metric"
		}
		if !s.Ratio && r.IntN(3) == 0 {
			s.Pods, s.Activates = 1+int32(r.IntN(5)), false
		}
		var o planning.Outlook
		if r.IntN(2) == 0 {
			o.Forecast = drawn(r, now, step, level)
			o.Trusted = o.Forecast.Skill > 0.5
		}
		w.Triggers, in.Outlooks = append(w.Triggers, s), append(in.Outlooks, o)
	}
	w.IgnoreCPU = r.IntN(4) == 0
	if r.IntN(3) == 0 {
		in.Policy.Objective = 0.9 + 0.09*r.Float64()
		in.Margins = planning.Margins{Objective: in.Policy.Objective, Most: level * (1 + r.Float64())}
		in.Margins.Pod.Factor = 1 + 3*r.Float64()
		in.Margins.Node.Factor = in.Margins.Pod.Factor * (1 + r.Float64())
		if r.IntN(2) == 0 {
			in.Margins.Node.Phases = []byte{0, byte(r.IntN(200))}
		}
		if in.Trusted {
			in.Margins.Told = 1 + r.Float64()
		}
	}
	return in
}

// drawn is a forecast of demand around a level.
func drawn(r *rand.Rand, start time.Time, step time.Duration, level float64) *api.Forecast {
	f := &api.Forecast{
		Model: "drawn", Start: start, Step: step,
		Levels: []float64{0.1, 0.5, 0.9}, Quantiles: make([][]float64, 3), PeakQuantiles: make([]float64, 3),
		Skill: r.Float64(),
	}
	for range 1 + r.IntN(60) {
		v := level * 2 * r.Float64()
		f.Mean = append(f.Mean, v)
		for q := range f.Quantiles {
			x := v * (0.7 + 0.3*float64(q))
			f.Quantiles[q] = append(f.Quantiles[q], x)
			f.PeakQuantiles[q] = math.Max(f.PeakQuantiles[q], x)
		}
	}
	return f
}

func scale(f *api.Forecast, factor float64) {
	for i := range f.Mean {
		f.Mean[i] *= factor
	}
	for _, row := range append(f.Quantiles, f.PeakQuantiles) {
		for i := range row {
			row[i] *= factor
		}
	}
}

// deepCopy copies what a planner could write to.
func deepCopy(in planning.Input) planning.Input {
	floats := func(xs []float64) []float64 {
		if xs == nil {
			return nil
		}
		return append([]float64{}, xs...)
	}
	in.Workload.Demand.Values = floats(in.Workload.Demand.Values)
	if s := in.Workload.Shape; s != nil {
		c := *s
		in.Workload.Shape = &c
	}
	if u := in.Workload.Usage; u != nil {
		c := *u
		in.Workload.Usage = &c
	}
	in.Pods = append([]api.Pod(nil), in.Pods...)
	foreseen := func(f *api.Forecast) *api.Forecast {
		if f == nil {
			return nil
		}
		c := *f
		c.Mean, c.Levels, c.PeakQuantiles = floats(f.Mean), floats(f.Levels), floats(f.PeakQuantiles)
		c.Quantiles = nil
		for _, row := range f.Quantiles {
			c.Quantiles = append(c.Quantiles, floats(row))
		}
		return &c
	}
	in.Forecast = foreseen(in.Forecast)
	in.Workload.Triggers = append([]api.Trigger(nil), in.Workload.Triggers...)
	in.Outlooks = append([]planning.Outlook(nil), in.Outlooks...)
	for i := range in.Outlooks {
		in.Outlooks[i].Forecast = foreseen(in.Outlooks[i].Forecast)
	}
	return in
}
