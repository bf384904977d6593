package agents

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/mash2-io/mash2/api"
)

// paced asks for pods and for readings as seldom as does no harm. A loop looks each second, and
// an operator may have a hundred of them, while metrics.k8s.io renews its readings every 10 to
// 60 seconds, and agents decide once on each.
//
// Pods are listed anew after a write of the loop's own, while a resize has not come about, and
// else after [podsFor]. Readings are
// asked for from when they may be renewed again: as long after they were renewed last as the
// shortest time from one renewal to the next was so far.
type paced struct {
	observer Observer
	meter    Meter
	actuator Actuator
	clock    clock.PassiveClock

	mu      sync.Mutex // guards what is below; nobody is asked under it
	pods    []Pod
	refused []Refused
	listed  time.Time // zero where they must be listed
	writes  int
	usage   map[string]Usage
	newest  time.Time     // of the readings
	renewed time.Time     // when that was seen first
	every   time.Duration // the shortest time between renewals; 0 if not known
}

const (
	// podsFor is how long a list of pods is used: a pod that is new has no reading for longer.
	podsFor = 5 * time.Second
	// early is how long before they may be renewed readings are asked for: clocks differ, and
	// loops look once a second.
	early = 2 * time.Second
)

// Observe implements Observer.
func (p *paced) Observe(ctx context.Context) ([]Pod, []Refused, error) {
	now := p.clock.Now()
	p.mu.Lock()
	if age := now.Sub(p.listed); !p.listed.IsZero() && age >= 0 && age < podsFor {
		defer p.mu.Unlock()
		return slices.Clone(p.pods), p.refused, nil
	}
	writes := p.writes
	p.mu.Unlock()
	pods, refused, err := p.observer.Observe(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed = time.Time{}
	if err == nil && writes == p.writes && !slices.ContainsFunc(pods, pending) {
		p.pods, p.refused, p.listed = slices.Clone(pods), refused, now
	}
	return pods, refused, err
}

// pending reports whether a resize of a pod has not come about.
func pending(p Pod) bool { return p.Held != p.Limit || p.Memory.Held != p.Memory.Limit }

// Read implements Meter.
func (p *paced) Read(ctx context.Context, pods []Pod) (map[string]Usage, error) {
	now := p.clock.Now()
	p.mu.Lock()
	if since := now.Sub(p.renewed); p.usage != nil && since >= 0 && since < p.every-early {
		defer p.mu.Unlock()
		return p.usage, nil
	}
	p.mu.Unlock()
	usage, err := p.meter.Read(ctx, pods)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.usage = nil
		return usage, err
	}
	newest := p.newest
	for _, u := range usage {
		if u.At.After(newest) {
			newest = u.At
		}
	}
	if newest.After(p.newest) {
		gap := now.Sub(p.renewed)
		switch {
		case p.newest.IsZero(): // nobody saw when they were renewed
		case p.renewed.IsZero():
			p.renewed = now
		case p.every == 0 || gap < p.every:
			p.every = gap
			fallthrough
		default:
			p.renewed = now
		}
		p.newest = newest
	}
	p.usage = usage
	return usage, nil
}

// Apply implements Actuator.
func (p *paced) Apply(ctx context.Context, action api.Action) error {
	err := p.actuator.Apply(ctx, action)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed, p.writes = time.Time{}, p.writes+1
	return err
}
