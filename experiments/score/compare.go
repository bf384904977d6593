package score

import (
	"errors"
	"fmt"
	"math"

	"github.com/mash2-io/mash2/experiments/report"
)

// Difference is how far the simulation of a scaler is from the real plane, in
// one figure over all passes.
type Difference struct {
	Scaler string `json:"scaler"`
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

// compared are the figures that are compared.
var compared = []struct {
	name, unit string
	series     func(joined) []float64 // time series, whose mean is compared
	sum        func(Run) float64      // or a sum
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
	{name: "p95", unit: "ms", sum: func(r Run) float64 { return orNaN(r.P95Ms) }},
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
		if *d.Real.Mean != 0 {
			d.Error = finite(*d.Simulated.Mean / *d.Real.Mean - 1)
		}
		if c.series != nil {
			d.Distance = apart(c.series, realSeries, series, false)
			d.RealSpread = apart(c.series, realSeries, realSeries, true)
			d.SimulatedSpread = apart(c.series, series, series, true)
		}
		out = append(out, d)
	}
	return out, nil
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
	return finite(mean(all))
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

func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// DifferenceTable shows differences.
func DifferenceTable(all []Difference) report.Table {
	t := report.Table{
		Header: []string{"scaler", "figure", "real", "simulated", "error", "distance", "between real runs", "between seeds"},
		Note: "Means over recordings and over seeds, with 95 % intervals by Student's t where there are several. Error is of the means. Distance is the mean absolute difference of the time series by buckets of ten seconds; " +
			"between real runs and between seeds is the same of each plane from itself: what chance alone makes.",
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
			d.Scaler, d.Name + ", " + d.Unit, d.Real.Text(m), d.Simulated.Text(m),
			number(d.Error, "%+.0f %%", 100), number(d.Distance, format, 1), number(d.RealSpread, format, 1), number(d.SimulatedSpread, format, 1),
		})
	}
	return t
}

// ComparisonFigures put the real plane, solid, beside one simulation of it,
// dashed, for each scaler in its colour.
func ComparisonFigures(real, simulated []Outcome, events []Event) ([]report.Figure, error) {
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
		"Cumulative pod cost": true, "Cumulative node cost": true,
	}
	var out []report.Figure
	for _, f := range over {
		if !wanted[f.Title] {
			continue
		}
		var series []report.Series
		for _, s := range f.Series {
			s.Name += ", real"
			series = append(series, s)
		}
		for _, g := range other {
			if g.Title != f.Title {
				continue
			}
			for _, s := range g.Series {
				s.Name, s.Dash = s.Name+", simulated", 1
				series = append(series, s)
			}
		}
		f.Series = series
		out = append(out, f)
	}
	return out, nil
}
