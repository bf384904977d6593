// Package score turns what an experiment has measured, on a real control plane
// or in virtual time, into figures: the runs of the command-line contract, their
// means with intervals over seeds, the charts of the MAS-H² paper, and the
// difference between two planes.
package score

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/execution/gke"
	"github.com/mash2-io/mash2/experiments/load"
	"github.com/mash2-io/mash2/experiments/load/record"
)

// Outcome is what one scaler did with one seed, whatever it ran on. Times are
// scenario time from the beginning of the first pass, in seconds.
type Outcome struct {
	Scaler string `json:"scaler"`
	Seed   uint64 `json:"seed"`
	// PassSeconds is the length of a pass. WarmupPasses are not measured, Passes
	// are.
	PassSeconds  float64 `json:"passSeconds"`
	WarmupPasses int     `json:"warmupPasses"`
	Passes       int     `json:"passes"`
	// Objective is the share of minutes within the SLO that the policy promises; 0
	// where none is known.
	Objective float64 `json:"objective,omitempty"`
	// WallSeconds it took, of all passes.
	WallSeconds float64               `json:"wallSeconds"`
	Workloads   []load.WorkloadResult `json:"workloads"`
	Pools       []load.PoolResult     `json:"pools"`
	Nodes       []Node                `json:"nodes"`
	Plans       []Planned             `json:"plans,omitempty"` // of mash2
	// Resizes of pods in place, seconds of scenario time.
	Resizes []float64 `json:"resizes,omitempty"`
	// OOMKills are ends of containers for their memory, seconds of scenario time.
	OOMKills []float64 `json:"oomKills,omitempty"`
	// Rollbacks of the whole plan, warm-up and all; null where no SLO was given.
	Rollbacks *int `json:"rollbacks,omitempty"`
	// BoundUSD is set for a bound on cost that no cluster was run for.
	BoundUSD *float64 `json:"boundUsd,omitempty"`
}

// Node is the paid life of a machine.
type Node struct {
	Pool        string `json:"pool"`
	MachineType string `json:"machineType"`
	// Price is USD per hour; null for that of the machine type on demand.
	Price     *float64 `json:"price,omitempty"`
	Requested float64  `json:"requested"`
	Deleted   *float64 `json:"deleted"` // null while it exists
}

// Planned is what a cycle saw of a workload and planned for it.
type Planned struct {
	At       float64  `json:"at"`
	Workload string   `json:"workload"`
	Demand   *float64 `json:"demand"` // reference cores
	// Peak is the forecast that was planned for, in reference cores; null when
	// the plan was reactive.
	Peak *float64 `json:"peak"`
}

// PlansOf are the plans in cycles; scenario tells scenario time.
func PlansOf(cycles []api.Cycle, scenario func(time.Time) time.Duration) []Planned {
	var out []Planned
	for _, c := range cycles {
		at := scenario(c.Time).Seconds()
		for i, w := range c.Plan.Workloads {
			if at <= 0 || i >= len(c.Workloads) || c.Workloads[i].Demand < 0 {
				continue
			}
			demand := c.Workloads[i].Demand / 1000
			p := Planned{At: at, Workload: w.Key.Name, Demand: &demand}
			if w.Forecast != nil && w.PeakDemand >= 0 {
				peak := w.PeakDemand / 1000
				p.Peak = &peak
			}
			out = append(out, p)
		}
	}
	return out
}

// measured is the stretch that counts, in seconds.
func (o Outcome) measured() (from, to float64) {
	from = float64(o.WarmupPasses) * o.PassSeconds
	return from, from + float64(o.Passes)*o.PassSeconds
}

// Run scores all measured passes together.
func (o Outcome) Run() (Run, error) {
	from, to := o.measured()
	var all []load.Summary
	for _, w := range o.Workloads {
		all = append(all, w.Measured)
	}
	r, err := o.run(all, from, to)
	r.Phase, r.Pass, r.Rollbacks = Cold, o.WarmupPasses, o.Rollbacks
	if o.WarmupPasses > 0 {
		r.Phase = Warm
	}
	return r, err
}

// RunOfPass scores one pass, counted from 0 with those of the warm-up.
func (o Outcome) RunOfPass(pass int) (Run, error) {
	var all []load.Summary
	for _, w := range o.Workloads {
		i := slices.IndexFunc(w.ByPass, func(p load.PassSummary) bool { return p.Pass == pass })
		if i < 0 {
			return Run{}, fmt.Errorf("%s has no pass %d", o.Scaler, pass)
		}
		all = append(all, w.ByPass[i].Summary)
	}
	from := float64(pass) * o.PassSeconds
	r, err := o.run(all, from, from+o.PassSeconds)
	r.Phase, r.Pass = Cold, pass
	if pass > 0 {
		r.Phase = Warm
	}
	return r, err
}

// run joins the summaries of all workloads over a stretch of time. Where several
// workloads have requests of their own, as several types of users, requests,
// failures and violating minutes add up and a latency is the worst of theirs.
func (o Outcome) run(all []load.Summary, from, to float64) (Run, error) {
	r := Run{Scaler: o.Scaler, Seed: o.Seed, SimulatedSeconds: to - from}
	if total := float64(o.WarmupPasses+o.Passes) * o.PassSeconds; total > 0 {
		r.WallSeconds = o.WallSeconds * (to - from) / total
	}
	if o.BoundUSD != nil {
		r.CostUSD, r.Bound = *o.BoundUSD, true
		return r, nil
	}
	var used, requested, minutes float64
	var replicas []*float64
	for i, s := range all {
		r.Requests += s.Requests
		r.FailedRequests += s.Failed
		r.SLOViolationMinutes += s.SLOViolationMinutes
		minutes += minutesOf(s, to-from)
		r.P50Ms, r.P95Ms, r.P99Ms = worst(r.P50Ms, s.P50Ms), worst(r.P95Ms, s.P95Ms), worst(r.P99Ms, s.P99Ms)
		used += s.CPUSeconds
		requested += s.ReadyCPUSeconds
		replicas = append(replicas, s.MeanReplicas)
		r.PodCostUSD += s.PodCostUSD
		r.PendingPodSeconds += s.PendingPodSeconds
		r.ScaleActions += s.ScaleActions
		r.PodStarts += s.PodStarts
		if i == 0 || s.MinReadyPods < r.MinReadyPods {
			r.MinReadyPods = s.MinReadyPods
		}
	}
	r.FailedRatio = ratio(float64(r.FailedRequests), float64(r.Requests))
	if o.Objective > 0 {
		r.Objective, r.ObjectiveKept = &o.Objective, kept(o.Objective, all)
	}
	r.SLOViolationRatio = ratio(float64(r.SLOViolationMinutes), minutes)
	r.MeanCPUUtilization = ratio(used, requested)
	for _, m := range replicas {
		if m != nil {
			sum := *m
			if r.MeanReplicas != nil {
				sum += *r.MeanReplicas
			}
			r.MeanReplicas = &sum
		}
	}
	if len(all) == 1 {
		r.PeakCPUUtilization, r.MaxReplicas = all[0].PeakCPUUtilization, all[0].MaxReplicas
	} else {
		r.PeakCPUUtilization, r.MaxReplicas = o.peakUtilization(from, to), o.maxReplicas(from, to)
	}
	if len(all) > 1 {
		for i, s := range all {
			r.ByWorkload = append(r.ByWorkload, WorkloadRun{
				Name: o.Workloads[i].Name, SLOViolationMinutes: s.SLOViolationMinutes, Requests: s.Requests, FailedRequests: s.Failed,
				P95Ms: s.P95Ms, P99Ms: s.P99Ms, MeanReplicas: s.MeanReplicas, PodCostUSD: s.PodCostUSD, ScaleActions: s.ScaleActions, PodStarts: s.PodStarts,
			})
		}
	}
	for _, at := range o.Resizes {
		if at >= from && at < to {
			r.Resizes++
		}
	}
	for _, at := range o.OOMKills {
		if at >= from && at < to {
			r.OOMKills++
		}
	}
	var err error
	if r.NodeHours, r.CostUSD, err = o.nodeCost(from, to); err != nil {
		return r, err
	}
	r.PackingEfficiency = o.packing(from, to)
	r.UnscheduledStretchSeconds = o.unscheduledStretch(from, to)
	return r, nil
}

// unscheduledStretch is the longest time between from and to in which a workload had
// a pod without a node, in seconds; nil without steps.
func (o Outcome) unscheduledStretch(from, to float64) *float64 {
	var longest *float64
	for _, w := range o.Workloads {
		begun := math.NaN()
		end := func(at float64) {
			if d := min(at, to) - max(begun, from); d > 0 && d > *longest {
				longest = &d
			}
			begun = math.NaN()
		}
		for i, s := range w.Steps {
			if longest == nil {
				longest = new(float64)
			}
			switch waiting := s.Unscheduled > 0; {
			case waiting && math.IsNaN(begun):
				begun = s.At.Seconds()
			case !waiting && !math.IsNaN(begun):
				end(s.At.Seconds())
			}
			if i == len(w.Steps)-1 && !math.IsNaN(begun) {
				end(to)
			}
		}
	}
	return longest
}

// minutesOf are those with traffic in a summary over so many seconds. One that was
// read from a recording does not say; without a violation all minutes are taken then.
func minutesOf(s load.Summary, seconds float64) float64 {
	switch {
	case s.Minutes > 0:
		return float64(s.Minutes)
	case s.SLOViolationRatio == nil:
		return 0
	case *s.SLOViolationRatio > 0:
		return float64(s.SLOViolationMinutes) / *s.SLOViolationRatio
	}
	return seconds / 60
}

func worst(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

func ratio(part, whole float64) *float64 {
	if !(whole > 0) {
		return nil
	}
	r := part / whole
	return &r
}

// peakUtilization is the highest of all workloads together in a bucket.
func (o Outcome) peakUtilization(from, to float64) *float64 {
	var peak *float64
	if len(o.Workloads) == 0 {
		return nil
	}
	for i, b := range o.Workloads[0].Buckets {
		if b.Start < from || b.Start >= to {
			continue
		}
		var used, requested float64
		for _, w := range o.Workloads {
			if i < len(w.Buckets) {
				used += w.Buckets[i].CPUCores
				requested += w.Buckets[i].ReadyCores
			}
		}
		peak = worst(peak, ratio(used, requested))
	}
	return peak
}

// maxReplicas is the highest sum of all workloads' replicas at any moment.
func (o Outcome) maxReplicas(from, to float64) int32 {
	type change struct {
		at float64
		by int32
	}
	var all []change
	for _, w := range o.Workloads {
		last := int32(0)
		for _, s := range w.Steps {
			all = append(all, change{s.At.Seconds(), s.Replicas - last})
			last = s.Replicas
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	var now, most int32
	for i, c := range all {
		now += c.by
		if i+1 < len(all) && all[i+1].at == c.at {
			continue
		}
		until := to
		if i+1 < len(all) {
			until = all[i+1].at
		}
		if c.at < to && until > from {
			most = max(most, now)
		}
	}
	return most
}

// nodeCost is the node-hours and USD paid between two times.
func (o Outcome) nodeCost(from, to float64) (hours, usd float64, err error) {
	for _, n := range o.Nodes {
		price, err := n.price()
		if err != nil {
			return 0, 0, err
		}
		end := to
		if n.Deleted != nil {
			end = min(end, *n.Deleted)
		}
		if d := end - max(n.Requested, from); d > 0 {
			hours += d / 3600
			usd += d / 3600 * price
		}
	}
	return hours, usd, nil
}

// price of a machine, USD per hour.
func (n Node) price() (float64, error) {
	if n.Price != nil {
		return *n.Price, nil
	}
	machine, ok := gke.LookupMachineType(n.MachineType)
	if !ok {
		return 0, fmt.Errorf("no price is known of machine type %s", n.MachineType)
	}
	return machine.Price, nil
}

// packing is requested over allocatable of the Ready nodes between two times,
// null without nodes.
func (o Outcome) packing(from, to float64) *float64 {
	var sum, weight float64
	for _, p := range o.Pools {
		for _, b := range p.Buckets {
			if b.Start >= from && b.Start < to {
				w := b.AllocatableCores * b.Seconds
				sum += b.PackingEfficiency * w
				weight += w
			}
		}
	}
	return ratio(sum, weight)
}

// ShiftSteps moves steps so that time start becomes 0; what was before it holds
// at 0.
func ShiftSteps(steps []record.WorkloadStep, start time.Duration) []record.WorkloadStep {
	return shift(steps, start, func(s *record.WorkloadStep) *time.Duration { return &s.At })
}

// ShiftPoolSteps does the same for a pool's.
func ShiftPoolSteps(steps []record.PoolStep, start time.Duration) []record.PoolStep {
	return shift(steps, start, func(s *record.PoolStep) *time.Duration { return &s.At })
}

func shift[S any](steps []S, start time.Duration, at func(*S) *time.Duration) []S {
	var out []S
	for _, s := range steps {
		t := at(&s)
		*t = max(0, *t-start)
		if n := len(out); n > 0 && *t == 0 && *at(&out[n-1]) == 0 {
			out[n-1] = s
			continue
		}
		out = append(out, s)
	}
	return out
}
