package drpc

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/mash2-io/mash2/planning/rl"
)

// StudentInputs is the length of what a student sees: utilisation of CPU and of memory,
// replicas, requests and predicted requests, each about 1 at most.
const StudentInputs = 5

// Local is what a Deployment sees of itself.
type Local struct {
	// CPU and Memory are utilisations of requests, Replicas a share of the most.
	CPU, Memory, Replicas float64
	// Requests a second now and as predicted, as shares of what is usual at most.
	Requests, Predicted float64
}

// known reports whether all of it is a number.
func (l Local) known() bool {
	sum := l.CPU + l.Memory + l.Replicas + l.Requests + l.Predicted
	return !math.IsNaN(sum) && !math.IsInf(sum, 0)
}

// Observation writes what a student sees. Numbers are cut to 4: beyond, a student has seen
// nothing.
func (l Local) Observation(to []float32) []float32 {
	to = to[:0]
	for _, v := range []float64{l.CPU, l.Memory, l.Replicas, l.Requests, l.Predicted} {
		to = append(to, float32(math.Min(math.Max(v, 0), 4)))
	}
	return to
}

// StudentArchitecture has 643 parameters: a dense layer of 20 with LayerNorm and ReLU, one of
// 20, and three outputs through tanh. The paper has their number, its code the layers.
func StudentArchitecture() rl.Architecture {
	return rl.Architecture{Inputs: StudentInputs, Layers: []rl.Layer{
		{Kind: rl.Dense, Outputs: 20}, {Kind: rl.LayerNorm}, {Kind: rl.ReLU},
		{Kind: rl.Dense, Outputs: 20}, {Kind: rl.Dense, Outputs: 3}, {Kind: rl.Tanh},
	}}
}

// Actions are the space of a student's and of the teacher's outputs.
func Actions() rl.Space {
	return rl.Space{Low: []float32{-1, -1, -1}, High: []float32{1, 1, 1}}
}

// Student decides for one Deployment. It is for one goroutine and allocates nothing when it
// decides.
type Student struct {
	actor *rl.Actor
	seen  []float32
}

// NewStudent decides by a policy. It returns an error for one of another shape.
func NewStudent(p rl.Policy) (*Student, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if in, out := p.Network.Architecture.Inputs, p.Network.Outputs(); in != StudentInputs || out != 3 || p.Actions.Discrete() {
		return nil, fmt.Errorf("a student sees %d numbers and has 3 outputs, this network sees %d and has %d", StudentInputs, in, out)
	}
	return &Student{actor: p.NewActor(), seen: make([]float32, 0, StudentInputs)}, nil
}

// Decide by what the Deployment sees of itself. Where part of that is not known, nothing
// changes.
func (s *Student) Decide(l Local) Action {
	if !l.known() {
		return Action{}
	}
	s.seen = l.Observation(s.seen)
	return ActionOf(s.actor.Act(s.seen).Continuous)
}

// ActionOf is three outputs as an action.
func ActionOf(outputs []float32) Action {
	return Action{float64(outputs[0]), float64(outputs[1]), float64(outputs[2])}
}

// Lesson is what the teacher did in a state that the student saw.
type Lesson struct {
	Seen   [StudentInputs]float32
	Action [3]float32
}

// Imitation is how students learn: AdamW on the mean squared error to the teacher's actions.
// The paper's eq. 9 says Q-values, which a network of three outputs does not have; its code
// uses actions.
type Imitation struct {
	Rate  float64
	Batch int
	// Epochs are passes over the lessons.
	Epochs int
}

// DefaultImitation has the code's batch. Its rate of 1e-4 takes a thousand epochs; ten times
// that, falling to none, is there after a hundred.
func DefaultImitation() Imitation { return Imitation{Rate: 1e-3, Batch: 64, Epochs: 100} }

// Imitate teaches a student what a teacher did, from the beginning or, with a policy of its
// own, further on. It returns the policy and the mean squared error in the last epoch.
func Imitate(c Imitation, from *rl.Policy, lessons []Lesson, seed uint64) (rl.Policy, float64, error) {
	if len(lessons) == 0 || c.Batch < 1 || c.Epochs < 1 || !(c.Rate > 0) {
		return rl.Policy{}, 0, fmt.Errorf("%d lessons, in batches of %d, %d times at a rate of %g", len(lessons), c.Batch, c.Epochs, c.Rate)
	}
	rng := rand.New(rand.NewPCG(seed, 643))
	var net *rl.Network
	if from != nil {
		net = from.Network.Clone()
	} else {
		var err error
		if net, err = rl.NewNetwork(StudentArchitecture()); err != nil {
			return rl.Policy{}, 0, err
		}
		net.InitKaiming(rng)
	}
	pass, grads := net.NewPass(c.Batch), make([]float32, len(net.Params))
	adam := rl.Adam{Rate: c.Rate, Decay: 0.01}
	seen, slopes := make([]float32, c.Batch*StudentInputs), make([]float32, c.Batch*3)
	var loss float64
	for epoch := range c.Epochs {
		adam.Rate = c.Rate * (1 - float64(epoch)/float64(c.Epochs))
		order := rng.Perm(len(lessons))
		loss = 0
		for len(order) > 0 {
			n := min(c.Batch, len(order))
			for k, i := range order[:n] {
				copy(seen[k*StudentInputs:], lessons[i].Seen[:])
			}
			out := pass.Forward(seen[:n*StudentInputs], n)
			for k, i := range order[:n] {
				for j, want := range lessons[i].Action {
					d := out[k*3+j] - want
					loss += float64(d*d) / 3
					slopes[k*3+j] = 2 * d / float32(3*n)
				}
			}
			clear(grads)
			pass.Backward(slopes[:n*3], grads)
			adam.Step(net.Params, grads)
			order = order[n:]
		}
		loss /= float64(len(lessons))
	}
	return rl.Policy{Network: net, Actions: Actions()}, loss, nil
}
