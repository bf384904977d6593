package score

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/report"
)

// axis is the unit of time that suits a length in seconds.
func axis(seconds float64) (unit float64, label string) {
	switch {
	case seconds <= 4*3600:
		return 60, "scenario time, min"
	case seconds <= 4*24*3600:
		return 3600, "scenario time, h"
	}
	return 24 * 3600, "scenario time, days"
}

// Marks at times in seconds, for Figures of outcomes of that length.
func (o Outcome) mark(at float64, name string) report.Mark {
	unit, _ := axis(o.end())
	return report.Mark{X: at / unit, Name: name}
}

func (o Outcome) end() float64 { return float64(o.WarmupPasses+o.Passes) * o.PassSeconds }

// Event is something that happened at a scenario time in seconds.
type Event struct {
	At   float64 `json:"at"`
	Name string  `json:"name"`
}

// joined are the sums over a scaler's workloads, by bucket.
type joined struct {
	at, seconds                                              []float64
	cores, ready, replicas, pending, podCost, rps, p95, util []float64
}

func (o Outcome) joined() joined {
	var j joined
	n := 0
	for _, w := range o.Workloads {
		n = max(n, len(w.Buckets))
	}
	for _, to := range []*[]float64{&j.at, &j.seconds, &j.cores, &j.ready, &j.replicas, &j.pending, &j.podCost, &j.rps, &j.p95, &j.util} {
		*to = make([]float64, n)
	}
	for i := range n {
		j.p95[i] = math.NaN()
		for _, w := range o.Workloads {
			if i >= len(w.Buckets) {
				continue
			}
			b := w.Buckets[i]
			j.at[i], j.seconds[i] = b.Start+b.Seconds/2, b.Seconds
			j.cores[i] += b.CPUCores
			j.ready[i] += b.ReadyCores
			j.replicas[i] += b.Replicas
			j.pending[i] += b.PendingPodSeconds / b.Seconds
			j.podCost[i] += b.PodCostUSD
			j.rps[i] += b.RPS
			if b.P95Ms != nil && !(*b.P95Ms <= j.p95[i]) {
				j.p95[i] = *b.P95Ms
			}
		}
		j.util[i] = 100 * orNaN(ratio(j.cores[i], j.ready[i]))
	}
	return j
}

// Figures are those of the MAS-H² paper (figures 3 to 6) over scenario time, one
// line per outcome, and its pair plots. Outcomes must be of one scenario.
func Figures(outcomes []Outcome, events []Event) (over, pairs []report.Figure, err error) {
	outcomes = slices.DeleteFunc(slices.Clone(outcomes), func(o Outcome) bool { return len(o.Workloads) == 0 })
	if len(outcomes) == 0 {
		return nil, nil, nil
	}
	unit, xlabel := axis(outcomes[0].end())
	f := newFigures(unit, xlabel)
	var clouds []cloud
	for i, o := range outcomes {
		c, err := f.add(o, i)
		if err != nil {
			return nil, nil, err
		}
		clouds = append(clouds, c)
	}
	for _, f := range append(f.all(), planned(outcomes, unit, xlabel)...) {
		for _, e := range events {
			f.Marks = append(f.Marks, outcomes[0].mark(e.At, e.Name))
		}
		if warm := float64(outcomes[0].WarmupPasses) * outcomes[0].PassSeconds; warm > 0 {
			f.Marks = append(f.Marks, outcomes[0].mark(warm, "measured from here"))
		}
		if hasPoints(*f) {
			over = append(over, *f)
		}
	}
	return over, pairsOf(clouds), nil
}

// figures are those over time.
type figures struct {
	unit float64 // of time, in seconds

	demand, replicas, cpu, infra, latency, pending, podCost, nodeCost, waste, packing *report.Figure
}

func newFigures(unit float64, xlabel string) figures {
	figure := func(title, y, note string) *report.Figure {
		return &report.Figure{Title: title, XLabel: xlabel, YLabel: y, Note: note}
	}
	return figures{
		unit:     unit,
		demand:   figure("Load", "requests per second", "Requests that ended: users who wait send fewer."),
		replicas: figure("Replicas", "pods", ""),
		cpu:      figure("CPU utilisation", "% of Ready pods' requests", ""),
		infra:    figure("Infrastructure by pool", "Ready nodes", ""),
		latency:  figure("Response time, 95th percentile", "ms", ""),
		pending:  figure("Scheduling pressure", "pending pods", ""),
		podCost:  figure("Cumulative pod cost", "USD", ""),
		nodeCost: figure("Cumulative node cost", "USD", "From boot request to deletion."),
		waste:    figure("CPU waste", "idle requested cores", "Requested by Ready pods and not used."),
		packing:  figure("Node packing efficiency", "% of allocatable", "Requested over allocatable of Ready nodes, of the resource that is requested most."),
	}
}

// all are in the order of a report.
func (f figures) all() []*report.Figure {
	return []*report.Figure{f.demand, f.replicas, f.cpu, f.infra, f.pending, f.podCost, f.nodeCost, f.waste, f.packing, f.latency}
}

// add draws an outcome, and returns its points for pair plots.
func (f figures) add(o Outcome, color int) (cloud, error) {
	j := o.joined()
	x := scaled(j.at, 1/f.unit)
	add := func(f *report.Figure, x, y []float64) {
		f.Series = append(f.Series, report.Series{Name: o.Scaler, X: x, Y: y, Color: color})
	}
	unused := make([]float64, len(x))
	total, costs := 0.0, make([]float64, len(x))
	for k := range x {
		unused[k] = max(0, j.ready[k]-j.cores[k])
		total += j.podCost[k]
		costs[k] = total
	}
	add(f.demand, x, j.rps)
	add(f.cpu, x, j.util)
	add(f.latency, x, j.p95)
	add(f.waste, x, unused)
	add(f.podCost, x, costs)
	rx, ry := o.stairs(f.unit, func(w load.WorkloadResult, s int) float64 { return float64(w.Steps[s].Replicas) }, j.replicas, x)
	add(f.replicas, rx, ry)
	px, py := o.stairs(f.unit, func(w load.WorkloadResult, s int) float64 { return float64(w.Steps[s].Pending) }, j.pending, x)
	add(f.pending, px, py)
	f.infra.Series = append(f.infra.Series, o.poolSizes(j.at, f.unit, color)...)
	nodes, efficiency := o.packed(j.at)
	add(f.packing, x, efficiency)
	s, err := o.cumulativeNodeCost(f.unit)
	if err != nil {
		return cloud{}, err
	}
	s.Color = color
	f.nodeCost.Series = append(f.nodeCost.Series, s)
	return cloud{o.Scaler, map[string][]float64{
		"replicas": j.replicas, "nodes": nodes, "CPU, %": j.util, "waste, cores": unused, "p95, ms": j.p95,
	}}, nil
}

// poolSizes are the stairs of each pool that had a Ready node in a bucket around one
// of these times.
func (o Outcome) poolSizes(at []float64, unit float64, color int) []report.Series {
	var out []report.Series
	for _, p := range o.Pools {
		used := slices.ContainsFunc(p.Buckets, func(b load.PoolBucket) bool {
			_, ok := slices.BinarySearch(at, b.Start+b.Seconds/2)
			return ok && b.ReadyNodes > 0
		})
		if p.Name == "" || !used {
			continue
		}
		s := report.Series{Name: o.Scaler + ": " + shortPool(p.Name), Color: color, Dash: len(out)}
		for n, step := range p.Steps {
			at := step.At.Seconds() / unit
			if n > 0 {
				s.X, s.Y = append(s.X, at), append(s.Y, float64(p.Steps[n-1].Ready))
			}
			s.X, s.Y = append(s.X, at), append(s.Y, float64(step.Ready))
		}
		if n := len(p.Steps); n > 0 {
			s.X, s.Y = append(s.X, o.end()/unit), append(s.Y, float64(p.Steps[n-1].Ready))
		}
		out = append(out, s)
	}
	return out
}

// packed are the Ready nodes of all pools and their packing efficiency, in %, in the
// buckets around these times.
func (o Outcome) packed(at []float64) (nodes, efficiency []float64) {
	nodes, efficiency = make([]float64, len(at)), make([]float64, len(at))
	weights := make([]float64, len(at))
	for _, p := range o.Pools {
		for _, b := range p.Buckets {
			// A pool's begin when it has its first node.
			if k, ok := slices.BinarySearch(at, b.Start+b.Seconds/2); ok {
				nodes[k] += b.ReadyNodes
				efficiency[k] += b.PackingEfficiency * b.AllocatableCores
				weights[k] += b.AllocatableCores
			}
		}
	}
	for k := range efficiency {
		efficiency[k] = 100 * orNaN(ratio(efficiency[k], weights[k]))
	}
	return nodes, efficiency
}

// cloud are the points of an outcome, by axis.
type cloud struct {
	name   string
	values map[string][]float64
}

// pairsOf plots each axis by each of those before it.
func pairsOf(clouds []cloud) (pairs []report.Figure) {
	axes := []string{"replicas", "nodes", "CPU, %", "waste, cores", "p95, ms"}
	for i := range axes {
		for j := range i {
			f := report.Figure{Title: axes[i] + " by " + axes[j], XLabel: axes[j], YLabel: axes[i], Scatter: true, Small: true}
			for k, c := range clouds {
				f.Series = append(f.Series, report.Series{Name: c.name, X: c.values[axes[j]], Y: c.values[axes[i]], Color: k})
			}
			if hasPoints(f) {
				pairs = append(pairs, f)
			}
		}
	}
	return pairs
}

// shortPool is a pool's name without what says that it is one.
func shortPool(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, "-pool"), "-node")
}

// stairs are the steps of a single workload, or the means by bucket of several.
func (o Outcome) stairs(unit float64, value func(w load.WorkloadResult, step int) float64, mean, x []float64) (xs, ys []float64) {
	if len(o.Workloads) != 1 {
		return x, mean
	}
	w := o.Workloads[0]
	for s := range w.Steps {
		at := w.Steps[s].At.Seconds() / unit
		if s > 0 {
			xs, ys = append(xs, at), append(ys, value(w, s-1))
		}
		xs, ys = append(xs, at), append(ys, value(w, s))
	}
	if n := len(w.Steps); n > 0 {
		xs, ys = append(xs, o.end()/unit), append(ys, value(w, n-1))
	}
	return xs, ys
}

// planned compares demand with what was forecast, for each workload that has
// plans.
func planned(outcomes []Outcome, unit float64, xlabel string) []*report.Figure {
	var out []*report.Figure
	for _, o := range outcomes {
		byName := map[string]*report.Figure{}
		for _, p := range o.Plans {
			f := byName[p.Workload]
			if f == nil {
				title := "Demand, and the peak that " + o.Scaler + " planned for"
				if len(o.Workloads) > 1 {
					title += ": " + p.Workload
				}
				f = &report.Figure{Title: title, XLabel: xlabel, YLabel: "reference cores",
					Note:   "The planned peak is the policy's quantile of the coming horizon; where it is missing the plan is reactive.",
					Series: []report.Series{{Name: "demand"}, {Name: "planned peak", Color: 1, Dash: 1}}}
				byName[p.Workload] = f
				if len(out) < 4 {
					out = append(out, f)
				}
			}
			for i, y := range []*float64{p.Demand, p.Peak} {
				f.Series[i].X, f.Series[i].Y = append(f.Series[i].X, p.At/unit), append(f.Series[i].Y, orNaN(y))
			}
		}
	}
	return out
}

// cumulativeNodeCost is the paid time of the nodes from the beginning.
func (o Outcome) cumulativeNodeCost(unit float64) (report.Series, error) {
	s := report.Series{Name: o.Scaler}
	const points = 400
	perSecond := make([]float64, len(o.Nodes))
	for i, n := range o.Nodes {
		price, err := n.price()
		if err != nil {
			return s, err
		}
		perSecond[i] = price / 3600
	}
	for k := range points + 1 {
		at := o.end() * float64(k) / points
		usd := 0.0
		for i, n := range o.Nodes {
			end := at
			if n.Deleted != nil {
				end = min(end, *n.Deleted)
			}
			usd += max(0, end-max(0, n.Requested)) * perSecond[i]
		}
		s.X, s.Y = append(s.X, at/unit), append(s.Y, usd)
	}
	return s, nil
}

// Pareto plots cost against violations of the SLO, with intervals. The swept
// targets of the HPA are joined.
func Pareto(summaries []Summary) report.Figure {
	f := report.Figure{Title: "Cost and quality", XLabel: "node cost, USD", YLabel: "minutes in violation, %",
		Note: "Lower and further to the left is better. Bars are 95 % intervals over seeds. A bound is on cost alone, at no violation."}
	kinds := map[string]int{} // where in f.Series
	for _, s := range summaries {
		cost, violated := s.Metrics["costUsd"], s.Metrics["sloViolationRatio"]
		if cost.Mean == nil {
			continue
		}
		y, half := 0.0, 0.0
		if violated.Mean != nil {
			y, half = 100**violated.Mean, 100*violated.Half()
		}
		kind := Kind(s.Scaler)
		i, ok := kinds[kind]
		if !ok {
			i = len(f.Series)
			kinds[kind] = i
			f.Series = append(f.Series, report.Series{Name: s.Scaler, Color: i})
		}
		line := &f.Series[i]
		if len(line.X) > 0 {
			line.Name = kind + ", by target"
		}
		line.X, line.Y = append(line.X, *cost.Mean), append(line.Y, y)
		line.XHalf, line.YHalf = append(line.XHalf, cost.Half()), append(line.YHalf, half)
		line.Labels = append(line.Labels, s.Scaler)
	}
	for i := range f.Series {
		inOrder(&f.Series[i])
	}
	return f
}

// inOrder sorts a sweep's points by cost, so that they make one line.
func inOrder(s *report.Series) {
	order := make([]int, len(s.X))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.X[a], s.X[b]) })
	pick := func(xs []float64) []float64 {
		out := make([]float64, len(xs))
		for i, k := range order {
			out[i] = xs[k]
		}
		return out
	}
	labels := make([]string, len(order))
	for i, k := range order {
		labels[i] = s.Labels[k]
	}
	s.X, s.Y, s.XHalf, s.YHalf, s.Labels = pick(s.X), pick(s.Y), pick(s.XHalf), pick(s.YHalf), labels
}

// Kind of a scaler: what is before its parameter.
func Kind(scaler string) string {
	kind, _, _ := strings.Cut(scaler, ":")
	return kind
}

func hasPoints(f report.Figure) bool {
	for _, s := range f.Series {
		for i := range s.X {
			if !math.IsNaN(s.X[i]) && !math.IsNaN(s.Y[i]) {
				return true
			}
		}
	}
	return false
}

func scaled(xs []float64, by float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = x * by
	}
	return out
}
