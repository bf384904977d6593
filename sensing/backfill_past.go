package sensing

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
)

// past reads means over long steps from before the histories, in which forecasters
// find a week that a history is too short for. Nobody waits for it: a query at most
// follows upon a cycle, and only when nothing of the histories is left to read.
// Targets are read together; those that come meanwhile wait for the next time, so
// that many which come one by one take no more queries than if they came at once.
// What was read is handed out when it is whole.
type past struct {
	*backfill
	waiting, reading map[targetID]bool
	// from is the first step that is read, of the backfill's grid; oldest is where
	// the histories begin. Means has one element per step, NaN where nothing is known.
	from   int64
	oldest time.Time
	means  map[targetID][]float64
}

func newPast(d *demandSource) *past {
	p := &past{backfill: newBackfill(d, d.prom.coarse(d.cfg.PastStep)), waiting: map[targetID]bool{}}
	p.most = d.cfg.pastSliceSteps
	p.keep = p.note
	return p
}

// add asks for the past of some targets. The demand's lock is held.
func (p *past) add(targets map[targetID]bool) {
	if p.d.cfg.pastSteps() > 0 {
		maps.Copy(p.waiting, targets)
	}
}

// due tells whether there is anything to read. The demand's lock is held.
func (p *past) due() bool { return len(p.waiting)+len(p.reading) > 0 }

// step reads one slice, unless something of the histories is left to read, and
// hands out what was read when it was the last one.
func (p *past) step(ctx context.Context, series int, sp *speeds) {
	p.d.mu.Lock()
	ready := p.due() && len(p.d.backfill.pending) == 0
	if ready && len(p.reading) == 0 {
		p.begin()
	}
	p.d.mu.Unlock()
	if !ready {
		return
	}
	p.backfill.step(ctx, series, sp)
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	if len(p.pending) == 0 {
		p.end()
	}
}

// begin starts with all who wait. The demand's lock is held.
func (p *past) begin() {
	p.reading, p.waiting, p.means = p.waiting, map[targetID]bool{}, map[targetID][]float64{}
	newest := p.d.grid.Time(p.d.covered)
	p.oldest = p.d.grid.Time(p.d.covered - int64(p.d.cfg.steps()) + 1)
	// The sample of a step is the mean until then. Past the oldest sample by a step:
	// the first bin of the histories need not be whole.
	to := p.prom.grid.At(p.oldest) + 2
	p.from = p.prom.grid.At(newest) - p.d.cfg.pastSteps() + 1
	p.backfill.add(p.reading, p.from, to)
}

// note keeps what a slice told of a target. The demand's lock is held.
func (p *past) note(id targetID, t *demand.Folding) {
	means := p.means[id]
	if means == nil {
		means = make([]float64, p.prom.grid.At(p.oldest)+2-p.from+1)
		for i := range means {
			means[i] = math.NaN()
		}
		p.means[id] = means
	}
	t.Sums(func(step int64, sum float64) { means[step-p.from] = sum })
}

// end hands out what was read, to whom there is anything from before its history.
// The demand's lock is held.
func (p *past) end() {
	step := p.prom.cfg.Step
	for id := range p.reading {
		means := p.means[id]
		first := slices.IndexFunc(means, func(v float64) bool { return !math.IsNaN(v) })
		h := p.d.histories[id]
		if h == nil || first < 0 {
			continue
		}
		s := api.Series{Start: p.prom.grid.Time(p.from + int64(first)).Add(-step), Step: step, Values: slices.Clone(means[first:])}
		if s.Start.Before(p.oldest) {
			h.Past = &s
		}
	}
	p.reading, p.means = nil, nil
}

// pastSliceSteps is as sliceSteps, and such that no more samples are read from disk
// for a query than it may hold at once: a mean is over many.
func (c Config) pastSliceSteps(series, targets int) int64 {
	read := max(float64(series)*c.Churn*float64(c.PastStep)/float64(c.Step), 1)
	return max(min(c.sliceSteps(series, targets), int64(float64(c.MaxSamples)/read)), 1)
}

// findings tell how far the past is read.
func (p *past) findings() []api.Finding {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	var out []api.Finding
	add := func(severity api.FindingSeverity, reason, message string) {
		out = append(out, api.Finding{Severity: severity, Agent: api.WorkloadPlanningAgent, Reason: reason, Object: api.ObjectRef{Kind: "prometheus"}, Message: message})
	}
	switch {
	case p.err != nil && p.due():
		add(api.Warning, ReasonReadingPast, "reading the past for seasons of a week fails, cycles go on without: "+p.err.Error())
	case p.due():
		add(api.Normal, ReasonReadingPast, "reading the past for seasons of a week, a query a cycle")
	default:
		if f, ok := speedFinding(p.unknown, "of the past "); ok {
			clear(p.unknown)
			out = append(out, f)
		}
	}
	if p.lost > 0 {
		add(api.Warning, ReasonBackfillIncomplete, "parts of the past could not be read and stay gaps")
	}
	return out
}
