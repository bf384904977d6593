package testbed

import (
	"fmt"
	"math"
	"time"

	"github.com/mash2-io/mash2/execution/gke"
	"github.com/mash2-io/mash2/experiments/gkesim"
	"github.com/mash2-io/mash2/experiments/load"
)

// Run is one scaler's outcome over one stretch of the experiment, in the terms
// of the command-line contract. What is undefined is null.
type Run struct {
	Scaler string `json:"scaler"`
	Seed   uint64 `json:"seed"`
	// Phase is cold, for a first pass without history, warm for a pass after
	// others, or switch for the pass in which the policy changes.
	Phase               string   `json:"phase"`
	Pass                int      `json:"pass"`
	SLOViolationMinutes int      `json:"sloViolationMinutes"`
	SLOViolationRatio   *float64 `json:"sloViolationRatio"`
	P50Ms               *float64 `json:"p50Ms"`
	P95Ms               *float64 `json:"p95Ms"`
	P99Ms               *float64 `json:"p99Ms"`
	FailedRatio         *float64 `json:"failedRatio"`
	FailedRequests      uint64   `json:"failedRequests"`
	Requests            uint64   `json:"requests"`
	MeanCPUUtilization  *float64 `json:"meanCpuUtilization"`
	PeakCPUUtilization  *float64 `json:"peakCpuUtilization"`
	MaxReplicas         int32    `json:"maxReplicas"`
	MeanReplicas        *float64 `json:"meanReplicas"`
	NodeHours           float64  `json:"nodeHours"`
	CostUSD             float64  `json:"costUsd"` // of the nodes
	PodCostUSD          float64  `json:"podCostUsd"`
	PendingPodSeconds   float64  `json:"pendingPodSeconds"`
	PackingEfficiency   *float64 `json:"packingEfficiency"`
	ScaleActions        int      `json:"scaleActions"`
	MinReadyPods        int32    `json:"minReadyPods"`
	SimulatedSeconds    float64  `json:"simulatedSeconds"`
	WallSeconds         float64  `json:"wallSeconds"`
}

// Scores are the runs of every scaler in every pass so far. switched is the
// first pass of the phase switch; negative for none.
func (t *Testbed) Scores(r load.Results, switched int) ([]Run, error) {
	ledger := t.GKE.Ledger()
	now := time.Now()
	var runs []Run
	for _, w := range r.Workloads {
		pools := t.poolsOf(w.Namespace)
		for _, p := range w.ByPass {
			from, ok := t.Load.WallTime(time.Duration(float64(p.Pass) * r.PassSeconds * float64(time.Second)))
			if !ok {
				return nil, fmt.Errorf("the load has not begun")
			}
			to := from.Add(time.Duration(p.SimulatedSeconds / r.Speed * float64(time.Second)))
			run := RunOf(w.Namespace, r.Seed, phase(p.Pass, switched), p)
			run.WallSeconds = to.Sub(from).Seconds()
			var err error
			if run.NodeHours, run.CostUSD, err = nodeCost(ledger, pools, from, to, now, r.Speed); err != nil {
				return nil, err
			}
			if run.NodeHours > 0 {
				run.PackingEfficiency = t.packing(r, pools)
			}
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// RunOf is a pass's summary in the terms of a Run; what its nodes cost is
// missing in it.
func RunOf(scaler string, seed uint64, phase string, p load.PassSummary) Run {
	return Run{
		Scaler: scaler, Seed: seed, Phase: phase, Pass: p.Pass,
		SLOViolationMinutes: p.SLOViolationMinutes, SLOViolationRatio: p.SLOViolationRatio,
		P50Ms: p.P50Ms, P95Ms: p.P95Ms, P99Ms: p.P99Ms,
		FailedRatio: p.FailedRatio, FailedRequests: p.Failed, Requests: p.Requests,
		MeanCPUUtilization: p.MeanCPUUtilization, PeakCPUUtilization: p.PeakCPUUtilization,
		MaxReplicas: p.MaxReplicas, MeanReplicas: p.MeanReplicas,
		PodCostUSD: p.PodCostUSD, PendingPodSeconds: p.PendingPodSeconds, ScaleActions: p.ScaleActions,
		MinReadyPods: p.MinReadyPods, SimulatedSeconds: p.SimulatedSeconds,
	}
}

func phase(pass, switched int) string {
	switch {
	case switched >= 0 && pass >= switched:
		return "switch"
	case pass == 0:
		return "cold"
	}
	return "warm"
}

// poolsOf are the pools whose nodes a scaler pays for.
func (t *Testbed) poolsOf(scaler string) map[string]bool {
	if scaler == Baseline {
		return map[string]bool{BaselinePool: true}
	}
	pools := map[string]bool{}
	for _, p := range t.options.Scenario.Pools {
		pools[p.Name] = true
	}
	return pools
}

// nodeCost sums the paid time of the pools' instances between two times on the
// wall: node-hours of the scenario and USD.
func nodeCost(ledger []gkesim.Lifetime, pools map[string]bool, from, to, now time.Time, speed float64) (hours, usd float64, err error) {
	for _, l := range ledger {
		if !pools[l.Pool] {
			continue
		}
		machine, ok := gke.LookupMachineType(l.MachineType)
		if !ok {
			return 0, 0, fmt.Errorf("no price is known of machine type %s", l.MachineType)
		}
		begin, end := l.Requested, l.Deleted
		if begin.Before(from) {
			begin = from
		}
		if end.IsZero() {
			end = now
		}
		if end.After(to) {
			end = to
		}
		if d := end.Sub(begin); d > 0 {
			hours += d.Hours() * speed
			usd += d.Hours() * speed * machine.Price
		}
	}
	return hours, usd, nil
}

// packing is requested over allocatable CPU of the pools' Ready nodes over the
// measured passes, null without nodes.
func (t *Testbed) packing(r load.Results, pools map[string]bool) *float64 {
	var sum, n float64
	for _, p := range r.Pools {
		if pools[p.Name] && p.PackingEfficiency != nil && !math.IsNaN(*p.PackingEfficiency) {
			weight := p.Measured.AllocatableCPUSeconds
			sum += *p.PackingEfficiency * weight
			n += weight
		}
	}
	if n == 0 {
		return nil
	}
	v := sum / n
	return &v
}
