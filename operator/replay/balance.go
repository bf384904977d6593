package replay

import (
	"time"

	"github.com/mash2-io/mash2/api"
)

// Balance weighs what was recorded against what is decided now, over the cycles compared.
// It is open loop: the cluster, demand included, stays as it was recorded. It can't see
// what other replicas would have done to demand, nor a node that comes too late.
type Balance struct {
	// Cost of the nodes that were planned, each plan until the next one, USD.
	Cost Weighed `json:"cost"`
	// Unplanned are the cycles in which nodes were planned when recorded and are not now:
	// their cost is not known.
	Unplanned int `json:"unplanned,omitempty"`
	// Short is for how many minutes, summed over workloads, the replicas that had been
	// decided one pod startup latency (P90) before were fewer than the CPU demand measured
	// then needs, were every replica to use 80 % of what it requests. A measurement tells of
	// no more than five minutes before it.
	Short Weighed `json:"shortMinutes"`
	// Judged is for how many minutes, summed over workloads, that could be told: of the others
	// CPU demand, requests or what had been decided is not known.
	Judged float64 `json:"judgedMinutes"`
	// Worst is the workload that is short for longer than recorded by most, nil if none is.
	Worst *Worst `json:"worst,omitempty"`
}

// Weighed is a figure of both.
type Weighed struct {
	Recorded float64 `json:"recorded"`
	Decided  float64 `json:"decided"`
}

// Worst is a workload, and when it is first short where it was not.
type Worst struct {
	Workload string    `json:"workload"`
	Minutes  Weighed   `json:"minutes"`
	At       time.Time `json:"at"`
	Needs    float64   `json:"needs"`   // replicas at 80 %, then
	Decided  int32     `json:"decided"` // replicas
}

// fullUtilization is the share of requests in use beyond which a workload counts as short:
// what an HPA aims for by default. Beyond it latency rises.
const fullUtilization = 0.8

// judgedFor is the longest time before a cycle that its demand tells of: while nothing was
// recorded nobody knows.
const judgedFor = 5 * time.Minute

// sides of a decision, as recorded and as decided now.
type sides struct {
	at       time.Time
	replicas map[api.Key][2]int32
	hourly   [2]float64
}

// scales adds cycles up to a Balance.
type scales struct {
	sum     Balance
	pending []sides // those younger than a startup latency, and the one before them
	short   map[api.Key]*Worst
}

// add weighs a cycle: what its snapshot needs against what had been decided before.
func (b *scales) add(s api.Snapshot, recorded, decided api.Plan) {
	now := sides{at: s.Time, replicas: map[api.Key][2]int32{}, hourly: [2]float64{recorded.Nodes.HourlyCost, decided.Nodes.HourlyCost}}
	if len(recorded.Nodes.Pools) > 0 && len(decided.Nodes.Pools) == 0 {
		b.sum.Unplanned++
	}
	requests := map[api.Key]int64{}
	for _, w := range recorded.Workloads {
		now.replicas[w.Key] = [2]int32{w.Replicas, w.Replicas}
		requests[w.Key] = w.Request
	}
	for _, w := range decided.Workloads {
		if was, ok := now.replicas[w.Key]; ok {
			now.replicas[w.Key] = [2]int32{was[0], w.Replicas}
		}
	}
	if n := len(b.pending); n > 0 {
		last := b.pending[n-1]
		d := s.Time.Sub(last.at)
		b.sum.Cost.Recorded += last.hourly[0] * d.Hours()
		b.sum.Cost.Decided += last.hourly[1] * d.Hours()
		// Of what had been decided a startup latency ago, the newest.
		for len(b.pending) > 1 && !b.pending[1].at.After(s.Time.Add(-s.PodStartup.P90)) {
			b.pending = b.pending[1:]
		}
		if !b.pending[0].at.After(s.Time.Add(-s.PodStartup.P90)) {
			b.judge(s, b.pending[0], requests, min(d, judgedFor))
		}
	}
	b.pending = append(b.pending, now)
}

// judge counts the workloads that are short at a snapshot for d.
func (b *scales) judge(s api.Snapshot, before sides, requests map[api.Key]int64, d time.Duration) {
	if b.short == nil {
		b.short = map[api.Key]*Worst{}
	}
	for _, w := range s.Workloads {
		demand, _, ok := w.Demand.Last()
		replicas, planned := before.replicas[w.Key]
		if !ok || !planned || w.DemandStale || w.IgnoreCPU || requests[w.Key] <= 0 {
			continue
		}
		speed := w.SpeedNow
		if speed <= 0 {
			speed = 1
		}
		needs := demand / speed / float64(requests[w.Key]) / fullUtilization
		b.sum.Judged += d.Minutes()
		minutes := [2]float64{}
		for i, n := range replicas {
			if needs > float64(n) {
				minutes[i] = d.Minutes()
			}
		}
		b.sum.Short.Recorded += minutes[0]
		b.sum.Short.Decided += minutes[1]
		if minutes == ([2]float64{}) {
			continue
		}
		k := b.short[w.Key]
		if k == nil {
			k = &Worst{Workload: w.Key.String()}
			b.short[w.Key] = k
		}
		k.Minutes.Recorded += minutes[0]
		k.Minutes.Decided += minutes[1]
		if minutes[1] > minutes[0] && k.At.IsZero() {
			k.At, k.Needs, k.Decided = s.Time, needs, replicas[1]
		}
	}
}

// balance is the sum so far.
func (b *scales) balance() Balance {
	out := b.sum
	for _, k := range b.short {
		more := k.Minutes.Decided - k.Minutes.Recorded
		if more <= 0 {
			continue
		}
		most := 0.0
		if out.Worst != nil {
			most = out.Worst.Minutes.Decided - out.Worst.Minutes.Recorded
		}
		if more > most || more == most && k.Workload < out.Worst.Workload {
			out.Worst = k
		}
	}
	return out
}
