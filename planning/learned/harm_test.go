package learned

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/mash2-io/mash2/planning/rl"
)

// harm is a workload whose agent is paid for replicas that are lacking, and for those that
// nobody needs.
type harm struct {
	rng    *rand.Rand
	demand float64 // millicores; a replica has 100
	n      float64
	steps  int
	seen   [3]float32
}

func (h *harm) Reset(rng *rand.Rand) []float32 {
	*h = harm{rng: rng, demand: 100 + 1900*rng.Float64(), n: float64(1 + rng.IntN(20))}
	return h.see()
}

func (h *harm) Step(a rl.Action) ([]float32, float64, bool, bool) {
	h.n = min(max(h.n+float64(a.Discrete-1), 1), 20)
	h.demand = min(max(h.demand*math.Exp(0.1*h.rng.NormFloat64()), 50), 2000)
	h.steps++
	return h.see(), math.Abs(h.demand/100-h.n) / 10, false, h.steps == 40
}

// see is what a model sees with the scales of the function of.
func (h *harm) see() []float32 {
	h.seen = [3]float32{float32(min(h.demand/h.n, 100) / 100), float32(h.demand / 4 / 50), float32(h.n / 10)}
	return h.seen[:]
}

var trainedToHarm = sync.OnceValues(func() (rl.Policy, error) {
	c := rl.DefaultDQN(20_000)
	c.Seed, c.Hidden = 3, []int{32, 32}
	d, err := rl.NewDQN(c, rl.Spec{Observations: 3, Actions: rl.Space{N: 3}}, &harm{})
	if err != nil {
		return rl.Policy{}, err
	}
	d.Learn(20_000)
	return d.Policy(), nil
})

// harmful is a model that was trained to do harm.
func harmful(t *testing.T) rl.Model {
	t.Helper()
	policy, err := trainedToHarm()
	if err != nil {
		t.Fatal(err)
	}
	m := always(t, 0)
	m.Policy = policy
	return m
}

// TestTrainedToDoHarm: it has learned that, so TestHostileModels tries what it says it tries.
func TestTrainedToDoHarm(t *testing.T) {
	harmed := func(act func(h *harm, seen []float32) int) (sum float64) {
		h := &harm{}
		for episode := range 200 {
			seen := h.Reset(rand.New(rand.NewPCG(9, uint64(episode))))
			for over := false; !over; {
				var reward float64
				seen, reward, _, over = h.Step(rl.Action{Discrete: act(h, seen)})
				sum += reward
			}
		}
		return sum
	}
	actor := harmful(t).Policy.NewActor()
	bad := harmed(func(_ *harm, seen []float32) int { return actor.Act(seen).Discrete })
	good := harmed(func(h *harm, _ []float32) int {
		switch need := math.Ceil(h.demand / 100); {
		case need > h.n:
			return 2
		case need < h.n:
			return 0
		}
		return 1
	})
	t.Logf("harm %.0f, that of who does what is needed %.0f", bad, good)
	if bad < 4*good {
		t.Errorf("harm %.0f, that of who does what is needed %.0f", bad, good)
	}
}
