package gym

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/mash2-io/mash2/planning/rl"
	"github.com/mash2-io/mash2/planning/vertical"
	"github.com/mash2-io/mash2/planning/vertical/rehearsal"
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
	nodeCores    = 8
	marliseMin   = 50 // millicores, MARLISE's floor
	mostPods     = 8
)

// world is one node with its pods, second by second.
type world struct {
	rehearsal.Node
	weights []float64 // of each pod's load
	born    int

	load          float64 // requests per second of all pods
	changes       [2]int  // seconds at which the split of load changes
	joins, leaves int     // seconds at which a pod joins and one leaves, −1 for never
}

// reset draws a world. The first pod stays.
func (w *world) reset(rng *rand.Rand) {
	k := 2 + rng.IntN(4)
	*w = world{
		Node: rehearsal.Node{
			Rng: rng, Cores: nodeCores, Config: vertical.DefaultConfig(), Pods: w.Pods[:0], States: w.States[:0],
			Work: 0.002 * math.Pow(10, rng.Float64()), Noise: 0.1 * rng.Float64(), Gaps: 0.05 * rng.Float64(), Slow: 0.3 * rng.Float64(),
		},
		weights: w.weights[:0], joins: -1, leaves: -1,
	}
	budget := int64(k) * (200 + 50*rng.Int64N(9))
	w.Envelope = vertical.Envelope{Budget: budget, Floor: marliseMin, Ceiling: budget, Until: w.Input().Time.Add(time.Hour)}
	w.load = (0.2 + 0.4*rng.Float64()) * float64(budget) / 1000 / w.Work
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
	w.Join(vertical.Pod{ID: strconv.Itoa(w.born), Limit: limit, Held: limit, Priority: float64(1+w.Rng.IntN(10)) / 10})
	w.weights = append(w.weights, 1)
}

// split the load anew: log-normal weights.
func (w *world) split() {
	for i := range w.weights {
		w.weights[i] = math.Exp(0.8 * w.Rng.NormFloat64())
	}
}

// advance by a second: what changes, what happens, what is answered, what is seen of it.
func (w *world) advance() {
	if w.Second == w.changes[0] || w.Second == w.changes[1] {
		w.split()
	}
	if w.Second == w.joins && len(w.Pods) < mostPods {
		w.join(marliseMin)
	}
	if w.Second == w.leaves {
		i := 1 + w.Rng.IntN(len(w.Pods)-1)
		w.Leave(i)
		w.weights = append(w.weights[:i], w.weights[i+1:]...)
	}
	var sum float64
	for _, weight := range w.weights {
		sum += weight
	}
	w.Advance(func(i int) float64 { return w.load * w.weights[i] / sum })
}

// reward of each agent is MARLISE's: half of what its own utilisation is worth, and what
// all response times cost, by priority.
func (w *world) reward(i int) float64 {
	var slow float64
	for j := range w.Pods {
		slow += (1 + w.Pods[j].Priority) * w.States[j].Response
	}
	return 0.5*worth(w.States[i].Utilisation, w.States[i].Before) + 1 - 5*(slow-0.01)
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
	m.mind.action, m.mind.id, m.mind.others = m.action, m.Pods[0].ID, vertical.Planner(vertical.DefaultThreshold())
	if rule := rng.IntN(2) == 0; m.mind.learned != nil && (m.team || !rule) {
		m.mind.others = m.mind.learned
	}
	return m.see()
}

// Step implements rl.Env.
func (m *Marlise) Step(action rl.Action) ([]float32, float64, bool, bool) {
	m.mind.act = action
	m.Decide(&m.mind)
	m.advance()
	return m.see(), m.reward(0), false, m.Second > marliseLimit
}

// blank is what an agent sees before its first reading.
var blank [vertical.Inputs]float32

func (m *Marlise) see() []float32 {
	if o := m.Observation(m.Pods[0].ID); o != nil {
		return o
	}
	return blank[:]
}
