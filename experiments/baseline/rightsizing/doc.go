// Package rightsizing has the documented rules of those that choose container requests by
// percentiles of usage: Attune's chain of estimators and Google Autopilot's moving windows.
// Neither can be had as a module. Each is for one workload of one container and for one
// goroutine; both are shown usage by pod and minute, as metrics-server has it.
package rightsizing

import "time"

// Size of a pod's one container: cores and bytes.
type Size struct{ CPU, Memory float64 }

// step is the interval that both look at usage in.
const step = 5 * time.Minute

// window collects usage of pods to means over a step, of CPU, and the most memory.
type window struct {
	of map[string]*open
}

type open struct {
	began time.Time
	sum   Size // of CPU; the largest of memory
	n     float64
}

// add a pod's usage at a time, and return what the pod used in the step that ended with it.
func (w *window) add(pod string, at time.Time, usage Size) (Size, bool) {
	if w.of == nil {
		w.of = map[string]*open{}
	}
	began := at.Truncate(step)
	o := w.of[pod]
	var out Size
	ended := o != nil && o.began != began
	if ended {
		out = Size{o.sum.CPU / o.n, o.sum.Memory}
	}
	if o == nil || ended {
		o = &open{began: began}
		w.of[pod] = o
	}
	o.sum.CPU, o.sum.Memory, o.n = o.sum.CPU+usage.CPU, max(o.sum.Memory, usage.Memory), o.n+1
	return out, ended
}

// forget a pod that is gone.
func (w *window) forget(pod string) { delete(w.of, pod) }
