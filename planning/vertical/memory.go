package vertical

import (
	"math"
	"slices"
	"time"
)

// What an agent sees: the last Window observations of Features numbers each.
const (
	// Window is the number of observations, the oldest first.
	Window = 6
	// Features of one observation: limit, usage and what is left of the budget, as
	// shares of the budget; usage by limit; that of the others, on average; the own
	// priority and the others', on average.
	Features = 7
	// Inputs of a network that decides.
	Inputs = Window * Features
)

// Index of the features in an observation.
const (
	ofLimit = iota
	ofUsage
	ofAvailable
	ofUtilisation
	ofOthers
	ofPriority
	ofOthersPriority
)

// mostShare bounds features: a burst or an odd sample must not leave what networks know.
const mostShare = 4

// View is what an agent decides on.
type View struct {
	// ID of the pod.
	ID string
	// Window has Window × Features numbers.
	Window []float32
	// Limit and Usage are the pod's, Available what is left of the budget (below 0
	// after a cut) and Budget all of it, millicores.
	Limit, Available, Budget int64
	Usage                    float64
	Floor                    int64
	// Usages are those of all pods with a reading, from the least on, Used their sum; Blind are
	// the limits of the others, millicores.
	Usages []float64
	Used   float64
	Blind  int64
}

// Utilisation is usage by limit, 0–1 and above.
func (v *View) Utilisation() float64 { return v.Usage / float64(max(1, v.Limit)) }

// Memory is what ticks know of the ones before. The zero value knows nothing.
type Memory struct {
	round
	seen   map[string]*agent
	tick   uint64
	viewed View
	// Of this tick: sums over pods with a reading.
	utilisation, priority, used float64
	usages                      []float64
	pods                        int
	blind                       int64
}

// agent is what is known of one pod.
type agent struct {
	window [Inputs]float32
	filled bool
	known  bool
	tick   uint64
	usage  float64
	// written is the time of the last change, decided that of the last reading which
	// the agent was asked about.
	written, decided time.Time
}

// Observe adds this tick's observation to every agent's window, makes agents for new
// pods and forgets those whose pods are gone.
func (m *Memory) Observe(c Config, in Input) {
	if m.seen == nil {
		m.seen = map[string]*agent{}
	}
	m.tick++
	m.utilisation, m.priority, m.used, m.usages, m.pods, m.held, m.blind = 0, 0, 0, m.usages[:0], len(in.Pods), 0, 0
	for i := range in.Pods {
		p := &in.Pods[i]
		a := m.seen[p.ID]
		if a == nil {
			a = &agent{}
			m.seen[p.ID] = a
		}
		age := in.Time.Sub(p.At)
		a.tick = m.tick
		a.known = !p.At.IsZero() && age <= c.Stale && age >= -c.Stale && p.Usage >= 0 && !math.IsInf(p.Usage, 0) && p.Limit > 0
		if a.known {
			a.usage = p.Usage
			m.utilisation += p.Usage / float64(p.Limit)
			m.used += p.Usage
			m.usages = append(m.usages, p.Usage)
		} else {
			m.blind += p.Limit
		}
		m.priority += weight(p.Priority)
		m.held += max(p.Limit, p.Held)
	}
	slices.Sort(m.usages)
	for i := range in.Pods {
		if a := m.seen[in.Pods[i].ID]; a.known {
			a.add(m.features(&in.Pods[i], in.Envelope.Budget))
		}
	}
	for id, a := range m.seen {
		if a.tick != m.tick {
			delete(m.seen, id)
		}
	}
}

// features of a pod with a reading.
func (m *Memory) features(p *Pod, budget int64) (f [Features]float32) {
	all := float64(max(1, budget))
	own, prio := p.Usage/float64(p.Limit), weight(p.Priority)
	f[ofLimit] = share(float64(p.Limit) / all)
	f[ofUsage] = share(p.Usage / all)
	f[ofAvailable] = share(float64(budget-m.held) / all)
	f[ofUtilisation] = share(own)
	f[ofPriority] = float32(prio)
	if known := len(m.usages); known > 1 {
		f[ofOthers] = share((m.utilisation - own) / float64(known-1))
	}
	if m.pods > 1 {
		f[ofOthersPriority] = float32((m.priority - prio) / float64(m.pods-1))
	}
	return f
}

func share(x float64) float32 { return float32(min(max(x, -mostShare), mostShare)) }

// add an observation; the first one fills the window.
func (a *agent) add(f [Features]float32) {
	if !a.filled {
		a.filled = true
		for i := range Window {
			copy(a.window[i*Features:], f[:])
		}
		return
	}
	copy(a.window[:], a.window[Features:])
	copy(a.window[Inputs-Features:], f[:])
}

// view of a pod with a reading.
func (m *Memory) view(i int, in Input) *View {
	p := &in.Pods[i]
	m.viewed = View{
		ID:     p.ID,
		Window: m.seen[p.ID].window[:], Limit: p.Limit, Usage: p.Usage,
		Available: in.Envelope.Budget - m.held, Budget: in.Envelope.Budget, Floor: in.Envelope.Floor,
		Usages: m.usages, Used: m.used, Blind: m.blind,
	}
	return &m.viewed
}

// Observation is an agent's window as of the last tick; nil of a pod that was not there
// or has never had a reading. It must not be changed.
func (m *Memory) Observation(id string) []float32 {
	if a := m.seen[id]; a != nil && a.filled {
		return a.window[:]
	}
	return nil
}
