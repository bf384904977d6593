package scalingops

import (
	"math"
	"math/rand/v2"

	"github.com/mash2-io/mash2/planning/learned"
	"github.com/mash2-io/mash2/planning/rl"
)

// Names of a model's inputs, which the operator knows them by.
const (
	InputCPU      = learned.InputCPU
	InputRequests = learned.InputRequests
	InputReplicas = learned.InputReplicas
)

// World is what both environments are made of.
type World struct {
	Fit Fit
	// SLA is the delay from which a step is late, milliseconds.
	SLA float64
	// Least and Most replicas.
	Least, Most int
	// Inputs scale an observation: CPU, requests, replicas.
	Inputs []rl.Input
	// Mean CPU of a replica, requests and replicas of the history (eq. 6–8).
	CPU, Requests, Replicas float64
	// FullCPU is the usage of a replica that the reward counts as 1, millicores.
	FullCPU float64
}

// NewWorld makes one of a history.
func NewWorld(h History, f Fit, sla float64, least, most int) World {
	// Of what is rare: a scale that outliers set would make all else small.
	const usual = 0.95
	w := World{
		Fit: f, SLA: sla, Least: least, Most: most,
		CPU: h.mean(cpu), Requests: h.mean(requests), Replicas: h.mean(replicas), FullCPU: math.Max(h.quantile(usual, cpu), 1),
	}
	w.Inputs = []rl.Input{{Name: InputCPU, Scale: w.FullCPU}, {
		Name: InputRequests, Scale: math.Max(h.quantile(usual, requests), 1e-3),
		Millicores: h.mean(func(r Row) float64 { return r.CPU * r.Replicas }) / math.Max(w.Requests, 1e-9),
	}, {Name: InputReplicas, Scale: float64(most)}}
	return w
}

// state that an agent sees.
type state struct {
	cpu, requests float64
	replicas      int
}

// Spec of both environments: one replica fewer, none, one more.
func (w World) Spec() rl.Spec { return rl.Spec{Observations: len(w.Inputs), Actions: rl.Space{N: 3}} }

// observe writes a state as an observation.
func (w World) observe(s state, out []float32) {
	out[0] = float32(s.cpu / w.Inputs[0].Scale)
	out[1] = float32(s.requests / w.Inputs[1].Scale)
	out[2] = float32(float64(s.replicas) / w.Inputs[2].Scale)
}

// moved is a number of replicas after an action.
func (w World) moved(replicas, action int) int { return min(max(replicas+action-1, w.Least), w.Most) }

// Reward of a state (eq. 1 and 2), in which saving weighs the terms that favour few, busy
// replicas: with 1 it is the paper's CPU + b − 0.3·replicas, with 0 the delay alone counts.
// The paper does not say in which unit CPU counts: here as a share of FullCPU, at most 1.
func (w World) Reward(cpu, delay float64, replicas int, saving float64) float64 {
	b := -2.0
	if delay < w.SLA {
		b = 1 / (1 + delay/w.SLA)
	}
	return b + saving*(math.Min(1, cpu/w.FullCPU)-perReplica*float64(replicas))
}

// perReplica is what a replica costs in the paper's reward, which calls it specific to its
// system.
const perReplica = 0.3

// trainSteps is the length of an episode of training.
const trainSteps = 20

// Training is the environment to train in (eq. 4 and 5, Algorithm 1): it begins at a row of
// the history, of which the requests stay, and has the CPU of a replica follow from how many
// there are. Every other episode begins with another number of replicas than the history's,
// so that the agent knows what it never ran with.
type Training struct {
	World World
	Rows  History
	// Saving weighs few, busy replicas against delay; see [World.Reward].
	Saving float64

	at    state
	step  int
	other bool
	out   [3]float32
}

// Reset begins an episode.
func (e *Training) Reset(rng *rand.Rand) []float32 {
	r := e.Rows[rng.IntN(len(e.Rows))]
	e.at = state{cpu: r.CPU, requests: r.Requests, replicas: min(max(int(math.Round(r.Replicas)), e.World.Least), e.World.Most)}
	if e.other = !e.other; e.other {
		e.to(e.World.Least + rng.IntN(e.World.Most-e.World.Least+1))
	}
	e.step = 0
	e.World.observe(e.at, e.out[:])
	return e.out[:]
}

// to changes replicas (eq. 4).
func (e *Training) to(n int) {
	e.at.cpu *= float64(e.at.replicas) / float64(n)
	e.at.replicas = n
}

// Step takes an action.
func (e *Training) Step(a rl.Action) (observation []float32, reward float64, terminated, truncated bool) {
	e.to(e.World.moved(e.at.replicas, a.Discrete))
	e.step++
	delay := e.World.Fit.Delay(e.at.cpu, e.at.requests)
	e.World.observe(e.at, e.out[:])
	return e.out[:], e.World.Reward(e.at.cpu, delay, e.at.replicas, e.Saving), false, e.step >= trainSteps
}

// load is the state that a request rate makes of so many replicas (eq. 6–8), and which
// share of the requests is not served.
func (w World) load(rate float64, replicas int) (s state, unserved float64) {
	needed := rate * w.Replicas / math.Max(w.Requests, 1e-9) // eq. 6
	served := rate
	if w.Replicas > 0 {
		served = math.Min(rate, w.Requests/w.Replicas*float64(replicas)) // eq. 8
	}
	if rate > 0 {
		unserved = 1 - served/rate
	}
	return state{cpu: w.CPU * needed / float64(replicas), requests: served, replicas: replicas}, unserved // eq. 7
}
