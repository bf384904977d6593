package whatif

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/experiments/gkesim"
	"github.com/mash2-io/mash2/experiments/scenarios"
	"github.com/mash2-io/mash2/record"
)

// Recorded is what was done for the workload in the stretch, beside what would have been.
type Recorded struct {
	// MeanReplicas there were, over the time that cycles tell of, and how often the
	// target's replicas changed.
	MeanReplicas float64 `json:"meanReplicas"`
	Scalings     int     `json:"scalings"`
	// PlannedReplicas is the mean that mash2 planned, whether or not it was to write it.
	PlannedReplicas float64 `json:"plannedReplicas"`
	// Modes of the workload in that time, in order, without repetition.
	Modes []api.Mode `json:"modes"`
	// Policies in force in that time, in order, without repetition.
	Policies []string `json:"policies"`
	// Full is the share of the time in which pods used about all that their CPU limits let
	// them, so that demand is not known; nil where they have none.
	Full *float64 `json:"full,omitempty"`
}

// RecordsError is how far the simulation is from the records that it replays: what mash2
// planned then, and what it plans for the same demand in the simulation.
type RecordsError struct {
	Policy string `json:"policy"`
	// Planned and Simulated are mean replicas.
	Planned   float64 `json:"planned"`
	Simulated float64 `json:"simulated"`
	Error     float64 `json:"error"` // of Simulated, relative to Planned
}

// Sentence says it.
func (e RecordsError) Sentence() string {
	return fmt.Sprintf("error on these records: under %s mash2 planned %.1f replicas on average, in the simulation %.1f, %+.1f %%", e.Policy, e.Planned, e.Simulated, 100*e.Error)
}

// recordsError compares the simulation with records; nil where another policy or more than
// one was in force.
func (o *Result) recordsError() *RecordsError {
	r := o.Recorded
	if r == nil || len(r.Policies) != 1 || !slices.Contains(o.Policies, r.Policies[0]) || r.PlannedReplicas <= 0 {
		return nil
	}
	e := &RecordsError{Policy: r.Policies[0], Planned: r.PlannedReplicas, Simulated: o.of(r.Policies[0]).Mean("meanReplicas")}
	e.Error = e.Simulated/e.Planned - 1
	return e
}

// Sentence says it.
func (r Recorded) Sentence() string {
	text := fmt.Sprintf("meanwhile there were %.1f replicas on average, scaled %d times; mash2 planned %.1f, in mode %v", r.MeanReplicas, r.Scalings, r.PlannedReplicas, r.Modes)
	if r.Full != nil && *r.Full > 0 {
		text += fmt.Sprintf("; in %.1f %% of the time pods used about all that they may: demand was at least that, and what it was is not known", 100**r.Full)
	}
	return text
}

// referenceMachine is the one that demand in records is relative to.
const referenceMachine = "n2-standard-2"

// readRecords reads the history of one workload from an operator's records.
func (o *History) readRecords(ctx context.Context, given func(string) bool) (cpuHistory, error) {
	l, err := record.Open(os.DirFS(o.Records))
	if err != nil {
		return cpuHistory{}, inputf("--records %s: %w", o.Records, err)
	}
	last, err := l.At(time.Time{})
	if err != nil {
		return cpuHistory{}, inputf("--records %s: %w", o.Records, err)
	}
	step := o.Step
	if step == 0 {
		step = time.Minute
	}
	end, first := last.Cycle.Time.Truncate(step), l.Segments[0].Time.Truncate(step).Add(step)
	from, to, err := o.stretch(end, step)
	if err != nil {
		return cpuHistory{}, input(err)
	}
	switch {
	case to.After(end):
		return cpuHistory{}, inputf("--to %s is after %s, where the records end", o.To, end.Format(time.RFC3339))
	case from.Before(first) && (given("from") || !to.After(first)):
		return cpuHistory{}, inputf("--from %s is before %s, where the records begin", o.From, first.Format(time.RFC3339))
	case from.Before(first):
		from = first.Add(to.Sub(first) % max(step, time.Minute))
	}
	begin := from.Add(-time.Duration(o.Warm) * to.Sub(from))
	h := cpuHistory{
		source: fmt.Sprintf("%s in %s", o.Workload, o.Records), recorded: &Recorded{Modes: []api.Mode{}, Policies: []string{}},
		series: api.Series{Start: begin, Step: step, Values: make([]float64, int(to.Sub(begin)/step))},
	}
	counts, full := make([]int, len(h.series.Values)), make([]bool, len(h.series.Values))
	var did account
	unknown := ""
	for e, err := range l.Records(begin) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return h, err
		}
		if !e.Cycle.Time.Before(to) {
			break
		}
		w := workloadOf(e.Snapshot, o.Workload)
		if w == nil {
			continue
		}
		if v, at, ok := w.Demand.Last(); ok && v >= 0 {
			if i := int(at.Sub(begin) / step); !at.Before(begin) && i < len(counts) {
				h.series.Values[i] += v / 1000
				counts[i]++
				if most := mostUsed(*w); most > 0 {
					h.full = full
					full[i] = full[i] || v >= fullUse*most
				}
			}
		}
		h.bounds = [2]int32{w.MinReplicas, w.MaxReplicas}
		h.pools, h.boot, unknown = poolsOf(e.Record)
		if s := w.Shape; s != nil {
			h.shape = podShape{cpuRequest: float64(s.Requests.MilliCPU) / 1000, cpuLimit: float64(s.LimitCPU) / 1000, memoryRequest: float64(s.Requests.Memory)}
		}
		if !e.Cycle.Time.Before(from) && e.Cycle.Error == "" {
			did.add(e.Record, *w)
		}
	}
	found := false
	for i, n := range counts {
		if n == 0 {
			h.series.Values[i] = math.NaN()
			continue
		}
		h.series.Values[i] /= float64(n)
		found = true
	}
	if !found {
		return h, inputf("--workload %s: the records from %s to %s tell nothing of its demand", o.Workload, begin.Format(time.RFC3339), to.Format(time.RFC3339))
	}
	if unknown != "" {
		h.notes = append(h.notes, fmt.Sprintf("node pools and boots are not those of the records: machine type %s is not known here; --pool and --boot say others", unknown))
	}
	*h.recorded = did.sum()
	if err := o.cut(&h, from, to); err != nil {
		return h, err
	}
	if h.full != nil {
		h.recorded.Full = new(h.fullShare(h.warm))
	}
	return h, nil
}

// fullUse is the share of what pods may use, over a minute, from which on they may not have
// done all that they were asked for. Below it what a limit held back for a moment is done
// later in the minute.
const fullUse = 0.95

// mostUsed is what all pods of a workload may use together, reference millicores; 0 where
// there is no limit, or it is not known. Pods with an agent may use what that gave them.
func mostUsed(w api.Workload) float64 {
	if w.Shape == nil || w.ReadyReplicas == 0 || !(w.SpeedNow > 0) {
		return 0
	}
	most, others := 0.0, int(w.ReadyReplicas)
	if w.Agents != nil {
		if w.Agents.State == nil {
			return 0
		}
		for _, p := range w.Agents.State.Pods {
			most += float64(p.Limit)
			others--
		}
	}
	if others > 0 {
		if w.Shape.LimitCPU == 0 {
			return 0
		}
		most += float64(w.Shape.LimitCPU) * float64(others)
	}
	return most * w.SpeedNow
}

// poolsOf are the pools of a record that mash2 may resize, those of COST_SAVING first and
// those of PERFORMANCE last, as mash2 whatif gives pools to policies, and the median time
// that their nodes take.
// A machine type that is not known here makes it none, and is returned.
func poolsOf(r api.Record) (out []scenarios.Pool, boot time.Duration, unknown string) {
	policies := r.Spec.Policies
	rank := func(pool string) int {
		switch {
		case slices.Contains(policies[api.CostSaving].NodePools, pool):
			return 0
		case slices.Contains(policies[api.Performance].NodePools, pool):
			return 2
		}
		return 1
	}
	var boots []time.Duration
	for _, p := range r.Snapshot.Pools {
		if p.Autoscaled {
			continue
		}
		if _, known := gkesim.Machines[p.MachineType]; !known || len(p.Zones) == 0 {
			return nil, 0, p.MachineType
		}
		pool := scenarios.Pool{Name: p.Name, MachineType: p.MachineType, Zones: p.Zones, NodesPerZone: scenarios.Bounds{Min: p.MinPerZone, Max: p.MaxPerZone}}
		if p.NodeStartup.Samples > 0 {
			pool.BootMedian.Duration = p.NodeStartup.P50.Round(time.Second)
			boots = append(boots, pool.BootMedian.Duration)
		}
		out = append(out, pool)
	}
	slices.SortStableFunc(out, func(a, b scenarios.Pool) int { return rank(a.Name) - rank(b.Name) })
	if len(boots) > 0 {
		slices.Sort(boots)
		boot = max(boots[len(boots)/2], time.Second)
	}
	return out, boot, ""
}

func workloadOf(s api.Snapshot, name string) *api.Workload {
	for i := range s.Workloads {
		if s.Workloads[i].Key.String() == name {
			return &s.Workloads[i]
		}
	}
	return nil
}

// account adds up what was done.
type account struct {
	out              Recorded
	at               time.Time
	replicas, wanted int32
	seconds          float64
}

func (a *account) add(r api.Record, w api.Workload) {
	if !a.at.IsZero() {
		d := r.Cycle.Time.Sub(a.at).Seconds()
		a.seconds += d
		a.out.MeanReplicas += d * float64(a.replicas)
		a.out.PlannedReplicas += d * float64(a.wanted)
		if w.Replicas != a.replicas {
			a.out.Scalings++
		}
	}
	a.at, a.replicas, a.wanted = r.Cycle.Time, w.Replicas, w.Replicas
	for _, p := range r.Cycle.Plan.Workloads {
		if p.Key == w.Key {
			a.wanted = p.Replicas
		}
	}
	if n := len(a.out.Policies); n == 0 || a.out.Policies[n-1] != r.Cycle.Policy.Name {
		a.out.Policies = append(a.out.Policies, r.Cycle.Policy.Name)
	}
	if n := len(a.out.Modes); n == 0 || a.out.Modes[n-1] != w.Mode {
		a.out.Modes = append(a.out.Modes, w.Mode)
	}
}

func (a *account) sum() Recorded {
	if a.seconds > 0 {
		a.out.MeanReplicas /= a.seconds
		a.out.PlannedReplicas /= a.seconds
	}
	if a.out.Modes == nil {
		a.out.Modes = []api.Mode{}
	}
	if a.out.Policies == nil {
		a.out.Policies = []string{}
	}
	return a.out
}
