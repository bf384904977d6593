package gym

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mash2-io/mash2/planning/rl"
	"github.com/mash2-io/mash2/planning/vertical"
	"github.com/mash2-io/mash2/planning/vertical/rehearsal"
)

func newMarlise(a vertical.Action) *Marlise { return &Marlise{action: a, peers: &Peers{}} }

// TestMarliseKeepsItsBudget through random actions, with pods that come and go; what it
// shows is MARLISE's window, finite.
func TestMarliseKeepsItsBudget(t *testing.T) {
	for _, a := range []vertical.Action{vertical.Moves, vertical.Changes, vertical.Levels} {
		m := newMarlise(a)
		rng := rand.New(rand.NewPCG(1, 1))
		joined, left := false, false
		for e := range 300 {
			m.Reset(rand.New(rand.NewPCG(2, uint64(e))))
			n, steps := len(m.Pods), 0
			for over := false; !over; {
				act := rl.Action{Discrete: rng.IntN(3), Continuous: []float32{2*rng.Float32() - 1}}
				if a == vertical.Levels {
					act.Continuous[0] = rng.Float32()
				}
				seen, reward, terminated, truncated := m.Step(act)
				steps++
				over = terminated || truncated
				var sum int64
				for i := range m.Pods {
					sum += m.Pods[i].Limit
					if m.Pods[i].Limit < marliseMin || m.States[i].Response < 0 || m.States[i].Response > rehearsal.Loss {
						t.Fatalf("%+v %+v", m.Pods[i], m.States[i])
					}
				}
				joined, left = joined || len(m.Pods) > n, left || len(m.Pods) < n
				// A pod that joined brings its floor; the next tick takes it from the others.
				if sum > m.Envelope.Budget+marliseMin || len(seen) != vertical.Inputs || math.IsNaN(reward) {
					t.Fatalf("%d of %d, %d numbers, reward %g", sum, m.Envelope.Budget, len(seen), reward)
				}
				for _, v := range seen {
					if v-v != 0 {
						t.Fatalf("sees %v", seen)
					}
				}
			}
			if steps != marliseLimit {
				t.Fatalf("%d steps", steps)
			}
		}
		if !joined || !left {
			t.Errorf("pods joined %v, left %v", joined, left)
		}
	}
}

// TestReward: MARLISE's, by hand. Two pods at 0.1 s and 0.2 s with priorities 1 and 0.5:
// 1 − 5·(2·0.1 + 1.5·0.2 − 0.01) = −1.45; and utilisation 45 % is worth 0.5·2.5.
func TestReward(t *testing.T) {
	w := world{Node: rehearsal.Node{
		Pods:   []vertical.Pod{{Priority: 1}, {Priority: 0.5}},
		States: []rehearsal.State{{Response: 0.1, Utilisation: 0.45}, {Response: 0.2, Utilisation: 0.7}},
	}}
	if got := w.reward(0); math.Abs(got+0.2) > 1e-9 {
		t.Errorf("%g, want -0.2", got)
	}
	if got := w.reward(1); math.Abs(got+1.45) > 1e-9 {
		t.Errorf("%g, want -1.45", got)
	}
	for _, c := range []struct{ now, before, want float64 }{{0.3, 0, 2}, {0.6, 0, 3}, {0.61, 0, 0}, {0.2, 0.15, 0.5}, {0.2, 0.5, -1}, {0.29, 0, 1}} {
		if got := worth(c.now, c.before); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("worth(%g, %g) = %g, want %g", c.now, c.before, got, c.want)
		}
	}
}

// TestPrioritiesArbitrate: with agents who all want everything, the important get more
// CPU and answer sooner.
func TestPrioritiesArbitrate(t *testing.T) {
	_, s := PlayMarlise(greedy{}, 200, 5)
	low, high := s.ByPriority[0], s.ByPriority[2]
	if high.MilliCPU < 1.5*low.MilliCPU || high.MeanSeconds >= low.MeanSeconds {
		t.Errorf("low %+v, high %+v", low, high)
	}
	t.Logf("%+v", s)
}

type greedy struct{}

func (greedy) Name() string                     { return "greedy" }
func (greedy) Propose(v *vertical.View) float64 { return float64(v.Budget) }

// BenchmarkMarlise: agent-steps per second, all agents by the rule.
func BenchmarkMarlise(b *testing.B) {
	var w world
	var steps int
	for b.Loop() {
		w.reset(rand.New(rand.NewPCG(1, uint64(steps))))
		for w.Second <= marliseLimit {
			w.Decide(vertical.DefaultThreshold())
			w.advance()
			steps += len(w.Pods)
		}
	}
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "agent-steps/s")
}

// raw is a learned agent without a deadband.
type raw struct {
	action vertical.Action
	actor  *rl.Actor
}

func (r raw) Name() string                     { return "raw" }
func (r raw) Propose(v *vertical.View) float64 { return r.action.Limit(v, r.actor.Act(v.Window)) }

// TestDeadbandCostsNothing: with the deadband the agents that come with the program write a
// third less at least, and answer within a tenth as soon.
func TestDeadbandCostsNothing(t *testing.T) {
	data, _ := vertical.ShippedModel()
	m, err := rl.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	action := vertical.ActionOf(m.Algorithm)
	with, err := vertical.NewLearned("with", action, m.Policy)
	if err != nil {
		t.Fatal(err)
	}
	const episodes = 2000
	_, without := PlayMarlise(raw{action, m.Policy.NewActor()}, episodes, 91)
	_, has := PlayMarlise(with, episodes, 91)
	t.Logf("writes per pod and minute %.1f, without a deadband %.1f; mean response %.1f ms, %.1f ms", has.Writes, without.Writes, 1000*has.MeanSeconds, 1000*without.MeanSeconds)
	if has.Writes > without.Writes*2/3 || has.MeanSeconds > 1.1*without.MeanSeconds {
		t.Errorf("%+v, without a deadband %+v", has, without)
	}
}
