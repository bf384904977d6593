package sim

import (
	"math"

	"github.com/mash2-io/mash2/planning/vertical"
)

// class is a kind of endpoints that are alike; most of a service's are.
type class struct {
	speed, cores, capacity float64
	queue                  float64 // requests at the beginning of the step, of a graph
	count                  float64
}

// prepare looks at what a service's endpoints can do in the coming step, of a number.
func (s *fluidStream) prepare(step int) {
	s.classes, s.classOf = s.classes[:0], s.classOf[:0]
	s.live, s.refusing, s.lost = 0, 0, 0
	for _, p := range s.endpoints {
		kind := -1
		switch {
		case p.node.lost:
			s.lost++ // nobody answers: the timeout passes
		case !p.accepting:
			s.refusing++
		default:
			s.live++
			kind = s.kindOf(class{speed: p.node.Speed, cores: p.node.Cores, capacity: p.forRequests(step), queue: p.queue})
		}
		s.classOf = append(s.classOf, kind)
	}
}

// kindOf counts an endpoint to its class.
func (s *fluidStream) kindOf(c class) int {
	for i, o := range s.classes {
		if o.speed == c.speed && o.cores == c.cores && o.capacity == c.capacity && o.queue == c.queue {
			s.classes[i].count++
			return i
		}
	}
	c.count = 1
	s.classes = append(s.classes, c)
	return len(s.classes) - 1
}

// able is the reference cores that a service's endpoints have together.
func (s *fluidStream) able() float64 {
	var sum float64
	for _, c := range s.classes {
		sum += c.count * c.capacity * c.speed
	}
	return sum
}

// response of a pod: a share of requests is throttled, on top of what all take.
// Times are means in seconds.
type response struct{ base, share, throttled float64 }

func (r response) mean() float64 { return r.base + r.share*r.throttled }

// answer is the response of a pod at a rate of requests of so much work, reference
// seconds; infinite when it can't keep up.
func (c class) answer(rate, work float64) response {
	base, share, throttled := vertical.Response(rate, work/c.speed, c.capacity, c.cores)
	return response{base, share, throttled}
}

// closedRate is the rate at which n users who think for so long, seconds, are all
// accounted for, x·(think + answer(x)) = n, where answer doesn't fall. It is sought
// from guess on: n/(think + answer(guess)) is on the other side of it.
func closedRate(n, think, guess float64, answer func(rate float64) float64) float64 {
	const precision = 1e-8
	most := n / max(think, 1e-3)
	if !(guess > 0 && guess <= most) {
		guess = most
	}
	first := answer(guess)
	a, fa := guess, guess*(think+first)-n
	if math.Abs(fa) <= precision*n {
		return a
	}
	excess := func(x float64) float64 { return x*(think+answer(x)) - n }
	b := min(most, n/(think+first))
	fb := excess(b)
	if fa*fb > 0 { // answer did fall, a mix of requests having changed
		a, fa, b, fb = 0, -n, most, excess(most)
	}
	// Regula falsi, the Illinois variant.
	for range 60 {
		if math.Abs(fb) <= precision*n || math.Abs(b-a) <= precision*most {
			break
		}
		x := b - fb*(b-a)/(fb-fa)
		f := excess(x)
		if f*fb < 0 {
			a, fa = b, fb
		} else {
			fa /= 2
		}
		b, fb = x, f
	}
	return b
}

// serve lets one stream of users go on for dt seconds.
func (f *fluid) serve(s *fluidStream, dt float64) {
	n := float64(s.users)
	if n == 0 {
		s.rate = 0
		for _, p := range s.endpoints {
			p.wants, p.inFlight = 0, 0
		}
		return
	}
	if len(s.endpoints) == 0 {
		s.counts.refused += n / max(s.think, 1e-3) * dt
		return
	}
	k := float64(len(s.endpoints))
	timeout := s.Timeout.Seconds()
	x := closedRate(n, s.think, s.rate, func(x float64) float64 {
		sum := s.lost * timeout
		for _, c := range s.classes {
			// Who waits for longer than the timeout gives up then.
			sum += c.count * min(c.answer(x/k, s.work).mean(), timeout)
		}
		return sum / k
	})
	s.rate = x
	s.counts.refused += x * s.refusing / k * dt
	s.timedOut(x*s.lost/k*dt, timeout)
	// Compound Poisson with exponential work: relative deviation √(2/n).
	f.spend(s, x/k*dt, math.Sqrt2, dt)
	for _, c := range s.classes {
		arrivals := x / k * dt * c.count
		r := c.answer(x/k, s.work)
		if r.mean() <= timeout {
			s.answered(arrivals, r, timeout)
			continue
		}
		served := min(arrivals, c.count*c.capacity*c.speed/s.work*dt)
		s.saturated(served, served/max(arrivals, 1e-9), timeout)
		s.timedOut(arrivals-served, timeout)
	}
	for i, p := range s.endpoints {
		if kind := s.classOf[i]; kind >= 0 {
			r := s.classes[kind].answer(x/k, s.work).mean()
			p.inFlight = x / k * min(r, timeout)
		}
	}
}

// spend lets each pod use the CPU that so many requests ask for.
func (f *fluid) spend(s *fluidStream, requests, deviation, dt float64) {
	for i, p := range s.endpoints {
		if kind := s.classOf[i]; kind >= 0 {
			p.spend(requests*(1+f.rng.NormFloat64()*deviation/math.Sqrt(max(requests, 1))), s.classes[kind].capacity, dt)
		} else {
			p.wants, p.inFlight = 0, 0
		}
	}
}

// spend is the use of CPU for so many requests, within the capacity, in cores, for
// dt seconds. What noise puts beyond it is done afterwards, so that a pod near its
// capacity does as much as it is asked in the mean.
func (p *fluidPod) spend(requests, capacity, dt float64) {
	load := max(0, requests*p.stream.work+p.owed)
	cores := min(load/dt/p.node.Speed, capacity)
	p.owed = min(load-cores*dt*p.node.Speed, capacity*p.node.Speed) // what takes a second at most
	p.usage += cores * dt
	p.stream.usage += cores * dt
	p.stream.done += cores * dt * p.node.Speed
	p.wants = cores + p.own
}

// forRequests is the capacity that is left for requests, by the number of the step.
func (p *fluidPod) forRequests(step int) float64 {
	if p.own == 0 {
		return p.capacityAt(step)
	}
	const least = 1e-3 // who has nothing left is as slow as that
	return max(p.capacityAt(step)-p.own, least)
}

// serveOpen lets open load go on for dt seconds. What comes beyond the capacity
// stays: in a pod with K requests of exponential work, of which it can end μ per
// second, one takes K/μ on average under processor sharing, exponentially
// distributed, so that a share exp(−timeout·μ/K) of those that come gives up.
func (f *fluid) serveOpen(s *fluidStream, rps, dt float64) {
	k := float64(len(s.endpoints))
	timeout := s.Timeout.Seconds()
	// Arrivals are a Poisson process.
	come := max(0, rps*dt+f.rng.NormFloat64()*math.Sqrt(rps*dt))
	if k == 0 {
		s.counts.refused += come
		return
	}
	s.timedOut(come*s.lost/k, timeout)
	s.counts.refused += come * s.refusing / k
	if s.live == 0 {
		s.backlog = 0
		return
	}
	each := (come*s.live/k + s.backlog) / s.live
	var served float64
	for i, p := range s.endpoints {
		kind := s.classOf[i]
		if kind < 0 {
			p.wants, p.inFlight = 0, 0
			continue
		}
		c := s.classes[kind]
		mine := min(each, c.capacity*p.node.Speed/s.work*dt)
		p.spend(mine*(1+f.rng.NormFloat64()*math.Sqrt(1/max(mine, 1))), c.capacity, dt)
		p.inFlight = mine/dt*s.work/p.node.Speed + s.backlog/s.live
		served += mine
	}
	wait := s.backlog / max(s.able()/s.work, 1e-9)
	late := 0.0 // share of those that come
	if wait > 0 {
		late = math.Exp(-timeout / wait)
	}
	for _, c := range s.classes {
		most := c.capacity * c.speed / s.work * dt
		mine := min(each, most)
		r := c.answer(mine/dt, s.work)
		if mine < most*0.999 && wait == 0 && r.mean() <= timeout {
			s.answered(mine*c.count, r, timeout)
			continue
		}
		s.saturated(mine*c.count, -math.Expm1(-timeout/(wait+s.work/c.speed)), timeout)
	}
	gaveUp := min(come*s.live/k*late, max(0, s.backlog+come*s.live/k-served))
	s.timedOut(gaveUp, timeout)
	s.backlog = max(0, s.backlog+come*s.live/k-served-gaveUp)
	if s.backlog < 1e-6 {
		s.backlog = 0
	}
}
