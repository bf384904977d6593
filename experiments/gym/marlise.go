package gym

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/planning/rl"
	"github.com/mash2-io/mash2/planning/vertical"
)

// MARLISE's world (Prodanov et al. 2025): pods of a service share a node and one budget
// of CPU. Each second every pod's agent proposes its limit, the fast loop's own bounds and
// arbitration (package vertical) decide, and requests are answered by the simulator's
// service model. How load is split among the pods changes, and pods come and go. An
// episode draws everything anew: budget, pods, priorities, work of a request, load, noise
// of readings, delay of resizes.
//
// [Marlise] shows one agent's part of it: the others follow [Peers].
const (
	marliseLimit = 60
	// Loss is how long a request that fails counts, seconds: MARLISE's figure.
	loss = 2.0

	nodeCores  = 8
	marliseMin = 50 // millicores, MARLISE's floor
	mostPods   = 8
)

// epoch of the world's time, which nobody sees.
var epoch = time.Unix(0, 0).UTC()

// world is one node with its pods, second by second.
type world struct {
	rng      *rand.Rand
	second   int
	envelope vertical.Envelope
	config   vertical.Config
	memory   vertical.Memory
	pods     []vertical.Pod
	state    []served // of each pod
	born     int

	work, load    float64 // seconds of a request; requests per second of all pods
	noise, gaps   float64 // of readings: relative deviation, and the chance of none
	every         int     // seconds from one reading to the next, of which it is the mean; 0 for one
	slow          float64 // chance that a resize takes more than a second
	changes       [2]int  // seconds at which the split of load changes
	joins, leaves int     // seconds at which a pod joins and one leaves, −1 for never
	changed       int64   // millicores that limits moved by, in the last second
	written       int     // limits that changed in the last second
}

// served is what became of a pod's requests in the last second.
type served struct {
	weight   float64 // of its load
	backlog  float64 // seconds of work
	rate     float64
	response float64 // mean, seconds, at most loss
	before   float64 // utilisation a second ago
	now      float64
	used     float64 // core-seconds since the last reading
}

// reset draws a world. The first pod stays.
func (w *world) reset(rng *rand.Rand) {
	k := 2 + rng.IntN(4)
	*w = world{
		rng: rng, config: vertical.DefaultConfig(), pods: w.pods[:0], state: w.state[:0],
		work: 0.002 * math.Pow(10, rng.Float64()), noise: 0.1 * rng.Float64(), gaps: 0.05 * rng.Float64(), slow: 0.3 * rng.Float64(),
		joins: -1, leaves: -1,
	}
	budget := int64(k) * (200 + 50*rng.Int64N(9))
	w.envelope = vertical.Envelope{Budget: budget, Floor: marliseMin, Ceiling: budget, Until: epoch.Add(time.Hour)}
	w.load = (0.2 + 0.4*rng.Float64()) * float64(budget) / 1000 / w.work
	w.changes = [2]int{10 + rng.IntN(20), 30 + rng.IntN(20)}
	if rng.IntN(3) == 0 {
		w.joins = 5 + rng.IntN(40)
	}
	if rng.IntN(3) == 0 && k > 2 {
		w.leaves = 5 + rng.IntN(40)
	}
	for range k {
		w.join(budget / int64(k))
	}
	w.split()
	w.advance()
}

func (w *world) join(limit int64) {
	w.born++
	w.pods = append(w.pods, vertical.Pod{ID: strconv.Itoa(w.born), Limit: limit, Held: limit, Priority: float64(1+w.rng.IntN(10)) / 10})
	w.state = append(w.state, served{weight: 1})
}

// split the load anew: log-normal weights.
func (w *world) split() {
	for i := range w.state {
		w.state[i].weight = math.Exp(0.8 * w.rng.NormFloat64())
	}
}

func (w *world) input() vertical.Input {
	return vertical.Input{Time: epoch.Add(time.Duration(w.second) * time.Second), Envelope: w.envelope, Pods: w.pods}
}

// decide by a planner and carry it out.
func (w *world) decide(p vertical.Planner) {
	out := w.memory.Decide(w.config, p, w.input())
	w.changed, w.written = 0, 0
	for i, d := range out.Decisions {
		w.pods[i].Limit = d.To
		w.changed += max(d.To-d.From, d.From-d.To)
		if d.To != d.From {
			w.written++
		}
	}
}

// advance by a second: what happens, what is answered, what is seen of it.
func (w *world) advance() {
	if w.second == w.changes[0] || w.second == w.changes[1] {
		w.split()
	}
	if w.second == w.joins && len(w.pods) < mostPods {
		w.join(marliseMin)
	}
	if w.second == w.leaves {
		i := 1 + w.rng.IntN(len(w.pods)-1)
		w.pods = append(w.pods[:i], w.pods[i+1:]...)
		w.state = append(w.state[:i], w.state[i+1:]...)
	}
	w.second++
	var sum float64
	for i := range w.state {
		sum += w.state[i].weight
	}
	now := w.input().Time
	for i := range w.pods {
		p, s := &w.pods[i], &w.state[i]
		if p.Held != p.Limit && (w.slow == 0 || w.rng.Float64() >= w.slow) {
			p.Held = p.Limit
		}
		mean := w.load * s.weight / sum
		s.rate = max(0, mean+math.Sqrt(2*mean)*w.rng.NormFloat64()) // compound Poisson, exponential work
		used := s.serve(mean, float64(p.Held)/1000, w.work)
		s.used += used
		if every := max(1, w.every); w.second%every == 0 {
			if w.rng.Float64() >= w.gaps {
				p.Usage, p.At = max(0, 1000*s.used/float64(every)*(1+w.noise*w.rng.NormFloat64())), now
			}
			s.used = 0
		}
		s.before, s.now = s.now, 1000*used/float64(p.Held)
	}
	w.memory.Observe(w.config, w.input())
}

// serve a second's requests with so many cores, and return the cores that were used.
// Where load is less than capacity the response time is the stationary one; what does not
// get done waits, for at most loss.
func (s *served) serve(mean, cores, work float64) float64 {
	asked := s.backlog + s.rate*work
	used := min(asked, cores)
	r := sim.PodResponse(mean, work, cores, nodeCores, 1)
	if math.IsInf(r, 1) {
		r = work / min(1, cores)
	}
	s.backlog = min(asked-used, loss*cores)
	s.response = min(r+s.backlog/cores, loss)
	return used
}

// reward of each agent is MARLISE's: half of what its own utilisation is worth, and what
// all response times cost, by priority.
func (w *world) reward(i int) float64 {
	var slow float64
	for j := range w.pods {
		slow += (1 + w.pods[j].Priority) * w.state[j].response
	}
	return 0.5*worth(w.state[i].now, w.state[i].before) + 1 - 5*(slow-0.01)
}

// worth of a pod's utilisation, 0–1, and of the one a second before.
func worth(now, before float64) float64 {
	switch {
	case now > 0.6:
		return 0
	case now >= 0.3:
		return 1 + now/0.3
	}
	return min(max(10*(now-before), -1), 1)
}

// Marlise is MARLISE's environment for one agent. Episodes are truncated after 60 s.
type Marlise struct {
	world
	action vertical.Action
	peers  *Peers
	// team: all others follow the policy that peers have, never the rule.
	team  bool
	known int // version of peers that actor is of
	mind  ego
}

// Peers are what the agents follow that do not learn: the policy last given, which is
// the learner's own as it was a while ago, or the threshold rule. Each episode draws one
// of both for all of them.
type Peers struct {
	policy  rl.Policy
	version int
}

// Set the policy from the next episodes on.
func (p *Peers) Set(policy rl.Policy) {
	p.policy = policy
	p.version++
}

// ego proposes what the environment was told for the first pod, and for the others as
// their planner does.
type ego struct {
	learned, others vertical.Planner
	action          vertical.Action
	act             rl.Action
	id              string
}

func (*ego) Name() string { return "ego" }

// Propose implements vertical.Planner.
func (e *ego) Propose(v *vertical.View) float64 {
	if v.ID == e.id {
		return e.action.Limit(v, e.act)
	}
	return e.others.Propose(v)
}

// Reset implements rl.Env.
func (m *Marlise) Reset(rng *rand.Rand) []float32 {
	m.reset(rng)
	if m.peers.version != m.known {
		learned, err := vertical.NewLearned("peers", m.action, m.peers.policy)
		if err != nil {
			panic(err) // a learner of this very task gave it
		}
		m.mind.learned, m.known = learned, m.peers.version
	}
	m.mind.action, m.mind.id, m.mind.others = m.action, m.pods[0].ID, vertical.Planner(vertical.DefaultThreshold())
	if rule := rng.IntN(2) == 0; m.mind.learned != nil && (m.team || !rule) {
		m.mind.others = m.mind.learned
	}
	return m.see()
}

// Step implements rl.Env.
func (m *Marlise) Step(action rl.Action) ([]float32, float64, bool, bool) {
	m.mind.act = action
	m.decide(&m.mind)
	m.advance()
	return m.see(), m.reward(0), false, m.second > marliseLimit
}

// blank is what an agent sees before its first reading.
var blank [vertical.Inputs]float32

func (m *Marlise) see() []float32 {
	if o := m.memory.Observation(m.pods[0].ID); o != nil {
		return o
	}
	return blank[:]
}
