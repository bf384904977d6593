package planning

import (
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Yield is how far what a model takes of a workload's margins gives way to the whole of them, as
// too little served: so a model that is wrong about a workload can't break its objective for
// long. The zero value takes the model at its word.
type Yield struct {
	// Share of the way from the model's part to the whole margin, in its logarithm; all of it
	// above 1, for the longer the more.
	Share float64 `json:"share,omitempty"`
	// Since is when the minute that is looked at began, and Missed whether too little served in
	// it.
	Since  time.Time `json:"since,omitzero"`
	Missed bool      `json:"missed,omitempty"`
}

const (
	// yieldRate is the step for a minute in which too little served: one of them ends a model's say.
	yieldRate = 1
	// mostYield leaves room for minutes that lack as they were planned before it was known: with
	// less, they would be forgotten.
	mostYield = 4
	// yieldMinute is how long demand is looked at as one.
	yieldMinute = time.Minute
)

// Part is what a model's part of the margins comes to, no more than all of them: what gives way after
// too little served needs no more against what may come, which cost 2 to 3 % on steady days and saved nothing.
func (y Yield) Part(part float64) float64 {
	if !(part > 0) {
		return part
	}
	return math.Pow(min(part, 1), 1-min(max(y.Share, 0), 1))
}

// After is the yield after a minute, by whether too little served in it: Gibbs and Candès 2021,
// "Adaptive conformal inference under distribution shift", eq. 2. A share of 1 − objective of all
// minutes may be such, and no more than mostYield/yieldRate besides, as long as the whole margin
// suffices.
func (y Yield) After(missed bool, objective float64) Yield {
	miss := 0.0
	if missed {
		miss = 1
	}
	y.Share = min(max(y.Share+yieldRate*(miss-(1-objective)), 0), mostYield)
	return y
}

// seen is the yield after a look at a time, by whether too little serves then.
func (y Yield) seen(now time.Time, missed bool, objective float64) Yield {
	y.Missed = y.Missed || missed
	switch {
	case y.Since.IsZero() || now.Before(y.Since):
		y.Since, y.Missed = now, false
	case now.Sub(y.Since) >= yieldMinute:
		y = y.After(y.Missed, objective)
		y.Since, y.Missed = now, false
	}
	return y
}

// yields is what is remembered of how a workload's model did. Too little serves where demand is beyond
// what Ready replicas serve in time, or where an SLO burns. Demand that is not known, which is negative, is no
// more than what serves. Nothing is learnt in a cycle in which no part of the margins was taken, in Shadow, where
// others decide what serves, and at the workload's bound, where the whole margin would have been no more.
func (c *cycle) yields(k *candidate, i int, w api.WorkloadPlan) Yield {
	mw, asked := &c.managed[i].workload, k.proposals[i]
	y := c.managed[i].memory.Margins.Yield
	switch {
	case mw.Model == "":
		return Yield{}
	case asked.Part == 0 || !k.steered[i] || w.Replicas >= mw.MaxReplicas:
		y.Since, y.Missed = time.Time{}, false
		return y
	}
	each := float64(asked.Request) * positive(mw.SpeedNow) * k.margins[i].Saturation()
	burns := slices.ContainsFunc(c.managed[i].slos, func(s api.SLOPlan) bool { return s.Verdict == api.SLOBurning })
	return y.seen(c.s.Time, burns || asked.Demand > float64(mw.ReadyReplicas)*each, c.p.Objective)
}
