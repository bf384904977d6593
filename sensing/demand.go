package sensing

import (
	"context"
	"hash/fnv"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/model"

	"github.com/mash2-io/mash2/api"
)

// demand keeps the demand history of every target. The newest steps are asked
// for by the cycle itself; older ones by a [backfill] in the background.
type demand struct {
	prom *prometheus
	cfg  Config
	grid grid

	// mu guards what the background touches as well.
	mu        sync.Mutex
	histories map[targetID]*history
	backfill  *backfill
	past      *past
	// reading is closed when the background has ended; nil while it rests.
	reading chan struct{}

	covered int64 // newest step that an answer covered
	health  api.SourceHealth
	// recent remembers whose pods were, for those that are gone.
	recent map[api.Key]podOwner
	// partial is how much of a target the newest answer lacked.
	partial map[targetID]coverage
}

type podOwner struct {
	target targetID
	seen   time.Time
}

// coverage of a target's Ready pods by the newest sample.
type coverage struct{ seen, expected int32 }

func newDemand(cfg Config) (*demand, error) {
	prom, err := newPrometheus(cfg)
	if err != nil {
		return nil, err
	}
	d := &demand{
		prom:      prom,
		cfg:       cfg,
		grid:      grid{cfg.Step},
		histories: map[targetID]*history{},
		recent:    map[api.Key]podOwner{},
		partial:   map[targetID]coverage{},
		covered:   math.MinInt64,
	}
	d.backfill, d.past = newBackfill(d, prom), newPast(d)
	return d, nil
}

// newest is the cycle's own query, before it is folded into histories.
type newest struct {
	asked    bool
	from, to int64
	answer   answer
	err      error
}

// fetch asks for the steps since the last answer and a few before. It only
// reads, so that it can run beside other sources.
func (d *demand) fetch(ctx context.Context, now time.Time, namespaces []string) newest {
	to := d.grid.at(now.Add(-d.cfg.EvaluationDelay))
	if to <= d.covered || len(namespaces) == 0 {
		return newest{}
	}
	n := newest{asked: true, to: to, from: to - int64(d.cfg.NewestSteps) + 1}
	if d.covered != math.MinInt64 {
		n.from = max(n.from, d.covered+1-int64(d.cfg.Overlap))
	}
	n.answer, n.err = d.prom.queryRange(ctx, d.prom.newestQuery(namespaces), n.from, n.to, d.cfg.QueryTimeout)
	return n
}

// podStream is a pod's usage on one node.
type podStream struct {
	node   string
	values []model.SamplePair
}

// fold adds an answer to the histories of the targets and asks the background
// for what it didn't reach.
func (d *demand) fold(now time.Time, n newest, v *view, sp *speeds) {
	d.remember(now, v)
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.histories {
		if _, ok := v.byTarget[id]; !ok {
			delete(d.histories, id)
			delete(d.partial, id)
		}
	}
	if !n.asked {
		return
	}
	if n.err != nil {
		d.health.Reachable, d.health.Error = false, n.err.Error()
		return
	}
	d.health = api.SourceHealth{Reachable: true, LastOK: now}

	pods := map[api.Key][]podStream{}
	for _, s := range n.answer.series {
		key := api.Key{Namespace: string(s.Metric["namespace"]), Name: string(s.Metric["pod"])}
		if key.Name == "" {
			continue
		}
		pods[key] = append(pods[key], podStream{string(s.Metric[model.LabelName(d.cfg.NodeLabel)]), s.Values})
	}
	sums := newFolding(n.from, n.to)
	for key, streams := range pods {
		id, ok := d.ownerOf(key, v)
		if !ok {
			continue
		}
		d.foldPod(sums.of(id), v.podByKey[key], streams, n, sp)
	}
	for _, p := range v.pods {
		if id, ok := v.targetOf(p); ok && countsAsReady(p) {
			sums.of(id).expect(d.grid, p, d.cfg.RateWindow)
		}
	}
	oldest := n.to - int64(d.cfg.steps()) + 1
	unread := map[targetID]bool{} // targets first seen now
	missed := map[targetID]bool{} // targets known before an outage
	for id := range v.byTarget {
		h := d.histories[id]
		if h == nil {
			h = newHistory(d.cfg.steps(), slackOf(id, d.cfg.steps()))
			d.histories[id] = h
			unread[id] = true
		} else {
			missed[id] = true
		}
		d.partial[id] = sums.of(id).store(h)
	}
	d.past.add(unread)
	d.backfill.add(unread, oldest, n.from-1)
	d.backfill.add(missed, max(d.covered+1, oldest), n.from-1)
	d.covered = n.to
}

// slackOf spreads over time when histories of one age move to new memory.
func slackOf(id targetID, window int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id.namespace + "/" + id.name))
	least := max(window/16, 1)
	return least + int(h.Sum32())&math.MaxInt32%least
}

// remember whose pods there are, while their usage may still be asked for.
func (d *demand) remember(now time.Time, v *view) {
	for _, p := range v.pods {
		if id, ok := v.targetOf(p); ok {
			d.recent[p.key] = podOwner{id, now}
		}
	}
	keep := time.Duration(d.cfg.NewestSteps)*d.cfg.Step + d.cfg.RateWindow
	for key, o := range d.recent {
		if now.Sub(o.seen) > keep {
			delete(d.recent, key)
		}
	}
}

// ownerOf finds a pod's target: by the owner it has or had, else by its name.
func (d *demand) ownerOf(key api.Key, v *view) (targetID, bool) {
	if p, ok := v.podByKey[key]; ok {
		id, ok := v.targetOf(p)
		return id, ok
	}
	id, ok := d.recent[key].target, d.recent[key].target.name != ""
	if !ok {
		id, ok = ownerByName(key.Namespace, key.Name)
	}
	if !ok {
		return id, false
	}
	_, managed := v.byTarget[id]
	return id, managed
}

// foldPod adds one pod's usage in reference millicores. A stream that names no
// node is of a second scraper when another one names it. Where the label is no
// node of ours (an address, say), the pod's own node tells the speed.
func (d *demand) foldPod(f *targetFolding, p *podRecord, streams []podStream, n newest, sp *speeds) {
	named := slices.ContainsFunc(streams, func(s podStream) bool { return s.node != "" })
	seen, used := make(map[int64]float64, n.to-n.from+1), map[int64]float64{}
	limited := p != nil && p.limitCPU > 0
	for _, s := range streams {
		node := s.node
		if node == "" && named {
			continue
		}
		if p != nil && !sp.knows(node) {
			node = p.pod.Node
		}
		speed := sp.of(node)
		d.prom.samples(s.values, n.from, n.to, func(step int64, v float64) {
			if usable(v) {
				seen[step] += v * 1000 * speed
				if limited {
					used[step] += v * 1000
				}
			}
		})
	}
	for step, v := range seen {
		i := step - f.from
		f.sum[i] += v
		f.pods[i]++
		if limited && used[step] >= atLimit*float64(p.limitCPU) {
			f.capped[i]++
		}
		if p != nil && countsAsReady(p) && expectedAt(d.grid, p, d.cfg.RateWindow, step) {
			f.readySum[i] += v
			f.seen[i]++
		}
	}
}

// atLimit is the share of its CPU limit from which on a pod's usage is what it was
// let have, not what it asked for: a quota is never used up to the last.
const atLimit = 0.95

func usable(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) && v >= 0 }

func countsAsReady(p *podRecord) bool { return p.pod.Ready && !p.pod.Terminating }

// expectedAt tells whether a pod must have a sample at a step: it was Ready
// for the whole window of the rate.
func expectedAt(g grid, p *podRecord, window time.Duration, step int64) bool {
	return !g.time(step).Before(p.pod.ReadyAt.Add(window))
}

// folding sums streams by target and step.
type folding struct {
	from, to int64
	targets  map[targetID]*targetFolding
}

// targetFolding has one element per step from from on.
type targetFolding struct {
	from     int64
	sum      []float64 // of all pods
	pods     []int32   // in sum
	readySum []float64 // of the pods that must be there
	seen     []int32   // in readySum
	expected []int32   // that must be there
	capped   []int32   // in sum, at their CPU limit
}

func newFolding(from, to int64) *folding {
	return &folding{from, to, map[targetID]*targetFolding{}}
}

func (f *folding) of(id targetID) *targetFolding {
	t, ok := f.targets[id]
	if !ok {
		n := f.to - f.from + 1
		t = &targetFolding{
			from: f.from, sum: make([]float64, n), pods: make([]int32, n),
			readySum: make([]float64, n), seen: make([]int32, n), expected: make([]int32, n), capped: make([]int32, n),
		}
		f.targets[id] = t
	}
	return t
}

func (t *targetFolding) expect(g grid, p *podRecord, window time.Duration) {
	for i := range t.expected {
		if expectedAt(g, p, window, t.from+int64(i)) {
			t.expected[i]++
		}
	}
}

// store writes the sums to the history and returns the coverage of the newest
// step. Where some of the Ready pods are missing, but no more than half, they
// are taken to use what the others do; a sample of fewer is a gap. No pod at
// all is a gap as well: nobody was there to show demand.
func (t *targetFolding) store(h *history) coverage {
	for i := range t.sum {
		if t.pods[i] == 0 {
			continue
		}
		value := t.sum[i]
		if missing := t.expected[i] - t.seen[i]; missing > 0 {
			if 2*t.seen[i] < t.expected[i] || t.seen[i] == 0 {
				continue
			}
			value += t.readySum[i] / float64(t.seen[i]) * float64(missing)
		}
		h.set(t.from+int64(i), value)
		if 2*t.capped[i] >= t.pods[i] {
			h.bound(t.from + int64(i))
		}
	}
	last := len(t.sum) - 1
	return coverage{seen: t.seen[last], expected: t.expected[last]}
}

// low tells whether too few of the Ready pods were seen.
func (c coverage) low(least float64) bool {
	return c.expected > 0 && float64(c.seen) < least*float64(c.expected)
}

// series hands out a target's history, and whether its newest part can be
// acted on.
func (d *demand) series(now time.Time, id targetID) (s api.Series, stale bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.histories[id]
	if h == nil {
		return api.Series{Step: d.grid.step}, true
	}
	s = h.series(d.grid)
	_, at, ok := s.Last()
	if !ok || now.Sub(at) > d.cfg.StaleAfter || d.partial[id].low(d.cfg.MinCoverage) {
		return s, true
	}
	newestPart := d.grid.at(now.Add(-d.cfg.EvaluationDelay))
	return s, h.gaps(newestPart-2*int64(d.cfg.StaleAfter/d.cfg.Step), newestPart-1) > 0.5
}
