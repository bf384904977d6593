package forecast

import (
	"math"

	"github.com/mash2-io/mash2/api"
)

// Models that recur, whose state at a sample is made of that at the one before, would
// run through the whole history for each forecast of its end. For one that was made of
// nearly the same history before they go on from where they were: from marks, of some
// samples before the end, which are moved on every now and then. A mark is learnt of all
// that was seen since parameters were, also of what the history has lost at its front;
// without one, as after a restart, they run through what there is.

// marks are the states of a mixture's experts that recur.
type marks struct {
	at int // counted from the first sample that parameters were learnt from
	of [][]float64
}

// marked is a predictor that recurs: its state at sample o, nil where it can't be
// carried on.
type marked interface {
	marked(o int) []float64
}

// recurs tells whether the predictors of r do.
func recurs(r recipe) bool {
	switch r := r.(type) {
	case ets, theta, mstl:
		return true
	case logged:
		return recurs(r.recipe)
	}
	return false
}

// resumed tells of what is left out of a history.
type resumed struct {
	// whole is all of it, of which cut samples are not here; nil where they all are.
	whole *history
	cut   int
	// since is the first sample that models which recur are to run through, and mark
	// the state before it of the model asked for; nil to run through all.
	since int
	mark  []float64
	// logs: y is read as logarithms, which are few of those of all samples.
	logs bool
}

// at is y at sample t.
func (h history) at(t int) float64 {
	if h.resumed.logs {
		return logOf(h.y[t])
	}
	return h.y[t]
}

// resumedAt is h for models that go on from before sample since.
func (h history) resumedAt(since int) history {
	// What models read before it: the neighbours of a stretch; whole seasons and
	// those before them, of lags that are up to two; what a network is warmed with.
	reach := max(analogSpan+2*blockOf, 3*h.long()+2*(looksBack+blockOf))
	whole := h
	cut := max(0, since-reach)
	h.raw, h.y, h.logs = h.raw[cut:], h.y[cut:], new(history)
	h.ends.first -= cut
	h.shift += cut
	h.resumed = resumed{whole: &whole, cut: cut, since: since - cut}
	h.from = max(0, len(h.y)-1)
	return h
}

// later is a predictor over a history of which by samples are left out where it is
// asked.
type later struct {
	predictor
	by int
}

func (p later) point(o int, dst []float64) { p.predictor.point(o+p.by, dst) }

// panel are a mixture's experts over a history, or over its end.
type panel struct {
	parts []predictor
	h     history
}

func newPanel(h history, experts []Expert, m *marks, horizon int) *panel {
	p := &panel{h: h}
	for i, e := range experts {
		if m != nil {
			h.mark = m.of[i]
		}
		p.parts = append(p.parts, e.predictorOf(h, horizon))
	}
	return p
}

// panelOf are the experts that know of sample o.
func (m *mixture) panelOf(o int) *panel {
	if m.recent != nil && m.recent.knows(o) {
		return m.recent
	}
	if m.whole == nil {
		m.whole = m.overAll()
	}
	return m.whole
}

// knows tells whether paths from sample o can be asked for.
func (p *panel) knows(o int) bool { return o >= p.h.cut+p.h.since }

// marks at sample o.
func (p *panel) marks(o int) *marks {
	m := &marks{at: o + p.h.shift - p.h.cut, of: make([][]float64, len(p.parts))}
	for i, part := range p.parts {
		if part, ok := part.(marked); ok {
			m.of[i] = part.marked(o - p.h.cut)
		}
	}
	return m
}

// behind is how far before the end of n samples marks are left: so far that the paths
// asked for, which are whole seasons back too, come after them, but not so far that the
// window slides past what has to be seen before them.
func (s State) behind(n, horizon int) int {
	longest := 1
	for _, m := range s.Mixture.Periods {
		longest = max(longest, m)
	}
	most := min(1024, (n-longest)/3)
	back := min(most, 2*horizon)
	if s.Seasonal != nil {
		cycles := min(residualCycles, math.Floor(float64(most)/s.Seasonal.Period))
		back = max(back, int(cycles*s.Seasonal.Period))
	}
	return back
}

// movedOn is s with marks that are near enough to the end of series; m is of that.
func (s State) movedOn(m *mixture, series api.Series, horizon int) State {
	last, behind := len(series.Values)-1, s.behind(len(series.Values), horizon)
	if behind < 1 || s.marks != nil && last+m.shift-s.marks.at < 2*behind {
		return s
	}
	s.marks = m.panelOf(last - behind).marks(last - behind)
	return s
}

// mixtureOf rebuilds the history and the mixture that a state holds for series.
// Once is for forecasts of its end, and of a few origins before.
func mixtureOf(s State, series api.Series, horizon int, once bool) *mixture {
	h := history{periods: s.Mixture.Periods}.withoutGaps(series.Values)
	h.shift = int(series.Start.Sub(s.Mixture.Start) / series.Step)
	since := 0
	if once {
		h.from = max(0, len(h.y)-1)
		if s.marks != nil {
			since = s.marks.at - h.shift + 1
		}
	}
	if since <= h.long() || since >= len(h.y) {
		since = 0
	}
	h.ends = extremesOf(h.y, since)
	m := newMixture(h, *s.Mixture, s.Seasonal, horizon)
	if since > 0 {
		m.recent = newPanel(h.resumedAt(since), s.Mixture.Experts, s.marks, horizon)
	}
	m.said = s.said
	return m
}
