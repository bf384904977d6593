package sensing

import (
	"hash/fnv"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/mash2-io/mash2/api"
	"github.com/mash2-io/mash2/demand"
)

// demandSource keeps the demand history of every target. The newest steps are asked
// for by the cycle itself; older ones by a [backfill] in the background.
type demandSource struct {
	prom *prometheus
	cfg  Config
	grid demand.Grid

	// mu guards what the background touches as well.
	mu        sync.Mutex
	histories map[targetID]*demand.History
	backfill  *backfill
	past      *past
	// reading is closed when the background has ended; nil while it rests.
	reading chan struct{}

	covered int64 // newest step that an answer covered
	parts   parts
	health  api.SourceHealth
	// recent remembers whose pods were, for those that are gone. Was is the last view's.
	recent map[api.Key]podOwner
	was    struct {
		pods  []*podRecord
		ofPod []targetID
		at    time.Time
	}
	// partial is how much of a target the newest answer lacked.
	partial map[targetID]demand.Coverage
	// copies are the most pods that a target may have had.
	copies map[targetID]int32
}

type podOwner struct {
	target targetID
	seen   time.Time
	pod    demand.Pod // as it was seen last, not Ready any more
}

func newDemand(cfg Config) (*demandSource, error) {
	prom, err := newPrometheus(cfg)
	if err != nil {
		return nil, err
	}
	d := &demandSource{
		prom:      prom,
		cfg:       cfg,
		grid:      demand.Grid{Step: cfg.Step},
		histories: map[targetID]*demand.History{},
		recent:    map[api.Key]podOwner{},
		partial:   map[targetID]demand.Coverage{},
		copies:    map[targetID]int32{},
		covered:   math.MinInt64,
	}
	d.backfill, d.past = newBackfill(d, prom), newPast(d)
	return d, nil
}

// fold adds an answer to the histories of the targets and asks the background
// for what it didn't reach.
func (d *demandSource) fold(now time.Time, n newest, v *view, sp *speeds) {
	d.remember(now, v)
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.histories {
		if _, ok := v.byTarget[id]; !ok {
			delete(d.histories, id)
			delete(d.partial, id)
			delete(d.copies, id)
		}
	}
	if !n.asked {
		return
	}
	if n.err != nil {
		d.health.Reachable, d.health.Error = false, n.err.Error()+d.parts.failed(n)
		return
	}
	d.parts.held()
	d.health = api.SourceHealth{Reachable: true, LastOK: now}

	sums := newFoldings(d.grid, d.cfg.RateWindow, n.from, n.to)
	used := make([]podSample, n.to-n.from+1)
	var streams []podStream
	for i := range n.streams {
		s := &n.streams[i]
		if s.later {
			continue
		}
		if id, p, ok := d.ownerOf(s, v); ok {
			streams = n.of(i, streams)
			d.foldPod(sums.of(id), s.pod, p, streams, n, sp, used)
		}
	}
	for i, p := range v.pods {
		if id := v.ofPod[i]; id != (targetID{}) && countsAsReady(p) {
			sums.of(id).Expect(measuredPod(p, 0, d.cfg.RateWindow))
		}
	}
	oldest := n.to - int64(d.cfg.steps()) + 1
	unread := map[targetID]bool{} // targets first seen now
	missed := map[targetID]bool{} // targets known before an outage
	for id, r := range v.byTarget {
		d.copies[id] = max(r.workload.MaxReplicas, v.replicasOf(id), int32(len(v.members[id])), 1)
		h := d.histories[id]
		if h == nil {
			h = demand.NewHistory(d.cfg.steps(), slackOf(id, d.cfg.steps()))
			d.histories[id] = h
			unread[id] = true
		} else {
			missed[id] = true
		}
		d.partial[id] = sums.of(id).Store(h)
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

// remember whose pods there were, while their usage may still be asked for.
func (d *demandSource) remember(now time.Time, v *view) {
	for i, p := range d.was.pods {
		if id := d.was.ofPod[i]; id != (targetID{}) {
			if _, there := v.podAt.of(p.key); !there {
				pod := measuredPod(p, 0, d.cfg.RateWindow)
				pod.Ready = false
				d.recent[p.key] = podOwner{id, d.was.at, pod}
			}
		}
	}
	d.was.pods, d.was.ofPod, d.was.at = v.pods, v.ofPod, now
	keep := time.Duration(d.cfg.NewestSteps)*d.cfg.Step + d.cfg.RateWindow
	for key, o := range d.recent {
		if now.Sub(o.seen) > keep {
			delete(d.recent, key)
		}
	}
}

// ownerOf finds a stream's pod, nil if it is gone, and its target: by the owner it has or had,
// else by its name.
func (d *demandSource) ownerOf(s *podStream, v *view) (targetID, *podRecord, bool) {
	if s.of >= 0 {
		id := v.ofPod[s.of]
		return id, v.pods[s.of], id != (targetID{})
	}
	id, managed := d.ownerOfGone(s.pod, v)
	return id, nil, managed
}

func (d *demandSource) ownerOfGone(key api.Key, v *view) (targetID, bool) {
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
// node of ours (an address, say), the pod's own node tells the speed. Used is scratch space,
// a sample per step.
func (d *demandSource) foldPod(f *demand.Folding, key api.Key, p *podRecord, streams []podStream, n newest, sp *speeds, used []podSample) {
	named := slices.ContainsFunc(streams, func(s podStream) bool { return s.node != "" })
	clear(used)
	var room int64 // of the largest node it ran on
	for _, s := range streams {
		node := s.node
		if node == "" && named {
			continue
		}
		if p != nil && !sp.knows(node) {
			node = p.pod.Node
		}
		speed := sp.of(node)
		room = max(room, sp.roomOf(node))
		d.prom.samples(s.values, n.from, n.to, func(step int64, v float64) {
			if v == v && v >= 0 {
				at := &used[step-n.from]
				at.known, at.measured, at.reference = true, at.measured+v*1000, at.reference+v*1000*speed
			}
		})
	}
	pod := measuredPod(p, room, d.cfg.RateWindow)
	if p == nil {
		pod = d.recent[key].pod
		pod.Most = demand.Burnable(0, room)
	}
	for i, v := range used {
		if v.known {
			f.Add(pod, n.from+int64(i), v.measured, v.reference)
		}
	}
}

// podSample is what a pod used at a step, millicores as measured and reference ones.
type podSample struct {
	known               bool
	measured, reference float64
}

// measuredPod is what is known of a pod for samples that are means over a window; room is the
// allocatable CPU of its node, millicores, 0 if that is not known.
func measuredPod(p *podRecord, room int64, window time.Duration) demand.Pod {
	if p == nil {
		return demand.Pod{}
	}
	limit := p.limitCPU
	if p.resized { // up to now it may have had another
		limit = 0
	}
	out := demand.Pod{
		Ready: countsAsReady(p), ReadyAt: p.pod.ReadyAt, Limit: p.limitCPU,
		Most: demand.Burnable(limit, room), New: p.started,
	}
	if p.starting > 0 {
		out.Starting = time.Unix(p.starting, 0)
		if p.ran { // what it served before is in its samples for a window
			out.Starting = out.Starting.Add(window)
		}
	}
	return out
}

func countsAsReady(p *podRecord) bool { return p.pod.Ready && !p.pod.Terminating }

// foldings of targets over the same steps.
type foldings struct {
	grid     demand.Grid
	window   time.Duration
	from, to int64
	targets  map[targetID]*demand.Folding
}

func newFoldings(g demand.Grid, window time.Duration, from, to int64) *foldings {
	return &foldings{g, window, from, to, map[targetID]*demand.Folding{}}
}

func (f *foldings) of(id targetID) *demand.Folding {
	t, ok := f.targets[id]
	if !ok {
		t = demand.NewFolding(f.grid, f.window, f.from, f.to)
		f.targets[id] = t
	}
	return t
}

// series hands out a target's history and the coverage of its newest sample.
func (d *demandSource) series(id targetID) (api.Series, demand.Coverage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.histories[id]
	if h == nil {
		return api.Series{Step: d.grid.Step}, demand.Coverage{}
	}
	return h.Series(d.grid), d.partial[id]
}
