package testbed

import (
	"fmt"
	"math"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/gke"
	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/report"
)

// View is one scaler's run, to be drawn.
type View struct {
	Name     string
	Workload load.WorkloadResult
	// Request of a pod, cores.
	Request float64
	// NodeCost is what its nodes have cost so far, USD, over minutes.
	NodeCost report.Series
}

// Figures are those of the MAS-H² paper (figures 3 to 6), over scenario time in
// minutes, one line per scaler.
func (t *Testbed) Figures(r load.Results, cycles []api.Cycle, marks []report.Mark) (figures, pairs []report.Figure, err error) {
	var views []View
	for _, w := range r.Workloads {
		end := 0.0
		for _, b := range w.Buckets {
			end = max(end, (b.Start+b.Seconds)/60)
		}
		cost, err := t.cumulativeNodeCost(w.Namespace, end, r.Speed)
		if err != nil {
			return nil, nil, err
		}
		views = append(views, View{
			Name: w.Namespace, Workload: w, Request: t.options.Scenario.Workload.CPU.Request.AsApproximateFloat64(), NodeCost: cost,
		})
	}
	figures, pairs = Draw(views, r.Pools, marks)
	for _, f := range []report.Figure{
		DemandFigure(cycles, t.minutes), PackingFigure(cycles, t.minutes),
	} {
		if hasPoints(f) {
			f.XLabel, f.Marks = timeLabel, marks
			figures = append(figures, f)
		}
	}
	return figures, pairs, nil
}

const timeLabel = "scenario time, min"

// Draw makes the figures that need nothing but results, and the pair plots.
// Pools may be those of several runs, told apart by their names.
func Draw(views []View, pools []load.PoolResult, marks []report.Mark) (figures, pairs []report.Figure) {
	replicas := report.Figure{Title: "Replicas", YLabel: "pods"}
	cpu := report.Figure{Title: "CPU utilisation", YLabel: "% of requests of Ready pods"}
	latency := report.Figure{Title: "Response time, 95th percentile", YLabel: "ms"}
	pending := report.Figure{Title: "Scheduling pressure", YLabel: "pending pods"}
	podCost := report.Figure{Title: "Cumulative pod cost", YLabel: "USD"}
	nodeCosts := report.Figure{Title: "Cumulative node cost", YLabel: "USD"}
	waste := report.Figure{Title: "CPU waste", YLabel: "requested but unused cores"}
	infra := report.Figure{Title: "Infrastructure by pool", YLabel: "Ready nodes"}
	end := 0.0
	var scatter []map[string][]float64
	for i, v := range views {
		w := v.Workload
		n := len(w.Buckets)
		x, p95, costs, util, unused, mean := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
		total := 0.0
		for j, b := range w.Buckets {
			x[j] = (b.Start + b.Seconds/2) / 60
			end = max(end, (b.Start+b.Seconds)/60)
			mean[j] = b.Replicas
			p95[j], util[j] = orNaN(b.P95Ms), 100*orNaN(b.Utilization)
			total += b.PodCostUSD
			costs[j] = total
			unused[j] = max(0, b.ReadyPods*v.Request-b.CPUCores)
		}
		series := func(y []float64) report.Series { return report.Series{Name: v.Name, X: x, Y: y, Color: i} }
		cpu.Series = append(cpu.Series, series(util))
		latency.Series = append(latency.Series, series(p95))
		podCost.Series = append(podCost.Series, series(costs))
		waste.Series = append(waste.Series, series(unused))
		stairs := func(y func(s int) float64) report.Series {
			out := report.Series{Name: v.Name, Color: i}
			for j := range w.Steps {
				at := w.Steps[j].At.Minutes()
				if j > 0 {
					out.X, out.Y = append(out.X, at), append(out.Y, y(j-1))
				}
				out.X, out.Y = append(out.X, at), append(out.Y, y(j))
			}
			if k := len(w.Steps); k > 0 {
				out.X, out.Y = append(out.X, end), append(out.Y, y(k-1))
			}
			return out
		}
		replicas.Series = append(replicas.Series, stairs(func(s int) float64 { return float64(w.Steps[s].Replicas) }))
		pending.Series = append(pending.Series, stairs(func(s int) float64 { return float64(w.Steps[s].Pending) }))
		v.NodeCost.Name, v.NodeCost.Color = v.Name, i
		nodeCosts.Series = append(nodeCosts.Series, v.NodeCost)
		scatter = append(scatter, map[string][]float64{"replicas": mean, "CPU %": util, "waste, cores": unused, "p95, ms": p95})
	}
	for i, p := range pools {
		if p.Name == "" {
			continue
		}
		s := report.Series{Name: p.Name, Color: i}
		for j, step := range p.Steps {
			if j > 0 {
				s.X, s.Y = append(s.X, step.At.Minutes()), append(s.Y, float64(p.Steps[j-1].Ready))
			}
			s.X, s.Y = append(s.X, step.At.Minutes()), append(s.Y, float64(step.Ready))
		}
		if n := len(p.Steps); n > 0 {
			s.X, s.Y = append(s.X, end), append(s.Y, float64(p.Steps[n-1].Ready))
		}
		infra.Series = append(infra.Series, s)
	}
	for _, f := range []report.Figure{replicas, cpu, infra, latency, pending, podCost, nodeCosts, waste} {
		if hasPoints(f) {
			f.XLabel, f.Marks = timeLabel, marks
			figures = append(figures, f)
		}
	}
	axes := []string{"replicas", "CPU %", "waste, cores", "p95, ms"}
	for i := range axes {
		for j := range i {
			f := report.Figure{Title: axes[i] + " by " + axes[j], XLabel: axes[j], YLabel: axes[i], Scatter: true, Small: true}
			for k, values := range scatter {
				f.Series = append(f.Series, report.Series{Name: views[k].Name, X: values[axes[j]], Y: values[axes[i]], Color: k})
			}
			if hasPoints(f) {
				pairs = append(pairs, f)
			}
		}
	}
	return figures, pairs
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

func orNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func (t *Testbed) minutes(at time.Time) float64 { return t.Load.ScenarioTime(at).Minutes() }

// DemandFigure compares demand with what was forecast for its time, as the
// records have it.
func DemandFigure(cycles []api.Cycle, minutes func(time.Time) float64) report.Figure {
	f := report.Figure{Title: "Demand, and the peak planned for", YLabel: "reference cores",
		Note: "The planned peak is the policy's quantile of the coming horizon; where it is missing the plan is reactive."}
	actual := report.Series{Name: "demand", Color: 0}
	peak := report.Series{Name: "planned peak", Color: 1, Dashed: true}
	for _, c := range cycles {
		x := minutes(c.Time)
		for i, w := range c.Plan.Workloads {
			if x <= 0 || i >= len(c.Workloads) || c.Workloads[i].Demand < 0 {
				continue
			}
			actual.X, actual.Y = append(actual.X, x), append(actual.Y, c.Workloads[i].Demand/1000)
			value := math.NaN()
			if w.Forecast != nil && w.PeakDemand >= 0 {
				value = w.PeakDemand / 1000
			}
			peak.X, peak.Y = append(peak.X, x), append(peak.Y, value)
		}
	}
	f.Series = []report.Series{actual, peak}
	return f
}

// PackingFigure is how full planned nodes are, as the records have it.
func PackingFigure(cycles []api.Cycle, minutes func(time.Time) float64) report.Figure {
	s := report.Series{Name: Mash2, Color: 0}
	for _, c := range cycles {
		if x := minutes(c.Time); x > 0 && c.Plan.Nodes.PackingEfficiency > 0 {
			s.X, s.Y = append(s.X, x), append(s.Y, 100*c.Plan.Nodes.PackingEfficiency)
		}
	}
	return report.Figure{Title: "Node packing efficiency, as planned", YLabel: "% of allocatable requested", Series: []report.Series{s}}
}

// cumulativeNodeCost is the paid time of a scaler's nodes from the beginning,
// in USD of scenario time.
func (t *Testbed) cumulativeNodeCost(scaler string, end, speed float64) (report.Series, error) {
	pools := t.poolsOf(scaler)
	out := report.Series{Name: scaler}
	begin, ok := t.Load.WallTime(0)
	if !ok {
		return out, fmt.Errorf("the load has not begun")
	}
	ledger := t.GKE.Ledger()
	for _, l := range ledger {
		if _, ok := gke.LookupMachineType(l.MachineType); pools[l.Pool] && !ok {
			return out, fmt.Errorf("no price is known of machine type %s", l.MachineType)
		}
	}
	const points = 200
	for i := range points + 1 {
		x := end * float64(i) / points
		at, _ := t.Load.WallTime(time.Duration(x * float64(time.Minute)))
		_, usd, err := nodeCost(ledger, pools, begin, at, at, speed)
		if err != nil {
			return out, err
		}
		out.X, out.Y = append(out.X, x), append(out.Y, usd)
	}
	return out, nil
}
