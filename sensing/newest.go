package sensing

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	"github.com/mash2-io/mash2/api"
)

// newest is the cycle's own query, before it is folded into histories.
type newest struct {
	asked    bool
	from, to int64
	parts    int // that it was asked in
	// streams in the order of the answers. First is where each pod's first one is, and 1, 0
	// without; gone are the first ones of pods that are not there.
	streams  []podStream
	first    []int32
	gone     []int32
	nodes    []string // that streams are of
	warnings []string
	err      error
}

// podStream is a pod's usage on one node.
type podStream struct {
	pod    api.Key // if it is gone
	node   int32   // in the answer's nodes
	values []model.SamplePair
	// of is where the pod is in the view, negative if it is gone.
	of int32
	// next is where the pod's next stream is, 0 if there is none.
	next int32
}

// fetch asks for the steps since the last answer and a few before. It only reads, so that it
// can run beside other sources.
func (d *demandSource) fetch(ctx context.Context, now time.Time, namespaces []string, v *view) newest {
	to, covered := d.grid.At(now.Add(-d.cfg.EvaluationDelay)), d.covered
	if to < covered-int64(d.cfg.NewestSteps) { // the clock was ahead
		covered = math.MinInt64
	}
	if to <= covered || len(namespaces) == 0 {
		return newest{}
	}
	steps := max(int64(d.cfg.NewestSteps)/int64(d.parts.times()), int64(d.cfg.Overlap)+1)
	n := newest{asked: true, to: to, from: to - steps + 1}
	if covered != math.MinInt64 {
		n.from = max(n.from, covered+1-int64(d.cfg.Overlap))
	}
	n.parts = d.parts.count(len(v.pods), n.to-n.from+1, d.cfg.MaxResponseBytes)
	ctx, cancel := context.WithTimeout(ctx, min(time.Duration(n.parts), 2)*d.cfg.QueryTimeout)
	defer cancel()
	read, warnings := make([]streams, n.parts), make([][]string, n.parts)
	group, ctx := errgroup.WithContext(ctx) // one part less is no answer
	group.SetLimit(partsAtOnce)
	for i := range n.parts {
		group.Go(func() error {
			return d.cfg.guarded("the usage of pods", api.Key{}, func() error {
				query := d.prom.newestQuery(namespaces, partOfPods(i, n.parts)...)
				read[i] = streams{view: v, nodes: map[string]int32{}, read: make([]podStream, 0, len(v.pods)/n.parts)}
				answer, err := d.prom.queryRange(reading(ctx, reader{
					labels: []string{"namespace", "pod", d.cfg.NodeLabel}, take: read[i].take,
				}), query, n.from, n.to, d.cfg.QueryTimeout)
				warnings[i] = answer.warnings
				return err
			})
		})
	}
	n.err = group.Wait()
	n.warnings = slices.Compact(slices.Sorted(slices.Values(slices.Concat(warnings...))))
	for i := range read {
		for at := range read[i].read {
			read[i].read[at].node += int32(len(n.nodes))
		}
		n.nodes = append(n.nodes, read[i].names...)
		n.streams = append(n.streams, read[i].read...)
		read[i].read = nil
	}
	n.link(len(v.pods))
	return n
}

// streams are those of a part of an answer.
type streams struct {
	view    *view
	nodes   map[string]int32 // where the names are that were seen
	names   []string
	samples []model.SamplePair // room for those to come
	read    []podStream
}

// take keeps one of the answer.
func (p *streams) take(s series) {
	if len(s.labels[1]) == 0 {
		return
	}
	var stream podStream
	var ok bool
	if stream.of, ok = p.view.podAt.find(s.labels[0], s.labels[1]); !ok {
		stream.pod = api.Key{Namespace: string(s.labels[0]), Name: string(s.labels[1])}
	}
	node, ok := p.nodes[string(s.labels[2])]
	if !ok {
		node = int32(len(p.names))
		p.names = append(p.names, string(s.labels[2]))
		p.nodes[p.names[node]] = node
	}
	stream.node = node
	if len(p.samples) < len(s.values) {
		p.samples = make([]model.SamplePair, max(4096, len(s.values)))
	}
	n := copy(p.samples, s.values)
	stream.values, p.samples = p.samples[:n:n], p.samples[n:]
	p.read = append(p.read, stream)
}

// link finds the streams that are of one pod.
func (n *newest) link(pods int) {
	n.first = make([]int32, pods)
	gone := map[api.Key]int32{}
	for i := len(n.streams) - 1; i >= 0; i-- {
		s := &n.streams[i]
		if s.of >= 0 {
			s.next, n.first[s.of] = max(0, n.first[s.of]-1), int32(i)+1
		} else {
			s.next, gone[s.pod] = max(0, gone[s.pod]-1), int32(i)+1
		}
	}
	for _, first := range gone {
		n.gone = append(n.gone, first-1)
	}
	slices.Sort(n.gone)
}

// of are the streams of the pod of the first of them, which are put into room.
func (n *newest) of(first int32, room []podStream) []podStream {
	room = append(room[:0], n.streams[first])
	for i := n.streams[first].next; i > 0; i = n.streams[i].next {
		room = append(room, n.streams[i])
	}
	return room
}

// A cycle's own query is asked in parts, each of some of the pods, so that an answer is no
// more than an eighth of what is read of any, and comes soon. Where Prometheus still takes too long, or says more, the next cycle asks for twice
// as many parts, and for fewer steps, which moves on what is covered; the background reads
// the rest. After enough good cycles it is half as many again, and as few as can be after the
// most were too much.
type parts struct {
	finer int // times as many as their size alone asks for, less 1
	good  int // cycles in a row
}

const (
	partsAtOnce = 2
	// goodCycles are an hour of 15 s.
	goodCycles = 240
	// What an answer has of a pod and of a sample, bytes.
	bytesOfPod    = 200
	bytesOfSample = 32
	// endings of the names that a ReplicaSet gives its pods.
	endings = "bcdfghjklmnpqrstvwxz2456789"
)

func (p *parts) times() int { return p.finer + 1 }

// count is in how many parts so many pods are asked for.
func (p *parts) count(pods int, steps, most int64) int {
	bytes := int64(pods) * (bytesOfPod + bytesOfSample*steps)
	whole := int(bytes/max(most/8, 1)) + 1
	return min(whole*p.times(), len(endings))
}

// failed notes that an answer was not read, and says what follows.
func (p *parts) failed(n newest) string {
	p.good = 0
	switch {
	case classify(n.err) != tooMuch:
		return ""
	case n.parts >= len(endings):
		p.finer = 0 // many parts take longer together than few
		return fmt.Sprintf("; it was asked in %s, and is asked in as few as can be the next time", partsText(n.parts))
	}
	p.finer = 2*p.times() - 1
	return fmt.Sprintf("; it was asked in %s and is asked in more the next time", partsText(n.parts))
}

// held notes that all answers were read.
func (p *parts) held() {
	if p.good++; p.good >= goodCycles {
		p.finer, p.good = max(p.times()/2-1, 0), 0
	}
}

func partsText(n int) string {
	if n == 1 {
		return "one part"
	}
	return fmt.Sprintf("%d parts", n)
}

// partOfPods matches the pods of part i of n: by how their names end. The last part has
// all others.
func partOfPods(i, n int) []string {
	bound := func(i int) int { return i * len(endings) / n }
	switch {
	case n == 1:
		return nil
	case i == n-1:
		return []string{fmt.Sprintf("pod!~%q", ".*["+endings[:bound(i)]+"]")}
	}
	return []string{fmt.Sprintf("pod=~%q", ".*["+endings[bound(i):bound(i+1)]+"]")}
}
