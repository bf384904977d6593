package sensing

import (
	"maps"
	"time"

	"github.com/mash2-io/mash2/api"
)

// plausibility compares the two sources of a workload's CPU usage. A metric
// that was relabelled away or halved reads plausible numbers; that the other
// source reads much more is what gives it away.
type plausibility struct {
	cfg   Config
	since map[targetID]time.Time // of the disagreement
	// agreed is what both read when they last agreed.
	agreed map[targetID]agreement
}

// agreement of the two sources, in reference millicores.
type agreement struct{ demand, usage float64 }

// noiseMilliCPU per pod is ignored: idle pods differ by chance.
const noiseMilliCPU = 5

// verdict on a workload's demand.
type verdict struct {
	disagree bool      // the other source reads much more
	since    time.Time // of the disagreement
	doubted  bool      // the demand must not be acted on
}

// judge tells whether the newest demand is far less than what metrics.k8s.io
// reads. When usage rose since the two agreed and demand did not fall, that is
// no more than the longer window of its rate, unless it lasts for longer than
// two of these.
func (p *plausibility) judge(now time.Time, id targetID, demand api.Series, usage *api.Usage) verdict {
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
		return verdict{true, since, now.Sub(since) >= settled || !late}
	case open && usage == nil:
		// Without a second reading an open disagreement stays open.
		return verdict{true, since, true}
	}
	delete(p.since, id)
	if ok && usage != nil {
		p.agreed[id] = agreement{v, usage.MilliCPU}
	}
	return verdict{}
}

// forget lets go of what isn't known any more.
func (p *plausibility) forget(known map[targetID]bool) {
	maps.DeleteFunc(p.since, func(id targetID, _ time.Time) bool { return !known[id] })
	maps.DeleteFunc(p.agreed, func(id targetID, _ agreement) bool { return !known[id] })
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
