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
	// order of the pods is that of the answers, so that sums don't depend on chance; streams
	// are those of each.
	order    []api.Key
	streams  [][]podStream
	warnings []string
	err      error
}

// fetch asks for the steps since the last answer and a few before, of a cluster with so
// many pods. It only reads, so that it can run beside other sources.
func (d *demandSource) fetch(ctx context.Context, now time.Time, namespaces []string, pods int) newest {
	to := d.grid.At(now.Add(-d.cfg.EvaluationDelay))
	if to <= d.covered || len(namespaces) == 0 {
		return newest{}
	}
	steps := max(int64(d.cfg.NewestSteps)/int64(d.parts.times()), int64(d.cfg.Overlap)+1)
	n := newest{asked: true, to: to, from: to - steps + 1}
	if d.covered != math.MinInt64 {
		n.from = max(n.from, d.covered+1-int64(d.cfg.Overlap))
	}
	n.parts = d.parts.count(pods, n.to-n.from+1, d.cfg.MaxResponseBytes)
	ctx, cancel := context.WithTimeout(ctx, min(time.Duration(n.parts), 2)*d.cfg.QueryTimeout)
	defer cancel()
	type stream struct {
		pod api.Key
		podStream
	}
	read, warnings := make([][]stream, n.parts), make([][]string, n.parts)
	group, ctx := errgroup.WithContext(ctx) // one part less is no answer
	group.SetLimit(partsAtOnce)
	for i := range n.parts {
		group.Go(func() error {
			query := d.prom.newestQuery(namespaces, partOfPods(i, n.parts)...)
			answer, err := d.prom.queryRange(ctx, query, n.from, n.to, d.cfg.QueryTimeout)
			warnings[i] = answer.warnings
			for _, s := range answer.series {
				if key := (api.Key{Namespace: string(s.Metric["namespace"]), Name: string(s.Metric["pod"])}); key.Name != "" {
					read[i] = append(read[i], stream{key, podStream{string(s.Metric[model.LabelName(d.cfg.NodeLabel)]), s.Values}})
				}
			}
			return err
		})
	}
	n.err = group.Wait()
	n.warnings = slices.Compact(slices.Sorted(slices.Values(slices.Concat(warnings...))))
	at := map[api.Key]int{}
	for _, part := range read {
		for i := range part {
			pod := part[i].pod
			k, known := at[pod]
			if known {
				n.streams[k] = append(n.streams[k], part[i].podStream)
				continue
			}
			at[pod] = len(n.order)
			n.order, n.streams = append(n.order, pod), append(n.streams, []podStream{part[i].podStream})
		}
	}
	return n
}

// A cycle's own query is asked in parts, each of some of the pods, so that an answer is no
// more than an eighth of what is read of any: what it becomes in memory is several times as
// much. Where Prometheus still takes too long, or says more, the next cycle asks for twice
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
