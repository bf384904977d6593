package demand

import (
	"fmt"
	"maps"
	"time"

	"github.com/mash2-io/mash2/api"
)

// Judge gives the one verdict on whether demand can be acted on. It remembers when the
// two sources of a workload's CPU usage last agreed: a metric that was relabelled away,
// halved or multiplied reads plausible numbers, and only the other source gives it
// away. K tells workloads apart.
type Judge[K comparable] struct {
	Rules
	declines, ramps map[K]opened
	// agreed is what both read when the second last read no more than the first,
	// borne when it read no less either.
	agreed, borne map[K]agreement
}

// NewJudge has seen nothing yet.
func NewJudge[K comparable](r Rules) Judge[K] {
	return Judge[K]{Rules: r, declines: map[K]opened{}, ramps: map[K]opened{}, agreed: map[K]agreement{}, borne: map[K]agreement{}}
}

// agreement of the two sources, in reference millicores.
type agreement struct{ demand, usage float64 }

// opened is the beginning of a disagreement: the cycle in which it was seen, the time
// of the sample, whether the first source rose into it, and what the second read.
type opened struct {
	since, sample time.Time
	rose          bool
	usage         float64 // reference millicores
}

// Disagreement of the two sources. A Decline may not be acted on yet, a Ramp is.
type Disagreement struct {
	Since time.Time
	Kind  Doubt // Decline or Ramp
	// Demand by the first source, Usage by the second: reference millicores.
	Demand, Usage float64
}

const (
	// noiseMilliCPU per pod is ignored: idle pods differ by chance.
	noiseMilliCPU = 5
	// clearly is the share below which one figure is clearly less than another.
	clearly = 0.9
)

// Verdict on a workload's demand. Old samples are no reason to doubt the metric, and
// are not acted on anyway: what is stale by itself is not compared.
func (j *Judge[K]) Verdict(id K, in Input) Verdict {
	if v := j.Fresh(in); v.Stale() || in.Ignored {
		return v
	}
	if v := j.decline(id, in); v.Disagreement != nil {
		return v
	}
	if newest, _, _ := in.Demand.Last(); in.Usage != nil {
		j.agreed[id] = agreement{newest, in.Usage.MilliCPU}
	}
	return j.ramp(id, in)
}

// decline doubts demand that is far less than what metrics.k8s.io reads. When usage rose
// since the two agreed and demand did not fall, that is no more than the longer window
// of its rate, unless it lasts for longer than two of these.
func (j *Judge[K]) decline(id K, in Input) Verdict {
	open, known := j.declines[id]
	newest, at, _ := in.Demand.Last()
	switch {
	case in.Usage != nil && newest < j.ImplausibleRatio*(in.Usage.MilliCPU-noiseMilliCPU*float64(in.Usage.Pods)):
		if !known {
			open = opened{since: in.Now, sample: at}
		}
		open.usage = in.Usage.MilliCPU
		j.declines[id] = open
		settled := 2 * j.RateWindow
		var late bool
		if before, ok := j.agreed[id]; ok {
			late = newest >= clearly*before.demand && clearly*in.Usage.MilliCPU > before.usage
		} else {
			// A process that has just started can't tell when they last agreed: demand that was
			// clearly higher at any time may have been doubted for long by another one.
			late = !declined(in.Demand, newest)
		}
		v := Verdict{Disagreement: &Disagreement{Since: open.since, Kind: Decline, Demand: newest, Usage: in.Usage.MilliCPU}}
		if in.Now.Sub(open.since) >= settled || !late {
			v.Doubt = Decline
		}
		return v
	case known && in.Usage == nil && newest < open.usage:
		// Without a second reading an open disagreement stays open, until the first is what it was about.
		return Verdict{Doubt: Decline, Disagreement: &Disagreement{Since: open.since, Kind: Decline, Demand: newest}}
	}
	delete(j.declines, id)
	return Verdict{}
}

// ramp doubts demand that rose far above what metrics.k8s.io reads of as many pods,
// once that has a reading whose whole window lies after the ramp. Demand that stayed
// while usage fell is believed: it is the longer window of its rate, or the second
// source that is wrong, and too many replicas harm less than too few.
func (j *Judge[K]) ramp(id K, in Input) Verdict {
	open, known := j.ramps[id]
	newest, at, _ := in.Demand.Last()
	if in.Usage == nil || in.Coverage.Expected == 0 || in.Usage.Pods < in.Coverage.Expected ||
		j.ImplausibleRatio*newest <= in.Usage.MilliCPU+noiseMilliCPU*float64(in.Usage.Pods) {
		delete(j.ramps, id)
		if in.Usage != nil {
			j.borne[id] = agreement{newest, in.Usage.MilliCPU}
		}
		return Verdict{}
	}
	before, agreed := j.borne[id]
	if !known {
		open = opened{since: in.Now, sample: at, rose: agreed && clearly*newest > before.demand && in.Usage.MilliCPU >= clearly*before.usage}
		j.ramps[id] = open
	}
	if !open.rose || in.Usage.At.Add(-in.Usage.Window).Before(open.sample) {
		return Verdict{}
	}
	return Verdict{Doubt: Ramp, Disagreement: &Disagreement{Since: open.since, Kind: Ramp, Demand: newest, Usage: in.Usage.MilliCPU}}
}

// Forget lets go of what isn't known any more.
func (j *Judge[K]) Forget(known map[K]bool) {
	gone := func(id K, _ opened) bool { return !known[id] }
	maps.DeleteFunc(j.declines, gone)
	maps.DeleteFunc(j.ramps, gone)
	for _, m := range []map[K]agreement{j.agreed, j.borne} {
		maps.DeleteFunc(m, func(id K, _ agreement) bool { return !known[id] })
	}
}

// Disagreements are those of a cycle.
type Disagreements []struct {
	Key api.Key
	Disagreement
}

// Add the disagreement of a workload, if there is one.
func (d *Disagreements) Add(key api.Key, of *Disagreement) {
	if of != nil {
		*d = append(*d, struct {
			Key api.Key
			Disagreement
		}{key, *of})
	}
}

// Findings of the disagreements among so many workloads. Many declines at once are a fault
// of the metric; one alone may be a steep ramp, which the two sources see through
// different windows, unless it lasts. A ramp was waited for already.
func (r Rules) Findings(now time.Time, all Disagreements, workloads int) []api.Finding {
	many := len(all) > 1 && 2*len(all) >= workloads
	var out []api.Finding
	for _, d := range all {
		if d.Kind == Decline && !many && now.Sub(d.Since) < r.ImplausibleFor {
			continue
		}
		switch {
		case d.Kind == Ramp:
			out = append(out, implausible(d.Key, fmt.Sprintf("Prometheus reports much more CPU usage, %s cores, than metrics.k8s.io, %s; replicas grow no further than the second value needs", Cores(d.Demand), Cores(d.Usage))))
		case d.Usage > 0:
			out = append(out, implausible(d.Key, fmt.Sprintf("Prometheus reports much less CPU usage, %s cores, than metrics.k8s.io, %s; replicas do not go down", Cores(d.Demand), Cores(d.Usage))))
		default:
			out = append(out, implausible(d.Key, "Prometheus reports much less CPU usage than metrics.k8s.io did; replicas do not go down"))
		}
	}
	return out
}

func implausible(key api.Key, message string) api.Finding {
	return api.Finding{
		Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Reason: ReasonImplausible,
		Object: api.WorkloadRef(key), Message: message,
	}
}

// declined reports whether the newest value is clearly below one before.
func declined(demand api.Series, newest float64) bool {
	for _, v := range demand.Values {
		if newest < clearly*v {
			return true
		}
	}
	return false
}
