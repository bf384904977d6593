package sim

import (
	"container/heap"
	"time"
)

// kernel runs events in order of time, then of when they were made.
type kernel struct {
	now    time.Duration
	serial uint64
	queue  events
	// before runs ahead of each event, with the time it happens at.
	before func(time.Duration)
}

type event struct {
	at     time.Duration
	serial uint64
	do     func()
}

// at schedules do; a time that has passed is now.
func (k *kernel) at(t time.Duration, do func()) {
	k.serial++
	heap.Push(&k.queue, event{max(t, k.now), k.serial, do})
}

// after schedules do d from now.
func (k *kernel) after(d time.Duration, do func()) { k.at(k.now+d, do) }

// every runs do at first and then each period, for as long as do returns true.
func (k *kernel) every(first, period time.Duration, do func() bool) {
	k.at(first, func() {
		if do() {
			k.every(k.now+period, period, do)
		}
	})
}

// run lets everything happen up to and including time to.
func (k *kernel) run(to time.Duration) {
	for len(k.queue) > 0 && k.queue[0].at <= to {
		e := heap.Pop(&k.queue).(event)
		k.now = e.at
		k.before(e.at)
		e.do()
	}
	k.now = to
	k.before(to)
}

type events []event

func (q events) Len() int { return len(q) }

func (q events) Less(i, j int) bool {
	if q[i].at != q[j].at {
		return q[i].at < q[j].at
	}
	return q[i].serial < q[j].serial
}

func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *events) Push(x any) { *q = append(*q, x.(event)) }

func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}
