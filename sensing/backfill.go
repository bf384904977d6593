package sensing

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
)

// backfill reads the history that lies before what cycles ask for, in slices,
// newest first, one query at a time. A slice that fails stays and is asked for
// again in a later cycle, after those that failed less often; one that is too
// large is halved. Recorded series are asked first; what they don't have is put
// back, to be asked for in the raw ones.
type backfill struct {
	d *demandSource
	// prom is asked, in steps of its grid.
	prom *prometheus
	// most steps that a query of so many series and targets may have.
	most func(series, targets int) int64
	// keep takes what was read of a target.
	keep func(id targetID, t *demand.Folding)

	pending []slice
	lost    int           // slices given up
	running chan struct{} // closed when all was read or a query failed; nil before and after
	err     error         // of the last failure, nil after a success
	// rawBefore is the step before which nothing is recorded.
	rawBefore int64
	// coarseBefore is the step before which every stride-th sample is asked for.
	coarseBefore, stride int64
	// unknown are the nodes of the past whose speed isn't known, until told.
	unknown map[string]bool
}

// slice is a part of history to be read for some targets.
type slice struct {
	targets  map[targetID]bool // shared between slices, never written to
	from, to int64
	failures int
	raw      bool // known not to be recorded
}

func newBackfill(d *demandSource, prom *prometheus) *backfill {
	b := &backfill{
		d: d, prom: prom, rawBefore: math.MinInt64, coarseBefore: math.MinInt64, unknown: map[string]bool{},
		most: d.cfg.sliceSteps,
		keep: func(id targetID, t *demand.Folding) { t.Store(d.histories[id]) },
	}
	b.stride = max(int64(prom.cfg.RateWindow/prom.cfg.Step), 1)
	if !prom.recorded() {
		b.rawBefore = math.MaxInt64
	}
	return b
}

// fineHistory is how far back every sample is read. A sample is the mean over
// RateWindow, so that further back those a whole window apart tell the same at a
// fraction of the cost, and what lies between is interpolated.
const fineHistory = 6 * time.Hour

// strideOf is how many steps apart the samples of a slice are read.
func (b *backfill) strideOf(s slice) int64 {
	if s.to < b.coarseBefore {
		return b.stride
	}
	return 1
}

// add asks for the steps [from, to] of some targets. The demand's lock is held.
func (b *backfill) add(targets map[targetID]bool, from, to int64) {
	if b.stride > 1 {
		b.coarseBefore = max(b.coarseBefore, to-int64(fineHistory/b.prom.cfg.Step))
	}
	if len(targets) > 0 && from <= to {
		b.pending = append(b.pending, slice{targets: targets, from: from, to: to})
	}
}

// prune drops the slices whose targets are all gone. The demand's lock is held.
func (b *backfill) prune() {
	b.pending = slices.DeleteFunc(b.pending, func(s slice) bool {
		for id := range s.targets {
			if b.d.histories[id] != nil {
				return false
			}
		}
		return true
	})
}

// next takes the part to read now off the list: the newest steps of the slice
// that failed least, as many as a query may have. The demand's lock is held.
func (b *backfill) next(maxSteps func(targets int) int64) (slice, bool) {
	if len(b.pending) == 0 {
		return slice{}, false
	}
	i := 0
	for j, s := range b.pending {
		if cmp.Or(cmp.Compare(s.failures, b.pending[i].failures), cmp.Compare(b.pending[i].to, s.to)) < 0 {
			i = j
		}
	}
	s := b.pending[i]
	b.pending = slices.Delete(b.pending, i, i+1)
	if s.from < b.coarseBefore && s.to >= b.coarseBefore { // the finer part first
		rest := s
		rest.to, s.from = b.coarseBefore-1, b.coarseBefore
		b.pending = append(b.pending, rest)
	}
	most := maxSteps(len(s.targets))
	if stride := b.strideOf(s); stride > 1 { // its ends may lie beyond the slice
		most = max(most-2, 1) * stride
	}
	if s.to-s.from+1 > most {
		rest := s
		rest.to = s.to - most
		b.pending = append(b.pending, rest)
		s.from = rest.to + 1
	}
	s.raw = s.raw || s.to < b.rawBefore
	return s, true
}

// failed puts a slice back, as its failure suggests. The demand's lock is held.
func (b *backfill) failed(s slice, err error) {
	b.err = err
	switch classify(err) {
	case unreachable:
		b.pending = append(b.pending, s)
		return
	case tooMuch:
		if s.to > s.from {
			middle := s.from + (s.to-s.from)/2
			b.pending = append(b.pending,
				slice{s.targets, s.from, middle, s.failures, s.raw}, slice{s.targets, middle + 1, s.to, s.failures, s.raw})
			return
		}
	}
	if s.failures++; s.failures >= b.d.cfg.BackfillAttempts {
		b.lost++
		return
	}
	b.pending = append(b.pending, s)
}

// readOn lets the background read, if there is anything to read and it rests: what
// lies before the newest samples until all is read or a query fails and then, with
// nothing left of that, one query's part of the past. The returned channel is closed
// when the first of this has ended; nil when there is nothing to wait for.
func (d *demandSource) readOn(ctx context.Context, series int, sp *speeds) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.backfill
	if len(b.pending) > 0 && b.running == nil {
		b.running = make(chan struct{})
	}
	if d.reading != nil || b.running == nil && !d.past.due() {
		return b.running
	}
	ended := make(chan struct{})
	d.reading = ended
	speeds := sp.clone()
	go func() {
		defer close(ended)
		d.readHistory(ctx, series, speeds)
		d.past.step(ctx, series, speeds)
		for d.askedMeanwhile() {
			d.readHistory(ctx, series, speeds)
		}
	}()
	return b.running
}

// readHistory reads all there is, or until a query fails, and tells who waits.
func (d *demandSource) readHistory(ctx context.Context, series int, sp *speeds) {
	for d.backfill.step(ctx, series, sp) {
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.backfill.running != nil {
		close(d.backfill.running)
		d.backfill.running = nil
	}
}

// askedMeanwhile tells whether somebody waits for a history again; the background
// rests if not.
func (d *demandSource) askedMeanwhile() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.backfill.running == nil {
		d.reading = nil
	}
	return d.backfill.running != nil
}

// step reads one slice; false when there is none left or it failed.
func (b *backfill) step(ctx context.Context, series int, sp *speeds) bool {
	d := b.d
	d.mu.Lock()
	b.prune()
	s, ok := b.next(func(targets int) int64 { return b.most(series, targets) })
	stride := b.strideOf(s)
	d.mu.Unlock()
	if !ok || ctx.Err() != nil {
		return false
	}
	namespaces := map[string]bool{}
	for id := range s.targets {
		namespaces[id.namespace] = true
	}
	query := b.prom.recordedQuery
	if s.raw {
		query = b.prom.historyQuery
	}
	err := d.cfg.guarded("the history of usage", api.Key{}, func() error {
		a, err := b.prom.queryEvery(ctx, query(slices.Sorted(maps.Keys(namespaces))), down(s.from, stride), up(s.to, stride), stride, d.cfg.BackfillTimeout)
		if err != nil {
			return err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		b.fold(s, stride, a, sp)
		if !s.raw {
			b.putBack(s, stride, a)
		}
		return nil
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		b.failed(s, err)
		return false
	}
	b.err = nil
	return true
}

// putBack asks again, in the raw series, for what an answer of recorded ones
// lacks: of each target the steps up to the newest that is missing. The demand's
// lock is held.
func (b *backfill) putBack(s slice, stride int64, a answer) {
	n := s.to - s.from + 1
	seen := make(map[targetID][]bool, len(s.targets))
	for _, stream := range a.series {
		id, ok := parseOwner(string(stream.Metric["namespace"]), string(stream.Metric[labelOwner]))
		if !ok || !s.targets[id] {
			continue
		}
		if seen[id] == nil {
			seen[id] = make([]bool, n)
		}
		b.prom.samples(stream.Values, down(s.from, stride), up(s.to, stride), func(step int64, _ float64) {
			for i := max(step-stride+1, s.from); i <= min(step+stride-1, s.to); i++ {
				seen[id][i-s.from] = true
			}
		})
	}
	missing := map[int64]map[targetID]bool{} // targets by the number of steps up to the newest missing one
	least := n
	for id := range s.targets {
		steps := n
		for seen[id] != nil && steps > 0 && seen[id][steps-1] {
			steps--
		}
		least = min(least, steps)
		if missing[steps] == nil {
			missing[steps] = map[targetID]bool{}
		}
		missing[steps][id] = true
	}
	if least > 0 {
		b.rawBefore = max(b.rawBefore, s.from+least)
	}
	for _, steps := range slices.Sorted(maps.Keys(missing)) {
		if steps > 0 {
			b.pending = append(b.pending, slice{targets: missing[steps], from: s.from, to: s.from + steps - 1, raw: true})
		}
	}
}

// fold adds an answer to the histories. The demand's lock is held.
func (b *backfill) fold(s slice, stride int64, a answer, sp *speeds) {
	from, to := down(s.from, stride), up(s.to, stride)
	sums := map[targetID]*demand.Folding{}
	for _, stream := range a.series {
		id, ok := parseOwner(string(stream.Metric["namespace"]), string(stream.Metric[labelOwner]))
		if !ok || !s.targets[id] || b.d.histories[id] == nil {
			continue
		}
		speed := sp.of(string(stream.Metric[labelNodes]))
		t := sums[id]
		if t == nil {
			t = demand.NewFolding(b.prom.grid, b.prom.cfg.RateWindow, from, to)
			sums[id] = t
		}
		most := burnableOf(b.d.copies[id], sp.largest)
		b.prom.samples(stream.Values, from, to, func(step int64, v float64) {
			t.AddSum(step, v*1000, v*1000*speed, most)
		})
	}
	for id, t := range sums {
		t.Interpolate(stride)
		t.Cut(s.to) // what is finer there stays
		b.keep(id, t)
	}
	maps.Copy(b.unknown, sp.unknown)
}

// down and up are the next multiples of stride.
func down(step, stride int64) int64 { return step - (step%stride+stride)%stride }

func up(step, stride int64) int64 { return down(step+stride-1, stride) }

// burnableOf is what so many pods of the past could burn together, millicores, at
// least: of their limits then nothing is known, and for a while there may have been
// twice as many.
func burnableOf(copies int32, node int64) float64 {
	return 2 * float64(max(copies, 1)) * demand.Burnable(0, node)
}

// parseOwner reads the label made by historyQuery.
func parseOwner(namespace, owner string) (targetID, bool) {
	for _, kind := range []string{kindDeployment, kindStatefulSet} {
		if n := len(kind) + 1; len(owner) > n && owner[:n] == kind+"/" {
			return targetID{namespace, kind, owner[n:]}, true
		}
	}
	return targetID{}, false
}

// sliceSteps is how many steps a query over history may have: within the
// server's limits of points and of samples held at once (those of the rate, of
// the maximum and of four relabellings, and half of it left to others), and
// such that the answer stays within half of what we read.
func (c Config) sliceSteps(series, targets int) int64 {
	const (
		copies        = 6  // of a series within the query's evaluation
		groups        = 4  // of nodes per workload in the answer
		bytesInAnswer = 32 // of one sample
	)
	held := max(float64(series)*c.Churn*copies, 1)
	read := max(float64(targets*groups*bytesInAnswer), 1)
	steps := min(float64(c.MaxSamples)/2/held, float64(c.MaxResponseBytes)/2/read, float64(c.MaxPoints))
	return max(int64(steps), 1)
}

// findings tell how far the backfill is.
func (b *backfill) findings(step time.Duration) []api.Finding {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	var out []api.Finding
	if len(b.pending) > 0 || b.running != nil {
		var steps int64
		for _, s := range b.pending {
			steps += s.to - s.from + 1
		}
		f := api.Finding{
			Severity: api.Normal, Agent: api.WorkloadPlanningAgent, Reason: ReasonBackfilling, Object: api.ObjectRef{Kind: "prometheus"},
			Message: "reading history: " + (time.Duration(steps) * step).String() + " to go",
		}
		if b.err != nil {
			f.Severity, f.Message = api.Warning, f.Message+"; last failure: "+b.err.Error()
		}
		out = append(out, f)
	}
	if f, ok := speedFinding(b.unknown, "of the past "); ok {
		clear(b.unknown)
		out = append(out, f)
	}
	if b.lost > 0 {
		out = append(out, api.Finding{
			Severity: api.Warning, Agent: api.WorkloadPlanningAgent, Reason: ReasonBackfillIncomplete, Object: api.ObjectRef{Kind: "prometheus"},
			Message: "parts of history could not be read and stay gaps",
		})
	}
	return out
}
