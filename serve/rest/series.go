package rest

import (
	"time"
)

// point is what one cycle knew of a workload, or of all of them; NaN where nothing was
// known.
type point struct {
	at     int64 // Unix seconds
	values [columns]float32
}

// Columns of a point.
const (
	demandColumn = iota // reference millicores
	peakColumn          // of the planned peak
	replicasColumn
	readyColumn
	plannedColumn
	floorColumn
	hpaColumn // replicas of the stock HPA, estimated
	columns
)

// history is a series of points in bounded memory: the newest ones as they were, older
// ones thinned out so that all time since the first one is covered.
type history struct {
	fine, coarse []point
	size         int // of either
	every        int // one of so many points is kept in coarse
	seen         int
}

func newHistory(size int) *history { return &history{size: size, every: 1} }

func (h *history) add(p point) {
	if len(h.fine) == h.size {
		copy(h.fine, h.fine[1:])
		h.fine = h.fine[:h.size-1]
	}
	h.fine = append(h.fine, p)
	if h.seen%h.every == 0 {
		h.coarse = append(h.coarse, p)
	}
	h.seen++
	if len(h.coarse) == h.size {
		for i := range h.size / 2 {
			h.coarse[i] = h.coarse[2*i]
		}
		h.coarse = h.coarse[:h.size/2]
		h.every *= 2
	}
}

// points are all there are, in order of time.
func (h *history) points() []point {
	var out []point
	from := h.fine[0].at
	for _, p := range h.coarse {
		if p.at < from {
			out = append(out, p)
		}
	}
	return append(out, h.fine...)
}

// Series is a workload's recent past. Columns are parallel to Times.
type Series struct {
	Times []int64 `json:"times"` // Unix seconds, increasing
	// Demand and the planned peak, reference millicores; null where not known.
	Demand []*float32 `json:"demand"`
	Peak   []*float32 `json:"peak"`
	// Replicas that the target asked for and that were Ready, planned, and at least by
	// the reactive rule.
	Replicas []*float32 `json:"replicas"`
	Ready    []*float32 `json:"ready"`
	Planned  []*float32 `json:"planned"`
	Floor    []*float32 `json:"floor"`
	// HPA is how many the stock HPA would have: an estimate.
	HPA []*float32 `json:"hpa"`
}

// noSeries is that of a workload which no plan has spoken of.
func noSeries() Series {
	none := []*float32{}
	return Series{Times: []int64{}, Demand: none, Peak: none, Replicas: none, Ready: none, Planned: none, Floor: none, HPA: none}
}

// series are the points from a time on.
func (h *history) series(from time.Time) Series {
	s := Series{Times: []int64{}}
	out := [columns][]*float32{}
	for i := range out {
		out[i] = []*float32{}
	}
	for _, p := range h.points() {
		if p.at < from.Unix() {
			continue
		}
		s.Times = append(s.Times, p.at)
		for i, v := range p.values {
			if v != v {
				out[i] = append(out[i], nil)
				continue
			}
			out[i] = append(out[i], &v)
		}
	}
	s.Demand, s.Peak, s.Replicas, s.Ready = out[demandColumn], out[peakColumn], out[replicasColumn], out[readyColumn]
	s.Planned, s.Floor, s.HPA = out[plannedColumn], out[floorColumn], out[hpaColumn]
	return s
}
