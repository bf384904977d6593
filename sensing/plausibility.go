package sensing

import (
	"maps"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Plausibility compares the two sources of a workload's CPU usage. A metric
// that was relabelled away or halved reads plausible numbers; that the other
// source reads much more is what gives it away. K tells workloads apart.
type Plausibility[K comparable] struct {
	cfg   PlausibilityConfig
	since map[K]time.Time // of the disagreement
	// agreed is what both read when they last agreed.
	agreed map[K]agreement
}

// PlausibilityConfig are the fields of a Config by which it judges.
type PlausibilityConfig struct {
	Step, RateWindow time.Duration
	ImplausibleRatio float64
	ImplausibleFor   time.Duration
}

// NewPlausibility has seen nothing yet.
func NewPlausibility[K comparable](cfg PlausibilityConfig) Plausibility[K] {
	return Plausibility[K]{cfg: cfg, since: map[K]time.Time{}, agreed: map[K]agreement{}}
}

// agreement of the two sources, in reference millicores.
type agreement struct{ demand, usage float64 }

// noiseMilliCPU per pod is ignored: idle pods differ by chance.
const noiseMilliCPU = 5

// Verdict on a workload's demand.
type Verdict struct {
	Disagree bool      // the other source reads much more
	Since    time.Time // of the disagreement
	Doubted  bool      // the demand must not be acted on
}

// Judge tells whether the newest demand is far less than what metrics.k8s.io
// reads. When usage rose since the two agreed and demand did not fall, that is
// no more than the longer window of its rate, unless it lasts for longer than
// two of these.
func (p *Plausibility[K]) Judge(now time.Time, id K, demand api.Series, usage *api.Usage) Verdict {
	since, open := p.since[id]
	v, _, ok := demand.Last()
	switch {
	case ok && usage != nil && v < p.cfg.ImplausibleRatio*(usage.MilliCPU-noiseMilliCPU*float64(usage.Pods)):
		if !open {
			since = now
			p.since[id] = since
		}
		settled := 2 * p.cfg.RateWindow
		var late bool
		if before, known := p.agreed[id]; known {
			late = v >= clearly*before.demand && clearly*usage.MilliCPU > before.usage
		} else {
			late = !fallen(demand, v, int(settled/p.cfg.Step))
		}
		return Verdict{true, since, now.Sub(since) >= settled || !late}
	case open && usage == nil:
		// Without a second reading an open disagreement stays open.
		return Verdict{true, since, true}
	}
	delete(p.since, id)
	if ok && usage != nil {
		p.agreed[id] = agreement{v, usage.MilliCPU}
	}
	return Verdict{}
}

// Forget lets go of what isn't known any more.
func (p *Plausibility[K]) Forget(known map[K]bool) {
	maps.DeleteFunc(p.since, func(id K, _ time.Time) bool { return !known[id] })
	maps.DeleteFunc(p.agreed, func(id K, _ agreement) bool { return !known[id] })
}

// Doubt of a workload's demand.
type Doubt struct {
	Key   api.Key
	Since time.Time
}

// Findings of doubts of so many workloads. Many at once are a fault of the
// metric; one alone may be a steep ramp, which the two sources see through
// different windows, unless it lasts.
func (c PlausibilityConfig) Findings(now time.Time, doubts []Doubt, workloads int) []api.Finding {
	many := len(doubts) > 1 && 2*len(doubts) >= workloads
	var out []api.Finding
	for _, d := range doubts {
		if many || now.Sub(d.Since) >= c.ImplausibleFor {
			out = append(out, api.Finding{
				Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Reason: ReasonImplausible,
				Object:  "workload " + d.Key.String(),
				Message: "Prometheus reads much less CPU usage than metrics.k8s.io; replicas won't go down",
			})
		}
	}
	return out
}

// clearly is the share below which one figure is clearly less than another.
const clearly = 0.9

// fallen tells whether the newest value is clearly below one of the n before.
func fallen(demand api.Series, newest float64, n int) bool {
	for _, v := range demand.Values[max(0, len(demand.Values)-n-1):] {
		if newest < clearly*v {
			return true
		}
	}
	return false
}
