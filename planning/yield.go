package planning

import (
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Yield is how far what a model takes of a workload's margins gives way to the whole of
// them, as demand was beyond what was planned for it: so a model that is wrong about a
// workload can't break its objective for long. The zero value takes the model at its word.
type Yield struct {
	// Share of the way from the model's part to the whole margin, in its logarithm; all of it
	// above 1, for the longer the more.
	Share float64 `json:"share,omitempty"`
	// Since is when the minute that is looked at began, and Missed whether demand was beyond
	// what was planned in it.
	Since  time.Time `json:"since,omitzero"`
	Missed bool      `json:"missed,omitempty"`
	// Planned is what serves, or will, oldest first.
	Planned []PlannedSupply `json:"planned,omitempty"`
}

// PlannedSupply is how much demand a plan served, reference millicores: by its replicas, and by
// those that its nodes had room for.
type PlannedSupply struct {
	At    time.Time `json:"at"`
	Pods  float64   `json:"pods"`
	Nodes float64   `json:"nodes"`
}

const (
	// yieldRate is the step for a minute in which demand was beyond the plan: four of them end
	// a model's say.
	yieldRate = 0.25
	// mostYield leaves room for minutes that lack as they were planned before it was known:
	// with less, they would be forgotten.
	mostYield = 2
	// yieldMinute is how long demand is looked at as one.
	yieldMinute = time.Minute
	// yieldApart is how far apart plans are that are remembered each.
	yieldApart = 10 * time.Second
)

// Part is what a model's part of the margins comes to. One of more than all of them stays.
func (y Yield) Part(part float64) float64 {
	if !(part > 0 && part < 1) {
		return part
	}
	return math.Pow(part, 1-min(max(y.Share, 0), 1))
}

// After is the yield after a minute, by whether demand was beyond the plan in it: Gibbs and
// Candès 2021, "Adaptive conformal inference under distribution shift", eq. 2. A share of
// 1 − objective of all minutes may be, and no more than mostYield/yieldRate besides, as long as the
// whole margin suffices.
func (y Yield) After(missed bool, objective float64) Yield {
	miss := 0.0
	if missed {
		miss = 1
	}
	y.Share = min(max(y.Share+yieldRate*(miss-(1-objective)), 0), mostYield)
	return y
}

// seen is the yield after demand, reference millicores, which is negative or no number if it is
// not known. Pods and nodes are how long it takes until what is planned for them serves.
func (y Yield) seen(now time.Time, demand, objective float64, pods, nodes time.Duration) Yield {
	if serves, ok := y.serves(now, pods, nodes); ok && demand > serves {
		y.Missed = true
	}
	switch {
	case y.Since.IsZero() || now.Before(y.Since):
		y.Since, y.Missed = now, false
	case now.Sub(y.Since) >= yieldMinute:
		y = y.After(y.Missed, objective)
		y.Since, y.Missed = now, false
	}
	return y
}

// serves is what was planned in time: the least that was, since what begins to serve now was.
// It is false where no plan is that old.
func (y Yield) serves(now time.Time, pods, nodes time.Duration) (least float64, ok bool) {
	since := func(lead time.Duration, of func(PlannedSupply) float64) (least float64, ok bool) {
		least = math.Inf(1)
		for _, p := range slices.Backward(y.Planned) {
			if p.At.After(now) {
				continue
			}
			least = min(least, of(p))
			if now.Sub(p.At) >= lead {
				return least, true
			}
		}
		return least, false
	}
	byPods, ok := since(pods, func(p PlannedSupply) float64 { return p.Pods })
	byNodes, known := since(nodes, func(p PlannedSupply) float64 { return p.Nodes })
	return min(byPods, byNodes), ok && known
}

// planned notes a plan, and forgets what is older than what begins to serve now.
func (y Yield) planned(p PlannedSupply, longest time.Duration) Yield {
	y.Planned = slices.Clone(y.Planned)
	if last := len(y.Planned) - 1; last >= 0 && p.At.Sub(y.Planned[last].At) < yieldApart {
		// What is there no longer serves; what is added serves from the next one on.
		y.Planned[last].Pods, y.Planned[last].Nodes = min(y.Planned[last].Pods, p.Pods), min(y.Planned[last].Nodes, p.Nodes)
	} else {
		y.Planned = append(y.Planned, p)
	}
	old := 0
	for old+1 < len(y.Planned) && p.At.Sub(y.Planned[old+1].At) >= longest {
		old++
	}
	y.Planned = slices.Delete(y.Planned, 0, old)
	return y
}

// yields is what is remembered of how a workload's model did, after a cycle that planned so
// much for it. Nothing is while no model takes a part of its margins, and nothing is learnt at
// its bound, as the whole margin would have been no more there.
func (c *cycle) yields(k *candidate, i int, w api.WorkloadPlan) Yield {
	mw, asked := &c.managed[i], k.proposals[i]
	y := mw.memory.Margins.Yield
	if asked.Part == 0 {
		if mw.workload.Model == "" {
			return Yield{}
		}
		y.Planned, y.Since, y.Missed = nil, time.Time{}, false
		return y
	}
	windows := c.longestWindows(c.podStartup(&mw.workload))
	pods, nodes := windows.Pod+windows.Late, windows.Node+windows.Late
	y = y.seen(c.s.Time, asked.Demand, c.p.Objective, pods, nodes)
	if w.Held || w.Replicas >= mw.workload.MaxReplicas {
		y.Planned = nil
		return y
	}
	each := float64(asked.Request) * k.speed[i] * k.margins[i].Saturation()
	return y.planned(PlannedSupply{At: c.s.Time, Pods: float64(w.Replicas) * each, Nodes: float64(w.NodeReplicas) * each}, max(pods, nodes))
}
