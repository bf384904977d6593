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
	// recent remembers whose pods were, for those that are gone. Was is the last view, of a time.
	recent map[api.Key]podOwner
	was    *view
	wasAt  time.Time
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
		if v.managed[id] == nil {
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

	sums := make([]*demand.Folding, len(v.managed)) // by index
	for i := range sums {
		sums[i] = demand.NewFolding(d.grid, d.cfg.RateWindow, n.from, n.to)
	}
	nodes := make([]measuredNode, len(n.nodes))
	used := make([]podSample, n.to-n.from+1)
	var streams []podStream
	for i, p := range v.pods {
		of := v.ofPod[i]
		if of == nil {
			continue
		}
		if countsAsReady(p) {
			sums[of.index].Expect(measuredPod(p, 0, d.cfg.RateWindow))
		}
		if first := n.first[i]; first > 0 {
			streams = n.of(first-1, streams)
			d.foldPod(sums[of.index], api.Key{}, p, streams, n, nodes, sp, used)
		}
	}
	for _, first := range n.gone {
		pod := n.streams[first].pod
		if of := d.ownerOfGone(pod, v); of != nil {
			streams = n.of(first, streams)
			d.foldPod(sums[of.index], pod, nil, streams, n, nodes, sp, used)
		}
	}
	oldest := n.to - int64(d.cfg.steps()) + 1
	unread := map[targetID]bool{} // targets first seen now
	missed := map[targetID]bool{} // targets known before an outage
	for id, m := range v.managed {
		d.copies[id] = max(m.first.workload.MaxReplicas, v.replicasOf(id), int32(len(m.pods)), 1)
		h := d.histories[id]
		if h == nil {
			h = demand.NewHistory(d.cfg.steps(), slackOf(id, d.cfg.steps()))
			d.histories[id] = h
			unread[id] = true
		} else {
			missed[id] = true
		}
		d.partial[id] = sums[m.index].Store(h)
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
	if was := d.was; was != nil {
		for i, p := range was.pods {
			if of := was.ofPod[i]; of != nil && !v.still(p) {
				pod := measuredPod(p, 0, d.cfg.RateWindow)
				pod.Ready = false
				d.recent[p.key] = podOwner{of.id, d.wasAt, pod}
			}
		}
	}
	d.was, d.wasAt = v, now
	keep := time.Duration(d.cfg.NewestSteps)*d.cfg.Step + d.cfg.RateWindow
	for key, o := range d.recent {
		if now.Sub(o.seen) > keep {
			delete(d.recent, key)
		}
	}
}

// ownerOfGone finds the target of a pod that is gone, nil if it has none that is managed: by
// the owner it had, else by its name.
func (d *demandSource) ownerOfGone(pod api.Key, v *view) *managedTarget {
	id := d.recent[pod].target
	if id.name == "" {
		var ok bool
		if id, ok = ownerByName(pod.Namespace, pod.Name); !ok {
			return nil
		}
	}
	return v.managed[id]
}

// foldPod adds the usage of one pod, or of one that is gone by its key, in reference millicores. A stream that names no
// node is of a second scraper when another one names it. Where the label is no
// node of ours (an address, say), the pod's own node tells the speed. Used is scratch space,
// a sample per step.
func (d *demandSource) foldPod(f *demand.Folding, key api.Key, p *podRecord, streams []podStream, n newest, nodes []measuredNode, sp *speeds, used []podSample) {
	named := slices.ContainsFunc(streams, func(s podStream) bool { return n.nodes[s.node] != "" })
	clear(used)
	var room int64 // of the largest node it ran on
	for _, s := range streams {
		if n.nodes[s.node] == "" && named {
			continue
		}
		node := &nodes[s.node]
		node.look(n.nodes[s.node], sp)
		if p != nil && !node.known {
			node = &measuredNode{}
			node.look(p.pod.Node, sp)
		}
		speed := node.speedOf(sp)
		room = max(room, node.room)
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

// measuredNode is what is known of a node that an answer names, once it was looked up.
type measuredNode struct {
	name   string
	looked bool
	known  bool // a node of ours
	room   int64
	speed  float64 // 0 until it is asked for: what is not known of it is a finding
}

func (m *measuredNode) look(name string, sp *speeds) {
	if !m.looked {
		*m = measuredNode{name: name, looked: true, known: sp.knows(name), room: sp.roomOf(name)}
	}
}

func (m *measuredNode) speedOf(sp *speeds) float64 {
	if m.speed == 0 {
		m.speed = sp.of(m.name)
	}
	return m.speed
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
			out.Starting, out.Again = out.Starting.Add(window), true
		}
	}
	return out
}

func countsAsReady(p *podRecord) bool { return p.pod.Ready && !p.pod.Terminating }

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
