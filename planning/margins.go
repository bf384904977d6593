package planning

import (
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/parallel"
)

// Margins are what keeps a policy's objective for one workload: by how much demand is to
// be thought larger than it is, by what it did before. The zero value is of a history that
// is too young to tell.
type Margins struct {
	// At is when they were taken, by an objective.
	At        time.Time `json:"at,omitzero"`
	Objective float64   `json:"objective,omitempty"`
	// Pod and Node are what demand may grow by until new replicas serve, and until they do
	// on new nodes.
	Pod  forecast.Growth `json:"pod,omitzero"`
	Node forecast.Growth `json:"node,omitzero"`
	// Hold is for how long replicas and nodes are kept that were needed, where that is longer than
	// Windows have it, and HeldAt when it was chosen.
	Hold   time.Duration `json:"hold,omitempty"`
	HeldAt time.Time     `json:"heldAt,omitzero"`
	// Most is a tenth more than demand ever was, reference millicores. Where that is
	// reached a ramp counts as it does without margins.
	Most float64 `json:"most,omitempty"`
	// Told is the factor, leastMargin or more, of what a trusted forecast says of the time until
	// nodes are there; 0 before there was one. Due are what it said of times to come.
	Told float64 `json:"told,omitempty"`
	Due  []Said  `json:"due,omitempty"`
	// Sharing is what the pods of a node have in common, in an Input; zero for nothing, and
	// never remembered.
	Sharing Sharing `json:"sharing,omitzero"`
	// Part of what demand may grow by that is to count, in an Input; 0 for all of it, and
	// never remembered.
	Part float64 `json:"part,omitempty"`
	// Yield is how far a model's part gives way to all of it.
	Yield Yield `json:"yield,omitzero"`
}

// Taking returns margins of which a part counts: more than all where it is above 1. They are
// never below the least margin, nor beyond Most.
func (m Margins) Taking(part float64) Margins {
	if part > 0 && !math.IsInf(part, 1) {
		m.Part = part
	}
	return m
}

// counted is a factor by the part of it that counts.
func (m Margins) counted(factor float64) float64 {
	if m.Part == 0 {
		return factor
	}
	return 1 + (factor-1)*m.Part
}

// Beyond reports whether demand, reference millicores, is more than it was when margins
// were taken, and ever before.
func (m Margins) Beyond(demand float64) bool { return demand*leastMargin > m.Most }

// Known reports whether there are margins.
func (m Margins) Known() bool { return m.Pod.Factor > 0 }

// Pods is what demand of now, reference millicores, is to be thought to become by the time
// that new replicas serve.
func (m Margins) Pods(demand float64, now time.Time) float64 {
	return m.within(demand, m.counted(m.Pod.At(now)), false)
}

// Nodes is the same by the time that new replicas serve on new nodes.
func (m Margins) Nodes(demand float64, now time.Time) float64 {
	return m.within(demand, m.counted(math.Max(m.Pod.At(now), m.Node.At(now))), true)
}

func (m Margins) within(demand, factor float64, nodes bool) float64 {
	return math.Max(m.Foreseen(demand, math.Min(demand*factor, m.Most), nodes), demand*leastMargin)
}

// holdTimes are the holds that are compared, in halves of the shortest: up to an hour where that
// is ten minutes.
var holdTimes = []time.Duration{2, 3, 4, 6, 9, 12}

const (
	// leastMargin is a margin that is never gone below, a tolerance of an HPA's: what two
	// sources read of the same load differs by as much.
	leastMargin = 1.1
	// marginsFor is how long margins are used before they are taken anew: a history of two
	// days is then another one by two thousandths.
	marginsFor = 5 * time.Minute
	// marginWork is how many samples a cycle reads at most for it, some 50 ms; pods and
	// nodes read a history marginReads times together.
	marginWork  = 1_000_000
	marginReads = 10
	// holdFor is how long a hold is used before it is chosen anew, and holdReads how many times a
	// history is read for that.
	holdFor   = time.Hour
	holdReads = 30
	// toldFirst is the factor that a forecast begins with, toldMost the largest, and
	// toldRate the step of its logarithm for a time that was not covered.
	toldFirst, toldMost, toldRate = 1.25, 10, 0.2
	// toldEvery is how often what a forecast says is kept to be compared with what comes.
	toldEvery = time.Minute
)

// Said is up to what demand was said to come until a time, reference millicores.
type Said struct {
	At     time.Time `json:"at"`
	Demand float64   `json:"demand"`
}

// keepsObjective reports whether margins keep the objective of a workload, or will once its
// history is old enough: not without an objective, where the author states a target, or where
// CPU is no measure.
func keepsObjective(w api.Workload, p api.Policy) bool {
	return p.Objective > 0 && w.TargetUtilization <= 0 && usesCPU(w)
}

// due reports whether margins must be taken anew, and none whether there are none to take.
func (m Margins) due(w api.Workload, p api.Policy, now time.Time) (due, none bool) {
	if !keepsObjective(w, p) {
		return false, true
	}
	return m.Objective != p.Objective || now.Sub(m.At) >= marginsFor, false
}

// chooses reports whether it is mash2 that chooses for how long what was needed is kept: an author
// states no window, and replicas don't go before their nodes.
func chooses(w api.Workload, windows Windows) bool {
	return !w.Behavior.ScaleDown.WindowStated && windows.PodHold >= windows.NodeHold
}

// holds reports whether that is to be chosen now: not with the first margins of an objective, which
// must not wait.
func (m Margins) holds(w api.Workload, p api.Policy, now time.Time, windows Windows) bool {
	return m.Known() && m.Objective == p.Objective && now.Sub(m.HeldAt) >= holdFor && chooses(w, windows)
}

// holding returns m with the time for which replicas and nodes are kept that were needed: of
// PodHold and longer ones the one by which nodes would have cost least.
func (m Margins) holding(w api.Workload, p api.Policy, now time.Time, windows Windows) Margins {
	lengths := make([]time.Duration, len(holdTimes))
	for i, times := range holdTimes {
		lengths[i] = windows.PodHold * times / 2
	}
	m.Hold = forecast.HoldOf(w.Demand, forecast.GrowthRule{Lead: windows.Node + windows.Late}, lengths, p.Objective)
	m.HeldAt = now
	return m
}

// taken returns margins of what the workload's demand did, with what forecasts said before.
func (m Margins) taken(w api.Workload, p api.Policy, now time.Time, windows Windows) Margins {
	out := Margins{At: now, Objective: p.Objective, Told: m.Told, Due: m.Due, Yield: m.Yield}
	growth := func(lead, hold time.Duration, tolerance float64) (forecast.Growth, bool) {
		g, known := forecast.GrowthOf(w.Demand, forecast.GrowthRule{Lead: lead + windows.Late, Hold: hold, Tolerance: tolerance}, p.Objective)
		return g, known && !math.IsInf(g.Factor, 1)
	}
	tolerance := windows.Tolerance
	if w.Behavior.Tolerance > 0 {
		tolerance = w.Behavior.Tolerance
	}
	switch {
	case !chooses(w, windows):
		m.Hold, m.HeldAt = 0, time.Time{}
	case m.Known() && m.Objective != p.Objective:
		m.Hold, m.HeldAt = 0, now // what was needed for another objective isn't kept for longer
	}
	hold := max(windows.PodHold, m.Hold)
	if w.Behavior.ScaleDown.WindowStated {
		hold = w.Behavior.ScaleDown.StabilizationWindow
	}
	pod, known := growth(windows.Pod, hold, tolerance)
	node, knownNode := growth(windows.Node, max(windows.NodeHold, m.Hold), 0)
	if !known || !knownNode {
		return out
	}
	out.Pod, out.Node, out.Hold, out.HeldAt = pod, node, m.Hold, m.HeldAt
	// What was cut off at a limit counts as it was seen: next time there is room for a
	// tenth more.
	raw := w.Demand
	raw.Censored = nil
	out.Most = forecast.PrecedentOf(raw).Top
	return out
}

// compared returns m with the factor of forecasts corrected by what came of what they
// said: after Gibbs and Candès 2021, "Adaptive conformal inference under distribution
// shift", by which the share of what is not covered tends to 1 − objective whatever
// forecasts are worth. Demand is of now; of words that were due before, as after a time
// without demand or operator, history tells what came, and nothing is learnt where it doesn't.
func (m Margins) compared(now time.Time, demand float64, history api.Series) Margins {
	n := 0
	for ; n < len(m.Due) && !m.Due[n].At.After(now); n++ {
		came := demand
		if now.Sub(m.Due[n].At) >= toldEvery {
			came = sampleAt(history, m.Due[n].At)
		}
		if math.IsNaN(came) {
			continue
		}
		miss := 0.0
		if came > m.Due[n].Demand*m.Told {
			miss = 1
		}
		m.Told = math.Min(math.Max(m.Told*math.Exp(toldRate*(miss-(1-m.Objective))), leastMargin), toldMost)
	}
	m.Due = slices.Clone(m.Due[n:])
	return m
}

// sampleAt is the sample of a time, or the last before it; NaN where that is a gap or out of reach.
func sampleAt(s api.Series, at time.Time) float64 {
	if s.Step <= 0 || at.Before(s.Start) {
		return math.NaN()
	}
	i := at.Sub(s.Start) / s.Step
	if i >= time.Duration(len(s.Values)) {
		return math.NaN()
	}
	return s.Values[i]
}

// says returns m with what a forecast that is used says of the time until nodes are there.
func (m Margins) says(f *api.Forecast, q float64, now time.Time, lead time.Duration) Margins {
	if m.Told == 0 {
		m.Told = toldFirst
	}
	at := now.Add(lead)
	if n := len(m.Due); n > 0 && at.Sub(m.Due[n-1].At) < toldEvery {
		return m
	}
	m.Due = append(slices.Clone(m.Due), Said{At: at, Demand: Reach(f, q, now, at)})
	return m
}

// Reach is what a forecast's quantile comes to from now until a time, in the forecast's unit.
func Reach(f *api.Forecast, q float64, now, until time.Time) (most float64) {
	for i, v := range f.Quantile(q) {
		if t := f.Start.Add(time.Duration(i) * f.Step); t.After(until) {
			break
		} else if t.Add(f.Step).After(now) && v > most {
			most = v
		}
	}
	return most
}

// burst is how many times what it requests a replica can use of CPU on a pool's machines
// while every pod there uses as much of its own: cores that are short are shared by
// request, DaemonSets use what they were seen to (see podCores), and its limit confines it.
// A machine is as full as it gets of pods like it, and of such as request the least of all.
// 1 where the machine's cores aren't known.
func burst(shape *api.PodShape, pool *api.Pool, least int64) float64 {
	if pool == nil || shape == nil || pool.Cores <= 0 {
		return 1
	}
	request, room := shape.Requests.MilliCPU, pool.Allocatable.MilliCPU-pool.Overhead.MilliCPU
	if request <= 0 || room < request {
		return 1
	}
	full := room / request * request
	if least > 0 {
		full += (room - full) / least * least
	}
	most := podCores(pool) / float64(full)
	if shape.LimitCPU > 0 {
		most = math.Min(most, float64(shape.LimitCPU)/float64(request))
	}
	return math.Max(most, 1)
}

// leastRequest is the least CPU that a pod requests which isn't on every node, millicores.
func leastRequest(s api.Snapshot) int64 {
	least := int64(0)
	consider := func(shape *api.PodShape) {
		if shape != nil && shape.Requests.MilliCPU > 0 && (least == 0 || shape.Requests.MilliCPU < least) {
			least = shape.Requests.MilliCPU
		}
	}
	for i := range s.Workloads {
		consider(s.Workloads[i].Shape)
	}
	for i := range s.Pods {
		if !s.Pods[i].DaemonSet && !s.Pods[i].Mirror {
			consider(s.Pods[i].Shape)
		}
	}
	return least
}

// speed is what one requested core of a workload's replicas does on a pool, relative to
// one of the reference machine: with what it may use beyond, where the policy counts on
// it and there are margins to keep.
func (c *cycle) speed(mw *managed, pool *api.Pool) float64 {
	speed := positive(pool.CPUSpeed)
	if c.p.Burst && mw.memory.Margins.Known() {
		speed *= burst(mw.workload.Shape, pool, c.leastRequest)
	}
	return speed
}

// burstNow is the mean burst of the machines that a workload's pods are on.
func (c *cycle) burstNow(mw *managed, pools map[string]*api.Pool) float64 {
	if !c.p.Burst || !mw.memory.Margins.Known() {
		return 1
	}
	var sum float64
	n := 0
	for _, pod := range mw.pods {
		if pool := pools[pod.Node]; pool != nil && !pod.Terminating {
			sum += burst(mw.workload.Shape, pool, c.leastRequest)
			n++
		}
	}
	if n == 0 {
		return 1
	}
	return sum / float64(n)
}

// margins takes those of all workloads.
func (c *cycle) margins() {
	if c.p.Objective == 0 {
		c.memory.Together = Margins{}
		for i := range c.managed {
			c.managed[i].memory.Margins = Margins{}
		}
		return
	}
	pools := make(map[string]*api.Pool, len(c.s.Pools))
	for i := range c.s.Pools {
		pools[c.s.Pools[i].Name] = &c.s.Pools[i]
	}
	at := make(map[string]*api.Pool, len(c.s.Nodes)) // by node
	for _, n := range c.s.Nodes {
		at[n.Name] = pools[n.Pool]
	}
	var due []*managed
	for i := range c.managed {
		mw := &c.managed[i]
		again, none := mw.memory.Margins.due(mw.workload, c.p, c.s.Time)
		if none {
			mw.memory.Margins = Margins{}
		} else if again {
			due = append(due, mw)
		}
	}
	slices.SortStableFunc(due, func(a, b *managed) int { return a.memory.Margins.At.Compare(b.memory.Margins.At) })
	work, turn := 0, 0
	windows := make([]Windows, len(due))
	for i, mw := range due { // the oldest first
		windows[i] = c.longestWindows(c.podStartup(&mw.workload))
		reads := marginReads
		if mw.memory.Margins.holds(mw.workload, c.p, c.s.Time, windows[i]) {
			reads += holdReads
		}
		if work += reads * len(mw.workload.Demand.Values); work > marginWork && i > 0 {
			break
		}
		turn++
	}
	parallel.Each(turn, func(i int) {
		w, m := due[i].workload, due[i].memory.Margins
		if m.holds(w, c.p, c.s.Time, windows[i]) {
			m = m.holding(w, c.p, c.s.Time, windows[i])
		}
		due[i].memory.Margins = m.taken(w, c.p, c.s.Time, windows[i])
	})
	for i := range c.managed {
		mw := &c.managed[i]
		m := mw.memory.Margins
		if now, _, ok := mw.workload.Demand.Last(); ok && m.Known() && !mw.workload.DemandStale {
			m = m.compared(c.s.Time, now, mw.workload.Demand)
		}
		mw.memory.Margins = m
		mw.workload.SpeedNow = positive(mw.workload.SpeedNow) * c.burstNow(mw, at)
	}
	c.measureCommon(c.longestWindows(c.s.PodStartup), at)
}

// tell keeps what trusted forecasts say, to compare it with what comes.
func (c *cycle) tell() {
	for i := range c.managed {
		mw := &c.managed[i]
		if mw.forecast == nil || !mw.trusted || !mw.memory.Margins.Known() {
			continue
		}
		startup := api.StartupLatency{}
		for k := range c.pools {
			if p := c.pools[k].NodeStartup; p.P90 > startup.P90 {
				startup = p
			}
		}
		w := c.windows(rare(c.podStartup(&mw.workload)), rare(startup))
		mw.memory.Margins = mw.memory.Margins.says(mw.forecast, c.p.Quantile, c.s.Time, w.Node+w.Late)
	}
}
