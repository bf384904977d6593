package rehearsal

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/mash2-io/mash2/planning/vertical"
)

// Config of rehearsals.
type Config struct {
	// Duration is how long is recorded for at least, and Readings of how many readings of a
	// pod.
	Duration time.Duration
	Readings int
	// Blocks of the recording; each is one comparison.
	Blocks int
	// Replays with other noise, at most, and Steps, the seconds of a pod that one planner may
	// be simulated for: what a rehearsal may take of the CPU.
	Replays, Steps int
	// Alpha is the chance that one which is no better passes. It is no promise: what the
	// simulation leaves out is not in it. The trial on the workload itself makes one.
	Alpha float64
	// Error is by how much the simulation's cost of what did act may be off what was read
	// ([vertical.Cost], 0 to 1). Beyond, nothing passes.
	Error float64
}

// DefaultConfig records five minutes, or twenty readings. A rehearsal of it takes a hundredth of a
// second with three pods and a fifth of one with 200 (BenchmarkOf).
func DefaultConfig() Config {
	return Config{Duration: 5 * time.Minute, Readings: 20, Blocks: 10, Replays: 8, Steps: 60_000, Alpha: 0.1, Error: 0.1}
}

// Recording is what was read of a workload while a rule decided. The zero value is empty.
type Recording struct {
	ticks []vertical.Input
	last  map[string]time.Time // reading of each pod
	count map[string]int       // of readings
	pods  int                  // of all ticks
	full  bool                 // once it had to begin anew for having too many of them
}

const (
	// mostPods of all ticks together that are kept: with more, the recording begins anew.
	mostPods = 200_000
	// mostGap from one tick to the next: after more it was stopped meanwhile.
	mostGap = 10
)

// Add a tick as planners were shown it; every is the interval of ticks.
func (r *Recording) Add(in vertical.Input, every time.Duration) {
	if n := len(r.ticks); n > 0 && (in.Time.Sub(r.ticks[n-1].Time) > mostGap*every || r.pods > mostPods) {
		*r = Recording{full: r.full || r.pods > mostPods}
	}
	if len(in.Pods) == 0 {
		return
	}
	if r.last == nil {
		r.last, r.count = map[string]time.Time{}, map[string]int{}
	}
	in.Pods = append([]vertical.Pod(nil), in.Pods...)
	r.ticks, r.pods = append(r.ticks, in), r.pods+len(in.Pods)
	for i := range in.Pods {
		if p := &in.Pods[i]; p.At.After(r.last[p.ID]) {
			r.last[p.ID] = p.At
			r.count[p.ID]++
		}
	}
}

// Full reports whether there were too many pods to record for as long as a rehearsal needs.
func (r *Recording) Full() bool { return r.full }

// Duration of the recording.
func (r *Recording) Duration() time.Duration {
	if len(r.ticks) == 0 {
		return 0
	}
	return r.ticks[len(r.ticks)-1].Time.Sub(r.ticks[0].Time)
}

// Enough reports whether a rehearsal can be made of it.
func (r *Recording) Enough(c Config) bool {
	most := 0
	for _, n := range r.count {
		most = max(most, n)
	}
	return r.Duration() >= c.Duration && most >= c.Readings
}

// Result of a rehearsal.
type Result struct {
	// Over is how long was recorded.
	Over time.Duration
	// Gain is by which share of the rule's mean response time the planner's is shorter, and
	// Low its lower bound. Requests count by the priority of their pod.
	Gain, Low float64
	// Error is the cost of what did act as simulated, less what was read.
	Error float64
	// Work of a request, core-seconds, that the recording shows.
	Work float64
	// Passed: the bound is above 0, and the error is not too large.
	Passed bool
}

// String says it in a sentence.
func (r Result) String() string {
	word, gain := "sooner", r.Gain
	if gain < 0 {
		word, gain = "later", -gain
	}
	return fmt.Sprintf("in a simulation of the last %.0f minutes here it answers %.1f %% %s than the rule (lower bound %+.1f %%; the simulation's cost is %+.2f off what was read)",
		r.Over.Minutes(), 100*gain, word, 100*r.Low, r.Error)
}

// Of a planner against a rule, which decided while the recording was made: both meet what was
// recorded, with the same random numbers.
func Of(c Config, bounds vertical.Config, r *Recording, planner, rule vertical.Planner, seed uint64) Result {
	w := calibrate(r, bounds)
	replays := min(max(c.Steps/max(1, w.seconds*(r.pods/len(r.ticks))), 1), c.Replays)
	out := Result{Over: r.Duration(), Work: w.work}
	ours, theirs := make([]mean, c.Blocks), make([]mean, c.Blocks)
	var simulated, read mean
	for i := range replays {
		w.play(planner, seed+uint64(i), ours, nil)
		w.play(rule, seed+uint64(i), theirs, &simulated)
	}
	for _, in := range r.ticks {
		read.add(vertical.Cost(in.Pods), 1)
	}
	out.Error = simulated.of() - read.of()
	var all float64
	for i := range theirs {
		all += theirs[i].of() / float64(c.Blocks)
	}
	gains := make([]float64, c.Blocks)
	for i := range gains {
		gains[i] = (theirs[i].of() - ours[i].of()) / max(all, 1e-9)
	}
	var deviation float64
	out.Gain, deviation = stat.MeanStdDev(gains, nil)
	t := distuv.StudentsT{Sigma: 1, Nu: float64(c.Blocks - 1)}.Quantile(1 - c.Alpha)
	out.Low = out.Gain - t*deviation/math.Sqrt(float64(c.Blocks))
	out.Passed = out.Low > 0 && math.Abs(out.Error) <= c.Error
	return out
}

// mean by weights.
type mean struct{ sum, weight float64 }

func (m *mean) add(x, weight float64) {
	if x == x { // not NaN
		m.sum, m.weight = m.sum+weight*x, m.weight+weight
	}
}

func (m mean) of() float64 { return m.sum / max(m.weight, 1e-9) }

// play the recording with a planner: response times by block, and if cost isn't nil, its mean.
func (w *workload) play(planner vertical.Planner, seed uint64, blocks []mean, cost *mean) {
	n := Node{
		Rng: rand.New(rand.NewPCG(seed, 29)), Config: w.bounds, Work: w.work, Gaps: w.gaps, Every: w.every, Slow: w.slow,
	}
	tick := -1
	for s := range w.seconds {
		if at := w.tickAt(s); at != tick {
			if tick >= 0 {
				n.Decide(planner)
			}
			tick = at
			w.prepare(&n, tick)
		}
		n.Advance(func(i int) float64 { return w.demand(n.Pods[i].ID, s) / w.work })
		b := &blocks[s*len(blocks)/w.seconds]
		for i := range n.Pods {
			b.add(n.States[i].Response, n.Pods[i].Priority*n.States[i].Rate)
		}
		if cost != nil && n.Second%max(1, w.every) == 0 {
			cost.add(vertical.Cost(n.Pods), 1)
		}
	}
}
