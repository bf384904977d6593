package gkesim

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// agenda is what is to happen and when. Entries of the same time happen in the
// order in which they were added.
type agenda struct {
	mu      sync.Mutex
	entries entries
	seq     uint64
	changed chan struct{} // holds a token when entries were added
}

type entry struct {
	at  time.Time
	seq uint64
	do  func(context.Context)
}

func newAgenda() *agenda { return &agenda{changed: make(chan struct{}, 1)} }

func (a *agenda) add(at time.Time, do func(context.Context)) {
	a.mu.Lock()
	a.seq++
	heap.Push(&a.entries, entry{at: at, seq: a.seq, do: do})
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// next returns when the first entry is due.
func (a *agenda) next() (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.entries) == 0 {
		return time.Time{}, false
	}
	return a.entries[0].at, true
}

// runDue does what is due at now, one entry after the other.
func (a *agenda) runDue(ctx context.Context, now time.Time) {
	for ctx.Err() == nil {
		a.mu.Lock()
		if len(a.entries) == 0 || a.entries[0].at.After(now) {
			a.mu.Unlock()
			return
		}
		e := heap.Pop(&a.entries).(entry)
		a.mu.Unlock()
		e.do(ctx)
	}
}

type entries []entry

func (h entries) Len() int { return len(h) }
func (h entries) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].seq < h[j].seq
}
func (h entries) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *entries) Push(x any)   { *h = append(*h, x.(entry)) }
func (h *entries) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = entry{}
	*h = old[:len(old)-1]
	return e
}
