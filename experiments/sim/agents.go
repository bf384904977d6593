package sim

import (
	"math"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/planning/vertical"
)

// Agents move CPU between the running pods of each of mash2's workloads, as spec.vertical of
// a ManagedWorkload has it: within the envelope of the newest plan.
type Agents struct {
	// Rule decides; see [vertical.RuleByName].
	Rule vertical.Planner
	// MilliCPU that all limits of a workload may be together, Floor and Ceiling of each. Where Most
	// is set, pods begin at their template's limit and have so many times it at most, and the
	// budget is what bounds none of them.
	MilliCPU, Floor, Ceiling int64
	Most                     float64
	// Every is the time between two readings of usage, which are fresh then, as on the node
	// itself; 0 for those of metrics-server.
	Every time.Duration
}

// growing has pods grow in place by usage, with metrics-server's readings.
func growing(most float64) *Agents {
	return &Agents{Rule: vertical.DefaultProportional(), Most: most}
}

// bounds are what the Observer says of a workload's agents. Pods without a limit have none.
func (a *Agents) bounds(w *workload) *api.Agents {
	if a == nil || w.limit == 0 {
		return nil
	}
	out := &api.Agents{
		MilliCPU: a.MilliCPU, Floor: a.Floor, Ceiling: a.Ceiling, Interval: agentsInterval, Container: container,
		Model: a.Rule.Name(), Selector: "app=" + w.key.Name, Template: millicores(w.limit),
	}
	if a.Most > 0 {
		out.Floor, out.Ceiling = out.Template, millicores(a.Most*w.limit)
		out.MilliCPU = int64(w.max) * out.Ceiling
	}
	return out
}

// agentsInterval is the CRD's default, agentsStale the operator's bound on a reading's age.
const (
	agentsInterval = time.Second
	agentsStale    = time.Minute
)

func millicores(cores float64) int64 { return int64(math.Round(1000 * cores)) }

// fastLoop is that of one workload.
type fastLoop struct {
	*Agents
	c      *Cluster
	w      *workload
	plan   *api.AgentsPlan // the newest
	memory vertical.Memory
	before map[string]point // what was read of each pod's counter
}

// agents begins a loop for each workload.
func (r *run) agents() {
	if r.Agents == nil {
		return
	}
	r.fast = map[api.Key]*fastLoop{}
	for _, w := range r.c.workloads {
		l := &fastLoop{Agents: r.Agents, c: r.c, w: w, before: map[string]point{}}
		r.fast[w.key] = l
		every := max(agentsInterval, r.Agents.Every)
		r.c.every(r.c.now+r.c.phase(every), every, func() bool { l.tick(); return true })
	}
}

// tick is one interval: what is given back is written first.
func (l *fastLoop) tick() {
	if l.plan == nil || l.plan.Hold != "" {
		return
	}
	in := vertical.Input{Time: l.c.time(), Envelope: vertical.Envelope{Budget: l.plan.Budget, Floor: l.plan.Least, Ceiling: l.plan.Most, Until: l.plan.Until}}
	var pods []*pod
	for _, p := range l.w.pods {
		state, ok := l.c.traffic.PodState(p.uid)
		if p.phase != running || p.terminating || !ok {
			continue
		}
		of := vertical.Pod{ID: p.uid, Limit: millicores(p.limit), Held: millicores(state.Limit), Priority: 1}
		if request := millicores(p.request); request != of.Limit {
			of.Floor = request // which stays
		}
		if cores, at, ok := l.usage(p, state.Usage); ok {
			of.Usage, of.At = 1000*cores, Epoch.Add(at)
		}
		pods, in.Pods = append(pods, p), append(in.Pods, of)
	}
	config := vertical.DefaultConfig()
	config.Every, config.Stale = agentsInterval, agentsStale
	out := l.memory.Tick(config, l.Rule, in)
	for _, up := range []bool{false, true} {
		for i, d := range out.Decisions {
			if d.To != d.From && (d.To > d.From) == up {
				l.write(pods[i], d)
			}
		}
	}
}

// usage of a pod at its last reading, cores.
func (l *fastLoop) usage(p *pod, counter float64) (cores float64, at time.Duration, ok bool) {
	if l.Every == 0 {
		cores, at, _, ok = l.c.usageOf(p)
		return cores, at, ok
	}
	before, ok := l.before[p.uid]
	now := point{l.c.now, counter}
	l.before[p.uid] = now
	return (now.value - before.value) / (now.at - before.at).Seconds(), now.at, ok
}

// write a limit, and the request with it where both are the same.
func (l *fastLoop) write(p *pod, d vertical.Decision) {
	a := api.ResizePod{UID: p.uid, To: api.Amounts{MilliCPU: p.shape.Requests.MilliCPU, Memory: p.shape.Requests.Memory}, Limits: api.Amounts{MilliCPU: d.To}}
	if millicores(p.request) == d.From {
		a.To.MilliCPU = d.To
	}
	l.c.resizeOne(a)
}
