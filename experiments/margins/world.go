// Package margins is a world in which a model learns how much of its margins a workload
// needs: the part of what demand is to be thought to grow by, minute by minute, for its
// replicas and nodes to keep the objective at least cost.
//
// Nobody's demand depends on what is planned for it. So an episode is a recorded or drawn
// demand, the margins that the planner takes of it, and capacity that follows both by the
// planner's rules: asked for, there after a lead, held, in whole replicas and nodes. What an
// action costs, and what it would have cost to decide otherwise, is known for each episode
// exactly, and so is its derivative: see [Train].
package margins

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/forecast"
	"github.com/mash2-io/mash2/planning"
	"github.com/mash2-io/mash2/planning/learned"
)

// The world.
const (
	// step is that of demand, and perMinute how many of it decide together: a model decides
	// by the minute here, and each cycle in the operator.
	step      = 15 * time.Second
	perMinute = int(time.Minute / step)
	// hold is how long replicas and nodes stay that were needed.
	hold = int(10 * time.Minute / step)
	// tolerance is the planner's, of replicas.
	tolerance = planning.DefaultTolerance
	// leastMargin is what margins are never below.
	leastMargin = 1.1
	// objective is what margins are taken for.
	objective = 0.999
	// retaken is after how many minutes margins are taken anew here; the planner does it
	// every five.
	retaken = 60
	// history is how much of the past margins are taken from, at most.
	history = 2 * 24 * 60 * perMinute
)

// trace is demand with what is known of it at each minute that is decided.
type trace struct {
	name string
	// demand in reference millicores, a minute's mean each step, as the operator sees it.
	demand []float64
	past   learned.Past
	// first minute that is decided, and from then on the factors of the margins and the
	// most they allow for, by the minute.
	first           int
	pod, node, most []float64
	// leads until replicas and nodes serve, in steps.
	podLead, nodeLead int
	// seen is what a model sees at each decided minute, but for the size of replicas.
	seen []float32
}

// newTrace takes margins from the first minute at which they are known.
func newTrace(name string, start time.Time, demand []float64, first int, rng *rand.Rand) (trace, bool) {
	t := trace{
		name: name, demand: demand, past: learned.Minutes(demand, perMinute), first: first,
		podLead: 5 + rng.IntN(4), nodeLead: 10 + rng.IntN(10),
	}
	minutes := len(demand) / perMinute
	var pod, node forecast.Growth
	var most float64
	for m := first; m < minutes; m++ {
		if (m-first)%retaken == 0 {
			end := m * perMinute
			begin := max(0, end-history)
			s := api.Series{Start: start.Add(time.Duration(begin) * step), Step: step, Values: demand[begin:end]}
			var known, knownNode bool
			pod, known = forecast.GrowthOf(s, forecast.GrowthRule{Lead: time.Duration(t.podLead) * step, Hold: 10 * time.Minute, Tolerance: tolerance}, objective)
			node, knownNode = forecast.GrowthOf(s, forecast.GrowthRule{Lead: time.Duration(t.nodeLead) * step, Hold: 10 * time.Minute}, objective)
			if !known || !knownNode || math.IsInf(pod.Factor, 1) || math.IsInf(node.Factor, 1) {
				return trace{}, false
			}
			most = forecast.PrecedentOf(s).Top
		}
		at := start.Add(time.Duration(m) * time.Minute)
		if m == first {
			t.seen = make([]float32, 0, (minutes-first)*learned.MarginInputs)
		}
		t.pod, t.node, t.most = append(t.pod, pod.At(at)), append(t.node, math.Max(pod.At(at), node.At(at))), append(t.most, most)
		t.seen = t.past.See(m-1, t.facts(m-first, size{replica: 1}), t.seen)
	}
	return t, true
}

// minutes that are decided.
func (t *trace) minutes() int { return len(t.pod) }

// size is in what whole units capacity comes.
type size struct {
	// replica in reference millicores, perNode how many fit on a node.
	replica float64
	perNode int
}

// draw a size for which the trace's largest demand takes from 3 to 2,000 replicas.
func (t *trace) draw(rng *rand.Rand) size {
	return t.sized(3*math.Pow(2000.0/3, rng.Float64()), 4+rng.IntN(12))
}

// sized so that the largest demand that is decided takes so many replicas.
func (t *trace) sized(replicas float64, perNode int) size {
	top := 1.0
	for _, v := range t.demand[t.first*perMinute:] {
		top = math.Max(top, v)
	}
	return size{replica: top / replicas, perNode: perNode}
}

// see appends what a model sees at a decided minute. A decision is made by what is known at
// the end of the minute before.
func (t *trace) see(m int, s size, to []float32) []float32 {
	n := len(to)
	to = append(to, t.seen[m*learned.MarginInputs:][:learned.MarginInputs]...)
	learned.SeeSize(t.past.Mean[t.first+m-1], t.facts(m, s), to[n:])
	return to
}

func (t *trace) facts(m int, s size) learned.MarginFacts {
	return learned.MarginFacts{Pod: t.pod[m], Node: t.node[m], Most: t.most[m], Replica: s.replica}
}

// follower is capacity that follows a need, with the sample that it was needed by.
type follower struct {
	tolerance float64
	queue     []int
	has       float64
	by        int
}

// follow the need of a sample, and return what there is and the sample that asked for it.
func (f *follower) follow(need []float64, i int) (float64, int) {
	for len(f.queue) > 0 && need[f.queue[len(f.queue)-1]] <= need[i] {
		f.queue = f.queue[:len(f.queue)-1]
	}
	f.queue = append(f.queue, i)
	for f.queue[0] < i-hold {
		f.queue = f.queue[1:]
	}
	top := f.queue[0]
	if need[i] > f.has*(1+f.tolerance) {
		f.has, f.by = need[i], i
	} else if need[top] < f.has*(1-f.tolerance) {
		f.has, f.by = need[top], top
	}
	return f.has, f.by
}

// outcome of an episode.
type outcome struct {
	// Cost is the mean of what nodes there were, reference millicores, and Violating the
	// share of time in which demand was beyond what served.
	Cost, Violating float64
}

// episode plays a trace by the part of the margins that each minute takes. It is for one
// goroutine.
type episode struct {
	// pods and nodes are what is needed, and what there is, at each step.
	pods, nodes fleet
	// cost and risk are by how much the mean cost, and the mean of what is lacking (see soft),
	// grow with the part of each minute.
	cost, risk []float64
}

// fleet is what is needed and what is there of one kind, reference millicores by the step.
type fleet struct {
	// need, and its derivative by the part.
	need, slope []float64
	// is what there is in whole units, by the need of which step.
	is []float64
	by []int
}

func (f *fleet) fit(n int) {
	f.need, f.slope, f.is, f.by = fit(f.need, n), fit(f.slope, n), fit(f.is, n), fit(f.by, n)
}

// fit is a slice of n zeros.
func fit[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// soft is how near to what serves demand is already a little too much, as a logarithm: what
// lacks is soft·log(1 + exp(x/soft)) of x, the logarithm of demand to what serves. It grows
// with what is lacking, so that there is a way back from the largest of bursts.
const soft = 0.03

// play the minutes from one on, as many as there are parts. It fills cost and risk. With yields the
// parts give way where demand was beyond what served, as the operator's do, and are what is
// left of them.
func (e *episode) play(t *trace, s size, from int, parts []float64, yields bool) outcome {
	n := len(parts) * perMinute
	e.pods.fit(n)
	e.nodes.fit(n)
	e.cost, e.risk = fit(e.cost, len(parts)), fit(e.risk, len(parts))
	demand := t.demand[(t.first+from)*perMinute-1:]
	replicas, nodes := follower{tolerance: tolerance}, follower{}
	perNode := s.replica * float64(s.perNode)
	settled := max(t.podLead, t.nodeLead, hold)
	var yield planning.Yield
	missed := false
	for i := range n {
		m := i / perMinute
		if yields && i%perMinute == 0 {
			if m > 0 {
				yield, missed = yield.After(missed, objective), false
			}
			parts[m] = yield.Part(parts[m])
		}
		ask := func(f *fleet, follow *follower, factor, unit float64) {
			f.need[i], f.slope[i] = needed(demand[i], factor, parts[m], t.most[from+m])
			f.is[i], f.by[i] = follow.follow(f.need, i)
			f.is[i] = math.Ceil(f.is[i]/unit-1e-9) * unit
		}
		ask(&e.pods, &replicas, t.pod[from+m], s.replica)
		ask(&e.nodes, &nodes, t.node[from+m], perNode)
		if i >= settled {
			serve, k := e.serves(t, i)
			missed = missed || demand[i] > serve.is[k]
		}
	}
	var out outcome
	share := 1 / float64(n-settled)
	for i := settled; i < n; i++ {
		out.Cost += e.nodes.is[i] * share
		e.cost[e.nodes.by[i]/perMinute] += e.nodes.slope[e.nodes.by[i]] * share
		serve, k := e.serves(t, i)
		if serve.is[k] <= 0 {
			continue
		}
		x := demand[i] / serve.is[k]
		if x > 1 {
			out.Violating += share
		}
		lacks := 1 / (1 + math.Exp(-math.Log(math.Max(x, 1e-9))/soft))
		by := serve.by[k]
		e.risk[by/perMinute] -= lacks / serve.is[k] * serve.slope[by] * share
	}
	return out
}

// serves is what serves at a step, and the step that asked for it.
func (e *episode) serves(t *trace, i int) (serve *fleet, at int) {
	pods, nodes := i-t.podLead, i-t.nodeLead
	if e.nodes.is[nodes] < e.pods.is[pods] {
		return &e.nodes, nodes
	}
	return &e.pods, pods
}

// needed is what demand asks for with a part of its margin, and its derivative by the part.
func needed(demand, factor, part, most float64) (need, slope float64) {
	grown := demand * (1 + (factor-1)*part)
	switch {
	case demand*leastMargin >= math.Min(grown, most):
		return demand * leastMargin, 0
	case grown > most:
		return most, 0
	}
	return grown, demand * (factor - 1)
}
