package rl

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// stream is a source of randomness whose state can be kept.
type stream struct {
	*rand.Rand
	pcg *rand.PCG
}

// source of randomness of one part of a learner.
func source(seed, part uint64) stream {
	pcg := rand.NewPCG(seed, part)
	return stream{rand.New(pcg), pcg}
}

func (s stream) restore(state []byte) error { return s.pcg.UnmarshalBinary(state) }

// errOther is returned for a state that another learner has left.
var errOther = errors.New("the state is of a learner with other settings")

// kept is all that a learner goes on from, whatever its kind. Numbers are little-endian.
type kept struct {
	Kind             string
	Steps, Gradients int
	Random           [][]byte // states of the learner's own sources
	Networks         [][]byte // parameters, in the learner's order
	Optimisers       []keptAdam
	Replay           keptReplay
	Order            []int
	Envs             []keptInteraction
}

type keptAdam struct {
	Steps                 int
	First, Second, Larges []byte
}

type keptReplay struct {
	From, To, Action, Reward []byte
	Terminated               []bool
	Size, Next               int
}

// keptInteraction is an episode: the state of the environment's randomness at its begin, and
// what was done since. An environment is only what follows from these.
type keptInteraction struct {
	Begin   []byte
	Actions []Action
	At      []byte
}

func (k kept) encode() ([]byte, error) {
	var out bytes.Buffer
	err := gob.NewEncoder(&out).Encode(k)
	return out.Bytes(), err
}

// decodeKept reads the state of a learner of a kind.
func decodeKept(data []byte, kind string) (kept, error) {
	var k kept
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&k); err != nil {
		return k, err
	}
	if k.Kind != kind {
		return k, fmt.Errorf("%w: of %s, not of %s", errOther, k.Kind, kind)
	}
	return k, nil
}

// keep notes what all kinds of learners have.
func (k *kept) keep(sources []stream, networks [][]float32, optimisers []*Adam, envs []*interaction) error {
	for _, s := range sources {
		state, err := s.pcg.MarshalBinary()
		if err != nil {
			return err
		}
		k.Random = append(k.Random, state)
	}
	for _, n := range networks {
		k.Networks = append(k.Networks, fromFloats(n))
	}
	for _, a := range optimisers {
		k.Optimisers = append(k.Optimisers, keptAdam{a.steps, fromFloats(a.first), fromFloats(a.second), fromFloats(a.larges)})
	}
	for _, x := range envs {
		begin, err := x.begin.MarshalBinary()
		if err != nil {
			return err
		}
		k.Envs = append(k.Envs, keptInteraction{begin, x.actions, fromFloats(x.at)})
	}
	return nil
}

// restore puts back what keep has noted.
func (k *kept) restore(sources []stream, networks [][]float32, optimisers []*Adam, envs []*interaction) error {
	if len(k.Random) != len(sources) || len(k.Networks) != len(networks) || len(k.Optimisers) != len(optimisers) || len(k.Envs) != len(envs) {
		return errOther
	}
	for i, s := range sources {
		if err := s.restore(k.Random[i]); err != nil {
			return err
		}
	}
	for i, n := range networks {
		if err := toFloats(n, k.Networks[i]); err != nil {
			return err
		}
	}
	for i, a := range optimisers {
		from := k.Optimisers[i]
		a.steps = from.Steps
		for of, data := range map[*[]float32][]byte{&a.first: from.First, &a.second: from.Second, &a.larges: from.Larges} {
			*of = nil
			if len(data) == 0 {
				continue
			}
			*of = make([]float32, len(networks[i]))
			if err := toFloats(*of, data); err != nil {
				return err
			}
		}
	}
	for i, x := range envs {
		if err := x.restore(k.Envs[i]); err != nil {
			return err
		}
	}
	return nil
}

// restore plays the episode again up to where it was.
func (x *interaction) restore(k keptInteraction) error {
	if err := x.rng.restore(k.Begin); err != nil {
		return err
	}
	x.renew()
	for _, a := range k.Actions {
		x.step(a)
	}
	at := make([]float32, len(x.at))
	if err := toFloats(at, k.At); err != nil {
		return err
	}
	if !slices.Equal(at, x.at) {
		return errors.New("the environment does not come to where it was: it has changed")
	}
	return nil
}

func (r *Replay) keep() keptReplay {
	return keptReplay{
		fromFloats(r.from[:r.size*r.observations]), fromFloats(r.to[:r.size*r.observations]),
		fromFloats(r.action[:r.size*r.actions]), fromFloats(r.reward[:r.size]), r.terminated[:r.size], r.size, r.next,
	}
}

func (r *Replay) restore(k keptReplay) error {
	if k.Size < 0 || k.Size > r.capacity || k.Next < 0 || k.Next >= r.capacity || len(k.Terminated) != k.Size {
		return errOther
	}
	for _, of := range []struct {
		to   []float32
		data []byte
	}{
		{r.from[:k.Size*r.observations], k.From}, {r.to[:k.Size*r.observations], k.To},
		{r.action[:k.Size*r.actions], k.Action}, {r.reward[:k.Size], k.Reward},
	} {
		if err := toFloats(of.to, of.data); err != nil {
			return err
		}
	}
	copy(r.terminated, k.Terminated)
	r.size, r.next = k.Size, k.Next
	return nil
}

func fromFloats(x []float32) []byte {
	out := make([]byte, 0, 4*len(x))
	for _, v := range x {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

func toFloats(x []float32, data []byte) error {
	if len(data) != 4*len(x) {
		return fmt.Errorf("%w: %d bytes for %d numbers", errOther, len(data), len(x))
	}
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return nil
}

// State implements Learner.
func (d *DQN) State() ([]byte, error) {
	k := kept{Kind: "dqn", Steps: d.steps, Replay: d.replay.keep()}
	if err := k.keep(d.parts()); err != nil {
		return nil, err
	}
	return k.encode()
}

// Restore implements Learner.
func (d *DQN) Restore(state []byte) error {
	k, err := decodeKept(state, "dqn")
	if err != nil {
		return err
	}
	d.steps = k.Steps
	return errors.Join(k.restore(d.parts()), d.replay.restore(k.Replay))
}

func (d *DQN) parts() ([]stream, [][]float32, []*Adam, []*interaction) {
	return []stream{d.choose, d.sample}, [][]float32{d.online.Params, d.target.Params}, []*Adam{&d.config.Optimiser}, []*interaction{d.env}
}

// State implements Learner.
func (d *DDPG) State() ([]byte, error) {
	k := kept{Kind: "ddpg", Steps: d.steps, Gradients: d.gradients, Replay: d.replay.keep()}
	if err := k.keep(d.parts()); err != nil {
		return nil, err
	}
	return k.encode()
}

// Restore implements Learner.
func (d *DDPG) Restore(state []byte) error {
	k, err := decodeKept(state, "ddpg")
	if err != nil {
		return err
	}
	d.steps, d.gradients = k.Steps, k.Gradients
	return errors.Join(k.restore(d.parts()), d.replay.restore(k.Replay))
}

// parts has the networks with an optimiser first.
func (d *DDPG) parts() (sources []stream, networks [][]float32, optimisers []*Adam, envs []*interaction) {
	networks, optimisers = [][]float32{d.actor.Params}, []*Adam{&d.actorAdam}
	for _, c := range d.critics {
		networks, optimisers = append(networks, c.online.Params), append(optimisers, &c.adam)
	}
	networks = append(networks, d.actorTarget.Params)
	for _, c := range d.critics {
		networks = append(networks, c.target.Params)
	}
	if d.env != nil {
		envs = []*interaction{d.env}
	}
	return []stream{d.choose, d.sample}, networks, optimisers, envs
}

// State implements Learner.
func (p *PPO) State() ([]byte, error) {
	k := kept{Kind: "ppo", Steps: p.steps, Order: p.order}
	if err := k.keep(p.parts()); err != nil {
		return nil, err
	}
	return k.encode()
}

// Restore implements Learner.
func (p *PPO) Restore(state []byte) error {
	k, err := decodeKept(state, "ppo")
	if err != nil {
		return err
	}
	if len(k.Order) != len(p.order) {
		return errOther
	}
	p.steps = k.Steps
	copy(p.order, k.Order)
	return k.restore(p.parts())
}

func (p *PPO) parts() ([]stream, [][]float32, []*Adam, []*interaction) {
	networks, optimisers := [][]float32{p.policy.Params, p.value.Params}, []*Adam{&p.policyAdam, &p.valueAdam}
	if p.logStd != nil {
		networks, optimisers = append(networks, p.logStd), append(optimisers, &p.stdAdam)
	}
	return []stream{p.choose, p.shuffle}, networks, optimisers, p.envs
}
