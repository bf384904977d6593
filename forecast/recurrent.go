package forecast

import (
	"math"
	"sync"

	"github.com/mash2-io/mash2/forecast/gru"
)

// recurrent is a small network of gated recurrent units (Cho et al. 2014), trained
// beforehand on other series (experiments/gru): it says by how much the next value
// differs from the newest, from what came before and, with a season, from what
// came a season before, as ES-RNN does (Smyl 2020). Leads are reached by feeding
// it what it said. Of a series it learns the scale and the season only.
type recurrent struct{}

func (recurrent) name() string { return "gru" }

// network is read once; without one there is nothing to learn.
var network = sync.OnceValue(func() *gru.Runner {
	n, err := gru.Shipped()
	if err != nil || n.Inputs != gru.Inputs {
		return nil
	}
	return gru.NewRunner(&n)
})

func (recurrent) learn(h history, _ int) []float64 {
	if network() == nil || len(h.y) < 2*h.season() || len(h.y) < 12 {
		return nil
	}
	return []float64{scale(h.y), float64(h.season())}
}

func (recurrent) predictor(h history, _ int, params []float64) predictor {
	n := network()
	if n == nil {
		return lastValue{h.raw}
	}
	p := &recurrentState{
		plainAnalogues: plainAnalogues{h.raw}, h: h, unit: params[0], season: int(params[1]),
		net: n.Clone(), hidden: n.Hidden(), x: make([]float64, gru.Inputs), state: make([]float64, n.Hidden()),
		block: math.MinInt,
	}
	// The state at every sample, and what it says of the next one.
	samples := len(h.y) - h.from
	p.states, p.next = make([]float32, samples*p.hidden), make([]float64, samples)
	p.warm(h.from - 1)
	for t := range samples {
		p.next[t] = p.step(h.from + t)
		for i, v := range p.state {
			p.states[t*p.hidden+i] = float32(v)
		}
	}
	return p
}

// What was seen longer ago than looksBack samples, more than the net was warmed with
// when it was trained, is not looked at; samples of one block begin at the same one.
const looksBack, blockOf = 32, 16

// warm sets the state to that at sample o, whose block is run through once.
func (p *recurrentState) warm(o int) (next float64) {
	if o < 0 {
		clear(p.state)
		return 0
	}
	first := max(0, o-(o+p.h.shift)%blockOf) // the first may have been lost in part
	if p.block != first {
		p.block, p.warmed = first, p.warmed[:0]
		clear(p.state)
		for t := max(0, first-looksBack+1); t < min(first+blockOf, len(p.h.y)); t++ {
			next := p.step(t)
			if t >= first {
				p.warmed = append(append(p.warmed, next), p.state...)
			}
		}
	}
	at := p.warmed[(o-first)*(1+p.hidden):][:1+p.hidden]
	copy(p.state, at[1:])
	return at[0]
}

// step takes sample t in, and returns the change said of the next one.
func (p *recurrentState) step(t int) float64 {
	p.features(t, nil)
	return p.net.Step(p.x, p.state)
}

type recurrentState struct {
	plainAnalogues
	h        history
	unit     float64
	season   int
	net      *gru.Runner
	hidden   int
	x, state []float64
	states   []float32
	next     []float64
	// warmed has what is said of the next sample and the state at each sample of the
	// block that begins at sample block.
	warmed []float64
	block  int
}

// value of sample t in units: what was seen, or what was said of it.
func (p *recurrentState) value(t, o int, said []float64) float64 {
	switch {
	case t < 0:
		return p.h.y[0] / p.unit
	case t <= o:
		return p.h.y[t] / p.unit
	}
	return said[t-o-1]
}

// features at sample t; those beyond the end of what was seen were said.
func (p *recurrentState) features(t int, said []float64) {
	o := t - len(said)
	seasonal := p.season > 1 && t >= p.season
	var then, next float64
	if seasonal {
		then, next = p.value(t-p.season, o, said), p.value(t+1-p.season, o, said)
	}
	gru.Features(p.x, p.value(t, o, said), p.value(t-1, o, said), then, next, seasonal)
}

func (p *recurrentState) point(o int, dst []float64) {
	var change float64
	if o < p.h.from {
		change = p.warm(o)
	} else {
		at := o - p.h.from
		change = p.next[at]
		for i := range p.state {
			p.state[i] = float64(p.states[at*p.hidden+i])
		}
	}
	for k := range dst {
		if k > 0 {
			p.features(o+k, dst[:k])
			change = p.net.Step(p.x, p.state)
		}
		dst[k] = p.value(o+k, o, dst) + change
		if !(dst[k] > 0) { // nor NaN
			dst[k] = 0
		}
	}
	for k := range dst {
		dst[k] *= p.unit
	}
	p.h.bounded(o, dst)
}
