package score

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Phases of an experiment: without history, with a history, and with a switch of
// the policy.
const (
	Cold   = "cold"
	Warm   = "warm"
	Switch = "switch"
)

// Run is one scaler's outcome over one stretch of an experiment, in the terms
// of the command-line contract. What is undefined is null.
type Run struct {
	Scaler string `json:"scaler"`
	Seed   uint64 `json:"seed"`
	// Phase is cold, for a first pass without history, warm for passes after
	// others, or switch for the pass in which the policy changes.
	Phase string `json:"phase"`
	// Pass is the first pass that is in it.
	Pass int `json:"pass"`
	// Bound marks a bound on cost, which nothing was run for: all else is null
	// or 0.
	Bound               bool     `json:"bound,omitempty"`
	SLOViolationMinutes int      `json:"sloViolationMinutes"`
	SLOViolationRatio   *float64 `json:"sloViolationRatio"`
	// Objective is the share of minutes within the SLO that the policy promises;
	// kept when every workload is within it. Absent where no policy is known, as of
	// a bound.
	Objective          *float64 `json:"objective,omitempty"`
	ObjectiveKept      *bool    `json:"objectiveKept,omitempty"`
	P50Ms              *float64 `json:"p50Ms"`
	P95Ms              *float64 `json:"p95Ms"`
	P99Ms              *float64 `json:"p99Ms"`
	FailedRatio        *float64 `json:"failedRatio"`
	FailedRequests     uint64   `json:"failedRequests"`
	Requests           uint64   `json:"requests"`
	MeanCPUUtilization *float64 `json:"meanCpuUtilization"`
	PeakCPUUtilization *float64 `json:"peakCpuUtilization"`
	// Rollbacks of the whole plan, warm-up and all; absent where no SLO was given.
	Rollbacks         *int     `json:"rollbacks,omitempty"`
	MaxReplicas       int32    `json:"maxReplicas"`
	MeanReplicas      *float64 `json:"meanReplicas"`
	NodeHours         float64  `json:"nodeHours"`
	CostUSD           float64  `json:"costUsd"` // of the nodes
	PodCostUSD        float64  `json:"podCostUsd"`
	PendingPodSeconds float64  `json:"pendingPodSeconds"`
	PackingEfficiency *float64 `json:"packingEfficiency"`
	ScaleActions      int      `json:"scaleActions"`
	// PodStarts are pods that were made, for more replicas, a move, an eviction or a crash
	// alike.
	PodStarts        int     `json:"podStarts"`
	MinReadyPods     int32   `json:"minReadyPods"`
	SimulatedSeconds float64 `json:"simulatedSeconds"`
	WallSeconds      float64 `json:"wallSeconds"`
	// UnscheduledStretchSeconds is the longest stretch of time in which a pod had no
	// node, at any workload: no pod waited longer for one. Null without a record of it.
	UnscheduledStretchSeconds *float64 `json:"unscheduledStretchSeconds,omitempty"`
	// Resizes of pods in place.
	Resizes int `json:"resizes"`
	// OOMKills are containers that were ended for their memory.
	OOMKills int `json:"oomKills"`
	// ByWorkload has each of several workloads.
	ByWorkload []WorkloadRun `json:"byWorkload,omitempty"`
}

// WorkloadRun is a workload's part of a run.
type WorkloadRun struct {
	Name                string   `json:"name"`
	SLOViolationMinutes int      `json:"sloViolationMinutes"`
	Requests            uint64   `json:"requests"`
	FailedRequests      uint64   `json:"failedRequests"`
	P95Ms               *float64 `json:"p95Ms"`
	P99Ms               *float64 `json:"p99Ms"`
	MeanReplicas        *float64 `json:"meanReplicas"`
	PodCostUSD          float64  `json:"podCostUsd"`
	ScaleActions        int      `json:"scaleActions"`
	PodStarts           int      `json:"podStarts"`
}

// Metric is one figure of a run.
type Metric struct {
	Name   string // key in JSON
	Title  string // with its unit
	Format string
	Scale  float64 // from the JSON's unit to the title's
	Of     func(Run) float64
	// Ran is false for what a bound has too.
	Ran bool
	// Plain is shown without an interval.
	Plain bool
}

// Metrics of a run that are summed up over seeds.
var Metrics = []Metric{
	{"sloViolationMinutes", "SLO violated, min", "%.1f", 1, func(r Run) float64 { return float64(r.SLOViolationMinutes) }, true, false},
	{"sloViolationRatio", "SLO violated, %", "%.1f", 100, func(r Run) float64 { return orNaN(r.SLOViolationRatio) }, true, false},
	{"costUsd", "node cost, $", "%.4f", 1, func(r Run) float64 { return r.CostUSD }, false, false},
	{"podCostUsd", "pod cost, $", "%.4f", 1, func(r Run) float64 { return r.PodCostUSD }, true, false},
	{"p95Ms", "p95, ms", "%.0f", 1, func(r Run) float64 { return orNaN(r.P95Ms) }, true, false},
	{"p99Ms", "p99, ms", "%.0f", 1, func(r Run) float64 { return orNaN(r.P99Ms) }, true, false},
	{"failedRatio", "failed, %", "%.2f", 100, func(r Run) float64 { return orNaN(r.FailedRatio) }, true, false},
	{"meanCpuUtilization", "CPU mean, %", "%.0f", 100, func(r Run) float64 { return orNaN(r.MeanCPUUtilization) }, true, false},
	{"peakCpuUtilization", "CPU peak, %", "%.0f", 100, func(r Run) float64 { return orNaN(r.PeakCPUUtilization) }, true, false},
	{"meanReplicas", "replicas mean", "%.1f", 1, func(r Run) float64 { return orNaN(r.MeanReplicas) }, true, false},
	{"maxReplicas", "replicas max", "%.0f", 1, func(r Run) float64 { return float64(r.MaxReplicas) }, true, false},
	{"pendingPodSeconds", "pending pod-s", "%.0f", 1, func(r Run) float64 { return r.PendingPodSeconds }, true, false},
	{"packingEfficiency", "packing, %", "%.0f", 100, func(r Run) float64 { return orNaN(r.PackingEfficiency) }, true, false},
	{"scaleActions", "scalings", "%.0f", 1, func(r Run) float64 { return float64(r.ScaleActions) }, true, false},
	{"podStarts", "pods started", "%.0f", 1, func(r Run) float64 { return float64(r.PodStarts) }, true, false},
	{"objective", "objective, %", "%.2f", 100, func(r Run) float64 { return orNaN(r.Objective) }, true, true},
	{"objectiveKept", "kept, % of seeds", "%.0f", 100, keptShare, true, true},
	{"nodeHours", "node-hours", "%.2f", 1, func(r Run) float64 { return r.NodeHours }, true, false},
}

func keptShare(r Run) float64 {
	switch {
	case r.ObjectiveKept == nil:
		return math.NaN()
	case *r.ObjectiveKept:
		return 1
	}
	return 0
}

// Columns are the metrics that tables have room for, the others are in JSON.
func Columns() []Metric {
	var out []Metric
	for _, name := range []string{
		"sloViolationMinutes", "objective", "objectiveKept", "costUsd", "podCostUsd", "p95Ms", "p99Ms", "failedRatio", "meanCpuUtilization",
		"meanReplicas", "maxReplicas", "pendingPodSeconds", "packingEfficiency", "scaleActions",
	} {
		out = append(out, MetricNamed(name))
	}
	return out
}

// MetricNamed is the metric with that key.
func MetricNamed(name string) Metric {
	return Metrics[slices.IndexFunc(Metrics, func(m Metric) bool { return m.Name == name })]
}

func orNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// Interval is the mean of a figure over seeds with its 95 % interval by
// Student's t, which takes the seeds' figures for independent and normal. Low
// and high are null with fewer than two seeds.
type Interval struct {
	Mean *float64 `json:"mean"`
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
	N    int      `json:"n"`
}

// Confidence of intervals.
const Confidence = 0.95

// IntervalOf finite values; NaNs are left out.
func IntervalOf(values []float64) Interval {
	xs := slices.DeleteFunc(slices.Clone(values), func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
	if len(xs) == 0 {
		return Interval{}
	}
	if len(xs) == 1 {
		return Interval{Mean: &xs[0], N: 1}
	}
	mean, deviation := stat.MeanStdDev(xs, nil)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(len(xs) - 1)}.Quantile((1 + Confidence) / 2)
	half := t * deviation / math.Sqrt(float64(len(xs)))
	low, high := mean-half, mean+half
	return Interval{Mean: &mean, Low: &low, High: &high, N: len(xs)}
}

// Text of the interval: mean and half width.
func (i Interval) Text(m Metric) string {
	if i.Mean == nil {
		return "–"
	}
	text := fmt.Sprintf(m.Format, *i.Mean*m.Scale)
	if i.Low != nil && !m.Plain {
		text += " ± " + strings.TrimPrefix(fmt.Sprintf(m.Format, (*i.High-*i.Mean)*m.Scale), "+")
	}
	return text
}

// Half is half the interval's width, 0 when there is none.
func (i Interval) Half() float64 {
	if i.Low == nil {
		return 0
	}
	return *i.High - *i.Mean
}

// Summary is a scaler's figures over seeds.
type Summary struct {
	Scaler  string              `json:"scaler"`
	Phase   string              `json:"phase"`
	Bound   bool                `json:"bound,omitempty"`
	Metrics map[string]Interval `json:"metrics"`
}

// Summarize runs by scaler and phase, in the order in which they first come.
func Summarize(runs []Run) []Summary {
	type group struct{ scaler, phase string }
	var order []group
	members := map[group][]Run{}
	for _, r := range runs {
		g := group{r.Scaler, r.Phase}
		if members[g] == nil {
			order = append(order, g)
		}
		members[g] = append(members[g], r)
	}
	var out []Summary
	for _, g := range order {
		s := Summary{Scaler: g.scaler, Phase: g.phase, Bound: members[g][0].Bound, Metrics: map[string]Interval{}}
		for _, m := range Metrics {
			var values []float64
			for _, r := range members[g] {
				if m.Ran && r.Bound {
					continue
				}
				values = append(values, m.Of(r))
			}
			s.Metrics[m.Name] = IntervalOf(values)
		}
		out = append(out, s)
	}
	return out
}

// Mean of a metric, NaN when it is undefined.
func (s Summary) Mean(name string) float64 { return orNaN(s.Metrics[name].Mean) }

// AtEqualSLO is, for one scaler, the cheapest of others that violates the SLO in
// no more minutes on average; false when none does.
func AtEqualSLO(of Summary, others []Summary) (Summary, bool) {
	var fit []Summary
	for _, o := range others {
		if !o.Bound && o.Mean("sloViolationMinutes") <= of.Mean("sloViolationMinutes")+1e-9 {
			fit = append(fit, o)
		}
	}
	if len(fit) == 0 {
		return Summary{}, false
	}
	return slices.MinFunc(fit, func(a, b Summary) int { return cmp.Compare(a.Mean("costUsd"), b.Mean("costUsd")) }), true
}

// AtEqualCost is, for one scaler, the one of others that costs no more on average and
// violates the SLO in the fewest minutes, the cheapest of these; false when all cost more.
func AtEqualCost(of Summary, others []Summary) (Summary, bool) {
	var fit []Summary
	for _, o := range others {
		if !o.Bound && o.Mean("costUsd") <= of.Mean("costUsd")*(1+1e-9) {
			fit = append(fit, o)
		}
	}
	if len(fit) == 0 {
		return Summary{}, false
	}
	return slices.MinFunc(fit, func(a, b Summary) int {
		return cmp.Or(cmp.Compare(a.Mean("sloViolationMinutes"), b.Mean("sloViolationMinutes")), cmp.Compare(a.Mean("costUsd"), b.Mean("costUsd")))
	}), true
}

// Rival tells whether a scaler is one that mash2 is compared with, and the kind of
// mash2 that has the pools that it has.
func Rival(scaler string) (kind string, ok bool) {
	switch kind := Kind(scaler); kind {
	case "clairvoyant", "oracle":
		return "", false
	case "karpenter", "karpenter-vpa", "attune", "autopilot":
		return "mash2-any", true
	default:
		if strings.HasPrefix(kind, "mash2") {
			return "", false
		}
	}
	return "mash2", true
}

// Relative is how much more one scaler has of a metric than another, as a share
// of the other's: the mean over the seeds that both have, which gave them the
// same load, with its interval.
func Relative(runs []Run, scaler, to string, m Metric) Interval {
	of := func(name string) map[uint64]float64 {
		out := map[uint64]float64{}
		for _, r := range runs {
			if r.Scaler == name {
				out[r.Seed] = m.Of(r)
			}
		}
		return out
	}
	a, b := of(scaler), of(to)
	var ratios []float64
	for _, seed := range slices.Sorted(maps.Keys(a)) {
		if other, ok := b[seed]; ok && other != 0 {
			ratios = append(ratios, a[seed]/other-1)
		}
	}
	return IntervalOf(ratios)
}

// Percent is how a Relative is written.
var Percent = Metric{Title: "%", Format: "%+.0f %%", Scale: 100}
