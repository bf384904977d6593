package main

import (
	"math"
	"math/rand/v2"

	"github.com/mash2-io/mash2/forecast/gru"
)

// Training: sequences of warmup samples that are seen, followed by rollout
// samples in which the net is fed what it said.
const (
	warmup  = 24
	rollout = 24
	length  = warmup + rollout
)

// series to learn from, in units of its mean.
type series struct {
	name   string
	values []float64
	season int     // samples, 0 without
	size   float64 // mean absolute change over half a rollout: what errors are measured in
}

// sequence is one to learn from: it begins at sample at of a series.
type sequence struct {
	*series
	at       int
	seasonal bool // told of the season
}

// learner holds a net, its gradient, and what one sequence went through.
type learner struct {
	net       gru.Net
	parts     gru.Parts
	gradient  []float64
	d         gru.Parts // of gradient
	steps     [length]step
	values    [length + 1]float64 // used at each step: seen, or said
	dValues   [length + 1]float64
	dx        []float64
	dState    []float64
	dPrevious []float64
}

type step struct {
	x             []float64
	before, after []float64 // states
	gates         gru.Gates
	said          float64 // of the next sample
	slope         float64 // of the loss, by said
}

func newLearner(hidden int, r *rand.Rand) *learner {
	n := gru.Net{Inputs: gru.Inputs, Hidden: hidden, Weights: make([]float64, gru.Size(gru.Inputs, hidden))}
	l := &learner{net: n, gradient: make([]float64, len(n.Weights))}
	l.parts, l.d = gru.Split(n.Weights, n.Inputs, hidden), gru.Split(l.gradient, n.Inputs, hidden)
	for i := range n.Weights {
		n.Weights[i] = r.NormFloat64() * 0.5 / math.Sqrt(float64(hidden))
	}
	clear(l.parts.V) // it begins as the last value
	clear(l.parts.X)
	clear(l.parts.D)
	for i := range l.parts.B[1] {
		l.parts.B[1][i] = 1 // and remembers
	}
	for i := range l.steps {
		l.steps[i] = step{
			x: make([]float64, n.Inputs), before: make([]float64, hidden), after: make([]float64, hidden), gates: gru.NewGates(hidden),
		}
	}
	l.dx, l.dState, l.dPrevious = make([]float64, n.Inputs), make([]float64, hidden), make([]float64, hidden)
	return l
}

// forward runs a sequence and returns its loss: √(e²+ε²), in the series' size, of
// what was seen one step ahead by half, of the rollout whole.
func (l *learner) forward(q sequence) float64 {
	const epsilon = 0.02
	loss := 0.0
	// value of sample t as the net knows it at step j.
	value := func(t, j int) float64 {
		if t >= q.at && t <= q.at+j {
			return l.values[t-q.at]
		}
		return q.values[t]
	}
	for j := range l.steps {
		s := &l.steps[j]
		t := q.at + j
		if j < warmup {
			l.values[j] = q.values[t]
		} else {
			l.values[j] = l.steps[j-1].said
		}
		var then, next float64
		if q.seasonal {
			then, next = value(t-q.season, j), value(t+1-q.season, j)
		}
		gru.Features(s.x, l.values[j], value(t-1, j), then, next, q.seasonal)
		if j == 0 {
			clear(s.before)
		} else {
			copy(s.before, l.steps[j-1].after)
		}
		s.said = l.values[j] + l.parts.Step(s.x, s.before, s.after, s.gates)
		e := (s.said - q.values[t+1]) / q.size
		weight := 1.0 / rollout
		if j < warmup-1 {
			weight = 0.5 / warmup
		}
		root := math.Sqrt(e*e + epsilon*epsilon)
		loss += weight * root
		s.slope = weight * e / root / q.size
	}
	return loss
}

// backward adds the gradient of the loss of the sequence that forward ran: back
// propagation through time (Werbos 1990), through what was said and fed in again.
// What was a season before is taken as given.
func (l *learner) backward(q sequence) {
	clear(l.dState)
	clear(l.dValues[:])
	for j := length - 1; j >= 0; j-- {
		s := &l.steps[j]
		dSaid := s.slope
		if j+1 >= warmup && j+1 < length {
			dSaid += l.dValues[j+1]
		}
		l.dValues[j] += dSaid
		l.parts.Back(l.d, s.x, s.before, s.after, s.gates, dSaid, l.dState, l.dx, l.dPrevious)
		copy(l.dState, l.dPrevious)
		// Features that were cut off at their limit pass nothing on.
		pass := func(k int) float64 {
			if math.Abs(s.x[k]) >= 4 {
				return 0
			}
			return l.dx[k]
		}
		l.dValues[j] += pass(0) + pass(1)
		if j > 0 {
			l.dValues[j-1] -= pass(1)
		}
		if q.seasonal {
			l.dValues[j] += pass(3)
		}
	}
}

// draw picks a sequence: a series, then a place in it.
func draw(all []*series, r *rand.Rand) sequence {
	s := all[r.IntN(len(all))]
	q := sequence{series: s, seasonal: s.season > 0 && r.Float64() < 0.8}
	first := 1
	if q.seasonal {
		first = s.season
	}
	q.at = first + r.IntN(len(s.values)-length-1-first)
	return q
}

// train runs batches of sequences and returns the mean loss of the last tenth.
func (l *learner) train(all []*series, batches, batch int, r *rand.Rand) float64 {
	var a gru.Adam
	late, n := 0.0, 0
	for b := range batches {
		clear(l.gradient)
		for range batch {
			q := draw(all, r)
			loss := l.forward(q)
			l.backward(q)
			if b >= batches*9/10 {
				late += loss
				n++
			}
		}
		for i := range l.gradient {
			l.gradient[i] /= float64(batch)
		}
		progress := float64(b) / float64(batches)
		a.Step(l.net.Weights, l.gradient, 1e-4+4e-3*(1+math.Cos(math.Pi*progress))/2)
	}
	return late / float64(n)
}
