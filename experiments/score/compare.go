package score

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mash2-io/mash2/experiments/report"
)

// Difference is how far the simulation of a scaler is from the real plane, in
// one figure over all passes, or over those of a phase.
type Difference struct {
	Scaler string `json:"scaler"`
	Phase  string `json:"phase,omitempty"`
	Name   string `json:"name"`
	Unit   string `json:"unit"`
	// Real over recordings and Simulated over seeds.
	Real      Interval `json:"real"`
	Simulated Interval `json:"simulated"`
	// Error is that of the simulated mean relative to the real one, null when
	// the latter is 0.
	Error *float64 `json:"error"`
	// Distance is the mean absolute difference of a real and a simulated time
	// series, in the figure's unit, bucket by bucket; null for sums. RealSpread
	// and SimulatedSpread are the same between two real or two simulated ones:
	// what chance alone makes.
	Distance        *float64 `json:"distance"`
	RealSpread      *float64 `json:"realSpread"`
	SimulatedSpread *float64 `json:"simulatedSpread"`
}

// Agreement is a Difference between the two fidelities of the simulation.
type Agreement struct {
	Scaler          string   `json:"scaler"`
	Phase           string   `json:"phase,omitempty"`
	Name            string   `json:"name"`
	Unit            string   `json:"unit"`
	Real            Interval `json:"request"`
	Simulated       Interval `json:"fluid"`
	Error           *float64 `json:"error"`
	Distance        *float64 `json:"distance"`
	RealSpread      *float64 `json:"requestSpread"`
	SimulatedSpread *float64 `json:"fluidSpread"`
}

// compared are the figures that are compared.
var compared = []struct {
	name, unit string
	series     func(joined) []float64 // time series, whose mean is compared
	sum        func(Run) float64      // or a figure of the whole, which is
}{
	{name: "replicas", unit: "pods", series: func(j joined) []float64 { return j.replicas }},
	{name: "CPU", unit: "cores", series: func(j joined) []float64 { return j.cores }},
	{name: "CPU utilisation", unit: "%", series: func(j joined) []float64 { return j.util }},
	{name: "requests", unit: "1/s", series: func(j joined) []float64 { return j.rps }},
	{name: "pending pods", unit: "pods", series: func(j joined) []float64 { return j.pending }},
	{name: "pending time", unit: "pod-s", sum: func(r Run) float64 { return r.PendingPodSeconds }},
	{name: "node cost", unit: "USD", sum: func(r Run) float64 { return r.CostUSD }},
	{name: "pod cost", unit: "USD", sum: func(r Run) float64 { return r.PodCostUSD }},
	{name: "SLO violated", unit: "min", sum: func(r Run) float64 { return float64(r.SLOViolationMinutes) }},
	{name: "p95", unit: "ms", sum: func(r Run) float64 { return orNaN(r.P95Ms) }, series: func(j joined) []float64 { return j.p95 }},
}

// Compare the simulations of one scaler, by seed, with what it did on a real
// plane, over the same passes.
func Compare(real, simulated []Outcome) ([]Difference, error) {
	if len(real) == 0 || len(simulated) == 0 {
		return nil, errors.New("nothing to compare")
	}
	first := real[0]
	all := func(outcomes []Outcome) (runs []Run, series []joined, err error) {
		for _, o := range outcomes {
			if o.PassSeconds != first.PassSeconds || o.WarmupPasses != first.WarmupPasses || o.Passes != first.Passes {
				return nil, nil, fmt.Errorf("%s: %d+%d passes of %g s cannot be compared with %d+%d of %g s",
					o.Scaler, o.WarmupPasses, o.Passes, o.PassSeconds, first.WarmupPasses, first.Passes, first.PassSeconds)
			}
			r, err := o.Run()
			if err != nil {
				return nil, nil, err
			}
			runs, series = append(runs, r), append(series, o.joined())
		}
		return runs, series, nil
	}
	realRuns, realSeries, err := all(real)
	if err != nil {
		return nil, err
	}
	runs, series, err := all(simulated)
	if err != nil {
		return nil, err
	}
	var out []Difference
	for _, c := range compared {
		d := Difference{Scaler: first.Scaler, Name: c.name, Unit: c.unit}
		values := func(runs []Run, series []joined) []float64 {
			var xs []float64
			for i := range runs {
				if c.sum != nil {
					xs = append(xs, c.sum(runs[i]))
				} else {
					xs = append(xs, mean(c.series(series[i])))
				}
			}
			return xs
		}
		d.Real, d.Simulated = IntervalOf(values(realRuns, realSeries)), IntervalOf(values(runs, series))
		if d.Real.Mean == nil || d.Simulated.Mean == nil {
			continue
		}
		d.setError()
		if c.series != nil {
			d.Distance = apart(c.series, realSeries, series, false)
			d.RealSpread = apart(c.series, realSeries, realSeries, true)
			d.SimulatedSpread = apart(c.series, series, series, true)
		}
		out = append(out, d)
	}
	return out, nil
}

func (d *Difference) setError() {
	if *d.Real.Mean != 0 {
		d.Error = Finite(*d.Simulated.Mean / *d.Real.Mean - 1)
	}
}

// comparedRuns are the figures that runs by pass are compared in.
var comparedRuns = []struct {
	metric, name, unit string
}{
	{"meanReplicas", "replicas", "pods"}, {"meanCpuUtilization", "CPU utilisation", "%"}, {"pendingPodSeconds", "pending time", "pod-s"},
	{"costUsd", "node cost", "USD"}, {"podCostUsd", "pod cost", "USD"}, {"sloViolationMinutes", "SLO violated", "min"}, {"p95Ms", "p95", "ms"},
}

// CompareRuns compares the runs by pass of one scaler's simulations, by seed, with
// those of its experiments on a real plane, phase by phase: of each experiment and
// of each seed the mean over the phase's passes counts.
func CompareRuns(real, simulated [][]Run) []Difference {
	var phases []string
	for _, runs := range real {
		for _, r := range runs {
			if !slices.Contains(phases, r.Phase) {
				phases = append(phases, r.Phase)
			}
		}
	}
	var out []Difference
	for _, phase := range phases {
		passes := map[int]bool{}
		for _, r := range real[0] {
			if r.Phase == phase {
				passes[r.Pass] = true
			}
		}
		for _, c := range comparedRuns {
			m := MetricNamed(c.metric)
			values := func(all [][]Run) Interval {
				var xs []float64
				for _, runs := range all {
					var of []float64
					for _, r := range runs {
						if passes[r.Pass] {
							of = append(of, m.Of(r)*m.Scale)
						}
					}
					xs = append(xs, mean(of))
				}
				return IntervalOf(xs)
			}
			d := Difference{Scaler: real[0][0].Scaler, Phase: phase, Name: c.name, Unit: c.unit, Real: values(real), Simulated: values(simulated)}
			if d.Real.Mean == nil || d.Simulated.Mean == nil {
				continue
			}
			d.setError()
			out = append(out, d)
		}
	}
	return out
}

// apart is the mean distance of all pairs, of different ones if both lists are
// the same; nil without any.
func apart(of func(joined) []float64, a, b []joined, same bool) *float64 {
	var all []float64
	for i := range a {
		for j := range b {
			if !same || j < i {
				all = append(all, distance(of(a[i]), of(b[j])))
			}
		}
	}
	return Finite(mean(all))
}

// mean of what is no NaN.
func mean(xs []float64) float64 {
	sum, n := 0.0, 0
	for _, x := range xs {
		if !math.IsNaN(x) {
			sum += x
			n++
		}
	}
	return sum / float64(n)
}

// distance is the mean absolute difference where both are defined.
func distance(a, b []float64) float64 {
	diffs := make([]float64, min(len(a), len(b)))
	for i := range diffs {
		diffs[i] = math.Abs(a[i] - b[i])
	}
	return mean(diffs)
}

// Finite is x, nil for what JSON has no number for.
func Finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// Planes are the names of two planes that are compared.
type Planes struct{ First, Second string }

// RealAndSimulated is a real plane and the simulation of it, Fidelities are the
// two of the simulation.
var (
	RealAndSimulated = Planes{"real", "simulated"}
	Fidelities       = Planes{"per request", "fluid"}
)

// DifferenceTable shows differences between two planes.
func DifferenceTable(all []Difference, planes Planes) report.Table {
	t := report.Table{
		Header: []string{"scaler", "figure", planes.First, planes.Second, "error", "distance", "within " + planes.First, "within " + planes.Second},
		Note: "Means over recordings and seeds, with 95 % intervals by Student's t where there are several. Error is of the means. Distance is the mean absolute difference of the time series by buckets of ten seconds; " +
			"within " + planes.First + " and within " + planes.Second + " is the same of two runs or seeds of each: what chance alone makes.",
	}
	number := func(v *float64, format string, scale float64) string {
		if v == nil {
			return "–"
		}
		return fmt.Sprintf(format, *v*scale)
	}
	for _, d := range all {
		format := "%.2f"
		switch {
		case d.Unit == "USD":
			format = "%.4f"
		case math.Abs(*d.Real.Mean) >= 100:
			format = "%.0f"
		}
		m := Metric{Format: format, Scale: 1}
		t.Rows = append(t.Rows, []string{
			strings.TrimSpace(d.Scaler + " " + d.Phase), d.Name + ", " + d.Unit, d.Real.Text(m), d.Simulated.Text(m),
			number(d.Error, "%+.0f %%", 100), number(d.Distance, format, 1), number(d.RealSpread, format, 1), number(d.SimulatedSpread, format, 1),
		})
	}
	return t
}

// ComparisonFigures put one plane, solid, beside the other, dashed, for each scaler
// in its colour.
func ComparisonFigures(real, simulated []Outcome, events []Event, planes Planes) ([]report.Figure, error) {
	over, _, err := Figures(real, events)
	if err != nil {
		return nil, err
	}
	other, _, err := Figures(simulated, nil)
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{
		"Load": true, "Replicas": true, "CPU utilisation": true, "Scheduling pressure": true,
		"Cumulative pod cost": true, "Cumulative node cost": true, "Response time, 95th percentile": true,
	}
	var out []report.Figure
	for _, f := range over {
		if !wanted[f.Title] {
			continue
		}
		var series []report.Series
		for _, s := range f.Series {
			s.Name += ", " + planes.First
			series = append(series, s)
		}
		for _, g := range other {
			if g.Title != f.Title {
				continue
			}
			for _, s := range g.Series {
				s.Name, s.Dash = s.Name+", "+planes.Second, 1
				series = append(series, s)
			}
		}
		f.Series = series
		out = append(out, f)
	}
	return out, nil
}
