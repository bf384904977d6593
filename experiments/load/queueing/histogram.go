package queueing

import (
	"math"
	"time"
)

// Histogram counts latencies in buckets whose bounds grow by 1/64 each from
// 10 µs on: a quantile is exact to 0.8 %. The zero value is empty.
type Histogram struct {
	counts []uint64
	total  uint64
}

const (
	finest = 10 * time.Microsecond
	growth = 1 + 1.0/64
)

var (
	logFinest = math.Log(finest.Seconds())
	perGrowth = 1 / math.Log(growth)
)

// Record counts one latency.
func (h *Histogram) Record(d time.Duration) { h.RecordLog(math.Log(d.Seconds()), 1) }

// RecordLog counts n times the latency whose seconds have this natural logarithm.
func (h *Histogram) RecordLog(log float64, n uint64) {
	i := 0
	if log > logFinest {
		i = 1 + int((log-logFinest)*perGrowth)
	}
	h.reach(i + 1)
	h.counts[i] += n
	h.total += n
}

// reach makes room for so many buckets, and for some more.
func (h *Histogram) reach(buckets int) {
	switch {
	case buckets <= len(h.counts):
	case buckets <= cap(h.counts):
		h.counts = h.counts[:buckets]
	default:
		counts := make([]uint64, buckets, (buckets+127)/64*64)
		copy(counts, h.counts)
		h.counts = counts
	}
}

// Cleared is an empty histogram with the memory of h, which is then lost.
func (h Histogram) Cleared() Histogram {
	clear(h.counts)
	return Histogram{counts: h.counts[:0]}
}

// Add merges another histogram into h.
func (h *Histogram) Add(o Histogram) {
	h.reach(len(o.counts))
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.total += o.total
}

// Count is the number of latencies recorded.
func (h Histogram) Count() uint64 { return h.total }

// Quantile is the least latency that a share q (0–1) of those recorded does not
// exceed, to the middle of its bucket; false when nothing was recorded.
func (h Histogram) Quantile(q float64) (time.Duration, bool) {
	if h.total == 0 {
		return 0, false
	}
	rank := uint64(math.Ceil(q * float64(h.total)))
	rank = min(max(rank, 1), h.total)
	var seen uint64
	for i, c := range h.counts {
		if seen += c; seen >= rank {
			if i == 0 {
				return finest, true
			}
			return time.Duration(float64(finest) * math.Pow(growth, float64(i)-0.5)), true
		}
	}
	return 0, false
}
