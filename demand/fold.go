package demand

import (
	"math"
	"time"
)

// AtLimit is the share of its CPU limit, 0–1, from which on a pod's usage is what it
// was let have, not what it asked for: a quota is never used up to the last.
const AtLimit = 0.95

// Pod is what folding knows of a pod. The zero value is a pod that is gone.
type Pod struct {
	// Ready and not about to go: it must have a sample for every step that is a rate
	// window or more after ReadyAt.
	Ready   bool
	ReadyAt time.Time
	// Starting is from when on it has done nothing but start; zero for a pod that is Ready, or
	// was since its containers started. What it uses serves nobody.
	Starting time.Time
	// Again tells that Starting is a window after its containers were started again: until then
	// its samples have what it served before, and what it takes to start.
	Again bool
	// New tells that ReadyAt is when it had started, not when it recovered: what it used before
	// that is still in its rates for a window.
	New bool
	// Limit of its CPU, millicores; 0 without one of all its containers.
	Limit int64
	// Most is what it could burn, millicores; 0 if that is not known. See [Burnable].
	Most float64
}

// Folding sums the samples of one workload's pods for the steps from From to To.
type Folding struct {
	From, To int64
	grid     Grid
	window   time.Duration
	// One element per step.
	sum      []float64 // of all pods, reference millicores
	pods     []int32   // in sum
	readySum []float64 // of the pods that must be there
	seen     []int32   // in readySum
	expected []int32   // that must be there
	capped   []int32   // in sum, at their CPU limit
	young    [][]young // that became Ready, or were started again, within the window
	beyond   []bool    // a sum of the past was beyond what could be burnt
	// newest is what was refused at the newest step.
	newest Beyond
}

// NewFolding of the steps [from, to] of a grid; a sample is a rate over window.
func NewFolding(g Grid, window time.Duration, from, to int64) *Folding {
	n := to - from + 1
	return &Folding{
		From: from, To: to, grid: g, window: window,
		sum: make([]float64, n), pods: make([]int32, n), readySum: make([]float64, n),
		seen: make([]int32, n), expected: make([]int32, n), capped: make([]int32, n), beyond: make([]bool, n),
		young: make([][]young, n),
	}
}

// young is the sample of a pod that had started within the window of its rate.
type young struct {
	reference float64
	served    float64 // share of the window for which it was Ready, 0–1; at most, if it was started again
}

// Expect a pod: counts it among those that must have samples.
func (f *Folding) Expect(p Pod) {
	for i := range f.expected {
		if f.must(p, f.From+int64(i)) {
			f.expected[i]++
		}
	}
}

// must reports whether a pod must have a sample at a step: it was Ready for the whole
// window of the rate.
func (f *Folding) must(p Pod, step int64) bool {
	return p.Ready && !f.grid.Time(step).Before(p.ReadyAt.Add(f.window))
}

// Add the sample of a pod at a step, once for each: measured is in millicores,
// reference in those of the reference machine. A sample beyond what the pod could burn
// counts as missing.
func (f *Folding) Add(p Pod, step int64, measured, reference float64) {
	i := step - f.From
	must := f.must(p, step)
	at := f.grid.Time(step)
	if !Usable(measured) || !Usable(reference) || !p.Starting.IsZero() && !at.Before(p.Starting) {
		return
	}
	if p.Most > 0 && measured > p.Most {
		if !must {
			f.expected[i]++ // it ran: the others stand for it
		}
		if step == f.To {
			f.newest.note(measured, p.Most)
		}
		return
	}
	if p.New && at.Before(p.ReadyAt.Add(f.window)) {
		f.young[i] = append(f.young[i], young{reference, max(0, at.Sub(p.ReadyAt).Seconds()) / f.window.Seconds()})
		return
	}
	if p.again(at, f.window) {
		f.young[i] = append(f.young[i], young{reference, 1})
		return
	}
	f.sum[i] += reference
	f.pods[i]++
	if p.Limit > 0 && measured >= AtLimit*float64(p.Limit) {
		f.capped[i]++
	}
	if must {
		f.readySum[i] += reference
		f.seen[i]++
	}
}

// again reports whether a rate over a window has what the pod took to start again.
func (p Pod) again(at time.Time, window time.Duration) bool {
	return p.Again && !p.Starting.IsZero() && !at.Before(p.Starting.Add(-window))
}

// AddSum adds what some pods of the workload used together at a step, of which nothing
// more is known; most is what all could burn, millicores, 0 if that is not known. One
// sum beyond it makes the step a gap.
func (f *Folding) AddSum(step int64, measured, reference, most float64) {
	i := step - f.From
	if measured > math.MaxFloat64 || most > 0 && measured > most {
		f.beyond[i] = true
		return
	}
	if !Usable(measured) || !Usable(reference) {
		return
	}
	f.sum[i] += reference
	f.pods[i]++
}

// Interpolate fills what lies between two samples that are stride steps apart, linearly
// in the sum of all pods: a pod that moves between them is in both. Step From is one
// of a sample.
func (f *Folding) Interpolate(stride int64) {
	for i := int64(0); i+stride < int64(len(f.sum)); i += stride {
		j := i + stride
		if !f.known(i) || !f.known(j) {
			continue
		}
		for k := i + 1; k < j; k++ {
			share := float64(k-i) / float64(stride)
			f.sum[k], f.pods[k] = f.sum[i]*(1-share)+f.sum[j]*share, f.pods[i]
		}
	}
}

// Cut forgets the steps after to.
func (f *Folding) Cut(to int64) { clear(f.pods[to-f.From+1:]) }

func (f *Folding) known(i int64) bool { return f.pods[i] > 0 && !f.beyond[i] }

// Sums calls yield with each step of which something is known and the sum of all pods
// that had a sample, reference millicores.
func (f *Folding) Sums(yield func(step int64, sum float64)) {
	for i := range f.sum {
		if f.known(int64(i)) {
			yield(f.From+int64(i), f.sum[i])
		}
	}
}

// Store writes the sums to a history and returns the coverage of the newest step.
// Where some of the Ready pods are missing, but no more than half, they are taken to
// use what the others do; a sample of fewer is a gap. No pod at all is a gap as well:
// nobody was there to show demand.
func (f *Folding) Store(h *History) Coverage {
	for i := range f.sum {
		f.addYoung(int64(i), h)
		if !f.known(int64(i)) {
			continue
		}
		value := f.sum[i]
		if missing := f.expected[i] - f.seen[i]; missing > 0 {
			if 2*f.seen[i] < f.expected[i] {
				continue
			}
			value += f.readySum[i] / float64(f.seen[i]) * float64(missing)
		}
		h.Set(f.From+int64(i), value)
		if 2*f.capped[i] >= f.pods[i] {
			h.Bound(f.From + int64(i))
		}
	}
	last := len(f.sum) - 1
	return Coverage{Seen: f.seen[last], Expected: f.expected[last], Beyond: f.newest}
}

// addYoung adds what pods that had just started served of demand. Their rates have what they
// took to start as well, which may be many times as much.
//
// All pods get the same share of requests. So since a young pod was Ready, for a share φ of the
// window, it served as much as a settled one did meanwhile: of the mean m of these what is not
// of before, m − (1−φ)·a, where a is their mean when the pod became Ready. What its own rate is
// clearly above that is not demand. Without a settled pod, demand is no more than it was before
// it; where nothing is known of that, nothing is known.
func (f *Folding) addYoung(i int64, h *History) {
	step := f.From + i
	if f.seen[i] > 0 {
		h.settle(step, f.readySum[i]/float64(f.seen[i]))
	}
	if len(f.young[i]) == 0 {
		return
	}
	sum := 0.0
	if f.seen[i] > 0 {
		mean := f.readySum[i] / float64(f.seen[i])
		for _, y := range f.young[i] {
			ready := f.grid.At(f.grid.Time(step).Add(-time.Duration(y.served * float64(f.window))))
			most := y.served * mean
			if before, ok := h.settled(ready); ok {
				most = max(0, mean-(1-y.served)*before)
			}
			if y.reference <= clearlyMore*most+noiseMilliCPU {
				most = y.reference
			}
			sum += most
		}
	} else {
		before, ok := h.before(step, int64(knownFor*f.window/f.grid.Step))
		if !ok {
			f.pods[i] = 0
			return
		}
		for _, y := range f.young[i] {
			sum += y.reference
		}
		sum = max(0, min(sum, before-f.sum[i]))
	}
	f.sum[i] += sum
	f.pods[i] += int32(len(f.young[i]))
}

const (
	// clearlyMore is how many times as much as its share a pod that just started may have used
	// by chance, above noise.
	clearlyMore = 1.25
	// knownFor is for how many windows demand of before bounds what pods show that have all just
	// started.
	knownFor = 5
)

// Coverage of a workload's Ready pods by the newest sample.
type Coverage struct {
	Seen, Expected int32
	// Beyond is what was refused of the newest sample.
	Beyond Beyond
}

// Low reports whether less than a share, 0–1, of the Ready pods were seen.
func (c Coverage) Low(least float64) bool {
	return float64(c.Seen) < least*float64(c.Expected)
}
