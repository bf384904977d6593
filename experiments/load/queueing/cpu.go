package queueing

import (
	"container/heap"
	"math"
	"slices"
	"time"
)

// epsilon is the CPU work, in seconds, below which a request is done and a
// quota spent: the rounding of a nanosecond clock.
const epsilon = 2e-9

// node is the state of a Node. Between two events nothing changes its pods'
// rates, so its entry is the next completion, spent quota or new period.
type node struct {
	Node
	*entry
	lost    bool
	pods    []*pod
	settled time.Duration // pods' state is that of this time
}

// pod is the state of a Pod. Its entry is the next change of its membership.
type pod struct {
	Pod
	*entry
	stream *stream
	node   *node

	accepting bool // takes new connections
	routed    bool // is an endpoint

	joinAt, leaveAt, closeAt, killAt time.Duration

	startup float64 // reference CPU seconds that are left of it

	jobs jobs
	// attained is the reference CPU seconds each request in the pod would have
	// received had it been there from the beginning; a request that comes at
	// attained a with work w is done when it reaches a + w.
	attained float64
	rate     float64 // cores granted

	periodBegin time.Duration
	used        float64 // core seconds in the period
	throttled   bool

	usage            float64 // core seconds
	periods          uint64  // in which it ran
	throttledPeriods uint64
	throttledTime    time.Duration
}

func (p *pod) quota() float64 { return p.Limit * Period.Seconds() }

func (p *pod) fire(m *Model) {
	if p.joinAt <= m.now {
		p.joinAt = never
		p.stream.join(p)
	}
	if p.leaveAt <= m.now {
		p.leaveAt = never
		p.stream.leave(p)
	}
	if p.closeAt <= m.now {
		p.closeAt = never
		p.accepting = false
	}
	if p.killAt <= m.now {
		p.killAt = never
		p.node.settle(m.now)
		p.die(m)
		p.node.reallocate(m)
	}
	p.reschedule(m)
}

func (p *pod) reschedule(m *Model) {
	m.schedule(p.entry, min(p.joinAt, p.leaveAt, p.closeAt, p.killAt))
}

// die resets the requests of a settled pod. On a lost node nobody is there to
// reset them: they wait for their timeouts.
func (p *pod) die(m *Model) {
	p.accepting = false
	if p.node.lost {
		return
	}
	for len(p.jobs) > 0 {
		v := heap.Pop(&p.jobs).(*visit)
		v.user.close(v)
		v.user.fail(m, reset)
	}
}

func (p *pod) drop(v *visit) { heap.Remove(&p.jobs, v.pos) }

// settle brings the pods' work and counters to time now.
func (n *node) settle(now time.Duration) {
	if now <= n.settled {
		return
	}
	for _, p := range n.pods {
		p.run(n.settled, now, n.Speed)
	}
	n.settled = now
}

// run lets the pod work at its rate from one time to another. No quota is spent
// between them, so at most whole periods pass.
func (p *pod) run(from, to time.Duration, speed float64) {
	dt := (to - from).Seconds()
	if p.throttled {
		p.throttledTime += to - from
	}
	work := p.rate * dt
	p.usage += work
	p.stream.usage += work
	p.stream.work += work * speed
	switch k := len(p.jobs); {
	case p.startup > 0:
		if p.startup -= work * speed; p.startup < epsilon {
			p.startup = 0
		}
	case k > 0:
		p.attained += p.serves() * dt * speed / float64(k)
	}
	passed := (to - p.periodBegin) / Period
	if passed == 0 {
		p.used += work
		return
	}
	if p.rate > 0 {
		p.periods += uint64(passed)
	} else if p.used > 0 {
		p.periods++
	}
	p.periodBegin += passed * Period
	p.used = p.rate * (to - max(p.periodBegin, from)).Seconds()
}

func (n *node) fire(m *Model) {
	n.settle(m.now)
	for _, p := range n.pods {
		for len(p.jobs) > 0 && p.jobs[0].finish <= p.attained+epsilon {
			heap.Pop(&p.jobs).(*visit).served(m)
		}
		if p.Limit <= 0 {
			continue
		}
		switch {
		case p.throttled && p.used < p.quota()-epsilon: // a new period, or a larger limit
			p.throttled = false
		case !p.throttled && p.busy() && p.used >= p.quota()-epsilon:
			p.throttled = true
			p.throttledPeriods++
		}
	}
	n.reallocate(m)
}

// reallocate shares the node's cores among its settled pods and schedules the
// next event.
func (n *node) reallocate(m *Model) {
	n.share()
	next := never
	for _, p := range n.pods {
		next = min(next, p.next(n.settled, n.Speed))
	}
	m.schedule(n.entry, next)
}

// share computes weighted max–min fair rates by filling: whoever wants less
// than its share of what is left gets what it wants, which leaves more for the
// others.
func (n *node) share() {
	left, weights := n.Cores, 0.0
	open := 0
	for _, p := range n.pods {
		p.rate = 0
		if want := p.want(); want > 0 {
			weights += p.weight()
			open++
		}
	}
	for open > 0 {
		level := left / weights // cores per weight
		settled := 0
		for _, p := range n.pods {
			if want := p.want(); want > 0 && p.rate == 0 && want <= level*p.weight()*(1+1e-12) {
				p.rate = want
				left -= want
				weights -= p.weight()
				settled++
			}
		}
		if settled == 0 {
			for _, p := range n.pods {
				if p.rate == 0 && p.want() > 0 {
					p.rate = level * p.weight()
				}
			}
			return
		}
		if open -= settled; left <= 0 || weights <= 0 {
			return
		}
	}
}

// busy reports whether the pod has something to do.
func (p *pod) busy() bool { return p.startup > 0 || len(p.jobs) > 0 }

// want is the cores the pod could use: one per request, all to start, none while throttled.
func (p *pod) want() float64 {
	switch {
	case p.throttled || p.node.lost:
		return 0
	case p.startup > 0:
		return p.node.Cores
	}
	return min(p.own()+float64(len(p.jobs)), p.node.Cores)
}

// own is the cores of its node that it uses without any request.
func (p *pod) own() float64 { return p.Base / p.node.Speed }

// serves is the cores that its requests get of those granted.
func (p *pod) serves() float64 {
	const least = 1e-6 // so that they end
	if p.Base == 0 {
		return p.rate
	}
	return min(p.rate, max(p.rate-p.own(), least))
}

func (p *pod) weight() float64 { return max(p.Request, minShares) }

// next is the time of the pod's next own event after it was settled at now.
func (p *pod) next(now time.Duration, speed float64) time.Duration {
	if p.throttled {
		return p.periodBegin + Period
	}
	if !p.busy() || p.rate <= 0 {
		return never
	}
	remaining, rate := p.startup, p.rate
	if remaining == 0 {
		remaining, rate = max(p.jobs[0].finish-p.attained, 0)*float64(len(p.jobs)), p.serves()
	}
	next := after(now, remaining/(rate*speed))
	if p.Limit <= 0 {
		return next
	}
	// The quota is spent in this period, or in the next one if the rate is
	// above the limit, or never.
	spent := after(now, max(p.quota()-p.used, 0)/p.rate)
	if end := p.periodBegin + Period; spent >= end {
		if p.rate*Period.Seconds() <= p.quota() {
			return next
		}
		spent = after(end, p.quota()/p.rate)
	}
	return min(next, spent)
}

// after is now plus seconds, rounded up to the clock.
func after(now time.Duration, seconds float64) time.Duration {
	ns := math.Ceil(seconds * float64(time.Second))
	if ns >= float64(never-now) {
		return never
	}
	return now + time.Duration(ns)
}

func (n *node) remove(p *pod) {
	n.pods = slices.DeleteFunc(n.pods, func(o *pod) bool { return o == p })
}
