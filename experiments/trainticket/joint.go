package trainticket

import (
	"math"
	"time"

	"github.com/mash2-io/mash2/experiments/sim"
)

// joint is a rule of both directions that sees one service alone: replicas follow the load at
// a size that leaves room to grow in place, and the size what each replica is short of now.
// So pods that are still starting are bridged by those that run.
type joint struct {
	// target is the utilisation of what all replicas request, usual the millicores at which
	// replicas are counted.
	target float64
	usual  int64
	// hold is for how many decisions replicas are kept that were asked for, ease the same of
	// sizes.
	hold, ease int
	// ahead has replicas follow the requests that are predicted, where these are more.
	ahead    bool
	replicas []peak
	sizes    []peak
}

// stabilization of HPA, in decisions.
const stabilization = int(5 * time.Minute / every)

// newJoint has HPA's stabilisation.
func newJoint() *joint { return &joint{target: idealCPU, usual: 400, hold: stabilization, ease: 3} }

// peak is the most of what was asked in the last decisions.
type peak struct{ asked []int64 }

func (p *peak) of(now int64, decisions int) int64 {
	p.asked = append(p.asked, now)
	if len(p.asked) > decisions+1 {
		p.asked = p.asked[1:]
	}
	most := now
	for _, a := range p.asked {
		most = max(most, a)
	}
	return most
}

func (j *joint) decide(v *view) []sim.Size {
	if j.replicas == nil {
		j.replicas, j.sizes = make([]peak, len(v.services)), make([]peak, len(v.services))
	}
	out := make([]sim.Size, len(v.services))
	for i, s := range v.services {
		out[i] = s.Size
		if s.Ready == 0 {
			continue
		}
		needed := math.Max(s.Used, s.Visits*v.idle[i]) * 1000 / j.target
		soon := needed
		if l := v.local[i]; j.ahead && l.Requests > 0 {
			soon *= math.Max(l.Predicted/l.Requests, 1)
		}
		n := j.replicas[i].of(int64(math.Ceil(soon/float64(j.usual))), j.hold)
		out[i].Replicas = int32(min(max(n, int64(s.Min)), int64(s.Max)))
		size := int64(math.Ceil(needed / float64(min(int(out[i].Replicas), s.Ready))))
		out[i].MilliCPU = j.sizes[i].of(min(max(size, leastCPU), mostCPU), j.ease)
	}
	return out
}

// proportional is HPA's rule with these eyes: as many replicas as bring utilisation to a
// target, with its stabilisation of five minutes. Sizes stay.
type proportional struct {
	target float64
	asked  []peak
}

func (p *proportional) decide(v *view) []sim.Size {
	if p.asked == nil {
		p.asked = make([]peak, len(v.services))
	}
	out := make([]sim.Size, len(v.services))
	for i, s := range v.services {
		out[i] = s.Size
		if s.Ready == 0 {
			continue
		}
		n := p.asked[i].of(int64(math.Ceil(s.Used*1000/(p.target*float64(s.MilliCPU)))), stabilization)
		out[i].Replicas = int32(min(max(n, int64(s.Min)), int64(s.Max)))
	}
	return out
}
