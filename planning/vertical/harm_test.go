package vertical

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mash2-io/mash2/planning/rl"
)

// harm is a world of two pods in which an agent is paid for what both of them lack: who
// learns there takes from those in need, and keeps from others what it does not need.
type harm struct {
	memory Memory
	in     Input
	demand [2]float64
	rng    *rand.Rand
	steps  int
	act    rl.Action
	mind   Planner // decides for the first pod in place of act, if set
}

const harmSteps = 60

var harmSpec = rl.Spec{Observations: Inputs, Actions: Moves.Space()}

func (*harm) Name() string { return "harm" }

// Propose implements Planner: the second pod follows the rule.
func (h *harm) Propose(v *View) float64 {
	switch {
	case v.ID != "a":
		return DefaultRule().Propose(v)
	case h.mind != nil:
		return h.mind.Propose(v)
	}
	return Moves.Limit(v, h.act)
}

// Reset implements rl.Env.
func (h *harm) Reset(rng *rand.Rand) []float32 {
	*h = harm{rng: rng, mind: h.mind}
	h.demand = [2]float64{100 + 400*rng.Float64(), 100 + 400*rng.Float64()}
	h.in = Input{Envelope: Envelope{Budget: 1000, Floor: 50, Ceiling: 1000, Until: start.Add(time.Hour)}, Pods: []Pod{pod("a", 500, 0, 1), pod("b", 500, 0, 1)}}
	h.look()
	return h.memory.Observation("a")
}

// Step implements rl.Env.
func (h *harm) Step(a rl.Action) ([]float32, float64, bool, bool) {
	h.act = a
	for i, d := range h.memory.Decide(DefaultConfig(), h, h.in).Decisions {
		h.in.Pods[i].Limit, h.in.Pods[i].Held = d.To, d.To
	}
	h.look()
	lacks := 0.0
	for i, p := range h.in.Pods {
		lacks += max(0, h.demand[i]-float64(p.Limit)) / 100
	}
	return h.memory.Observation("a"), lacks, false, h.steps == harmSteps
}

// look at what is used a second later.
func (h *harm) look() {
	h.steps++
	h.in.Time = start.Add(time.Duration(h.steps) * time.Second)
	for i := range h.in.Pods {
		h.demand[i] = min(max(h.demand[i]+40*h.rng.NormFloat64(), 50), 600)
		p := &h.in.Pods[i]
		p.Usage, p.At = min(h.demand[i], float64(p.Limit)), h.in.Time
	}
	h.memory.Observe(DefaultConfig(), h.in)
}

// trainedToHarm is what DQN has learned there.
var trainedToHarm = sync.OnceValues(func() (rl.Policy, error) {
	c := rl.DefaultDQN(30_000)
	c.Seed, c.Hidden = 3, []int{64, 64}
	d, err := rl.NewDQN(c, harmSpec, &harm{})
	if err != nil {
		return rl.Policy{}, err
	}
	d.Learn(30_000)
	return d.Policy(), nil
})

// harmful is a planner that was trained to do harm.
func harmful() Planner {
	policy, err := trainedToHarm()
	if err != nil {
		panic(err)
	}
	l, err := NewLearned("trained to do harm", Moves, policy)
	if err != nil {
		panic(err)
	}
	return l
}

// TestTrainedToDoHarm: it has learned that, so TestGuard tries what it says it tries.
func TestTrainedToDoHarm(t *testing.T) {
	lacks := func(mind Planner) (sum float64) {
		h := &harm{mind: mind}
		for episode := range 200 {
			h.Reset(rand.New(rand.NewPCG(9, uint64(episode))))
			for over := false; !over; {
				var reward float64
				_, reward, _, over = h.Step(rl.Action{})
				sum += reward
			}
		}
		return sum
	}
	rule, harmful := lacks(DefaultRule()), lacks(harmful())
	t.Logf("pods lack %.0f by the rule, %.0f by what was trained to do harm", rule, harmful)
	if harmful < 5*rule {
		t.Errorf("%.0f is not much worse than the rule's %.0f", harmful, rule)
	}
}
