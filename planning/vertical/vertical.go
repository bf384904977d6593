package vertical

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Envelope is what the slow loop, or a person, allows the fast one: millicores of CPU, or
// bytes of memory.
type Envelope struct {
	// Budget is what the limits of all pods may be together.
	Budget int64
	// Floor and Ceiling bound each pod's limit.
	Floor, Ceiling int64
	// Until is when it ends. Without a fresh envelope nothing is changed.
	Until time.Time
}

// Validate returns an error for an envelope that allows nothing.
func (e Envelope) Validate() error {
	switch {
	case e.Budget < 1:
		return fmt.Errorf("budget: want 1 or more, is %d", e.Budget)
	case e.Floor < 1 || e.Ceiling < e.Floor:
		return fmt.Errorf("floor %d and ceiling %d: want a floor of 1 or more and a ceiling that is not below it", e.Floor, e.Ceiling)
	case e.Floor > most || e.Ceiling > most || e.Budget > most:
		return fmt.Errorf("budget %d, floor %d, ceiling %d: none may be above %d", e.Budget, e.Floor, e.Ceiling, int64(most))
	}
	return nil
}

// most of anything: far above the millicores and bytes of any machine, and exact in a float64.
const most = 1 << 50

// Config bounds what proposals can do. MARLISE's figures are in [DefaultConfig].
type Config struct {
	// Step is the most that a limit changes in one tick by an agent's proposal,
	// millicores. What a smaller budget takes back is not bound by it.
	Step int64
	// Deadband is the smallest increase that is worth a write, millicores.
	Deadband int64
	// Every is the shortest time between two writes of one pod, but for what a smaller
	// budget takes back.
	Every time.Duration
	// Stale is how old a reading of usage may be. A pod without a fresh one keeps its
	// limit, and so does one whose agent has decided on the same reading before.
	Stale time.Duration
}

// DefaultConfig allows a decision each second: MARLISE's interval, and the largest step
// that its agents were served with (150 m).
func DefaultConfig() Config {
	return Config{Step: 150, Deadband: 1, Every: time.Second, Stale: 5 * time.Second}
}

// Validate returns an error that names a field which makes no sense.
func (c Config) Validate() error {
	switch {
	case c.Step < 1:
		return fmt.Errorf("step: want 1 millicore or more, is %d", c.Step)
	case c.Deadband < 0:
		return fmt.Errorf("deadband: want 0 or more, is %d", c.Deadband)
	case c.Every < 0 || c.Stale <= 0:
		return errors.New("every must be 0 or more and stale above 0")
	}
	return nil
}

// Pod is one pod as it is now: its millicores of CPU, or its bytes of memory.
type Pod struct {
	// ID is the pod's UID: a pod that comes back under the same name is another.
	ID string
	// Limit is what its spec says, Held what the node gives it: another number while a
	// resize is under way. The budget counts the larger one.
	Limit, Held int64
	// Floor of this pod where it is above the envelope's: a request that stays.
	Floor int64
	// Usage at a time. A zero At is no reading. Files is what the kernel keeps of files, as a
	// part of it: of memory only, 0 where that isn't known.
	Usage, Files float64
	At           time.Time
	// Priority is its weight, above 0 up to 1.
	Priority float64
	// Killed is when the container was killed last because it lacked memory. It counts for
	// memory only.
	Killed time.Time
	// Stuck tells that the node does not lower the limit from Held, as the container uses more
	// with the files that are kept for it. Then it raises nothing either: all resources of a pod
	// are resized together. Of memory only.
	Stuck bool
}

// settled reports whether no resize is under way.
func (p *Pod) settled() bool { return p.Held == 0 || p.Held == p.Limit }

// waits reports whether its node has not taken up a rise yet.
func (p *Pod) waits() bool { return p.Held > 0 && p.Held < p.Limit }

// Input of a tick.
type Input struct {
	Time     time.Time
	Envelope Envelope
	// Pods in a steady order.
	Pods []Pod
}

// Decision is what becomes of a pod's limit, millicores or bytes.
type Decision struct {
	ID       string
	From, To int64
	// Proposed is what the agent, or of memory the rule, asked for; NaN of one that was not
	// asked.
	Proposed float64
	Binding  Binding
}

// Binding is what decided.
type Binding string

// What bound a decision, beside the agent's own proposal.
const (
	BoundNot     Binding = "proposal"
	BoundFloor   Binding = "floor"
	BoundCeiling Binding = "ceiling"
	BoundStep    Binding = "step"
	BoundRate    Binding = "rate"
	BoundBudget  Binding = "budget"
	BoundNoData  Binding = "noData"
	BoundDecided Binding = "decided" // on this very reading, before
	BoundNaN     Binding = "notANumber"
	BoundPanic   Binding = "panic"
	BoundResize  Binding = "resizeUnderWay"
	BoundStale   Binding = "noEnvelope"
	BoundSmall   Binding = "deadband"
	BoundKilled  Binding = "oomKilled" // of memory only
	BoundStuck   Binding = "stuck"     // of memory only
)

// Output of a tick.
type Output struct {
	// Decisions are in the order of the pods.
	Decisions []Decision
	// Held says why nothing at all was decided; empty otherwise.
	Held string
	// OverBudget is set when even the floors of all pods are above the budget. All
	// pods are at their floors then.
	OverBudget bool
}

// Planner is an agent's mind.
type Planner interface {
	// Name of it, as flags and reports have it.
	Name() string
	// Propose returns the limit that the agent would have next, millicores. It must not
	// keep the view. Any number is allowed: bounds are held around it.
	Propose(v *View) float64
}

// Tick is Observe and Decide.
func (m *Memory) Tick(c Config, planner Planner, in Input) Output {
	m.Observe(c, in)
	return m.Decide(c, planner, in)
}

// Decide for all pods, as they were observed last. It changes the memory and belongs to
// one goroutine; what it returns holds until the next call.
func (m *Memory) Decide(c Config, planner Planner, in Input) Output {
	m.out.Decisions = m.out.Decisions[:0]
	m.out.Held, m.out.OverBudget = "", false
	if err := in.Envelope.Validate(); err != nil {
		return m.hold(in, "the envelope is not valid: "+err.Error())
	}
	if !in.Time.Before(in.Envelope.Until) {
		return m.hold(in, "the envelope ended at "+in.Envelope.Until.UTC().Format(time.RFC3339))
	}
	m.ask(c, planner, in)
	m.divide(in)
	for i := range in.Pods {
		d := &m.out.Decisions[i]
		if up := d.To - d.From; up > 0 && up < c.Deadband && d.From >= in.Envelope.of(&in.Pods[i]).Floor {
			d.To, d.Binding = d.From, BoundSmall
		}
		if d.To != d.From {
			m.seen[d.ID].written = in.Time
		}
	}
	return m.out
}

// ask every agent, and hold its proposal within what binds it alone. What each pod may
// get is in m.claims then.
func (m *Memory) ask(c Config, planner Planner, in Input) {
	m.claims = m.claims[:0]
	for i := range in.Pods {
		p := &in.Pods[i]
		e := in.Envelope.of(p)
		d := Decision{ID: p.ID, From: p.Limit, To: p.Limit, Proposed: math.NaN(), Binding: BoundNot}
		a := m.seen[p.ID]
		least, wish := p.Limit, p.Limit
		switch {
		case !p.settled() && (!a.known || !p.waits() || !p.At.After(a.decided)):
			d.Binding = BoundResize
		case !a.written.IsZero() && in.Time.Sub(a.written) < c.Every:
			d.Binding = BoundRate
		case !a.known:
			d.Binding = BoundNoData
			least, wish = e.clamp(p.Limit), e.clamp(p.Limit)
		case !p.At.After(a.decided):
			d.Binding = BoundDecided
		case p.waits(): // its node may have no room for long: who needs it no more takes it back
			a.decided = p.At
			v := m.view(i, in)
			v.Limit = p.Held
			d.Binding = BoundResize
			if d.Proposed = propose(planner, v, &d.Binding); d.Proposed <= float64(p.Held) {
				least = min(p.Limit, max(e.Floor, p.Held))
				wish, d.Binding = least, BoundNot
			}
		default:
			a.decided = p.At
			d.Proposed = propose(planner, m.view(i, in), &d.Binding)
			wish, d.Binding = bound(d.Proposed, p.Limit, c.Step, e, d.Binding)
			least = min(max(e.Floor, p.Limit-c.Step), wish)
		}
		m.claims = append(m.claims, Claim{Least: least, Most: wish, Weight: weight(p.Priority)})
		m.out.Decisions = append(m.out.Decisions, d)
	}
}

// of a pod: the envelope with the pod's own floor.
func (e Envelope) of(p *Pod) Envelope {
	e.Floor = max(e.Floor, p.Floor)
	e.Ceiling = max(e.Ceiling, e.Floor)
	return e
}

// clamp to the pod's bounds.
func (e Envelope) clamp(limit int64) int64 { return min(max(limit, e.Floor), e.Ceiling) }

// bound a proposal by step, floor and ceiling.
func bound(proposed float64, now, step int64, e Envelope, already Binding) (int64, Binding) {
	if math.IsNaN(proposed) {
		if already == BoundNot {
			already = BoundNaN
		}
		return e.clamp(now), already
	}
	by := BoundNot
	wish := int64(math.Round(min(max(proposed, 0), most)))
	if wish > now+step {
		wish, by = now+step, BoundStep
	} else if wish < now-step {
		wish, by = now-step, BoundStep
	}
	if wish < e.Floor {
		wish, by = e.Floor, BoundFloor
	} else if wish > e.Ceiling {
		wish, by = e.Ceiling, BoundCeiling
	}
	return wish, by
}

// propose asks a planner; one that panics has no opinion.
func propose(p Planner, v *View, binding *Binding) (limit float64) {
	defer func() {
		if recover() != nil {
			limit, *binding = math.NaN(), BoundPanic
		}
	}()
	return p.Propose(v)
}

// weight of a priority: one that is none is the least there is.
func weight(priority float64) float64 {
	if !(priority > leastPriority) {
		return leastPriority
	}
	return min(priority, 1)
}

// leastPriority is the smallest weight that is told apart from others.
const leastPriority = 1e-3

// divide the budget. At first nobody loses by a bound of its own: no reading, a write a
// moment ago, a resize under way. If the budget doesn't allow that, it was cut, and
// everybody may be taken back to the floor.
func (m *Memory) divide(in Input) {
	budget := in.Envelope.Budget
	// A pod whose node holds more than its spec says counts with that.
	for i := range in.Pods {
		p := &in.Pods[i]
		if !p.settled() {
			budget -= max(0, p.Held-p.Limit)
		}
	}
	m.got = append(m.got[:0], make([]int64, len(m.claims))...)
	got, ok := Share(budget, m.claims, m.got)
	if !ok {
		var floors int64
		for i := range m.claims {
			c := &m.claims[i]
			if d := m.out.Decisions[i]; math.IsNaN(d.Proposed) {
				c.Most = min(c.Most, in.Pods[i].Limit)
			}
			floor := in.Envelope.of(&in.Pods[i]).Floor
			c.Least, c.Most = floor, max(c.Most, floor)
			floors += floor
		}
		got, _ = Share(budget, m.claims, m.got)
		m.out.OverBudget = floors > in.Envelope.Budget
	}
	for i := range m.out.Decisions {
		d := &m.out.Decisions[i]
		if d.To = got[i]; got[i] < m.claims[i].Most {
			d.Binding = BoundBudget
		}
	}
	m.wait(in)
}
