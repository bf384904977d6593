package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
)

// Oracle is a lower bound on what the nodes of a scenario cost, USD by pass, for
// anybody who never violates its SLO: clairvoyant, with nodes and pods in
// fractions and boots begun in time. Nothing can beat it; nobody need reach it.
//
// What it rests on, minute by minute:
//
//  1. Without a violation at most the SLO's share of requests fails, and at most
//     one in twenty takes longer than p95. So the mean answer takes no longer
//     than R̂ = 0.95·p95 + 0.05·timeout, N users send at least N/(Z+R̂) requests
//     per second, and at least (1−failed) of these, or of the arrivals, are
//     served: D = rate·(1−failed)·S reference cores.
//  2. A node serves at most what its cores do, and what its pods' limits let
//     them: κ = speed·min(cores, m·limit) reference cores with m pods of this
//     request on it. It takes at least D/κ nodes on average over the minute, and
//     never fewer than hold the least number of replicas.
//  3. A node that comes is paid from its request and while it stops: at least B =
//     the fastest boot in 30,000 (four standard deviations) + a resize's
//     latency + the stop. Those there at the start of a pass are free of it, and
//     so are those that stop after its end.
//
// The cheapest n(t) ≥ need(t) under (3) is found exactly, layer by layer: a layer
// of nodes that is needed in two stretches is kept in between if the gap costs
// less than coming anew. Of several pools the one with the cheapest capacity
// counts.
func Oracle(s scenarios.Scenario, p Params, passes int, seed uint64) ([]float64, error) {
	c := newCluster(p, seed, newFluid(seed))
	w, copies := workloadOf(s, 0), max(1, s.Copies)
	price := math.Inf(1) // USD per reference core and hour
	least := math.Inf(1) // USD per hour of the least number of replicas
	perPod := w.shape.Requests
	for _, pool := range s.Pools {
		pl, err := c.newPool(pool, false)
		if err != nil {
			return nil, err
		}
		free := pl.allocatable.Minus(pl.overhead)
		m := min(free.MilliCPU/perPod.MilliCPU, free.Memory/max(perPod.Memory, 1), free.Pods)
		if m < 1 {
			continue
		}
		capacity := pl.cores
		if w.limit > 0 {
			capacity = min(capacity, float64(m)*w.limit)
		}
		price = min(price, pl.price/(capacity*pl.speed))
		least = min(least, pl.price*float64(w.min)*float64(copies)/float64(m))
	}
	if math.IsInf(price, 1) {
		return nil, fmt.Errorf("scenario %s: no pool can hold a pod", s.Name)
	}
	median := p.BootMedian
	if d := s.BootMedian.Duration; d > 0 {
		median = d
	}
	paid := time.Duration(float64(median)*math.Exp(-4*p.BootSigma)) + p.Operation + p.Stop
	pass := s.PassDuration()
	var traffics []scenarios.Traffic
	for i := range copies {
		t := s.Traffic(passes, seed+uint64(i)<<32)
		t.Shift = time.Duration(i) * pass / time.Duration(copies)
		traffics = append(traffics, t)
	}
	var out []float64
	for n := range passes {
		var needs []float64 // USD per hour, by minute
		for at := time.Duration(0); at < pass; at += time.Minute {
			length := min(time.Minute, pass-at)
			var need float64
			for _, t := range traffics {
				need += demand(s, t, time.Duration(n)*pass+at, length)
			}
			needs = append(needs, max(least, price*need))
		}
		out = append(out, cheapest(needs, time.Minute, paid))
	}
	return out, nil
}

// demand is the reference cores that must be served on average over a minute.
func demand(s scenarios.Scenario, t scenarios.Traffic, from, length time.Duration) float64 {
	const step = time.Second
	slowest := 0.95*s.SLO.P95Ms/1000 + 0.05*s.Request.Timeout.Seconds()
	var sum float64
	var n int
	for at := from; at < from+length; at += step {
		rate := t.RPS(at)
		if !t.Open() {
			rate = float64(t.VUs(at)) / (s.ThinkTime.MeanSeconds() + slowest)
		}
		sum += rate * s.Request.CPU.MeanSeconds() * t.Work(at)
		n++
	}
	return sum / float64(n) * (1 - s.SLO.FailedRatio)
}

// cheapest is the least ∫n dt + paid·(what comes anew) over all n ≥ needs, in
// the unit of needs × hours. Needs are cut to whole layers, downwards, so that
// the figure stays a bound.
func cheapest(needs []float64, step, paid time.Duration) float64 {
	highest := 0.0
	for _, n := range needs {
		highest = max(highest, n)
	}
	const layers = 400
	thickness := highest / layers
	if thickness == 0 {
		return 0
	}
	gap := int(paid / step) // steps that cost no more than coming anew
	var total float64       // layer-steps
	for layer := range layers {
		level := thickness * (float64(layer) + 1)
		last := -1 // the last step that needed the layer
		for i, n := range needs {
			if n+1e-12 < level {
				continue
			}
			total++
			switch between := i - last - 1; {
			case last < 0 && i == 0: // there from the start
			case last < 0:
				// It may have been there from the start, idle.
				total += min(float64(i), float64(paid)/float64(step))
			case between <= gap:
				total += float64(between)
			default:
				total += float64(paid) / float64(step)
			}
			last = i
		}
	}
	return total * thickness * step.Hours()
}
