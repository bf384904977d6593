package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/mash2-io/mash2"
	"github.com/mash2-io/mash2/api"
)

// Faults are drawn from the run's seed and strike until scenario time Until; 0
// is none at all. The operator dies between actions and comes back knowing
// nothing, actions fail, somebody else evicts a pod just before it does, zones run
// out of machines, instances don't join, and pods on the nodes of a pool don't get
// Ready. What runs is left alone but for that: whatever becomes of it is the
// operator's doing.
type Faults struct {
	Until   time.Duration
	Watches Watches
}

// spells are how often in a long run of faults as much happens as in one of three hours or
// less.
func (f Faults) spells() int { return max(1, int(f.Until/(3*time.Hour))) }

var (
	errDead   = errors.New("the operator is dead")
	errFailed = errors.New("the API server did not answer")
)

// mortal is an operator under faults. The function it returns is asked before
// each cycle whether there is an operator, and begins a new one after a death.
func (r *run) mortal(begin func(mash2.Actuator)) (alive func() bool) {
	c := r.c
	rng := rand.New(rand.NewPCG(r.Seed, 99))
	end := r.start + r.Faults.Until
	f := &frail{Actuator: r.hands(), c: c, rng: rng, until: end, alone: r.Faults.Watches.alone}
	begin(f)
	within := func(low, high time.Duration) time.Duration {
		return low + time.Duration(rng.Float64()*float64(high-low))
	}
	silent, stuck := map[*pool]time.Duration{}, map[*pool]time.Duration{}
	c.silent = func(p *pool) bool { return c.now < silent[p] }
	c.stuck = func(n *node) bool { return c.now < stuck[n.pool] }
	for range (1 + rng.IntN(4)) * r.Faults.spells() {
		if r.Faults.Watches.alone {
			break
		}
		from := r.start + within(0, r.Faults.Until)
		to := min(from+within(time.Minute, r.Faults.Until/time.Duration(r.Faults.spells())), end)
		p := c.pools[rng.IntN(len(c.pools))]
		switch rng.IntN(3) {
		case 0:
			zone := p.zones[rng.IntN(len(p.zones))]
			c.at(from, func() { c.stockout[zone] = true })
			c.at(to, func() { c.stockout[zone] = false })
		case 1:
			c.at(from, func() { silent[p] = to })
		default:
			c.at(from, func() { stuck[p] = to })
		}
	}
	return func() bool {
		if w := r.watching; w != nil && w.behind() {
			return false
		}
		if !f.dead {
			return true
		}
		if c.now < f.back {
			return false
		}
		f.dead = false
		begin(f)
		return true
	}
}

// frail are hands that fail, and an operator that dies on them.
type frail struct {
	mash2.Actuator
	c     *Cluster
	rng   *rand.Rand
	until time.Duration
	alone bool // nothing fails but watches
	dead  bool
	back  time.Duration // when there is an operator again
}

// Apply implements the loop's Actuator.
func (f *frail) Apply(ctx context.Context, a api.Action) error {
	if f.dead {
		return errDead
	}
	if f.c.now < f.until && !f.alone {
		switch f.rng.IntN(20) {
		case 0: // before it
			f.die()
			return errDead
		case 1: // after it
			err := f.Actuator.Apply(ctx, a)
			f.die()
			return err
		case 2, 3:
			return errFailed
		case 4, 5:
			f.overtake(a)
		}
	}
	return f.Actuator.Apply(ctx, a)
}

// hands of the operator: those that look where watches fail.
func (r *run) hands() mash2.Actuator {
	if r.watching != nil {
		return looking{hands{r.c}, r.watching}
	}
	return hands{r.c}
}

// overtake lets somebody else evict a pod under the budget of the one that the
// operator is about to evict. Of StatefulSets only: what becomes of others is to be
// the operator's doing.
func (f *frail) overtake(a api.Action) {
	e, ok := a.(api.EvictPod)
	if !ok || f.c.pods[e.UID] == nil || !f.c.pods[e.UID].workload.stateful {
		return
	}
	for _, b := range f.c.budgetsFor(f.c.pods[e.UID].workload) {
		for _, w := range b.workloads {
			for _, p := range w.pods {
				if p.uid != e.UID && p.ready && !p.terminating && f.c.evict(p) == nil {
					f.c.overtaken++
					return
				}
			}
		}
	}
}

// die for up to ten minutes, mostly for less.
func (f *frail) die() {
	f.dead = true
	f.back = f.c.now + time.Duration(f.rng.Float64()*f.rng.Float64()*float64(10*time.Minute))
}
