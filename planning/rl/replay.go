package rl

import "math/rand/v2"

// Replay is a ring of transitions: the newest Capacity of them, all as likely to be
// drawn.
type Replay struct {
	observations, actions, capacity int

	// One row per transition. Action is a choice's number, or the numbers of a box from
	// -1 to 1.
	from, to, action, reward []float32
	terminated               []bool
	size, next               int
}

// NewReplay makes a ring for observations and actions of these lengths.
func NewReplay(capacity, observations, actions int) *Replay {
	return &Replay{
		observations: observations, actions: actions, capacity: capacity,
		from: make([]float32, capacity*observations), to: make([]float32, capacity*observations),
		action: make([]float32, capacity*actions), reward: make([]float32, capacity), terminated: make([]bool, capacity),
	}
}

// Len is the number of transitions that are kept.
func (r *Replay) Len() int { return r.size }

// Add keeps a transition, in the place of the oldest when the ring is full. terminated
// is false for one that was truncated: it has a future.
func (r *Replay) Add(from, action []float32, reward float64, to []float32, terminated bool) {
	i := r.next
	copy(r.from[i*r.observations:][:r.observations], from)
	copy(r.to[i*r.observations:][:r.observations], to)
	copy(r.action[i*r.actions:][:r.actions], action)
	r.reward[i], r.terminated[i] = float32(reward), terminated
	r.next = (i + 1) % r.capacity
	r.size = min(r.size+1, r.capacity)
}

// Batch is a sample of transitions, row after row.
type Batch struct {
	Rows                     int
	From, To, Action, Reward []float32
	Terminated               []bool
}

// NewBatch makes room for a sample of a ring.
func (r *Replay) NewBatch(rows int) *Batch {
	return &Batch{
		Rows: rows, From: make([]float32, rows*r.observations), To: make([]float32, rows*r.observations),
		Action: make([]float32, rows*r.actions), Reward: make([]float32, rows), Terminated: make([]bool, rows),
	}
}

// Sample draws a batch with replacement. The ring must not be empty.
func (r *Replay) Sample(rng *rand.Rand, b *Batch) {
	for k := range b.Rows {
		i := rng.IntN(r.size)
		copy(b.From[k*r.observations:][:r.observations], r.from[i*r.observations:])
		copy(b.To[k*r.observations:][:r.observations], r.to[i*r.observations:])
		copy(b.Action[k*r.actions:][:r.actions], r.action[i*r.actions:])
		b.Reward[k], b.Terminated[k] = r.reward[i], r.terminated[i]
	}
}
