package rehearsal

import (
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/planning/vertical"
)

// workload is a recording as the simulation needs it.
type workload struct {
	bounds  vertical.Config
	ticks   []vertical.Input
	starts  []int // second of each tick
	seconds int
	every   int
	gaps    float64
	slow    float64
	work    float64
	levels  map[string][]level // of each pod, in order of time
}

// level is the CPU that a pod asks for until a second, cores.
type level struct {
	until int
	cores float64
	// censored: it used all that it had, and may have wanted more.
	censored bool
}

// Bounds of the work of a request, core-seconds.
const (
	leastWork   = 0.0005
	mostWork    = 0.5
	usualWork   = 0.01 // where nothing is known
	full        = 0.95 // share of a limit from which on a pod may have wanted more
	medianChi2  = 0.4549364231195724
	mostGaps    = 0.5
	mostSlow    = 0.9
	mostReading = 3600 // seconds from one reading to the next
)

// calibrate the simulation to a recording:
//
//   - A pod's demand is what it used, by the median of three readings. Where it used all that it
//     had, it may have wanted more: what it used next, if that is more.
//   - The work of a request is what makes readings differ as they do, if requests come by a
//     compound Poisson process with exponential work: a reading over s seconds has a variance of
//     2·usage·work/s. The median of squared differences is used, so that steps don't count.
//   - Intervals and gaps of readings and delays of resizes are those that were seen.
func calibrate(r *Recording, bounds vertical.Config) *workload {
	w := &workload{bounds: bounds, ticks: r.ticks, levels: map[string][]level{}, work: usualWork}
	start := r.ticks[0].Time
	second := func(t time.Time) int { return int(math.Round(t.Sub(start).Seconds())) }
	var apart []int
	var late, changes float64
	last := map[string]time.Time{}
	limits := map[string]int64{}
	for _, in := range r.ticks {
		w.starts = append(w.starts, second(in.Time))
		for i := range in.Pods {
			p := &in.Pods[i]
			if before, ok := limits[p.ID]; ok && before != p.Limit {
				changes++
			}
			if limits[p.ID] = p.Limit; p.Held != 0 && p.Held != p.Limit {
				late++
			}
			before, ok := last[p.ID]
			if p.At.IsZero() || !p.At.After(before) || !(p.Usage >= 0) || math.IsInf(p.Usage, 0) {
				continue
			}
			last[p.ID] = p.At
			if d := second(p.At) - second(before); ok && d > 0 && d < mostReading {
				apart = append(apart, d)
			}
			held := max(p.Limit, p.Held)
			w.levels[p.ID] = append(w.levels[p.ID], level{second(p.At), p.Usage / 1000, p.Usage >= full*float64(held)})
		}
	}
	w.seconds = max(1, w.starts[len(w.starts)-1])
	w.every = 1
	if len(apart) > 0 {
		slices.Sort(apart)
		w.every = max(1, apart[len(apart)/2])
		var expected float64
		for _, d := range apart {
			expected += max(1, math.Round(float64(d)/float64(w.every)))
		}
		w.gaps = min(max(0, 1-float64(len(apart))/expected), mostGaps)
	}
	if changes > 0 {
		wait := late / changes * float64(w.seconds) / float64(max(1, len(w.ticks)-1)) // seconds
		w.slow = min(wait/(1+wait), mostSlow)
	}
	w.workOfRequests()
	for id, of := range w.levels {
		w.levels[id] = smooth(of)
	}
	return w
}

// workOfRequests by how readings differ.
func (w *workload) workOfRequests() {
	var q []float64
	for _, of := range w.levels {
		for i := 1; i < len(of); i++ {
			a, b := of[i-1], of[i]
			if middle := (a.cores + b.cores) / 2; middle > 1e-4 && !a.censored && !b.censored {
				q = append(q, (a.cores-b.cores)*(a.cores-b.cores)*float64(w.every)/(4*middle))
			}
		}
	}
	if len(q) > 0 {
		slices.Sort(q)
		w.work = min(max(q[len(q)/2]/medianChi2, leastWork), mostWork)
	}
}

// smooth levels: nothing wants less than what it used next where it was held back, and then
// the median of three.
func smooth(of []level) []level {
	for i := len(of) - 2; i >= 0; i-- {
		if of[i].censored {
			of[i].cores = max(of[i].cores, of[i+1].cores)
		}
	}
	out := slices.Clone(of)
	for i := 1; i < len(of)-1; i++ {
		three := []float64{of[i-1].cores, of[i].cores, of[i+1].cores}
		slices.Sort(three)
		out[i].cores = three[1]
	}
	return out
}

// demand of a pod in a second, cores.
func (w *workload) demand(id string, second int) float64 {
	of := w.levels[id]
	if len(of) == 0 {
		return 0
	}
	i, _ := slices.BinarySearchFunc(of, second+1, func(l level, s int) int { return l.until - s })
	return of[min(i, len(of)-1)].cores
}

// tickAt is the tick that a second belongs to.
func (w *workload) tickAt(second int) int {
	i, ok := slices.BinarySearch(w.starts, second)
	if ok {
		return i
	}
	return i - 1
}

// prepare a node for a tick: the pods that there were, with the bounds and priorities of then.
// Pods that were there before keep the limits that the simulation gave them.
func (w *workload) prepare(n *Node, tick int) {
	in := &w.ticks[tick]
	n.Envelope = in.Envelope
	n.Envelope.Until = n.Input().Time.Add(time.Hour)
	n.Cores = max(1, math.Ceil(float64(in.Envelope.Budget)/1000))
	there := map[string]*vertical.Pod{}
	for i := range in.Pods {
		there[in.Pods[i].ID] = &in.Pods[i]
	}
	for i := len(n.Pods) - 1; i >= 0; i-- {
		if p := there[n.Pods[i].ID]; p != nil {
			n.Pods[i].Priority, n.Pods[i].Floor = p.Priority, p.Floor
			delete(there, p.ID)
		} else {
			n.Leave(i)
		}
	}
	for i := range in.Pods {
		if p := in.Pods[i]; there[p.ID] != nil {
			n.Join(vertical.Pod{ID: p.ID, Limit: p.Limit, Held: p.Limit, Floor: p.Floor, Priority: p.Priority})
		}
	}
}
