package demand

import (
	"time"

	"github.com/mash2-io/mash2/api"
)

// Readings sums what metrics.k8s.io reads of one workload's pods.
type Readings struct {
	of    api.Usage
	ready float64 // of the pods that were Ready for the whole window
	seen  int32
	young []reading
}

type reading struct {
	at        time.Time
	window    time.Duration
	reference float64
}

// Add the reading of a pod, once for each: a mean over the window that ends at a time, reference
// millicores.
func (r *Readings) Add(p Pod, at time.Time, window time.Duration, reference float64) {
	v := reading{at, window, reference}
	switch {
	case !p.Starting.IsZero() && !at.Before(p.Starting):
	case p.New && at.Add(-window).Before(p.ReadyAt), p.again(at, window):
		r.young = append(r.young, v)
	default:
		if p.Ready {
			r.ready += reference
			r.seen++
		}
		v.count(&r.of)
	}
}

func (v reading) count(to *api.Usage) {
	to.MilliCPU += v.reference
	to.Pods++
	if v.at.After(to.At) {
		to.At, to.Window = v.at, v.window
	}
}

// Usage of the pods; nil if there is no reading that can be used. One of a pod that had not been
// Ready for the whole window is left out if it is clearly above those of others: that is what it
// took to start. An HPA leaves out all of these.
func (r *Readings) Usage() *api.Usage {
	out := r.of
	mean := r.ready / float64(r.seen) // not a number without others, and nothing is less than that
	for _, v := range r.young {
		if v.reference <= clearlyMore*mean+noiseMilliCPU {
			v.count(&out)
		}
	}
	if out.Pods == 0 {
		return nil
	}
	return &out
}
