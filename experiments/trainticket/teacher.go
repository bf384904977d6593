package trainticket

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/mash2-io/mash2/experiments/sim"
	"github.com/mash2-io/mash2/experiments/trainticket/drpc"
	"github.com/mash2-io/mash2/planning/rl"
)

// teacherInputs is the length of what the teacher sees of a service: what its student sees,
// and what only somebody sees who looks at the whole application.
const teacherInputs = drpc.StudentInputs + 8

// global writes what the teacher sees of service i.
func (v *view) global(i int, to []float32) []float32 {
	s := v.services[i]
	to = v.local[i].Observation(to)
	starting := float64(int(s.Replicas)-s.Ready) / usualReplicas
	optional := 0.0
	if s.Optional {
		optional = 1
	}
	for _, x := range []float64{
		float64(s.MilliCPU) / mostCPU, starting, v.p99 / tolerated / 4, v.failed, v.requests / 1000,
		10 * (v.level[i] - v.before[i]) / (v.level[i] + 1), s.Seconds / (slower * v.idle[i]), optional,
	} {
		to = append(to, float32(math.Min(math.Max(x, -2), 2)))
	}
	return to
}

// slower is by how much a visit may take longer than on an idle pod: three times as long in each
// service is well within what users tolerate of the whole.
const slower = 3

// reward of a service's state: how long its visits take, and how it uses what it has. The
// paper has one response time for all, that of the users. With forty services that explore at
// once nobody learns from it what was whose; the times of visits add up to it.
func (v *view) reward(i int) float64 {
	return drpc.Reward(v.services[i].Seconds, slower*v.idle[i], drpc.Used{Is: v.local[i].CPU, Ideal: idealCPU}, drpc.Used{Is: v.local[i].Memory, Ideal: idealMemory})
}

// What bounds a learner, whatever it says. Replicas that it asked for are kept for hold
// decisions, two minutes: a pod that ends may be sent requests for a moment yet. And what all
// replicas request is never less than what usage of now makes floor of.
const (
	hold  = 24
	floor = 0.8
)

// actions applied to all services: to what they have, or, where there is a rule to start from,
// to what that says.
func (v *view) apply(from []sim.Size, action func(i int) drpc.Action) []sim.Size {
	out := make([]sim.Size, len(v.services))
	for i, s := range v.services {
		at := drpc.Size{Replicas: s.Replicas, MilliCPU: s.MilliCPU, Memory: s.Size.Memory}
		if from != nil {
			at = drpc.Size(from[i])
		}
		next := boundsOf(s).Apply(at, action(i), int64(s.WorkingSet))
		next.Replicas = int32(v.asked[i].of(int64(next.Replicas), hold))
		if s.Ready > 0 {
			needed := math.Max(s.Used, s.Visits*v.idle[i]) * 1000 / floor
			least := int64(math.Ceil(needed / float64(min(max(int(next.Replicas), 1), s.Ready))))
			next.MilliCPU = min(max(next.MilliCPU, least), mostCPU)
		}
		out[i] = sim.Size{Replicas: next.Replicas, MilliCPU: next.MilliCPU, Memory: next.Memory}
	}
	return out
}

// teacher is TD3 of one policy that all services share, each with its own state: what it is
// told of one it knows of all.
type teacher struct {
	td3 *rl.DDPG
	// updates are gradient steps after each decision.
	updates int
	start   start
	rng     *rand.Rand
	// explores tells which services do in this episode: some, so that what one tries is not
	// lost in what the others do.
	explores []bool
	actor    *taught
	base     decider
	// seen and did are of the decision before, by service.
	seen, did [][]float32
}

// TeacherConfig says how the teacher learns.
func teacherConfig(seed uint64) rl.DDPGConfig {
	c := rl.DefaultTD3()
	c.Seed, c.Hidden, c.Norm = seed, []int{64, 64}, true
	c.ActorRate, c.CriticRate, c.Gamma = 3e-4, 3e-4, 0.95
	c.Batch, c.Capacity, c.Start, c.Noise = 128, 1_000_000, 10_000, 0.3
	return c
}

// start is what decisions start from: from nothing, as in the paper, or from a rule's, which
// they correct (residual policy learning: Silver et al. 2018, Johannink et al. 2019).
type start int

const (
	fromNothing start = iota
	fromRule
)

// rule to start from.
func (s start) rule() decider {
	if s == fromNothing {
		return nil
	}
	return newJoint()
}

// sizes that a rule decides, nil without one.
func sizesOf(base decider, v *view) []sim.Size {
	if base == nil {
		return nil
	}
	return base.decide(v)
}

// newTeacher learns from the beginning, or further on from a policy.
func newTeacher(seed uint64, from start, before *rl.Policy) (*teacher, error) {
	spec := rl.Spec{Observations: teacherInputs, Actions: drpc.Actions()}
	td3, err := rl.NewDDPG(teacherConfig(seed), spec, nil)
	if err != nil {
		return nil, err
	}
	if before != nil {
		if err := td3.Follow(*before); err != nil {
			return nil, err
		}
	}
	return &teacher{td3: td3, updates: 2, start: from, rng: rand.New(rand.NewPCG(seed, 5))}, nil
}

// exploring is the share of services that explore in an episode.
const exploring = 0.3

// begin an episode.
func (t *teacher) begin() {
	t.seen, t.did, t.base, t.explores = nil, nil, t.start.rule(), nil
	t.actor = t.policy()
}

// decide explores, and learns from what came of the decision before.
func (t *teacher) decide(v *view) []sim.Size {
	n := len(v.services)
	if t.seen == nil {
		for range n {
			t.seen, t.did = append(t.seen, nil), append(t.did, make([]float32, 3))
			t.explores = append(t.explores, t.rng.Float64() < exploring)
		}
	}
	now := make([]float32, 0, teacherInputs)
	for i := range n {
		now = v.global(i, now)
		if t.seen[i] != nil {
			t.td3.Observe(t.seen[i], t.did[i], v.reward(i), now, false)
		}
		t.seen[i] = append(t.seen[i][:0], now...)
		if t.explores[i] {
			t.td3.Explore(t.seen[i], t.did[i])
		} else {
			copy(t.did[i], t.actor.actor.Act(t.seen[i]).Continuous)
		}
	}
	for range t.updates {
		t.td3.Improve()
	}
	return v.apply(sizesOf(t.base, v), func(i int) drpc.Action { return drpc.ActionOf(t.did[i]) })
}

// teach for so many episodes.
func (t *teacher) teach(ctx context.Context, episodes int, seed uint64, changed Changed, progress io.Writer) ([]Point, error) {
	begun := time.Now()
	var curve []Point
	var sum, count float64
	for e := range episodes {
		t.begin()
		if _, err := play(ctx, t, "the teacher", seed+uint64(e), changed, nil, func(v *view) {
			sum, count = sum+v.mean(), count+1
		}); err != nil {
			return nil, err
		}
		if (e+1)%10 == 0 || e+1 == episodes {
			curve = append(curve, Point{e + 1, sum / count})
			fmt.Fprintf(progress, "teacher: %d of %d episodes, %s, mean reward %.3f\n", e+1, episodes, time.Since(begun).Round(time.Second), sum/count)
			sum, count = 0, 0
		}
	}
	return curve, nil
}

// taught is a policy of the whole application, as the teacher has it.
type taught struct {
	base  decider
	actor *rl.Actor
	seen  []float32
}

func (t *teacher) policy() *taught {
	return &taught{base: t.start.rule(), actor: t.td3.Policy().NewActor()}
}

func (t *taught) act(v *view, i int) drpc.Action {
	t.seen = v.global(i, t.seen)
	return drpc.ActionOf(t.actor.Act(t.seen).Continuous)
}

func (t *taught) decide(v *view) []sim.Size {
	return v.apply(sizesOf(t.base, v), func(i int) drpc.Action { return t.act(v, i) })
}
