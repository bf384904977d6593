package sim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/experiments/scenarios"
)

// Oracle is a lower bound on what the nodes of a scenario cost, USD by pass, for
// anybody who never violates its SLO, always has its least replicas on nodes, and
// leaves requests as the scenario has them: clairvoyant, with nodes and pods in
// fractions and boots begun in time. Nothing of that kind can beat it; nobody need
// reach it.
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
//     request on it; where pods of several sizes share nodes m is a fraction, of
//     the kind that gets most out of a node, by CPU alone. It takes at least D/κ nodes on average over the minute, and
//     never fewer than hold the least numbers of replicas, in whatever mixture of
//     pools is cheapest for them by CPU and memory; see cover.
//  3. A node that comes is paid from its request and while it stops: at least B =
//     the fastest boot in 30,000 (four standard deviations) + a resize's
//     latency + the stop. Those there at the start of a pass are free of it, and
//     where nodes fail no stop is counted. One after the end of a pass is: the
//     figure may be too high by that for nodes that came in the pass and outlast it.
//
// The cheapest n(t) ≥ need(t) under (3) is found exactly, layer by layer: a layer
// of nodes that is needed in two stretches is kept in between if the gap costs
// less than coming anew. Of several pools the one with the cheapest capacity
// counts for what is served.
func Oracle(s scenarios.Scenario, p Params, passes int, seed uint64) ([]float64, error) {
	c := newCluster(p, seed, newFluid(seed))
	price := math.Inf(1) // USD per reference core and hour
	deployments := deploymentsOf(s)
	replicas := cover{cpu: make([][]float64, len(deployments)), memory: make([][]float64, len(deployments))} // the least numbers
	for _, pool := range s.Pools {
		pl, err := c.newPool(pool, false)
		if err != nil {
			return nil, err
		}
		free := pl.allocatable.Minus(pl.overhead)
		for i, d := range deployments {
			memory := d.Memory.Request.Value()
			request, limit, sizes := sizesOf(s, d)
			m := float64(min(free.MilliCPU/request, free.Memory/max(memory, 1), free.Pods))
			if m < 1 {
				replicas.add(i, math.Inf(1), math.Inf(1))
				continue
			}
			cost := float64(d.Replicas.Min) * pl.price
			replicas.add(i, cost*float64(request)/float64(free.MilliCPU), cost*float64(memory)/float64(free.Memory))
			if sizes > 1 || len(deployments) > 1 {
				m = float64(free.MilliCPU) / float64(request) // other pods may fill what this kind leaves
			}
			capacity := pl.cores
			if limit > 0 {
				capacity = min(capacity, m*limit)
			}
			price = min(price, pl.price/(capacity*pl.speed))
		}
	}
	for i, d := range deployments {
		if !replicas.fits(i) {
			return nil, fmt.Errorf("scenario %s: no pool can hold a pod of service %s", s.Name, d.Name)
		}
	}
	least := replicas.least() // USD per hour
	paid := p.LeastPaid(s)
	pass := s.PassDuration()
	asked := askedOf(s, passes, seed)
	var out []float64
	for n := range passes {
		var needs []float64 // USD per hour, by minute
		for at := time.Duration(0); at < pass; at += time.Minute {
			length := min(time.Minute, pass-at)
			var sum float64
			steps := 0
			for t := at; t < at+length; t += time.Second {
				sum += asked(time.Duration(n)*pass + t)
				steps++
			}
			needs = append(needs, max(least, price*sum/float64(steps)))
		}
		out = append(out, cheapest(needs, time.Minute, paid))
	}
	return out, nil
}

// sizesOf are the smallest request, millicores, and the largest limit, cores, 0
// for none, that a service's pods have at any time, and how many sizes there are.
func sizesOf(s scenarios.Scenario, d scenarios.Service) (request int64, limit float64, sizes int) {
	request, limit, sizes = d.CPU.Request.MilliValue(), d.CPU.Limit.AsApproximateFloat64(), 1
	for _, e := range s.Events {
		if e.Resize == nil || e.Service != "" && e.Service != d.Name {
			continue
		}
		sizes++
		request = min(request, e.Resize.Request.MilliValue())
		if l := e.Resize.Limit.AsApproximateFloat64(); l == 0 || limit == 0 {
			limit = 0
		} else {
			limit = max(limit, l)
		}
	}
	return request, limit, sizes
}

// asker is who asks services: users of a type, or those of one copy.
type asker struct {
	user    scenarios.UserType
	copy    int
	traffic scenarios.Traffic
	work    map[string]float64 // reference core seconds by service
}

func askersOf(s scenarios.Scenario, passes int, seed uint64) []asker {
	var askers []asker
	for i, u := range s.UserTypes() {
		copies := 1
		if s.Single() {
			copies = max(1, s.Copies)
		}
		for n := range copies {
			t := s.TrafficOf(i, passes, seed+uint64(n)<<32)
			t.Shift = time.Duration(n) * s.PassDuration() / time.Duration(copies)
			askers = append(askers, asker{user: u, copy: n, traffic: t, work: u.MeanWork()})
		}
	}
	return askers
}

// rate is requests per second at a time, of users that wait so many seconds for
// an answer.
func (a asker) rate(at time.Duration, answer float64) float64 {
	if a.traffic.Open() {
		return a.traffic.RPS(at)
	}
	return float64(a.traffic.VUs(at)) / (a.user.ThinkTime.MeanSeconds() + answer)
}

// askedOf returns the reference cores that must at least be served at a time.
func askedOf(s scenarios.Scenario, passes int, seed uint64) func(time.Duration) float64 {
	askers := askersOf(s, passes, seed)
	pass := s.PassDuration()
	var services []string
	for _, a := range askers {
		services = append(services, slices.Sorted(maps.Keys(a.work))...)
	}
	slices.Sort(services)
	services = slices.Compact(services)
	return func(at time.Duration) float64 {
		var sum float64
		for _, a := range askers {
			// The mean answer without a violation.
			rate := a.rate(at, 0.95*s.SLO.P95Ms/1000+0.05*a.user.Timeout.Seconds())
			if rate == 0 {
				continue
			}
			for _, service := range services { // in order: sums of floats depend on it
				if w := a.work[service]; w > 0 {
					sum += rate * w * (1 - s.SLO.FailedRatio) * s.WorkFactor(service, at%pass)
				}
			}
		}
		return sum
	}
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
